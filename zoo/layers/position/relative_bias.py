"""A learned bias for each distance."""

from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.position.base import PlacedPosition


@registry.position.register("relative_bias")
class RelativeBiasPosition(PlacedPosition):
    """A learned bias on the logits for each distance and head; all distances beyond the farthest share one.

    Args:
        max_distance: the farthest distance, on either side, with a bias of its own.

    Raises:
        InputError: ``max_distance`` is below 1.

    Reference:
        Liu et al., 2021, "Swin Transformer", section 3.2, in one dimension; the clipping is that of Shaw et al.,
        2018.
    """

    stage = "bias"

    def __init__(
        self,
        *,
        max_distance: int = 64,
        **sizes,
    ):
        super().__init__(**sizes)
        if max_distance < 1:
            raise InputError(f"max_distance must be at least 1, not {max_distance}")
        self.max_distance = max_distance

    def build(self, query_positions_shape=None, key_positions_shape=None):
        shape = (2 * self.max_distance + 1, self.num_heads)
        self.bias = self.add_weight(name="bias", shape=shape, initializer="zeros")
        self.built = True

    def call(self, query_positions, key_positions=None):
        keys = query_positions if key_positions is None else key_positions
        offset = ops.expand_dims(keys, 0) - ops.expand_dims(query_positions, 1)  # (T, S), negative to the left
        row = ops.clip(offset, -self.max_distance, self.max_distance) + self.max_distance
        bias = ops.take(self.bias, row, axis=0)  # (T, S, N)
        return ops.expand_dims(ops.transpose(bias, (2, 0, 1)), 0)  # (1, N, T, S)
