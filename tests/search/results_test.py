"""What is made of the trials: rows, the winner's command and recipe, effects, the report."""

import csv
import dataclasses
import io
import re

import numpy as np
import pytest

from zoo import cli
from zoo import recipe as recipes
from zoo.search import effects as effects_module
from zoo.search.results import Results, Trial
from zoo.search.trial import Result

PATHS = {"model.num_heads": (1, 2, 4), "model.position": ("none", "rotary"), "train.learning_rate": "1e-4..1e-2:log"}


@pytest.fixture
def results(make_search, tmp_path):
    """Sixty trials whose objective is known: the position matters much, the heads little, the rate not at all."""
    random = np.random.default_rng(0)
    trials = []
    for i in range(60):
        heads, position = int(random.choice([1, 2, 4])), str(random.choice(["none", "rotary"]))
        value = 2.0 - 0.8 * (position == "rotary") - 0.1 * (heads == 4) + random.normal(0, 0.02)
        changes = {
            "model.num_heads": heads,
            "model.position": position,
            "train.learning_rate": float(10 ** random.uniform(-4, -2)),
        }
        trials.append(Trial(f"{i:02}", changes, Result(value=float(value), step=4, parameters=10, seconds=1.0), 4))
    trials.sort(key=lambda trial: trial.result.value)
    trials.append(Trial("60", {"model.num_heads": 1}, Result(failure="memory <ran> out"), 4))
    skipped = ({"changes": {"model.num_heads": 3}, "reason": "3 heads don't divide 16"},)
    return Results(make_search(PATHS), tmp_path, tuple(trials), skipped)


def test_the_table(results):
    rows = list(csv.DictReader(io.StringIO(results.table())))
    assert len(rows) == 61
    assert [row["state"] for row in rows] == ["complete"] * 60 + ["failed"]
    assert float(rows[0]["token_nll"]) == min(float(row["token_nll"]) for row in rows[:60])
    assert rows[-1]["failure"] == "memory <ran> out"
    assert rows[-1]["token_nll"] == rows[-1]["model.position"] == ""


def test_the_command_trains_what_the_trial_did(results):
    words = results.command(results.best).split()
    assert words[:3] == ["zoo", "train", "--recipe=copy"]
    values = cli._define_flags()
    values([*words])
    from zoo.commands.given import changes

    assert recipes.load("copy").override(changes(values)) == results.recipe(results.best)


def test_the_recipe_file_trains_what_the_trial_did(results, tmp_path):
    file = tmp_path / "best.py"
    file.write_text(results.source(results.best))
    assert recipes.load(str(file)) == results.recipe(results.best)
    assert f"token_nll {results.best.result.value!r}" in file.read_text()


def test_effects_are_found_with_their_uncertainty(results):
    found = {(e.path, e.value): e for e in effects_module.effects(results)}
    none, rotary = found["model.position", "none"], found["model.position", "rotary"]
    assert none.mean - rotary.mean == pytest.approx(0.8, abs=0.02)
    assert rotary.low < rotary.mean < rotary.high < 0
    four, one = found["model.num_heads", "4"], found["model.num_heads", "1"]
    assert one.mean - four.mean == pytest.approx(0.1, abs=0.02)
    rates = [e for (path, _), e in found.items() if path == "train.learning_rate"]
    assert len(rates) == 4  # parts of the range
    assert all(abs(e.mean) < 0.02 for e in rates)
    assert all(e.low < e.mean < e.high for e in found.values())
    assert sum(e.trials for e in rates) == 60


def budgets(results, long: int) -> Results:
    """The trials with a short budget, which makes all worse by one, and all alike; but for so many."""
    trials = []
    for i, trial in enumerate(sorted(results.complete, key=lambda trial: trial.id)):
        value = trial.result.value if i < long else 3.0
        trials.append(Trial(trial.id, trial.changes, Result(value=value, step=1), 4 if i < long else 1))
    return Results(results.search, results.directory, tuple(trials), ())


def test_short_trials_are_left_out_where_there_are_enough_long_ones(results):
    found = {(e.path, e.value): e.mean for e in effects_module.effects(budgets(results, long=30))}
    assert found["model.position", "none"] - found["model.position", "rotary"] == pytest.approx(0.8, abs=0.05)


def test_a_short_budget_does_not_count_against_a_value(results):
    """With fewer long trials all are taken, and the short ones are worse by one."""
    trials = []
    for i, trial in enumerate(sorted(results.complete, key=lambda trial: trial.id)):
        long = i < 9
        result = Result(value=trial.result.value + (0 if long else 1), step=1)
        trials.append(Trial(trial.id, trial.changes, result, 4 if long else 1))
    few = Results(results.search, results.directory, tuple(trials), ())
    found = {(e.path, e.value): e.mean for e in effects_module.effects(few)}
    assert found["model.position", "none"] - found["model.position", "rotary"] == pytest.approx(0.8, abs=0.05)


def test_a_setting_that_is_not_searched_everywhere(results):
    """Its effect is that among the trials that have it."""
    trials = []
    for i, trial in enumerate(results.complete):
        changes = dict(trial.changes)
        value = trial.result.value
        if changes["model.position"] == "none":
            changes["model.attention"] = ("multi_head", "relative")[i % 2]
            value -= 0.4 * (i % 2)
        trials.append(Trial(trial.id, changes, Result(value=value, step=1), 4))
    over = {**PATHS, "model.attention": "multi_head,relative if model.position=none"}
    search = dataclasses.replace(results.search, over=over)
    found = {
        (e.path, e.value): e for e in effects_module.effects(Results(search, results.directory, tuple(trials), ()))
    }
    ours = [e for (path, _), e in found.items() if path == "model.attention"]
    assert [e.value for e in ours] == ["multi_head", "relative"]
    assert ours[0].mean - ours[1].mean == pytest.approx(0.4, abs=0.05)


def test_effects_need_trials(results):
    few = Results(results.search, results.directory, results.trials[:2], ())
    assert effects_module.effects(few) == []


def test_nothing_and_lists_are_values_too(make_search, tmp_path):
    """And are told from a setting that is not searched in a trial."""
    from zoo.search.report import write_report

    def trial(i: int, value, path="train.ema") -> Trial:
        return Trial(f"{i}", {path: value}, Result(value=1.0 + i % 2, step=4, parameters=1, seconds=1.0), 4)

    trials = tuple(trial(i, [None, 0.9][i % 2]) for i in range(8))
    results = Results(make_search({"train.ema": "null,0.9"}), tmp_path, trials, ())
    found = {e.value: e for e in effects_module.effects(results)}
    assert found["0.9"].mean - found["none"].mean == pytest.approx(1, abs=0.1)
    path = "task.options.longest"
    lists = tuple(trial(i, [i % 3, "x"], path) for i in range(8))
    write_report(Results(make_search({path: ([0], [1])}), tmp_path, lists, ()))
    assert "[2, &#x27;x&#x27;]" in (tmp_path / "report.html").read_text()


def test_the_report(results):
    from zoo.search.report import write_report

    write_report(results)
    page = (results.directory / "report.html").read_text()
    assert not re.search(r"""(src|href)\s*=\s*["']?(?!#)|@[A-Z]+@""", re.sub(r'(xlink:)?href="#[^"]*"', "", page))
    for part in ("What was tried", "What matters", "Trials", "Skipped"):
        assert f"<h2>{part}</h2>" in page
    assert "memory &lt;ran&gt; out" in page
    assert "3 heads don&#x27;t divide 16" in page
    assert results.best.id in page
    for name in ("tried.png", "effects.png"):
        assert (results.directory / name).read_bytes().startswith(b"\x89PNG")


def test_a_report_of_one_trial(results):
    from zoo.search.report import write_report

    write_report(Results(results.search, results.directory, results.trials[:1], ()))
    page = (results.directory / "report.html").read_text()
    assert "What matters" not in page
    assert f"<td>{results.best.id}</td>" in page


@pytest.mark.parametrize("width", [380, 1200])
def test_the_report_in_a_browser(results, in_browser, tmp_path_factory, width):
    """Nothing sticks out, and every trial and picture is there."""
    from zoo.search.report import write_report

    elsewhere = dataclasses.replace(results, directory=tmp_path_factory.mktemp("search"))
    write_report(elsewhere)
    found = in_browser(
        elsewhere.directory / "report.html",
        width,
        """
        const below = [...page.querySelectorAll("h2")].find(h => h.textContent == "Trials").nextElementSibling;
        const seen = [...page.querySelectorAll("svg")].map(s => s.getBoundingClientRect());
        const drawn = seen.every(r => r.width > 100 && r.height > 50);
        return {trials: below.querySelectorAll("tr").length - 1, drawn};
        """,
    )
    assert found == {"overflow": 0, "pictures": 2, "trials": 61, "drawn": True}
