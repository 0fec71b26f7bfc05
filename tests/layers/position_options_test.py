"""Positions drawn in training, spaced, moved, concatenated, and those of a grid."""

import keras
import numpy as np
import pytest
from keras import ops, random

from zoo import registry
from zoo.errors import InputError
from zoo.layers.grid import Grid
from zoo.layers.transformer import Stack

pytestmark = pytest.mark.backends

SIZES = {"width": 24, "num_heads": 3, "head_dim": 8}
PLACED = sorted(set(registry.position.names()) - {"none"})


def array(x):
    return ops.convert_to_numpy(x)


def make(name, **options):
    layer = registry.position.get(name)(**{**SIZES, "max_length": 16, **options})
    layer.build((None,))
    return layer


@pytest.mark.parametrize("name", PLACED)
def test_randomized_positions_are_an_ordered_sample(name):
    layer = make(name, randomized=40)
    places = ops.arange(16, dtype="int32")
    drawn = np.array([array(layer.place(places, training=True)) for _ in range(300)])
    assert (np.diff(drawn) > 0).all()
    assert drawn.min() == 0
    assert drawn.max() == 39
    # Of 16 in order out of 40, the i-th has the mean 41 (i + 1) / 17 - 1.
    expected = 41 * (np.arange(16) + 1) / 17 - 1
    assert np.abs((drawn.mean(0) - expected) / (drawn.std(0) / np.sqrt(300))).max() < 4.5
    np.testing.assert_array_equal(array(layer.place(places)), np.arange(16))
    np.testing.assert_array_equal(array(make(name).place(places, training=True)), np.arange(16))


@pytest.mark.parametrize("name", PLACED)
def test_a_stack_trained_on_drawn_positions_decodes_beyond_its_length(name):
    # 4 heads of 6: axial positions need a width that 4 divides
    block = {"width": 24, "num_heads": 4, "feed_forward": 16, "causal": True}
    stack = Stack(1, block, position=name, position_options={"randomized": 32, "spacing": 2}, max_length=4)
    x = random.normal((2, 9, 24), seed=1)
    stack.build()
    for weight in stack.position.trainable_weights:
        weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    full = array(stack(x))
    cache = stack.init_cache(2, 12)
    for i in range(9):
        out, cache = stack(x[:, i : i + 1], cache=cache, cache_index=i)
        np.testing.assert_allclose(array(out)[:, 0], full[:, i], atol=1e-5)
    one, other = (array(stack(x[:, :4], training=True)) for _ in range(2))
    if name != "alibi":  # every draw may give another output
        assert np.abs(one - other).max() > 1e-4


def test_learned_positions_are_learned_for_every_one_that_can_be_drawn():
    layer = make("learned", randomized=40, spacing=2)
    assert layer.table.shape[0] == 40
    assert layer.limit == 20
    with pytest.raises(InputError, match="21 positions are asked for and 20 were learned"):
        layer(layer.place(ops.arange(21)))


def test_a_random_offset_moves_all_positions_in_training():
    layer = make("sinusoidal", random_offset=10)
    places = ops.arange(5, dtype="int32")
    moved = np.array([array(layer.place(places, training=True)) for _ in range(100)])
    assert (np.diff(moved) == 1).all()
    assert set(moved[:, 0]) == set(range(10))
    np.testing.assert_array_equal(array(layer.place(places)), np.arange(5))


def test_concatenated_sinusoids_are_projected_beside_the_tokens(rng):
    layer, added = make("sinusoidal", concatenate=True), make("sinusoidal")
    x = rng.normal(size=(2, 5, 24)).astype("float32")
    encoded = layer(ops.arange(5))
    kernel, bias = (array(weight).astype("float64") for weight in layer.trainable_weights)
    assert kernel.shape == (48, 24)
    expected = x @ kernel[:24] + array(added(ops.arange(5))) @ kernel[24:] + bias
    np.testing.assert_allclose(array(layer.combine(x, encoded)), expected, atol=1e-5)


GRID = {"columns": 6, "block_height": 2, "block_width": 3}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("blocks", [{"columns": 6}, GRID])
def test_axial_positions_are_of_row_and_column(blocks, learned):
    layer = make("axial_2d", learned=learned, **blocks)
    if learned:
        assert layer.rows == (3 if blocks == {"columns": 6} else 4)
        for weight in layer.weights:
            weight.assign(np.random.default_rng(0).normal(size=weight.shape))
    height, width = blocks.get("block_height", 1), blocks.get("block_width", 6)
    cells = [
        (top + i, left + j)
        for top in range(0, 12, height)
        for left in range(0, 6, width)
        for i in range(height)
        for j in range(width)
    ]
    found = array(layer(ops.arange(16)))
    half = registry.position.get("sinusoidal")(width=12, num_heads=1, head_dim=12)
    for position, (row, column) in enumerate(cells[:16]):
        if learned:
            expected = np.concatenate([array(layer.row_table)[row], array(layer.column_table)[column]])
        else:
            expected = array(half(ops.convert_to_tensor([row, column], "int32"))).reshape(-1)
        np.testing.assert_allclose(found[position], expected, atol=1e-6)


def test_a_grid_places_every_cell_once():
    grid = Grid(**GRID)
    row, column = grid.cell(np.arange(48))
    assert len(set(zip(row, column, strict=True))) == 48
    assert row.max() == 7
    assert column.max() == 5
    np.testing.assert_array_equal(grid.position(row, column), np.arange(48))
    row, column = Grid(6).cell(np.arange(48))
    np.testing.assert_array_equal(6 * row + column, np.arange(48))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sinusoidal", {"random_offset": -1}, "random_offset must be at least 0"),
        ("rotary", {"randomized": 15}, "randomized must be at least the longest sequence, 16, not 15"),
        ("learned", {"spacing": 0}, "spacing must be at least 1"),
        ("learned", {"randomized": 20, "spacing": 2}, "there are 10 positions, and the longest sequence has 16"),
        ("axial_2d", {"columns": 4, "block_height": 2, "learned": True, "rows": 5}, "2 high don't fill 5 rows"),
        ("axial_2d", {"columns": 6, "block_width": 4}, "blocks 4 wide don't fill rows of 6"),
        ("axial_2d", {"width": 22}, "a width that 4 divides, not 22"),
        ("axial_2d", {"learned": True, "max_length": None}, "learned rows need their number"),
        ("axial_2d", {"base": 0}, "must be above 0, not 0"),
        ("axial_2d", {"rows": 8}, "rows are of learned positions"),
        ("axial_2d", {"learned": True, "base": 5.0}, "base is of sinusoids"),
        ("axial_2d", {"columns": 8, "learned": True, "rows": 8, "randomized": 128}, "fewer than the 128 randomized"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(InputError, match=message):
        make(name, **options)


def test_learned_rows_end():
    layer = make("axial_2d", columns=4, learned=True, max_length=8)
    with pytest.raises(InputError, match="9 positions are asked for and 8 were learned"):
        layer(ops.arange(9))
    with pytest.raises(InputError, match="9 positions are asked for and 8 were learned"):
        layer(ops.arange(1), ops.arange(9))  # a cache with room for more


@pytest.mark.parametrize("name", ["learned", "axial_2d"])
def test_a_compiled_step_of_any_length_does_not_run_past_a_table_in_silence(name):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only TensorFlow compiles a step for any length")
    import tensorflow as tf

    options = {"columns": 4, "learned": True, "max_length": 8} if name == "axial_2d" else {"max_length": 8}
    layer = make(name, **options)
    for jit in (False, True):
        step = tf.function(layer, input_signature=[tf.TensorSpec((None,), tf.int32)], jit_compile=jit)
        np.testing.assert_allclose(array(step(tf.range(8))), array(layer(ops.arange(8))), atol=1e-6)
        if jit:  # without XLA, TensorFlow refuses to look up what is not there
            assert np.isnan(array(step(tf.range(12)))[8:, : layer.width // 2]).all()
