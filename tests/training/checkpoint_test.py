"""Checkpoints: whole or not there, of this model or refused, and the same on every backend."""

import importlib.util

import keras
import numpy as np
import pytest

from zoo.errors import InputError
from zoo.training import checkpoint
from zoo.training.load import load

pytestmark = pytest.mark.backends

VALUES = {"a/kernel": np.arange(6, dtype="float32").reshape(2, 3), "random/0": np.array([1, 2], "uint32")}


def model_of(*names: str, units: int = 3) -> keras.Model:
    return keras.Sequential([keras.Input((2,)), *(keras.layers.Dense(units, name=name) for name in names)], name="m")


def test_what_is_read_is_what_was_written(tmp_path):
    checkpoint.write(tmp_path / "a.npz", VALUES, {"step": 3, "best": None})
    values, meta = checkpoint.read(tmp_path / "a.npz")
    assert values.keys() == VALUES.keys()
    assert all(np.array_equal(values[name], VALUES[name]) for name in VALUES)
    assert all(values[name].dtype == VALUES[name].dtype for name in VALUES)
    assert meta == {"format": checkpoint.FORMAT, "step": 3, "best": None}
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_a_failed_write_leaves_the_last_one(tmp_path, monkeypatch):
    checkpoint.write(tmp_path / "a.npz", VALUES, {"step": 1})

    def fail(file, **values):
        file.write(b"half a file")
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="no space left"):
        checkpoint.write(tmp_path / "a.npz", VALUES, {"step": 2})
    assert checkpoint.read(tmp_path / "a.npz")[1]["step"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize(
    ("other", "meta"),
    [({"a/kernel": np.zeros((3, 2))}, {"step": 2}), ({"a/kernel": np.array(["x"])}, {}), ({}, {"step": 2})],
)
def test_what_cannot_be_averaged(tmp_path, other, meta):
    weights = {"a/kernel": VALUES["a/kernel"]}
    checkpoint.write(tmp_path / "a.npz", weights, {"step": 1})
    checkpoint.write(tmp_path / "b.npz", other, meta)
    with pytest.raises(InputError, match=r"b\.npz' cannot be averaged with the others: 'a/kernel'"):
        checkpoint.average([tmp_path / "a.npz", tmp_path / "b.npz"])


def test_missing(tmp_path):
    with pytest.raises(InputError, match=r"there is no checkpoint .*a\.npz'; train first"):
        checkpoint.read(tmp_path / "a.npz")


@pytest.mark.parametrize("damage", ["empty", "cut off", "overwritten", "text", "other arrays", "an array", "no facts"])
def test_damaged(damage, tmp_path):
    path = tmp_path / "a.npz"
    checkpoint.write(path, VALUES, {"step": 1})
    whole = path.read_bytes()
    if damage == "other arrays":
        np.savez(path, a=np.zeros(3))
    elif damage == "an array":
        np.save(tmp_path / "a.npy", np.zeros(3))
        (tmp_path / "a.npy").replace(path)
    elif damage == "no facts":
        np.savez(path, a=np.zeros(3), meta=np.array("[]"))
    else:
        middle = len(whole) // 2
        path.write_bytes(
            {
                "empty": b"",
                "cut off": whole[: -len(whole) // 3],
                "overwritten": whole[: middle - 200] + bytes(400) + whole[middle + 200 :],
                "text": b"step 1",
            }[damage]
        )
    with pytest.raises(InputError, match=r"a\.npz' is not a checkpoint, or is damaged"):
        checkpoint.read(path)


def test_a_later_format(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    checkpoint.write(tmp_path / "a.npz", VALUES, {})
    monkeypatch.undo()
    with pytest.raises(InputError, match="has the format 2; this version reads 1"):
        checkpoint.read(tmp_path / "a.npz")


def test_assign_is_the_opposite_of_snapshot():
    variables = checkpoint.named_variables(model_of("a", "b"))
    before = checkpoint.snapshot(variables)
    checkpoint.assign(variables, {name: value + 1 for name, value in before.items()})
    after = checkpoint.snapshot(variables)
    assert all(np.array_equal(after[name], before[name] + 1) for name in before)


def test_a_snapshot_is_a_copy():
    model = model_of("a")
    before = checkpoint.snapshot(checkpoint.named_variables(model))
    model.layers[0].bias.assign(np.ones(3))
    assert not before["m/a/bias"].any()


def test_another_model_by_name():
    values = checkpoint.snapshot(checkpoint.named_variables(model_of("a", "b")))
    with pytest.raises(InputError, match=r"another model: 'm/b/bias' is in only one of the two"):
        checkpoint.assign(checkpoint.named_variables(model_of("a")), values)
    with pytest.raises(InputError, match=r"another model: 'm/a/bias' is in only one of the two"):
        checkpoint.assign(checkpoint.named_variables(model_of("c", "b")), values)


def test_another_model_by_shape():
    values = checkpoint.snapshot(checkpoint.named_variables(model_of("a")))
    values["m/a/kernel"] = np.zeros((2, 4), "float32")
    variables = checkpoint.named_variables(model_of("a"))
    before = checkpoint.snapshot(variables)
    with pytest.raises(InputError, match=r"'m/a/kernel' has the shape \(2, 4\), not \(2, 3\)"):
        checkpoint.assign(variables, values)
    assert all(np.array_equal(value, before[name]) for name, value in checkpoint.snapshot(variables).items())


def test_every_variable_has_a_name_of_its_own():
    """Weights, random streams and the optimizer's: as many as there are, and none twice."""
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, name="a"), keras.layers.Dropout(0.1), keras.layers.Dropout(0.2)],
        name="m",
    )
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    named = checkpoint.named_variables(model, optimizer)
    assert {"m/a/kernel", "m/a/bias", "random/0", "random/1", "optimizer/0"} <= named.keys()
    assert len({id(variable) for variable in named.values()}) == len(named)
    assert len(named) == len(model.weights) + 2 + len(optimizer.variables)
    assert checkpoint.named_variables(model).keys() == {"m/a/kernel", "m/a/bias"}


def test_two_layers_of_one_name_are_refused():
    model = model_of("a", "b")
    model.layers[1].kernel._path = model.layers[0].kernel.path
    with pytest.raises(ValueError, match="two weights of the model have the same path"):
        checkpoint.named_variables(model)


LOGITS = """
import sys

import numpy as np

from zoo.training.devices import choose_backend

choose_backend(None)
import keras

from zoo.training.load import load

inputs = np.load(sys.argv[2])
logits = load(sys.argv[1]).model(dict(inputs), training=False)
np.save(sys.argv[3], keras.ops.convert_to_numpy(logits))
print(keras.backend.backend())
"""


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_weights_carry_over_to_every_backend(backend, trained_run, in_process, tmp_path):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    if backend == keras.backend.backend():
        pytest.skip("trained on this one")
    directory, _ = trained_run
    trained = load(directory)
    tokens = np.array([[5, 6, 7, 2, 0], [4, 2, 0, 0, 0]], "int32")
    inputs = {"source": tokens, "target": np.roll(tokens, 1, 1)}
    inputs["target"][:, 0] = 1
    np.savez(tmp_path / "inputs.npz", **inputs)
    files = (directory, tmp_path / "inputs.npz", tmp_path / "logits.npy")
    assert in_process(LOGITS, *files, KERAS_BACKEND=backend).stdout.split()[-1] == backend
    expected = keras.ops.convert_to_numpy(trained.model(inputs, training=False))
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(np.load(tmp_path / "logits.npy"), expected, atol=1e-5, rtol=0)
