"""Rotations and biases against brute force in float64, and in a stack that decodes from its cache."""

import numpy as np
import pytest
from keras import ops, random

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.heads import rotate
from zoo.layers.transformer import Stack

pytestmark = pytest.mark.backends

SIZES = {"width": 24, "num_heads": 3, "head_dim": 8}
LATE = np.array([5, 6, 7, 1000])


def make(name, **options):
    layer = registry.position.get(name)(**SIZES, **options)
    layer.build((None,))
    return layer


def array(x):
    return ops.convert_to_numpy(x)


def randomise(layer, seed=0):
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))


def test_rotary_turns_each_pair_by_its_angle():
    x = np.random.default_rng(0).normal(size=(2, len(LATE), 3, 8)).astype("float32")
    turned = array(rotate(ops.convert_to_tensor(x), make("rotary")(ops.convert_to_tensor(LATE, "int32"))))
    for t, position in enumerate(LATE):
        for i in range(4):
            angle = np.float64(position) / 10000.0 ** (2 * i / 8)
            pair = x[:, t, :, i] + 1j * x[:, t, :, i + 4]
            expected = pair * np.exp(1j * angle)
            np.testing.assert_allclose(turned[:, t, :, i], expected.real, atol=2e-4)
            np.testing.assert_allclose(turned[:, t, :, i + 4], expected.imag, atol=2e-4)


def test_rotary_products_depend_on_the_distance_alone():
    q, k = np.random.default_rng(1).normal(size=(2, 1, 1, 3, 8)).astype("float32")
    layer = make("rotary")

    def product(i, j):
        turned = [
            rotate(ops.convert_to_tensor(x), layer(ops.convert_to_tensor([p], "int32"))) for x, p in ((q, i), (k, j))
        ]
        return (array(turned[0]) * array(turned[1])).sum(-1)

    np.testing.assert_allclose(product(3, 10), product(50, 57), atol=1e-4)
    assert np.abs(product(3, 10) - product(3, 11)).max() > 1e-2


def test_alibi_subtracts_a_slope_for_each_position_between():
    bias = array(make("alibi")(ops.convert_to_tensor([4, 5], "int32"), ops.arange(7)))
    for head in range(3):
        for i, query in enumerate([4, 5]):
            expected = [-(2.0 ** (-8 * (head + 1) / 3)) * abs(query - key) for key in range(7)]
            np.testing.assert_allclose(bias[0, head, i], expected, rtol=1e-5)


def test_relative_bias_is_looked_up_by_clipped_distance():
    layer = make("relative_bias", max_distance=2)
    randomise(layer)
    table = array(layer.weights[0])
    bias = array(layer(ops.convert_to_tensor([3, 9], "int32"), ops.arange(12)))
    for i, query in enumerate([3, 9]):
        for key in range(12):
            np.testing.assert_array_equal(bias[0, :, i, key], table[min(max(key - query, -2), 2) + 2])


def t5_bucket(offset, buckets, max_distance, bidirectional):
    """One offset at a time, in Python's floats."""
    side, first = (buckets // 2, 0) if bidirectional else (buckets, 0)
    if bidirectional and offset > 0:
        first = side
    distance = abs(offset) if bidirectional else max(-offset, 0)
    exact = side // 2
    if distance < exact:
        return first + distance
    far = exact + int(np.log(distance / exact) / np.log(max_distance / exact) * (side - exact) + 1e-9)
    return first + min(far, side - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (6, 50)])
def test_t5_buckets(buckets, max_distance, bidirectional):
    layer = make("t5_bias", buckets=buckets, max_distance=max_distance, bidirectional=bidirectional)
    offsets = np.arange(-300, 301)
    expected = [t5_bucket(int(offset), buckets, max_distance, bidirectional) for offset in offsets]
    np.testing.assert_array_equal(array(layer.bucket(ops.convert_to_tensor(offsets, "int32"))), expected)
    randomise(layer)
    bias = array(layer(ops.convert_to_tensor([300], "int32"), ops.arange(601)))
    np.testing.assert_array_equal(bias[0, :, 0].T, array(layer.weights[0])[expected])


@pytest.mark.parametrize("name", ["rotary", "alibi", "relative_bias", "t5_bias"])
def test_cached_steps_equal_the_full_pass_beyond_the_trained_length(name):
    block = {"width": 24, "num_heads": 3, "feed_forward": 16, "causal": True}
    stack = Stack(2, block, position=name, max_length=4)
    x = random.normal((2, 9, 24), seed=1)
    stack.build()
    randomise(stack.position)
    full = array(stack(x))
    cache = stack.init_cache(2, 12)
    for i in range(9):
        out, cache = stack(x[:, i : i + 1], cache=cache, cache_index=i)
        np.testing.assert_allclose(array(out)[:, 0], full[:, i], atol=1e-5)
    assert np.abs(full - array(ops.flip(stack(ops.flip(x, 1)), 1))).max() > 1e-3  # the order matters


def test_errors():
    with pytest.raises(InputError, match="even width"):
        registry.position.get("rotary")(width=9, num_heads=3, head_dim=3)
    with pytest.raises(InputError, match="max_distance"):
        make("relative_bias", max_distance=0)
    with pytest.raises(InputError, match="buckets"):
        make("t5_bias", buckets=2)
