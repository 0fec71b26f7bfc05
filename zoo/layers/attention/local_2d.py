"""Local attention in two dimensions: a block of an image and the cells around it."""

import numpy as np
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.gathered import GatheredAttention
from zoo.layers.grid import Grid


@registry.attention.register("local_2d")
class Local2DAttention(GatheredAttention):
    """Scaled dot-product attention from each block of a grid to itself and the cells around it.

    The sequence visits the grid block by block, row by row within each (:class:`zoo.layers.grid.Grid`). A query sees
    its block and the cells up to ``memory_height`` above it and ``memory_width`` to its left and right; not causal,
    also as far below it. A causal one sees only what the sequence has visited by then.

        memory memory memory memory
        memory query  block  memory

    Args:
        columns: cells in a row of the grid; an image's colours are cells side by side.
        block_height, block_width: of a block of queries.
        memory_height, memory_width: how far around its block a query sees.

    Raises:
        InputError: a size is too small, or blocks don't fill a row.

    Reference:
        Parmar et al., 2018, "Image Transformer", section 3.3.
    """

    variants = (
        {},
        {"columns": 6, "block_height": 2, "block_width": 2, "memory_height": 1, "memory_width": 1},
        {"columns": 4, "block_height": 1, "block_width": 2, "memory_height": 2, "memory_width": 3},
    )

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        *,
        columns: int = 32,
        block_height: int = 8,
        block_width: int = 8,
        memory_height: int = 8,
        memory_width: int = 8,
        **kwargs,
    ):
        super().__init__(num_heads, head_dim, **kwargs)
        if min(memory_height, memory_width) < 0:
            raise InputError(f"a memory can't be {memory_height} by {memory_width}")
        self.grid = Grid(columns, block_height, block_width)
        self.memory_height = memory_height
        self.memory_width = memory_width

    def window(self, queries, keys):
        height, width = self.grid.block_height, self.grid.width
        (row, column), (key_row, key_column) = self.grid.cell(queries), self.grid.cell(keys)
        top, left = row // height * height, column // width * width  # of the query's block
        down = ops.logical_and(
            key_row >= top - self.memory_height, key_row < top + height + self.memory_height
        )  # a causal query has not seen what is below
        across = ops.logical_and(key_column >= left - self.memory_width, key_column < left + width + self.memory_width)
        return ops.logical_and(down, across)

    @property
    def reach(self) -> int:
        block_rows = -(-self.memory_height // self.grid.block_height)  # of blocks above that are seen in part
        blocks_back = block_rows * (self.grid.columns // self.grid.width)
        blocks_back += -(-self.memory_width // self.grid.width)
        return (blocks_back + 1) * self.grid.area - 1

    def blocks(self, length, xp):
        grid, up, side = self.grid, self.memory_height, self.memory_width
        count = -(-length // grid.area)
        queries = xp.reshape(xp.arange(count * grid.area, dtype="int32"), (-1, grid.area))
        top, left = grid.cell(queries[:, :1])  # (C, 1)
        down = 0 if self.causal else up
        around = np.mgrid[-up : grid.block_height + down, -side : grid.width + side].astype("int32")
        rows, columns = around.reshape(2, 1, -1)
        rows, columns = top + rows, left + columns  # (C, K)
        keys = grid.position(rows, columns)
        inside = xp.logical_and(rows >= 0, keys < length)
        inside = xp.logical_and(inside, xp.logical_and(columns >= 0, columns < grid.columns))
        return xp.where(queries < length, queries, -1), xp.where(inside, keys, -1)
