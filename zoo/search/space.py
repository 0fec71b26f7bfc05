"""What a search goes through: values or a range for each of some settings of a recipe.

A recipe writes ``search={"model.num_heads": (2, 4, 8), "train.learning_rate": "1e-4..1e-2:log"}``, the command line
``--over=model.num_heads=2,4,8``. In text:

    2,4,8                               one of several
    2:6, 2:8:2, 64:1024:log             a whole number, both ends included; in steps; even in its logarithm
    0.1..0.4, 1e-4..1e-2:log            a number
    0..0.3:0.1, 1e-4..1e-2:10:log       0, 0.1, 0.2 and 0.3; 1e-4, 1e-3 and 1e-2
    multi_head,relative if model.position=none    only where another setting has one of some values

An option of an attention kind, a positional scheme, an architecture or a task needs no ``if``: it is searched where
what is searched has it.
"""

import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zoo import registry
from zoo.errors import InputError, near
from zoo.layers.configured import Configured, constructor_parameters
from zoo.recipe import Recipe, field_type, flatten, parse_value

#: Where the options of something are set, and the setting that says of what.
_OPTIONS = {
    "model.attention_options": "model.attention",
    "model.position_options": "model.position",
    "model.options": "model.architecture",
    "task.options": "task.name",
}

_INT, _FLOAT = r"-?\d+", r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|-?\.\d+(?:[eE][-+]?\d+)?"
_WHOLE_RANGE = re.compile(rf"({_INT}):({_INT})(?::({_INT}))?(:log)?")
_RANGE = re.compile(rf"({_FLOAT})\.\.({_FLOAT})(?::({_FLOAT}))?(:log)?")


@dataclass(frozen=True)
class Dimension:
    """A setting that is searched.

    Attributes:
        path: of the setting.
        values: those it may have, or None for a range.
        low: the least of a range, which it may have.
        high: the greatest of a range, which it may have too.
        step: of a range, or None for everything between.
        log: whether a range is drawn from evenly in the logarithm.
        parent: the setting on which it depends whether this one is searched, or None.
        parent_values: of the parent, where it is.
    """

    path: str
    values: tuple | None = None
    low: float | None = None
    high: float | None = None
    step: float | None = None
    log: bool = False
    parent: str | None = None
    parent_values: tuple = ()

    @property
    def endless(self) -> bool:
        """Whether what it may have can't be named one by one."""
        return self.values is None and (not self.whole or (self.log and self.step is None))

    @property
    def whole(self) -> bool:
        """Whether this is a range of whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def encode(self, value: Any) -> Any:
        """A value as KerasTuner holds it, whose choices are all of one type and never None."""
        types = {type(v) for v in self.values or ()}
        if self.values is None or types in ({str}, {bool}, {int}, {float}):
            return value
        return float(value) if types == {int, float} else json.dumps(value)

    def decode(self, encoded: Any) -> Any:
        """What :meth:`encode` was given."""
        if self.values is None:
            return int(encoded) if self.whole else float(encoded)
        return next(value for value in self.values if self.encode(value) == encoded)

    def declare(self, hp, default: Any) -> None:
        """Makes this setting one of KerasTuner's hyper-parameters; ``default`` is the recipe's own value."""
        inside = (
            hp.conditional_scope(self.parent, list(self.parent_values)) if self.parent else contextlib.nullcontext()
        )
        with inside:
            if self.values is not None:
                known = any(type(value) is type(default) and value == default for value in self.values)
                hp.Choice(
                    self.path,
                    [self.encode(value) for value in self.values],
                    default=self.encode(default if known else self.values[0]),
                )
                return
            number = isinstance(default, int | float) and not isinstance(default, bool)
            inside_range = number and self.low <= default <= self.high and self.step is None
            (hp.Int if self.whole else hp.Float)(
                self.path,
                self.low,
                self.high,
                step=self.step,
                sampling="log" if self.log else "linear",
                default=default if inside_range and (not self.whole or isinstance(default, int)) else self.low,
            )


class Space:
    """The settings that are searched, each after the one that it depends on.

    Args:
        recipe: whose settings they are; it says what is not searched.
        over: path -> values, or a range as text; the recipe's own ``search`` when None.

    Raises:
        InputError: there is nothing to search over, no such setting, or a value that it cannot have.
    """

    def __init__(self, recipe: Recipe, over: Mapping[str, Any] | None = None):
        over = recipe.search if over is None else over
        if not over:
            raise InputError("name what to search over, as in --over=model.num_heads=2,4,8; the recipe has no search")
        found = {path: _dimension(path, given) for path, given in over.items()}
        found = {path: _with_owner(dimension, found, recipe) for path, dimension in found.items()}
        for dimension in found.values():
            _check(dimension, found, recipe)
        self.recipe = recipe
        self.dimensions = _parents_first(found)

    def declare(self, hp) -> None:
        """Declares every setting to ``hp``, KerasTuner's HyperParameters."""
        current = flatten(self.recipe)
        for dimension in self.dimensions:
            dimension.declare(hp, current.get(dimension.path))

    def changes(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the values of a trial change of the recipe, without those whose condition does not hold.

        KerasTuner's values may hold some: on the way from the chief to a worker they are filled up with defaults.
        """
        held: dict[str, Any] = {}
        for d in self.dimensions:  # each after its parent
            if d.path in values and (d.parent is None or held.get(d.parent, d) in d.parent_values):
                held[d.path] = values[d.path]
        return {d.path: d.decode(held[d.path]) for d in self.dimensions if d.path in held}


def parse_over(texts: list[str]) -> dict[str, str]:
    """``["model.num_heads=2,4,8"]`` as path -> text.

    Raises:
        InputError: no ``=``, or a path that comes twice.
    """
    over: dict[str, str] = {}
    for text in texts:
        path, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not values:
            raise InputError(f"{text!r} is not path=values, as in model.num_heads=2,4,8 or model.depth=2:6")
        if path in over:
            raise InputError(f"{path} is searched twice: over {over[path]!r} and over {values!r}")
        over[path] = values
    return over


def _dimension(path: str, given: Any) -> Dimension:
    if path.partition(".")[0] in ("search", "plugins") or path == "task.data_dir":
        raise InputError(f"{path} can't be searched over")
    field_type(path)  # refuses a path that is none
    if isinstance(given, tuple | list):
        return Dimension(path, values=tuple(given))
    if not isinstance(given, str):
        raise InputError(f"search over {path} needs a list of values or a range as text, not {given!r}")
    given, condition, parent = given.partition(" if ")
    given = given.strip()
    depends: dict[str, Any] = {}
    if condition:
        parent, equals, values = (part.strip() for part in parent.partition("="))
        if not equals:
            raise InputError(f"{path}: write the condition as in 'multi_head,relative if model.position=none'")
        depends = {"parent": parent, "parent_values": _choices(parent, values)}
    for pattern, number in ((_WHOLE_RANGE, int), (_RANGE, float)):
        if match := pattern.fullmatch(given):
            low, high, step = (part and number(part) for part in match.groups()[:3])
            if number is float and step is not None:
                return Dimension(path, values=_steps(path, low, high, step, bool(match[4])), **depends)
            return Dimension(path, low=low, high=high, step=step, log=bool(match[4]), **depends)
    return Dimension(path, values=_choices(path, given), **depends)


def _steps(path: str, low: float, high: float, step: float, log: bool) -> tuple[float, ...]:
    """The numbers from low to high, by steps that are added or, for log, multiplied."""
    _check_range(path, low, high, step, log)
    last = math.log(high / low) / math.log(step) if log else (high - low) / step
    places = range(math.floor(last + 1e-9) + 1)
    return tuple(float(f"{low * step**i if log else low + i * step:.12g}") for i in places)


def _check_range(path: str, low: float, high: float, step: float | None, log: bool) -> None:
    if low >= high:
        raise InputError(f"{path}: a range goes from a lower to a higher number, not from {low} to {high}")
    if log and low <= 0:
        raise InputError(f"{path}: a log range begins above 0, not at {low}")
    if step is not None and step <= 0:
        raise InputError(f"{path}: the steps of a range are above 0, not {step}")
    if log and step is not None and step <= 1:
        raise InputError(f"{path}: the steps of a log range are factors above 1, not {step}")


def _choices(path: str, text: str) -> tuple:
    parts = re.split(r",\s*(?![^\[]*\])", text)  # a list keeps its commas
    return tuple(parse_value(path, part.strip()) for part in parts)


def _with_owner(dimension: Dimension, found: dict[str, Dimension], recipe: Recipe) -> Dimension:
    """An option that some of the searched kinds have is searched for those alone."""
    group, _, option = dimension.path.rpartition(".")
    owner = _OPTIONS.get(group)
    if owner is None or dimension.parent is not None or owner not in found or found[owner].values is None:
        return dimension
    held = registry.ALL[owner.split(".")[1] if owner != "task.name" else "task"]
    having = tuple(
        name for name in found[owner].values if option in constructor_parameters(held.get(name), stop=Configured)
    )
    if not having:
        raise InputError(f"none of {', '.join(map(str, found[owner].values))} has the option {option!r}")
    if len(having) == len(found[owner].values):
        return dimension
    return dataclasses.replace(dimension, parent=owner, parent_values=having)


def _check(dimension: Dimension, found: dict[str, Dimension], recipe: Recipe) -> None:
    path, values = dimension.path, dimension.values
    if values is None:
        _check_range(path, dimension.low, dimension.high, dimension.step, dimension.log)
        tried = (dimension.low, dimension.high)
    else:
        if not values or len({json.dumps(value) for value in values}) < len(values):
            raise InputError(f"{path}: name values to choose from, each once")
        tried = values
    for value in tried:
        recipe.override({path: value})
    if dimension.parent is not None:
        parent = found.get(dimension.parent)
        if parent is None or parent.values is None:
            raise InputError(
                f"{path} depends on {dimension.parent}, whose values are not searched"
                f"{near(dimension.parent, [p for p in found if p != path])}"
            )
        for value in dimension.parent_values:
            if value not in parent.values:
                raise InputError(f"{path} depends on {parent.path}={value}, which is not searched")


def _parents_first(found: dict[str, Dimension]) -> tuple[Dimension, ...]:
    ordered: dict[str, Dimension] = {}
    while len(ordered) < len(found):
        ready = {p: d for p, d in found.items() if p not in ordered and (d.parent is None or d.parent in ordered)}
        if not ready:
            raise InputError(f"{next(p for p in found if p not in ordered)} depends on itself")
        ordered |= ready
    return tuple(
        d if d.parent is None else dataclasses.replace(d, parent_values=_encoded(d, found)) for d in ordered.values()
    )


def _encoded(dimension: Dimension, found: dict[str, Dimension]) -> tuple:
    return tuple(found[dimension.parent].encode(value) for value in dimension.parent_values)
