"""Checks a recipe before anything is built, and fills in every default."""

import dataclasses
import inspect
import typing
from pathlib import Path
from typing import Any

from zoo import registry
from zoo.errors import InputError, near
from zoo.layers.attention.base import Attention
from zoo.layers.configured import Configured, constructor_parameters
from zoo.layers.normalization import Normalization
from zoo.layers.position.base import Position
from zoo.layers.transformer import head_dim_of
from zoo.recipe import ModelConfig, Recipe, accepts, flatten, type_name
from zoo.tasks.base import Task
from zoo.training import schedules
from zoo.training.devices import BACKENDS

#: Settings of a model that have a field of their own; the rest are ``model.options``.
_FIELDS = [f.name for f in dataclasses.fields(ModelConfig) if f.name not in ("architecture", "options")]

#: Arguments that a block or a stack gives, so a recipe does not.
_GIVEN_ATTENTION = {*constructor_parameters(Attention, stop=Configured), "name", "dtype"} - {"use_bias", "query_chunks"}
_GIVEN_POSITION = {*constructor_parameters(Position, stop=Configured), "name", "dtype"}

PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}

#: What a number must be, where it is not None.
_AT_LEAST = {
    **dict.fromkeys(("model.num_heads", "model.depth", "model.width", "model.feed_forward"), 1),
    **dict.fromkeys(("train.steps", "train.batch_tokens", "train.buckets", "train.validate_every"), 1),
    **dict.fromkeys(
        ("train.warmup_steps", "train.decode_validation", "train.samples", "train.patience", "train.keep_last"), 0
    ),
    **dict.fromkeys(("train.seed", "train.weight_decay"), 0),
}
#: And at most: what is larger was mistyped, and would only run out of memory after hours.
_AT_MOST = {
    **dict.fromkeys(("model.num_heads", "model.depth"), 10**4),
    **dict.fromkeys(("model.width", "model.feed_forward"), 10**6),
    **dict.fromkeys(("train.batch_tokens", "train.buckets", "train.keep_last"), 2**31),
}
_ABOVE_ZERO = ("train.minutes", "train.learning_rate", "train.clip_norm", "train.epsilon", "train.ema")
_BELOW_ONE = ("train.label_smoothing", "train.beta_1", "train.beta_2", "train.ema", "model.dropout")


def check(recipe: Recipe) -> Recipe:
    """The recipe with every default filled in, so that it means the same when defaults change.

    Raises:
        InputError: a name, an option, a type or a combination that cannot be built or trained.
    """
    _check_numbers(recipe)
    task = registry.task.get(recipe.task.name)
    architecture = registry.architecture.get(recipe.model.architecture)
    if architecture.layout not in task.layouts:
        raise InputError(
            f"task {recipe.task.name!r} has no batches of the layout {architecture.layout!r} that "
            f"{recipe.model.architecture!r} needs; it has: {', '.join(sorted(task.layouts))}"
        )
    task_options = _resolve(task, recipe.task.options, f"task {recipe.task.name!r}", "task.options", {"data_dir"})
    model = _check_model(recipe.model, architecture)
    if recipe.task.data_dir is not None and "data_dir" not in constructor_parameters(task):
        raise InputError(f"task {recipe.task.name!r} makes its data and reads no folder; leave out --data_dir")
    data_dir = recipe.task.data_dir and str(Path(recipe.task.data_dir).resolve())
    resolved = dataclasses.replace(
        recipe, model=model, task=dataclasses.replace(recipe.task, data_dir=data_dir, options=task_options)
    )
    _check_training(resolved, task)
    return resolved


def settings_of(model: ModelConfig) -> dict[str, Any]:
    """The constructor arguments of the architecture that a recipe sets."""
    named = {name: getattr(model, name) for name in _FIELDS}
    return {name: value for name, value in named.items() if value not in (None, {})} | model.options


def _check_model(model: ModelConfig, architecture: type) -> ModelConfig:
    what = f"architecture {model.architecture!r}"
    not_options = {"name", "dtype", "trainable", *architecture.described_by_task}
    settings = _resolve(architecture, settings_of(model), what, "model.options", not_options)
    if {"width", "num_heads"} <= settings.keys():
        head_dim_of(settings["width"], settings["num_heads"], settings.get("head_dim"))
    for name in model.options:
        if name in _FIELDS:
            raise InputError(f"model.options.{name} is a setting of its own: model.{name}")
    if "norm" in settings:
        Normalization(settings["norm"])  # refuses a name it does not know
    for name, value in settings.items():
        if name.endswith("dropout") and not 0 <= value < 1:
            raise InputError(f"{_setting('model.options', name)} must be at least 0 and below 1, not {value}")
    if "attention" in settings:
        kind = registry.attention.get(settings["attention"])
        what = f"attention {settings['attention']!r}"
        _require(kind, architecture.requires, what, f"architecture {model.architecture!r}")
        if "position" in settings:
            scheme = registry.position.get(settings["position"])
            if scheme.stage in ("rotation", "bias"):
                _require(kind, {scheme.stage}, what, f"position {settings['position']!r}")
        cross = settings.get("cross_attention")
        if cross is not None:
            by = f"architecture {model.architecture!r} of a cross_attention"
            _require(registry.attention.get(cross), {"cross", "mask"}, f"attention {cross!r}", by)
    for held in ("attention", "position"):
        if held in settings:
            options = settings.get(f"{held}_options") or {}
            settings[f"{held}_options"] = check_options(held, settings[held], options, settings.get("num_heads"))
    fields = {name: settings.pop(name) for name in _FIELDS if name in settings}
    return ModelConfig(architecture=model.architecture, options=settings, **fields)


def check_options(held: str, name: str, options: dict[str, Any], num_heads: int | None = None) -> dict[str, Any]:
    """The options of an attention kind or a positional scheme, with its defaults, once one can be made with them.

    Args:
        held: "attention" or "position".
        name: of the kind or scheme.
        options: those that are given.
        num_heads: of the layer; None for as many as the kind is tried with.

    Raises:
        InputError: an option that there is not, of the wrong type, or with a value that the kind refuses.
    """
    cls = registry.ALL[held].get(name)
    given_elsewhere = _GIVEN_ATTENTION if held == "attention" else _GIVEN_POSITION
    resolved = _resolve(cls, options, f"{held} {name!r}", f"model.{held}_options", given_elsewhere)
    if held == "attention":
        cls(num_heads=num_heads or cls.variants[0].get("num_heads", 8), head_dim=8, **resolved)
    return resolved


def _require(kind: type, wanted: set | frozenset, what: str, by: str) -> None:
    missing = set(wanted) - set(kind.supports)
    if missing:
        raise InputError(f"{what} does not support {', '.join(sorted(missing))}, which {by} needs")


def _resolve(cls: type, given: dict[str, Any], what: str, path: str, not_options: set[str]) -> dict[str, Any]:
    """``given`` with the defaults of the constructor of ``cls``, once names and types are found right."""
    parameters = {
        name: parameter
        for name, parameter in constructor_parameters(cls, stop=Configured).items()
        if name not in not_options
    }
    hints: dict[str, Any] = {}
    for ancestor in reversed(cls.__mro__):
        if "__init__" in vars(ancestor) and ancestor.__module__.partition(".")[0] not in ("keras", "builtins"):
            hints |= typing.get_type_hints(ancestor.__init__)
    for name, value in given.items():
        if name not in parameters:
            known = ", ".join(sorted(parameters)) or "none"
            raise InputError(f"{what} has no option {name!r}{near(name, parameters)}; it has: {known}")
        given = {**given, name: _fitted(value, hints.get(name, Any))}
        if not accepts(hints.get(name, Any), given[name]):
            raise InputError(f"{_setting(path, name)} must be {type_name(hints[name])}, not {value!r}")
    missing = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty and n not in given]
    if missing:
        raise InputError(f"{what} needs {', '.join(_setting(path, name) for name in missing)}")
    return {name: given.get(name, parameter.default) for name, parameter in parameters.items()}


def _fitted(value: Any, hint: Any) -> Any:
    """What was typed at the command line before its type was known: "none" for None, 2016 for a file name."""
    if accepts(hint, value):
        return value
    if value == "none" and accepts(hint, None):
        return None
    if isinstance(value, bool | int | float) and accepts(hint, ""):
        return str(value).lower()
    return value


def _setting(path: str, name: str) -> str:
    """Where a recipe sets an argument: an architecture's is a field of the model's, or else an option."""
    return f"model.{name}" if path == "model.options" and name in _FIELDS else f"{path}.{name}"


def _check_numbers(recipe: Recipe) -> None:
    for path, value in flatten(recipe).items():
        if value is None:
            continue
        if path in _AT_LEAST and value < _AT_LEAST[path]:
            raise InputError(f"{path} must be at least {_AT_LEAST[path]}, not {value}")
        if path in _AT_MOST and value > _AT_MOST[path]:
            raise InputError(f"{path} must be at most {_AT_MOST[path]}, not {value}")
        if path in _ABOVE_ZERO and value <= 0:
            raise InputError(f"{path} must be above 0, not {value}")
        if path in _BELOW_ONE and not 0 <= value < 1:
            raise InputError(f"{path} must be at least 0 and below 1, not {value}")


def _check_training(recipe: Recipe, task: type) -> None:
    train = recipe.train
    if train.seed >= 2**32:
        raise InputError(f"train.seed must be below 2 ** 32, not {train.seed}")
    for name, known in (
        ("schedule", schedules.NAMES),
        ("optimizer", schedules.OPTIMIZERS),
        ("precision", PRECISIONS),
        ("backend", (None, *BACKENDS)),
        ("monitor", monitors(task)),
    ):
        value = getattr(train, name)
        if value not in known:
            names = ", ".join(str(item) for item in known if item)
            raise InputError(f"train.{name} has no {value!r}{near(value, known)}; there are: {names}")
    if train.monitor in task.decoded_metrics and train.decode_validation < 1:
        raise InputError(
            f"train.monitor={train.monitor} is measured on decoded text; set train.decode_validation to the "
            "number of sentences to decode at each validation"
        )
    schedules.make_schedule(train, recipe.model.width or 1)
    if train.weight_decay and train.optimizer != "adamw":
        raise InputError("train.weight_decay has no effect with adam; use --set train.optimizer=adamw")


def monitors(task: type | Task) -> dict[str, bool]:
    """What can be monitored when training on a task; True where higher is better."""
    return {"loss": False, **task.teacher_forced_metrics, **task.decoded_metrics}
