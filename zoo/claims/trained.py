"""What the claims about trained models share: a run for each change of a recipe, and where its heads look."""

from pathlib import Path
from typing import Any

import numpy as np

from zoo import recipe as recipes
from zoo.errors import InputError
from zoo.generation.trained import Trained
from zoo.inspect.maps import attention_maps
from zoo.training.load import load
from zoo.training.train import train

SHORTEST = 6  #: Tokens; in fewer, near and far are the same.


def run(name: str, changes: dict[str, Any], workdir: Path) -> Trained:
    """The run of a recipe with changes, trained, or gone on with, if it is not finished."""
    train(recipes.load(name).override(changes), workdir)
    return load(workdir)


def encoder_weights(trained: Trained, sentences: int = 40) -> list[list[np.ndarray]]:
    """The weights of each encoder layer, (N, T, T), for each of some validation sentences that are long enough.

    Raises:
        InputError: there is none that is, or no encoder layer that shows its weights.
    """
    pairs = zip(*trained.task.pairs("valid"), strict=True)
    found: list[list[np.ndarray]] = []
    for source, target in pairs:
        if len(trained.task.source.encode(source)) < SHORTEST:
            continue
        maps = attention_maps(trained, source, target).maps
        found.append([layer.weights for layer in maps if layer.name.startswith("encoder")])
        if len(found) == sentences:
            break
    if not found:
        raise InputError(f"no validation sentence has {SHORTEST} tokens; raise task.options.valid_size")
    if not found[0]:
        raise InputError("the model has no encoder layer that shows its weights; choose another kind or architecture")
    return found


def distances(length: int) -> np.ndarray:
    """|s - t| for each pair, (T, T)."""
    places = np.arange(length)
    return np.abs(places[:, None] - places)
