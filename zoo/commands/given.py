"""What the flags name: a recipe with its changes, a trained run, plugins, lines of text."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from absl import flags

from zoo import plugin, registry
from zoo import recipe as recipes
from zoo.errors import InputError, UnknownNameError
from zoo.generation.settings import Decoding
from zoo.quiet import quiet

_PART = 2**20  #: Bytes that are read at once, at most.

#: The flags that say how outputs are searched for or drawn; each is a field of ``Decoding``.
DECODING = tuple(field.name for field in dataclasses.fields(Decoding))


def recipe_of(values: flags.FlagValues) -> recipes.Recipe:
    """The recipe with its changes, its plugins loaded, and its names known before anything heavy is imported."""
    if not values.recipe:
        raise InputError(f"name a recipe, as in --recipe=number_words; there are: {', '.join(recipes.list_recipes())}")
    changed = changes(values)
    with plugins(values.plugin, changed.get("train.backend") or _backend_of(values.recipe)):
        recipe = recipes.load(values.recipe).override(changed)
        _load_plugins(recipe.plugins, recipe.train.backend)
        for kind in ("architecture", "attention", "position"):
            if getattr(recipe.model, kind) is not None:
                registry.ALL[kind].require(getattr(recipe.model, kind))
        registry.task.require(recipe.task.name)
    specs = [*recipe.plugins, *(absolute(spec) for spec in values.plugin)]
    return recipe.override({"plugins": tuple(dict.fromkeys(specs))})


def _backend_of(name: str) -> str | None:
    """The backend that a recipe asks for, where it is known before plugins are loaded, which import Keras."""
    there = name in recipes.list_recipes() or (name.endswith(".py") and Path(name).is_file())
    return recipes.load(name).train.backend if there else None


def changes(values: flags.FlagValues) -> dict[str, Any]:
    """What short flags and ``--set`` change."""
    short = {
        path: recipes.parse_value(path, values[flag].value)
        for flag, path in recipes.SHORT_FLAGS.items()
        if values[flag].present and values[flag].value is not None
    }
    for text in values.set:
        path, value = recipes.parse_setting(text)
        if path in short:
            raise InputError(f"{path} is set twice: to {short[path]!r} and to {value!r}")
        short[path] = value
    return short


def workdir_of(values: flags.FlagValues) -> Path:
    """The run directory: as given, or named after the recipe."""
    if values.workdir:
        return Path(values.workdir)
    return Path("runs", Path(values.recipe).stem if values.recipe.endswith(".py") else values.recipe)


def trained(values: flags.FlagValues):
    """The trained run, a ``zoo.training.load.Trained``, with its plugins loaded."""
    if not values.workdir and not values.recipe:
        raise InputError("name a run directory, as in --workdir=runs/number_words")
    if values["checkpoint"].present and values.average_last is not None:
        raise InputError("give --checkpoint or --average_last, not both")
    decoding = decoding_of(values)
    from zoo.training.run_directory import RunDirectory

    run = RunDirectory(workdir_of(values))
    with plugins(values.plugin, values.backend or run.recipe().train.backend):
        import_tensorflow()
        from zoo.training.load import load

        return load(run.path, values.checkpoint, values.data_dir, decoding, values.average_last)


def decoding_of(values: flags.FlagValues) -> Decoding:
    """How outputs are searched for or drawn."""
    given = {name: values[name].value for name in DECODING if values[name].present}
    if "seed" in given:
        given["seed"] = int_of("seed", given["seed"])
    for name, other in (("length_penalty", "beam"), ("seed", "sample")):
        if name in given and not values[other].present:
            raise InputError(f"--{name} does nothing without --{other}; give both, or neither")
    return Decoding(**given)


@contextlib.contextmanager
def heard_or_not() -> Iterator[None]:
    """What is printed inside may lose its reader, as in `zoo train | head`, without an end to the work."""
    stdout = sys.stdout
    sys.stdout = _Unbroken(stdout)
    try:
        yield
    finally:
        sys.stdout = stdout


class _Unbroken:
    """A text stream to which writing never fails for want of a reader."""

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(BrokenPipeError):
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())


def int_of(flag: str, text: str) -> int:
    """The whole number that a flag of several commands was given as text."""
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--{flag} takes whole numbers, and {text!r} is none") from None


def import_tensorflow() -> None:
    """Imports TensorFlow, and keeps its chatter off the terminal."""
    with quiet():
        import tensorflow as tf

        tf.config.list_physical_devices()


@contextlib.contextmanager
def plugins(specs: Sequence[str], backend: str | None = None) -> Iterator[None]:
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


def absolute(spec: str) -> str:
    """A plugin by a path that holds from anywhere; a module's name stays as it is."""
    return str(Path(spec).resolve()) if spec.endswith(".py") else spec


def lines(source: str) -> list[str]:
    """The lines of a file, or of standard input for "-"."""
    return [line for part in parts(source) for line in part]


def parts(source: str) -> Iterator[list[str]]:
    """The lines of a file, or of standard input for "-", as they come: a part is what there is to read at once."""
    try:
        return _parts(sys.stdin.buffer if source == "-" else open(source, "rb"), source)
    except OSError as error:
        raise InputError(f"{source!r} cannot be read: {error.strerror}") from error


def typed() -> Iterator[bytes]:
    """Lines of a terminal, or of a pipe, each as it comes; an empty one ends them."""
    while True:
        if sys.stdin.isatty():
            try:
                line = os.fsencode(input("> "))
            except UnicodeDecodeError as error:
                line = error.object
            except EOFError:
                return
        else:
            line = sys.stdin.buffer.readline().rstrip(b"\r\n")
        if not line:
            return
        yield line


def _parts(file: BinaryIO, source: str) -> Iterator[list[str]]:
    try:
        with file:
            rest, before = b"", 0
            while data := file.read1(_PART):
                whole, newline, rest = (rest + data).rpartition(b"\n")
                if newline:
                    yield _lines(whole, source, before)
                    before += len(whole) + 1
            if rest:
                yield _lines(rest, source, before)
    except OSError as error:
        raise InputError(f"{source!r} cannot be read: {error.strerror}") from error


def _lines(data: bytes, source: str, before: int) -> list[str]:
    return [line.removesuffix("\r") for line in decoded(data, source, before).split("\n")]


def decoded(data: bytes, source: str, before: int = 0) -> str:
    """Text, which must be UTF-8; ``before`` counts the bytes of its source that come before it."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        named = "standard input" if source == "-" else repr(source)
        raise InputError(f"{named} is not UTF-8: byte {before + error.start} is 0x{data[error.start]:02x}") from error
