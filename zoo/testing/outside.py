"""Whether layers survive leaving their process: saved and loaded in a fresh one, and exported."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np

from zoo.testing.backend import array, close
from zoo.testing.report import Unsupported

_LOAD = """
import sys
import keras, numpy
from zoo import plugin
folder, *specs = sys.argv[1:]
for spec in specs:
    plugin.load(spec)
model = keras.saving.load_model(f"{folder}/model.keras")
outputs = keras.tree.flatten(model(numpy.load(f"{folder}/in.npy")))
numpy.save(f"{folder}/out.npy", [keras.ops.convert_to_numpy(output) for output in outputs])
"""


def check_fresh_process(layers: Sequence[keras.layers.Layer], x: np.ndarray) -> None:
    """Saves a model with the layers in it, loads it in a process that knows nothing of this one, and compares."""
    specs = {spec: None for layer in layers for spec in _plugin_of(type(layer))}
    model = _model(layers, x)
    # The process finds what this one finds, be it installed or not.
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    environment = os.environ | {"PYTHONPATH": path, "KERAS_BACKEND": keras.backend.backend()}
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        np.save(f"{folder}/in.npy", x)
        command = [sys.executable, "-c", _LOAD, folder, *specs]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, "a fresh process cannot load it: " + done.stderr.strip().rpartition("\n")[2]
        for layer, found, expected in zip(
            layers, np.load(f"{folder}/out.npy"), keras.tree.flatten(model(x)), strict=True
        ):
            close(found, array(expected), f"{layer.name}, loaded in a fresh process", 1e-6)


def check_export(layers: Sequence[keras.layers.Layer], x: np.ndarray) -> None:
    """Exports a model with the layers in it for any length, and compares what TensorFlow alone makes of it."""
    if keras.backend.backend() == "torch":
        raise Unsupported("Keras on PyTorch exports no SavedModel")
    import tensorflow as tf

    model = _model(layers, x)
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        loaded = tf.saved_model.load(folder)
        for length in (x.shape[1], x.shape[1] - 2):
            part = x[:, :length]
            for layer, found, expected in zip(
                layers, keras.tree.flatten(loaded.serve(part)), keras.tree.flatten(model(part)), strict=True
            ):
                difference = np.abs(np.asarray(found) - array(expected)).max()
                assert difference <= 1e-5, f"{layer.name}, exported, differs by {difference:.2g} at length {length}"


def _model(layers: Sequence[keras.layers.Layer], x: np.ndarray) -> keras.Model:
    inputs = keras.Input((None, x.shape[-1]))
    return keras.Model(inputs, [layer(inputs) for layer in layers])


def _plugin_of(cls: type) -> list[str]:
    """What a fresh process must load to know the class."""
    if "<locals>" in cls.__qualname__ or cls.__module__ == "__main__":
        raise Unsupported("the class is defined in a function or a script; a fresh process needs a module")
    top = cls.__module__.partition(".")[0]
    folders = [Path(folder or ".") for folder in sys.path]
    if any((folder / top).is_dir() or (folder / f"{top}.py").is_file() for folder in folders):
        return [cls.__module__]
    return [str(Path(sys.modules[cls.__module__].__file__).resolve())]  # loaded by the path of its file
