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
from zoo.layers.attention.base import CAPABILITIES, Attention
from zoo.layers.attention.heads import compare, masked_softmax, weigh

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
        return compare(q, k) + self._form(q, k, offset).logits(q, self._of(self.distance_keys, q))

    def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
        if not self.relative_values:
            return super().attend(
                q, k, v, mask=mask, bias=bias, offset=offset, with_scores=with_scores, training=training
            )
        scores = masked_softmax(self.logits(q, k, offset), mask, bias)
        weights = self.dropout_layer(scores, training=training)
        context = weigh(weights, v)
        if mask is not None:  # a query with nothing to attend to has weights all the same, keys ahead included
            weights = ops.where(mask, weights, ops.zeros((), weights.dtype))
        context = context + self._form(q, k, offset).context(weights, self._of(self.distance_values, q))
        return context, scores if with_scores else None

    def _form(self, q, k, offset):
        form = _Skewed if self.form == "skewed" else _Gathered
        return form(ops.shape(q)[1], ops.shape(k)[1], offset, self.max_distance, self.causal)

    def _of(self, table, q):
        """(R, N, H), or (R, H) where the heads share them."""
        table = ops.cast(table, q.dtype)
        return table if self.per_head else ops.squeeze(table, 1)


class _Gathered:
    """A vector is looked up for each pair of a query and a key.

    Args:
        num_queries, num_keys: T and S.
        offset: as for :meth:`RelativeAttention.logits`.
        max_distance, causal: of the layer.
    """

    def __init__(self, num_queries, num_keys, offset, max_distance: int, causal: bool):
        queries = ops.arange(num_queries, dtype="int32") + (0 if offset is None else ops.cast(offset, "int32"))
        distances = ops.expand_dims(ops.arange(num_keys, dtype="int32"), 0) - ops.expand_dims(queries, 1)
        self.rows = ops.clip(distances, -max_distance, 0 if causal else max_distance) + max_distance  # (T, S)

    def logits(self, q, table):
        """(B, T, N, H) and the table -> (B, N, T, S)."""
        form = "btnh,tsnh->bnts" if len(table.shape) == 3 else "btnh,tsh->bnts"
        return ops.einsum(form, q, ops.take(table, self.rows, axis=0))

    def context(self, weights, table):
        """(B, N, T, S) and the table -> (B, T, N, H)."""
        form = "bnts,tsnh->btnh" if len(table.shape) == 3 else "bnts,tsh->btnh"
        return ops.einsum(form, weights, ops.take(table, self.rows, axis=0))


class _Skewed:
    """Products with the vector of each distance, moved to where their keys are; as :class:`_Gathered` otherwise.

    Distances that share a vector are multiplied with it once: only the columns between the two ends are products.
    """

    def __init__(self, num_queries, num_keys, offset, max_distance: int, causal: bool):
        self.num_keys = num_keys
        start = 0 if offset is None else offset
        static = all(isinstance(size, int) for size in (num_queries, num_keys, start))
        # Where the last causal query is at the last key, keys ahead are masked, so their columns may hold anything.
        ends_together = offset is None or (static and start + num_queries == num_keys)
        self.columns = num_keys if causal and ends_together else num_queries + num_keys - 1
        self.before, self.after = 0, 0  # columns beyond the farthest distance, where that is known
        if static:
            first = num_queries - 1 + start  # the farthest distance back
            self.before = max(first - max_distance, 0)
            self.after = 0 if causal else max(self.columns - 1 - first - max_distance, 0)
        distances = ops.arange(self.columns - self.before - self.after, dtype="int32") + self.before
        distances = distances - (num_queries - 1) - ops.cast(start, "int32")
        self.rows = ops.clip(distances, -max_distance, 0 if causal else max_distance) + max_distance

    def logits(self, q, table):
        form = "btnh,cnh->bntc" if len(table.shape) == 3 else "btnh,ch->bntc"
        products = ops.einsum(form, q, ops.take(table, self.rows, axis=0))
        parts = [
            ops.repeat(products[..., :1], self.before, axis=-1) if self.before else None,
            products,
            ops.repeat(products[..., -1:], self.after, axis=-1) if self.after else None,
        ]
        parts = [part for part in parts if part is not None]
        return skew(ops.concatenate(parts, axis=-1) if len(parts) > 1 else products, self.num_keys)

    def context(self, weights, table):
        by_distance = unskew(weights, self.columns)  # (B, N, T, C)
        first, last = self.before, self.columns - self.after
        if self.before:
            sums = ops.sum(by_distance[..., : first + 1], axis=-1, keepdims=True)
            by_distance = ops.concatenate([sums, by_distance[..., first + 1 :]], axis=-1)
            last -= first
        if self.after:
            sums = ops.sum(by_distance[..., last - 1 :], axis=-1, keepdims=True)
            by_distance = ops.concatenate([by_distance[..., : last - 1], sums], axis=-1)
        form = "bntc,cnh->btnh" if len(table.shape) == 3 else "bntc,ch->btnh"
        return ops.einsum(form, by_distance, ops.take(table, self.rows, axis=0))


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
