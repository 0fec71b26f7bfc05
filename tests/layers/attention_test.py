import itertools

import keras
import numpy as np
import pytest
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.base import CAPABILITIES, Attention
from zoo.layers.attention.heads import masked_softmax, rotate
from zoo.layers.attention.multi_head import MultiHeadAttention

pytestmark = pytest.mark.backends

HEADS, HEAD_DIM, WIDTH = 2, 4, 10  # a head is no equal share of the width here


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def make(width=WIDTH, value_width=None, seed=0, **settings):
    """A built layer whose biases are not zero."""
    layer = MultiHeadAttention(HEADS, HEAD_DIM, **settings)
    layer.build((None, None, width), None if value_width is None else (None, None, value_width))
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(scale=0.4, size=weight.shape))
    return layer


def reference(layer, query, value=None, mask=None, bias=None, angles=None):
    """Output and weights in float64, one query at a time and over the keys it may see only.

    ``angles`` (T, H / 2) turn the pairs (i, i + H / 2) of the features of queries and keys.
    """

    def project(dense, x):
        kernel, shift = (np.asarray(array(weight), "float64") for weight in dense.weights)
        return (x @ kernel + shift).reshape(*x.shape[:2], HEADS, HEAD_DIM)

    def turn(x):
        pairs = (x[..., : HEAD_DIM // 2] + 1j * x[..., HEAD_DIM // 2 :]) * np.exp(1j * angles[:, None])
        return np.concatenate([pairs.real, pairs.imag], -1)

    query = np.asarray(query, "float64")
    value = query if value is None else np.asarray(value, "float64")
    q, k, v = project(layer.query_dense, query), project(layer.key_dense, value), project(layer.value_dense, value)
    if angles is not None:
        q, k = turn(q), turn(k)
    (batch, num_queries), num_keys = query.shape[:2], value.shape[1]
    kernel, shift = (np.asarray(array(weight), "float64") for weight in layer.output_dense.weights)
    out = np.zeros((batch, num_queries, query.shape[-1]))
    weights = np.zeros((batch, HEADS, num_queries, num_keys))
    for b, t in itertools.product(range(batch), range(num_queries)):
        seen = [
            s
            for s in range(num_keys)
            if (mask is None or mask[b, t % mask.shape[1], s]) and (s <= t or not layer.causal)
        ]
        if not seen:
            continue
        context = np.zeros((HEADS, HEAD_DIM))
        for n in range(HEADS):
            logits = np.array([q[b, t, n] @ k[b, s, n] / np.sqrt(HEAD_DIM) for s in seen])
            if bias is not None:
                logits += bias[b % len(bias), n, t, seen]
            share = np.exp(logits) / np.exp(logits).sum()
            weights[b, n, t, seen] = share
            context[n] = share @ v[b, seen, n]
        out[b, t] = context.reshape(-1) @ kernel + shift
    return out, weights


def make_mask(rng, kind, batch, num_queries, num_keys):
    """A padding mask (B, 1, S) with a row that is nothing but padding, or a mask of its own for each query."""
    if kind is None:
        return None
    if kind == "padding":
        lengths = np.array([num_keys, num_keys - 2, 0])[:batch]
        return (np.arange(num_keys) < lengths[:, None])[:, None]
    mask = rng.random((batch, num_queries, num_keys)) < 0.6
    mask[0, 1] = False
    return mask


def make_bias(rng, rows, num_queries, num_keys):
    return None if rows is None else rng.normal(size=(rows, HEADS, num_queries, num_keys)).astype("float32")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("bias_rows", [None, 1, 3])
@pytest.mark.parametrize("mask_kind", [None, "padding", "each query"])
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_is_the_reference(rng, causal, mask_kind, bias_rows, turned):
    layer = make(causal=causal)
    x = rng.normal(size=(3, 5, WIDTH)).astype("float32")
    mask, bias = make_mask(rng, mask_kind, 3, 5, 5), make_bias(rng, bias_rows, 5, 5)
    angles = rng.uniform(-3, 3, (5, HEAD_DIM // 2)) if turned else None
    both = None if angles is None else np.concatenate([angles, angles], -1)[:, None].astype("float32")
    rotation = None if angles is None else (np.cos(both), np.sin(both))
    settings = {"attention_mask": mask, "bias": bias, "rotation": rotation}
    expected, expected_scores = reference(layer, x, mask=mask, bias=bias, angles=angles)
    out, scores = layer(x, **settings, return_attention_scores=True)
    np.testing.assert_allclose(array(out), expected, atol=1e-5)
    np.testing.assert_allclose(array(scores), expected_scores, atol=1e-5)
    np.testing.assert_allclose(array(layer(x, **settings)), expected, atol=1e-5)


@pytest.mark.parametrize("bias_rows", [None, 1, 3])
@pytest.mark.parametrize("mask_kind", [None, "padding", "each query"])
def test_cross_attention_is_the_reference(rng, mask_kind, bias_rows):
    layer = make(value_width=7)
    x = rng.normal(size=(3, 4, WIDTH)).astype("float32")
    value = rng.normal(size=(3, 6, 7)).astype("float32")
    mask, bias = make_mask(rng, mask_kind, 3, 4, 6), make_bias(rng, bias_rows, 4, 6)
    expected, expected_scores = reference(layer, x, value, mask, bias)
    out, scores = layer(x, value, attention_mask=mask, bias=bias, return_attention_scores=True)
    np.testing.assert_allclose(array(out), expected, atol=1e-5)
    np.testing.assert_allclose(array(scores), expected_scores, atol=1e-5)


def test_scores_sum_to_one_or_to_nothing(rng):
    layer = make(causal=True)
    x = rng.normal(size=(2, 6, WIDTH), scale=30).astype("float32")  # logits far apart
    mask = np.arange(6) >= np.array([0, 2])[:, None]  # padding in front, so that causal rows see nothing
    _, scores = layer(x, attention_mask=mask[:, None], return_attention_scores=True)
    sums = array(scores).sum(-1)
    np.testing.assert_allclose(sums[0], 1, atol=1e-6)
    np.testing.assert_allclose(sums[1, :, 2:], 1, atol=1e-6)
    assert not array(scores)[1, :, :2].any()
    assert not array(scores)[1, :, :, :2].any()


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_query_with_nothing_to_see_gives_zeros(rng, policy):
    layer = make(dtype=policy)
    x = rng.normal(size=(2, 4, WIDTH), scale=100).astype("float32")
    mask = np.array([[[False] * 4], [[True] * 4]])
    bias = rng.normal(size=(1, HEADS, 4, 4), scale=1000)
    out, scores = layer(x, attention_mask=mask, bias=bias, return_attention_scores=True)
    for result in (array(out), array(scores)):
        assert not result[0].any()
        assert np.isfinite(result).all()
        assert result[1].any(-1).all()


def test_the_gradient_through_a_masked_row_is_zero(rng, gradient):
    layer = make()
    x = rng.normal(size=(2, 4, WIDTH)).astype("float32")
    mask = np.array([[[False] * 4], [[True, True, False, False]]])
    found = gradient(lambda y: ops.sum(ops.square(layer(y, attention_mask=mask))), x)
    assert np.isfinite(found).all()
    assert not found[0].any()
    assert found[1].any(-1).all()


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "float64"])
def test_dtype_policy(rng, policy):
    if policy == "float64" and keras.backend.backend() == "jax":
        pytest.skip("JAX has float64 only when told before it starts")
    layer, full = make(dtype=policy, causal=True), make(causal=True)
    x = rng.normal(size=(2, 5, WIDTH)).astype("float32")
    out, scores = layer(x, return_attention_scores=True)
    compute, variable = layer.compute_dtype, layer.variable_dtype
    assert compute == policy.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(out.dtype) == keras.backend.standardize_dtype(scores.dtype) == compute
    assert {weight.dtype for weight in layer.weights} == {variable}
    assert {part.dtype for part in (layer.query_dense, layer.output_dense, layer.dropout_layer)} == {variable}
    cache = layer.init_cache(2, 5)
    assert {keras.backend.standardize_dtype(part.dtype) for part in cache.values()} == {compute}
    expected = array(full(x))
    np.testing.assert_allclose(array(out), expected, atol={"bfloat16": 0.05, "float16": 5e-3, "float64": 1e-5}[compute])
    steps = array(cached(layer, x, [2, 3]))
    np.testing.assert_allclose(steps, array(out), atol={"bfloat16": 0.05, "float16": 5e-3, "float64": 1e-6}[compute])


def test_projections_without_bias():
    layer = make(use_bias=False)
    assert [tuple(w.shape) for w in layer.weights] == [(WIDTH, HEADS * HEAD_DIM)] * 3 + [(HEADS * HEAD_DIM, WIDTH)]
    assert not array(layer(np.zeros((1, 3, WIDTH), "float32"))).any()


@pytest.mark.parametrize("heads", [(0, 4), (2, 0), (-1, 4)])
def test_heads_must_be_positive(heads):
    with pytest.raises(InputError, match="at least 1"):
        MultiHeadAttention(*heads)


# Dropout


def test_dropout_is_of_the_weights_in_training_only(rng):
    keras.utils.set_random_seed(1)
    layer, plain = make(dropout=0.5), make()
    x = rng.normal(size=(2, 6, WIDTH)).astype("float32")
    expected, weights = plain(x, return_attention_scores=True)
    for training in (None, False):
        np.testing.assert_array_equal(array(layer(x, training=training)), array(expected))
    dropped, scores = layer(x, training=True, return_attention_scores=True)
    assert not np.allclose(array(dropped), array(expected), atol=1e-3)
    np.testing.assert_allclose(array(scores), array(weights), atol=1e-6)  # what is looked at is not what was dropped
    many = array(layer(np.repeat(x, 2000, 0), training=True)).reshape(2, 2000, 6, WIDTH)
    error = (many.mean(1) - array(expected)) / (many.std(1) / np.sqrt(2000))
    assert np.abs(error).max() < 4.5


# The cache


def cached(layer, x, chunks, max_length=None, **settings):
    """The output for ``x`` from a cache, so many positions at once."""
    batch, length = x.shape[:2]
    cache = layer.init_cache(batch, max_length or length)
    outs, start = [], 0
    for chunk in chunks:
        turned = {
            name: tuple(part[start : start + chunk] for part in value) if name == "rotation" else value
            for name, value in settings.items()
        }
        if "bias" in turned:
            turned["bias"] = turned["bias"][:, :, start : start + chunk]
        index = start if len(outs) % 2 else ops.convert_to_tensor(start, "int32")  # both must do
        out, cache = layer(x[:, start : start + chunk], cache=cache, cache_index=index, **turned)
        outs.append(out)
        start += chunk
    return ops.concatenate(outs, axis=1)


@pytest.mark.parametrize("extras", ["none", "rotation", "bias", "mask"])
@pytest.mark.parametrize("chunks", [(1,) * 7, (7,), (3, 1, 2, 1), (1, 6), (6, 1)])
def test_cached_steps_are_the_full_pass(rng, chunks, extras):
    layer = make(causal=True)
    x = rng.normal(size=(2, 7, WIDTH)).astype("float32")
    angles = rng.uniform(-3, 3, (7, 1, HEAD_DIM // 2)).astype("float32")
    both = np.concatenate([angles, angles], -1)
    bias = make_bias(rng, 1, 7, 9)
    mask = (np.arange(9) >= np.array([0, 2])[:, None])[:, None]  # padding in front
    full, steps = {
        "none": ({}, {}),
        "rotation": ({"rotation": (np.cos(both), np.sin(both))},) * 2,
        "bias": ({"bias": bias[..., :7]}, {"bias": bias}),
        "mask": ({"attention_mask": mask[..., :7]}, {"attention_mask": mask}),
    }[extras]
    expected = array(layer(x, **full))
    np.testing.assert_allclose(array(cached(layer, x, chunks, max_length=9, **steps)), expected, atol=1e-5)


def test_a_call_leaves_its_cache_as_it_was(rng):
    layer = make(causal=True)
    x = rng.normal(size=(2, 1, WIDTH)).astype("float32")
    before = layer.init_cache(2, 3)
    _, after = layer(x, cache=before, cache_index=1)
    for name in before:
        assert not array(before[name]).any()
        assert array(after[name])[:, :, 1].any(-1).all()
        assert not array(after[name])[:, :, [0, 2]].any()


def test_a_reordered_cache_is_that_of_the_reordered_batch(rng):
    layer = make(causal=True)
    x = rng.normal(size=(3, 4, WIDTH)).astype("float32")
    later = rng.normal(size=(3, 3, WIDTH)).astype("float32")
    order = [2, 0, 2]  # one beam is continued twice and one not at all
    cache = layer.init_cache(3, 7)
    _, cache = layer(x, cache=cache, cache_index=0)
    cache = keras.tree.map_structure(lambda part: ops.take(part, np.array(order), axis=0), cache)
    expected = array(layer(np.concatenate([x[order], later], 1)))[:, 4:]
    for i in range(3):
        out, cache = layer(later[:, i : i + 1], cache=cache, cache_index=4 + i)
        np.testing.assert_allclose(array(out)[:, 0], expected[:, i], atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
def test_a_value_cache_is_the_value(rng, masked):
    layer = make(value_width=7)
    x = rng.normal(size=(3, 4, WIDTH)).astype("float32")
    value = rng.normal(size=(3, 6, 7)).astype("float32")
    mask = make_mask(rng, "padding", 3, 4, 6) if masked else None
    expected = array(layer(x, value, attention_mask=mask))
    cache = layer.value_cache(value)
    for i in range(4):
        out, cache = layer(x[:, i : i + 1], attention_mask=mask, cache=cache)
        np.testing.assert_allclose(array(out)[:, 0], expected[:, i], atol=1e-5)


# In a functional model


def test_in_a_functional_model(rng):
    x, value = keras.Input((None, WIDTH)), keras.Input((None, 7))
    layer = MultiHeadAttention(HEADS, HEAD_DIM)
    mask = keras.Input((1, None), dtype="bool")
    out = layer(x, value, attention_mask=mask)
    assert out.shape == (None, None, WIDTH)
    model = keras.Model([x, value, mask], out)
    arrays = [
        rng.normal(size=(3, 4, WIDTH)).astype("float32"),
        rng.normal(size=(3, 6, 7)).astype("float32"),
        make_mask(rng, "padding", 3, 4, 6),
    ]
    expected, weights = reference(layer, *arrays)
    np.testing.assert_allclose(model.predict(arrays, verbose=0), expected, atol=1e-5)

    scored = MultiHeadAttention(HEADS, HEAD_DIM)
    out, scores = scored(x, value, attention_mask=mask, return_attention_scores=True)
    assert out.shape == (None, None, WIDTH)
    assert scores.shape[1] == HEADS
    scored.set_weights(layer.get_weights())
    both = keras.Model([x, value, mask], [out, scores])
    for found, wanted in zip(both.predict(arrays, verbose=0), (expected, weights), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


# What a kind writes


def test_a_kind_writes_only_attend(rng):
    class Mean(Attention):
        """The mean of the values that a query may see."""

        def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
            logits = ops.zeros((ops.shape(q)[0], self.num_heads, ops.shape(q)[1], ops.shape(k)[1]))
            scores = masked_softmax(logits, mask, bias)
            return ops.einsum("bnts,bsnh->btnh", scores, v), scores if with_scores else None

    layer = Mean(HEADS, HEAD_DIM, causal=True)
    x = rng.normal(size=(2, 5, WIDTH)).astype("float32")
    out = array(layer(x))
    values = array(layer.value_dense(x))
    means = np.cumsum(values, 1) / np.arange(1, 6)[:, None]
    np.testing.assert_allclose(out, array(layer.output_dense(means)), atol=1e-5)
    np.testing.assert_allclose(array(cached(layer, x, [2, 1, 2])), out, atol=1e-5)


def test_a_kind_may_share_keys_and_values_among_heads(rng):
    class OneKey(MultiHeadAttention):
        num_key_value_heads = 1

        def attend(self, q, k, v, **settings):
            return super().attend(q, ops.repeat(k, self.num_heads, 2), ops.repeat(v, self.num_heads, 2), **settings)

    layer = OneKey(HEADS, HEAD_DIM, causal=True)
    x = rng.normal(size=(2, 5, WIDTH)).astype("float32")
    out = array(layer(x))
    assert tuple(layer.key_dense.kernel.shape) == (WIDTH, HEAD_DIM)
    assert {tuple(part.shape) for part in layer.init_cache(2, 5).values()} == {(2, 1, 5, HEAD_DIM)}
    np.testing.assert_allclose(array(cached(layer, x, [2, 1, 2])), out, atol=1e-5)
    many = make(causal=True)
    for one, wanted in zip(layer.weights, many.weights, strict=True):
        repeats = wanted.shape[-1] // one.shape[-1]
        wanted.assign(np.tile(array(one), repeats))
    np.testing.assert_allclose(out, reference(many, x)[0], atol=1e-5)


def test_a_kind_that_writes_nothing_says_so():
    class Empty(Attention):
        pass

    with pytest.raises(NotImplementedError, match="Empty must define logits or attend"):
        Empty(HEADS, HEAD_DIM)(np.zeros((1, 2, WIDTH), "float32"))


@pytest.mark.parametrize("name", registry.attention.names())
def test_a_kind_supports_what_there_is(name):
    assert registry.attention.get(name).supports <= CAPABILITIES


# The pieces


def test_masked_softmax_is_zero_where_masked(rng):
    logits = rng.normal(size=(2, 2, 3, 5)).astype("float32") * 50
    mask = rng.random((2, 1, 3, 5)) < 0.6
    mask[..., 0] = True
    found = array(masked_softmax(ops.convert_to_tensor(logits), mask))
    powers = np.exp(logits.astype("float64") - logits.max(-1, keepdims=True)) * mask
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True), atol=1e-6)
    assert not (found * ~mask).any()


def test_rotation_depends_on_the_distance_only(rng):
    x, y = (ops.convert_to_tensor(rng.normal(size=(1, 1, 1, 6)).astype("float32")) for _ in range(2))
    frequencies = np.array([1.0, 0.3, 0.05])

    def turned(z, position):
        angles = np.tile(position * frequencies, 2)[None, None].astype("float32")
        return array(rotate(z, (np.cos(angles), np.sin(angles))))

    product = (turned(x, 9) * turned(y, 4)).sum()
    np.testing.assert_allclose((turned(x, 25) * turned(y, 20)).sum(), product, atol=1e-5)
    assert abs((turned(x, 26) * turned(y, 20)).sum() - product) > 1e-3
    np.testing.assert_allclose(np.linalg.norm(turned(x, 31)), np.linalg.norm(array(x)), atol=1e-5)
    np.testing.assert_allclose(turned(x, 0), array(x), atol=1e-6)
