"""No positions."""

from zoo import registry
from zoo.layers.position.base import Position


@registry.position.register("none")
class NoPosition(Position):
    """No positions: the order of the words is invisible, but for what a causal mask gives away.

    Reference:
        Haviv et al., 2022, "Transformer Language Models without Positional Encodings Still Learn Positional
        Information".
    """

    def build(self, query_positions_shape=None, key_positions_shape=None):
        self.built = True

    def call(self, query_positions, key_positions=None):
        return None
