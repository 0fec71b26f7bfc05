"""Searches with real trials, each in a process of its own."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time

import pytest

from zoo import recipe as recipes
from zoo.commands.searching import headings
from zoo.errors import InputError
from zoo.search.trial import Result, read_result, train_in_own_process
from zoo.training import checkpoint
from zoo.training.run_directory import RunDirectory

SMALL = ["--recipe=copy", "--steps=4", "--set=train.validate_every=2", "--set=train.samples=0", "--set=model.width=16"]
SMALL += ["--set=task.options.train_size=200", "--batch_tokens=128", "--set=model.feed_forward=32"]
SMALL += [f"--set=task.options.{name}_size=24" for name in ("valid", "test")] + ["--set=train.jit=false", "--depth=1"]
SMALL += ["--architecture=encoder_only"]  # the quickest to build


def test_a_grid_has_the_numbers_of_zoo_train(called, refused, tmp_path, monkeypatch):
    """And goes on where it was; the winner's recipe trains to the same number."""
    monkeypatch.chdir(tmp_path)
    search = ["search", *SMALL, "--tuner=grid", "--over=model.num_heads=2,3,4", "--format=json", "--workdir=s"]
    code, out, err = called(*search)
    assert code == 0, err
    rows = json.loads(out)
    assert {row["num_heads"] for row in rows} == {"2", "4"}
    assert "skipped num_heads=3" in err
    assert called(*search)[1] == out  # and trains nothing again
    best = rows[0]
    result = read_result(tmp_path / "s" / f"trial_{best['trial']}")
    assert f"{result.value:.6g}" == best["token_nll"]
    winner = shlex.split(err.splitlines()[-1])
    assert f"--num_heads={best['num_heads']}" in winner
    assert called("train", "--recipe=s/best.py", "--workdir=run")[0] == 0
    assert checkpoint.read(RunDirectory("run").best)[1]["token_nll"] == result.value
    other = refused("search", *SMALL, "--tuner=random", "--over=model.num_heads=2,3,4", "--workdir=s")
    assert "holds another search: tuner" in other


def test_workers(tmp_path):
    """One of two is killed while it trains: its trial is completed, and the chief ends."""
    words = [*SMALL, "--tuner=grid", "--over=model.position=none,rotary", "--workers=2", "--format=json"]
    words.append("--over=model.attention=relative if model.position=none")
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo.cli", "search", *words, "--workdir=s"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    beat = tmp_path / "s" / "workers" / "worker0"
    deadline = time.monotonic() + 120
    while not (beat.is_file() and "worker0" in _training(tmp_path / "s")) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(int(beat.read_text().split()[0]), signal.SIGKILL)
    output, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    rows = json.loads(output)
    assert {row["position"]: row["attention"] for row in rows} == {"none": "relative", "rotary": "-"}
    assert all(row["token_nll"] != "-" for row in rows)
    for row in rows:
        trained = recipes.from_json((tmp_path / "s" / f"trial_{row['trial']}" / "run" / "recipe.json").read_text())
        assert (trained.model.attention == "relative") == (row["position"] == "none")


def _training(directory) -> set[str]:
    """The workers that have a trial."""
    try:
        return set(json.loads((directory / "oracle.json").read_text())["ongoing_trials"])
    except (OSError, ValueError):
        return set()


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


def test_bad_input_is_one_line(refused, tmp_path):
    assert "model.num_heads" in refused("search", *SMALL, "--over=model.num_head=1,2", f"--workdir={tmp_path}/s")
    assert not list(tmp_path.iterdir())


def test_paths_that_end_alike_are_columns_of_their_own():
    paths = ["model.attention_options.max_distance", "model.position_options.max_distance"]
    assert headings(["trial", "model.depth", *paths]) == ["trial", "depth", *paths]


def test_all_trials_failed(called, tmp_path):
    words = ["--over=model.num_heads=2", "--tuner=grid", "--max_parameters=10", f"--workdir={tmp_path}/s"]
    code, _, err = called("search", *SMALL, *words)
    assert code == 2
    assert "no trial has a result: " in err
    assert "are more than 10" in err
    assert "Traceback" not in err


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


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ORACLE_IP": "127.0.0.1"}, "ORACLE_IP is set, and so KERASTUNER_TUNER_ID must be"),
        ({"TUNER_ID": "chief"}, "TUNER_ID is set, and so KERASTUNER_ORACLE_IP must be"),
        ({"TUNER_ID": "a", "ORACLE_IP": "127.0.0.1"}, "KERASTUNER_ORACLE_PORT must be"),
        ({"TUNER_ID": "a", "ORACLE_IP": "127.0.0.1", "ORACLE_PORT": "abc"}, "must be a number, not 'abc'"),
    ],
)
def test_over_several_machines_all_variables_are_needed(make_search, tmp_path, monkeypatch, variables, said):
    from zoo.search import search

    for name, value in variables.items():
        monkeypatch.setenv(f"KERASTUNER_{name}", value)
    with pytest.raises(InputError, match=said):
        search(make_search({"model.depth": "1,2"}), tmp_path / "s")


def test_the_chief_and_its_workers_search_the_same(make_search, tmp_path, monkeypatch):
    from zoo.search import search

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
        monkeypatch.setenv("KERASTUNER_ORACLE_PORT", str(taken.getsockname()[1]))
        monkeypatch.setenv("KERASTUNER_TUNER_ID", "chief")
        with pytest.raises(InputError, match="is the port in use"):
            search(make_search({"model.depth": "1,2"}), tmp_path / "s")
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "other")
    with pytest.raises(InputError, match=r"holds another search: --over=model\.depth is '1,2' there"):
        search(make_search({"model.depth": "1,2,3"}), tmp_path / "s")


def test_data_that_is_not_there(tmp_path):
    from zoo.search import Search, search

    recipe = recipes.load("multi30k_short").override({"task.data_dir": str(tmp_path / "none")})
    with pytest.raises(InputError, match="does not exist"):
        search(Search(recipe, over={"model.depth": "1,2"}), tmp_path / "s")
    assert not list(tmp_path.iterdir())


def test_the_time_before_an_interruption_counts(tiny, tmp_path):
    run = RunDirectory(tmp_path / "t" / "run")
    run.path.mkdir(parents=True)
    run.write_log([{"step": 1, "seconds": 61.0}])
    assert "more than 1 minutes" in train_in_own_process(tiny, tmp_path / "t", max_minutes=1).failure
