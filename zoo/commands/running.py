"""``zoo train``, ``zoo evaluate`` and ``zoo generate``."""

import json
import os

from absl import flags

from zoo.commands import given
from zoo.errors import InputError


def train(values: flags.FlagValues, arguments: list[str]) -> None:
    """Trains a recipe, or goes on with a run."""
    recipe = given.recipe_of(values)
    workdir = given.workdir_of(values)
    given.import_tensorflow()
    from zoo.training.train import train

    try:
        result = train(recipe, workdir)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on from the last checkpoint") from None
    print(f"best: {', '.join(f'{k} {v}' for k, v in result.items() if k.startswith('best_'))}; use it:")
    print(f"  zoo evaluate --workdir={workdir}\n  zoo generate --workdir={workdir} --text='...'")


def evaluate(values: flags.FlagValues, arguments: list[str]) -> None:
    """Prints what a trained run is worth."""
    trained = given.trained(values)
    from zoo.training.evaluate import evaluate

    print(json.dumps(evaluate(trained, values.split, values.limit, values.batch_size), indent=2))


def generate(values: flags.FlagValues, arguments: list[str]) -> None:
    """Prints what a trained run makes of texts."""
    if values.text is not None and values.input is not None:
        raise InputError("give --text or --input, not both")
    if values.text is not None:
        texts = [given.decoded(os.fsencode(text), "--text") for text in values.text]
    else:
        texts = given.lines(values.input or "-")
    trained = given.trained(values)
    several = trained.decoder.settings.n_best > 1
    for text, found in zip(texts, trained.hypotheses(texts, values.batch_size, values.prefix or ""), strict=True):
        if values.format == "json":
            outputs = [{"output": output, "log_probability": round(score, 4)} for output, score in found]
            row = {"source": text, **outputs[0]} | ({"n_best": outputs} if several else {})
            print(json.dumps(row, ensure_ascii=False))
        else:
            for output, score in found:
                print(f"{score:.4f}\t{output}" if several else output)
