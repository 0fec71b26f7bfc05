"""Searches with real trials, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from zoo.errors import InputError
from zoo.search.trial import Result, read_result, train_in_own_process

SMALL = ["--recipe=copy", "--steps=4", "--set=train.validate_every=2", "--set=train.samples=0", "--set=model.width=16"]
SMALL += ["--set=task.options.train_size=200", "--batch_tokens=128", "--set=model.feed_forward=32"]
SMALL += [f"--set=task.options.{name}_size=24" for name in ("valid", "test")]


def zoo(*words, **settings):
    return subprocess.run([sys.executable, "-m", "zoo.cli", *words], capture_output=True, text=True, **settings)


def test_a_grid_has_the_numbers_of_zoo_train(tmp_path):
    """And goes on where it was; the winner's recipe and command train to the same number."""
    search = ["search", *SMALL, "--tuner=grid", "--over=model.num_heads=2,3,4", "--format=json", "--workdir=s"]
    done = zoo(*search, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["num_heads"] for row in rows} == {"2", "4"}
    assert "skipped num_heads=3" in done.stderr
    assert zoo(*search, cwd=tmp_path).stdout == done.stdout  # and trains nothing again
    best = rows[0]
    trained = zoo("train", *SMALL, f"--num_heads={best['num_heads']}", "--workdir=by_flags", cwd=tmp_path)
    assert f"best_token_nll {best['token_nll']}"[:20] in trained.stdout
    value = json.loads((tmp_path / "s" / f"trial_{best['trial']}" / "result.json").read_text())["value"]
    assert f"best_token_nll {value!r}" in trained.stdout
    again = zoo("train", "--recipe=s/best.py", "--workdir=by_recipe", cwd=tmp_path)
    assert f"best_token_nll {value!r}" in again.stdout
    other = zoo("search", *SMALL, "--tuner=random", "--over=model.num_heads=2,3,4", "--workdir=s", cwd=tmp_path)
    assert other.returncode == 2
    assert "holds another search: tuner" in other.stderr


def test_workers(tmp_path):
    """One of two is killed while it trains: its trial is completed, and the chief ends."""
    words = [*SMALL, "--tuner=grid", "--over=model.depth=1,2,3", "--workers=2", "--steps=60", "--format=json"]
    words.remove("--steps=4")
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo.cli", "search", *words, "--workdir=s"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    beat = tmp_path / "s" / "workers" / "worker0"
    deadline = time.monotonic() + 120
    while not (beat.is_file() and (tmp_path / "s" / "trial_0000").is_dir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(int(beat.read_text().split()[0]), signal.SIGKILL)
    output, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    rows = json.loads(output)
    assert sorted(row["depth"] for row in rows) == ["1", "2", "3"]
    assert all(row["token_nll"] != "-" for row in rows)


@pytest.mark.parametrize(
    ("over", "settings", "said"),
    [
        ({"model.num_head": "1,2"}, {}, "model.num_heads"),
        ({}, {}, "name what to search over"),
        ({"model.depth": "1,2"}, {"objective": "none"}, "there are"),
        ({"train.monitor": "loss,token_nll"}, {}, "sets it"),
        ({"train.steps": "1,2"}, {"tuner": "hyperband"}, "sets it"),
        ({"model.depth": "1,2"}, {"tuner": "best"}, "there is no tuner"),
        ({"model.depth": "1,2"}, {"trials": 0}, "trials"),
    ],
)
def test_bad_input(make_search, tmp_path, over, settings, said):
    from zoo.search import search

    with pytest.raises(InputError, match=said):
        search(make_search(over, **settings), tmp_path / "s")
    assert not list(tmp_path.iterdir())


def test_bad_input_is_one_line(tmp_path):
    done = zoo("search", *SMALL, "--over=model.num_head=1,2", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_all_trials_failed(tmp_path):
    words = ["--over=model.depth=1,2", "--tuner=grid", "--max_parameters=10"]
    done = zoo("search", *SMALL, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "no trial has a result: skipped: " in done.stderr
    assert "are more than 10" in done.stderr


def test_a_trial_that_takes_too_long(tiny, tmp_path):
    result = train_in_own_process(tiny.override({"train.steps": 10**6}), tmp_path / "t", max_minutes=0.02)
    assert result.value is None
    assert "more than 0.02 minutes" in result.failure
    assert read_result(tmp_path / "t") == result


def test_a_trial_that_diverges(tiny, tmp_path):
    result = train_in_own_process(tiny.override({"train.learning_rate": 1e30}), tmp_path / "t")
    assert result.value is None
    assert "diverged" in result.failure


def test_a_result_is_not_made_anew(tiny, tmp_path):
    known = Result(value=1.5, step=2)
    known.write(tmp_path / "t")
    assert train_in_own_process(tiny, tmp_path / "t") == known


def test_a_folder_of_something_else(make_search, tmp_path):
    from zoo.search import search

    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(InputError, match=r"is no search \(mine.txt\)"):
        search(make_search({"model.depth": "1,2"}), tmp_path)


def test_over_several_machines_all_variables_are_needed(make_search, tmp_path, monkeypatch):
    from zoo.search import search

    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    with pytest.raises(InputError, match="KERASTUNER_ORACLE_PORT must be"):
        search(make_search({"model.depth": "1,2"}), tmp_path / "s")
