"""Training: what it leaves behind, when it stops, what it keeps, and what it does not touch."""

import dataclasses
import json
import shutil
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from zoo import recipe as recipes
from zoo.errors import InputError
from zoo.tasks.token_losses import SmoothedCrossEntropy
from zoo.training import checkpoint
from zoo.training.build import build_model, build_task
from zoo.training.callbacks import Rounds
from zoo.training.check import check
from zoo.training.load import load
from zoo.training.run_directory import RunDirectory
from zoo.training.schedules import make_optimizer
from zoo.training.train import _that_fit, rehearse, train
from zoo.whole import partial_of


def weights(path) -> dict[str, np.ndarray]:
    values, _ = checkpoint.read(path)
    return {name: value for name, value in values.items() if not name.startswith(("random/", "optimizer/"))}


def log_of(run: RunDirectory, name: str) -> list[float]:
    return [float(row[name]) for row in run.read_log()]


#: Where the architecture does not matter: one that is quick to compile.
QUICK = {"model.architecture": "encoder_only"}


# What a run leaves behind


def test_files(trained_run, tiny):
    run = RunDirectory(trained_run[0])
    assert {path.name for path in run.path.iterdir()} == {
        *("recipe.json", "environment.json", "source.subwords", "target.subwords", "last.npz", "best.npz"),
        *("log.csv", "tensorboard", "samples.txt", "lock", "checkpoints", "report.html"),
    }
    environment = json.loads(run.environment_file.read_text())
    assert environment["backend"] == keras.backend.backend()
    assert environment["versions"]["keras"] == keras.__version__


def test_the_recipe_is_resolved(trained_run):
    """Every default is filled in, so the run means the same when defaults change, and checking it changes nothing."""
    recipe = RunDirectory(trained_run[0]).recipe()
    assert recipe.model.attention == "multi_head"
    assert recipe.task.options["subwords"] == "char"
    assert check(recipe) == recipe
    assert recipes.from_json(recipe.to_json()) == recipe


def test_log(trained_run):
    directory, result = trained_run
    rows = RunDirectory(directory).read_log()
    assert [row["step"] for row in rows] == ["2", "4", "5"]
    of_the_run = {"parameters", "best_token_nll", "best_step"}
    assert {name: str(value) for name, value in result.items() if name not in of_the_run} == rows[-1]
    assert {
        "loss",
        "valid_loss",
        "valid_token_nll",
        "valid_token_accuracy",
        "valid_exact_match",
        "learning_rate",
    } < rows[0].keys()


def test_tensorboard_shows_the_log(trained_run):
    run = RunDirectory(trained_run[0])
    events = EventAccumulator(str(run.tensorboard))
    events.Reload()
    shown = set(events.Tags()["tensors"])
    assert shown == run.read_log()[0].keys() - {"step", "seconds"}
    for name in shown:
        found = [
            (
                event.step,
                float(np.frombuffer(event.tensor_proto.tensor_content, "float32")[0])
                if event.tensor_proto.tensor_content
                else event.tensor_proto.float_val[0],
            )
            for event in events.Tensors(name)
        ]
        assert [step for step, _ in found] == [2, 4, 5]
        assert [value for _, value in found] == pytest.approx(log_of(run, name))


def test_samples(trained_run):
    directory, _ = trained_run
    first, *samples = RunDirectory(directory).samples_file.read_text().splitlines()
    assert first == "step 5"
    task = build_task(RunDirectory(directory).recipe())
    sources, targets = task.pairs("valid")
    assert len(samples) == 2
    for sample in samples:
        source, _, shown = sample.partition("  ->  ")
        target = targets[sources.index(source)]
        assert shown.strip() == target or shown.endswith(f"(reference: {target})")


def test_what_is_too_long_to_decode_is_left_out_of_the_samples(trained_run):
    trained = load(trained_run[0])
    texts = ["abcabcabc", "ab", "abcabcabcabc", "cab", "b"]
    places = SimpleNamespace(layout="encoder_decoder", position_limit=lambda: 8)
    few = dataclasses.replace(trained, model=places, task=trained.task.with_pairs("valid", texts, texts[::-1]))
    assert _that_fit(few, 2) == (["ab", "cab"], ["cab", "ab"])
    assert _that_fit(few, 9)[0] == ["ab", "cab", "b"]


def test_a_report_that_a_kill_prevented_is_written_by_the_same_command(trained_run, tmp_path):
    run = RunDirectory(shutil.copytree(trained_run[0], tmp_path / "run"))
    run.report_file.unlink()
    train(run.recipe(), run.path)
    assert run.report_file.is_file()


def test_best_and_last(trained_run):
    directory, result = trained_run
    run = RunDirectory(directory)
    nll = log_of(run, "valid_token_nll")
    assert result["best_token_nll"] == pytest.approx(min(nll))
    assert result["best_step"] == [2, 4, 5][int(np.argmin(nll))]
    assert load(directory).checkpoint["step"] == result["best_step"]
    assert load(directory, "last").checkpoint["step"] == 5


# What training keeps


def test_the_average_is_kept_and_the_weights_go_on(tiny, tmp_path, monkeypatch):
    """best.npz is the average of the weights of all steps; the weights themselves are as without an average."""
    written = []
    write = checkpoint.write

    def record(path, values, meta):
        written.append((path.name, {name: np.array(value) for name, value in values.items()}))
        write(path, values, meta)

    changes = {**QUICK, "train.steps": 4, "train.validate_every": 1, "train.learning_rate": 1e-2}
    plain = RunDirectory(tmp_path / "plain")
    train(tiny(changes), plain.path)
    monkeypatch.setattr(checkpoint, "write", record)
    averaged = RunDirectory(tmp_path / "averaged")
    train(tiny({**changes, "train.ema": 0.7}), averaged.path)

    trained = [values for name, values in written if name == "last.npz"]  # what the model goes on with
    assert len(trained) == 4
    expected = weights(averaged.best)
    names = expected.keys()
    average = {name: trained[0][name] for name in names}
    for values in trained[1:]:
        average = {name: 0.7 * average[name] + 0.3 * values[name] for name in names}
    assert checkpoint.read(averaged.best)[1]["step"] == 4, "the loss falls at every step"
    for name in names:
        np.testing.assert_allclose(expected[name], average[name], atol=1e-6)
    assert max(np.abs(average[name] - trained[-1][name]).max() for name in names) > 1e-3
    unaveraged = weights(plain.last)
    assert all(np.array_equal(trained[-1][name], unaveraged[name]) for name in names)


def test_the_last_weights_are_kept_as_trained_and_averaged_on_loading(tiny, tmp_path, monkeypatch):
    trained = []
    write = checkpoint.write

    def record(path, values, meta):
        if path.name == "last.npz":
            trained.append({name: np.array(value) for name, value in values.items()})
        write(path, values, meta)

    monkeypatch.setattr(checkpoint, "write", record)
    changes = {**QUICK, "train.steps": 5, "train.validate_every": 1, "train.learning_rate": 1e-2, "train.ema": 0.7}
    run = RunDirectory(tmp_path)
    train(tiny({**changes, "train.keep_last": 3}), run.path)
    assert [path.name for path in run.kept()] == ["000000003.npz", "000000004.npz", "000000005.npz"]
    averaged = load(run.path, average_last=2)
    assert averaged.checkpoint["weights"] == "average of the steps 4, 5"
    for name, variable in checkpoint.named_variables(averaged.model).items():
        mean = (trained[3][name] + trained[4][name]) / 2
        np.testing.assert_allclose(keras.ops.convert_to_numpy(variable), mean, atol=1e-6)
    with pytest.raises(InputError, match=r"of 3 validations, of which 4 can't be averaged; train\.validate_every"):
        load(run.path, average_last=4)


def test_weights_ahead_of_the_last_checkpoint_are_of_a_round_that_is_repeated(tiny, tmp_path):
    changes = {**QUICK, "train.steps": 4, "train.validate_every": 2}
    run = RunDirectory(tmp_path)
    train(tiny(changes), run.path)
    ahead = run.checkpoint_of(6)
    ahead.write_bytes(run.checkpoint_of(4).read_bytes())
    partial_of(run.checkpoint_of(4)).write_bytes(b"half")  # of a process that was killed
    train(tiny(changes), run.path)
    assert [path.name for path in run.kept()] == ["000000002.npz", "000000004.npz"]


def test_no_improvement_ends_training(tiny, tmp_path, capsys):
    """Patience is the number of validations in a row without improvement that ends training."""
    changes = {**QUICK, "train.steps": 9, "train.validate_every": 1, "train.patience": 2, "train.learning_rate": 1e-30}
    result = train(tiny(changes), tmp_path)
    assert result["step"] == 3
    assert result["best_step"] == 1
    assert checkpoint.read(RunDirectory(tmp_path).last)[1]["finished"]
    train(tiny(changes), tmp_path)
    assert "already finished at step 3" in capsys.readouterr().out


def test_what_is_monitored_decides_what_is_best(tiny, tmp_path, monkeypatch):
    """With a metric of which more is better: the exact match of decoded text."""
    shares = iter([0.25, 0.75, 0.5])
    monkeypatch.setattr("zoo.training.train.decode", lambda trained: ({"exact_match": next(shares)}, []))
    changes = {
        "train.steps": 3,
        "train.validate_every": 1,
        "train.monitor": "exact_match",
        "train.decode_validation": 1,
    }
    result = train(tiny(changes), tmp_path)
    assert (result["best_step"], result["best_exact_match"]) == (2, 0.75)
    assert result["valid_exact_match"] == 0.5


# Divergence


def test_divergence_is_an_error_that_says_what_to_do(tiny, tmp_path):
    changes = {**QUICK, "train.learning_rate": 1e30, "train.warmup_steps": 0}
    with pytest.raises(InputError, match=r"at step 2: training diverged; lower --learning_rate") as error:
        train(tiny(changes), tmp_path)
    assert "\n" not in str(error.value)
    assert not RunDirectory(tmp_path).last.exists()


@pytest.mark.parametrize("step", [3, 4], ids=["in a round", "at its last step"])
def test_divergence_leaves_the_last_good_checkpoint(step, tiny, tmp_path, monkeypatch):
    batch_end = Rounds.on_train_batch_end

    def spoil(self, *args, **kwargs):
        batch_end(self, *args, **kwargs)
        if self.state["step"] == step:
            variable = self.model.trainable_variables[0]
            variable.assign(np.full(variable.shape, np.nan, "float32"))

    monkeypatch.setattr(Rounds, "on_train_batch_end", spoil)
    with pytest.raises(InputError, match="at step 4: training diverged"):
        train(tiny(QUICK), tmp_path)
    run = RunDirectory(tmp_path)
    for file in (run.last, run.best):
        assert checkpoint.read(file)[1]["step"] == 2
        assert all(np.isfinite(value).all() for value in weights(file).values())
    assert [row["step"] for row in run.read_log()] == ["2"]


# Precision, and what is only tried


@pytest.mark.backends
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_lower_precision_keeps_float32_weights(precision, tiny, tmp_path):
    train(tiny({**QUICK, "train.precision": precision, "train.steps": 2, "train.ema": 0.5}), tmp_path)
    run = RunDirectory(tmp_path)
    assert all(np.isfinite(log_of(run, name)[0]) for name in ("loss", "valid_loss"))
    values = weights(run.last)
    assert {value.dtype for value in values.values()} == {np.dtype("float32")}
    kernel = values["encoder_only/embedding/table"]
    assert np.any(kernel != kernel.astype("float16"))  # the updates are not rounded
    assert load(tmp_path).model.compute_dtype == precision


@pytest.mark.backends
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_rehearsing_leaves_no_trace(precision, tiny, tmp_path):
    recipe = check(tiny({**QUICK, "train.ema": 0.9, "train.buckets": 2, "train.precision": precision}))
    task = build_task(recipe)
    task.prepare(tmp_path)
    model = build_model(recipe, task)
    model.compile(optimizer=make_optimizer(recipe.train, 16), loss=SmoothedCrossEntropy(), jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    variables = checkpoint.named_variables(model, model.optimizer)
    before = checkpoint.snapshot(variables)
    batches = task.batches("train", model.layout, 128, buckets=2, seed=1)
    assert len(batches.shapes) == 2
    rehearse(model, batches)
    after = checkpoint.snapshot(variables)
    assert checkpoint.named_variables(model, model.optimizer).keys() == before.keys()
    assert not [name for name in before if before[name].tobytes() != after[name].tobytes()]
    model.fit(batches.dataset, steps_per_epoch=1, shuffle=False, verbose=0)
    moved = checkpoint.snapshot(variables)
    groups = {name.partition("/")[0] for name in before if before[name].tobytes() != moved[name].tobytes()}
    assert groups == {"encoder_only", "random", "optimizer"}  # each would have shown a trace


# The other architectures


@pytest.mark.parametrize(("architecture", "task"), [("decoder_only", "reverse"), ("encoder_only", "copy")])
def test_other_layouts_train_and_generate(architecture, task, tiny, tmp_path):
    changes = {"model.architecture": architecture, "train.samples": 2, "train.learning_rate": 1e-2}
    result = train(tiny({**changes, "train.steps": 20, "train.validate_every": 10}, task=task), tmp_path)
    losses = log_of(RunDirectory(tmp_path), "valid_loss")
    assert losses[1] < losses[0]
    trained = load(tmp_path)
    outputs = trained.generate(["abcd", "dcbaabcd"])
    assert len(outputs) == 2
    assert set("".join(outputs)) <= set("abcd ")
    if architecture == "encoder_only":
        assert all(len(output) <= n for output, n in zip(outputs, (4, 8), strict=True))
    assert result["step"] == 20
