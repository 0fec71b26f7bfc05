import hashlib

import keras
import numpy as np
import pytest
from keras import ops

from zoo.errors import InputError
from zoo.layers.dropout import Dropout

pytestmark = pytest.mark.backends


def mask(layer, shape) -> np.ndarray:
    """Which elements of a shape the next call keeps."""
    return ops.convert_to_numpy(layer(np.ones(shape, "float32"), training=True)) != 0


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_rate_and_scale(rate):
    x = np.full((50, 40, 100), 3.0, "float32")
    out = ops.convert_to_numpy(Dropout(rate, seed=1)(x, training=True))
    kept = out != 0
    np.testing.assert_allclose(out[kept], 3.0 / (1 - rate), rtol=1e-6)
    error = np.sqrt(rate * (1 - rate) / x.size)
    assert abs(kept.mean() - (1 - rate)) < 4 * error
    assert abs(out.mean() / 3.0 - 1) < 4 * error / (1 - rate)  # the mean stays


def test_the_values_that_are_kept_are_those_given(rng):
    x = rng.normal(size=(7, 11)).astype("float32")
    layer = Dropout(0.25, seed=1)
    out = ops.convert_to_numpy(layer(x, training=True))
    kept = out != 0
    assert 0 < kept.sum() < x.size
    np.testing.assert_allclose(out, np.where(kept, x / 0.75, 0), rtol=1e-6)


@pytest.mark.parametrize("training", [None, False])
def test_nothing_is_dropped_at_inference(rng, training):
    x = rng.normal(size=(7, 11)).astype("float32")
    np.testing.assert_array_equal(ops.convert_to_numpy(Dropout(0.5)(x, training=training)), x)


def test_rate_zero_drops_nothing(rng):
    layer = Dropout(0.0)
    x = rng.normal(size=(7, 11)).astype("float32")
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(x, training=True)), x)
    assert not layer.variables


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5])
def test_a_rate_that_is_none_is_an_error(rate):
    with pytest.raises(InputError, match=f"not {rate}"):
        Dropout(rate)


def agreement(one, other) -> float:
    """How far the share of equal elements of two masks of rate 1/2 is from chance, in standard errors."""
    return abs((one == other).mean() - 0.5) / (0.5 / np.sqrt(one.size))


def test_calls_and_layers_differ_as_by_chance():
    layers = [Dropout(0.5), Dropout(0.5), Dropout(0.5, seed=1), Dropout(0.5, seed=2)]
    masks = [mask(layer, (100, 200)) for layer in layers for _ in range(3)]
    for i, one in enumerate(masks):
        for other in masks[:i]:
            assert agreement(one, other) < 5


def test_elements_don_t_depend_on_their_neighbours():
    kept = mask(Dropout(0.5, seed=3), (64, 64, 64))
    for axis in range(3):
        for shift in (1, 2, 3, 4, 8, 16, 32):
            length = 64 - shift
            one, other = (np.take(kept, np.arange(start, start + length), axis) for start in (0, shift))
            assert agreement(one, other) < 5, f"axis {axis}, shift {shift}"
    rows = kept.reshape(-1, 64).sum(1)  # with dependence of a higher order, sums spread otherwise
    assert abs(rows.var() / 16 - 1) < 0.1


def test_seeding_repeats_the_stream():
    def run():
        keras.utils.set_random_seed(5)
        layers = [Dropout(0.5), Dropout(0.5)]
        return np.stack([mask(layer, (9, 9)) for layer in layers for _ in range(2)])

    first = run()
    np.testing.assert_array_equal(run(), first)
    assert not (first[0] == first[1]).all()
    np.testing.assert_array_equal(mask(Dropout(0.5, seed=7), (9, 9)), mask(Dropout(0.5, seed=7), (9, 9)))


def test_the_masks_are_the_same_on_every_backend():
    layer = Dropout(0.3, seed=1)
    bits = b"".join(np.packbits(mask(layer, shape)).tobytes() for shape in ((3, 5, 7), (4, 33), (2, 2, 2, 9)))
    assert hashlib.sha256(bits).hexdigest()[:16] == "2208e00f046c2691"


def test_the_mask_of_an_element_is_that_of_its_flat_index():
    one, other = (mask(Dropout(0.5, seed=1), shape) for shape in ((4, 6, 5), (120,)))
    np.testing.assert_array_equal(one.reshape(-1), other)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_dtype_policy(policy):
    layer = Dropout(0.3, seed=1, dtype=policy)
    out = layer(np.ones((5, 7), "float32"), training=True)
    assert keras.backend.standardize_dtype(out.dtype) == layer.compute_dtype
    kept = ops.convert_to_numpy(ops.cast(out, "float32")) != 0
    np.testing.assert_array_equal(kept, mask(Dropout(0.3, seed=1), (5, 7)))


def test_the_gradient_goes_through_what_is_kept(gradient):
    kept = mask(Dropout(0.5, seed=1), (5, 7))
    found = gradient(lambda x: ops.sum(Dropout(0.5, seed=1)(x, training=True)), np.ones((5, 7), "float32"))
    np.testing.assert_allclose(found, kept * 2.0)


@pytest.mark.filterwarnings("ignore:The model does not have any trainable weights")
def test_a_compiled_step_moves_the_stream_on():
    x = keras.Input((50,))
    model = keras.Model(x, Dropout(0.5, seed=1)(x))
    model.compile(loss=lambda y_true, y_pred: ops.mean(ops.square(y_pred - y_true), -1), optimizer="sgd")
    data, twin = np.ones((4, 50), "float32"), Dropout(0.5, seed=1)
    for _ in range(3):
        loss = model.train_on_batch(data, np.zeros_like(data))
        np.testing.assert_allclose(loss, 4 * mask(twin, (4, 50)).mean(), rtol=1e-5)
