"""``zoo train``, ``zoo evaluate`` and ``zoo generate``."""

import json
import os
import sys

from absl import flags

from zoo.commands import given
from zoo.errors import InputError, said


def train(values: flags.FlagValues, arguments: list[str]) -> None:
    """Trains a recipe, or goes on with a run."""
    recipe = given.recipe_of(values)
    workdir = given.workdir_of(values)
    given.import_tensorflow()
    from zoo.training.train import train

    with given.heard_or_not():
        _train_and_say(train, recipe, workdir)


def _train_and_say(train, recipe, workdir) -> None:
    try:
        result = train(recipe, workdir)
    except KeyboardInterrupt:
        kept = (workdir / "last.npz").is_file()
        on = "the same command goes on from the last checkpoint" if kept else "there is no checkpoint yet to go on from"
        raise KeyboardInterrupt(on) from None
    best = {name.removeprefix("best_"): value for name, value in result.items() if name.startswith("best_")}
    shown = (f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in best.items())
    print(f"best: {', '.join(shown)}; use it:")
    print(f"  zoo evaluate --workdir={workdir}\n  zoo generate --workdir={workdir} --text='...'")


def evaluate(values: flags.FlagValues, arguments: list[str]) -> None:
    """Prints what a trained run is worth, on its task or on files of aligned lines."""
    pairs, files = None, {}
    if values.source is not None or values.reference is not None:
        if values.source is None or values.reference is None:
            raise InputError("give --source and --reference, files whose lines correspond")
        if values["split"].present:
            raise InputError("give --split, or --source and --reference, not both")
        if values.source == values.reference == "-":
            raise InputError("standard input can be one of --source and --reference, not both")
        files = {"source": values.source, "reference": values.reference}
        pairs = given.lines(values.source), given.lines(values.reference)
        counts = [len(side) for side in pairs]
        if counts[0] != counts[1] or not counts[0]:
            raise InputError(
                f"{values.source!r} has {counts[0]} lines and {values.reference!r} has {counts[1]}; "
                "they must have as many, and one at least"
            )
    trained = given.trained(values)
    from zoo.training.evaluate import evaluate

    result = evaluate(trained, values.split, values.limit, values.batch_size, pairs)
    print(json.dumps(files | result, indent=2, ensure_ascii=False))


def generate(values: flags.FlagValues, arguments: list[str]) -> None:
    """Prints what a trained run makes of texts."""
    if values.text is not None and values.input is not None:
        raise InputError("give --text or --input, not both")
    if values.interactive and (values.text is not None or values.input is not None):
        raise InputError("give --interactive, or texts, not both")
    if values.text is not None:
        parts = [[given.decoded(os.fsencode(text), "--text") for text in values.text]]
    elif not values.interactive:
        parts = given.parts(values.input or "-")
    if not values.interactive and values.text is None and values.input is None and sys.stdin.isatty():
        print("reading lines from the keyboard; Ctrl-D ends", file=sys.stderr)
    trained = given.trained(values)
    if values.interactive:
        return _converse(trained, values)
    done = 0
    for texts in parts:  # each is answered before the next is read
        _print_outputs(trained, texts, values, done)
        done += len(texts)


def _converse(trained, values: flags.FlagValues) -> None:
    """Answers line by line; what is wrong with a line is said, and the next one may come."""
    print(f"{trained.decoder.settings}; an empty line or Ctrl-D ends", file=sys.stderr)
    for done, line in enumerate(given.typed()):
        try:
            _print_outputs(trained, [given.decoded(line, "-")], values, done)
        except InputError as error:
            print(f"zoo: {said(error)}", file=sys.stderr)


def _print_outputs(trained, texts: list[str], values: flags.FlagValues, first: int) -> None:
    """Prints what the model makes of texts, of which ``first`` came before."""
    several = trained.decoder.settings.n_best > 1
    prefix = given.decoded(os.fsencode(values.prefix or ""), "--prefix")
    shown = several or values.format == "json"  # the log-probabilities
    found = trained.hypotheses(texts, values.batch_size, prefix, first, scored=shown)
    for number, (text, of_text) in enumerate(zip(texts, found, strict=True), first + 1):
        if values.format == "json":
            outputs = [{"output": output, "log_probability": round(score, 4)} for output, score in of_text]
            row = {"source": text, **outputs[0]} | ({"n_best": outputs} if several else {})
            print(json.dumps(row, ensure_ascii=False))
        else:
            for output, score in of_text:
                print(f"{number}\t{score:.4f}\t{output}" if several else output)
    sys.stdout.flush()
