"""Pictures of a search: what was tried, what each setting does, and how the trials learned."""

import csv
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from zoo.search.effects import Effect
from zoo.search.results import Results, trial_folder
from zoo.search.trial import RUN

_WORST, _BEST = "#c9c9d6", "#35356f"


def parallel_coordinates(results: Results) -> Figure:
    """A line for each complete trial, through its values; the darker, the better."""
    trials = results.complete[::-1]  # the best is drawn last
    paths = [dimension.path for dimension in results.search.space.dimensions]
    objective = results.search.base.train.monitor
    budgets = len({trial.steps for trial in trials}) > 1
    names = [*paths, *(["train.steps"] if budgets else []), objective]
    heights, labels = [], []
    for name in names:
        values = [_value(trial, name, objective) for trial in trials]
        at, told = _axis(values, name == objective)
        heights.append(at)
        labels.append(told)
    figure = Figure(figsize=(max(6, 1.7 * len(names)), 4.2), layout="constrained")
    axes = figure.subplots()
    scale = colormaps["magma_r"]
    random = np.random.default_rng(0)
    for i in range(len(trials)):
        share = (i + 1) / len(trials)
        spread = random.uniform(-0.012, 0.012)  # so that equal lines lie side by side
        line = [at[i] + spread for at in heights]
        axes.plot(range(len(names)), line, color=scale(0.15 + 0.75 * share), alpha=0.35 + 0.6 * share, linewidth=1.2)
    for place, told in enumerate(labels):
        axes.axvline(place, color="#999", linewidth=0.8)
        for height, text in told.items():
            axes.text(
                place, height, f" {text}", fontsize=7, va="center", bbox={"color": "white", "alpha": 0.7, "pad": 0.5}
            )
    axes.set_xticks(range(len(names)), labels=[name.rpartition(".")[2] for name in names], fontsize=8)
    axes.set_yticks([])
    axes.set(xlim=(-0.1, len(names) - 0.7), ylim=(-0.12, 1.05))
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def effect_plot(found: Sequence[Effect], objective: str) -> Figure:
    """For each setting, what each of its values does, with the 5th to the 95th percentile."""
    paths = list(dict.fromkeys(effect.path for effect in found))
    figure = Figure(figsize=(2.6 * len(paths) + 0.6, 3.2), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(paths), sharey=True))
    for axes, path in zip(panels, paths, strict=True):
        own = [effect for effect in found if effect.path == path]
        means = [effect.mean for effect in own]
        spread = [[e.mean - min(e.low, e.mean) for e in own], [max(e.high, e.mean) - e.mean for e in own]]
        axes.errorbar(range(len(own)), means, yerr=spread, fmt="o", color=_BEST, capsize=3)
        axes.axhline(0, color="#999", linewidth=0.8)
        axes.set_xticks(range(len(own)), labels=[e.value for e in own], fontsize=7, rotation=30)
        axes.set_xlim(-0.5, len(own) - 0.5)
        axes.set_title(path.rpartition(".")[2], fontsize=9)
        axes.tick_params(labelsize=7)
    panels[0].set_ylabel(f"effect on {objective}", fontsize=8)
    return figure


def curves(results: Results) -> Figure | None:
    """The objective at each validation of each trial; None if no trial had two."""
    objective = results.search.base.train.monitor
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    drawn = 0
    for place, trial in enumerate(results.complete[::-1]):
        log = trial_folder(results.directory, trial.id) / RUN / "log.csv"
        if not log.is_file():
            continue
        with open(log, encoding="utf-8") as file:
            points = [(int(row["step"]), float(row[f"valid_{objective}"])) for row in csv.DictReader(file)]
        best = place == len(results.complete) - 1
        axes.plot(
            *zip(*points, strict=True),
            color=_BEST if best else _WORST,
            linewidth=2 if best else 1,
            marker="." if len(points) < 3 else None,
            label=f"trial {trial.id}" if best else None,
        )
        drawn += len(points) > 1
    axes.set(xlabel="step", ylabel=objective)
    if not drawn:
        return None
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    return figure


def _value(trial, name: str, objective: str) -> Any:
    if name == objective:
        return trial.result.value
    return trial.steps if name == "train.steps" else trial.changes.get(name)


def _axis(values: list, continuous: bool) -> tuple[list[float], dict[float, str]]:
    """The height of each value, from 0 to 1, and what to write at which height."""
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if continuous or len(set(numbers)) > 8:
        low, high = min(numbers), max(numbers)
        log = low > 0 and high / low > 20
        scaled = np.log if log else np.asarray
        span = float(scaled(high) - scaled(low)) or 1.0
        heights = [-0.08 if v is None else float(scaled(v) - scaled(low)) / span for v in values]
        shown = np.geomspace(low, high, 5) if log else np.linspace(low, high, 5)
        told = {float(scaled(v) - scaled(low)) / span: f"{v:.3g}" for v in shown}
        return heights, told
    levels = sorted({repr(v): v for v in values}.values(), key=_place)
    at = {level: i / max(len(levels) - 1, 1) for i, level in enumerate(map(repr, levels))}
    return [at[repr(v)] for v in values], {at[repr(v)]: "-" if v is None else str(v) for v in levels}


def _place(value: Any) -> tuple:
    """Where a value comes among others: numbers by size, then what else there is, and last nothing."""
    number = isinstance(value, int | float)
    return value is None, not number, value if number else 0, str(value)
