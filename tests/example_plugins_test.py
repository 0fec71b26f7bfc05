"""The example plugins: each kind against its paper, in float64, and both distributions installed and uninstalled."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

from zoo import plugin, registry
from zoo.errors import InputError

ROOT = Path(__file__).parents[1]
NAMES = ("talking_heads", "linear_attention")
WIDTH, VALUE_WIDTH, HEADS, HEAD_DIM = 10, 7, 3, 4

backends = pytest.mark.backends


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Both kinds, for the length of this module, whether or not they are installed too."""
    files = [ROOT / f"plugins/{name}/zoo_{name}/{name}.py" for name in NAMES]
    with pytest.MonkeyPatch.context() as patch:
        for name, file in zip(NAMES, files, strict=True):
            patch.setitem(registry.attention._classes, name, None)  # what there was comes back at the end
            plugin.load(str(file))
        yield
    for file in files:
        del sys.modules[plugin.module_name(file)]


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def make(name, value_width=None, seed=0, **settings):
    layer = registry.attention.get(name)(HEADS, HEAD_DIM, **settings)
    layer.build((None, None, WIDTH), None if value_width is None else (None, None, value_width))
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(scale=0.4, size=weight.shape))
    return layer


# The weights that one query gives to the keys it sees, those of the softmax and those of the values, (N, n) each,
# from its heads (N, H), the heads of the keys (n, N, H) and a bias (N, n).


def talking(layer, q, k, bias):
    before, after = (np.asarray(array(w), "float64") for w in (layer.mix_logits, layer.mix_weights))
    logits = np.array([[key[n] @ q[n] / np.sqrt(HEAD_DIM) for key in k] for n in range(HEADS)])
    mixed = bias + [sum(before[n, m] * logits[n] for n in range(HEADS)) for m in range(HEADS)]
    scores = np.exp(mixed) / np.exp(mixed).sum(-1, keepdims=True)
    return scores, np.array([sum(after[n, m] * scores[n] for n in range(HEADS)) for m in range(HEADS)])


def linear(layer, q, k, bias):
    def features(x):
        return np.array([y + 1 if y > 0 else np.exp(y) for y in x])

    products = np.array([[features(q[n]) @ features(key[n]) for key in k] for n in range(HEADS)])
    scores = products / products.sum(-1, keepdims=True)
    return scores, scores


def reference(layer, query, value=None, mask=None, bias=None):
    """Output and scores in float64, one query at a time and over the keys that it sees only."""
    weigh = talking if hasattr(layer, "mix_logits") else linear

    def project(dense, x):
        kernel, shift = (np.asarray(array(weight), "float64") for weight in dense.weights)
        return x @ kernel + shift

    query = np.asarray(query, "float64")
    value = query if value is None else np.asarray(value, "float64")
    (batch, num_queries, _), num_keys = query.shape, value.shape[1]
    q, k, v = (
        project(dense, x).reshape(batch, -1, HEADS, HEAD_DIM)
        for dense, x in ((layer.query_dense, query), (layer.key_dense, value), (layer.value_dense, value))
    )
    out, scores = np.zeros(query.shape), np.zeros((batch, HEADS, num_queries, num_keys))
    for b in range(batch):
        for t in range(num_queries):
            allowed = np.ones(num_keys, bool) if mask is None else mask[b, t % mask.shape[1]]
            seen = [s for s in range(num_keys) if allowed[s] and (s <= t or not layer.causal)]
            if not seen:
                continue
            of_pairs = np.zeros((HEADS, len(seen))) if bias is None else bias[0, :, t, seen].T
            scores[b][:, t, seen], weights = weigh(layer, q[b, t], k[b, seen], of_pairs)
            context = np.array([weights[n] @ v[b, seen, n] for n in range(HEADS)])
            out[b, t] = project(layer.output_dense, context.reshape(-1))
    return out, scores


def masks_of(rng, num_queries, num_keys):
    """None, padding that leaves one sequence empty, and a mask for each query with an empty row."""
    lengths = np.array([num_keys, (num_keys + 1) // 2, 0])
    of_each = rng.random((3, num_queries, num_keys)) < 0.6
    of_each[0, -1] = False
    return None, (np.arange(num_keys) < lengths[:, None])[:, None], of_each


KINDS = [("talking_heads", {}), ("linear_attention", {"chunk_length": 3}), ("linear_attention", {})]


@backends
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "settings"), KINDS)
def test_self_attention_is_the_reference(rng, name, settings, causal):
    layer = make(name, causal=causal, **settings)
    for length in (1, 3, 4, 8):
        x = rng.normal(size=(3, length, WIDTH)).astype("float32")
        bias = None
        if "bias" in layer.supports:
            bias = rng.normal(size=(1, HEADS, length, length)).astype("float32")
        for mask in masks_of(rng, length, length):
            expected, scores = reference(layer, x, mask=mask, bias=bias)
            out = array(layer(x, attention_mask=mask, bias=bias))
            np.testing.assert_allclose(out, expected, atol=1e-5, err_msg=f"length {length}")
            out, found = layer(x, attention_mask=mask, bias=bias, return_attention_scores=True)
            np.testing.assert_allclose(array(out), expected, atol=1e-5)
            np.testing.assert_allclose(array(found), scores, atol=1e-5)


@backends
@pytest.mark.parametrize("name", NAMES)
def test_cross_attention_is_the_reference_with_its_cache_too(rng, name):
    layer = make(name, VALUE_WIDTH)
    x = rng.normal(size=(3, 4, WIDTH)).astype("float32")
    value = rng.normal(size=(3, 6, VALUE_WIDTH)).astype("float32")
    cache = layer.value_cache(value)
    for mask in masks_of(rng, 4, 6):
        expected, _ = reference(layer, x, value, mask)
        np.testing.assert_allclose(array(layer(x, value, attention_mask=mask)), expected, atol=1e-5)
        np.testing.assert_allclose(array(layer(x, attention_mask=mask, cache=cache)[0]), expected, atol=1e-5)


@backends
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("name", "settings"), KINDS)
def test_cached_steps_are_the_full_pass(rng, name, settings, masked):
    layer = make(name, causal=True, **settings)
    x = rng.normal(size=(2, 11, WIDTH)).astype("float32")
    mask = (np.arange(14) >= np.array([0, 4])[:, None])[:, None] if masked else None  # padding in front
    expected, _ = reference(layer, x, mask=mask)
    for chunks in ((1,) * 11, (11,), (4, 1, 5, 1)):
        cache, start = layer.init_cache(2, 14), 0
        for i, chunk in enumerate(chunks):
            index = start if i % 2 else ops.convert_to_tensor(start, "int32")
            part = x[:, start : start + chunk]
            out, cache = layer(part, attention_mask=mask, cache=cache, cache_index=index)
            np.testing.assert_allclose(array(out), expected[:, start : start + chunk], atol=1e-5)
            start += chunk


@backends
@pytest.mark.parametrize("name", NAMES)
def test_a_reordered_cache_is_that_of_the_reordered_batch(rng, name):
    layer = make(name, causal=True)
    x, later = rng.normal(size=(3, 4, WIDTH)).astype("float32"), rng.normal(size=(3, 2, WIDTH)).astype("float32")
    order = np.array([2, 0, 2])
    _, cache = layer(x, cache=layer.init_cache(3, 6), cache_index=0)
    out, _ = layer(later, cache={key: ops.take(part, order, axis=0) for key, part in cache.items()}, cache_index=4)
    expected, _ = reference(layer, np.concatenate([x[order], later], 1))
    np.testing.assert_allclose(array(out), expected[:, 4:], atol=1e-5)


@backends
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("name", NAMES)
def test_half_precision(rng, name, policy):
    half, full = (make(name, causal=True, dtype=dtype) for dtype in (policy, "float32"))
    x = rng.normal(size=(2, 300, WIDTH)).astype("float32")
    mask = (np.arange(300) >= np.array([0, 300])[:, None])[:, None]
    out, cache, outs = half(x, attention_mask=mask), half.init_cache(2, 300), []
    assert keras.backend.standardize_dtype(out.dtype) == half.compute_dtype
    for start in range(0, 300, 10):
        index = ops.convert_to_tensor(start, "int32")
        step, cache = half(x[:, start : start + 10], attention_mask=mask, cache=cache, cache_index=index)
        outs.append(array(step))
    tolerance = {"bfloat16": 0.03, "float16": 0.004}[half.compute_dtype]
    for found in (array(out), np.concatenate(outs, 1)):
        np.testing.assert_allclose(found, array(full(x, attention_mask=mask)), atol=tolerance)
        assert not found[1].any()


@backends
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_large_inputs_and_empty_rows_have_finite_gradients(rng, gradient, name, causal):
    layer = make(name, causal=causal)
    x = rng.normal(size=(2, 5, WIDTH), scale=50).astype("float32")
    mask = np.array([[[False] * 5], [[True, True, True, False, False]]])
    found = gradient(lambda y: ops.sum(ops.square(layer(y, attention_mask=mask))), x)
    assert np.isfinite(found).all()
    assert not found[0].any()
    assert found[1].any()


@backends
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_compiled_with_lengths_unknown(rng, name, causal):
    layer = make(name, causal=causal)
    x, mask = keras.Input((None, WIDTH)), keras.Input((1, None), dtype="bool")
    model = keras.Model([x, mask], layer(x, attention_mask=mask))
    model.compile(jit_compile=keras.backend.backend() != "torch")
    for length in (5, 70):
        arrays = rng.normal(size=(3, length, WIDTH)).astype("float32"), masks_of(rng, 1, length)[1]
        expected = array(layer(arrays[0], attention_mask=arrays[1]))
        np.testing.assert_allclose(model.predict(arrays, verbose=0), expected, atol=1e-5)


@backends
def test_heads_that_do_not_talk_are_multi_head_attention(rng):
    talking_heads, multi_head = (registry.attention.get(name)(HEADS, HEAD_DIM) for name in (NAMES[0], "multi_head"))
    x = rng.normal(size=(2, 5, WIDTH)).astype("float32")
    talking_heads(x), multi_head(x)
    multi_head.set_weights([w for w in talking_heads.get_weights() if w.shape != (HEADS, HEADS)])
    np.testing.assert_allclose(array(talking_heads(x)), array(multi_head(x)), atol=1e-6)


@backends
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_the_cache_of_linear_attention_is_two_sums_in_float32(rng, policy):
    layer = make("linear_attention", causal=True, dtype=policy)
    x = rng.normal(size=(2, 5, WIDTH)).astype("float32")
    _, cache = layer(x[:, :3], cache=layer.init_cache(2, 1000), cache_index=0)
    _, cache = layer(x[:, 3:], cache=cache, cache_index=3)
    k, v = (array(dense(x)).reshape(2, 5, HEADS, HEAD_DIM) for dense in (layer.key_dense, layer.value_dense))
    features = np.where(k > 0, k + 1, np.exp(k))
    (state,) = cache.values()
    np.testing.assert_allclose(array(state)[..., :-1], np.einsum("bsnh,bsnw->bnhw", features, v), atol=1e-5)
    np.testing.assert_allclose(array(state)[..., -1], features.sum(1), atol=1e-5)


@backends
@pytest.mark.parametrize("causal", [False, True])
def test_linear_attention_builds_no_square(rng, causal, monkeypatch):
    layer, sizes, einsum = make("linear_attention", causal=causal, chunk_length=8), [], ops.einsum

    def measured(*arguments):
        result = einsum(*arguments)
        sizes.append(np.prod(result.shape))
        return result

    monkeypatch.setattr(ops, "einsum", measured)

    def largest(length):
        sizes.clear()
        layer(rng.normal(size=(1, length, WIDTH)).astype("float32"), attention_mask=np.ones((1, 1, length), bool))
        return max(sizes)

    assert largest(512) == 2 * largest(256)


@backends
def test_dropout_of_linear_attention_is_of_keys_in_training(rng):
    keras.utils.set_random_seed(1)
    layer = make("linear_attention", dropout=0.5)
    x = rng.normal(size=(1, 6, WIDTH)).astype("float32")
    expected, _ = reference(layer, x)
    np.testing.assert_allclose(array(layer(x)), expected, atol=1e-5)
    many = array(layer(np.repeat(x, 4000, 0), training=True))
    assert many.std(0).min() > 0.01
    error = (many.mean(0) - expected[0]) / (many.std(0) / np.sqrt(4000))
    assert np.abs(error).max() < 4.5


def test_what_linear_attention_refuses(rng):
    with pytest.raises(InputError, match="chunk_length must be at least 1, not 0"):
        make("linear_attention", chunk_length=0)
    layer = make("linear_attention", causal=True)
    x = rng.normal(size=(2, 3, WIDTH)).astype("float32")
    with pytest.raises(InputError, match="no bias"):
        layer(x, bias=np.zeros((1, HEADS, 3, 3), "float32"))
    with pytest.raises(InputError, match="no rotation"):
        layer(x, rotation=(np.ones((3, 1, HEAD_DIM), "float32"), np.zeros((3, 1, HEAD_DIM), "float32")))
    with pytest.raises(InputError, match="one mask"):
        layer(x, attention_mask=np.ones((2, 3, 3), bool), cache=layer.init_cache(2, 3), cache_index=0)


# As distributions


def run(*command, cwd: Path) -> str:
    """Runs a command without the variables that would lead Python elsewhere."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_installed_they_are_found_and_train_and_uninstalled_they_are_gone(tmp_path):
    home = tmp_path / "venv"
    venv.create(home, symlinks=True)
    (site_packages,) = home.glob("lib/python*/site-packages")
    borrowed = [*(path for path in sys.path if path.endswith("-packages")), str(ROOT)]  # what is here, and this tree
    (site_packages / "borrowed.pth").write_text("\n".join(borrowed))
    python, pip = home / "bin/python", (sys.executable, "-m", "pip", "--python", home)

    def kinds() -> set[str]:
        rows = run(python, "-m", "zoo.cli", "list", "attention", cwd=tmp_path).splitlines()
        return {row.split("\t")[1] for row in rows}

    sources = [ROOT / "plugins" / name for name in NAMES]
    run(*pip, "install", "--no-deps", "--no-index", "--no-build-isolation", *sources, cwd=tmp_path)
    for recipe in ("talking_heads/number_words", "linear_attention/copy"):
        workdir, small = tmp_path / recipe, ["--steps=2", "--depth=1", "--set=train.jit=false", "--set=train.samples=0"]
        small += [f"--set=task.options.{split}_size=64" for split in ("train", "valid", "test")]
        small += ["--set=train.decode_validation=0", "--set=train.monitor=token_nll"]
        train = run(
            python, "-m", "zoo.cli", "train", f"--recipe={recipe}", f"--workdir={workdir}", *small, cwd=tmp_path
        )
        assert "step" in train
        assert (workdir / "recipe.json").is_file()

    run(*pip, "uninstall", "--yes", *(f"zoo-{name.replace('_', '-')}" for name in NAMES), cwd=tmp_path)
    assert "multi_head" in kinds()
    assert not kinds() & set(NAMES)
