"""Grids in raster order, block by block: which cell a position of the sequence stands for."""

from dataclasses import dataclass

from zoo.errors import InputError


@dataclass(frozen=True)
class Grid:
    """A grid whose cells are visited block by block, and row by row within a block.

    With blocks of one whole row, the default, that is the raster order of an image.

    Attributes:
        columns: cells in a row. There are as many rows as a sequence fills.
        block_height, block_width: of a block, in cells; the width must divide ``columns``.

    Raises:
        InputError: a size is below 1, or blocks don't fill a row.

    Reference:
        Parmar et al., 2018, "Image Transformer", section 3.3.
    """

    columns: int
    block_height: int = 1
    block_width: int | None = None

    def __post_init__(self):
        width = self.columns if self.block_width is None else self.block_width
        if min(self.columns, self.block_height, width) < 1:
            raise InputError(f"a grid and its blocks need at least one cell, not {self}")
        if self.columns % width:
            raise InputError(f"blocks {width} wide don't fill rows of {self.columns} columns")

    @property
    def width(self) -> int:
        """Of a block."""
        return self.columns if self.block_width is None else self.block_width

    @property
    def area(self) -> int:
        """Cells in a block."""
        return self.block_height * self.width

    def cell(self, position):
        """Row and column of a position, or of an array or tensor of them."""
        block, inside = position // self.area, position % self.area
        blocks_in_row = self.columns // self.width
        row = (block // blocks_in_row) * self.block_height + inside // self.width
        return row, (block % blocks_in_row) * self.width + inside % self.width

    def position(self, row, column):
        """The position of a cell: the inverse of :meth:`cell`."""
        block = (row // self.block_height) * (self.columns // self.width) + column // self.width
        return block * self.area + (row % self.block_height) * self.width + column % self.width
