"""Talking-heads attention: the heads mix what they see before and after the softmax."""

from keras import ops

from zoo import Attention, compare, masked_softmax, registry, weigh


@registry.attention.register("talking_heads")
class TalkingHeadsAttention(Attention):
    """Scaled dot-product attention whose heads mix before and after the softmax.

        logits (B, N, T, S)
             | mix_logits (N, N)
          + bias, mask, softmax
             | mix_weights (N, N)
        weights of the values (B, N, T, S)

    Both mixtures start as the identity, which is attention in several heads that do not talk. The weights that are
    returned are those of the softmax, before they mix: after it they no longer sum to one.

    Example:
        >>> layer = TalkingHeadsAttention(num_heads=4, head_dim=32, causal=True)
        >>> layer(keras.random.normal((2, 10, 128))).shape
        (2, 10, 128)

    Reference:
        Shazeer et al., 2020, "Talking-Heads Attention", section 3.
    """

    def build(self, query_shape, value_shape=None):
        super().build(query_shape, value_shape)
        shape = (self.num_heads, self.num_heads)  # row: the head that talks; column: the one that listens
        self.mix_logits = self.add_weight(name="mix_logits", shape=shape, initializer="identity")
        self.mix_weights = self.add_weight(name="mix_weights", shape=shape, initializer="identity")

    def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
        logits = compare(q * self.head_dim**-0.5, k)
        scores = masked_softmax(_mixed(logits, self.mix_logits), mask, bias)
        weights = self.dropout_layer(_mixed(scores, self.mix_weights), training=training)
        return weigh(weights, v), scores if with_scores else None


def _mixed(x, mixture):
    """Each head of ``x`` (B, N, T, S) as a sum of all of them, weighed by a column of ``mixture`` (N, N)."""
    return ops.einsum("bnts,nm->bmts", x, ops.cast(mixture, x.dtype))
