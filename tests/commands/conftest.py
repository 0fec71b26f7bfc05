"""A small trained run, and an empty folder to work in."""

import shutil
from pathlib import Path

import pytest

SMALL = (
    *("--recipe=copy", "--steps=2", "--width=16", "--num_heads=2", "--batch_tokens=256"),
    *("--position=learned", "--set=model.feed_forward=16", "--set=train.samples=0", "--set=train.jit=false"),
    *("--set=task.options.longest=6", "--set=task.options.max_length=16"),
    *("--set=task.options.train_size=64", "--set=task.options.valid_size=8", "--set=task.options.test_size=8"),
)


@pytest.fixture(scope="session")
def small() -> tuple[str, ...]:
    """The flags of a run of two steps."""
    return SMALL


@pytest.fixture(scope="session")
def trained(command, tmp_path_factory) -> Path:
    """The directory of a run of two steps, trained in a process of its own."""
    workdir = tmp_path_factory.mktemp("cli") / "run"
    done = command("train", *SMALL, f"--workdir={workdir}")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "step      2/2" in done.stdout
    assert f"zoo evaluate --workdir={workdir}" in done.stdout
    return workdir


@pytest.fixture
def copied(trained, tmp_path) -> Path:
    """A copy of that run, to damage."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def nothing_written(elsewhere):
    yield
    assert list(Path.cwd().iterdir()) == []
