"""Linear attention: a sum over the keys in place of the square of all pairs."""

from keras import ops

from zoo import Attention, InputError, registry
from zoo.layers.attention.base import CAPABILITIES
from zoo.layers.attention.heads import heads_first
from zoo.layers.masks import causal_mask


@registry.attention.register("linear_attention")
class LinearAttention(Attention):
    """Attention whose weights are products of features, in time and memory linear in the length.

    With the features φ(x) = elu(x) + 1 the softmax is gone, and what a query reads is a sum over the keys that does
    not depend on the query:

        out_t = φ(q_t) Σ φ(k_s) v_s^T / φ(q_t) Σ φ(k_s)        s: the keys that the query at t may see

    The features of a masked key are zero. A causal pass takes the queries in chunks: inside a chunk the small square
    of its pairs, and for all earlier keys the state that the chunks before have summed up. Decoding goes on from that
    state, a cache whose size has nothing to do with the length.

    The square of all pairs is built only where the weights themselves are asked for, or for a mask that differs from
    query to query. No state could serve such a mask, so with a cache it is refused. A cross-attention keeps keys and
    values, since which of them are masked is only said later. Dropout drops a key for all queries at once.

    Args:
        chunk_length: queries to a chunk of a causal pass; it changes the time, not the result.

    Call arguments:
        attention_mask: (B, 1, S), or without a cache (B, T, S). A decoding step counts the columns of its own keys;
            those of earlier keys are in the state already.
        cache: the state (B, N, H, H + 1) in float32: Σ φ(k) v^T, and Σ φ(k) as its last column. Steps follow one
            another; to write a position anew, go on from the cache that came before it.

    Raises:
        InputError: ``chunk_length`` is below 1; a bias or a rotation, which need the pairs; a mask for each query
            with a cache.

    Example:
        >>> layer = LinearAttention(num_heads=4, head_dim=32, causal=True)
        >>> out, cache = layer(keras.random.normal((2, 10, 128)), cache=layer.init_cache(2, 10), cache_index=0)
        >>> cache["state"].shape
        (2, 4, 32, 33)

    Reference:
        Katharopoulos et al., 2020, "Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention",
        section 3.
    """

    supports = CAPABILITIES - {"bias", "rotation"}
    chunks_queries = False
    variants = ({}, {"chunk_length": 3})

    def __init__(self, num_heads: int, head_dim: int, *, chunk_length: int = 64, **kwargs):
        # In half precision Keras would round the state at every step, and the sum would soon stop growing.
        super().__init__(num_heads, head_dim, autocast=False, **kwargs)
        if chunk_length < 1:
            raise InputError(f"chunk_length must be at least 1, not {chunk_length}")
        self.chunk_length = chunk_length

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
        if bias is not None or rotation is not None:
            raise InputError("linear attention takes no bias and no rotation: it never sees the pairs they are for")
        steps = cache is not None and cache_index is not None
        reads = cache is not None and not steps  # a value projected earlier
        q = _features(self._split(self.query_dense(query), self.num_heads))  # (B, T, N, H)
        source = cache if reads else self.value_cache(query if value is None else value)
        k, v = heads_first(source["key"]), heads_first(source["value"])  # (B, S, N, H)
        k, v = _features(k), self._values(v, training)  # (B, S, N, H), (B, S, N, H + 1)

        mask, for_keys = attention_mask, attention_mask is not None and attention_mask.shape[1] == 1
        if steps and mask is not None:
            if not for_keys:
                raise InputError("linear attention decodes with one mask (B, 1, S) for all queries, not with one each")
            first, shape = ops.cast(cache_index, "int32"), (ops.shape(mask)[0], 1, ops.shape(k)[1])
            mask = ops.slice(mask, (0, 0, first), shape)
        if for_keys:
            seen = ops.transpose(ops.cast(mask, "bool"), (0, 2, 1))  # (B, S, 1)
            k = k * ops.cast(ops.expand_dims(seen, -1), k.dtype)

        state = (cache if steps else self.init_cache(ops.shape(q)[0], 0))["state"]
        weights = None
        if (return_attention_scores and cache is None) or (mask is not None and not for_keys):  # what needs the pairs
            weights = self._square(q, k, mask)
            sums = ops.einsum("bnts,bsnw->btnw", weights, v)
        elif self.causal:
            sums, state = self._causal(q, k, v, state)
        else:
            state = state + ops.einsum("bsnh,bsnw->bnhw", k, v)
            sums = ops.einsum("btnh,bnhw->btnw", q, state)

        total = sums[..., -1:]  # (B, T, N, 1), of the weights: 0 where no key is seen
        divisor = ops.maximum(total, _LEAST**2)
        context = ops.cast(sums[..., :-1] / divisor, self.compute_dtype)  # (B, T, N, H)
        out = self.output_dense(self._merge(context))
        if mask is not None:
            out = out * ops.cast(ops.any(total > 0, axis=2), out.dtype)
        if cache is not None:
            return out, {"state": state} if steps else cache
        if return_attention_scores:
            return out, ops.cast(weights / ops.transpose(divisor, (0, 2, 1, 3)), self.compute_dtype)
        return out

    def init_cache(self, batch_size, max_length: int) -> dict:
        """The sums over no keys yet; their size does not depend on ``max_length``."""
        return {"state": ops.zeros((batch_size, self.num_heads, self.head_dim, self.head_dim + 1), "float32")}

    def _causal(self, q, k, v, state):
        """The sums that each query reads, (B, T, N, H + 1), and the state after the last, given the one before."""
        length = ops.shape(q)[1]
        chunk = min(self.chunk_length, length) if isinstance(length, int) else self.chunk_length
        q, k, v = (_chunks(x, chunk) for x in (q, k, v))  # (B, C, L, N, H or H + 1)
        of_each = ops.einsum("bcsnh,bcsnw->bcnhw", k, v)
        states = ops.cumsum(ops.concatenate([ops.expand_dims(state, 1), of_each], axis=1), axis=1)  # (B, C + 1, ...)
        pairs = ops.where(causal_mask(chunk, chunk), ops.einsum("bcinh,bcjnh->bcnij", q, k), 0.0)  # (B, C, N, L, L)
        sums = ops.einsum("bcinh,bcnhw->bcinw", q, states[:, :-1]) + ops.einsum("bcnij,bcjnw->bcinw", pairs, v)
        sums = ops.reshape(sums, (-1, ops.shape(q)[1] * chunk, self.num_heads, self.head_dim + 1))
        return sums[:, :length], states[:, -1]

    def _square(self, q, k, mask):
        """The weight of each pair before they are divided by their sum, (B, N, T, S)."""
        seen = self.visible(mask, ops.shape(q)[1], ops.shape(k)[1], None)
        weights = ops.einsum("btnh,bsnh->bnts", q, k)
        return weights if seen is None else ops.where(seen, weights, 0.0)

    def _values(self, v, training):
        """Values (B, S, N, H) and a column of ones, whose sum is that of the weights."""
        kept = self.dropout_layer(ops.ones_like(v[..., :1]), training=training)
        v = ops.cast(v * kept, "float32")
        return ops.concatenate([v, ops.ones_like(v[..., :1])], axis=-1)


_LEAST = 1e-9  # of a feature, too little to notice: only where no key is seen do the weights sum to 0


def _features(x):
    return ops.maximum(ops.elu(ops.cast(x, "float32")) + 1, _LEAST)


def _chunks(x, size: int):
    """(B, T, N, W) -> (B, C, size, N, W), with zeros after the end."""
    length, (heads, width) = ops.shape(x)[1], x.shape[2:]
    count = (length + size - 1) // size
    x = ops.pad(x, [(0, 0), (0, count * size - length), (0, 0), (0, 0)])
    return ops.reshape(x, (-1, count, size, heads, width))
