"""Checkpoints: every variable by name in one file that is whole or not there.

The file is numpy's own format, so a run trained on one backend is used on another. A full checkpoint also holds the
optimizer and the state of every random stream, so a run that goes on from it reaches the same weights as one that
was never stopped.
"""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from zoo.errors import InputError
from zoo.whole import whole_file

_META = "meta"
FORMAT = 1


def named_variables(model: keras.Model, optimizer: keras.optimizers.Optimizer | None = None) -> dict[str, Any]:
    """Name -> variable: weights by path, random streams and the optimizer's variables by order.

    Keras numbers the random streams in a process from the first one made, so their paths mean nothing to the next.
    """
    weights = {id(variable) for variable in model.weights}
    named: dict[str, Any] = {}
    for variable in model.variables:
        if id(variable) in weights:
            named[variable.path] = variable
        elif optimizer is not None:
            named[f"random/{sum(name.startswith('random/') for name in named)}"] = variable
    if len([name for name in named if not name.startswith("random/")]) != len(weights):
        raise ValueError("two weights of the model have the same path; give each layer a name of its own")
    if optimizer is not None:
        named |= {f"optimizer/{i}": variable for i, variable in enumerate(optimizer.variables)}
    return named


def snapshot(variables: dict[str, Any]) -> dict[str, np.ndarray]:
    """Copies of the variables' values."""
    return {name: np.array(ops.convert_to_numpy(variable)) for name, variable in variables.items()}


def assign(variables: dict[str, Any], values: dict[str, np.ndarray]) -> None:
    """Gives each variable the value of its name.

    Raises:
        InputError: the names or a shape differ.
    """
    odd = sorted(set(variables) ^ set(values))
    if odd:
        raise InputError(f"the checkpoint is of another model: {odd[0]!r} is in only one of the two")
    for name, variable in variables.items():
        if values[name].dtype.kind not in "fiub":
            raise InputError(f"the checkpoint is damaged: {name!r} holds no numbers")
        if tuple(variable.shape) != values[name].shape:
            raise InputError(
                f"the checkpoint is of another model: {name!r} has the shape {values[name].shape}, "
                f"not {tuple(variable.shape)}"
            )
        variable.assign(values[name])


def average(paths: list[Path]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The mean of the weights of several checkpoints (Vaswani et al., 2017, section 6.1), and which they are.

    Raises:
        InputError: one is missing or broken, or they are of different models.
    """
    shapes = {name: value.shape for name, value in read(paths[0])[0].items()}
    total = {name: np.zeros(shape) for name, shape in shapes.items()}
    steps = []
    for path in paths:
        values, meta = read(path)
        for name in sorted(values.keys() | shapes.keys()):
            value = values.get(name)
            if value is None or value.shape != shapes.get(name) or value.dtype.kind not in "fiub":
                raise InputError(f"{str(path)!r} cannot be averaged with the others: {name!r} is of another form")
            total[name] += value
        steps.append(meta.get("step"))
    means = {name: (value / len(paths)).astype("float32") for name, value in total.items()}
    return means, {"step": steps[-1], "weights": f"average of the steps {', '.join(map(str, steps))}"}


def write(path: Path, values: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Writes values and what is known of them, whole or not at all, and to the disk before it returns."""
    with whole_file(path) as partial, open(partial, "wb") as file:
        np.savez(file, **values, **{_META: np.array(json.dumps({"format": FORMAT, **meta}))})
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What :func:`write` wrote.

    Raises:
        InputError: the file is missing, broken, or of a later format.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            values = dict(file)
        meta = json.loads(str(values.pop(_META)))
        if not isinstance(meta, dict):
            raise ValueError("it says nothing of itself")
    except FileNotFoundError as error:
        raise InputError(f"there is no checkpoint {str(path)!r}; train first") from error
    except (OSError, ValueError, TypeError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{str(path)!r} is not a checkpoint, or is damaged: {error}; take another run, or train anew in another "
            "--workdir"
        ) from error
    if meta.get("format") != FORMAT:
        raise InputError(f"{str(path)!r} has the format {meta.get('format')}; this version reads {FORMAT}")
    return values, meta
