"""Evaluation of a trained run: decoded metrics, and teacher-forced ones under names that say so."""

import dataclasses
import math
from pathlib import Path
from typing import Any

from zoo.errors import InputError
from zoo.generation.trained import Trained
from zoo.tasks.base import Batches
from zoo.training.load import load


def evaluate(
    run: str | Path | Trained,
    split: str = "test",
    limit: int | None = None,
    rows: int = 64,
    pairs: tuple[list[str], list[str]] | None = None,
) -> dict[str, Any]:
    """Metrics of a trained run.

    Args:
        run: a run directory, or what :func:`zoo.load` gave.
        split: "train", "valid" or "test".
        limit: only the first so many examples.
        rows: sentences decoded in a batch.
        pairs: sources and references of your own, in place of a split of the task's.

    Returns:
        The task's metrics on decoded output; ``teacher_forced_perplexity`` and ``teacher_forced_accuracy``, per
        token, given the right tokens before; which checkpoint, which decoder, how many examples.

    Raises:
        InputError: there is nothing to measure, or sources and references are not as many.
    """
    trained = run if isinstance(run, Trained) else load(run)
    if limit is not None and limit < 1:
        raise InputError(f"limit must be at least 1, not {limit}")
    if pairs is not None:
        counts = [len(side) for side in pairs]
        if counts[0] != counts[1] or not counts[0]:
            raise InputError(f"{counts[0]} sources and {counts[1]} references: as many are needed, and one at least")
        trained = dataclasses.replace(trained, task=trained.task.with_pairs(split, *pairs))
    sources, references = (texts[:limit] for texts in trained.task.pairs(split))
    outputs = trained.generate(sources, rows)
    batches = trained.task.batches(split, trained.model.layout, trained.recipe.train.batch_tokens, limit=limit)
    return {
        **trained.task.score(outputs, references, sources),
        **teacher_forced(trained, batches),
        **({"split": split} if pairs is None else {}),
        "examples": len(sources),
        "decoder": str(trained.decoder.settings),
        "checkpoint": trained.checkpoint,
    }


def teacher_forced(trained: Trained, batches: Batches) -> dict[str, float]:
    """The task's metrics with the right output given; of a likelihood per token, the perplexity."""
    task, model = trained.task, trained.model
    if not model.compiled:
        model.compile(loss=task.loss(0.0), weighted_metrics=task.metrics(), jit_compile=trained.decoder.jit)
    measured = model.evaluate(batches.dataset, steps=batches.steps, verbose=0, return_dict=True)
    result = {}
    for name in task.teacher_forced_metrics:
        if name == "token_nll":
            result["teacher_forced_perplexity"] = math.exp(measured[name])
        else:
            result[f"teacher_forced_{name.removeprefix('token_')}"] = measured[name]
    return result
