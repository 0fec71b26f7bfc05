"""Memory-compressed attention: keys and values shortened by a strided convolution."""

import keras
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.base import Attention
from zoo.layers.attention.heads import compare, softmax_mean


@registry.attention.register("memory_compressed")
class MemoryCompressedAttention(Attention):
    """Scaled dot-product attention to a memory that a strided convolution has shortened.

    Entry j of the memory is a convolution of the ``compression`` inputs that end at position ``j * compression``,
    so a causal query at t sees the entries up to t // compression, and none of them was made of anything later:

        position    0   1 2 3   4 5 6     compression 3
        entry       0       1       2     a query at 5 sees the entries 0 and 1

    The memory of a query that sees all has one more entry where inputs are left over at its end. Masked inputs
    count as zeros; an entry is seen when one of its inputs is, and by a query with a mask of its own only when it
    may see all of them that any query sees. Decoding takes one mask (B, 1, S), the same at every step: an entry is
    made once.

    Args:
        compression: inputs to an entry, the stride and the width of the convolution.

    Raises:
        InputError: ``compression`` is below 1, or a call asks for what ``supports`` does not have.

    Reference:
        Liu et al., 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.4.
    """

    supports = frozenset({"causal", "bidirectional", "mask", "cache"})

    positional = True
    chunks_queries = False
    variants = ({}, {"compression": 1}, {"compression": 4})

    def __init__(self, num_heads: int, head_dim: int, *, compression: int = 3, **kwargs):
        super().__init__(num_heads, head_dim, **kwargs)
        if compression < 1:
            raise InputError(f"compression must be at least 1, not {compression}")
        self.compression = compression

    def build(self, query_shape, value_shape=None):
        super().build(query_shape, value_shape)
        # The inputs of an entry lie side by side: a convolution whose stride is its width, wherever it starts.
        self.compress = keras.layers.Dense(query_shape[-1], name="compress", dtype=self.dtype_policy)
        self.compress.build((None, None, self.compression * query_shape[-1]))
        self.width = query_shape[-1]

    def call(
        self,
        query,
        value=None,
        *,
        attention_mask=None,
        bias=None,
        rotation=None,
        cache=None,
        cache_index=None,
        return_attention_scores=False,
        training=None,
    ):
        if value is not None or bias is not None or rotation is not None or return_attention_scores:
            raise InputError("memory_compressed attends to itself alone, without a bias, a rotation or scores to show")
        if cache is not None and attention_mask is not None and attention_mask.shape[1] not in (1, None):
            raise InputError("memory_compressed decodes with one mask (B, 1, S) for all steps, not one for each query")
        q = self._split(self.query_dense(query), self.num_heads)
        num_queries = ops.shape(q)[1]
        if attention_mask is not None:
            attention_mask = ops.cast(attention_mask, "bool")
        if cache is None:
            first, length = 0, num_queries
            k, v = self._memory(self._windows(_without(query, attention_mask)))
        else:
            first, length = ops.cast(cache_index, "int32"), cache["input"].shape[1] - 2 * self.compression + 1
            cache = self._extended(cache, query, attention_mask, first)
            k, v = cache["key"], cache["value"]
        logits, seen = compare(q * self.head_dim**-0.5, k), self._seen(attention_mask, length, num_queries, first)
        context = softmax_mean(logits, v, ops.expand_dims(seen, 1), dropout=self.dropout_layer, training=training)
        out = self.output_dense(self._merge(context))
        if attention_mask is not None:
            out = out * ops.cast(ops.any(seen, axis=-1, keepdims=True), out.dtype)
        return out if cache is None else (out, cache)

    def init_cache(self, batch_size, max_length: int) -> dict:
        """An empty cache: the inputs so far, with room for a window at either end, and the memory made of them."""
        memory = (batch_size, self._entries(max_length), self.num_heads, self.head_dim)
        inputs = (batch_size, max_length + 2 * self.compression - 1, self.width)
        return {
            "input": ops.zeros(inputs, self.compute_dtype),
            "key": ops.zeros(memory, self.compute_dtype),
            "value": ops.zeros(memory, self.compute_dtype),
        }

    def _extended(self, cache, query, attention_mask, first):
        """The cache with inputs from position ``first`` on, and the entries they are part of."""
        num_queries, compression = ops.shape(query)[1], self.compression
        if attention_mask is not None:
            rows = ops.any(attention_mask, axis=1, keepdims=True)
            shape = (ops.shape(rows)[0], 1, num_queries)
            attention_mask = ops.slice(rows, (0, 0, first), shape)
        new = ops.cast(_without(query, attention_mask), self.compute_dtype)
        inputs = ops.slice_update(cache["input"], (0, compression - 1 + first, 0), new)
        entry = (first + compression - 1) // compression  # the first that ends at one of these positions or later
        # One entry ends later, perhaps; it is written again, whole, by the time a query may see it.
        count, room = (num_queries + compression - 2) // compression + 1, cache["key"].shape[1]
        count = min(count, room) if isinstance(count, int) else ops.minimum(count, room)
        entry = ops.minimum(entry, cache["key"].shape[1] - count)
        window = ops.slice(inputs, (0, entry * compression, 0), (ops.shape(inputs)[0], count * compression, self.width))
        k, v = self._memory(ops.reshape(window, (-1, count, compression * self.width)))
        return {
            "input": inputs,
            "key": ops.slice_update(cache["key"], (0, entry, 0, 0), k),
            "value": ops.slice_update(cache["value"], (0, entry, 0, 0), v),
        }

    def _entries(self, length):
        """How many entries, E, are made of inputs below ``length``."""
        return (length + self.compression - 2) // self.compression + 1

    def _windows(self, x):
        """(B, S, D) -> (B, E, compression * D): the inputs of each entry, and zeros beyond either end."""
        (_, length, width), compression = ops.shape(x), self.compression
        missing = self._entries(length) * compression - (compression - 1) - length
        x = ops.pad(x, [(0, 0), (compression - 1, missing), (0, 0)])
        return ops.reshape(x, (-1, self._entries(length), compression * width))

    def _memory(self, windows):
        """(B, E, compression * D) -> keys and values (B, E, N, H)."""
        memory = self.compress(windows)
        return tuple(self._split(dense(memory), self.num_heads) for dense in (self.key_dense, self.value_dense))

    def _seen(self, attention_mask, length, num_queries, first):
        """The entries that each query sees, bool (B or 1, T, E)."""
        ends = ops.arange(self._entries(length), dtype="int32") * self.compression
        queries = ops.arange(num_queries, dtype="int32") + first
        limit = ops.expand_dims(queries, 1) if self.causal else length + self.compression
        seen = ops.expand_dims(ops.less_equal(ends, limit), 0)  # (1, T or 1, E)
        if attention_mask is None:
            return seen
        by_any = ops.any(attention_mask, axis=1, keepdims=True)  # (B, 1, S)
        hidden = ops.logical_and(by_any, ops.logical_not(attention_mask))  # from this query, but not from all
        return ops.logical_and(seen, ops.logical_and(self._any_input(by_any), ops.logical_not(self._any_input(hidden))))

    def _any_input(self, mask):
        """Whether the mask (B, T, S) is true for one of the inputs of an entry, (B, T, E)."""
        columns = ops.cast(ops.transpose(mask, (0, 2, 1)), "int32")
        windows = self._windows(columns)  # (B, E, compression * T)
        shape = (-1, ops.shape(windows)[1], self.compression, ops.shape(mask)[1])
        return ops.transpose(ops.any(ops.reshape(windows, shape) > 0, axis=2), (0, 2, 1))


def _without(x, attention_mask):
    """``x`` (B, S, D), zero where no query may see it."""
    if attention_mask is None:
        return x
    return x * ops.cast(ops.expand_dims(ops.any(attention_mask, axis=1), -1), x.dtype)
