"""Sines and cosines of geometrically spaced wavelengths."""

import math

import keras
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.position.base import PlacedPosition


@registry.position.register("sinusoidal")
class SinusoidalPosition(PlacedPosition):
    """Sines and cosines of geometrically spaced wavelengths, interleaved: PE(p, 2i) = sin(p / base^(2i/D)).

    Args:
        base: the wavelengths run from 2 pi to ``base`` * 2 pi.
        concatenate: put them beside the embedded tokens and project both to the width, rather than add them.
        random_offset: in training, all positions are moved by a random number below this.

    Raises:
        InputError: the width is odd, or the offset is negative.

    Reference:
        Vaswani et al., 2017, "Attention Is All You Need", section 3.5; Kiyono et al., 2021, "SHAPE: Shifted Absolute
        Position Embedding for Transformers", for ``random_offset``.
    """

    stage = "embedding"

    variants = ({}, {"concatenate": True}, {"random_offset": 8, "randomized": 64, "spacing": 2})

    def __init__(self, *, base: float = 10000.0, concatenate: bool = False, random_offset: int = 0, **sizes):
        super().__init__(**sizes)
        if self.width % 2:
            raise InputError(f"sinusoidal positions need an even width, not {self.width}")
        if random_offset < 0:
            raise InputError(f"random_offset must be at least 0, not {random_offset}")
        if base <= 0:
            raise InputError(f"the base of the wavelengths must be above 0, not {base}")
        self.base = base
        self.random_offset = random_offset
        self.offset_generator = keras.random.SeedGenerator() if random_offset else None
        self.projection = None
        if concatenate:
            self.projection = keras.layers.Dense(self.width, name="projection", dtype=self.dtype_policy)

    def build(self, query_positions_shape=None, key_positions_shape=None):
        if self.projection is not None and not self.projection.built:
            self.projection.build((None, None, 2 * self.width))
        self.built = True

    def place(self, indices, training=None):
        positions = super().place(indices, training=training)
        if training and self.random_offset:
            shape = (1,)
            positions += keras.random.randint(shape, 0, self.random_offset, "int32", seed=self.offset_generator)
        return positions

    def combine(self, x, encoded):
        if self.projection is None:
            return x + encoded
        return self.projection(ops.concatenate([x, ops.broadcast_to(encoded, ops.shape(x))], axis=-1))

    def call(self, query_positions, key_positions=None):
        return ops.cast(sinusoids(query_positions, self.width, self.base), self.compute_dtype)


def sinusoids(positions, width: int, base: float):
    """Sines and cosines of ``positions`` (T,), interleaved: float32 (T, width)."""
    pairs = ops.arange(width // 2, dtype="float32")
    frequencies = ops.exp(pairs * (-2.0 * math.log(base) / width))
    angles = ops.expand_dims(ops.cast(positions, "float32"), 1) * frequencies  # (T, D / 2)
    return ops.reshape(ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1), (-1, width))
