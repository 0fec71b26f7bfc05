"""Dot-product attention with a single head, one step at a time."""

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.base import Attention
from zoo.layers.attention.heads import compare


@registry.attention.register("dot_product")
class DotProductAttention(Attention):
    """Dot-product attention with one head, scaled or not: softmax(q k^T / sqrt(H)) v.

    Args:
        scaled: divide the products by sqrt(H). Without, their spread grows with H, and the softmax saturates.

    Raises:
        InputError: there is more than one head.

    Reference:
        Vaswani et al., 2017, "Attention Is All You Need", section 3.2.1; Luong et al., 2015, section 3.1, without
        the scale.
    """

    variants = ({"num_heads": 1}, {"num_heads": 1, "scaled": False})

    def __init__(self, num_heads: int, head_dim: int, *, scaled: bool = True, **kwargs):
        super().__init__(num_heads, head_dim, **kwargs)
        if num_heads != 1:
            raise InputError(f"dot_product has one head, not {num_heads}; set num_heads to 1 or take multi_head")
        self.scaled = scaled

    def logits(self, q, k, offset):
        logits = compare(q, k)  # how well each query goes with each key
        return logits * self.head_dim**-0.5 if self.scaled else logits  # of unit variance, as queries and keys are
