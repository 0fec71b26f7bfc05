"""What every task shares."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf


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
        data_dir: a folder that already holds the data, or None.
        seed: of whatever the task draws.

    A task's further options are keywords of its constructor, with type hints.
    """

    #: Batch layouts the task can serve; see ``zoo.architectures.base.Architecture.layout``.
    layouts: frozenset = frozenset()

    #: Metrics on decoded output by name; True where higher is better.
    decoded_metrics: dict[str, bool] = {}

    def __init__(self, *, data_dir: str | None = None, seed: int = 1):
        self.data_dir = data_dir
        self.seed = seed

    def prepare(self, directory: Path) -> None:
        """Reads the data, and makes what must be kept with a run (a vocabulary) in ``directory`` or reads it there."""
        raise NotImplementedError

    def restore(self, directory: Path) -> None:
        """Reads what :meth:`prepare` kept in ``directory``, without the data; enough to use a trained model."""
        raise NotImplementedError

    def spec(self, layout: str) -> dict[str, Any]:
        """The constructor arguments that describe the data to an architecture of this layout."""
        raise NotImplementedError

    def batches(self, split: str, layout: str, batch_tokens: int, **settings) -> Batches:
        """The batches of "train", "valid" or "test"."""
        raise NotImplementedError
