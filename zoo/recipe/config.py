"""What a recipe is: frozen dataclasses of plain values, and every setting by its path."""

import dataclasses
import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.errors import InputError, near
from zoo.recipe.values import check_value

_OPTIONS_OF = {"model": "architecture", "task": "task"}


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
        jit: compile the step and decoding with XLA; None decides by backend and devices, and False is for what XLA
            does not know.
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
            check_value(path, value, field_type(path))

    def override(self, changes: Mapping[str, Any]) -> "Recipe":
        """This recipe with some settings changed: ``{"model.num_heads": 8, "task.options.target": "fr"}``.

        Raises:
            InputError: there is no such path (the near ones are named), or the value has the wrong type.
        """
        recipe = self
        for path, value in changes.items():
            check_value(path, value, field_type(path))
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


def _paths() -> list[str]:
    """Every path that does not depend on what a recipe holds."""
    paths = []
    for section, cls in (("model", ModelConfig), ("task", TaskConfig), ("train", TrainConfig)):
        paths += [f"{section}.{f.name}" for f in dataclasses.fields(cls)]
    return [*paths, "search", "plugins"]


def _replace(owner: Any, names: list[str], value: Any) -> Any:
    name, rest = names[0], names[1:]
    if isinstance(owner, dict):
        return {**owner, name: value}
    return dataclasses.replace(owner, **{name: _replace(getattr(owner, name), rest, value) if rest else value})
