"""Rotary positions: queries and keys turned by their position."""

import math

from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.position.base import PlacedPosition


@registry.position.register("rotary")
class RotaryPosition(PlacedPosition):
    """Queries and keys turned by their position, so that their product depends on the distance alone.

    The pair of features (i, i + H/2) turns by p / base^(2i/H) at position p.

    Args:
        base: the slowest pair turns once in about ``base`` * 2 pi positions.

    Raises:
        InputError: the width of a head is odd.

    Reference:
        Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
    """

    stage = "rotation"

    def __init__(
        self,
        *,
        base: float = 10000.0,
        **sizes,
    ):
        super().__init__(**sizes)
        if self.head_dim % 2:
            raise InputError(
                f"rotary positions need heads of an even width, not {self.head_dim}; change num_heads or width"
            )
        if base <= 0:
            raise InputError(f"the base of the wavelengths must be above 0, not {base}")
        self.base = base

    def build(self, query_positions_shape=None, key_positions_shape=None):
        self.built = True

    def call(self, query_positions, key_positions=None):
        pairs = ops.arange(self.head_dim // 2, dtype="float32")
        frequencies = ops.exp(pairs * (-2.0 * math.log(self.base) / self.head_dim))
        angles = ops.expand_dims(ops.cast(query_positions, "float32"), 1) * frequencies  # (T, H / 2)
        angles = ops.expand_dims(ops.concatenate([angles, angles], axis=-1), 1)  # (T, 1, H)
        return ops.cos(angles), ops.sin(angles)
