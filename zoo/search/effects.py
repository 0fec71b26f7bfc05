"""How much each searched setting matters: an additive model of the objective over the trials."""

import itertools
from dataclasses import dataclass

import numpy as np

from zoo.search.results import Results

_RESAMPLES = 500
_ENOUGH = 10  #: Trials of the longest budget, for the shorter ones to be left out.
_ABSENT = ""  #: In place of a value, where the setting is not searched.
_PARTS = 4  #: Into how many parts a range is cut, each with as many trials.


@dataclass(frozen=True)
class Effect:
    """What a value of a setting does to the objective, the other settings and the budget being equal.

    Attributes:
        path: of the setting.
        value: its value, or a part of its range.
        trials: that had it.
        mean: of the objective, beside the mean over the setting's values.
        low: the 5th percentile of that mean, over the trials drawn anew with replacement.
        high: the 95th.
    """

    path: str
    value: str
    trials: int
    mean: float
    low: float
    high: float


def effects(results: Results, seed: int = 0) -> list[Effect]:
    """The effect of every value of every setting that was searched; empty with fewer than three complete trials.

    Each value of each setting has a term, and their sums are fitted to the objective by least squares, lightly drawn to
    zero (ridge), so that what the trials cannot tell apart is shared. A setting has no term in trials where it is not
    searched. Hyperband's trials differ in their budget, and what helps in the beginning need not help in the end: where
    ten or more have the longest, the others are left out, and else each budget has a term too.
    """
    trials = results.complete
    longest = [trial for trial in trials if trial.steps == max(t.steps for t in trials)]
    trials = longest if len(longest) >= _ENOUGH else trials
    if len(trials) < 3:
        return []
    y = np.array([trial.result.value for trial in trials])
    columns: list[tuple[str, str]] = []
    parts = []
    dimensions = [dimension.path for dimension in results.search.space.dimensions]
    of_trials = {path: _levels([trial.changes.get(path, _ABSENT) for trial in trials]) for path in dimensions}
    of_trials["train.steps"] = [str(trial.steps) for trial in trials]
    for path, levels in of_trials.items():
        for level in dict.fromkeys(sorted(set(levels) - {_ABSENT}, key=_order)):
            columns.append((path, level))
            parts.append([own == level for own in levels])
    x = np.array(parts, dtype=float).T
    fitted = _fit(x, y, columns)
    random = np.random.default_rng(seed)
    draws = [random.integers(len(y), size=len(y)) for _ in range(_RESAMPLES)]
    drawn = np.array([_fit(x[rows], y[rows], columns) for rows in draws])
    low, high = np.percentile(drawn, (5, 95), axis=0)
    return [
        Effect(path, level, int(x[:, i].sum()), float(fitted[i]), float(low[i]), float(high[i]))
        for i, (path, level) in enumerate(columns)
        if path in dimensions
    ]


def _fit(x: np.ndarray, y: np.ndarray, columns: list[tuple[str, str]]) -> np.ndarray:
    """The term of each column, those of a setting with a mean of zero."""
    left = x.T @ x + 0.1 * np.eye(x.shape[1])
    terms = np.linalg.solve(left, x.T @ (y - y.mean()))
    paths = np.array([path for path, _ in columns])
    for path in dict.fromkeys(paths):
        own = paths == path
        terms[own] -= terms[own].mean()
    return terms


def _levels(values: list) -> list[str]:
    """The values as text; many different numbers as the parts of their range; _ABSENT where there is none."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(set(numbers)) <= 2 * _PARTS:
        return ["none" if value is None else str(value) for value in values]
    edges = np.quantile(numbers, np.linspace(0, 1, _PARTS + 1))
    names = [f"{low:.3g} to {high:.3g}" for low, high in itertools.pairwise(edges)]
    places = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, _PARTS - 1)
    parts = iter(places)
    return [names[next(parts)] if value in numbers else "none" if value is None else str(value) for value in values]


def _order(level: str) -> tuple:
    try:
        return 0, float(level.partition(" ")[0]), level
    except ValueError:
        return 1, 0.0, level
