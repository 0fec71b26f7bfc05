"""Local attention in one dimension: blocks that see themselves and their neighbours."""

from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.base import lengthened
from zoo.layers.attention.heads import compare, softmax_mean
from zoo.layers.attention.windowed import WindowedAttention

#: Queries of a causal block that are taken at a time: with fewer, less is computed that is masked, in more products.
QUERIES = 128


@registry.attention.register("local")
class LocalAttention(WindowedAttention):
    """Scaled dot-product attention within blocks of the sequence and their neighbours, at a cost linear in its length.

    A bias or a mask for each query is a square to begin with, of which it takes what it needs.

    A causal query sees its own block up to itself and the block before; another one its own block and both
    neighbours. A sequence need not be a multiple of the block.

    Args:
        block_length: positions in a block.
        sliding: a query sees exactly the keys less than ``block_length`` away, wherever its block ends.

    Raises:
        InputError: ``block_length`` is below 1.

    Reference:
        Parmar et al., 2018, "Image Transformer", section 3.3; Liu et al., 2018, "Generating Wikipedia by
        Summarizing Long Sequences", section 4.2.4; Beltagy et al., 2020, "Longformer", section 3.1, for ``sliding``.
    """

    variants = ({}, {"block_length": 4}, {"block_length": 4, "sliding": True})

    def __init__(self, num_heads: int, head_dim: int, *, block_length: int = 128, sliding: bool = False, **kwargs):
        super().__init__(num_heads, head_dim, **kwargs)
        if block_length < 1:
            raise InputError(f"block_length must be at least 1, not {block_length}")
        self.block_length = block_length
        self.sliding = sliding

    def window(self, queries, keys):
        if self.sliding:
            return ops.less(ops.abs(queries - keys), self.block_length)
        blocks = ops.floor_divide(queries, self.block_length) - ops.floor_divide(keys, self.block_length)
        return ops.less_equal(ops.abs(blocks), 1)

    @property
    def reach(self) -> int:
        return self.block_length - 1 if self.sliding else 2 * self.block_length - 1

    def attend_in_blocks(self, q, k, v, *, mask, bias, training):
        length = ops.shape(q)[1]
        blocks = _Blocks(length, self.block_length, sides=1 if self.causal else 2)
        q = blocks.cut(q * self.head_dim**-0.5)  # (B, C, block, N, H)
        k, v = blocks.with_neighbours(blocks.cut(k)), blocks.with_neighbours(blocks.cut(v))  # (B, C, keys, N, H)
        mask = ops.expand_dims(self._mask(blocks, mask), 2)
        bias = None if bias is None else blocks.pairs(bias)
        contexts = []
        for first, end, near, far in self._parts(blocks):
            part = None if bias is None else bias[..., first:end, near:far]
            logits = compare(q[:, :, first:end], k[:, :, near:far])
            seen, values = mask[..., first:end, near:far], v[:, :, near:far]
            contexts.append(softmax_mean(logits, values, seen, part, dropout=self.dropout_layer, training=training))
        context = contexts[0] if len(contexts) == 1 else ops.concatenate(contexts, axis=2)
        return ops.reshape(context, (-1, blocks.count * blocks.size, self.num_heads, self.head_dim))[:, :length]

    def any_in_blocks(self, mask, length):
        blocks = _Blocks(length, self.block_length, sides=1 if self.causal else 2)
        seen = ops.any(self._mask(blocks, mask), axis=-1)  # (B, C, block)
        return ops.reshape(seen, (-1, blocks.count * blocks.size))[:, :length]

    def _parts(self, blocks):
        """Parts of a block's queries, first to end, and those keys of theirs, near to far, that any of them sees."""
        keys = blocks.size * len(blocks.offsets)
        if not self.causal or blocks.alone or blocks.size < 2 * QUERIES:
            return [(0, blocks.size, 0, keys)]
        starts = range(0, blocks.size, QUERIES)
        parts = [(first, min(first + QUERIES, blocks.size)) for first in starts]
        return [(first, end, first + 1 if self.sliding else 0, blocks.size + end) for first, end in parts]

    def _mask(self, blocks, mask):
        """(B or 1, C, block, keys): what the queries of each block may see of its keys."""
        queries, keys = blocks.positions()  # of the first block; the pattern is the same in all
        pattern = self.seen(ops.expand_dims(queries, 1), ops.expand_dims(keys, 0))
        there = ops.expand_dims(ops.expand_dims(blocks.inside(), 0), 2)  # (1, C, 1, keys)
        seen = ops.logical_and(pattern, there)
        if mask is None:
            return seen
        if mask.shape[2] == 1:  # one for all queries
            cut = blocks.with_neighbours(blocks.cut(ops.squeeze(mask, (1, 2))))
            return ops.logical_and(seen, ops.expand_dims(cut, 2))
        mask = ops.broadcast_to(mask, (ops.shape(mask)[0], 1, blocks.length, blocks.length))
        return ops.logical_and(seen, ops.squeeze(blocks.pairs(mask), 2))


class _Blocks:
    """A sequence cut into blocks, the last one padded, each with the keys of its neighbours.

    A sequence that fits into one block is a block of its own length, with no neighbours.

    Args:
        length: of the sequence, T: an int, or a scalar tensor.
        size: of a block.
        sides: 1, the block before, or 2, also the one after.
    """

    def __init__(self, length, size: int, sides: int):
        self.length = length
        self.alone = isinstance(length, int) and length <= size
        self.size = max(length, 1) if self.alone else size
        self.count = 1 if self.alone else -(-length // size)  # C
        self.offsets = (0,) if self.alone else (-1, 0, 1)[: sides + 1]

    def cut(self, x):
        """(B, T, ...) -> (B, C, block, ...)."""
        return ops.reshape(self._padded(x, 1), (-1, self.count, self.size, *ops.shape(x)[2:]))

    def with_neighbours(self, x):
        """(B, C, block, ...) -> (B, C, keys, ...)."""
        nothing = ops.zeros_like(x[:, :1])
        parts = {-1: lambda: ops.concatenate([nothing, x[:, :-1]], 1), 0: lambda: x}
        parts[1] = lambda: ops.concatenate([x[:, 1:], nothing], 1)
        return ops.concatenate([parts[offset]() for offset in self.offsets], axis=2)

    def pairs(self, x):
        """(B, N, T, T) -> (B, C, N, block, keys)."""
        x = self._padded(self._padded(x, 2), 3)
        heads = ops.shape(x)[1]
        x = ops.reshape(x, (-1, heads, self.count, self.size, self.count, self.size))
        x = ops.reshape(
            ops.transpose(x, (0, 2, 4, 1, 3, 5)), (-1, self.count * self.count, heads, self.size, self.size)
        )
        own = ops.arange(self.count, dtype="int32")
        neighbours = [own * self.count + ops.clip(own + offset, 0, self.count - 1) for offset in self.offsets]
        return ops.concatenate([ops.take(x, index, axis=1) for index in neighbours], axis=-1)

    def positions(self):
        """Positions of the queries and of the keys, those of the first block's neighbours included."""
        keys = ops.arange(self.size * len(self.offsets), dtype="int32") + self.offsets[0] * self.size
        return ops.arange(self.size, dtype="int32"), keys

    def inside(self):
        """(C, keys): whether there is a key, and not the padding of the last block or beyond either end."""
        starts = ops.expand_dims(ops.arange(self.count, dtype="int32") * self.size, 1)
        keys = starts + ops.expand_dims(self.positions()[1], 0)
        return ops.logical_and(keys >= 0, keys < self.length)

    def _padded(self, x, axis):
        return lengthened(x, axis, self.count * self.size - self.length)
