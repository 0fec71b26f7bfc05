"""Talking-heads attention for attention-zoo: the kind ``talking_heads``, and recipes as ``talking_heads/name``."""

from pathlib import Path

from zoo import recipe
from zoo_talking_heads.talking_heads import TalkingHeadsAttention

__all__ = ["TalkingHeadsAttention"]

recipe.add_directory("talking_heads", Path(__file__).parent / "recipes")
