"""What every attention kind shares: projections, heads, masks, rotation, the cache and dropout.

query (B, T, D)          value (B, S, D)        value None: self-attention
     |                    |         |
 query_dense          key_dense  value_dense
     |                    |         |
q (B, T, N, H)      k (B, S, M, H)  v (B, S, M, H)    M = num_key_value_heads, N unless a kind shares heads
  rotation            rotation      |
     |                    +--cache--+           the new keys and values join the ones of earlier steps
     +--------- attend ---+---------+           softmax(logits) v; most kinds write only logits
                  |
           context (B, T, N, H)
                  |
             output_dense
                  |
            out (B, T, D)
"""

from functools import partial

import keras
from keras import ops

from zoo.errors import InputError, MissingMethodError
from zoo.layers import masks
from zoo.layers.attention.heads import heads_first, masked_softmax, rotate, softmax_mean, weigh
from zoo.layers.configured import Configured
from zoo.layers.dropout import Dropout

#: What a kind may support; ``check`` compares it with what an architecture and a positional scheme ask for.
CAPABILITIES = frozenset({"causal", "bidirectional", "cross", "mask", "bias", "rotation", "cache", "scores"})


class Attention(Configured, keras.layers.Layer):
    """Base of the attention kinds.

    A kind that compares query and key in its own way writes only :meth:`logits`; one that weighs the values in its own
    way writes :meth:`attend`; one of another form (linear attention) overrides :meth:`call`, and the cache methods if
    it decodes.

    Args:
        num_heads: heads, N.
        head_dim: width of a head, H.
        causal: no query sees a key after it.
        dropout: share of the attention weights dropped in training.
        use_bias: whether the projections have a bias.
        average_heads: take the mean of the heads rather than lay them side by side before the last projection
            (Velickovic et al., 2018, "Graph Attention Networks", equation 6).
        query_chunks: parts in which a causal pass takes the queries of a sequence, each with the keys up to its end
            alone: with n parts (n - 1) / 2n of the square is never computed or kept, for n times as many products.
            It gives the same; in an export for any length by JAX, the square is whole.
        kernel_initializer: of the projections.

    Call arguments:
        query: (B, T, D).
        value: (B, S, D) to attend to; None for self-attention.
        attention_mask: bool (B, 1 or T, S), True where attending is allowed.
        bias: (B or 1, N, T, S), added to the logits.
        rotation: (cos, sin), each (T, 1, H), turning queries and keys by their positions.
        cache: what :meth:`init_cache` or :meth:`value_cache` gave, or the last call with a cache.
        cache_index: scalar position of the first query in the cache; None to read the cache without writing.
        return_attention_scores: also return the weights; not with a cache.
        training: whether dropout is on.

    Returns:
        ``out`` (B, T, D); with ``return_attention_scores``, ``(out, scores)`` with scores (B, N, T, S); with a
        cache, ``(out, cache)``. A query with nothing to attend to gives zeros.

    Reference:
        Vaswani et al., 2017, "Attention Is All You Need", section 3.2; Rabe and Staats, 2021, "Self-attention Does
        Not Need O(n^2) Memory", for queries in chunks.
    """

    #: What the kind can do, out of CAPABILITIES.
    supports = CAPABILITIES

    #: Whether the output depends on the order of the sequence by itself, without positions or a causal mask.
    positional = False

    #: Whether the spread of the logits stays the same as heads become wider.
    scaled = True

    #: Whether a part of the queries can be taken by itself; not in a kind that never builds the square of all pairs.
    chunks_queries = True

    #: Options with which the conformance kit tries the kind; "num_heads" among them for one that is particular.
    variants: tuple[dict, ...] = ({},)

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        *,
        causal: bool = False,
        dropout: float = 0.0,
        use_bias: bool = True,
        average_heads: bool = False,
        query_chunks: int = 1,
        kernel_initializer: str = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        if num_heads < 1 or head_dim < 1:
            raise InputError(f"num_heads and head_dim must be at least 1, not {num_heads} and {head_dim}")
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.causal = causal
        self.dropout = dropout
        self.use_bias = use_bias
        if query_chunks < 1 or (query_chunks > 1 and not self.chunks_queries):
            why = (
                "must be at least 1"
                if self.chunks_queries
                else f"is not for {type(self).__name__}, which builds no square"
            )
            raise InputError(f"query_chunks {why}; it is {query_chunks}")
        self.average_heads = average_heads
        self.query_chunks = query_chunks
        self.kernel_initializer = kernel_initializer
        self.dropout_layer = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    @property
    def num_key_value_heads(self) -> int:
        """Heads of the keys and values, M; a kind that shares them among query heads overrides this."""
        return self.num_heads

    def build(self, query_shape, value_shape=None):
        width = query_shape[-1]
        value_width = width if value_shape is None else value_shape[-1]
        self.query_dense = self._dense("query", self.num_heads * self.head_dim, width)
        self.key_dense = self._dense("key", self.num_key_value_heads * self.head_dim, value_width)
        self.value_dense = self._dense("value", self.num_key_value_heads * self.head_dim, value_width)
        merged = self.head_dim if self.average_heads else self.num_heads * self.head_dim
        self.output_dense = self._dense("output", width, merged)
        self.built = True

    def _dense(self, name: str, units: int, input_width: int) -> keras.layers.Dense:
        dense = keras.layers.Dense(
            units,
            use_bias=self.use_bias,
            kernel_initializer=self.kernel_initializer,
            name=name,
            dtype=self.dtype_policy,
        )
        dense.build((None, None, input_width))
        return dense

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
        if value is not None and "cross" not in self.supports:
            raise InputError(f"{type(self).__name__} attends to its own sequence alone; leave out value")
        q = self._split(self.query_dense(query), self.num_heads)  # (B, T, N, H)
        if cache is not None and cache_index is None:  # a value projected earlier, by value_cache
            k, v = heads_first(cache["key"]), heads_first(cache["value"])
        else:
            source = query if value is None else value
            k = self._split(self.key_dense(source), self.num_key_value_heads)  # (B, S, M, H)
            v = self._split(self.value_dense(source), self.num_key_value_heads)
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        if cache is not None and cache_index is not None:
            cache = {
                "key": ops.slice_update(cache["key"], (0, 0, cache_index, 0), heads_first(k)),
                "value": ops.slice_update(cache["value"], (0, 0, cache_index, 0), heads_first(v)),
            }
            k, v = heads_first(cache["key"]), heads_first(cache["value"])

        mask = self.visible(attention_mask, ops.shape(q)[1], ops.shape(k)[1], cache_index)
        whole = value is None and cache is None and not return_attention_scores
        if self.causal and self.query_chunks > 1 and whole and known(ops.shape(q)[1]):
            context, scores = self._attend_in_chunks(q, k, v, mask=mask, bias=bias, training=training), None
        else:
            context, scores = self._attended(
                q,
                k,
                v,
                mask=mask,
                bias=bias,
                offset=cache_index,
                with_scores=return_attention_scores,
                training=training,
            )
        out = self.output_dense(self._merge(context))
        if attention_mask is not None:  # a row may have nothing to attend to
            sees_any = self.sees_any(mask, ops.shape(q)[1], ops.shape(k)[1], cache_index)  # (B, T)
            out = out * ops.cast(ops.expand_dims(sees_any, -1), out.dtype)
            if scores is not None:
                scores = scores * ops.cast(ops.expand_dims(ops.expand_dims(sees_any, 1), -1), scores.dtype)
        if cache is not None:
            return out, cache
        return (out, scores) if return_attention_scores else out

    def _attended(self, q, k, v, **settings):
        """What :meth:`attend` gives, which must go with the queries: broadcasting would hide that it does not."""
        found = self.attend(q, k, v, **settings)
        if not isinstance(found, tuple) or len(found) != 2:
            raise InputError(f"{type(self).__name__}.attend must return (context, scores), not {found!r:.80}")
        shape = tuple(getattr(found[0], "shape", ()))
        sizes = zip(shape, q.shape, strict=False)
        if len(shape) != 4 or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in sizes):
            raise InputError(
                f"{type(self).__name__}.attend must return a context of the queries' shape (B, T, N, H), "
                f"{tuple(q.shape)}, not {shape or f'{found[0]!r:.80}'}"
            )
        return found

    def logits(self, q, k, offset):
        """How well each query goes with each key: the part that makes most kinds.

        Args:
            q: (B, T, N, H). k: (B, S, M, H).
            offset: position of the first query, where queries and keys don't begin together: its place in the cache, a
                scalar, or that of a chunk, an int; else None.

        Returns:
            (B, N, T, S), before bias and mask.
        """
        raise MissingMethodError(f"{type(self).__name__} must define logits or attend, or override call")

    def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
        """Weighs the values by the softmax of the logits.

        Args:
            q: (B, T, N, H). k, v: (B, S, M, H).
            mask: from :meth:`visible`: bool (B or 1, 1, T or 1, S), or None when every query sees every key.
            bias: (B or 1, N, T, S) or None.
            offset: as for :meth:`logits`.
            with_scores: whether the weights are wanted.
            training: whether dropout is on.

        Returns:
            The context (B, T, N, H), and the weights (B, N, T, S) or None.
        """
        logits = self.logits(q, k, offset)
        if logits is None:
            raise InputError(f"{type(self).__name__}.logits returns nothing")
        if not with_scores:
            return softmax_mean(logits, v, mask, bias, dropout=self.dropout_layer, training=training), None
        scores = masked_softmax(logits, mask, bias)
        return weigh(self.dropout_layer(scores, training=training), v), scores

    def _attend_in_chunks(self, q, k, v, *, mask, bias, training):
        """A causal pass over a whole sequence, the queries of each chunk with the keys up to its end."""
        length, chunks = ops.shape(q)[1], self.query_chunks
        missing = max(chunks - length, 0) if isinstance(length, int) else -length % chunks  # that no chunk is empty
        q, k, v = (lengthened(x, 1, missing) for x in (q, k, v))
        mask, bias = (None if x is None else lengthened(lengthened(x, 2, missing), 3, missing) for x in (mask, bias))
        contexts = []
        for chunk in range(chunks):
            first, end = (n * (length + missing) // chunks for n in (chunk, chunk + 1))
            context, _ = self._attended(
                q[:, first:end],
                k[:, :end],
                v[:, :end],
                mask=mask[:, :, first:end, :end],
                bias=None if bias is None else bias[:, :, first:end, :end],
                offset=first,
                with_scores=False,
                training=training,
            )
            contexts.append(context)
        return ops.concatenate(contexts, axis=1)[:, :length]

    def visible(self, attention_mask, num_queries, num_keys, offset):
        """What may be seen, as bool (B or 1, 1, T or 1, S), or None for everything: padding and causality.

        A kind that never builds a square keeps to the padding here, and sees to the rest in :meth:`attend`.
        """
        if attention_mask is not None:
            attention_mask = ops.expand_dims(ops.cast(attention_mask, "bool"), 1)
        causal = None
        if self.causal:
            causal = ops.expand_dims(masks.causal_mask(num_queries, num_keys, 0 if offset is None else offset), 1)
        return masks.combine(attention_mask, causal)

    def sees_any(self, mask, num_queries, num_keys, offset):
        """Whether each query has something to attend to, (B or 1, T or 1), given what :meth:`visible` gave."""
        return ops.any(ops.squeeze(mask, 1), axis=-1)

    def init_cache(self, batch_size, max_length: int) -> dict:
        """An empty cache for decoding up to ``max_length`` positions; batch is the first axis of every tensor.

        Here keys and values are (B, M, S, H), heads in front, as the products need them: else every step would copy
        all that is cached.
        """
        shape = (batch_size, self.num_key_value_heads, max_length, self.head_dim)
        return {"key": ops.zeros(shape, self.compute_dtype), "value": ops.zeros(shape, self.compute_dtype)}

    def value_cache(self, value) -> dict:
        """``value`` (B, S, D) projected once, for attending to it at every decoding step: (B, M, S, H) each."""
        return {
            "key": heads_first(self._split(self.key_dense(value), self.num_key_value_heads)),
            "value": heads_first(self._split(self.value_dense(value), self.num_key_value_heads)),
        }

    def compute_output_shape(self, query_shape, value_shape=None):
        return query_shape

    def compute_output_spec(self, *args, **kwargs):
        # A shape stands for the output alone; with scores or a cache beside it, Keras traces the call instead.
        alone = kwargs.get("cache") is None and not kwargs.get("return_attention_scores")
        spec = super().compute_output_spec if alone else partial(keras.Operation.compute_output_spec, self)
        return spec(*args, **kwargs)

    def _split(self, x, heads: int):
        return ops.reshape(x, (-1, ops.shape(x)[1], heads, self.head_dim))  # (B, T, N * H) -> (B, T, N, H)

    def _merge(self, x):
        if self.average_heads:
            return ops.mean(x, axis=2)  # (B, T, N, H) -> (B, T, H)
        return ops.reshape(x, (-1, ops.shape(x)[1], self.num_heads * self.head_dim))  # (B, T, N, H) -> (B, T, N * H)


def known(length) -> bool:
    """Whether sizes can be computed from a length: an int, or a tensor, where TensorFlow traces a step for any length.

    Not the symbol that stands for any length in an export by JAX.
    """
    return isinstance(length, int) or ops.is_tensor(length)


def lengthened(x, axis: int, missing):
    """``x`` with so many zeros, an int or a scalar tensor, at the end of an axis."""
    if isinstance(missing, int) and missing == 0:
        return x
    shape = list(ops.shape(x))
    shape[axis] = missing
    return ops.concatenate([x, ops.zeros(shape, x.dtype)], axis=axis)
