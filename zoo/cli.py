"""The command line: ``zoo COMMAND [--flag=value ...]``, flags anywhere.

Nothing here imports Keras or TensorFlow until a command needs it: the flags decide the backend first.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from absl import flags

from zoo import recipe as recipes
from zoo import registry
from zoo.errors import InputError, near
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
        sys.exit(_run(sys.argv[1:] if argv is None else argv))
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
        "split": "of the data: train, valid or test",
        "checkpoint": "best or last",
        "text": "what to decode; several are given by repeating the flag. Without it, lines are read from --input",
        "input": "a file with a source on each line; - for standard input",
        "format": "table, tsv or json; a table in a terminal, tab-separated otherwise",
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
    workdir = Path(values.workdir or Path("runs") / Path(values.recipe).stem)
    _start(recipe.train.backend)
    from zoo.training.train import train

    result = train(recipe, workdir)
    print(f"best: {', '.join(f'{k} {v}' for k, v in result.items() if k.startswith('best_'))}; use it:")
    print(f"  zoo evaluate --workdir={workdir}\n  zoo generate --workdir={workdir} --text='...'")


def _evaluate(values: flags.FlagValues, arguments: list[str]) -> None:
    trained = _trained(values)
    from zoo.training.evaluate import evaluate

    print(json.dumps(evaluate(trained, values.split or "test", values.limit, values.batch_size), indent=2))


def _generate(values: flags.FlagValues, arguments: list[str]) -> None:
    texts = values.text if values.text is not None else None
    if texts is not None and values.input is not None:
        raise InputError("give --text or --input, not both")
    if texts is None:
        texts = _lines(values.input or "-")
    trained = _trained(values)
    for text, output in zip(texts, trained.generate(texts, values.batch_size), strict=True):
        row = {"source": text, "output": output}
        print(json.dumps(row, ensure_ascii=False) if values.format == "json" else output)


def _list(values: flags.FlagValues, arguments: list[str]) -> None:
    _load_plugins(values.plugin)
    kinds = [*registry.ALL, "recipe"]
    wanted = arguments or kinds
    rows = []
    for kind in wanted:
        if kind == "recipe":
            for name, path in recipes.list_recipes().items():
                rows.append({"kind": kind, "name": name, "summary": recipes.docstring(path).partition("\n")[0]})
        elif kind in registry.ALL:
            held = registry.ALL[kind]
            rows += [{"kind": kind, "name": name, "summary": held.summary(name)} for name in held.names()]
        else:
            raise InputError(f"nothing of the kind {kind!r}{near(kind, kinds)}; there are: {', '.join(kinds)}")
    _print_rows(rows, values.format)


def _show(values: flags.FlagValues, arguments: list[str]) -> None:
    name = values.recipe or (arguments[0] if len(arguments) == 1 else None)
    if name is None:
        raise InputError("name one recipe or run directory, as in `zoo show number_words`")
    _load_plugins(values.plugin)
    if (Path(name) / "recipe.json").is_file():
        recipe = recipes.from_json((Path(name) / "recipe.json").read_text(encoding="utf-8"))
    else:
        if values.format != "json":
            print(recipes.docstring(recipes.find(name)) + "\n")
        recipe = recipes.load(name)
    recipe = recipe.override(_changes(values))
    if values.format == "json":
        print(recipe.to_json(), end="")
    else:
        rows = [{"setting": path, "value": _shown(value)} for path, value in recipes.flatten(recipe).items()]
        _print_rows(rows, values.format)


def _copy(values: flags.FlagValues, arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2:
        raise InputError("name a recipe and the file to make, as in `zoo copy number_words mine.py`")
    _load_plugins(values.plugin)
    source = recipes.find(arguments[0])
    target = Path(arguments[1] if len(arguments) == 2 else source.name)
    target = target / source.name if target.is_dir() else target
    if target.suffix != ".py":
        raise InputError(f"a recipe file ends in .py, and {str(target)!r} does not")
    try:
        with open(target, "x", encoding="utf-8") as file:
            file.write(source.read_text(encoding="utf-8"))
    except FileExistsError as error:
        raise InputError(f"{str(target)!r} exists; name another file") from error
    except OSError as error:
        raise InputError(f"{str(target)!r} cannot be written: {error.strerror}") from error
    print(f"{target}: edit it, then run `zoo train --recipe={target}`")


COMMANDS = {
    "train": Command(_train, "train a recipe, or go on with a run", (*_RECIPE_FLAGS, "workdir")),
    "evaluate": Command(_evaluate, "measure a trained run, as JSON", (*_TRAINED_FLAGS, "split", "limit")),
    "generate": Command(_generate, "decode texts with a trained run", (*_TRAINED_FLAGS, "text", "input", "format")),
    "list": Command(
        _list, "what there is: attention, position, architecture, task, recipe", ("plugin", "format"), "[KIND ...]"
    ),
    "show": Command(_show, "a recipe's docstring and settings", (*_RECIPE_FLAGS, "format"), "RECIPE"),
    "copy": Command(_copy, "copy a recipe to a file of your own, to edit", ("plugin",), "RECIPE [FILE]"),
}


# Parts of commands -------------------------------------------------------------------------------------------------


def _recipe(values: flags.FlagValues) -> recipes.Recipe:
    if not values.recipe:
        raise InputError(f"name a recipe, as in --recipe=number_words; there are: {', '.join(recipes.list_recipes())}")
    failed = _load_plugins(())
    recipe = recipes.load(values.recipe)
    specs = list(dict.fromkeys([*recipe.plugins, *(_absolute(spec) for spec in values.plugin)]))
    recipe = recipe.override({**_changes(values), "plugins": tuple(specs)})
    # A plugin's kinds are Keras layers: the backend must be settled before they are imported.
    _start(recipe.train.backend)
    failed += _load_plugins(specs)
    for section, kind in (("model", "architecture"), ("model", "attention"), ("model", "position"), ("task", "name")):
        name = getattr(getattr(recipe, section), kind)
        held = registry.task if section == "task" else registry.ALL[kind]
        if failed and name is not None and name not in held.names():
            raise InputError(f"unknown {held.kind} {name!r}, and a plugin failed: {failed[0]}")
    return recipe


def _changes(values: flags.FlagValues) -> dict[str, Any]:
    """What short flags and ``--set`` change."""
    changes = {
        path: recipes.parse_value(path, values[flag].value)
        for flag, path in SETTINGS.items()
        if values[flag].present and values[flag].value is not None
    }
    return changes | dict(recipes.parse_setting(text) for text in values.set)


def _trained(values: flags.FlagValues):
    if not values.workdir and not values.recipe:
        raise InputError("name a run directory, as in --workdir=runs/number_words")
    workdir = Path(values.workdir or Path("runs") / Path(values.recipe).stem)
    if not (workdir / "recipe.json").is_file():
        raise InputError(f"{str(workdir)!r} is no run directory: it has no recipe.json; train first, with `zoo train`")
    recipe = recipes.from_json((workdir / "recipe.json").read_text(encoding="utf-8"))
    if values.checkpoint not in (None, "best", "last"):
        raise InputError(f"--checkpoint must be best or last, not {values.checkpoint!r}")
    _start(values.backend or recipe.train.backend)
    _load_plugins(values.plugin)
    from zoo.training.load import load

    return load(workdir, values.checkpoint or "best")


def _start(backend: str | None) -> None:
    """Settles the backend and keeps the libraries' chatter off the terminal."""
    if backend not in (None, "tensorflow", "jax", "torch"):
        raise InputError(f"--backend must be tensorflow, jax or torch, not {backend!r}")
    import importlib.util

    if backend in ("jax", "torch") and importlib.util.find_spec(backend) is None:
        raise InputError(f"the backend {backend!r} is not installed: pip install 'attention-zoo[{backend}]'")
    from zoo.training.devices import choose_backend

    choose_backend(backend)
    with quiet():
        import tensorflow as tf

        tf.config.list_physical_devices()


def _load_plugins(specs) -> list[str]:
    """Loads installed plugins and those that are named; gives a line for each installed one that failed."""
    from zoo import plugin

    failed = [f"plugin {p.name!r} of {p.source}: {p.error}" for p in plugin.load_installed() if p.error]
    for line in failed:
        print(f"zoo: warning: {line}; going on without it", file=sys.stderr)
    for spec in specs:
        plugin.load(spec)
    return failed


def _absolute(spec: str) -> str:
    return str(Path(spec).resolve()) if spec.endswith(".py") else spec


def _lines(source: str) -> list[str]:
    try:
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        return data.decode("utf-8").removesuffix("\n").split("\n") if data else []
    except OSError as error:
        raise InputError(f"{source!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{source!r} is not UTF-8: byte {error.start} is 0x{error.object[error.start]:02x}") from error


def _print_rows(rows: list[dict[str, str]], form: str | None) -> None:
    form = form or ("table" if sys.stdout.isatty() else "tsv")
    if form == "json":
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif form == "tsv":
        for row in rows:
            print("\t".join(row.values()))
    elif form == "table":
        names = list(rows[0]) if rows else []
        widths = {name: max(len(row[name]) for row in rows) for name in names[:-1]}
        room = shutil.get_terminal_size().columns - sum(widths.values()) - 2 * len(widths)
        for row in rows:
            print("  ".join([*(row[n].ljust(widths[n]) for n in names[:-1]), row[names[-1]][: max(room, 20)]]))
    else:
        raise InputError(f"--format must be table, tsv or json, not {form!r}")


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
        setting = f" ({SETTINGS[flag]})" if flag in SETTINGS else ""
        lines.append(f"  --{flag:<14} {values[flag].help}{setting}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
