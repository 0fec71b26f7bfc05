"""What a search has found: a row for each trial, and the best of them as a command and as a recipe."""

import csv
import dataclasses
import io
import json
import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo import recipe as recipes
from zoo.errors import InputError
from zoo.recipe import Recipe, flatten
from zoo.search.settings import Search
from zoo.search.trial import Result, read_result

ORACLE = "oracle.json"


def trial_folder(directory: Path, trial_id: str) -> Path:
    """Where a trial's run, log and result are."""
    return directory / f"trial_{trial_id}"


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial that has begun.

    Attributes:
        id: by which its folder is named.
        changes: what it changes of the recipe.
        result: what came of it; None while it runs.
        steps: its budget.
    """

    id: str
    changes: Mapping[str, Any]
    result: Result | None
    steps: int

    @property
    def complete(self) -> bool:
        """Whether it counts."""
        return self.result is not None and self.result.value is not None


@dataclasses.dataclass(frozen=True)
class Results:
    """The trials of a search, the best first, then those that failed, then those that run.

    Attributes:
        search: what was searched.
        directory: of the search.
        trials: all that have begun.
        skipped: combinations that can't be built, with the reason: ``{"changes": ..., "reason": ...}``.
    """

    search: Search
    directory: Path
    trials: tuple[Trial, ...]
    skipped: tuple[dict[str, Any], ...]

    @property
    def complete(self) -> tuple[Trial, ...]:
        """The trials that count, the best first."""
        return tuple(trial for trial in self.trials if trial.complete)

    @property
    def best(self) -> Trial:
        """The best trial.

        Raises:
            InputError: none is complete; every reason is given.
        """
        if self.complete:
            return self.complete[0]
        reasons = dict.fromkeys(trial.result.failure for trial in self.trials if trial.result is not None)
        reasons |= dict.fromkeys(skipped["reason"] for skipped in self.skipped)
        told = [reason for reason in reasons if reason]
        more = f"; and {len(told) - 5} other reasons" if len(told) > 5 else ""
        raise InputError(f"no trial has a result: {'; '.join(told[:5]) or 'none has ended'}{more}")

    def recipe(self, trial: Trial) -> Recipe:
        """What a trial trained."""
        return self.search.base.override(trial.changes)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each trial, as in search.csv."""
        objective = self.search.base.train.monitor
        rows = []
        for trial in self.trials:
            result = trial.result or Result()
            state = "running" if trial.result is None else "complete" if trial.complete else "failed"
            rows.append(
                {
                    "trial": trial.id,
                    objective: result.value,
                    **{d.path: trial.changes.get(d.path) for d in self.search.space.dimensions},
                    "steps": trial.steps,
                    "best_step": result.step,
                    "parameters": result.parameters,
                    "seconds": result.seconds,
                    "state": state,
                    "failure": result.failure,
                }
            )
        return rows

    def table(self) -> str:
        """The rows as CSV."""
        text = io.StringIO()
        rows = self.rows()
        if rows:
            writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
        return text.getvalue()

    def command(self, trial: Trial) -> str:
        """The ``zoo train`` that trains what the trial did."""
        try:
            named = flatten(recipes.load(self.search.name))
        except InputError:  # a recipe that was made by a program
            named = {}
        short = {path: flag for flag, path in recipes.SHORT_FLAGS.items()}
        words = ["zoo", "train", f"--recipe={self.search.name}"]
        for path, value in flatten(self.recipe(trial)).items():
            if path == "plugins":
                words += [f"--plugin={spec}" for spec in value if spec not in named.get("plugins", ())]
            elif path != "search" and (path not in named or named[path] != value):
                words.append(f"--{short.get(path, f'set={path}')}={_typed(value)}")
        return shlex.join(words)

    def source(self, trial: Trial) -> str:
        """A recipe file that trains what the trial did."""
        objective, result = self.search.base.train.monitor, trial.result
        recipe = dataclasses.replace(self.recipe(trial), search={})
        changes = "\n".join(f"    {path} = {value!r}" for path, value in trial.changes.items())
        return (
            f'"""The best of {len(self.complete)} trials of a {self.search.tuner} search from {self.search.name}.\n\n'
            f"    zoo train --recipe=best.py\n\n"
            f"Measured on validation data: {objective} {result.value!r}, at step {result.step} of {trial.steps}, "
            f"seed {recipe.train.seed}.\nWhat was searched:\n\n{changes}\n"
            '"""\n\nfrom zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig\n\n\n'
            f"def get_recipe() -> Recipe:\n    return {_source(recipe, 4)}\n"
        )


def collect(search: Search, directory: Path) -> Results:
    """The results that lie in the directory of a search."""
    try:
        state = json.loads((directory / ORACLE).read_text(encoding="utf-8"))
        trials = {name: trial["hyperparameters"]["values"] for name, trial in state["trials"].items()}
        skipped = [{"changes": search.changes(s["values"]), "reason": s["reason"]} for s in state["skipped"]]
    except FileNotFoundError:
        trials, skipped = {}, []
    found = []
    for name, values in trials.items():
        changes = search.changes(values)
        steps = search.base.override(changes).train.steps
        found.append(Trial(name, changes, read_result(trial_folder(directory, name)), steps))
    sign = -1 if search.direction == "max" else 1

    def rank(trial: Trial):
        if trial.complete:
            return 0, sign * trial.result.value, trial.id
        return 2 if trial.result is None else 1, 0.0, trial.id

    return Results(search, directory, tuple(sorted(found, key=rank)), tuple(skipped))


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return value if isinstance(value, int | float | str) and not isinstance(value, bool) else json.dumps(value)


def _typed(value: Any) -> str:
    """A value as the command line reads it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return value if isinstance(value, str) else repr(value)


def _source(value: Any, indent: int) -> str:
    """A recipe, or a part of one, as Python; what is as by default is left out."""
    inner = " " * (indent + 4)
    if dataclasses.is_dataclass(value):
        parts = []
        for field in dataclasses.fields(value):
            own = getattr(value, field.name)
            default = (
                field.default_factory()
                if field.default is dataclasses.MISSING and callable(field.default_factory)
                else field.default
            )
            if own != default:
                parts.append(f"{inner}{field.name}={_source(own, indent + 4)},\n")
        return f"{type(value).__name__}(\n{''.join(parts)}{' ' * indent})" if parts else f"{type(value).__name__}()"
    if isinstance(value, dict) and value:
        parts = [f"{inner}{key!r}: {_source(item, indent + 4)},\n" for key, item in value.items()]
        return f"{{\n{''.join(parts)}{' ' * indent}}}"
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{value} can't be written as a recipe")
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
