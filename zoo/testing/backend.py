"""Arrays, gradients and compiled functions by the means of the backend that is in use."""

from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from zoo.testing.report import Unsupported

TOLERANCE = 1e-5


def array(x) -> np.ndarray:
    """A tensor as a float32 array."""
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def close(found, expected, what: str, tolerance: float = TOLERANCE) -> None:
    """Raises AssertionError, saying what differs by how much."""
    found, expected = array(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: the shape is {found.shape}, not {expected.shape}"
    assert np.isfinite(found).all(), f"{what}: not finite"
    difference = np.abs(found - expected).max(initial=0)
    assert difference <= tolerance, f"{what}: differs by {difference:.2g}"


def gradients(function: Callable, x: np.ndarray, layer: keras.layers.Layer) -> tuple[np.ndarray, list[np.ndarray]]:
    """Those of the scalar ``function(x)`` by ``x`` and by the trainable weights of ``layer``; None becomes zeros."""
    backend = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}[keras.backend.backend()]
    of_x, of_weights = backend(function, x, layer)
    shapes = [tuple(weight.shape) for weight in layer.trainable_weights]
    filled = [np.zeros(s, "float32") if g is None else array(g) for g, s in zip(of_weights, shapes, strict=True)]
    return (np.zeros_like(x) if of_x is None else array(of_x)), filled


def compiled(function: Callable) -> Callable:
    """``function`` compiled by XLA.

    Raises:
        Unsupported: on PyTorch, which runs eagerly here.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True)
    if backend == "jax":
        import jax

        return jax.jit(function)
    raise Unsupported("PyTorch runs eagerly here")


def _tensorflow(function, x, layer):
    import tensorflow as tf

    x = tf.convert_to_tensor(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    of_x, of_weights = tape.gradient(y, (x, [weight.value for weight in layer.trainable_weights]))
    return of_x, of_weights


def _jax(function, x, layer):
    import jax

    weights = layer.trainable_weights

    def stateless(x, values):
        with keras.StatelessScope(state_mapping=list(zip(weights, values, strict=True))):
            return function(x)

    return jax.grad(stateless, argnums=(0, 1))(jax.numpy.asarray(x), [weight.value for weight in weights])


def _torch(function, x, layer):
    import torch

    x = torch.tensor(x, requires_grad=True)
    parameters = [weight.value for weight in layer.trainable_weights]
    found = torch.autograd.grad(function(x), [x, *parameters], allow_unused=True)
    return found[0], list(found[1:])
