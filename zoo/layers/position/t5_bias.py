"""A learned bias for each bucket of distances, as in T5."""

import math

from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.position.base import PlacedPosition


@registry.position.register("t5_bias")
class T5BiasPosition(PlacedPosition):
    """A learned bias on the logits for each bucket of distances and each head; the farther, the wider the bucket.

    Half of a side's buckets hold one distance each; the others grow geometrically up to ``max_distance``, and the
    last takes all beyond.

    Args:
        buckets: in all; with ``bidirectional``, half of them for each side.
        max_distance: where the last bucket begins to take everything.
        bidirectional: tell keys before the query from keys after it. Without, all keys after it share the bucket of
            distance 0. None: unless the stack is causal.

    Raises:
        InputError: too few buckets.

    Reference:
        Raffel et al., 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
        section 2.1.
    """

    stage = "bias"

    def __init__(
        self,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool | None = None,
        **sizes,
    ):
        super().__init__(**sizes)
        bidirectional = not self.causal if bidirectional is None else bidirectional
        self.side = buckets // 2 if bidirectional else buckets  # buckets of one side
        if self.side < 2 or max_distance <= self.side // 2:
            raise InputError(f"{buckets} buckets can't be spread over {max_distance} positions")
        self.buckets = buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional

    def build(self, query_positions_shape=None, key_positions_shape=None):
        self.bias = self.add_weight(name="bias", shape=(self.buckets, self.num_heads), initializer="zeros")
        self.built = True

    def call(self, query_positions, key_positions=None):
        keys = query_positions if key_positions is None else key_positions
        offset = ops.expand_dims(keys, 0) - ops.expand_dims(query_positions, 1)  # (T, S), negative to the left
        bias = ops.take(self.bias, self.bucket(offset), axis=0)  # (T, S, N)
        return ops.expand_dims(ops.transpose(bias, (2, 0, 1)), 0)  # (1, N, T, S)

    def bucket(self, offset):
        """The bucket of each key position minus query position, int32 of the same shape."""
        if self.bidirectional:
            first = ops.where(offset > 0, self.side, 0)
            distance = ops.abs(offset)
        else:
            first = 0
            distance = ops.maximum(-offset, 0)
        exact = self.side // 2
        ratio = ops.log(ops.cast(ops.maximum(distance, 1), "float32") / exact) / math.log(self.max_distance / exact)
        # A hair is added so that a distance at the very edge of a bucket is rounded the same everywhere.
        far = exact + ops.cast(ratio * (self.side - exact) + 1e-4, "int32")
        return first + ops.where(distance < exact, distance, ops.minimum(far, self.side - 1))
