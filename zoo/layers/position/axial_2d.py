"""Positions on a grid: a vector for the row beside one for the column."""

import keras
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.grid import Grid
from zoo.layers.position.base import PlacedPosition
from zoo.layers.position.sinusoidal import sinusoids

BASE = 10000.0  #: Of the wavelengths, as published.


@registry.position.register("axial_2d")
class Axial2DPosition(PlacedPosition):
    """A vector for the row and one for the column of a cell, side by side, each half as wide as the model.

    The sequence visits the grid as :class:`zoo.layers.grid.Grid` says: row by row, or block by block for the
    attention kind "local_2d" with the same blocks.

    Args:
        columns: cells in a row.
        block_height, block_width: of the blocks; one whole row when left out.
        learned: learned vectors rather than sinusoids.
        rows: rows to learn a vector for; as many as ``max_length`` fills when None.
        base: of the sinusoids.

    Raises:
        InputError: the width does not divide into two even halves, blocks don't fill rows or columns, ``base`` is not
            above 0, ``rows`` without ``learned`` or ``base`` with it, fewer cells than ``randomized`` positions, or a
            call asks for more rows than were learned.

    Reference:
        Parmar et al., 2018, "Image Transformer", section 3.1, for both; Ho et al., 2019, "Axial Attention in
        Multidimensional Transformers", for learned ones.
    """

    stage = "embedding"

    variants = (
        {},
        {"randomized": 64, "spacing": 2},
        {"columns": 4, "block_height": 2, "block_width": 2},
        {"columns": 4, "learned": True},
    )

    def __init__(
        self,
        *,
        columns: int = 32,
        block_height: int = 1,
        block_width: int | None = None,
        learned: bool = False,
        rows: int | None = None,
        base: float = BASE,
        **sizes,
    ):
        super().__init__(**sizes)
        if self.width % 4:
            raise InputError(f"axial_2d positions need a width that 4 divides, not {self.width}")
        if base <= 0:
            raise InputError(f"the base of the wavelengths must be above 0, not {base}")
        if (rows is not None and not learned) or (learned and base != BASE):
            raise InputError("rows are of learned positions, and base is of sinusoids; leave out the other")
        self.grid = Grid(columns, block_height, block_width)
        self.learned = learned
        self.base = base
        if learned and rows is None:
            if self.max_length is None:
                raise InputError("learned rows need their number, rows, or max_length")
            # The sequence may end in any block of the last row of blocks.
            last = (self.randomized or self.max_length) - 1
            rows = (last // (columns * block_height) + 1) * block_height
        self.rows = rows
        if learned:
            if rows % block_height:
                raise InputError(f"blocks {block_height} high don't fill {rows} rows")
            self.require_room()
            if self.randomized is not None and self.randomized > rows * columns:
                raise InputError(f"{rows} rows of {columns} are fewer than the {self.randomized} randomized positions")

    @property
    def limit(self) -> int | None:
        return -(-self.rows * self.grid.columns // self.spacing) if self.learned else None

    def build(self, query_positions_shape=None, key_positions_shape=None):
        if self.learned:
            initializer = keras.initializers.RandomNormal(stddev=self.width**-0.5)
            half = self.width // 2
            self.row_table = self.add_weight(name="rows", shape=(self.rows, half), initializer=initializer)
            shape = (self.grid.columns, half)
            self.column_table = self.add_weight(name="columns", shape=shape, initializer=initializer)
        self.built = True

    def call(self, query_positions, key_positions=None):
        rows, columns = self.grid.cell(query_positions)
        if self.learned:
            of_rows = self.row_of(self.row_table, rows, query_positions, key_positions)
            parts = [of_rows, ops.take(self.column_table, columns, axis=0)]
        else:
            parts = [sinusoids(rows, self.width // 2, self.base), sinusoids(columns, self.width // 2, self.base)]
        return ops.cast(ops.concatenate(parts, axis=-1), self.compute_dtype)
