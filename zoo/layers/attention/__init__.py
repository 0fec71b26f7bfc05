"""Attention kinds, one file each. A new kind is a file and a line here."""

from zoo import registry

__getattr__ = registry.attention.declare(
    __name__,
    {
        "dot_product": "DotProductAttention",
        "multi_head": "MultiHeadAttention",
        "grouped_query": "GroupedQueryAttention",
        "relative": "RelativeAttention",
        "local": "LocalAttention",
        "local_2d": "Local2DAttention",
        "dilated": "DilatedAttention",
        "memory_compressed": "MemoryCompressedAttention",
        "additive": "AdditiveAttention",
        "luong": "LuongAttention",
    },
)
