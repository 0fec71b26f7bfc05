"""``zoo search``."""

import sys
from pathlib import Path

from absl import flags

from zoo.commands import given
from zoo.commands.tables import print_rows
from zoo.search.run import search as search_in
from zoo.search.settings import Search
from zoo.search.space import parse_over

_SETTINGS = ("tuner", "trials", "objective", "halvings", "max_parameters", "max_minutes")
FLAGS = ("over", "workers", *_SETTINGS)


def search(values: flags.FlagValues, arguments: list[str]) -> None:
    """Searches the settings of a recipe, and prints a row for each trial; what happens meanwhile goes to stderr."""
    recipe = given.recipe_of(values)
    workdir = Path(values.workdir) if values.workdir else Path("searches", given.workdir_of(values).name)
    given.import_tensorflow()
    chosen = {name: values[name].value for name in _SETTINGS if values[name].present and values[name].value is not None}
    settings = Search(recipe, given.absolute(values.recipe), parse_over(values.over), **chosen)
    try:
        results = search_in(settings, workdir, values.workers or 1, _tell)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on with the search") from None
    if not results.trials:
        return  # a worker's: the chief has them
    objective = settings.base.train.monitor
    shown = ("failure",) if any(trial.result and trial.result.failure for trial in results.trials) else ()
    names = ["trial", objective, *(d.path for d in settings.space.dimensions), "steps", "parameters", "seconds", *shown]
    heads = dict(zip(names, headings(names), strict=True))
    print_rows([{heads[name]: _cell(row[name]) for name in names} for row in results.rows()], values.format)
    best = results.best
    _tell(
        f"{len(results.complete)} of {len(results.trials)} trials are complete; all of it is in {workdir}/report.html"
    )
    _tell(f"the best, trial {best.id}, has {objective} {best.result.value:.6g}; its recipe is {workdir}/best.py, or:")
    _tell(f"  {results.command(best)}")


def headings(names: list[str]) -> list[str]:
    """The last part of each path, or all of it where two end alike."""
    short = [name.rpartition(".")[2] for name in names]
    return [last if short.count(last) == 1 else name for name, last in zip(names, short, strict=True)]


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _cell(value) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
