"""Training: the whole of it on one page."""

import platform
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from zoo import plugin
from zoo.errors import InputError, MissingMethodError
from zoo.generation.decoder import Decoder
from zoo.generation.trained import Trained
from zoo.recipe import Recipe
from zoo.tasks.base import Batches
from zoo.training import checkpoint
from zoo.training.build import build_model, build_task
from zoo.training.callbacks import Progress, Rounds
from zoo.training.check import check, monitors
from zoo.training.devices import choose_backend, find_devices
from zoo.training.report import write_report
from zoo.training.run_directory import RunDirectory
from zoo.training.schedules import make_optimizer


def train(recipe: Recipe, workdir: str | Path) -> dict[str, Any]:
    """Trains a recipe in a run directory, or goes on with the run that is there.

    A run that was killed at any moment goes on with the same call and reaches the same weights as one that was not.

    Args:
        recipe: what to train.
        workdir: the run directory; see :class:`zoo.training.run_directory.RunDirectory`.

    Returns:
        The last row of the log, the step and value of the best checkpoint, and how many parameters the model has.

    Raises:
        InputError: the recipe cannot be trained, or the directory is another recipe's.
    """
    choose_backend(recipe.train.backend)
    for spec in recipe.plugins:
        plugin.load(spec)
    recipe = check(recipe)
    settings = recipe.train
    run = RunDirectory(workdir)
    with run.claim(recipe):
        devices = find_devices()
        task = build_task(recipe)
        if run.last.is_file():
            task.restore(run.path)  # made anew, a vocabulary may be another than the weights know
        else:
            task.prepare(run.path)
        keras.utils.set_random_seed(settings.seed)
        with devices.scope:
            model = build_model(recipe, task)
            model.compile(
                optimizer=make_optimizer(settings, recipe.model.width or 1),
                loss=task.loss(settings.label_smoothing),
                weighted_metrics=task.metrics(),
                jit_compile=devices.jit if settings.jit is None else settings.jit,
            )
            model.optimizer.build(model.trainable_variables)
        batching = {"batch_tokens": settings.batch_tokens, "row_multiple": devices.count}
        valid = task.batches("valid", model.layout, buckets=1, **batching)
        decoder = Decoder(model, jit=devices.jit and settings.jit is not False)
        trained = Trained(recipe, task, model, decoder, {})
        rounds = Rounds(run, settings, valid, lambda: decode(trained), monitors(task), task.fingerprint("train"))
        rounds.set_model(model)
        step = rounds.restore()
        print(f"{run.path}: {recipe.model.architecture}, {model.count_params():,} parameters, on {devices.description}")
        found_finished = rounds.state["finished"]
        if found_finished:
            print(f"already finished at step {step}; choose another --workdir to train again")
        else:
            stream = task.batches(
                "train", model.layout, buckets=settings.buckets, seed=settings.seed, step=step, **batching
            )
            shapes = ", ".join(f"{rows}x{length}" for rows, length in stream.shapes)
            print(f"{stream.examples:,} examples, {stream.steps} batches an epoch, shapes {shapes}", flush=True)
            seconds = rehearse(model, stream)
            print(f"compiled in {seconds:.0f} s; " + (f"going on from step {step}" if step else "training"), flush=True)
            run.write_environment(environment(devices.description))
            model.fit(
                stream.dataset,
                steps_per_epoch=settings.validate_every,
                initial_epoch=step // settings.validate_every,
                epochs=-(-settings.steps // settings.validate_every),
                callbacks=[rounds, Progress(rounds, stream.tokens, settings.steps)],
                shuffle=False,  # the stream is
                verbose=0,
            )
        if not run.report_file.is_file() or not found_finished:
            try:
                write_report(run, trained)
            except Exception as error:  # a plugin's task may give what can't be shown; the run is finished all the same
                print(f"zoo: warning: no report: {' '.join(str(error).split())[:200]}", file=sys.stderr)
        state = rounds.state
        best = {"best_step": state["best_step"], f"best_{settings.monitor}": state["best"]}
        return {**state["log"][-1], **best, "parameters": model.count_params()}


def rehearse(model: keras.Model, batches: Batches) -> float:
    """Trains a step on each shape of batch, the largest first, and takes it back; gives the seconds it took.

    So everything is compiled before the first step, and what does not fit in memory fails now, not in an hour.
    """
    start = time.monotonic()
    variables = checkpoint.named_variables(model, model.optimizer)
    before = checkpoint.snapshot(variables)
    specs = batches.dataset.element_spec

    def one_of_each():
        for shape in sorted(batches.shapes, key=lambda shape: -shape[0] * shape[1]):
            yield tf.nest.map_structure(lambda spec, s=shape: np.ones(s, spec.dtype.as_numpy_dtype), specs)

    dataset = tf.data.Dataset.from_generator(one_of_each, output_signature=specs)
    model.fit(dataset, steps_per_epoch=len(batches.shapes), verbose=0, shuffle=False)
    checkpoint.assign(variables, before)
    return time.monotonic() - start


def decode(trained: Trained) -> tuple[dict[str, Any], list[str]]:
    """Metrics on the first sentences of the validation split, decoded, and a few of them to look at."""
    settings = trained.recipe.train
    sources, references = _that_fit(trained, max(settings.decode_validation, settings.samples))
    outputs = trained.generate(sources)
    metrics = trained.task.score(outputs, references, sources) if settings.decode_validation else {}
    shown = range(0, len(sources), max(1, len(sources) // max(settings.samples, 1)))[: settings.samples]
    return metrics, [
        f"{sources[i]}  ->  {_cut(outputs[i], 2 * len(references[i]) + 20)}"
        + ("" if outputs[i] == references[i] else f"   (reference: {references[i]})")
        for i in shown
    ]


def _cut(text: str, most: int) -> str:
    """The beginning of an output, which early in training may never end."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _that_fit(trained: Trained, count: int) -> tuple[list[str], list[str]]:
    """The first validation pairs whose source the model can place: longer ones are left out of the loss too."""
    model, found = trained.model, ([], [])
    for source, reference in zip(*trained.task.pairs("valid"), strict=True):
        if len(found[0]) == count:
            break
        try:
            trained.task.prompts([source], model.layout, model.position_limit())
        except MissingMethodError:
            raise
        except InputError:
            continue
        found[0].append(source)
        found[1].append(reference)
    return found


def environment(device: str) -> dict[str, Any]:
    """Versions and devices, for the run directory."""
    packages = ("attention-zoo", "keras", "tensorflow", "tensorflow-text", "jax", "torch", "sentencepiece", "sacrebleu")
    versions = {}
    for name in packages:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "device": device,
        "backend": keras.backend.backend(),
        "python": platform.python_version(),
        "versions": versions,
    }
