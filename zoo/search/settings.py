"""What a search is told: the recipe, the space, the tuner, and what a trial may cost."""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from zoo import registry
from zoo.errors import InputError, near
from zoo.recipe import Recipe, from_json
from zoo.search.space import Space

TUNERS = ("random", "grid", "hyperband", "bayesian")

#: Hyperband trains the best third of its trials on, for three times as many steps.
FACTOR = 3


@dataclass(frozen=True)
class Search:
    """A search over settings of a recipe.

    Attributes:
        recipe: what is not searched; its seed is the tuner's too.
        name: what the recipe is called at the command line.
        over: path -> values, or a range as text (see :mod:`zoo.search.space`); the recipe's ``search`` when empty.
        tuner: "random", "grid" (every combination), "hyperband" (many short trials, of which the best are trained
            longer; Li et al., 2018) or "bayesian" (a Gaussian process says what to try next).
        trials: at most so many. None: the whole grid, one pass of Hyperband, else 10.
        objective: what is compared: "loss", or a metric of the task on validation data; the recipe's
            ``train.monitor`` when None. The trial's result is the value of its best checkpoint.
        halvings: how often Hyperband takes a third of the budget: its shortest trials have
            ``train.steps / 3 ** halvings`` steps.
        max_parameters: a model with more is no result.
        max_minutes: nor is a trial that takes longer, in minutes of the clock.
    """

    recipe: Recipe
    name: str = "recipe"
    over: Mapping[str, Any] = field(default_factory=dict)
    tuner: str = "random"
    trials: int | None = None
    objective: str | None = None
    halvings: int = 2
    max_parameters: int | None = None
    max_minutes: float | None = None

    def __post_init__(self):
        if self.tuner not in TUNERS:
            raise InputError(
                f"there is no tuner {self.tuner!r}{near(self.tuner, TUNERS)}; there are: {', '.join(TUNERS)}"
            )
        for name in ("trials", "max_parameters", "max_minutes", "halvings"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be above 0, not {value}")
        least = sum(FACTOR**i for i in range(self.halvings + 1))
        if self.tuner == "hyperband" and self.trials is not None and self.trials < least:
            raise InputError(f"hyperband with {self.halvings} halvings needs {least} trials or more, not {self.trials}")

    @cached_property
    def space(self) -> Space:
        """The settings that are searched."""
        space = Space(self.recipe, self.over or None)
        paths = [dimension.path for dimension in space.dimensions]
        budget = ("train.steps", "train.warmup_steps", "train.decay_steps", "train.validate_every", "train.minutes")
        taken = ("train.monitor", *(budget if self.tuner == "hyperband" else ()))
        for path in paths:
            if path in taken:
                raise InputError(f"{path} can't be searched over: the {self.tuner} search sets it")
        endless = [d.path for d in space.dimensions if d.endless]
        if endless and self.tuner == "grid":
            raise InputError(f"{endless[0]}: a grid needs values, as in 1,2,4, or a range with steps, as in 0..0.3:0.1")
        return space

    @cached_property
    def base(self) -> Recipe:
        """The recipe with the objective as what its checkpoints are chosen by.

        Raises:
            InputError: it can't be trained.
        """
        from zoo.training.check import check, monitors  # which imports Keras: not before the backend is chosen

        known = monitors(registry.task.get(self.recipe.task.name))
        if self.objective is not None and self.objective not in known:
            near_names = near(self.objective, known)
            raise InputError(f"there is no objective {self.objective!r}{near_names}; there are: {', '.join(known)}")
        recipe = self.recipe if self.objective is None else self.recipe.override({"train.monitor": self.objective})
        check(recipe)
        return recipe

    def try_data(self) -> None:
        """Sees that the data is there: else every trial would fail, and be done with.

        Raises:
            InputError: it is not.
        """
        from zoo.training.build import build_task

        build_task(self.base).pairs("valid")

    @property
    def direction(self) -> str:
        """What is sought: the "max" of the objective, or its "min"."""
        from zoo.training.check import monitors

        return "max" if monitors(registry.task.get(self.base.task.name))[self.base.train.monitor] else "min"

    @property
    def max_epochs(self) -> int:
        """The longest trials of Hyperband, in units of the shortest ones."""
        return FACTOR**self.halvings

    def changes(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What a trial's values change of the recipe, its share of the budget included."""
        changes = self.space.changes(values)
        share = values.get("tuner/epochs", self.max_epochs) / self.max_epochs
        if share < 1:
            train = self.base.override(changes).train
            changes["train.steps"] = max(1, round(train.steps * share))
            changes["train.warmup_steps"] = math.ceil(train.warmup_steps * share)
            changes["train.validate_every"] = min(train.validate_every, changes["train.steps"])
            if train.decay_steps is not None:
                changes["train.decay_steps"] = math.ceil(train.decay_steps * share)
            if train.minutes is not None:
                changes["train.minutes"] = train.minutes * share
        return changes

    def why_not(self, values: Mapping[str, Any]) -> str | None:
        """Why what the values stand for can't be built; None if it can."""
        from zoo.training.check import check

        try:
            check(self.base.override(self.changes(values)))
        except InputError as error:
            return str(error)
        except Exception as error:  # of a plugin's constructor, say
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        return None

    def to_json(self) -> str:
        """The search as JSON, from which :func:`read_search` makes an equal one."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return (
            json.dumps(plain | {"recipe": json.loads(self.recipe.to_json()), "over": dict(self.over)}, indent=2) + "\n"
        )


def read_search(text: str) -> Search:
    """The search that :meth:`Search.to_json` wrote.

    Raises:
        InputError: it holds something else.
    """
    try:
        data = json.loads(text)
        return Search(**{**data, "recipe": from_json(json.dumps(data["recipe"]))})
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"not a search: {error}") from error
