"""What kinds can be asked for, what they refuse, and how large the things are that they build."""

import math
import re

import keras
import numpy as np
import pytest
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.base import Attention

pytestmark = pytest.mark.backends

WIDTH, HEADS, HEAD_DIM = 10, 2, 4


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("dot_product", {"heads": 2}, "one head, not 2"),
        ("grouped_query", {"num_key_value_heads": 3}, "don't divide 2"),
        ("grouped_query", {"num_key_value_heads": 0}, "don't divide 2"),
        ("relative", {"max_distance": 0}, "max_distance must be at least 1"),
        ("relative", {"form": "skewd"}, "did you mean 'skewed'"),
        ("luong", {"score": "cat"}, "there are: dot, general, concat"),
        ("local", {"block_length": 0}, "block_length must be at least 1"),
        ("dilated", {"dilation": 0}, "must be at least 1"),
        ("local_2d", {"columns": 30}, "8 wide don't fill rows of 30"),
        ("local_2d", {"memory_width": -1}, "can't be 8 by -1"),
        ("local_2d", {"block_height": 0}, "at least one cell"),
        ("memory_compressed", {"compression": 0}, "compression must be at least 1"),
        ("multi_head", {"query_chunks": 0}, "query_chunks must be at least 1"),
        ("local", {"query_chunks": 2}, "not for LocalAttention"),
    ],
)
def test_bad_options(make_kind, name, settings, message):
    with pytest.raises(InputError, match=message):
        make_kind(name, **settings)


@pytest.mark.parametrize(
    ("method", "returned", "message"),
    [
        ("logits", None, "Mine.logits returns nothing"),
        ("attend", None, r"Mine.attend must return \(context, scores\), not None"),
        ("attend", [1, 2], r"not \[1, 2\]"),
        ("attend", ("a", None), r"must return a context of the queries' shape .*, not 'a'"),
        ("attend", (np.zeros((2, 1, HEADS, HEAD_DIM)), None), r"not \(2, 1, "),  # would be broadcast
        ("attend", (np.zeros((1, 3, HEADS, HEAD_DIM)), None), r"not \(1, 3, "),
        ("attend", (np.zeros((2, 3, HEADS)), None), r"not \(2, 3, "),
    ],
)
@pytest.mark.parametrize("options", [{}, {"causal": True, "query_chunks": 2}])
def test_a_kind_that_returns_something_else(rng, method, returned, message, options):
    mine = type("Mine", (Attention,), {method: lambda self, *arguments, **settings: returned})
    with pytest.raises(InputError, match=message):
        mine(HEADS, HEAD_DIM, **options)(rng.normal(size=(2, 3, WIDTH)).astype("float32"))


def test_heads_may_be_averaged(make_kind, rng):
    layer = make_kind("multi_head", causal=True, average_heads=True)
    x = rng.normal(size=(2, 5, WIDTH)).astype("float32")
    side_by_side = make_kind("multi_head", causal=True)
    for wide, narrow in zip(side_by_side.weights[:6], layer.weights[:6], strict=True):
        wide.assign(narrow)
    kernel, bias = (array(weight) for weight in layer.output_dense.weights)
    assert kernel.shape == (HEAD_DIM, WIDTH)
    side_by_side.output_dense.kernel.assign(np.tile(kernel, (HEADS, 1)) / HEADS)
    side_by_side.output_dense.bias.assign(bias)
    np.testing.assert_allclose(array(layer(x)), array(side_by_side(x)), atol=1e-5)


@pytest.mark.parametrize("name", registry.attention.names())
def test_a_kind_that_cannot_cross_refuses_a_value(make_kind, rng, name):
    layer = make_kind(name, heads=1 if name == "dot_product" else HEADS)
    x, value = (rng.normal(size=(1, n, WIDTH)).astype("float32") for n in (3, 5))
    if "cross" in layer.supports:
        assert layer(x, value).shape == x.shape
    else:
        with pytest.raises(InputError, match="alone"):
            layer(x, value)


@pytest.mark.parametrize("name", ["local", "dilated", "local_2d", "relative", "multi_head"])
def test_no_square_of_vectors_and_none_of_pairs_is_built(make_kind, rng, name):
    """What is built on the way grows with the length as the kind says: counted in the compiled step."""
    backend = keras.backend.backend()
    if backend == "torch":
        pytest.skip("JAX and XLA tell the size of all that a step builds")

    def built(layer, x):
        if backend == "jax":
            import jax

            equations = jax.make_jaxpr(lambda y: layer(y))(x).jaxpr.eqns
            return [variable.aval.size for equation in equations for variable in equation.outvars]
        import tensorflow as tf

        any_length = tf.function(layer, input_signature=[tf.TensorSpec((None, None, WIDTH))], jit_compile=True)
        code = any_length.experimental_get_compiler_ir(x)(stage="optimized_hlo")
        return [math.prod(map(int, sizes.split(","))) for sizes in re.findall(r"= \w+\[([\d,]+)\]", code)]

    def largest(length):
        options = {"local": {"block_length": 8}, "dilated": {"dilation": 2, "window": 4}}
        options["multi_head"] = {"query_chunks": 4}
        options["local_2d"] = dict(columns=8, block_height=2, block_width=4, memory_height=2, memory_width=2)
        layer = make_kind(name, causal=True, **options.get(name, {}))
        return max(built(layer, np.zeros((1, length, WIDTH), "float32")))

    length = 256
    if name == "multi_head":
        assert largest(length) <= length * length  # of the mask; the weights of all pairs would be HEADS times that
    elif name == "relative":
        assert largest(length) <= 2 * HEADS * length * (length + 1)  # and not length * length * HEAD_DIM a head
    else:
        assert largest(2 * length) <= 2.2 * largest(length)
        assert largest(length) < HEADS * length * length
