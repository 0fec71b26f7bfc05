"""Dilated attention in one dimension: every n-th key, n times as far."""

from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.gathered import GatheredAttention


@registry.attention.register("dilated")
class DilatedAttention(GatheredAttention):
    """Scaled dot-product attention to every n-th key on either side, at a cost linear in the length.

    Args:
        dilation: the stride n between the keys that a query sees, itself among them.
        window: how many there are on each side, the query counted: less than ``window * dilation`` away.

    Raises:
        InputError: an argument is below 1.

    Reference:
        Child et al., 2019, "Generating Long Sequences with Sparse Transformers", section 4.3, for strided heads;
        Beltagy et al., 2020, "Longformer", section 3.1, for dilated windows.
    """

    variants = ({}, {"dilation": 3, "window": 2})

    def __init__(self, num_heads: int, head_dim: int, *, dilation: int = 4, window: int = 32, **kwargs):
        super().__init__(num_heads, head_dim, **kwargs)
        if min(dilation, window) < 1:
            raise InputError(f"dilation and window must be at least 1, not {dilation} and {window}")
        self.dilation = dilation
        self.window_length = window

    def window(self, queries, keys):
        distance = ops.abs(queries - keys)
        return ops.logical_and(distance % self.dilation == 0, distance < self.window_length * self.dilation)

    @property
    def reach(self) -> int:
        return (self.window_length - 1) * self.dilation

    def blocks(self, length, xp):
        # The positions with one remainder are a sequence of their own, in which this is a sliding window.
        size = min(self.window_length, -(-length // self.dilation)) if isinstance(length, int) else self.window_length
        per_class = -(-length // (self.dilation * size))
        after = 1 if self.causal else 2
        remainder = xp.arange(self.dilation, dtype="int32")[:, None, None]
        first = xp.arange(per_class, dtype="int32")[None, :, None] * size  # of a block
        queries, keys = (
            xp.reshape(remainder + self.dilation * (first + xp.arange(start, end, dtype="int32")), (-1, end - start))
            for start, end in ((0, size), (-size, after * size))
        )
        keys = xp.where(xp.logical_or(keys < 0, keys >= length), -1, keys)
        return xp.where(queries < length, queries, -1), keys
