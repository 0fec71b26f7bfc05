"""Multiplicative attention: a matrix between query and key."""

from keras import ops

from zoo import registry
from zoo.errors import InputError, near
from zoo.layers.attention.base import Attention
from zoo.layers.attention.heads import compare

SCORES = ("dot", "general", "concat")


@registry.attention.register("luong")
class LuongAttention(Attention):
    """Multiplicative attention, unscaled, with the three scores of Luong: dot, general and concat.

    Here they are of the projected queries and keys of each head, q and k.

    Args:
        score: "dot": q . k; "general": q W k, a matrix for each head; "concat": w . tanh(W [q; k]).

    Raises:
        InputError: there is no such score.

    Reference:
        Luong et al., 2015, "Effective Approaches to Attention-based Neural Machine Translation", section 3.1.
    """

    scaled = False
    variants = ({"score": "dot"}, {"score": "general"}, {"score": "concat"})

    def __init__(self, num_heads: int, head_dim: int, *, score: str = "general", **kwargs):
        super().__init__(num_heads, head_dim, **kwargs)
        if score not in SCORES:
            raise InputError(f"luong has no score {score!r}{near(score, SCORES)}; there are: {', '.join(SCORES)}")
        self.score = score

    def build(self, query_shape, value_shape=None):
        super().build(query_shape, value_shape)
        if self.score == "dot":
            return
        rows = self.head_dim * (2 if self.score == "concat" else 1)
        self.kernel = self.add_weight(
            name="kernel", shape=(self.num_heads, rows, self.head_dim), initializer="glorot_uniform"
        )
        if self.score == "concat":
            self.energy = self.add_weight(
                name="energy", shape=(self.num_heads, self.head_dim), initializer="glorot_uniform"
            )

    def logits(self, q, k, offset):
        if self.score == "dot":
            return compare(q, k)
        kernel = ops.cast(self.kernel, q.dtype)
        if self.score == "general":
            return compare(ops.einsum("btnh,nhg->btng", q, kernel), k)
        # W [q; k] is a part of q and a part of k: no pair is concatenated.
        of_query = ops.einsum("btnh,nhg->btng", q, kernel[:, : self.head_dim])
        of_key = ops.einsum("bsnh,nhg->bsng", k, kernel[:, self.head_dim :])
        compared = ops.tanh(ops.expand_dims(of_query, 2) + ops.expand_dims(of_key, 1))  # (B, T, S, N, H)
        return ops.einsum("btsnh,nh->bnts", compared, ops.cast(self.energy, q.dtype))
