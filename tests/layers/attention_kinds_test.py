"""Every kind against a reference of its own in float64: what each query sees, and what it makes of it."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from zoo import registry

pytestmark = pytest.mark.backends

WIDTH, HEADS, HEAD_DIM = 10, 2, 4
LENGTHS = (1, 2, 4, 5, 9, 13)


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def weights_of(layer):
    """Weights by the name of what holds them, in float64."""
    found = {}
    for weight in layer.weights:
        found["/".join(weight.path.split("/")[1:])] = np.asarray(array(weight), "float64")
    return found


# Logits of one head, (T, S), from queries (T, H) and keys (S, H); ``w`` are the layer's weights and ``n`` the head.


def scaled(layer, w, n, q, k):
    return q @ k.T / np.sqrt(HEAD_DIM)


def unscaled(layer, w, n, q, k):
    return q @ k.T


def additive(layer, w, n, q, k):
    return np.array([[w["energy"][n] @ np.tanh(a + b) for b in k] for a in q])


def general(layer, w, n, q, k):
    return np.array([[a @ w["kernel"][n] @ b for b in k] for a in q])


def concat(layer, w, n, q, k):
    return np.array([[w["energy"][n] @ np.tanh(np.concatenate([a, b]) @ w["kernel"][n]) for b in k] for a in q])


def row_of(layer, w, name, n, distance):
    farthest = layer.max_distance
    clipped = min(max(distance, -farthest), 0 if layer.causal else farthest)
    table = w[name]
    return table[clipped + farthest, n if table.shape[1] > 1 else 0]


def relative(layer, w, n, q, k):
    return np.array(
        [
            [a @ (b + row_of(layer, w, "distance_keys", n, s - t)) / np.sqrt(HEAD_DIM) for s, b in enumerate(k)]
            for t, a in enumerate(q)
        ]
    )


# Whether the query at t has the key at s in its window.


def everything(layer, t, s):
    return True


def blocks(layer, t, s):
    size = layer.block_length
    return abs(t - s) < size if layer.sliding else abs(t // size - s // size) <= 1


def strided(layer, t, s):
    return (t - s) % layer.dilation == 0 and abs(t - s) < layer.window_length * layer.dilation


@functools.cache
def cells(columns, height, width):
    """The sequence, cell by cell."""
    return [
        (top + i, left + j)
        for top in range(0, 100 * height, height)
        for left in range(0, columns, width)
        for i in range(height)
        for j in range(width)
    ]


def around(layer, t, s):
    columns, height, width = layer.grid.columns, layer.grid.block_height, layer.grid.block_width
    (row, column), (key_row, key_column) = (cells(columns, height, width)[place] for place in (t, s))
    top, left = row - row % height, column - column % width
    return (
        top - layer.memory_height <= key_row < top + height + layer.memory_height
        and left - layer.memory_width <= key_column < left + width + layer.memory_width
    )


def reference(layer, logits_of, window, x, mask=None, bias=None):
    """Output and weights, from the definition."""
    w, x = weights_of(layer), np.asarray(x, "float64")
    heads, shared = layer.num_heads, layer.num_heads // layer.num_key_value_heads

    def project(name):
        flat = x @ w[f"{name}/kernel"] + w[f"{name}/bias"]
        return flat.reshape(*x.shape[:2], -1, HEAD_DIM)

    q, k, v = project("query"), project("key"), project("value")
    batch, length = x.shape[:2]
    out, scores = np.zeros(x.shape), np.zeros((batch, heads, length, length))
    for b in range(batch):
        context = np.zeros((length, heads, HEAD_DIM))
        for n in range(heads):
            logits = logits_of(layer, w, n, q[b, :, n], k[b, :, n // shared])
            if bias is not None:
                logits = logits + bias[0, n]
            for t in range(length):
                seen = [
                    s
                    for s in range(length)
                    if window(layer, t, s)
                    and (s <= t or not layer.causal)
                    and (mask is None or mask[b, t % mask.shape[1], s])
                ]
                if not seen:
                    continue
                powers = np.exp(logits[t, seen] - logits[t, seen].max())
                scores[b, n, t, seen] = powers / powers.sum()
                for s in seen:
                    value = v[b, s, n // shared]
                    if getattr(layer, "relative_values", False):
                        value = value + row_of(layer, w, "distance_values", n, s - t)
                    context[t, n] += scores[b, n, t, s] * value
        for t in range(length):
            if scores[b, :, t].any():
                out[b, t] = context[t].reshape(-1) @ w["output/kernel"] + w["output/bias"]
    return out, scores


KINDS = {
    "dot_product": ("dot_product", {"heads": 1}, scaled, everything),
    "dot_product, unscaled": ("dot_product", {"heads": 1, "scaled": False}, unscaled, everything),
    "multi_head": ("multi_head", {}, scaled, everything),
    "grouped_query, multi-query": ("grouped_query", {}, scaled, everything),
    "grouped_query, 2 groups": ("grouped_query", {"heads": 4, "num_key_value_heads": 2}, scaled, everything),
    "additive": ("additive", {}, additive, everything),
    "luong, dot": ("luong", {"score": "dot"}, unscaled, everything),
    "luong, general": ("luong", {}, general, everything),
    "luong, concat": ("luong", {"score": "concat"}, concat, everything),
    "relative": ("relative", {"max_distance": 3}, relative, everything),
    "relative, farther than the sequence": ("relative", {}, relative, everything),
    "relative, gather": ("relative", {"max_distance": 3, "form": "gather"}, relative, everything),
    "relative, all": ("relative", {"max_distance": 3, "relative_values": True, "per_head": True}, relative, everything),
    "relative, values": ("relative", {"max_distance": 3, "relative_values": True}, relative, everything),
    "relative, all, gather": (
        "relative",
        {"max_distance": 3, "relative_values": True, "per_head": True, "form": "gather"},
        relative,
        everything,
    ),
    "local": ("local", {"block_length": 4}, scaled, blocks),
    "local, sliding": ("local", {"block_length": 4, "sliding": True}, scaled, blocks),
    "local, of one": ("local", {"block_length": 1}, scaled, blocks),
    "dilated": ("dilated", {"dilation": 3, "window": 2}, scaled, strided),
    "dilated, not at all": ("dilated", {"dilation": 1, "window": 3}, scaled, strided),
    "local_2d": (
        "local_2d",
        {"columns": 6, "block_height": 2, "block_width": 2, "memory_height": 1, "memory_width": 1},
        scaled,
        around,
    ),
    "local_2d, wide memory": (
        "local_2d",
        {"columns": 4, "block_height": 1, "block_width": 2, "memory_height": 2, "memory_width": 3},
        scaled,
        around,
    ),
}


def test_every_kind_has_a_reference():
    assert {name for name, *_ in KINDS.values()} | {"memory_compressed"} == set(registry.attention.names())


def masks_of(rng, length):
    """None, padding that leaves one sequence empty, and a mask for each query with an empty row."""
    of_each = rng.random((3, length, length)) < 0.6
    of_each[0, -1] = False
    lengths = np.array([length, (length + 1) // 2, 0])
    return {None: None, "padding": (np.arange(length) < lengths[:, None])[:, None], "each": of_each}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_kind_is_its_reference(make_kind, rng, kind, causal):
    name, settings, logits_of, window = KINDS[kind]
    layer = make_kind(name, causal=causal, **settings)
    for i, length in enumerate(LENGTHS):
        x = rng.normal(size=(3, length, WIDTH)).astype("float32")
        bias = rng.normal(size=(1, layer.num_heads, length, length)).astype("float32") if i % 2 else None
        for mask in masks_of(rng, length).values():
            expected, scores = reference(layer, logits_of, window, x, mask, bias)
            for training in (False, True):  # which some kinds compute in another way
                out = array(layer(x, attention_mask=mask, bias=bias, training=training))
                np.testing.assert_allclose(out, expected, atol=1e-5, err_msg=f"length {length}")
        out, found = layer(x, attention_mask=mask, bias=bias, return_attention_scores=True)
        np.testing.assert_allclose(array(out), expected, atol=1e-5)
        np.testing.assert_allclose(array(found), scores, atol=1e-5)


@pytest.mark.parametrize(
    "kind", [kind for kind, (name, *_) in KINDS.items() if registry.attention.get(name).chunks_queries]
)
def test_queries_in_chunks_give_what_they_give_together(make_kind, rng, kind):
    name, settings, _, _ = KINDS[kind]
    whole, chunked = (make_kind(name, causal=True, query_chunks=n, **settings) for n in (1, 3))
    for length in (1, 2, 7, 12):
        x = rng.normal(size=(3, length, WIDTH)).astype("float32")
        bias = rng.normal(size=(1, whole.num_heads, length, length)).astype("float32")
        for mask in masks_of(rng, length).values():
            expected = array(whole(x, attention_mask=mask, bias=bias))
            np.testing.assert_allclose(array(chunked(x, attention_mask=mask, bias=bias)), expected, atol=1e-5)


@pytest.mark.parametrize("sliding", [False, True])
def test_parts_of_long_blocks_see_what_blocks_see(make_kind, rng, sliding):
    length, size = 700, 300  # a block in parts of unequal size, and a last block that isn't full
    layer = make_kind("local", causal=True, block_length=size, sliding=sliding)
    x = rng.normal(size=(2, length, WIDTH)).astype("float32")
    bias = rng.normal(size=(1, HEADS, length, length)).astype("float32")
    for mask in masks_of(rng, length).values():
        mask = None if mask is None else mask[:2]
        expected, _ = layer(x, attention_mask=mask, bias=bias, return_attention_scores=True)  # by the square
        np.testing.assert_allclose(array(layer(x, attention_mask=mask, bias=bias)), array(expected), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_cached_steps_are_the_full_pass(make_kind, rng, kind):
    name, settings, _, _ = KINDS[kind]
    layer = make_kind(name, causal=True, **settings)
    x = rng.normal(size=(2, 17, WIDTH)).astype("float32")
    bias = rng.normal(size=(1, layer.num_heads, 17, 20)).astype("float32")
    mask = (np.arange(20) >= np.array([0, 6])[:, None])[:, None]  # padding in front
    full = array(layer(x, attention_mask=mask[..., :17], bias=bias[..., :17]))
    for chunks in ((1,) * 17, (17,), (6, 1, 1, 5, 4), (1, 16)):
        cache, start = layer.init_cache(2, 20), 0
        for i, chunk in enumerate(chunks):
            index = start if i % 2 else ops.convert_to_tensor(start, "int32")
            out, cache = layer(
                x[:, start : start + chunk],
                attention_mask=mask,
                bias=bias[:, :, start : start + chunk],
                cache=cache,
                cache_index=index,
            )
            np.testing.assert_allclose(array(out), full[:, start : start + chunk], atol=1e-5)
            start += chunk


def test_skewed_and_gathered_agree_at_any_size(make_kind, rng):
    settings = {"max_distance": 5, "relative_values": True, "per_head": True}
    for causal in (False, True):
        skewed = make_kind("relative", causal=causal, **settings)
        gathered = make_kind("relative", causal=causal, form="gather", **settings)
        for length in (*range(1, 20), 64, 101):
            x = rng.normal(size=(2, length, WIDTH)).astype("float32")
            np.testing.assert_allclose(array(skewed(x)), array(gathered(x)), atol=1e-5)


# Memory-compressed attention has entries in place of keys


def compressed(layer, x, mask=None):
    """One query and one entry at a time."""
    w, x, size = weights_of(layer), np.asarray(x, "float64"), layer.compression
    batch, length = x.shape[:2]
    out = np.zeros(x.shape)
    for b in range(batch):
        allowed = np.ones((length, length), bool) if mask is None else np.broadcast_to(mask[b], (length, length))
        real = allowed.any(0)
        memory, inputs = [], []
        for end in range(0, length + size - 1, size):
            of_entry = [s for s in range(end - size + 1, end + 1) if 0 <= s < length and real[s]]
            window = np.zeros((size, WIDTH))
            for s in of_entry:
                window[s - (end - size + 1)] = x[b, s]
            memory.append(window.reshape(-1) @ w["compress/kernel"] + w["compress/bias"])
            inputs.append((end, of_entry))
        memory = np.array(memory)
        q, k, v = (
            (part @ w[f"{name}/kernel"] + w[f"{name}/bias"]).reshape(-1, HEADS, HEAD_DIM)
            for name, part in (("query", x[b]), ("key", memory), ("value", memory))
        )
        for t in range(length):
            seen = [
                j
                for j, (end, of_entry) in enumerate(inputs)
                if (end <= t or not layer.causal)
                and (mask is None or of_entry)
                and all(allowed[t, s] for s in of_entry)
            ]
            if seen:
                context = np.zeros((HEADS, HEAD_DIM))
                for n in range(HEADS):
                    powers = np.exp(q[t, n] @ k[seen, n].T / np.sqrt(HEAD_DIM))
                    context[n] = powers / powers.sum() @ v[seen, n]
                out[b, t] = context.reshape(-1) @ w["output/kernel"] + w["output/bias"]
    return out


@pytest.mark.parametrize("compression", [1, 2, 3, 5])
@pytest.mark.parametrize("causal", [False, True])
def test_memory_compressed_is_its_reference(make_kind, rng, causal, compression):
    layer = make_kind("memory_compressed", causal=causal, compression=compression)
    for length in LENGTHS:
        x = rng.normal(size=(3, length, WIDTH)).astype("float32")
        for mask in masks_of(rng, length).values():
            expected = compressed(layer, x, mask)
            for training in (False, True):
                out = array(layer(x, attention_mask=mask, training=training))
                np.testing.assert_allclose(out, expected, atol=1e-5, err_msg=f"length {length}")


@pytest.mark.parametrize("compression", [1, 2, 3, 5])
def test_memory_compressed_decodes_from_its_cache(make_kind, rng, compression):
    layer = make_kind("memory_compressed", causal=True, compression=compression)
    x = rng.normal(size=(2, 17, WIDTH)).astype("float32")
    mask = (np.arange(18) >= np.array([0, 6])[:, None])[:, None]
    full = array(layer(x, attention_mask=mask[..., :17]))
    for chunks in ((1,) * 17, (17,), (6, 1, 1, 5, 4), (1, 16)):
        cache, start = layer.init_cache(2, 18), 0
        for chunk in chunks:
            part = x[:, start : start + chunk]
            out, cache = layer(part, attention_mask=mask, cache=cache, cache_index=start)
            np.testing.assert_allclose(array(out), full[:, start : start + chunk], atol=1e-5)
            start += chunk


def test_a_config_makes_an_equal_layer(make_kind, rng):
    for name, settings, _, _ in KINDS.values():
        layer = make_kind(name, causal=True, **settings)
        again = type(layer).from_config(layer.get_config())
        again.build((None, None, WIDTH))
        again.set_weights(layer.get_weights())
        x = rng.normal(size=(2, 9, WIDTH)).astype("float32")
        np.testing.assert_array_equal(array(again(x)), array(layer(x)))
        assert again.get_config() == layer.get_config()


def test_no_kind_needs_to_know_the_length(make_kind, rng):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only TensorFlow compiles a step for any length")
    import tensorflow as tf

    x = rng.normal(size=(2, 11, WIDTH)).astype("float32")
    mask = np.arange(11)[None, None] < np.array([11, 6])[:, None, None]
    for name, settings in [*((name, settings) for name, settings, _, _ in KINDS.values()), ("memory_compressed", {})]:
        layer = make_kind(name, causal=True, **settings)
        expected = array(layer(x, attention_mask=mask))
        for rows in (1, None):
            specs = tf.TensorSpec((None, None, WIDTH)), tf.TensorSpec((None, rows, None), tf.bool)
            step = tf.function(lambda y, m, layer=layer: layer(y, attention_mask=m), input_signature=specs)
            np.testing.assert_allclose(array(step(x, mask)), expected, atol=1e-5, err_msg=name)
        prefill = tf.function(
            lambda y, cache, layer=layer: layer(y, cache=cache, cache_index=0)[0],
            input_signature=[specs[0], {n: tf.TensorSpec(p.shape) for n, p in layer.init_cache(2, 16).items()}],
        )
        found = array(prefill(x, layer.init_cache(2, 16)))
        np.testing.assert_allclose(found, array(layer(x)), atol=1e-5, err_msg=name)
