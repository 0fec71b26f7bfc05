"""Evaluation of a trained run: decoded metrics, and teacher-forced ones under names that say so."""

import math
from pathlib import Path
from typing import Any

import keras

from zoo.tasks.base import Batches
from zoo.training.load import Trained, load
from zoo.training.losses import SmoothedCrossEntropy, token_metrics


def evaluate(
    run: str | Path | Trained, split: str = "test", limit: int | None = None, rows: int = 64
) -> dict[str, Any]:
    """Metrics of a trained run.

    Args:
        run: a run directory, or what :func:`zoo.load` gave.
        split: "train", "valid" or "test".
        limit: only the first so many examples.
        rows: sentences decoded in a batch.

    Returns:
        The task's metrics on decoded output; ``teacher_forced_perplexity`` and ``teacher_forced_accuracy``, per
        token, given the right tokens before; which checkpoint, which decoder, how many examples.
    """
    trained = run if isinstance(run, Trained) else load(run)
    sources, references = (texts[:limit] for texts in trained.task.pairs(split))
    outputs = trained.generate(sources, rows)
    batches = trained.task.batches(split, trained.model.layout, trained.recipe.train.batch_tokens, limit=limit)
    return {
        **trained.task.score(outputs, references, sources),
        **teacher_forced(trained.model, batches, trained.decoder.jit),
        "split": split,
        "examples": len(sources),
        "decoder": "greedy",
        "checkpoint": trained.checkpoint,
    }


def teacher_forced(model: keras.Model, batches: Batches, jit: bool | str = "auto") -> dict[str, float]:
    """Perplexity and accuracy per token, given the right tokens before it."""
    if not model.compiled:
        model.compile(loss=SmoothedCrossEntropy(), weighted_metrics=token_metrics(), jit_compile=jit)
    result = model.evaluate(batches.dataset, steps=batches.steps, verbose=0, return_dict=True)
    return {
        "teacher_forced_perplexity": math.exp(result["token_nll"]),
        "teacher_forced_accuracy": result["token_accuracy"],
    }
