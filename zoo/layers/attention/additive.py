"""Additive attention: a small network compares query and key."""

from keras import ops

from zoo import registry
from zoo.layers.attention.base import Attention


@registry.attention.register("additive")
class AdditiveAttention(Attention):
    """Additive attention, of the first neural translation that aligned: softmax(w . tanh(q + k)) v.

    It holds (B, T, S, N, H) numbers at once: for short sequences, or one query at a time.

    Reference:
        Bahdanau et al., 2015, "Neural Machine Translation by Jointly Learning to Align and Translate",
        appendix A.1.2; the projections of the base class are its W and U.
    """

    def build(self, query_shape, value_shape=None):
        super().build(query_shape, value_shape)
        self.energy = self.add_weight(
            name="energy", shape=(self.num_heads, self.head_dim), initializer="glorot_uniform"
        )

    def logits(self, q, k, offset):
        compared = ops.tanh(ops.expand_dims(q, 2) + ops.expand_dims(k, 1))  # (B, T, S, N, H)
        return ops.einsum("btsnh,nh->bnts", compared, ops.cast(self.energy, q.dtype))
