import warnings

import keras
import numpy as np
import pytest
from keras import ops

from zoo.errors import InputError
from zoo.layers.normalization import Normalization

pytestmark = pytest.mark.backends


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def make(kind, rng, **settings):
    layer = Normalization(kind, **settings)
    layer.build((None, None, 6))
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return layer


def test_layer_normalization(rng):
    layer = make("layer", rng, epsilon=1e-3)
    x = rng.normal(size=(2, 5, 6)) * 3 + 1
    gamma, beta = (array(weight) for weight in layer.weights)
    centred = x - x.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * gamma + beta
    np.testing.assert_allclose(array(layer(x.astype("float32"))), expected, atol=1e-5)


def test_rms_normalization(rng):
    layer = make("rms", rng, epsilon=1e-3)
    x = rng.normal(size=(2, 5, 6)) * 3 + 1
    (scale,) = (array(weight) for weight in layer.weights)
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * scale
    np.testing.assert_allclose(array(layer(x.astype("float32"))), expected, atol=1e-5)


def test_none_leaves_everything(rng):
    layer = make("none", rng)
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    np.testing.assert_array_equal(array(layer(x)), x)
    assert not layer.weights


@pytest.mark.parametrize("masked", [True, False])
def test_batch_statistics_leave_padding_out(rng, masked):
    layer = make("batch", rng, epsilon=1e-3)
    x = rng.normal(size=(3, 5, 6)) * 3 + 1
    mask = np.arange(5) < np.array([5, 2, 0])[:, None] if masked else np.ones((3, 5), bool)
    x[~mask] = 1e3
    gamma, beta = (array(weight) for weight in layer.trainable_weights)
    real = x[mask]
    mean, variance = real.mean(0), real.var(0)
    out = array(layer(x.astype("float32"), padding_mask=mask if masked else None, training=True))
    np.testing.assert_allclose(out[mask], (real - mean) / np.sqrt(variance + 1e-3) * gamma + beta, atol=1e-5)
    moving = dict(zip(("mean", "variance"), map(array, layer.non_trainable_weights), strict=True))
    np.testing.assert_allclose(moving["mean"], 0.1 * mean, atol=1e-5)
    np.testing.assert_allclose(moving["variance"], 0.9 + 0.1 * variance, atol=1e-4)

    inference = array(layer(x.astype("float32"), padding_mask=mask, training=False))
    expected = (real - moving["mean"]) / np.sqrt(moving["variance"] + 1e-3) * gamma + beta
    np.testing.assert_allclose(inference[mask], expected, atol=1e-4)
    for weight, before in zip(layer.non_trainable_weights, moving.values(), strict=True):
        np.testing.assert_array_equal(array(weight), before)


def test_a_padding_mask_stays_where_it_is_given(rng):
    layer = make("batch", rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = layer(rng.normal(size=(2, 3, 6)).astype("float32"), padding_mask=np.ones((2, 3), bool), training=True)
    assert getattr(out, "_keras_mask", None) is None


def test_a_batch_of_padding_leaves_numbers(rng):
    layer = make("batch", rng)
    out = layer(rng.normal(size=(2, 3, 6)).astype("float32"), padding_mask=np.zeros((2, 3), bool), training=True)
    assert np.isfinite(array(out)).all()
    assert all(np.isfinite(array(weight)).all() for weight in layer.weights)


@pytest.mark.parametrize("kind", ["layer", "rms", "batch", "none"])
def test_dtype_policy(rng, kind):
    layer = make(kind, rng, dtype="mixed_bfloat16")
    x = rng.normal(size=(2, 5, 6)).astype("float32")
    assert keras.backend.standardize_dtype(layer(x).dtype) == "bfloat16"
    assert all(weight.dtype == "float32" for weight in layer.weights)


def test_an_unknown_kind_is_an_error():
    with pytest.raises(InputError, match=r"did you mean 'layer'.*layer, rms, batch, none"):
        Normalization("layers")
