"""Linear attention for attention-zoo: the kind ``linear_attention``, and recipes as ``linear_attention/name``."""

from pathlib import Path

from zoo import recipe
from zoo_linear_attention.linear_attention import LinearAttention

__all__ = ["LinearAttention"]

recipe.add_directory("linear_attention", Path(__file__).parent / "recipes")
