import math

import keras
import numpy as np
import pytest
from keras import ops

from zoo.layers.feed_forward import FeedForward

pytestmark = pytest.mark.backends

ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


def make(rng, **settings):
    layer = FeedForward(5, 9, **settings)
    layer.build()
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return layer


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_equals_the_formula(rng, activation, gated):
    layer = make(rng, activation=activation, gated=gated)
    x = rng.normal(size=(2, 3, 5)).astype("float32")

    def project(dense, y):
        kernel, shift = (ops.convert_to_numpy(weight).astype("float64") for weight in dense.weights)
        return y @ kernel + shift

    hidden = ACTIVATIONS[activation](project(layer.hidden_dense, x.astype("float64")))
    if gated:
        hidden = hidden * project(layer.gate_dense, x.astype("float64"))
    expected = project(layer.output_dense, hidden)
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x)), expected, rtol=1e-4, atol=1e-4)
    assert len(layer.weights) == (6 if gated else 4)


def test_dropout_is_of_the_hidden_units(rng):
    layer = make(rng, dropout=0.5)
    layer.hidden_dense.kernel.assign(np.zeros((5, 9)))
    layer.hidden_dense.bias.assign(np.ones(9))  # every hidden unit is 1
    layer.output_dense.kernel.assign(np.ones((9, 5)))
    layer.output_dense.bias.assign(np.zeros(5))
    x = np.zeros((4, 50, 5), "float32")
    out = ops.convert_to_numpy(layer(x, training=True))
    assert len(np.unique(out)) > 3
    assert set(np.unique(out)) <= set(range(0, 19, 2))  # so many units are left, twice as large each
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(x)), np.full_like(x, 9))


@pytest.mark.parametrize("gated", [False, True])
def test_dtype_policy(rng, gated):
    layer = make(rng, gated=gated, dtype="mixed_bfloat16")
    assert keras.backend.standardize_dtype(layer(np.ones((1, 2, 5), "float32")).dtype) == "bfloat16"
    assert {weight.dtype for weight in layer.weights} == {"float32"}
