"""What the model is trained on, and how it is spread over several devices."""

import contextlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from typing import Any

from zoo.errors import InputError, near

BACKENDS = ("tensorflow", "jax", "torch")

_CPU = f"CPU, {os.cpu_count()} cores"


def choose_backend(backend: str | None) -> str:
    """Settles the backend; only counts before Keras is imported.

    Args:
        backend: "tensorflow", "jax", "torch", or None for KERAS_BACKEND, else TensorFlow.

    Raises:
        InputError: there is no such backend, it is not installed, or Keras was imported with another one.
    """
    wanted = backend or os.environ.get("KERAS_BACKEND") or "tensorflow"
    if wanted not in BACKENDS:
        raise InputError(f"unknown backend {wanted!r}{near(wanted, BACKENDS)}; there are: {', '.join(BACKENDS)}")
    if importlib.util.find_spec(wanted) is None:
        raise InputError(
            f"the backend {wanted!r} is not installed: pip install 'attention-zoo[{wanted}]', in a clone '.[{wanted}]'"
        )
    # With as many threads as cores, an XLA step waits in one of them for work queued behind it, and for whole epochs
    # a single core is busy; with twice as many, all are. Measured with TensorFlow 2.21 on 2 cores: 600 ms a step
    # against 320.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(2 * (os.cpu_count() or 1)))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "keras" in sys.modules:
        current = sys.modules["keras"].backend.backend()
        if backend not in (None, current):
            raise InputError(
                f"Keras runs on {current} in this process; set KERAS_BACKEND={backend} before importing it"
            )
        return current
    os.environ["KERAS_BACKEND"] = wanted
    return wanted


@dataclass(frozen=True)
class Devices:
    """The devices of a run.

    Attributes:
        description: in words, to print.
        count: how many the batch is spread over.
        scope: a context in which the model is built.
        jit: whether the step can be compiled with XLA.
    """

    description: str
    count: int
    scope: Any
    jit: bool


def find_devices() -> Devices:
    """The accelerators there are, or the CPU; with more than one, each takes a share of every batch."""
    import keras

    return {"tensorflow": _tensorflow_devices, "jax": _jax_devices, "torch": _torch_devices}[keras.backend.backend()]()


def _tensorflow_devices() -> Devices:
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    names = _count([found.get("device_name", "GPU") for found in details]) or _CPU
    if len(devices) == 1:
        return Devices(f"{names} (tensorflow)", 1, contextlib.nullcontext(), jit=True)
    strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
    return Devices(f"{names} (tensorflow, {len(devices)} replicas)", len(devices), strategy.scope(), jit=False)


def _jax_devices() -> Devices:
    import jax
    import keras

    devices = jax.devices()
    names = _CPU if devices[0].platform == "cpu" else _count([device.device_kind for device in devices])
    if len(devices) == 1:
        return Devices(f"{names} (jax)", 1, contextlib.nullcontext(), jit=True)
    # For the whole process: Keras asks for it again at every step.
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=keras.distribution.list_devices()))
    return Devices(f"{names} (jax, {len(devices)} replicas)", len(devices), contextlib.nullcontext(), jit=True)


def _torch_devices() -> Devices:
    import torch

    found = torch.cuda.device_count()
    names = torch.cuda.get_device_name(0) if found else _CPU
    more = f"; one of the {found} there is used" if found > 1 else ""
    return Devices(f"{names} (torch{more})", 1, contextlib.nullcontext(), jit=False)


def _count(names: list[str]) -> str:
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
