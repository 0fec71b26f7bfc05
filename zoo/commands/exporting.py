"""``zoo export``."""

from pathlib import Path

from absl import flags

from zoo.commands import given
from zoo.errors import InputError

#: Form -> what its file or folder is called in the run directory.
FORMS = {"saved_model": "saved_model", "onnx": "model.onnx", "keras": "model.keras"}


def export(values: flags.FlagValues, arguments: list[str]) -> None:
    """Writes a trained run for use elsewhere."""
    form = values.format or "saved_model"
    if form == "keras" and values["output"].present and Path(values.output).suffix != ".keras":
        raise InputError(f"Keras wants a file with a name that ends in .keras, and --output is {values.output!r}")
    decoding = [name for name in given.DECODING if values[name].present]
    if form != "saved_model" and decoding:
        raise InputError(f"--{decoding[0]} is for a SavedModel, which decodes; {form} holds the network alone")
    if form != "keras" and not values["backend"].present:
        values.backend = "tensorflow"  # which makes them of a run of any backend
    path = Path(values.output) if values["output"].present else given.workdir_of(values) / FORMS[form]
    trained = given.trained(values)
    if form == "saved_model":
        from zoo.export.saved_model import export_saved_model as write
    else:
        from zoo.export import network

        write = {"onnx": network.export_onnx, "keras": network.export_keras}[form]
    write(trained, path)
    print(path)
