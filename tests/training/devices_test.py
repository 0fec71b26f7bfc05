"""Two devices train as one does."""

import importlib.util
import json

import pytest

TRAIN = """
import sys

from zoo import recipe
from zoo.training.devices import choose_backend

if choose_backend(None) == "tensorflow":
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * int(sys.argv[3]))
from zoo.training.train import train

train(recipe.from_json(open(sys.argv[1]).read()), sys.argv[2])
"""


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_two_devices_train_as_one(backend, tiny, tmp_path, in_process):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    from zoo.training.run_directory import RunDirectory

    changes = {"model.dropout": 0.0, "train.samples": 3, "train.decode_validation": 5, "train.ema": 0.5}
    recipe = tiny({**changes, "train.jit": None if backend == "jax" else False})
    (tmp_path / "recipe.json").write_text(recipe.to_json())
    rows = {}
    for count in (1, 2):
        run = RunDirectory(tmp_path / f"{count}_devices")
        environment = {"KERAS_BACKEND": backend, "XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"}
        said = in_process(TRAIN, tmp_path / "recipe.json", run.path, count, **environment).stdout
        assert ("2 replicas" in said) == (count == 2), said
        assert json.loads(run.environment_file.read_text())["backend"] == backend
        rows[count] = [
            {name: float(value) for name, value in row.items() if name != "seconds"} for row in run.read_log()
        ]
    assert len(rows[1]) == len(rows[2]) == 2
    for one, two in zip(rows[1], rows[2], strict=True):
        assert two == pytest.approx(one, abs=1e-5)
