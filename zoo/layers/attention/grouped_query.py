"""Attention in several heads that share keys and values."""

from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.base import Attention, masked_softmax


@registry.attention.register("grouped_query")
class GroupedQueryAttention(Attention):
    """Scaled dot-product attention whose heads share keys and values in groups, for a smaller cache.

    Args:
        num_key_value_heads: heads of keys and values, M, each for N / M neighbouring query heads. 1: multi-query
            attention.

    Raises:
        InputError: M does not divide N.

    Reference:
        Shazeer, 2019, "Fast Transformer Decoding: One Write-Head is All You Need"; Ainslie et al., 2023, "GQA:
        Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints".
    """

    variants = ({}, {"num_heads": 4, "num_key_value_heads": 2})

    def __init__(self, num_heads: int, head_dim: int, *, num_key_value_heads: int = 1, **kwargs):
        super().__init__(num_heads, head_dim, **kwargs)
        if num_key_value_heads < 1 or num_heads % num_key_value_heads:
            raise InputError(f"{num_key_value_heads} heads of keys and values don't divide {num_heads} query heads")
        self._num_key_value_heads = num_key_value_heads

    @property
    def num_key_value_heads(self) -> int:
        return self._num_key_value_heads

    def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
        num_queries, num_keys, groups = ops.shape(q)[1], ops.shape(k)[1], self.num_key_value_heads
        q = ops.reshape(q * self.head_dim**-0.5, (-1, num_queries, groups, self.num_heads // groups, self.head_dim))
        logits = ops.einsum("btmgh,bsmh->bmgts", q, k)
        logits = ops.reshape(logits, (-1, self.num_heads, num_queries, num_keys))
        scores = masked_softmax(logits, mask, bias)
        weights = ops.reshape(
            self.dropout_layer(scores, training=training), (-1, groups, self.num_heads // groups, num_queries, num_keys)
        )
        context = ops.einsum("bmgts,bsmh->btmgh", weights, v)
        context = ops.reshape(context, (-1, num_queries, self.num_heads, self.head_dim))
        return context, scores if with_scores else None
