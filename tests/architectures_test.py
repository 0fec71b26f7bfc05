import keras
import numpy as np
import pytest
from keras import ops

from zoo import registry
from zoo.architectures.base import map_rows
from zoo.errors import InputError
from zoo.layers.attention.base import Attention
from zoo.layers.attention.heads import masked_softmax
from zoo.layers.attention.multi_head import MultiHeadAttention
from zoo.layers.transformer import Stack

pytestmark = [pytest.mark.backends, pytest.mark.filterwarnings("ignore:You are using a softmax over axis")]

VOCABULARY, MAX_LENGTH = 23, 16
SPECS = {
    "transformer": {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY},
    "decoder_only": {"vocabulary": VOCABULARY},
    "encoder_only": {"source_vocabulary": VOCABULARY, "target_vocabulary": 9},
}
DECODING = ["transformer", "decoder_only"]


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def make(name, **settings):
    """A small model with weights that are not those of a start: no bias zero, no scale one."""
    settings = {"width": 8, "depth": 2, "num_heads": 2, "feed_forward": 12, **settings}
    model = registry.architecture.get(name)(**SPECS[name], max_length=MAX_LENGTH, **settings)
    model.build()
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign((weight.name in ("gamma", "scale")) + rng.normal(scale=0.3, size=weight.shape))
    return model


def sentences(rng, *lengths):
    """Token ids from 1 on; rows are padded with 0 to the longest."""
    rows = np.zeros((len(lengths), max(lengths)), "int32")
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = rng.integers(1, VOCABULARY, length)
    return rows


def inputs_of(name, tokens, source=None):
    """A batch: ``tokens`` are what logits are for; ``source`` is read by the encoder-decoder only."""
    return (
        {"source": tokens if source is None else source, "target": tokens}
        if name == "transformer"
        else {"tokens": tokens}
    )


# Settings


@pytest.mark.parametrize("name", SPECS)
def test_settings_reach_every_block(name):
    model = registry.architecture.get(name)(
        **SPECS[name],
        max_length=MAX_LENGTH,
        width=12,
        depth=3,
        num_heads=2,
        head_dim=5,
        position="learned",
        norm="rms",
        norm_first=False,
        residual=False,
        activation="gelu",
        gated=True,
        dropout=0.2,
        attention_dropout=0.3,
        feed_forward_dropout=0.4,
        attention_options={"use_bias": False},
    )
    stacks = [layer for layer in model._flatten_layers() if isinstance(layer, Stack)]
    assert len(stacks) == (2 if name == "transformer" else 1)
    for stack in stacks:
        assert (len(stack.blocks), stack.dropout_layer.rate, stack.position.max_length) == (3, 0.2, MAX_LENGTH)
        for block in stack.blocks:
            assert (block.residual, block.norm_first, block.self_norm.kind) == (False, False, "rms")
            assert (block.head_dim, block.dropout_layer.rate, block.self_attention.dropout) == (5, 0.2, 0.3)
            assert (block.feed_forward.hidden, block.feed_forward.gated, block.feed_forward.dropout) == (48, True, 0.4)
            assert not block.self_attention.use_bias
    assert model.position_limit() == MAX_LENGTH
    assert registry.architecture.get(name)(**SPECS[name], max_length=MAX_LENGTH).position_limit() is None


@pytest.mark.parametrize("name", SPECS)
def test_heads_must_divide_the_width(name):
    with pytest.raises(InputError, match="3 heads don't divide the width 8"):
        make(name, num_heads=3)


@pytest.mark.parametrize("name", SPECS)
def test_every_variable_has_a_path_of_its_own(name):
    paths = [weight.path for weight in make(name, norm="batch", position="learned").weights]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("name", SPECS)
def test_a_model_is_made_again_from_its_config(name):
    model = make(name, attention_options={"use_bias": False}, norm="rms", dtype="mixed_bfloat16")
    again = type(model).from_config(model.get_config())
    again.build()
    assert again.get_config() == model.get_config()
    assert (again.name, again.dtype_policy.name) == (name, "mixed_bfloat16")
    assert [tuple(w.shape) for w in again.weights] == [tuple(w.shape) for w in model.weights]


def test_tables_are_shared_and_tied_as_asked(rng):
    def tables(**settings):
        model = make("transformer", **settings)
        return model, sum(weight.shape == (VOCABULARY, 8) for weight in model.weights)

    batch = inputs_of("transformer", sentences(rng, 4))
    for shared in (True, False):
        for tied in (True, False):
            model, count = tables(share_embeddings=shared, tie_output=tied)
            assert count == (1 if shared else 2)
            assert (model.output_dense is None) == tied
            assert model(batch).shape == (1, 4, VOCABULARY)
    with pytest.raises(InputError, match="one vocabulary"):
        registry.architecture.get("transformer")(source_vocabulary=5, target_vocabulary=6, max_length=8)
    model = registry.architecture.get("transformer")(
        source_vocabulary=30, target_vocabulary=6, max_length=8, width=8, share_embeddings=False
    )
    assert model({"source": np.array([[29]]), "target": np.array([[5]])}).shape == (1, 1, 6)


def test_the_decoder_has_a_depth_of_its_own():
    model = make("transformer", depth=1, decoder_depth=3)
    assert (len(model.encoder.blocks), len(model.decoder.blocks)) == (1, 3)


# What a position may not depend on


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("norm", ["layer", "rms", "none"])
@pytest.mark.parametrize("name", SPECS)
def test_logits_don_t_depend_on_padding_or_on_the_batch(rng, name, norm, norm_first):
    model = make(name, norm=norm, norm_first=norm_first)
    tokens, source = sentences(rng, 3, 7, 1), sentences(rng, 4, 2, 9)
    together = array(model(inputs_of(name, np.pad(tokens, ((0, 0), (0, 3))), np.pad(source, ((0, 0), (0, 2))))))
    for i, (length, source_length) in enumerate(((3, 4), (7, 2), (1, 9))):
        alone = array(model(inputs_of(name, tokens[i : i + 1, :length], source[i : i + 1, :source_length])))[0]
        np.testing.assert_allclose(together[i, :length], alone, atol=1e-5 * max(1, np.abs(alone).max()))
    assert np.isfinite(together).all()


@pytest.mark.parametrize("name", SPECS)
def test_a_row_of_padding_harms_no_other(rng, name):
    model = make(name)
    tokens, source = sentences(rng, 3, 4), sentences(rng, 5, 2)
    expected = array(model(inputs_of(name, tokens, source)))
    empty = [np.pad(side, ((0, 1), (0, 0))) for side in (tokens, source)]
    found = array(model(inputs_of(name, *empty)))
    np.testing.assert_allclose(found[:2], expected, atol=1e-5)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", SPECS)
def test_batch_statistics_leave_padding_out(rng, name):
    tokens, source = sentences(rng, 3, 7, 1), sentences(rng, 4, 2, 9)
    statistics = []
    for wider in (0, 5):
        model = make(name, norm="batch", dropout=0.0)
        padded = [np.pad(side, ((0, 2), (0, wider))) for side in (tokens, source)]
        model(inputs_of(name, *padded), training=True)
        statistics.append([array(weight) for weight in model.non_trainable_weights])
    assert statistics[0]
    for one, other in zip(*statistics, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def decode(model, x, memory):
    """The decoder of a model over embedded targets ``x``."""
    if memory is None:
        return model.logits(model.decoder(x))
    return model.logits(model.decoder(x, memory, memory_mask=np.ones((1, 1, memory.shape[1]), bool)))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("name", DECODING)
def test_no_gradient_comes_from_a_later_target(rng, gradient, name, norm_first):
    model = make(name, norm_first=norm_first)
    x = rng.normal(size=(1, 5, 8)).astype("float32")
    memory = rng.normal(size=(1, 4, 8)).astype("float32") if name == "transformer" else None
    weights = ops.convert_to_tensor(rng.normal(size=VOCABULARY).astype("float32"))
    for t in range(5):
        found = gradient(lambda y, t=t: ops.sum(decode(model, y, memory)[:, t] * weights), x)[0]
        assert found[: t + 1].any(-1).all()
        assert not found[t + 1 :].any()


@pytest.mark.parametrize("name", DECODING)
def test_a_later_token_changes_nothing_before_it(rng, name):
    model = make(name)
    tokens, source = sentences(rng, 7), sentences(rng, 5)
    before = array(model(inputs_of(name, tokens, source)))[0]
    for t in range(7):
        for other in (0, tokens[0, t] % (VOCABULARY - 1) + 1):  # padding, and another word
            changed = tokens.copy()
            changed[0, t] = other
            after = array(model(inputs_of(name, changed, source)))[0]
            np.testing.assert_array_equal(after[:t], before[:t])
            assert (after[t] != before[t]).any()


def test_an_encoder_sees_both_ways(rng):
    model, tokens = make("encoder_only"), sentences(rng, 5)
    before = array(model({"tokens": tokens}))[0]
    for t in (0, 4):
        changed = tokens.copy()
        changed[0, t] = tokens[0, t] % (VOCABULARY - 1) + 1
        assert (array(model({"tokens": changed}))[0] != before).any(-1).all()


@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned"])
def test_an_encoder_knows_the_order_by_its_positions_only(rng, position):
    model, tokens, order = make("encoder_only", position=position), sentences(rng, 6), [3, 0, 5, 1, 4, 2]
    moved, there = array(model({"tokens": tokens}))[:, order], array(model({"tokens": tokens[:, order]}))
    if position == "none":
        np.testing.assert_allclose(there, moved, atol=1e-5)
    else:
        assert np.abs(there - moved).max() > 1e-2


def test_a_sequence_beyond_the_learned_positions_is_refused(rng):
    model = make("encoder_only", position="learned")
    assert model({"tokens": sentences(rng, MAX_LENGTH)}).shape == (1, MAX_LENGTH, 9)
    with pytest.raises(InputError, match=f"{MAX_LENGTH + 1} positions are asked for and {MAX_LENGTH} were learned"):
        model({"tokens": sentences(rng, MAX_LENGTH + 1)})


# Step by step


@pytest.fixture
def kinds(registered):
    """Kinds beside the built-in ones: the same attention without a cache, and one that writes ``attend`` only."""

    @lambda cls: registered(registry.attention, "test_no_cache", cls)
    class NoCache(MultiHeadAttention):
        supports = MultiHeadAttention.supports - {"cache"}

        def init_cache(self, batch_size, max_length):
            raise AssertionError("this kind keeps no cache")

        value_cache = init_cache

    @lambda cls: registered(registry.attention, "test_attend_only", cls)
    class AttendOnly(Attention):
        """Weights fall with the squared distance of query and key."""

        def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
            squares = ops.sum(ops.square(q), -1)[:, :, None] + ops.sum(ops.square(k), -1)[:, None]  # (B, T, S, N)
            logits = ops.einsum("btnh,bsnh->bnts", q, k) - ops.transpose(squares, (0, 3, 1, 2)) / 2
            scores = masked_softmax(logits, mask, bias)
            return ops.einsum("bnts,bsnh->btnh", scores, v), scores if with_scores else None


KINDS = ["multi_head", "test_no_cache", "test_attend_only"]


@pytest.mark.parametrize("settings", [{}, {"position": "learned", "norm_first": False}, {"position": "none"}])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DECODING)
def test_steps_give_the_logits_of_the_full_pass(rng, kinds, name, kind, settings):
    model = make(name, attention=kind, **settings)
    assert model.caches == (kind != "test_no_cache")
    tokens, source = sentences(rng, 6, 6), sentences(rng, 5, 2)
    expected = array(model(inputs_of(name, tokens, source)))
    state = model.init_decoding({"source": source} if name == "transformer" else {"tokens": tokens}, 8)
    for i in range(6):
        logits, state = model.decode_step(tokens[:, i : i + 1], state, i)
        assert logits.shape == (2, VOCABULARY)
        np.testing.assert_allclose(array(logits), expected[:, i], atol=2e-5)


@pytest.mark.parametrize("kind", ["multi_head", "test_no_cache"])
@pytest.mark.parametrize("name", DECODING)
def test_a_state_can_be_reordered_as_beams_are(rng, kinds, name, kind):
    model = make(name, attention=kind)
    tokens, source = sentences(rng, 5, 5, 5), sentences(rng, 5, 2, 4)
    order, then = [2, 0, 2], 3
    branched = np.concatenate([tokens[order, :then], tokens[:, then:]], 1)
    expected = array(model(inputs_of(name, branched, source[order])))
    state = model.init_decoding({"source": source} if name == "transformer" else {"tokens": tokens}, 5)
    for i in range(5):
        if i == then:
            state = map_rows(lambda part: ops.take(part, np.array(order), axis=0), state)
        logits, state = model.decode_step(branched[:, i : i + 1] if i >= then else tokens[:, i : i + 1], state, i)
        if i >= then:
            np.testing.assert_allclose(array(logits), expected[:, i], atol=2e-5)


def test_an_encoder_does_not_decode():
    model = make("encoder_only")
    with pytest.raises(NotImplementedError, match="EncoderOnly"):
        model.init_decoding({}, 3)
    with pytest.raises(NotImplementedError, match="EncoderOnly"):
        model.decode_step(None, {}, 0)


# Precision and training


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("name", SPECS)
def test_dtype_policy_reaches_every_layer(rng, name, policy):
    model = make(name, dtype=policy, position="learned")
    for layer in model._flatten_layers():
        assert layer.dtype_policy.name == policy, layer.path
    assert {weight.dtype for weight in model.weights} == {"float32"}
    batch = inputs_of(name, sentences(rng, 3, 6))
    logits = model(batch)
    assert keras.backend.standardize_dtype(logits.dtype) == policy.removeprefix("mixed_")
    expected = array(make(name, position="learned")(batch))
    assert np.abs(array(logits) - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("transformer", "multi_head"),
        ("transformer", "test_attend_only"),
        ("decoder_only", "test_no_cache"),
        ("encoder_only", "multi_head"),
    ],
)
def test_a_model_learns(rng, kinds, name, kind):
    """A few steps on one batch, traced as in training, lower the loss."""
    keras.utils.set_random_seed(0)
    model = registry.architecture.get(name)(
        **SPECS[name], max_length=MAX_LENGTH, width=8, depth=1, num_heads=2, attention=kind, dropout=0.0
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # XLA compiles one of them; on JAX there is nothing between it and single operations.
    jit = "auto" if keras.backend.backend() == "jax" or kind == "test_attend_only" else False
    model.compile(optimizer=keras.optimizers.Adam(0.02), loss=loss, jit_compile=jit)
    tokens = sentences(rng, 4, 4, 4)
    batch, labels = inputs_of(name, tokens), tokens % 9
    losses = [float(model.train_on_batch(batch, labels)) for _ in range(12)]
    assert losses[-1] < 0.7 * losses[0]
