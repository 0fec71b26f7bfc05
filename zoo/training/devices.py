"""What the model is trained on, and how it is spread over several devices."""

import contextlib
import os
from dataclasses import dataclass
from typing import Any

from zoo.errors import InputError


def choose_backend(backend: str | None) -> str:
    """Settles the backend; only counts before Keras is imported.

    Args:
        backend: "tensorflow", "jax", "torch", or None for KERAS_BACKEND, else TensorFlow.

    Raises:
        InputError: Keras was imported with another one.
    """
    import sys

    if "keras" in sys.modules:
        current = sys.modules["keras"].backend.backend()
        if backend not in (None, current):
            raise InputError(
                f"Keras runs on {current} in this process; set KERAS_BACKEND={backend} before importing it"
            )
        return current
    if backend is not None:
        os.environ["KERAS_BACKEND"] = backend
    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    # With as many threads as cores, an XLA step waits in one of them for work queued behind it, and for whole epochs
    # a single core is busy; with twice as many, all are. Measured with TensorFlow 2.21 on 2 cores: 600 ms a step
    # against 320.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(2 * (os.cpu_count() or 1)))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return backend


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

    backend = keras.backend.backend()
    cpu = f"CPU, {os.cpu_count()} cores"
    if backend == "tensorflow":
        import tensorflow as tf

        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        names = (
            _count(
                [
                    tf.config.experimental.get_device_details(d).get("device_name", "GPU")
                    for d in tf.config.list_physical_devices("GPU")
                ]
            )
            or cpu
        )
        if len(devices) > 1:
            strategy = tf.distribute.MirroredStrategy([d.name for d in devices])
            return Devices(f"{names} (tensorflow, {len(devices)} replicas)", len(devices), strategy.scope(), jit=False)
        return Devices(f"{names} (tensorflow)", 1, contextlib.nullcontext(), jit=True)
    if backend == "jax":
        import jax

        devices = jax.devices()
        names = cpu if devices[0].platform == "cpu" else _count([d.device_kind for d in devices])
        if len(devices) > 1:
            distribution = keras.distribution.DataParallel(devices=keras.distribution.list_devices())
            return Devices(f"{names} (jax, {len(devices)} replicas)", len(devices), distribution.scope(), jit=True)
        return Devices(f"{names} (jax)", 1, contextlib.nullcontext(), jit=True)
    import torch

    names = torch.cuda.get_device_name(0) if torch.cuda.is_available() else cpu
    more = f"; {torch.cuda.device_count()} there, one is used" if torch.cuda.device_count() > 1 else ""
    return Devices(f"{names} (torch{more})", 1, contextlib.nullcontext(), jit=False)


def _count(names: list[str]) -> str:
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
