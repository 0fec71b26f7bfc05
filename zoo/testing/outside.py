"""Whether a layer survives leaving its process: saved and loaded in a fresh one, and exported."""

import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

from zoo.testing.backend import array
from zoo.testing.report import Unsupported

_LOAD = """
import sys
import keras, numpy
from zoo import plugin
folder, *specs = sys.argv[1:]
for spec in specs:
    plugin.load(spec)
model = keras.saving.load_model(f"{folder}/model.keras")
numpy.save(f"{folder}/out.npy", keras.ops.convert_to_numpy(model(numpy.load(f"{folder}/in.npy"))))
"""


def check_fresh_process(layer: keras.layers.Layer, x: np.ndarray) -> None:
    """Saves a model with ``layer`` in it, loads it in a process that knows nothing of this one, and compares."""
    model = _model(layer, x)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        np.save(f"{folder}/in.npy", x)
        command = [sys.executable, "-c", _LOAD, folder, *_plugin_of(type(layer))]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, "a fresh process cannot load it: " + done.stderr.strip().rpartition("\n")[2]
        difference = np.abs(np.load(f"{folder}/out.npy") - array(model(x))).max()
    assert difference <= 1e-6, f"loaded in a fresh process, it differs by {difference:.2g}"


def check_export(layer: keras.layers.Layer, x: np.ndarray) -> None:
    """Exports a model with ``layer`` in it for any length, and compares what TensorFlow alone makes of it."""
    if keras.backend.backend() == "torch":
        raise Unsupported("Keras on PyTorch exports no SavedModel")
    import tensorflow as tf

    model = _model(layer, x)
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        loaded = tf.saved_model.load(folder)
        for length in (x.shape[1], x.shape[1] - 2):
            difference = np.abs(np.asarray(loaded.serve(x[:, :length])) - array(model(x[:, :length]))).max()
            assert difference <= 1e-5, f"exported, it differs by {difference:.2g} at length {length}"


def _model(layer: keras.layers.Layer, x: np.ndarray) -> keras.Model:
    inputs = keras.Input((None, x.shape[-1]))
    return keras.Model(inputs, layer(inputs))


def _plugin_of(cls: type) -> list[str]:
    """What a fresh process must load to know the class."""
    if "<locals>" in cls.__qualname__ or cls.__module__ == "__main__":
        raise Unsupported("the class is defined in a function or a script; a fresh process needs a module")
    top = cls.__module__.partition(".")[0]
    folders = [Path(folder or ".") for folder in sys.path]
    if any((folder / top).is_dir() or (folder / f"{top}.py").is_file() for folder in folders):
        return [cls.__module__]
    return [str(Path(sys.modules[cls.__module__].__file__).resolve())]  # loaded by the path of its file
