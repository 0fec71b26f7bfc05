"""The network alone, from tokens to logits: for Keras with this package installed, or for ONNX without either."""

from pathlib import Path

import keras
import numpy as np

from zoo.errors import InputError
from zoo.generation.trained import Trained
from zoo.quiet import quiet
from zoo.whole import replaced_file


def export_keras(trained: Trained, path: Path) -> None:
    """Writes the model as Keras does.

    ``keras.saving.load_model`` reads it where the module of its architecture (``zoo.architectures.transformer``) is
    imported and the plugins of the run are loaded.

    Raises:
        InputError: the file cannot be written.
    """
    with replaced_file(path) as partial, quiet():
        trained.model.save(partial)


def export_onnx(trained: Trained, path: Path) -> None:
    """Writes the model as an ONNX graph, for batches of any size and length.

    Its inputs are those of the model, int32 (B, S) tokens by name ("source" and "target", or "tokens"); its output is
    the logits (B, T, V).

    Raises:
        InputError: the backend is not TensorFlow, the weights are not float32, tf2onnx is missing, or the file cannot
            be written.
    """
    if keras.backend.backend() != "tensorflow":
        raise InputError("an ONNX graph is made on TensorFlow; every run can be: use --backend=tensorflow")
    if trained.recipe.train.precision != "float32":
        raise InputError(f"an ONNX graph is of float32, and this run is {trained.recipe.train.precision}")
    try:
        import tf2onnx  # noqa: F401
    except ImportError as error:
        raise InputError("ONNX needs tf2onnx: pip install 'attention-zoo[onnx]', in a clone '.[onnx]'") from error
    names = {"encoder_decoder": ("source", "target")}.get(trained.model.layout, ("tokens",))
    trained.model({name: np.ones((1, 2), "int32") for name in names})  # Keras exports what has been called
    signature = [{name: keras.InputSpec(shape=(None, None), dtype="int32", name=name) for name in names}]
    with replaced_file(path) as partial, quiet():
        trained.model.export(partial, format="onnx", verbose=False, input_signature=signature)
