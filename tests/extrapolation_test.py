"""The command that shows extrapolation runs, and says where a scheme ends."""

import csv
import math
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "extrapolation.py"


def extrapolation(*flags):
    return subprocess.run([sys.executable, SCRIPT, *flags], capture_output=True, text=True)


def test_two_schemes(tmp_path):
    ran = extrapolation("--positions=learned,rotary_randomized", "--steps=2", "--seed=3", f"--output={tmp_path}")
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["extrapolation.csv", "extrapolation.png", "runs"]
    assert (tmp_path / "extrapolation.png").read_bytes().startswith(b"\x89PNG")
    with open(tmp_path / "extrapolation.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lengths = ["32", "64", "128", "256"]
    assert [(row["scheme"], row["length"]) for row in rows] == [
        *(("learned", length) for length in lengths),
        *(("rotary_randomized", length) for length in lengths),
    ]
    assert {(row["seed"], row["steps"]) for row in rows} == {("3", "2")}
    ends = "64 positions are asked for and 32 were learned"
    assert [bool(row["error"]) for row in rows] == [False, True, True, True] + 4 * [False]
    assert rows[1]["error"].startswith(ends) and f"learned from 2x on: {ends}" in ran.stdout
    optimum = [float(row["optimum"]) for row in rows[4:]]
    assert optimum == sorted(optimum, reverse=True) and optimum[0] < math.log(8)  # more context, less to guess
    for row in rows:
        assert (row["nll"] == "") == (row["accuracy"] == "") == bool(row["error"])
        if row["nll"]:
            assert float(row["optimum"]) < float(row["nll"]) and 0 <= float(row["accuracy"]) <= 1


@pytest.mark.parametrize(
    ("flag", "said"),
    [("--positions=rotary,alibis", "did you mean"), ("--recipe=number_words", "has no option longest")],
)
def test_wrong_input_is_one_line(tmp_path, flag, said):
    ran = extrapolation(flag, f"--output={tmp_path}")
    assert ran.returncode == 2 and said in ran.stderr and ran.stderr.count("\n") == 1
