"""What every task shares."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from zoo.errors import InputError, MissingMethodError


@dataclass(frozen=True)
class Batches:
    """Batches of a split, and what is known of them before they are made.

    Attributes:
        dataset: of (inputs, labels, weights); endless for training, one pass otherwise.
        steps: batches in one pass.
        examples: in one pass.
        tokens: real tokens, source and target, in a batch on average.
        shapes: the distinct (rows, length) of the batches.
    """

    dataset: tf.data.Dataset
    steps: int
    examples: int
    tokens: float
    shapes: tuple[tuple[int, int], ...]


class Task:
    """Base of the tasks: data for a split, batches, metrics on decoded output, and how an output is shown.

    Args:
        seed: of whatever the task draws.

    A task's further options are keywords of its constructor, with type hints. One that reads files takes
    ``data_dir``, a folder that already holds them, or None.
    """

    #: Batch layouts the task can serve; see ``zoo.architectures.base.Architecture.layout``.
    layouts: frozenset = frozenset()

    #: Metrics on decoded output by name; True where higher is better.
    decoded_metrics: dict[str, bool] = {}

    #: Metrics measured with the right output given, of :meth:`metrics`; True where higher is better.
    teacher_forced_metrics: dict[str, bool] = {}

    def __init__(self, *, seed: int = 1):
        self.seed = seed

    @staticmethod
    def require_sizes(**sizes: int) -> None:
        """Sees that there is something in every split that the task makes.

        Raises:
            InputError: a size is out of bounds.
        """
        for name, size in sizes.items():
            if not 1 <= size <= 10**8:
                raise InputError(f"{name} must be from 1 to {10**8}, not {size}")

    def prepare(self, directory: Path) -> None:
        """Reads the data, and makes what must be kept with a run (a vocabulary) in ``directory`` or reads it there."""
        raise MissingMethodError(f"{type(self).__name__} must define prepare")

    def restore(self, directory: Path) -> None:
        """Reads what :meth:`prepare` kept in ``directory``, without the data; enough to use a trained model."""
        raise MissingMethodError(f"{type(self).__name__} must define restore")

    def spec(self, layout: str) -> dict[str, Any]:
        """The constructor arguments that describe the data to an architecture of this layout."""
        raise MissingMethodError(f"{type(self).__name__} must define spec")

    def batches(self, split: str, layout: str, batch_tokens: int, **settings) -> Batches:
        """The batches of "train", "valid" or "test"."""
        raise MissingMethodError(f"{type(self).__name__} must define batches")

    def loss(self, label_smoothing: float) -> keras.losses.Loss:
        """What is minimised."""
        raise MissingMethodError(f"{type(self).__name__} must define loss")

    def metrics(self) -> list:
        """The teacher-forced metrics, fresh for each model."""
        raise MissingMethodError(f"{type(self).__name__} must define metrics")

    def pairs(self, split: str) -> tuple[list[str], list[str]]:
        """What is decoded in a split, and what should come out."""
        raise MissingMethodError(f"{type(self).__name__} must define pairs")

    def fingerprint(self, split: str) -> str:
        """What stands for the data of a split: another one for other data."""
        return ""

    def with_pairs(self, split: str, sources: list[str], targets: list[str]) -> "Task":
        """This task with other pairs in a split, to be measured on them."""
        raise InputError(f"{type(self).__name__} has no pairs of texts to be measured on")

    def prompts(self, texts: list[str], layout: str, limit: int | None = None) -> tuple[dict[str, Any], Any]:
        """The inputs of one batch to decode from, and the number of tokens of each."""
        raise MissingMethodError(f"{type(self).__name__} must define prompts")

    def prefix(self, text: str) -> list[int]:
        """The tokens of the beginning of an output."""
        raise MissingMethodError(f"{type(self).__name__} must define prefix")

    def texts(self, rows: list[list[int]]) -> list[str]:
        """Decoded tokens as a person reads them."""
        raise MissingMethodError(f"{type(self).__name__} must define texts")

    def score(self, outputs: list[str], references: list[str], sources: list[str]) -> dict[str, Any]:
        """The metrics on decoded output."""
        raise MissingMethodError(f"{type(self).__name__} must define score")
