"""What the kinds share whose queries see only the keys near them."""

from keras import ops

from zoo.errors import MissingMethodError
from zoo.layers import masks
from zoo.layers.attention.base import CAPABILITIES, Attention
from zoo.layers.attention.heads import compare, masked_softmax, softmax_mean, weigh


class WindowedAttention(Attention):
    """Base of the kinds whose queries see only a window of the keys, in self-attention.

    A kind says in :meth:`window` who may see whom, and in :meth:`attend_in_blocks` how that is computed without the
    square of all pairs. The square is built only where the weights themselves are asked for, or where a symbol stands
    for the length and the kind needs to know it; decoding slices the part of the cache that is near.

    Reference:
        Parmar et al., 2018, "Image Transformer", section 3.3, for blocks of queries that share their keys.
    """

    supports = CAPABILITIES - {"cross"}
    positional = True
    chunks_queries = False

    def window(self, queries, keys):
        """Whether the query at each position has the key at each position in its window; causality comes on top.

        Args:
            queries, keys: int positions, of shapes that broadcast.
        """
        raise MissingMethodError(f"{type(self).__name__} must define window")

    @property
    def reach(self) -> int:
        """How many positions back a query sees at most."""
        raise MissingMethodError(f"{type(self).__name__} must define reach")

    def attend_in_blocks(self, q, k, v, *, mask, bias, training):
        """The context (B, T, N, H) of a pass over the whole sequence, as :meth:`attend` gives it."""
        raise MissingMethodError(f"{type(self).__name__} must define attend_in_blocks")

    def any_in_blocks(self, mask, length):
        """Whether each query has an unmasked key in its window, (B or 1, T)."""
        raise MissingMethodError(f"{type(self).__name__} must define any_in_blocks")

    def has_blocks(self, length) -> bool:
        """Whether a sequence of ``length``, an int or a tensor, can be computed in blocks."""
        return True

    def visible(self, attention_mask, num_queries, num_keys, offset):
        return None if attention_mask is None else ops.expand_dims(ops.cast(attention_mask, "bool"), 1)

    def sees_any(self, mask, num_queries, num_keys, offset):
        if offset is None and self.has_blocks(num_queries):
            return self.any_in_blocks(mask, num_queries)
        square = masks.combine(mask, self._square(num_queries, num_keys, offset))
        return ops.any(ops.squeeze(square, 1), axis=-1)

    def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
        num_queries, num_keys = ops.shape(q)[1], ops.shape(k)[1]
        if offset is None and not with_scores and self.has_blocks(num_queries):
            return self.attend_in_blocks(q, k, v, mask=mask, bias=bias, training=training), None
        first = 0  # of the keys that are looked at
        if offset is not None and self.causal:
            size = self.reach + num_queries
            size = min(num_keys, size) if isinstance(size, int) else ops.minimum(num_keys, size)
            first = ops.clip(ops.cast(offset, "int32") - self.reach, 0, num_keys - size)
            k, v = _cut(k, first, size, axis=1), _cut(v, first, size, axis=1)
            mask, bias = (None if x is None else _cut(x, first, size, axis=3) for x in (mask, bias))
            num_keys = size
        mask = masks.combine(mask, self._square(num_queries, num_keys, offset, first))
        logits = compare(q * self.head_dim**-0.5, k)
        if not with_scores:
            return softmax_mean(logits, v, mask, bias, dropout=self.dropout_layer, training=training), None
        scores = masked_softmax(logits, mask, bias)
        return weigh(self.dropout_layer(scores, training=training), v), scores

    def seen(self, queries, keys):
        """Whether a query may see a key: in its window and, in a causal kind, not after it."""
        window = self.window(queries, keys)
        return ops.logical_and(window, ops.less_equal(keys, queries)) if self.causal else window

    def _square(self, num_queries, num_keys, offset, first=0):
        """(1, 1, T, S): what every query may see, when the first key is at position ``first``."""
        queries = ops.arange(num_queries, dtype="int32") + (0 if offset is None else ops.cast(offset, "int32"))
        keys = ops.arange(num_keys, dtype="int32") + first
        return ops.expand_dims(self.seen(ops.expand_dims(queries, 1), ops.expand_dims(keys, 0)), (0, 1))


def _cut(x, first, size: int, axis: int):
    """``size`` entries of ``x`` from ``first`` along an axis."""
    shape = ops.shape(x)
    start = [first if i == axis else 0 for i in range(len(shape))]
    return ops.slice(x, start, [size if i == axis else n for i, n in enumerate(shape)])
