import keras
import numpy as np
import pytest
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.position.base import Position
from zoo.layers.position.learned import LearnedPosition
from zoo.layers.position.none import NoPosition
from zoo.layers.position.sinusoidal import SinusoidalPosition

pytestmark = pytest.mark.backends


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def sinusoids(positions, width, base):
    """PE(p, 2i) = sin(p / base^(2i / width)), PE(p, 2i + 1) = cos of the same, in float64."""
    table = np.zeros((len(positions), width))
    for row, p in enumerate(positions):
        for i in range(width // 2):
            angle = float(p) / base ** (2 * i / width)
            table[row, 2 * i], table[row, 2 * i + 1] = np.sin(angle), np.cos(angle)
    return table


@pytest.mark.parametrize("base", [10000.0, 100.0])
@pytest.mark.parametrize("offset", [0, 1, 500, 4000, 100_000])
@pytest.mark.parametrize("width", [2, 6, 64, 512])
def test_sinusoids_are_the_published_ones(width, offset, base):
    positions = offset + np.arange(12)
    layer = SinusoidalPosition(width=width, num_heads=1, head_dim=width, base=base)
    found = array(layer(ops.convert_to_tensor(positions, "int32")))
    assert found.shape == (12, width)
    # An angle in float32 is known to this, which far positions show; the first ones are good to 1e-6.
    tolerance = 1e-6 + 3e-7 * positions[:, None]
    assert (np.abs(found - sinusoids(positions, width, base)) < tolerance).all()


def test_sinusoids_have_no_limit():
    assert SinusoidalPosition(width=8, num_heads=1, head_dim=8, max_length=4).limit is None
    assert SinusoidalPosition(width=8, num_heads=1, head_dim=8, max_length=4)(ops.arange(9)).shape == (9, 8)


def test_sinusoids_need_an_even_width():
    with pytest.raises(InputError, match="even width, not 7"):
        SinusoidalPosition(width=7, num_heads=1, head_dim=7)


@pytest.mark.parametrize("offset", [0, 3, 5])
def test_learned_positions_are_rows_of_the_table(rng, offset):
    layer = LearnedPosition(width=6, num_heads=2, head_dim=3, max_length=8)
    layer.build((None,))
    table = rng.normal(size=(8, 6)).astype("float32")
    layer.table.assign(table)
    assert layer.limit == 8
    found = array(layer(ops.arange(3, dtype="int32") + offset))
    np.testing.assert_array_equal(found, table[offset : offset + 3])


def test_learned_positions_end():
    layer = LearnedPosition(width=6, num_heads=2, head_dim=3, max_length=8)
    assert layer(ops.arange(8)).shape == (8, 6)
    with pytest.raises(InputError, match="9 positions are asked for and 8 were learned"):
        layer(ops.arange(9))


def test_a_cache_for_more_positions_than_were_learned_is_refused():
    layer = LearnedPosition(width=6, num_heads=2, head_dim=3, max_length=8)
    assert layer(ops.arange(1) + 7, ops.arange(8)).shape == (1, 6)
    with pytest.raises(InputError, match="9 positions are asked for and 8 were learned"):
        layer(ops.arange(1), ops.arange(9))


def test_learned_positions_need_their_number():
    with pytest.raises(InputError, match="max_length"):
        LearnedPosition(width=6, num_heads=2, head_dim=3)


def test_learned_positions_are_trained():
    layer = LearnedPosition(width=6, num_heads=2, head_dim=3, max_length=8)
    layer(ops.arange(3))
    assert [tuple(weight.shape) for weight in layer.trainable_weights] == [(8, 6)]


def test_no_position_gives_nothing():
    assert NoPosition(width=6, num_heads=2, head_dim=3)(ops.arange(3)) is None
    assert NoPosition(width=6, num_heads=2, head_dim=3).limit is None


@pytest.mark.parametrize("name", registry.position.names())
def test_a_scheme_has_a_stage(name):
    assert registry.position.get(name).stage in ("none", "embedding", "rotation", "bias")


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("cls", [SinusoidalPosition, LearnedPosition])
def test_dtype_policy(cls, policy):
    layer = cls(width=8, num_heads=2, head_dim=4, max_length=300, dtype=policy)
    found = layer(ops.arange(300))  # bfloat16 has no number for most positions above 256
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    assert all(weight.dtype == "float32" for weight in layer.weights)
    exact = array(layer.table) if cls is LearnedPosition else sinusoids(range(300), 8, 10000.0)
    tolerance = {"float32": 1e-4, "bfloat16": 5e-3, "float16": 1e-3}[layer.compute_dtype]
    np.testing.assert_allclose(array(found), exact, atol=tolerance)


def test_a_scheme_that_writes_nothing_says_so():
    class Empty(Position):
        pass

    with pytest.raises(NotImplementedError, match="Empty must define call"):
        Empty(width=8, num_heads=2, head_dim=4)(ops.arange(3))
