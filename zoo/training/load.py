"""A trained model, from its run directory."""

from pathlib import Path

import keras
import numpy as np

from zoo import plugin
from zoo.errors import InputError
from zoo.generation.decoder import Decoder
from zoo.generation.settings import Decoding
from zoo.generation.trained import Trained
from zoo.training import checkpoint
from zoo.training.build import build_model, build_task
from zoo.training.check import check
from zoo.training.run_directory import RunDirectory

#: What last.npz knows besides, for going on with the run.
_OF_TRAINING = ("log", "data", "rounds_since_best", "seconds", "finished")


def load(
    directory: str | Path,
    checkpoint_name: str = "best",
    data_dir: str | None = None,
    decoding: Decoding | None = None,
    average_last: int | None = None,
) -> Trained:
    """The model of a run directory, with its vocabularies and plugins.

    Args:
        directory: of the run.
        checkpoint_name: "best", or "last" for the weights that training goes on from (not their moving average).
        data_dir: where the data is now, if it is to be evaluated on and has moved since.
        decoding: how outputs are searched for or drawn; greedy when None.
        average_last: take the mean of the weights at so many validations, the last ones, in place of a checkpoint.

    Raises:
        InputError: there is no run, no checkpoint yet, or fewer than are to be averaged; a plugin is missing.
    """
    if not isinstance(directory, str | Path):
        raise InputError(f"a run is loaded from its directory, not from {directory!r}")
    if checkpoint_name not in ("best", "last"):
        raise InputError(f"a checkpoint is best or last, not {checkpoint_name!r}")
    run = RunDirectory(directory)
    recipe = run.recipe()
    plugin.load_installed()
    for spec in run.plugin_specs():
        plugin.load(spec)
    recipe = check(recipe if data_dir is None else recipe.override({"task.data_dir": data_dir}))
    task = build_task(recipe)
    task.restore(run.path)
    model = build_model(recipe, task)
    path = run.best if checkpoint_name == "best" else run.last
    if average_last is None:
        values, meta = checkpoint.read(path)
        meta = {"file": path.name, **meta}
    else:
        kept = run.kept()
        if not 0 < average_last <= len(kept):
            raise InputError(
                f"{str(run.path)!r} keeps the weights of {len(kept)} validations, of which {average_last} can't be "
                "averaged; train.validate_every says how often a run validates, and train.keep_last how many it keeps"
            )
        values, meta = checkpoint.average(kept[-average_last:])
    weights = {name: values[name] for name in values if not name.startswith(("random/", "optimizer/"))}
    checkpoint.assign(checkpoint.named_variables(model), weights)
    for name, value in weights.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise InputError(f"the weights of {str(run.path)!r} are no numbers: {name!r} holds NaN or infinity")
    decoder = Decoder(model, decoding, jit=keras.backend.backend() != "torch" and recipe.train.jit is not False)
    return Trained(recipe, task, model, decoder, {key: meta[key] for key in meta if key not in _OF_TRAINING})
