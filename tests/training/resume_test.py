"""A run that is killed and continued with the same command ends as one that never was."""

import signal

import pytest

from zoo.errors import InputError
from zoo.training import checkpoint
from zoo.training.run_directory import RunDirectory
from zoo.training.train import train
from zoo.whole import partial_of

pytestmark = pytest.mark.backends

STEPS, ROUND = 12, 4

#: Dropout, shuffling over several shapes, and an average of the weights.
CHANGES = {
    "model.architecture": "encoder_only",  # it is quick to compile, and all that is kept is kept in the same way
    "train.steps": STEPS,
    "train.validate_every": ROUND,
    "train.buckets": 2,
    "train.ema": 0.9,
    "model.options": {"attention_dropout": 0.1},
}

#: Trains, and dies by SIGKILL at the moment that its third argument names.
TRAIN = """
import os, signal, sys

from zoo import recipe
from zoo.training.devices import choose_backend

choose_backend(None)
from zoo.tasks.subwords import Subwords
from zoo.training import callbacks, checkpoint, train

workdir, file, moment = sys.argv[1:]


def die(*args, **kwargs):
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner, name, when=lambda *args, **kwargs: True):
    there = getattr(owner, name)

    def replaced(*args, **kwargs):
        if when(*args, **kwargs):
            die()
        return there(*args, **kwargs)

    setattr(owner, name, replaced)


def at_step(step):
    return lambda self, *args, **kwargs: self.state["step"] == step


if moment == "vocabulary":
    before(Subwords, "save")
elif moment == "compiling":
    before(checkpoint, "assign")  # the steps that are only for compiling are taken, not yet taken back
elif moment == "checkpoint":  # best.npz is of this round, last.npz is half on the disk
    def half(file, **values):
        file.write(b"PK" * 999)
        file.flush()
        die()

    write = checkpoint.write

    def written(path, *args):
        if path.name == "last.npz":
            checkpoint.np.savez = half
        write(path, *args)

    checkpoint.write = written
elif moment == "log":  # the checkpoint is written, its row of the log is not
    before(callbacks.RunDirectory, "write_log", lambda self, rows: rows[-1]["step"] == 8)
elif moment.startswith("step "):
    before(callbacks.Rounds, "on_train_batch_end", at_step(int(moment.removeprefix("step "))))
train.train(recipe.from_json(open(file).read()), workdir)
"""


@pytest.fixture(scope="module")
def recipe(tiny):
    return tiny(CHANGES)


@pytest.fixture(scope="module")
def whole(recipe, tmp_path_factory):
    """The run that is never interrupted."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    train(recipe, directory)
    return RunDirectory(directory)


def everything(path) -> dict[str, bytes]:
    """Every value of a checkpoint, bit by bit: weights, optimizer, random streams."""
    values, _ = checkpoint.read(path)
    assert any(name.startswith("random/") for name in values) or path.name == "best.npz"
    return {name: (value.shape, value.dtype.str, value.tobytes()) for name, value in values.items()}


def log_of(run: RunDirectory) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in run.read_log()]


def assert_same(run: RunDirectory, other: RunDirectory) -> None:
    for file in ("last", "best"):
        found, expected = everything(getattr(run, file)), everything(getattr(other, file))
        assert found.keys() == expected.keys()
        assert not [name for name in found if found[name] != expected[name]], file
    assert log_of(run) == log_of(other)


def test_killed_again_and_again(recipe, whole, tmp_path, in_process):
    run = RunDirectory(tmp_path / "run")
    (tmp_path / "recipe.json").write_text(recipe.to_json())

    def go(moment: str):
        done = in_process(TRAIN, run.path, tmp_path / "recipe.json", moment, ok=moment == "never")
        assert done.returncode == (0 if moment == "never" else -signal.SIGKILL), done.stdout + done.stderr
        return done.stdout

    go("vocabulary")
    go("compiling")
    assert not run.last.exists()
    assert "going on" not in go("step 6")
    assert [row["step"] for row in run.read_log()] == ["4"]
    assert "going on from step 4" in go("checkpoint")
    assert [checkpoint.read(file)[1]["step"] for file in (run.best, run.last)] == [8, 4]
    assert partial_of(run.last).stat().st_size > 0
    assert "going on from step 4" in go("log")
    assert checkpoint.read(run.last)[1]["step"] == 8
    assert [row["step"] for row in run.read_log()] == ["4"]
    assert "going on from step 8" in go("never")
    assert_same(run, whole)


def test_going_on_in_the_same_process(recipe, whole, tmp_path, monkeypatch):
    """As killing does, an exception leaves the run to be continued; seeds that were used meanwhile change nothing."""
    from zoo.training.callbacks import Rounds

    batch_end = Rounds.on_train_batch_end

    def stop(self, *args, **kwargs):
        batch_end(self, *args, **kwargs)
        if self.state["step"] == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(Rounds, "on_train_batch_end", stop)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path)
    monkeypatch.undo()
    train(recipe, tmp_path)
    assert_same(RunDirectory(tmp_path), whole)


def test_a_finished_run_is_left_as_it_is(recipe, whole, capsys):
    before = {path: path.read_bytes() for path in whole.path.rglob("*") if path.is_file()}
    result = train(recipe, whole.path)
    assert "already finished at step 12" in capsys.readouterr().out
    assert result["step"] == STEPS
    after = {path: path.read_bytes() for path in whole.path.rglob("*") if path.is_file()}
    assert {path.name for path in after if after[path] != before.get(path)} <= {"lock"}


def test_other_data_are_another_run(tiny, tmp_path, monkeypatch):
    changes = {"model.architecture": "encoder_only", "train.steps": 4, "train.validate_every": 2}
    train(tiny(changes), tmp_path)
    from zoo.tasks.algorithmic import Algorithmic

    read = Algorithmic.read
    monkeypatch.setattr(Algorithmic, "read", lambda self, split: tuple(side[1:] for side in read(self, split)))
    with pytest.raises(InputError, match="the training data has changed since this run began"):
        train(tiny(changes), tmp_path)


def test_a_lost_vocabulary_is_not_made_anew(tiny, tmp_path):
    changes = {"model.architecture": "encoder_only", "train.steps": 4, "train.validate_every": 2}
    train(tiny(changes), tmp_path)
    (tmp_path / "target.subwords").unlink()
    with pytest.raises(InputError, match="holds no vocabulary"):
        train(tiny(changes), tmp_path)


def test_a_damaged_state_is_one_line(tiny, tmp_path):
    changes = {"model.architecture": "encoder_only", "train.steps": 4, "train.validate_every": 2}
    train(tiny(changes), tmp_path)
    run = RunDirectory(tmp_path)
    values, meta = checkpoint.read(run.last)
    for wrong in ({"step": "x"}, {"log": None}):
        checkpoint.write(run.last, values, {**meta, **wrong})
        with pytest.raises(InputError, match=f"is damaged: {next(iter(wrong))} is"):
            train(tiny(changes), tmp_path)


def test_another_seed_is_another_run(recipe, whole, tmp_path):
    run = RunDirectory(tmp_path)
    train(recipe.override({"train.seed": 2}), run.path)
    assert all(one["loss"] != other["loss"] for one, other in zip(log_of(run), log_of(whole), strict=True))
    found, expected = everything(run.best), everything(whole.best)
    assert found.keys() == expected.keys()
    assert found["encoder_only/embedding/table"] != expected["encoder_only/embedding/table"]
