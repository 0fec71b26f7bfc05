"""A trained model, from its run directory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from zoo import plugin
from zoo.architectures.base import Architecture
from zoo.errors import InputError
from zoo.generation.decoder import Decoder, decode_all
from zoo.generation.settings import Decoding
from zoo.recipe import Recipe
from zoo.tasks.base import Task
from zoo.training import checkpoint
from zoo.training.build import build_model, build_task
from zoo.training.check import check
from zoo.training.run_directory import RunDirectory

#: What last.npz knows besides, for going on with the run.
_OF_TRAINING = ("log", "data", "rounds_since_best", "seconds", "finished")


@dataclass(frozen=True)
class Trained:
    """A model with what it needs to be used.

    Attributes:
        recipe: the resolved recipe it was trained by.
        task: with its vocabularies.
        model: with its weights.
        decoder: from a batch to tokens.
        checkpoint: which weights these are: the file, the step, and what was measured there.
    """

    recipe: Recipe
    task: Task
    model: Architecture
    decoder: Decoder
    checkpoint: dict[str, Any]

    def generate(self, texts: list[str], rows: int = 64, prefix: str = "") -> list[str]:
        """The model's output for each text.

        Args:
            texts: (N,) sources.
            rows: sentences in a batch; the result does not depend on it.
            prefix: what every output begins with.

        Raises:
            InputError: a text is longer than the model can place.
        """
        return [hypotheses[0][0] for hypotheses in self.hypotheses(texts, rows, prefix)]

    def hypotheses(
        self, texts: list[str], rows: int = 64, prefix: str = "", first: int = 0
    ) -> list[list[tuple[str, float]]]:
        """The model's ``n_best`` outputs for each text, the best first, with their log-probabilities.

        ``first`` is the place of the first text among all that come, on which a draw depends.
        """
        if not texts:
            return []
        layout, limit = self.model.layout, self.model.position_limit()
        rows = -(-min(rows, len(texts)) // 8) * 8  # few shapes to compile, and a share for each of several devices
        tokens = tuple(self.task.prefix(prefix)) if prefix else ()
        found = decode_all(
            self.decoder, lambda batch: self.task.prompts(batch, layout, limit), texts, rows, tokens, first
        )
        written = iter(self.task.texts([hypothesis.tokens for of_text in found for hypothesis in of_text]))
        return [[(next(written), hypothesis.log_probability) for hypothesis in of_text] for of_text in found]


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
                "averaged; train.keep_last says how many a run keeps"
            )
        values, meta = checkpoint.average(kept[-average_last:])
    variables = checkpoint.named_variables(model)
    checkpoint.assign(
        variables, {name: values[name] for name in values if not name.startswith(("random/", "optimizer/"))}
    )
    decoder = Decoder(model, decoding, jit=keras.backend.backend() != "torch")
    return Trained(recipe, task, model, decoder, {key: meta[key] for key in meta if key not in _OF_TRAINING})
