import contextlib

import keras
import numpy as np
import pytest
from keras import ops

from zoo import registry
from zoo.architectures.base import Architecture
from zoo.errors import InputError
from zoo.generation.decoder import Decoder, _Loop, decode_all
from zoo.generation.settings import Decoding
from zoo.layers.attention.multi_head import MultiHeadAttention
from zoo.tokens import BEGIN, END, PAD

pytestmark = [pytest.mark.backends, pytest.mark.filterwarnings("ignore:You are using a softmax over axis")]

VOCABULARY, EXTRA = 12, 4


class Copy(Architecture):
    """Repeats its source, with 7 for padding and ever after; ``limit`` is that of its positions."""

    def __init__(self, layout="encoder_decoder", limit=None):
        super().__init__()
        self.layout = layout
        self.limit = limit
        self.steps = 0
        self.built = True

    def position_limit(self):
        return self.limit

    def call(self, inputs):
        return ops.one_hot(inputs["tokens"], VOCABULARY)

    def init_decoding(self, inputs, max_length):
        (source,) = inputs.values()
        more = ops.full((ops.shape(source)[0], max_length), 7, "int32")
        source = ops.where(ops.equal(source, PAD), 7, ops.cast(source, "int32"))
        return {"source": ops.concatenate([source, more], 1)}

    def decode_step(self, tokens, state, index):
        self.steps += 1
        following = ops.slice(state["source"], (0, index), (ops.shape(state["source"])[0], 1))
        return 20 * ops.one_hot(following[:, 0], VOCABULARY), state


def sources(*rows, width=None):
    """Rows as one padded array, and their lengths."""
    batch = np.zeros((len(rows), width or max(map(len, rows))), "int32")
    for row, filled in zip(rows, batch, strict=True):
        filled[: len(row)] = row
    return {"source": batch}, np.array([len(row) for row in rows])


def tokens_of(found):
    """The tokens of each row's best hypothesis."""
    return [hypotheses[0].tokens for hypotheses in found]


def test_decoding_ends_with_the_end_token():
    decoder = Decoder(Copy(), extra=EXTRA)
    assert tokens_of(decoder(*sources([5, 6, 8, END], [9, END], [END]))) == [[5, 6, 8], [9], []]


def test_a_row_of_padding_gives_nothing():
    decoder = Decoder(Copy(), extra=EXTRA)
    assert tokens_of(decoder(*sources([5, END], [], [8, 9, END], []))) == [[5], [], [8, 9], []]


@pytest.mark.parametrize("width", [3, 6, 9])
def test_what_never_ends_is_cut_off_by_its_own_length(width):
    """``extra`` tokens beyond the source's, however long the other sources are."""
    decoder = Decoder(Copy(), extra=EXTRA)
    inputs, lengths = sources([5, 6, 8], [9], width=width)
    assert tokens_of(decoder(inputs, lengths)) == [[5, 6, 8] + [7] * EXTRA, [9] + [7] * EXTRA]


@pytest.mark.parametrize("beam", [1, 2])
@pytest.mark.parametrize("width", [4, 8])
def test_decoding_stays_within_the_positions(width, beam):
    decoder = Decoder(Copy(limit=6), Decoding(beam=beam), extra=EXTRA)
    inputs, lengths = sources([5, 6, 8, 9], [5, END], width=width)
    assert tokens_of(decoder(inputs, lengths)) == [[5, 6, 8, 9, 7], [5]]  # and the begin token is the sixth
    assert all(loop.max_length <= 6 for loop in decoder._loops.values())
    with pytest.raises(InputError, match="7 tokens is longer than the 6 positions"):
        decoder(*sources([5] * 7))


def test_an_encoder_labels_all_at_once():
    batch, lengths = sources([5, 6, 8], [9], [], width=4)
    for limit in (None, 3):
        decoder = Decoder(Copy("encoder", limit))
        assert tokens_of(decoder({"tokens": batch["source"]}, lengths)) == [[5, 6, 8], [9], []]


def test_labels_in_half_precision_are_summed_in_float32():
    class Unsure(Copy):
        def call(self, inputs):
            return ops.zeros((*ops.shape(inputs["tokens"]), 300), "bfloat16")

    batch, lengths = sources([5, 6, 8])
    ((found,),) = Decoder(Unsure("encoder"))({"tokens": batch["source"]}, lengths)
    assert found.log_probability == pytest.approx(-3 * np.log(300), rel=1e-5)


def test_a_prefix_is_part_of_the_output():
    inputs, lengths = sources([5, 6, END])
    decoder = Decoder(Copy(), Decoding(min_length=2, max_length=3))
    assert tokens_of(decoder(inputs, lengths, prefix=(5, 6))) == [[5, 6]]  # of at least two
    decoder = Decoder(Copy(), Decoding(no_repeat_ngram=1, max_length=3))
    assert tokens_of(decoder(*sources([5, 5, END]), prefix=(5,))) != [[5, 5]]


@pytest.mark.parametrize("beam", [1, 2])
def test_a_prefix_that_does_not_fit(beam):
    decoder = Decoder(Copy(limit=6), Decoding(beam=beam), extra=EXTRA)
    assert tokens_of(decoder(*sources([5, 6, 8, 9, 9]), prefix=(5, 6, 8, 9))) == [[5, 6, 8, 9, 9]]
    assert tokens_of(decoder(*sources([5, 6, 8, 9, 9]), prefix=(5, 6, 8, 9, 9))) == [[5, 6, 8, 9, 9]]  # all positions
    with pytest.raises(InputError, match="a source with its prefix of 7 tokens is longer than the 6 positions"):
        decoder(*sources([5]), prefix=(5,) * 6)
    with pytest.raises(InputError, match="no output begins with a prefix"):
        Decoder(Copy("encoder"))({"tokens": sources([5])[0]["source"]}, np.array([1]), prefix=(5,))


@contextlib.contextmanager
def one_by_one():
    """Loops run as Python loops, so that their steps can be counted."""
    if keras.backend.backend() != "jax":
        yield
        return
    import jax

    with jax.disable_jit():
        yield


def test_the_loop_ends_when_every_row_has_ended():
    model = Copy()
    inputs, lengths = sources([5, 6, END], [9, END], [])
    batch = {
        "inputs": {"source": ops.convert_to_tensor(inputs["source"])},
        "prompt": ops.convert_to_tensor(BEGIN * np.minimum(lengths, 1)[:, None], "int32"),
        "prompt_lengths": ops.convert_to_tensor(np.minimum(lengths, 1), "int32"),
        "starts": ops.convert_to_tensor(np.minimum(lengths, 1), "int32"),
        "limits": ops.convert_to_tensor(lengths + 4, "int32"),
        "places": ops.arange(3, dtype="int32"),
    }
    with one_by_one():
        tokens = ops.convert_to_numpy(_Loop(model, Decoding(), 20, scored=True).call(batch)[0])[:, 0]
    assert model.steps == 3
    for scored, steps in ((True, 3), (False, 2)):  # the last of which only tells whether an end comes
        model.steps = 0
        with one_by_one():
            _Loop(model, Decoding(), 20, scored).call({**batch, "limits": ops.ones((3,), "int32") * 2})
        assert model.steps == steps
    np.testing.assert_array_equal(tokens[:, :4], [[BEGIN, 5, 6, END], [BEGIN, 9, END, PAD], [PAD] * 4])
    assert not tokens[:, 4:].any()


# Against a plain loop over the full pass


def make(name, **settings):
    """A model with random weights that ends now and then."""
    spec = {
        "transformer": {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY},
        "decoder_only": {"vocabulary": VOCABULARY},
    }[name]
    settings = {"width": 8, "depth": 1, "num_heads": 2, "feed_forward": 12, "tie_output": False, **settings}
    model = registry.architecture.get(name)(**spec, max_length=20, **settings)
    model.build()
    rng = np.random.default_rng(3)
    for weight in model.trainable_weights:
        if len(weight.shape) == 2:
            weight.assign(rng.normal(size=weight.shape))
    shift = np.zeros(VOCABULARY)
    shift[[PAD, BEGIN]] = -100  # never chosen
    shift[END] = END_SHIFT[name]
    model.output_dense.bias.assign(shift)
    return model


END_SHIFT = {"transformer": 2.0, "decoder_only": 1.0}  # so that some sentences end and some do not


def plain_loop(model, source: list[int], extra: int) -> tuple[list[int], bool]:
    """One source at a time, everything again at each step; with whether it ended by itself."""
    decoder_only = model.layout == "decoder"
    target = source if decoder_only else [BEGIN]
    given, limit = len(target), model.position_limit() or 10**9
    while len(target) < min(given + len(source) + extra, limit):
        batch = {"tokens": np.array([target])}
        if not decoder_only:
            batch = {"source": np.array([source]), "target": np.array([target])}
        best = int(np.argmax(ops.convert_to_numpy(model(batch))[0, -1]))
        if best == END:
            return target[given:], True
        target = [*target, best]
    return target[given:], False


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(1)
    return [list(map(int, rng.integers(4, VOCABULARY, n))) for n in (3, 6, 1, 5, 2, 4, 3)]


def prompts_for(name):
    def prompts(batch):
        inputs, lengths = sources(*batch)
        return (inputs if name == "transformer" else {"tokens": inputs["source"]}), lengths

    return prompts


@pytest.mark.parametrize(
    ("name", "position", "kind"),
    [
        ("transformer", "sinusoidal", "multi_head"),
        ("transformer", "learned", "test_no_cache"),
        ("decoder_only", "learned", "multi_head"),
        ("decoder_only", "sinusoidal", "test_no_cache"),
    ],
)
def test_decoding_is_a_plain_loop(registered, texts, name, position, kind):
    @lambda cls: registered(registry.attention, "test_no_cache", cls)
    class NoCache(MultiHeadAttention):
        supports = MultiHeadAttention.supports - {"cache"}

    model = make(name, position=position, attention=kind)
    expected, ended = zip(*(plain_loop(model, text, 6) for text in texts), strict=True)
    assert len(set(ended)) == 2, "the test must see both sentences that end and sentences that are cut off"
    assert len({tuple(row) for row in expected}) > 4
    prompts = prompts_for(name)
    decoder = Decoder(model, extra=6)
    assert tokens_of(decoder(*prompts(texts))) == list(expected)
    if kind == "multi_head":
        assert tokens_of(decoder(*prompts(texts[::-1]))) == list(expected)[::-1]  # the order in a batch
        for rows in (1, 4):  # its size, and padding
            assert tokens_of(decode_all(decoder, prompts, texts, rows)) == list(expected)


@pytest.mark.parametrize("beam", [1, 2])
def test_sources_of_any_width_share_a_loop(texts, beam):
    """All that are capped by the positions; of a prompt, what lies beyond them is padding."""
    model = make("decoder_only", position="learned")
    decoder = Decoder(model, Decoding(beam=beam), extra=14)
    found = []
    for width in (8, 16):
        inputs, lengths = sources(*texts, width=width)
        found.append(tokens_of(decoder({"tokens": inputs["source"]}, lengths, prefix=(5, 6, 7, 8, 9))))
    assert found[0] == found[1]
    assert all(tokens[:5] == [5, 6, 7, 8, 9] for tokens in found[0])
    assert list(decoder._loops) == [(20, True)]


# decode_all


@pytest.mark.parametrize("rows", [1, 2, 3, 64])
def test_decode_all_keeps_the_order(rows):
    texts = ["ccc", "a", "", "dddddddddd", "bb", "eeeee", "f"]
    shapes = set()

    def prompts(batch):
        inputs, lengths = sources(*([ord(c) for c in text] for text in batch))
        return inputs, lengths

    def decoder(inputs, lengths, places, prefix, scored):
        shapes.add(inputs["source"].shape)
        assert len(lengths) == len(inputs["source"]) == rows
        return [[int(c) for c in row[:n]] for row, n in zip(inputs["source"], lengths, strict=True)]

    found = decode_all(decoder, prompts, texts, rows)
    assert ["".join(map(chr, row)) for row in found] == texts
    assert shapes <= {(rows, 0), (rows, 8), (rows, 16)}  # few shapes to compile


def test_decode_all_of_nothing_is_nothing():
    assert decode_all(None, None, []) == []
