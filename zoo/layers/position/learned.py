"""A learned vector for each position."""

import keras
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.position.base import PlacedPosition


@registry.position.register("learned")
class LearnedPosition(PlacedPosition):
    """A learned vector for each position up to ``max_length``; there is none beyond it.

    With ``randomized``, for each position that can be drawn.

    Raises:
        InputError: ``max_length`` is missing, or a call asks for more positions than there are.

    Reference:
        Gehring et al., 2017, "Convolutional Sequence to Sequence Learning", section 3.1; Vaswani et al., 2017,
        table 3, row E.
    """

    stage = "embedding"

    def __init__(self, **sizes):
        super().__init__(**sizes)
        if self.max_length is None:
            raise InputError("learned positions need max_length, the number of positions to learn")
        self.rows = self.randomized or self.max_length  # of the table
        self.require_room()

    @property
    def limit(self) -> int:
        return -(-self.rows // self.spacing)

    def build(self, query_positions_shape=None, key_positions_shape=None):
        self.table = self.add_weight(
            name="table",
            shape=(self.rows, self.width),
            initializer=keras.initializers.RandomNormal(stddev=self.width**-0.5),
        )
        self.built = True

    def call(self, query_positions, key_positions=None):
        rows = self.row_of(self.table, query_positions, query_positions, key_positions)
        return ops.cast(rows, self.compute_dtype)  # (T, width)
