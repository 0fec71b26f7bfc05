"""What the tests of training share: a tiny recipe, a run of it, and a process of its own for one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zoo import recipe as recipes
from zoo.training.devices import choose_backend

BACKEND = choose_backend(None)  # as the command line does, before Keras is imported

TINY = {
    "model.dropout": 0.1,
    "train.jit": None if BACKEND == "jax" else False,  # compiling takes longer than so few steps
}


@pytest.fixture(scope="session")
def tiny(small_copy):
    """``tiny(changes)``: the recipe "copy", small and quick, with changes by path or ``task`` by name."""

    def make(changes=None, *, task: str = "copy") -> recipes.Recipe:
        return recipes.load("copy").override({**small_copy, **TINY, "task.name": task, **(changes or {})})

    return make


@pytest.fixture(scope="session")
def trained_run(tiny, tmp_path_factory):
    """A finished run with everything switched on, and what training it returned: (directory, result)."""
    from zoo.training.train import train

    directory = tmp_path_factory.mktemp("trained") / "run"
    changes = {
        "train.steps": 5,  # the last round is a short one
        "train.samples": 2,
        "train.decode_validation": 6,
        "train.ema": 0.5,
        "train.clip_norm": 1.0,
        "train.buckets": 2,
    }
    return directory, train(tiny(changes), directory)


@pytest.fixture
def in_process(tmp_path):
    """``in_process(code, *arguments, **environment)``: runs Python code in a process of its own."""

    def run(code: str, *arguments, ok: bool = True, **environment) -> subprocess.CompletedProcess:
        script = tmp_path / f"script_{len(list(tmp_path.glob('script_*')))}.py"
        script.write_text(code, encoding="utf-8")
        root = str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, script, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": paths, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert not ok or done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done

    return run
