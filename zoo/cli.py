"""The command line: ``zoo COMMAND [--flag=value ...]``, flags anywhere.

Nothing here imports Keras or TensorFlow until a command needs it: the flags decide the backend first.
"""

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from absl import flags

from zoo import plugin, registry
from zoo import recipe as recipes
from zoo.errors import InputError, UnknownNameError, near
from zoo.quiet import quiet

#: A flag for what people change most -> the setting it changes.
SETTINGS = {
    "architecture": "model.architecture",
    "attention": "model.attention",
    "position": "model.position",
    "num_heads": "model.num_heads",
    "depth": "model.depth",
    "width": "model.width",
    "dropout": "model.dropout",
    "data_dir": "task.data_dir",
    "batch_tokens": "train.batch_tokens",
    "steps": "train.steps",
    "learning_rate": "train.learning_rate",
    "seed": "train.seed",
    "precision": "train.precision",
    "backend": "train.backend",
}
_RECIPE_FLAGS = ("recipe", *SETTINGS, "set", "plugin")
_TRAINED_FLAGS = ("workdir", "recipe", "checkpoint", "backend", "plugin", "batch_size")


@dataclass(frozen=True)
class Command:
    """A command: what it does, the flags it takes and the arguments after its name."""

    run: Callable[[flags.FlagValues, list[str]], None]
    summary: str
    flags: tuple[str, ...]
    arguments: str = ""


def main(argv: list[str] | None = None) -> None:
    """Runs a command; exits with 0, with 2 when the input is wrong, or with 130 when interrupted."""
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        sys.exit(code)
    except InputError as error:
        print(f"zoo: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nzoo: interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader, as in `zoo list | head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _run(argv: list[str]) -> int:
    values = _define_flags()
    try:
        words = values(["zoo", *argv])[1:]
    except flags.UnrecognizedFlagError as error:
        raise InputError(
            f"unknown flag --{error.flagname}{near(error.flagname, list(values))}; see `zoo --help`"
        ) from error
    except flags.Error as error:
        raise InputError(" ".join(str(error).split())) from error
    name, *arguments = words or [""]
    if name in COMMANDS and (values.help or values["help"].present):
        print(_help_of(name, values))
        return 0
    if values.help or not name:
        print(_help())
        return 0 if values.help else 2
    if name not in COMMANDS:
        raise InputError(f"unknown command {name!r}{near(name, COMMANDS)}; there are: {', '.join(COMMANDS)}")
    command = COMMANDS[name]
    for flag in _given(values):
        if flag not in command.flags:
            takers = [other for other, c in COMMANDS.items() if flag in c.flags]
            raise InputError(f"--{flag} is no flag of `zoo {name}`; it is one of: {', '.join(takers)}")
    if arguments and not command.arguments:
        raise InputError(f"`zoo {name}` takes no {arguments[0]!r}; a flag is written --flag=value")
    command.run(values, arguments)
    return 0


def _define_flags() -> flags.FlagValues:
    """All flags of all commands; each command then takes its own."""
    values = flags.FlagValues()
    values.set_gnu_getopt(True)
    text = {
        "recipe": "a name (see `zoo list`), plugin/name, or the path of a recipe file",
        "workdir": "the run directory; runs/<recipe> when not given",
        "text": "what to decode; several are given by repeating the flag. Without it, lines are read from --input",
        "input": "a file with a source on each line; - for standard input",
    }
    changed = {
        "architecture": "transformer, decoder_only, ...",
        "attention": "attention kind (see `zoo list attention`)",
        "position": "positional scheme (see `zoo list position`)",
        "num_heads": "attention heads",
        "depth": "blocks of a stack",
        "width": "of the model",
        "dropout": "share of the units dropped in training",
        "data_dir": "folder that holds the data",
        "batch_tokens": "padded positions in a batch",
        "steps": "optimizer steps",
        "learning_rate": "peak of the schedule",
        "seed": "of initial weights, shuffling and dropout",
        "precision": "float32, bfloat16 or float16",
        "backend": "tensorflow, jax or torch",
    }
    for name, meaning in {**text, **changed}.items():
        define = flags.DEFINE_multi_string if name == "text" else flags.DEFINE_string
        define(name, None, meaning, flag_values=values)
    choices = {
        "split": (["train", "valid", "test"], "test", "of the data"),
        "checkpoint": (["best", "last"], "best", "which weights: of the best validation, or of the last"),
        "format": (["table", "tsv", "json"], None, "a table in a terminal, tab-separated otherwise"),
    }
    for name, (known, default, meaning) in choices.items():
        flags.DEFINE_enum(name, default, known, meaning, flag_values=values)
    flags.DEFINE_multi_string("set", [], "path=value of any setting (see `zoo show`); repeatable", flag_values=values)
    flags.DEFINE_multi_string("plugin", [], "a module or a .py file to load; repeatable", flag_values=values)
    flags.DEFINE_integer("limit", None, "only the first so many examples", lower_bound=1, flag_values=values)
    flags.DEFINE_integer("batch_size", 64, "sentences decoded at once", lower_bound=1, flag_values=values)
    flags.DEFINE_bool("help", False, "show this", short_name="h", flag_values=values)
    return values


def _given(values: flags.FlagValues) -> list[str]:
    return [name for name in values if values[name].present and name not in ("help", "h")]


# Commands ----------------------------------------------------------------------------------------------------------


def _train(values: flags.FlagValues, arguments: list[str]) -> None:
    recipe = _recipe(values)
    workdir = _workdir(values)
    _import_tensorflow()
    from zoo.training.train import train

    result = train(recipe, workdir)
    print(f"best: {', '.join(f'{k} {v}' for k, v in result.items() if k.startswith('best_'))}; use it:")
    print(f"  zoo evaluate --workdir={workdir}\n  zoo generate --workdir={workdir} --text='...'")


def _evaluate(values: flags.FlagValues, arguments: list[str]) -> None:
    trained = _trained(values)
    from zoo.training.evaluate import evaluate

    print(json.dumps(evaluate(trained, values.split, values.limit, values.batch_size), indent=2))


def _generate(values: flags.FlagValues, arguments: list[str]) -> None:
    if values.text is not None and values.input is not None:
        raise InputError("give --text or --input, not both")
    if values.text is not None:
        texts = [_decoded(os.fsencode(text), "--text") for text in values.text]
    else:
        texts = _lines(values.input or "-")
    trained = _trained(values)
    for text, output in zip(texts, trained.generate(texts, values.batch_size), strict=True):
        row = {"source": text, "output": output}
        print(json.dumps(row, ensure_ascii=False) if values.format == "json" else output)


def _list(values: flags.FlagValues, arguments: list[str]) -> None:
    kinds = [*registry.ALL, "recipe"]
    for kind in arguments:
        if kind not in kinds:
            raise InputError(f"nothing of the kind {kind!r}{near(kind, kinds)}; there are: {', '.join(kinds)}")
    with _plugins(values.plugin):
        _print_rows(_listed(arguments or kinds), values.format)


def _listed(kinds: list[str]) -> list[dict[str, str]]:
    rows = []
    for kind in kinds:
        if kind == "recipe":
            for name, path in recipes.list_recipes().items():
                rows.append({"kind": kind, "name": name, "summary": recipes.docstring(path).partition("\n")[0]})
        else:
            held = registry.ALL[kind]
            rows += [{"kind": kind, "name": name, "summary": held.summary(name)} for name in held.names()]
    return rows


def _show(values: flags.FlagValues, arguments: list[str]) -> None:
    names = [*arguments, *([values.recipe] if values.recipe else [])]
    if len(names) != 1:
        raise InputError("name one recipe or run directory, as in `zoo show number_words`")
    file, said = Path(names[0]) / "recipe.json", ""
    with _plugins(values.plugin):
        if file.is_file():
            recipe = recipes.read_json(file)
        else:
            recipe, said = recipes.load(names[0]), recipes.docstring(recipes.find(names[0]))
    recipe = recipe.override(_changes(values))
    if values.format == "json":
        print(recipe.to_json(), end="")
    else:
        if said and values.format != "tsv":
            print(said + "\n")
        rows = [{"setting": path, "value": _shown(value)} for path, value in recipes.flatten(recipe).items()]
        _print_rows(rows, values.format)


def _copy(values: flags.FlagValues, arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2:
        raise InputError("name a recipe and the file to make, as in `zoo copy number_words mine.py`")
    with _plugins(values.plugin):
        source = recipes.find(arguments[0])
    target = Path(arguments[1] if len(arguments) == 2 else source.name)
    target = target / source.name if target.is_dir() else target
    if target.suffix != ".py":
        raise InputError(f"a recipe file ends in .py, and {str(target)!r} does not")
    content = source.read_bytes()
    try:
        with open(target, "xb") as file:
            file.write(content)
    except FileExistsError as error:
        raise InputError(f"{str(target)!r} exists; name another file") from error
    except OSError as error:
        raise InputError(f"{str(target)!r} cannot be written: {error.strerror}") from error
    print(f"{target}: edit it, then run `zoo train --recipe={target}`")


COMMANDS = {
    "train": Command(_train, "train a recipe, or go on with a run", (*_RECIPE_FLAGS, "workdir")),
    "evaluate": Command(_evaluate, "measure a trained run, as JSON", (*_TRAINED_FLAGS, "data_dir", "split", "limit")),
    "generate": Command(_generate, "decode texts with a trained run", (*_TRAINED_FLAGS, "text", "input", "format")),
    "list": Command(
        _list, "what there is: attention, position, architecture, task, recipe", ("plugin", "format"), "[KIND ...]"
    ),
    "show": Command(_show, "a recipe's docstring and settings", (*_RECIPE_FLAGS, "format"), "RECIPE"),
    "copy": Command(_copy, "copy a recipe to a file of your own, to edit", ("plugin",), "RECIPE [FILE]"),
}


# Parts of commands -------------------------------------------------------------------------------------------------


def _recipe(values: flags.FlagValues) -> recipes.Recipe:
    """The recipe with its changes, its plugins loaded, and its names known before anything heavy is imported."""
    if not values.recipe:
        raise InputError(f"name a recipe, as in --recipe=number_words; there are: {', '.join(recipes.list_recipes())}")
    changes = _changes(values)
    with _plugins(values.plugin, changes.get("train.backend")):
        recipe = recipes.load(values.recipe).override(changes)
        _load_plugins(recipe.plugins, recipe.train.backend)
        for kind in ("architecture", "attention", "position"):
            if getattr(recipe.model, kind) is not None:
                registry.ALL[kind].require(getattr(recipe.model, kind))
        registry.task.require(recipe.task.name)
    specs = [*recipe.plugins, *(_absolute(spec) for spec in values.plugin)]
    return recipe.override({"plugins": tuple(dict.fromkeys(specs))})


def _changes(values: flags.FlagValues) -> dict[str, Any]:
    """What short flags and ``--set`` change."""
    changes = {
        path: recipes.parse_value(path, values[flag].value)
        for flag, path in SETTINGS.items()
        if values[flag].present and values[flag].value is not None
    }
    return changes | dict(recipes.parse_setting(text) for text in values.set)


def _workdir(values: flags.FlagValues) -> Path:
    return Path(values.workdir or Path("runs") / Path(values.recipe).stem)


def _trained(values: flags.FlagValues):
    if not values.workdir and not values.recipe:
        raise InputError("name a run directory, as in --workdir=runs/number_words")
    from zoo.training.run_directory import RunDirectory

    run = RunDirectory(_workdir(values))
    with _plugins(values.plugin, values.backend or run.recipe().train.backend):
        _import_tensorflow()
        from zoo.training.load import load

        return load(run.path, values.checkpoint, values.data_dir)


def _import_tensorflow() -> None:
    """Keeps its chatter off the terminal."""
    with quiet():
        import tensorflow as tf

        tf.config.list_physical_devices()


@contextlib.contextmanager
def _plugins(specs: Sequence[str], backend: str | None = None) -> Iterator[None]:
    """Loads installed plugins, and those that are named.

    An installed one that fails is a warning in the end, unless a name is unknown without it: then it is the error.
    """
    from zoo.training.devices import choose_backend

    choose_backend(backend)  # a plugin's kinds are Keras layers,
    with quiet():  # and importing Keras makes the libraries chatter
        failed = [f"plugin {p.name!r} of {p.source} failed: {p.error}" for p in plugin.load_installed() if p.error]
    _load_plugins(specs, backend)
    try:
        yield
    except UnknownNameError as error:
        raise InputError("; ".join([str(error), *failed])) from error
    for line in failed:
        print(f"zoo: warning: {line}; going on without it", file=sys.stderr)


def _load_plugins(specs: Sequence[str], backend: str | None) -> None:
    """Loads the plugins that are named."""
    from zoo.training.devices import choose_backend

    choose_backend(backend)
    wrong = []
    with quiet():  # and not left by an exception, which would show what was said
        for spec in specs:
            try:
                plugin.load(spec)
            except InputError as error:
                wrong.append(error)
    if wrong:
        raise wrong[0]


def _absolute(spec: str) -> str:
    return str(Path(spec).resolve()) if spec.endswith(".py") else spec


def _lines(source: str) -> list[str]:
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise InputError(f"{source!r} cannot be read: {error.strerror}") from error
    lines = _decoded(data, source).removesuffix("\n").split("\n") if data else []
    return [line.removesuffix("\r") for line in lines]


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{source!r} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}") from error


def _print_rows(rows: list[dict[str, str]], form: str | None) -> None:
    form = form or ("table" if sys.stdout.isatty() else "tsv")
    if form == "json":
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif form == "tsv":
        for row in rows:
            print("\t".join(row.values()))
    else:
        names = list(rows[0]) if rows else []
        widths = {name: max(len(row[name]) for row in rows) for name in names[:-1]}
        room = shutil.get_terminal_size().columns - sum(widths.values()) - 2 * len(widths)
        for row in rows:
            print("  ".join([*(row[n].ljust(widths[n]) for n in names[:-1]), row[names[-1]][: max(room, 20)]]))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _help() -> str:
    lines = ["attention-zoo: a workbench for attention", "", "usage: zoo COMMAND [--flag=value ...]", ""]
    lines += [f"  {name:<10} {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join([*lines, "", "`zoo COMMAND --help` shows a command's flags."])


def _help_of(name: str, values: flags.FlagValues) -> str:
    command = COMMANDS[name]
    lines = [f"usage: zoo {name} {command.arguments}".rstrip() + " [--flag=value ...]", "", command.summary, ""]
    for flag in command.flags:
        end = ";\n"  # absl goes on to say how a flag is repeated
        setting = f" ({SETTINGS[flag]})" if flag in SETTINGS else ""
        lines.append(f"  --{flag:<14} {values[flag].help.partition(end)[0]}{setting}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
