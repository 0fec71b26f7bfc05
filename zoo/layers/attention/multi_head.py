"""Scaled dot-product attention in several heads."""

from keras import ops

from zoo import registry
from zoo.layers.attention.base import Attention, masked_softmax


@registry.attention.register("multi_head")
class MultiHeadAttention(Attention):
    """Scaled dot-product attention in several heads: softmax(q k^T / sqrt(H)) v.

    Example:
        >>> layer = MultiHeadAttention(num_heads=4, head_dim=32, causal=True)
        >>> layer(keras.random.normal((2, 10, 128))).shape
        (2, 10, 128)

    Reference:
        Vaswani et al., 2017, "Attention Is All You Need", section 3.2.2.
    """

    def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
        logits = ops.einsum("btnh,bsnh->bnts", q * self.head_dim**-0.5, k)  # scaled before: q is smaller
        scores = masked_softmax(logits, mask, bias)
        context = ops.einsum("bnts,bsnh->btnh", self.dropout_layer(scores, training=training), v)
        return context, scores if with_scores else None
