"""What every positional scheme shares."""

import keras
from keras import ops

from zoo.errors import InputError, MissingMethodError
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

    #: Options with which the conformance kit tries the scheme.
    variants: tuple[dict, ...] = ({},)

    def __init__(
        self,
        *,
        width: int,
        num_heads: int,
        head_dim: int,
        max_length: int | None = None,
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
        """The longest sequence there are positions for, or None when there is no limit."""
        return None

    def place(self, indices, training=None):
        """The positions of the tokens that are at these places of their sequence, both int (T,)."""
        return indices

    def combine(self, x, encoded):
        """Embedded tokens (B, T, width) with what an "embedding" scheme gave for them."""
        return x + encoded

    def call(self, query_positions, key_positions=None):
        raise MissingMethodError(f"{type(self).__name__} must define call")


class PlacedPosition(Position):
    """Base of the schemes that know positions, and so can be trained on more of them than a sequence has.

    Args:
        randomized: in training, tokens stand at a random sample, in order, of the positions below this: longer
            sequences then hold no position that was never seen. None: at 0, 1, 2, ...
        spacing: from one token to the next where positions are not drawn. Ruoss et al. draw a sample there too; a fixed
            distance lets a sequence be decoded step by step.

    Raises:
        InputError: fewer positions to draw from than the longest sequence has.

    Reference:
        Ruoss et al., 2023, "Randomized Positional Encodings Boost Length Generalization of Transformers".
    """

    variants = ({}, {"randomized": 64, "spacing": 2})

    def __init__(self, *, randomized: int | None = None, spacing: int = 1, **sizes):
        super().__init__(**sizes)
        if spacing < 1:
            raise InputError(f"spacing must be at least 1, not {spacing}")
        if randomized is not None and randomized < max(self.max_length or 1, 1):
            raise InputError(
                f"randomized must be at least the longest sequence, {self.max_length or 1}, not {randomized}"
            )
        self.randomized = randomized
        self.spacing = spacing
        self.seed_generator = None if randomized is None else keras.random.SeedGenerator()

    def row_of(self, table, index, *positions):
        """For a scheme with a table: its rows at ``index``, once there is one for each of so many positions.

        Where the length is not known when a step is compiled, no error can be raised: what is beyond is not a number
        then, and so is all that comes of it.

        Raises:
            InputError: there are more positions than :attr:`limit`.
        """
        lengths = [part.shape[0] for part in positions if part is not None]
        length = max((length for length in lengths if length is not None), default=0)
        if length > self.limit:
            raise InputError(
                f"{length} positions are asked for and {self.limit} were learned; "
                "shorten the input, or train with a larger max_length or a scheme without a limit"
            )
        rows = ops.take(table, index, axis=0)
        if None in lengths:
            rows = ops.where(ops.expand_dims(index < table.shape[0], 1), rows, float("nan"))
        return rows

    def require_room(self) -> None:
        """For a scheme with a table: sees that it is long enough for the longest sequence.

        Raises:
            InputError: ``spacing`` leaves too few positions.
        """
        if self.max_length is not None and self.limit < self.max_length:
            raise InputError(
                f"with a spacing of {self.spacing} there are {self.limit} positions, and the longest sequence has "
                f"{self.max_length}; learn more of them, or set spacing to 1"
            )

    def place(self, indices, training=None):
        if training and self.randomized is not None:
            order = ops.argsort(keras.random.uniform((self.randomized,), seed=self.seed_generator))
            return ops.sort(ops.cast(order[: ops.shape(indices)[0]], "int32"))
        return indices * self.spacing
