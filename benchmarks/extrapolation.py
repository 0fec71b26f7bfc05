"""Trains a causal decoder on short sequences and measures it on ones up to 8 times as long, for every scheme.

    python benchmarks/extrapolation.py

prints a table, and writes extrapolation.csv and extrapolation.png in --output. The runs are kept there too: the same
command goes on where it was stopped. ``--positions=rotary,alibi_randomized`` takes some schemes, each also as
``_randomized``. ``--recipe`` takes another recipe whose task has the option ``longest``, as copy and reverse have.

What is learned, unless a recipe says otherwise, is a language of which each sequence has a dialect of its own (see
MarkovChains). The longer the context, the more it tells about the next symbol, and the best loss that there can be is
known at each length: a scheme that extrapolates follows it down, one that does not stays above it or rises. As in
figure 1 of Press et al., the loss of a length is the mean over all positions of sequences that long.

The weights stay as trained, those of the best validation. A scheme is not asked for what training could not show it:
its distances are told apart up to half the trained length, so that the last one, which stands for all beyond, is
trained like the others; and randomized positions are drawn from as many as the longest sequence has. Where Ruoss et al.
draw a sample in tests too, the positions are here spread evenly over all these.

Measured with seed 1 on 2 CPU cores, about 50 s of CPU time a scheme: the loss

                         1x     8x                              1x     8x
    optimum            1.23   0.79      sinusoidal            1.23   1.12
    relative           1.23   0.82      learned_randomized    1.29   1.19
    t5_bias            1.23   0.86      none                  1.35   1.20
    relative_bias      1.23   0.86      sinusoidal_randomized 1.26   1.29
    alibi              1.26   0.94      learned               1.24   ends at 1x
    rotary             1.23   0.94
    rotary_randomized  1.24   1.09      axial_2d              1.23   1.11

Reference:
    Press et al., 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation";
    Ruoss et al., 2023, "Randomized Positional Encodings Boost Length Generalization of Transformers".
"""

import csv
import dataclasses
import io
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
from absl import app, flags
from matplotlib.figure import Figure

import zoo
from zoo import recipe as recipes
from zoo import registry
from zoo.quiet import quiet
from zoo.recipe import Recipe
from zoo.training.devices import choose_backend
from zoo.whole import whole_file, write_text

choose_backend(None)
with quiet():  # importing Keras makes the libraries chatter
    import keras
    from markov_chains import MarkovChains, markov_chains

    from zoo.tasks.base import Batches
    from zoo.training.build import build_task
    from zoo.training.check import check
    from zoo.training.evaluate import teacher_forced

keras.config.disable_traceback_filtering()  # else Keras wraps a layer's error in the arguments of the call

RECIPE = flags.DEFINE_string("recipe", None, "of a task with the option longest; MarkovChains when not given")
POSITIONS = flags.DEFINE_list("positions", None, "schemes, or relative for that attention kind; all when not given")
STEPS = flags.DEFINE_integer("steps", None, "optimizer steps; the recipe's when not given", lower_bound=1)
SEED = flags.DEFINE_integer("seed", 1, "of initial weights and of training data", lower_bound=0)
OUTPUT = flags.DEFINE_string("output", "runs/extrapolation", "folder to write to")

#: Lengths to measure, in units of the trained one.
MULTIPLES = (1, 2, 4, 8)

#: Column -> what it is called in the picture.
METRICS = {"nll": "negative log-likelihood of a token, nats", "accuracy": "share of tokens predicted right"}

COLUMNS = ("scheme", "multiple", "length", "nll", "accuracy", "optimum", "seed", "steps", "seconds", "error")
RANDOMIZED = "_randomized"

#: So many that no two schemes look alike.
COLORS = [*matplotlib.color_sequences["tab10"], *matplotlib.color_sequences["Dark2"]]


# The schemes -------------------------------------------------------------------------------------------------------


def all_schemes() -> list[str]:
    """Every scheme, the attention kind whose distances meet the query, and some randomized ones."""
    return [
        *registry.position.names(),
        "relative",
        *(name + RANDOMIZED for name in ("learned", "rotary", "sinusoidal")),
    ]


def changes(scheme: str, span: int) -> dict[str, Any]:
    """What gives a recipe the scheme.

    Args:
        scheme: its name.
        span: positions of the longest sequence in training.

    Raises:
        InputError: there is no such scheme.
    """
    name = scheme.removesuffix(RANDOMIZED)
    options = {"max_distance": span // 2} if name in ("relative", "relative_bias", "t5_bias") else {}
    if scheme == "relative":
        attention = {"model.attention": scheme, "model.attention_options": options}
        return {**attention, "model.position": "none", "model.position_options": {}}
    registry.position.require(name)
    if name == "axial_2d":  # of a picture that grows by rows
        options["columns"] = span // 4
    if name == "t5_bias":
        options["buckets"] = span // 2
    if name != scheme:
        options["randomized"] = MULTIPLES[-1] * span
    return {"model.position": name, "model.position_options": options}


def trained_span(recipe: Recipe) -> int:
    """Positions of the longest sequence in training."""
    task = build_task(recipe)
    with tempfile.TemporaryDirectory() as folder:
        task.prepare(Path(folder))
        return positions_of(task.batches("valid", "decoder", recipe.train.batch_tokens))


def measure(scheme: str, recipe: Recipe, workdir: Path) -> list[dict[str, Any]]:
    """Trains the recipe of a scheme and measures it on sequences of each length, a row of the result for each."""
    last = zoo.train(recipe, workdir)
    trained = zoo.load(workdir)
    # Not compiled: a compiled graph takes any length after the second, and a table's end goes unnoticed in it.
    trained.model.compile(loss=trained.task.loss(0.0), weighted_metrics=trained.task.metrics(), run_eagerly=True)
    randomized = trained.recipe.model.position_options.get("randomized")
    rows = []
    for multiple in MULTIPLES:
        length = multiple * recipe.task.options["longest"]
        task = build_task(at_length(trained.recipe, length))
        task.restore(workdir)
        batches = task.batches("test", "decoder", 4 * recipe.train.batch_tokens)
        if randomized:
            trained.model.decoder.position.spacing = randomized // positions_of(batches)
        row = {"scheme": scheme, "multiple": multiple, "length": length, "seed": recipe.train.seed}
        row |= {"steps": last["step"], "seconds": last["seconds"]}
        if isinstance(task, MarkovChains):
            row["optimum"] = task.optimum("test")
        try:
            measured = teacher_forced(dataclasses.replace(trained, task=task), batches)
            row["nll"] = math.log(measured["teacher_forced_perplexity"])
            row["accuracy"] = measured["teacher_forced_accuracy"]
        except zoo.InputError as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def at_length(recipe: Recipe, length: int) -> Recipe:
    """The recipe with sequences of this length and no other."""
    sizes = {"shortest": length, "longest": length, "max_length": length + 1}
    return recipe.override({f"task.options.{n}": size for n, size in sizes.items() if n in recipe.task.options})


def positions_of(batches: Batches) -> int:
    """Positions of the longest sequence."""
    return max(length for _, length in batches.shapes)


# What is shown -----------------------------------------------------------------------------------------------------


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    """A line for each scheme and length, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def write_picture(curves: dict[str, list[dict[str, Any]]], title: str, path: Path) -> None:
    """Loss and accuracy of each scheme against the length, whole or not at all."""
    some = next(iter(curves.values()))  # what holds at a length, whatever the scheme
    bases = list(dict.fromkeys(scheme.removesuffix(RANDOMIZED) for scheme in curves))
    figure = Figure((12, 5), layout="constrained")
    figure.suptitle(title)
    for axes, metric, label in zip(figure.subplots(1, 2), METRICS, METRICS.values(), strict=True):
        for scheme, rows in curves.items():
            base = scheme.removesuffix(RANDOMIZED)
            measured = [row for row in rows if metric in row]
            reach = max((row["multiple"] for row in measured), default=0)
            axes.plot(
                [row["multiple"] for row in measured],
                [row[metric] for row in measured],
                color=COLORS[bases.index(base) % len(COLORS)],
                linestyle="-" if scheme == base else "--",
                marker="o",
                markersize=4,
                label=scheme if reach == MULTIPLES[-1] else f"{scheme} (up to {reach}x)",
            )
        if metric == "nll" and "optimum" in some[0]:
            axes.plot(MULTIPLES, [row["optimum"] for row in some], color="black", linewidth=2, label="optimum")
        axes.axvline(1, color="grey", linestyle=":", label="trained length")
        axes.set_xscale("log", base=2)
        axes.set_xticks(MULTIPLES, [f"{row['multiple']}x\n{row['length']}" for row in some])
        axes.set_xlabel("length of the sequences")
        axes.set_ylabel(label)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    with whole_file(path) as partial:
        figure.savefig(partial, format="png", dpi=150)


def print_table(curves: dict[str, list[dict[str, Any]]]) -> None:
    """A line for each scheme, and why one has no number."""
    some = next(iter(curves.values()))
    heads = [f"{metric} {row['multiple']}x" for metric in METRICS for row in some]
    print("\n" + "".join([f"{'scheme':<22}", *(f"{head:>13}" for head in heads)]))
    if "optimum" in some[0]:
        print("".join([f"{'optimum':<22}", *(f"{row['optimum']:>13.3f}" for row in some)]))
    for scheme, rows in curves.items():
        cells = [f"{row[metric]:.3f}" if metric in row else "-" for metric in METRICS for row in rows]
        print("".join([f"{scheme:<22}", *(f"{cell:>13}" for cell in cells)]))
    for scheme, rows in curves.items():
        wrong = next((row for row in rows if "error" in row), None)
        if wrong is not None:
            print(f"{scheme} from {wrong['multiple']}x on: {wrong['error']}")


def by_scheme(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each scheme, in the order in which the losses of the longest sequences lie in the picture."""
    curves: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        curves.setdefault(row["scheme"], []).append(row)
    return dict(sorted(curves.items(), key=lambda item: -item[1][-1].get("nll", math.inf)))


def run() -> None:
    """Measures every scheme that is asked for."""
    recipe = recipes.load(RECIPE.value) if RECIPE.value else markov_chains()
    settings = {"train.seed": SEED.value, "train.steps": STEPS.value or recipe.train.steps}
    recipe = check(recipe.override({"model.architecture": "decoder_only", **settings}))
    if "longest" not in recipe.task.options:
        raise zoo.InputError(f"task {recipe.task.name!r} has no option longest to change; choose another --recipe")
    span = trained_span(recipe)
    schemes = POSITIONS.value or all_schemes()
    changed = {scheme: check(recipe.override(changes(scheme, span))) for scheme in schemes}  # before any is trained
    folder = Path(OUTPUT.value)
    rows = []
    for scheme, its_recipe in changed.items():
        rows += measure(scheme, its_recipe, folder / "runs" / scheme)
    curves = by_scheme(rows)
    longest = recipe.task.options["longest"]
    title = f"{recipe.task.name}: trained up to length {longest}, {recipe.train.steps} steps, seed {recipe.train.seed}"
    write_csv(rows, folder / "extrapolation.csv")
    write_picture(curves, title, folder / "extrapolation.png")
    print_table(curves)
    print(f"{folder / 'extrapolation.csv'}\n{folder / 'extrapolation.png'}")


def main(argv: list[str]) -> None:
    """Runs; what the user can mend is one line."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected {argv[1]!r}; a flag is written --flag=value")
    try:
        run()
    except zoo.InputError as error:
        print(f"extrapolation: {error}".replace("--workdir", "--output"), file=sys.stderr)  # the flag of `zoo train`
        sys.exit(2)


if __name__ == "__main__":
    app.run(main)
