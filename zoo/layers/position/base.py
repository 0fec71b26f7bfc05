"""What every positional scheme shares."""

import keras

from zoo.layers.configured import Configured


class Position(Configured, keras.layers.Layer):
    """Base of the positional schemes.

    Attention only ever sees tensors, so any scheme goes with any kind that supports its stage:

    stage        what ``call`` gives                    where it goes
    "none"       None                                   nowhere
    "embedding"  (T, width)                             added to the embedded tokens
    "rotation"   (cos, sin), each (T, 1, head_dim)      turns queries and keys
    "bias"       (1, num_heads, T, S)                   added to the attention logits

    Args:
        width: of the model.
        num_heads: of its attention.
        head_dim: width of a head.
        max_length: longest sequence the model is built for; only a scheme with a table of that length is limited
            by it.
        causal: whether no query sees a key after it, for a scheme that has no use for such distances then.

    Call arguments:
        query_positions: int (T,), the positions of the queries; they may start at any offset.
        key_positions: int (S,), those of the keys; the queries' when None.
    """

    stage = "none"

    def __init__(
        self,
        width: int,
        num_heads: int,
        head_dim: int,
        max_length: int | None = None,
        *,
        causal: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.causal = causal
        self.width = width
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.max_length = max_length

    @property
    def limit(self) -> int | None:
        """The number of positions there are, or None when there is no limit."""
        return None

    def call(self, query_positions, key_positions=None):
        raise NotImplementedError(f"{type(self).__name__} must define call")
