"""A learned vector for each position."""

import keras
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.position.base import Position


@registry.position.register("learned")
class LearnedPosition(Position):
    """A learned vector for each position up to ``max_length``; there is none beyond it.

    Raises:
        InputError: ``max_length`` is missing, or a call asks for more positions than there are.

    Reference:
        Gehring et al., 2017, "Convolutional Sequence to Sequence Learning", section 3.1; Vaswani et al., 2017,
        table 3, row E.
    """

    stage = "embedding"

    def __init__(self, width: int, num_heads: int, head_dim: int, max_length: int | None = None, **kwargs):
        super().__init__(width, num_heads, head_dim, max_length, **kwargs)
        if max_length is None:
            raise InputError("learned positions need max_length, the number of positions to learn")

    @property
    def limit(self) -> int:
        return self.max_length

    def build(self, query_positions_shape=None, key_positions_shape=None):
        self.table = self.add_weight(
            name="table",
            shape=(self.max_length, self.width),
            initializer=keras.initializers.RandomNormal(stddev=self.width**-0.5),
        )
        self.built = True

    def call(self, query_positions, key_positions=None):
        lengths = [positions.shape[0] for positions in (query_positions, key_positions) if positions is not None]
        length = max((length for length in lengths if length is not None), default=0)
        if length > self.max_length:
            raise InputError(
                f"{length} positions are asked for and {self.max_length} were learned; "
                "shorten the input, or train with a larger max_length or a scheme without a limit"
            )
        return ops.cast(ops.take(self.table, query_positions, axis=0), self.compute_dtype)  # (T, width)
