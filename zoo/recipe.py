"""Recipes: everything that decides what a run does, as frozen dataclasses of plain values.

A recipe file holds a docstring (the paper, the number to expect, the time it takes and on what, the command) and
``get_recipe()``. It is found by name, by path, or as ``plugin/name`` in a directory that a plugin added.
"""

import ast
import dataclasses
import importlib.util
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.errors import InputError, UnknownNameError, near

#: A flag of the command line for what people change most -> the setting it changes.
SHORT_FLAGS = {
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
    "minutes": "train.minutes",
    "learning_rate": "train.learning_rate",
    "seed": "train.seed",
    "precision": "train.precision",
    "backend": "train.backend",
}


@dataclass(frozen=True)
class ModelConfig:
    """The model: an architecture by name, and what it is built with.

    A setting left at None takes the architecture's own default. One that the architecture does not have is refused,
    not ignored. ``options`` are the architecture's further arguments, ``attention_options`` and
    ``position_options`` those of the attention kind and the positional scheme.
    """

    architecture: str = "transformer"
    attention: str | None = None
    position: str | None = None
    num_heads: int | None = None
    depth: int | None = None
    width: int | None = None
    feed_forward: int | None = None
    dropout: float | None = None
    attention_options: dict[str, Any] = field(default_factory=dict)
    position_options: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskConfig:
    """The task: its name, a folder that already holds its data, and the task's own arguments."""

    name: str
    data_dir: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainConfig:
    """How the model is trained.

    Attributes:
        steps: optimizer steps in all.
        batch_tokens: padded positions in a batch, counted on the longer of source and target.
        buckets: distinct batch shapes; sentences of similar length share one.
        optimizer: "adam" or "adamw".
        learning_rate: the peak of the schedule. None with "noam": (width * warmup_steps) ** -0.5, as published.
        schedule: "noam" (linear warm-up, then inverse square root), "cosine" (warm-up, then a cosine to zero), or
            "constant" (after the warm-up).
        decay_steps: where "cosine" comes to zero; at the last step when None, and not before it.
        clip_norm: gradients are scaled to at most this global norm.
        ema: decay of the moving average of the weights that is evaluated and kept as the best, or None.
        validate_every: steps between validations; each also writes a checkpoint.
        monitor: what makes a checkpoint the best: a teacher-forced metric of the task ("token_nll",
            "token_accuracy"), one on decoded text ("exact_match", "bleu"), or "loss", which is a mean over batches.
        decode_validation: sentences decoded at each validation for such a metric.
        minutes: training stops at the first validation after so many, or never for the time it takes when None.
        patience: training stops at this many validations in a row without improvement, or never when None.
        samples: decoded examples printed at each validation.
        keep_last: validations whose weights are kept, as they were trained, to be averaged when they are used.
        precision: "float32", "bfloat16" or "float16"; the last two keep float32 weights.
        jit: compile the step with XLA; None decides by backend and devices.
        backend: "tensorflow", "jax" or "torch"; None follows KERAS_BACKEND, else TensorFlow. In a process that has
            imported Keras it can only agree with what that runs on.
    """

    steps: int = 1000
    batch_tokens: int = 4096
    buckets: int = 4
    optimizer: str = "adam"
    learning_rate: float | None = None
    schedule: str = "noam"
    warmup_steps: int = 400
    decay_steps: int | None = None
    beta_1: float = 0.9
    beta_2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float | None = None
    label_smoothing: float = 0.1
    ema: float | None = None
    validate_every: int = 250
    monitor: str = "token_nll"
    decode_validation: int = 0
    minutes: float | None = None
    patience: int | None = None
    samples: int = 3
    keep_last: int = 5
    seed: int = 1
    precision: str = "float32"
    jit: bool | None = None
    backend: str | None = None


@dataclass(frozen=True)
class Recipe:
    """A model, a task and a way of training, with the space that a search goes through and the plugins it needs.

    ``search`` has for each path the values to try, or a range and a condition as text; :mod:`zoo.search.space` has the
    form of it.
    """

    task: TaskConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    search: dict[str, tuple | str] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()

    def __post_init__(self):
        for name, cls in (("task", TaskConfig), ("model", ModelConfig), ("train", TrainConfig)):
            if not isinstance(getattr(self, name), cls):
                raise InputError(f"{name} must be a {cls.__name__}, not {getattr(self, name)!r}")
        for path, value in flatten(self).items():
            _check_type(path, value, field_type(path))

    def override(self, changes: Mapping[str, Any]) -> "Recipe":
        """This recipe with some settings changed: ``{"model.num_heads": 8, "task.options.target": "fr"}``.

        Raises:
            InputError: there is no such path (the near ones are named), or the value has the wrong type.
        """
        recipe = self
        for path, value in changes.items():
            _check_type(path, value, field_type(path))
            recipe = _replace(recipe, path.split("."), value)
        return recipe

    def to_json(self) -> str:
        """The recipe as JSON, from which :func:`from_json` makes an equal one."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"


def from_json(text: str) -> Recipe:
    """The recipe that :meth:`Recipe.to_json` wrote.

    Raises:
        InputError: the text is not JSON, or names settings that this version does not have.
    """
    try:
        data = json.loads(text)
        sections = {"task": TaskConfig, "model": ModelConfig, "train": TrainConfig}
        parts = {name: cls(**data.pop(name)) for name, cls in sections.items()}
        over = data.pop("search").items()
        parts["search"] = {path: values if isinstance(values, str) else tuple(values) for path, values in over}
        parts["plugins"] = tuple(data.pop("plugins"))
        return Recipe(**parts, **data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"not a recipe: {error}") from error


def read_json(path: Path) -> Recipe:
    """The recipe in a file that holds :meth:`Recipe.to_json`.

    Raises:
        InputError: there is no such file, or it holds something else.
    """
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{str(path)!r} is damaged: {error}") from error


def flatten(recipe: Recipe) -> dict[str, Any]:
    """Every setting by its path, options included: ``{"model.depth": 4, ...}``."""
    rows = {}
    for section in ("model", "task", "train"):
        for name, value in vars(getattr(recipe, section)).items():
            if isinstance(value, dict):
                rows.update({f"{section}.{name}.{key}": item for key, item in value.items()})
            else:
                rows[f"{section}.{name}"] = value
    return rows | {"search": recipe.search, "plugins": recipe.plugins}


def field_type(path: str) -> Any:
    """The declared type of the setting at ``path``; ``Any`` for an option of a kind, scheme, architecture or task.

    Raises:
        InputError: there is no such path.
    """
    owner, hint = Recipe, None
    names = path.split(".")
    for depth, name in enumerate(names):
        hints = typing.get_type_hints(owner)
        if name not in hints:
            guess = near(path, _paths())
            if depth == 1 and names[0] in ("model", "task") and not guess.startswith(f" (did you mean '{path[:-1]}"):
                guess += f"; an option of the {_OPTIONS_OF[names[0]]} is {names[0]}.options.{name}"
            raise InputError(f"unknown setting {path!r}{guess}; `zoo show RECIPE` lists the settings")
        hint = hints[name]
        if typing.get_origin(hint) is dict and depth + 2 == len(names):
            return typing.get_args(hint)[1]
        if dataclasses.is_dataclass(hint):
            owner = hint
        elif depth + 1 < len(names):
            raise InputError(f"unknown setting {path!r}: {'.'.join(names[: depth + 1])} has no parts")
    if dataclasses.is_dataclass(hint):
        raise InputError(
            f"{path!r} is a group of settings; name one of them, as {path}.{dataclasses.fields(hint)[0].name}"
        )
    return hint


#: ``int | None`` and ``Optional[int]``: plugins may write either.
_UNIONS = (types.UnionType, typing.Union)


def parse_setting(text: str) -> tuple[str, Any]:
    """``"model.depth=4"`` as a path and a typed value, for :meth:`Recipe.override`.

    Raises:
        InputError: no ``=``, no such path, or a value of the wrong type.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{text!r} is not path=value, as in model.depth=4")
    return path.strip(), parse_value(path.strip(), value)


def parse_value(path: str, text: str) -> Any:
    """A value typed at the command line, in the type of the setting at ``path``."""
    hint = field_type(path)
    if accepts(hint, text) and hint is not Any:  # "none" is a text, and the name of a positional scheme
        return None if text == "null" and accepts(hint, None) else text
    words = {"true": True, "false": False, "null": None}
    if hint is not Any:
        words["none"] = None  # an option's type is known only to check, and "none" may be the name of something
    if text.lower() in words:
        value = words[text.lower()]
    else:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
    _check_type(path, value, hint)
    return value


def _paths() -> list[str]:
    """Every path that does not depend on what a recipe holds."""
    paths = []
    for section, cls in (("model", ModelConfig), ("task", TaskConfig), ("train", TrainConfig)):
        paths += [f"{section}.{f.name}" for f in dataclasses.fields(cls)]
    return [*paths, "search", "plugins"]


def _check_type(path: str, value: Any, hint: Any) -> None:
    if not accepts(hint, value):
        raise InputError(f"{path} must be {type_name(hint)}, not {value!r}")
    if hint is Any and not _is_plain(value):
        raise InputError(f"{path} must be a value that JSON can hold (a list, not a tuple), not {value!r}")


def _is_plain(value: Any) -> bool:
    """Whether a run that reads ``value`` from its ``recipe.json`` has an equal one."""
    try:
        return json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        return False


def accepts(hint: Any, value: Any) -> bool:
    """Whether ``value`` is of the type that a setting is declared with."""
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in _UNIONS:
        return any(accepts(option, value) for option in args)
    if origin is typing.Literal:
        return value in args
    if origin is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if origin is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(origin, type) or origin is Any:  # nothing that a plain value could be held against
        return True
    if not isinstance(value, origin):
        return False
    if origin is dict and args:
        return all(accepts(args[0], key) and accepts(args[1], item) for key, item in value.items())
    return all(accepts(args[0], item) for item in value) if origin in (list, tuple) and args else True


def type_name(hint: Any) -> str:
    """A type in the words of an error message."""
    if typing.get_origin(hint) in _UNIONS:
        return " or ".join(type_name(option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(repr(option) for option in typing.get_args(hint))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "none"}
    return names.get(hint) or _CONTAINERS.get(typing.get_origin(hint), str(hint))


_OPTIONS_OF = {"model": "architecture", "task": "task"}
_CONTAINERS = {dict: "settings by name", list: "a list", tuple: "a list"}


def _replace(owner: Any, names: list[str], value: Any) -> Any:
    name, rest = names[0], names[1:]
    if isinstance(owner, dict):
        return {**owner, name: value}
    return dataclasses.replace(owner, **{name: _replace(getattr(owner, name), rest, value) if rest else value})


# Finding recipes ---------------------------------------------------------------------------------------------------

_HERE = Path(__file__).resolve().parent
_directories: dict[str, Path] = {}


def add_directory(prefix: str, directory: str | Path) -> None:
    """Makes the recipes in ``directory`` available as ``prefix/name``; for plugins."""
    _directories[prefix] = Path(directory)


def built_in_directory() -> Path:
    """Where the recipes of this distribution lie: inside the installed package, or beside it in a checkout."""
    installed = _HERE / "recipes"
    return installed if installed.is_dir() else _HERE.parent / "recipes"


def list_recipes() -> dict[str, Path]:
    """Name -> file of every recipe that can be named, those of loaded plugins included."""
    places = [("", built_in_directory()), *((f"{prefix}/", folder) for prefix, folder in sorted(_directories.items()))]
    return {
        f"{prefix}{path.stem}": path
        for prefix, folder in places
        for path in sorted(folder.glob("*.py"))
        if path.stem != "__init__"
    }


def find(name: str) -> Path:
    """The file of the recipe ``name``: a name, ``plugin/name``, or a path that ends in ``.py``.

    Raises:
        InputError: there is no such recipe or file; near names are given.
    """
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise InputError(f"recipe file {name!r} does not exist")
        return Path(name)
    known = list_recipes()
    if name not in known:
        raise UnknownNameError(f"unknown recipe {name!r}{near(name, known)}; there are: {', '.join(known)}")
    return known[name]


def load(name: str) -> Recipe:
    """Runs the recipe file's ``get_recipe()``.

    Raises:
        InputError: there is no such recipe, the file raises, or ``get_recipe`` is missing or returns something else.
    """
    path = find(name)
    spec = importlib.util.spec_from_file_location(f"zoo_recipe_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        if not hasattr(module, "get_recipe"):
            raise InputError("it defines no get_recipe()")
        recipe = module.get_recipe()
    except InputError as error:
        raise InputError(f"recipe {str(path)!r} failed: {error}") from error
    except (Exception, SystemExit) as error:
        raise InputError(
            f"recipe {str(path)!r} failed: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(recipe, Recipe):
        raise InputError(f"recipe {str(path)!r}: get_recipe() must return a Recipe, not {type(recipe).__name__}")
    return recipe


def docstring(path: Path) -> str:
    """The docstring of a recipe file, read without running it."""
    try:
        return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {str(path)!r} is not Python: {error}") from error
