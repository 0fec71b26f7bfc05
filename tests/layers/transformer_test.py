import itertools

import keras
import numpy as np
import pytest
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.multi_head import MultiHeadAttention
from zoo.layers.position.base import Position
from zoo.layers.position.sinusoidal import SinusoidalPosition
from zoo.layers.transformer import Block, Stack, crossing_kind, head_dim_of

pytestmark = pytest.mark.backends

SIZES = {"width": 8, "num_heads": 2, "feed_forward": 12}
NORMS = ["layer", "rms", "none"]


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def randomized(layer, seed=0):
    """``layer``, built and with weights that are not those of a start: no bias zero, no scale one."""
    if not layer.built:
        layer.build()
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_weights:
        weight.assign((weight.name in ("gamma", "scale")) + rng.normal(scale=0.3, size=weight.shape))
    return layer


def normalized(norm, x):
    """Layer or RMS normalisation of ``x`` in float64, with the weights of ``norm``."""
    weights = [array(weight).astype("float64") for weight in norm.weights]
    if norm.kind == "none":
        return x
    if norm.kind == "layer":
        x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + norm.epsilon) * weights[0]
    return x + weights[1] if norm.kind == "layer" else x


def block_reference(block, x, memory=None, mask=None, memory_mask=None):
    """A block in float64 but for its attention and feed-forward layers, which have tests of their own."""
    x = x.astype("float64")

    def call(layer, y, *args, **kwargs):
        return array(layer(y.astype("float32"), *args, **kwargs)).astype("float64")

    sublayers = [(block.self_norm, lambda y: call(block.self_attention, y, attention_mask=mask))]
    if block.cross:
        attend = lambda y: call(block.cross_attention, y, memory, attention_mask=memory_mask)  # noqa: E731
        sublayers.append((block.cross_norm, attend))
    sublayers.append((block.feed_forward_norm, lambda y: call(block.feed_forward, y)))
    for norm, sublayer in sublayers:
        out = sublayer(normalized(norm, x) if block.norm_first else x)
        out = x + out if block.residual else out
        x = out if block.norm_first else normalized(norm, out)
    return x


# Block


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("norm", NORMS)
def test_block_is_the_reference(rng, norm, norm_first, residual, cross):
    block = randomized(Block(**SIZES, norm=norm, norm_first=norm_first, residual=residual, cross=cross))
    x, memory = (rng.normal(size=(2, n, 8)).astype("float32") for n in (4, 5))
    mask = np.array([[[True] * 4], [[True, True, False, False]]])
    memory_mask = np.array([[[True] * 5], [[True] * 3 + [False] * 2]])
    found = block(x, memory if cross else None, attention_mask=mask, memory_mask=memory_mask if cross else None)
    expected = block_reference(block, x, memory, mask, memory_mask)
    np.testing.assert_allclose(array(found), expected, atol=2e-5)


def test_block_hands_its_options_on():
    block = Block(
        **SIZES,
        head_dim=5,
        causal=True,
        cross=True,
        attention_options={"use_bias": False},
        attention_dropout=0.1,
        feed_forward_dropout=0.2,
        dropout=0.3,
        activation="gelu",
        gated=True,
    )
    for attention, causal in ((block.self_attention, True), (block.cross_attention, False)):
        assert isinstance(attention, MultiHeadAttention)
        assert (attention.num_heads, attention.head_dim, attention.causal) == (2, 5, causal)
        assert (attention.use_bias, attention.dropout) == (False, 0.1)
    network = block.feed_forward
    assert (network.width, network.hidden, network.gated, network.dropout) == (8, 12, True, 0.2)
    assert network.hidden_dense.activation is keras.activations.gelu
    assert block.dropout_layer.rate == 0.3


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout", "feed_forward_dropout"])
def test_dropout_of_a_block_is_on_in_training_only(rng, rate):
    block = randomized(Block(**SIZES, cross=True, **{rate: 0.5}))
    plain = randomized(Block(**SIZES, cross=True))
    x, memory = (rng.normal(size=(2, n, 8)).astype("float32") for n in (4, 5))
    expected = array(plain(x, memory))
    np.testing.assert_array_equal(array(block(x, memory)), expected)
    one, other = (array(block(x, memory, training=True)) for _ in range(2))
    for a, b in ((one, expected), (other, expected), (one, other)):
        assert np.abs(a - b).max() > 1e-3


def test_cross_attention_is_of_the_kind_asked_for(registered):
    @lambda cls: registered(registry.attention, "test_no_cross", cls)
    class NoCross(MultiHeadAttention):
        supports = MultiHeadAttention.supports - {"cross"}

        def __init__(self, *args, extra=0, **kwargs):
            super().__init__(*args, **kwargs)

    @lambda cls: registered(registry.attention, "test_crossing", cls)
    class Crossing(NoCross):
        supports = MultiHeadAttention.supports

    def kinds(**settings):
        block = Block(**SIZES, cross=True, **settings)
        return type(block.self_attention), type(block.cross_attention)

    assert kinds() == (MultiHeadAttention, MultiHeadAttention)
    options = {"attention_options": {"extra": 1}}
    assert kinds(attention="test_no_cross", **options) == (NoCross, MultiHeadAttention)
    assert kinds(attention="test_crossing", **options) == (Crossing, Crossing)
    assert kinds(attention="test_crossing", cross_attention="multi_head", **options) == (Crossing, MultiHeadAttention)
    assert kinds(cross_attention="test_crossing") == (MultiHeadAttention, Crossing)
    assert crossing_kind("test_no_cross") == "multi_head"
    assert crossing_kind("test_crossing") == "test_crossing"


@pytest.mark.parametrize(("width", "heads"), [(8, 3), (8, 16), (8, 0)])
def test_heads_must_divide_the_width(width, heads):
    with pytest.raises(InputError, match=f"{heads} heads don't divide the width {width}"):
        Block(width, heads, 12)
    with pytest.raises(InputError, match=f"{heads} heads don't divide the width {width}"):
        head_dim_of(width, heads)


def test_a_given_head_dim_needs_no_division(rng):
    assert head_dim_of(8, 2) == 4
    assert head_dim_of(8, 3, 5) == 5
    block = Block(8, 3, 12, head_dim=5)
    assert block(rng.normal(size=(2, 4, 8)).astype("float32")).shape == (2, 4, 8)
    assert tuple(block.self_attention.query_dense.kernel.shape) == (8, 15)


def test_unknown_names_are_errors():
    with pytest.raises(InputError, match="multi_head"):
        Block(**SIZES, attention="multihead")
    with pytest.raises(InputError, match="rms"):
        Block(**SIZES, norm="rmsnorm")
    with pytest.raises(InputError, match="sinusoidal"):
        Stack(1, SIZES, position="sinusoids")
    with pytest.raises(InputError, match="depth must be at least 1"):
        Stack(0, SIZES)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_dtype_policy_reaches_every_layer(rng, policy):
    stack = randomized(Stack(2, {**SIZES, "cross": True}, position="learned", max_length=4, dtype=policy))
    for layer in stack._flatten_layers():
        assert layer.dtype_policy.name == policy, layer.path
    x = rng.normal(size=(2, 4, 8)).astype("float32")
    out = stack(x, x)
    assert keras.backend.standardize_dtype(out.dtype) == policy.removeprefix("mixed_")
    assert {weight.dtype for weight in stack.weights} == {"float32"}
    full = randomized(Stack(2, {**SIZES, "cross": True}, position="learned", max_length=4))
    np.testing.assert_allclose(
        array(out), array(full(x, x)), atol={"mixed_bfloat16": 0.2, "mixed_float16": 0.02}[policy]
    )


# Stack


class Distance(Position):
    """A bias that falls with the distance, differently for each head."""

    stage = "bias"

    def call(self, query_positions, key_positions=None):
        key_positions = query_positions if key_positions is None else key_positions
        difference = ops.expand_dims(key_positions, 0) - ops.expand_dims(query_positions, 1)  # (T, S)
        slopes = ops.reshape(ops.arange(1, self.num_heads + 1, dtype="float32"), (1, -1, 1, 1)) * 0.7
        return -slopes * ops.cast(ops.abs(difference), "float32")


class Turn(Position):
    """A rotation by the position."""

    stage = "rotation"

    def call(self, query_positions, key_positions=None):
        frequencies = ops.convert_to_tensor(np.tile([1.0, 0.2], 2).astype("float32"))
        angles = ops.expand_dims(ops.cast(query_positions, "float32"), 1) * frequencies
        return ops.cos(angles)[:, None], ops.sin(angles)[:, None]


@pytest.fixture
def schemes(registered):
    """One positional scheme for each stage."""
    registered(registry.position, "test_distance", Distance)
    registered(registry.position, "test_turn", Turn)


SCHEMES = ["none", "sinusoidal", "learned", "test_distance", "test_turn"]


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("norm", NORMS)
def test_stack_is_its_blocks_in_a_row(rng, norm, norm_first):
    stack = randomized(Stack(3, {**SIZES, "norm": norm, "norm_first": norm_first}))
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    expected = x + array(SinusoidalPosition(width=8, num_heads=2, head_dim=4)(ops.arange(5)))
    for block in stack.blocks:
        expected = block_reference(block, expected)
    if norm_first:
        expected = normalized(stack.norm, expected)
    else:
        assert stack.norm is None
    np.testing.assert_allclose(array(stack(x)), expected, atol=1e-4)
    assert len({array(block.feed_forward.hidden_dense.kernel).tobytes() for block in stack.blocks}) == 3


def test_a_stage_reaches_the_attention(rng, schemes):
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    positions = ops.arange(5)
    bias = Distance(width=8, num_heads=2, head_dim=4)(positions)
    turned = Turn(width=8, num_heads=2, head_dim=4)(positions)
    for name, settings in (("none", {}), ("test_distance", {"bias": bias}), ("test_turn", {"rotation": turned})):
        stack = randomized(Stack(1, {**SIZES, "norm": "none"}, position=name))
        np.testing.assert_allclose(array(stack(x)), array(stack.blocks[0](x, **settings)), atol=1e-5)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_cached_steps_are_the_full_pass(rng, schemes, scheme, cross):
    block = {**SIZES, "causal": True, "cross": cross}
    stack = randomized(Stack(2, block, position=scheme, max_length=6))
    x, memory = (rng.normal(size=(2, n, 8)).astype("float32") for n in (5, 4))
    given = {"memory_mask": np.array([[[True] * 4], [[True, False, False, False]]])} if cross else {}
    expected = array(stack(x, memory if cross else None, **given))
    for chunks in ((1,) * 5, (3, 2)):
        cache = stack.init_cache(2, 6, memory if cross else None)
        for start, chunk in zip(itertools.accumulate(chunks, initial=0), chunks, strict=False):
            out, cache = stack(x[:, start : start + chunk], cache=cache, cache_index=start, **given)
            np.testing.assert_allclose(array(out), expected[:, start : start + chunk], atol=2e-5)


def test_mixed_precision_keeps_a_float32_cache(registered):
    """As a recurrent state has to be, which would stop growing if each step rounded it."""

    class Counting(MultiHeadAttention):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, autocast=False, **kwargs)

        def init_cache(self, batch_size, max_length):
            return {"count": ops.zeros((batch_size,), "float32")}

        def call(self, query, value=None, *, cache=None, cache_index=None, training=None):
            return query, {"count": cache["count"] + 1 / 512}

    registered(registry.attention, "counting", Counting)
    stack = Stack(2, {**SIZES, "attention": "counting", "causal": True}, dtype="mixed_bfloat16")
    cache = stack.init_cache(1, 600)
    for block in cache["blocks"]:
        block["self"]["count"] = ops.ones((1,), "float32")
    for index in range(3):
        out, cache = stack(np.zeros((1, 1, 8), "float32"), cache=cache, cache_index=index)
    assert keras.backend.standardize_dtype(out.dtype) == "bfloat16"
    for block in cache["blocks"]:
        np.testing.assert_array_equal(array(block["self"]["count"]), 1 + 3 / 512)


def test_positions_in_every_block(rng):
    """Without residuals, what the first block does not hand on is there for the second all the same."""
    block = {**SIZES, "residual": False}
    stack = randomized(Stack(2, block, position="learned", max_length=5, position_in_every_block=True))
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    table = array(stack.position.weights[0])[:5]
    y = array(stack.blocks[0](x + table))
    expected = stack.norm(stack.blocks[1](y + table))
    np.testing.assert_allclose(array(stack(x)), array(expected), atol=1e-5)
    with pytest.raises(InputError, match="for a scheme that is embedded; rotary is not"):
        Stack(2, SIZES, position="rotary", position_in_every_block=True)


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "test_distance", "test_turn"])
def test_order_is_visible_with_positions(rng, schemes, scheme):
    stack = randomized(Stack(2, SIZES, position=scheme, max_length=9))
    x, order = rng.normal(size=(2, 6, 8)).astype("float32"), [3, 0, 5, 1, 4, 2]
    assert np.abs(array(stack(x[:, order])) - array(stack(x))[:, order]).max() > 1e-2


def test_order_is_invisible_without_positions(rng):
    stack = randomized(Stack(2, SIZES, position="none"))
    x, order = rng.normal(size=(2, 6, 8)).astype("float32"), [3, 0, 5, 1, 4, 2]
    np.testing.assert_allclose(array(stack(x[:, order])), array(stack(x))[:, order], atol=1e-5)


def test_dropout_of_the_embedded_tokens(rng):
    stack = randomized(Stack(1, SIZES, dropout=0.5))
    x = rng.normal(size=(2, 4, 8)).astype("float32")
    one, other = (array(stack(x, training=True)) for _ in range(2))
    assert np.abs(one - other).max() > 1e-2
    np.testing.assert_array_equal(array(stack(x)), array(stack(x, training=False)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm_first", [True, False])
def test_batch_normalisation_ignores_padding(rng, norm_first, causal):
    """What lies at padded positions changes neither the statistics nor the output at real ones."""
    block = {**SIZES, "norm": "batch", "norm_first": norm_first, "causal": causal}
    x = rng.normal(size=(3, 5, 8)).astype("float32")
    mask = np.arange(5) < np.array([5, 2, 3])[:, None]
    results = []
    for filling in (0.0, 50.0):
        stack = randomized(Stack(2, block))
        y = np.where(mask[..., None], x, filling).astype("float32")
        out = array(stack(y, padding_mask=mask, training=True))
        results.append([out[mask], *map(array, stack.non_trainable_weights)])
    assert len(results[0]) > 1
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
