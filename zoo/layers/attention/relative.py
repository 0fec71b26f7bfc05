"""Relative attention: what a query makes of a key depends on how far away it is.

Two forms of one thing. With e[d] the learned vector of distance d = s - t, the logits gain q[t] . e[s - t].

gather   looks up e for every pair of positions: a tensor (T, S, H), O(L^2 D) memory.
skewed   multiplies q with the e of every distance, (T, C), and then moves row t to the left by T - 1 - t, so that
         the column of a distance becomes that of a key. The vectors take O(L D) memory; what is built beside them is
         of the size of the logits, twice that where queries see both ways.

             distance                          key
         -2 -1  0  1  2                     0  1  2
      0   .  .  a  b  c   pad a column   0  a  b  c
      1   .  d  e  f  .  ------------->  1  d  e  f
      2   g  h  i  .  .   and reshape    2  g  h  i
"""

import keras
from keras import ops

from zoo import registry
from zoo.errors import InputError, near
from zoo.layers.attention.base import CAPABILITIES, Attention, masked_softmax

FORMS = ("skewed", "gather")


@registry.attention.register("relative")
class RelativeAttention(Attention):
    """Scaled dot-product attention with learned vectors for the distances between positions.

    Args:
        max_distance: the farthest distance with a vector of its own; all beyond share it.
        relative_values: distances have values too, which are added to those of the keys.
        per_head: each head has its own vectors, as in Huang et al.; else all share one set, as in Shaw et al.
        form: "skewed", whose vectors need O(L D) memory, or "gather", O(L^2 D). They give the same.

    Raises:
        InputError: ``max_distance`` is below 1, or there is no such form.

    Reference:
        Shaw et al., 2018, "Self-Attention with Relative Position Representations"; Huang et al., 2018, "Music
        Transformer", section 3.4, for the skewing, here with clipped distances and for queries that see both ways.
    """

    supports = CAPABILITIES - {"cross"}

    positional = True
    variants = (
        {},
        {"max_distance": 3, "relative_values": True},
        {"max_distance": 3, "relative_values": True, "per_head": True},
        {"max_distance": 3, "relative_values": True, "per_head": True, "form": "gather"},
    )

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        *,
        max_distance: int = 64,
        relative_values: bool = False,
        per_head: bool = False,
        form: str = "skewed",
        **kwargs,
    ):
        super().__init__(num_heads, head_dim, **kwargs)
        if max_distance < 1:
            raise InputError(f"max_distance must be at least 1, not {max_distance}")
        if form not in FORMS:
            raise InputError(f"relative has no form {form!r}{near(form, FORMS)}; there are: {', '.join(FORMS)}")
        self.max_distance = max_distance
        self.relative_values = relative_values
        self.per_head = per_head
        self.form = form

    def build(self, query_shape, value_shape=None):
        super().build(query_shape, value_shape)
        distances = self.max_distance + 1 if self.causal else 2 * self.max_distance + 1
        shape = (distances, self.num_heads if self.per_head else 1, self.head_dim)
        initializer = keras.initializers.RandomNormal(stddev=self.head_dim**-0.5)
        self.distance_keys = self.add_weight(name="distance_keys", shape=shape, initializer=initializer)
        if self.relative_values:
            self.distance_values = self.add_weight(name="distance_values", shape=shape, initializer=initializer)

    def logits(self, q, k, offset):
        q = q * self.head_dim**-0.5
        to_logits, _ = self._form(q, k)
        rows = self._rows(self.distance_keys, ops.shape(q)[1], ops.shape(k)[1], offset, q.dtype)
        return ops.einsum("btnh,bsnh->bnts", q, k) + to_logits(q, rows)

    def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
        if not self.relative_values:
            return super().attend(
                q, k, v, mask=mask, bias=bias, offset=offset, with_scores=with_scores, training=training
            )
        scores = masked_softmax(self.logits(q, k, offset), mask, bias)
        weights = self.dropout_layer(scores, training=training)
        context = ops.einsum("bnts,bsnh->btnh", weights, v)
        if mask is not None:  # a query with nothing to attend to has weights all the same, keys ahead included
            weights = ops.where(mask, weights, ops.zeros((), weights.dtype))
        _, to_context = self._form(q, k)
        rows = self._rows(self.distance_values, ops.shape(q)[1], ops.shape(k)[1], offset, q.dtype)
        return context + to_context(weights, rows), scores if with_scores else None

    def _form(self, q, k):
        return (_skewed if self.form == "skewed" else _gathered)(ops.shape(q)[1], ops.shape(k)[1])

    def _distances(self, num_queries, num_keys, offset):
        """The distance of each pair (T, S), or, skewed, the C distances there are, from the farthest back."""
        start = 0 if offset is None else ops.cast(offset, "int32")
        if self.form == "gather":
            queries = ops.arange(num_queries, dtype="int32") + start
            return ops.expand_dims(ops.arange(num_keys, dtype="int32"), 0) - ops.expand_dims(queries, 1)
        # In a causal pass over the whole, the keys ahead are masked, so their columns may hold anything.
        columns = num_keys if self.causal and offset is None else num_queries + num_keys - 1
        return ops.arange(columns, dtype="int32") - (num_queries - 1) - start

    def _rows(self, table, num_queries, num_keys, offset, dtype):
        """The vectors of all distances: (T, S, [N,] H) or, skewed, (C, [N,] H)."""
        distances = self._distances(num_queries, num_keys, offset)
        ahead = 0 if self.causal else self.max_distance
        clipped = ops.clip(distances, -self.max_distance, ahead) + self.max_distance
        rows = ops.take(ops.cast(table, dtype), clipped, axis=0)
        return rows if self.per_head else ops.squeeze(rows, -2)


def _gathered(num_queries, num_keys):
    """Logits and context from vectors (T, S, [N,] H), one for each pair."""

    def to_logits(q, rows):
        return ops.einsum("btnh,tsnh->bnts" if len(rows.shape) == 4 else "btnh,tsh->bnts", q, rows)

    def to_context(weights, rows):
        return ops.einsum("bnts,tsnh->btnh" if len(rows.shape) == 4 else "bnts,tsh->btnh", weights, rows)

    return to_logits, to_context


def _skewed(num_queries, num_keys):
    """Logits and context from vectors (C, [N,] H), one for each distance."""

    def to_logits(q, rows):
        products = ops.einsum("btnh,cnh->bntc" if len(rows.shape) == 3 else "btnh,ch->bntc", q, rows)
        return skew(products, num_keys)

    def to_context(weights, rows):
        by_distance = unskew(weights, ops.shape(rows)[0])
        return ops.einsum("bntc,cnh->btnh" if len(rows.shape) == 3 else "bntc,ch->btnh", by_distance, rows)

    return to_logits, to_context


def skew(x, num_keys):
    """(B, N, T, C) by distance -> (B, N, T, S) by key: ``y[t, s] = x[t, s - t + T - 1]``.

    Columns are distances from the farthest one back: C = T + S - 1 of them, or C = S = T where no key ahead counts;
    what stands there for keys ahead is then arbitrary.
    """
    heads, num_queries, columns = ops.shape(x)[1:]
    x = ops.reshape(ops.pad(x, [(0, 0), (0, 0), (0, 0), (0, 1)]), (-1, heads, num_queries * (columns + 1)))
    x = x[:, :, num_queries - 1 : num_queries - 1 + num_queries * columns]
    return ops.reshape(x, (-1, heads, num_queries, columns))[..., :num_keys]


def unskew(x, columns):
    """(B, N, T, S) by key -> (B, N, T, C) by distance, zero where there is no key: the transpose of :func:`skew`.

    With C = S = T, ``x`` must be zero for keys ahead.
    """
    heads, num_queries, num_keys = ops.shape(x)[1:]
    x = ops.pad(x, [(0, 0), (0, 0), (0, 0), (0, columns - num_keys)])
    x = ops.reshape(x, (-1, heads, num_queries * columns))
    x = ops.pad(x, [(0, 0), (0, 0), (num_queries - 1, 1)])
    return ops.reshape(x, (-1, heads, num_queries, columns + 1))[..., :columns]
