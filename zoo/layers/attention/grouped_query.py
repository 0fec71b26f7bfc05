"""Attention in several heads that share keys and values."""

from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.base import Attention
from zoo.layers.attention.heads import compare, masked_softmax, weigh


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
        groups, shared = self.num_key_value_heads, self.num_heads // self.num_key_value_heads
        num_queries, num_keys = ops.shape(q)[1], ops.shape(k)[1]
        # Query heads that share keys are taken as more queries of one head: (B, M, G * T, H).
        q = ops.reshape(q * self.head_dim**-0.5, (-1, num_queries, groups, shared, self.head_dim))
        q = ops.reshape(ops.transpose(q, (0, 3, 1, 2, 4)), (-1, shared * num_queries, groups, self.head_dim))
        logits = ops.reshape(compare(q, k), (-1, self.num_heads, num_queries, num_keys))
        scores = masked_softmax(logits, mask, bias)
        weights = self.dropout_layer(scores, training=training)
        context = weigh(ops.reshape(weights, (-1, groups, shared * num_queries, num_keys)), v)  # (B, G * T, M, H)
        context = ops.reshape(context, (-1, shared, num_queries, groups, self.head_dim))
        context = ops.reshape(ops.transpose(context, (0, 2, 3, 1, 4)), (-1, num_queries, self.num_heads, self.head_dim))
        return context, scores if with_scores else None
