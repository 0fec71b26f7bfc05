"""ALiBi: a penalty that grows with the distance."""

from keras import ops

from zoo import registry
from zoo.layers.position.base import PlacedPosition


@registry.position.register("alibi")
class AlibiPosition(PlacedPosition):
    """A penalty on the logits that grows linearly with the distance, at a rate of its own for each head.

    Head i of N, counted from 1, subtracts 2^(-8i/N) for each position between query and key, on either side.

    Reference:
        Press et al., 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation".
    """

    stage = "bias"

    def build(self, query_positions_shape=None, key_positions_shape=None):
        self.built = True

    def call(self, query_positions, key_positions=None):
        keys = query_positions if key_positions is None else key_positions
        distance = ops.abs(ops.expand_dims(query_positions, 1) - ops.expand_dims(keys, 0))  # (T, S)
        heads = ops.arange(1, self.num_heads + 1, dtype="float32")
        slopes = ops.reshape(ops.power(2.0, heads * (-8.0 / self.num_heads)), (1, self.num_heads, 1, 1))
        return -slopes * ops.cast(distance, "float32")  # (1, N, T, S)
