"""Sines and cosines of geometrically spaced wavelengths."""

import math

from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.position.base import Position


@registry.position.register("sinusoidal")
class SinusoidalPosition(Position):
    """Sines and cosines of geometrically spaced wavelengths, interleaved: PE(p, 2i) = sin(p / base^(2i/D)).

    Args:
        base: the wavelengths run from 2 pi to ``base`` * 2 pi.

    Raises:
        InputError: the width is odd.

    Reference:
        Vaswani et al., 2017, "Attention Is All You Need", section 3.5.
    """

    stage = "embedding"

    def __init__(
        self,
        width: int,
        num_heads: int,
        head_dim: int,
        max_length: int | None = None,
        *,
        base: float = 10000.0,
        **kwargs,
    ):
        super().__init__(width, num_heads, head_dim, max_length, **kwargs)
        if width % 2:
            raise InputError(f"sinusoidal positions need an even width, not {width}")
        self.base = base

    def build(self, query_positions_shape=None, key_positions_shape=None):
        self.built = True

    def call(self, query_positions, key_positions=None):
        pairs = ops.arange(self.width // 2, dtype="float32")
        frequencies = ops.exp(pairs * (-2.0 * math.log(self.base) / self.width))
        angles = ops.expand_dims(ops.cast(query_positions, "float32"), 1) * frequencies  # (T, D / 2)
        table = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # (T, D / 2, 2)
        return ops.cast(ops.reshape(table, (-1, self.width)), self.compute_dtype)
