"""Dropout with a random stream that costs no more than the product it goes with."""

import keras
from keras import ops

from zoo.errors import InputError
from zoo.layers.configured import Configured
from zoo.layers.hashing import hashed, odd


@keras.saving.register_keras_serializable("zoo")
class Dropout(Configured, keras.layers.Layer):
    """Zeroes a share of the elements in training, and scales up the rest.

    The bits are a hash of each element's index and of a counter that moves on at every call: a few integer
    operations that a compiler fuses into the product, where the generators of the backends, under XLA on a CPU, took
    a fifth of a whole training step (``benchmarks/dropout.py``). The counter is a variable, so a run that is resumed
    goes on with the same stream.

    Args:
        rate: share of the elements that are dropped.
        seed: of the stream; drawn from Keras' global seed when None.

    Call arguments:
        x: any shape.
        training: nothing is dropped unless true.

    Reference:
        Srivastava et al., 2014, "Dropout"; Salmon et al., 2011, "Parallel Random Numbers: As Easy as 1, 2, 3" for
        counters as random streams; the mixing function is the finalizer of MurmurHash3 (Appleby, public domain).
    """

    def __init__(self, rate: float, *, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise InputError(f"a dropout rate must be at least 0 and below 1, not {rate}")
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator(seed) if rate > 0 else None

    def build(self, x_shape=None):
        self.built = True

    def call(self, x, training=None):
        if not training or self.rate == 0:
            return x
        kept = ops.greater_equal(self._random_bits(x), int((self.rate - 0.5) * 2**32))
        return ops.where(kept, x * (1 / (1 - self.rate)), ops.zeros((), x.dtype))

    def _random_bits(self, x):
        """Uniform int32 in the shape of ``x``."""
        shape = ops.shape(x)
        index = ops.zeros((), "int32")
        for axis, size in enumerate(shape):  # the flat index, without a tensor of indices to reshape
            steps = ops.reshape(ops.arange(size, dtype="int32"), [-1] + [1] * (len(shape) - axis - 1))
            index = index * size + steps
        seed = ops.cast(self.seed_generator.next(), "int32")
        start = hashed(seed[0] + hashed(seed[1]))
        return hashed(index * odd(0x9E3779B1) + start)

    def compute_output_shape(self, x_shape):
        return x_shape
