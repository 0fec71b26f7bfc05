"""What every architecture shares."""

from collections.abc import Callable

import keras

from zoo.errors import MissingMethodError
from zoo.layers.configured import Configured


class Architecture(Configured, keras.Model):
    """Base of the architectures: a Keras model built from plain settings.

    The constructor takes what the task says of its data (vocabularies, the longest sequence) and the settings of
    the model, all as keywords of plain values with type hints. They are the settings that a recipe can change: one
    that the constructor does not take is refused.

    Decoding needs two methods, and nothing else of an architecture: :meth:`init_decoding` and :meth:`decode_step`.
    """

    #: How the task lays out a batch: "encoder_decoder", "decoder" or "encoder".
    layout = "encoder_decoder"

    #: What the self-attention must support, out of ``zoo.layers.attention.base.CAPABILITIES``.
    requires: frozenset = frozenset()

    #: Arguments of the constructor that the task gives, not the recipe; see ``Task.spec``.
    described_by_task: frozenset = frozenset()

    def position_limit(self) -> int | None:
        """The longest sequence the positional schemes can place, or None when there is no limit."""
        return None

    def init_decoding(self, inputs: dict, max_length: int) -> dict:
        """The state before the first step.

        Batch is the first axis of every tensor in it, but of those in its entry "shared", if it has one: they are the
        same for all rows, and no step changes them.

        Args:
            inputs: what the model's ``call`` gets, without the target.
            max_length: steps to make room for.
        """
        raise MissingMethodError(f"{type(self).__name__} does not decode step by step")

    def decode_step(self, tokens, state: dict, index) -> tuple:
        """One step.

        Args:
            tokens: int (B, 1), the tokens at position ``index``.
            state: from :meth:`init_decoding` or the last step.
            index: scalar int.

        Returns:
            Logits (B, V) of the token after, and the state with the same entries.
        """
        raise MissingMethodError(f"{type(self).__name__} does not decode step by step")


def map_rows(change: Callable, state: dict, *others: dict) -> dict:
    """The state of decoding with its tensors changed, but for those that all rows share.

    Args:
        change: gets a tensor of ``state`` and those in its place in ``others``.
    """
    return {
        name: part if name == "shared" else keras.tree.map_structure(change, part, *(other[name] for other in others))
        for name, part in state.items()
    }
