"""Scaled dot-product attention in several heads."""

from zoo import registry
from zoo.layers.attention.base import Attention
from zoo.layers.attention.heads import compare


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

    def logits(self, q, k, offset):
        return compare(q * self.head_dim**-0.5, k)  # scaled before: q is smaller
