"""Attention kinds, one file each. A new kind is a file and a line here."""

from zoo import registry

__getattr__ = registry.attention.declare(
    __name__,
    {
        "multi_head": "MultiHeadAttention",
    },
)
