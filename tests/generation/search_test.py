"""Beam search against every output there is, draws against their distribution, and constraints."""

import itertools

import numpy as np
import pytest
from keras import ops

from zoo import registry
from zoo.architectures.base import Architecture
from zoo.errors import InputError
from zoo.generation import beam as beam_search
from zoo.generation import single
from zoo.generation.decoder import Decoder, decode_all
from zoo.generation.settings import Decoding
from zoo.tokens import BEGIN, END, PAD

pytestmark = [pytest.mark.backends, pytest.mark.filterwarnings("ignore:You are using a softmax over axis")]

VOCABULARY = 6  # three of them can be written: 3, 4, 5
WORDS = (3, 4, 5)


def make(name="transformer", seed=0, scale=0.7, **settings):
    """A model with random weights that is not sure of anything."""
    spec = {
        "transformer": {"source_vocabulary": VOCABULARY, "target_vocabulary": VOCABULARY},
        "decoder_only": {"vocabulary": VOCABULARY},
    }[name]
    settings = {"width": 8, "depth": 1, "num_heads": 2, "feed_forward": 12, "tie_output": False, **settings}
    model = registry.architecture.get(name)(**spec, max_length=24, **settings)
    model.build()
    weigh(model, seed, scale)
    return model


def weigh(model, seed, scale=0.7):
    """Gives the model other random weights; what is compiled stays."""
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(scale=scale, size=weight.shape))


def batch_of(model, rows):
    """Sources as a padded batch, and their lengths."""
    filled = np.zeros((len(rows), max(map(len, rows))), "int32")
    for row, tokens in zip(filled, rows, strict=True):
        row[: len(tokens)] = tokens
    return {"source" if model.layout == "encoder_decoder" else "tokens": filled}, np.array([len(row) for row in rows])


def log_probabilities(model, source, outputs, end=True):
    """Of outputs of one length by the full pass, their end included."""
    tokens = np.array([[*output, *([END] if end else [])] for output in outputs], "int32")
    before = np.repeat([[*source] if model.layout == "decoder" else [BEGIN]], len(tokens), 0)
    target = np.concatenate([before, tokens[:, :-1]], 1).astype("int32")
    inputs = {"tokens": target}
    if model.layout == "encoder_decoder":
        inputs = {"source": np.repeat([source], len(tokens), 0).astype("int32"), "target": target}
    logits = ops.convert_to_numpy(model(inputs)).astype("float64")[:, -tokens.shape[1] :]
    logits -= logits.max(-1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return np.take_along_axis(logs, tokens[:, :, None], 2).sum((1, 2))


def log_probability(model, source, output, end=True):
    """Of one output."""
    return log_probabilities(model, source, [output], end)[0]


def all_outputs(model, source, longest, alpha):
    """Every output of at most so many tokens, from the best on: (score, log-probability, tokens)."""
    found = []
    for n in range(longest + 1):
        outputs = [list(output) for output in itertools.product(WORDS, repeat=n)]
        for output, log in zip(outputs, log_probabilities(model, source, outputs), strict=True):
            found.append((log / ((5 + n + 1) / 6) ** alpha, log, output))
    return sorted(found, key=lambda item: -item[0])


SOURCES = [[3, 4, END], [5, END], [4, 4, 3, 5, END]]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("name", ["transformer", "decoder_only"])
def test_a_wide_beam_finds_the_best_of_all_outputs(name, alpha):
    model = make(name, tie_output=alpha > 1)  # both ways to logits
    sources = SOURCES if name == "transformer" else [[*row[:-1], BEGIN] for row in SOURCES]
    settings = Decoding(beam=27, n_best=4, length_penalty=alpha, max_length=3)
    found = Decoder(model, settings)(*batch_of(model, sources))
    for source, hypotheses in zip(sources, found, strict=True):
        expected = all_outputs(model, source, 3, alpha)[:4]
        assert [h.tokens for h in hypotheses] == [tokens for _, _, tokens in expected]
        np.testing.assert_allclose([h.log_probability for h in hypotheses], [log for _, log, _ in expected], atol=1e-4)


@pytest.mark.parametrize(("longest", "prefix", "count"), [(1, (), 4), (2, (5, 3), 1), (2, (5,), 4)])
def test_no_more_outputs_than_there_are(longest, prefix, count):
    found = Decoder(make(), Decoding(beam=8, n_best=8, max_length=longest))(*batch_of(make(), SOURCES), prefix=prefix)
    for hypotheses in found:
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses) == count


@pytest.mark.parametrize("settings", [Decoding(), Decoding(beam=3, n_best=3), Decoding(sample=True)])
@pytest.mark.parametrize("kind", ["multi_head", "relative", "local", "memory_compressed"])
def test_scores_are_the_models_own(kind, settings):
    model = make(attention=kind, seed=2)
    found = Decoder(model, settings, extra=8)(*batch_of(model, SOURCES))
    for source, hypotheses in zip(SOURCES, found, strict=True):
        for hypothesis in hypotheses:
            ended = len(hypothesis.tokens) < len(source) + 8
            expected = log_probability(model, source, hypothesis.tokens, end=ended)
            if not ended and settings.beam > 1:  # it ends at its limit at the latest
                expected = log_probability(model, source, hypothesis.tokens)
            elif not ended:  # it may have ended at the very last token
                full = log_probability(model, source, hypothesis.tokens)
                expected = min((expected, full), key=lambda e: abs(e - hypothesis.log_probability))
            np.testing.assert_allclose(hypothesis.log_probability, expected, atol=1e-4)


@pytest.mark.parametrize("prefix", [(), (5, 3)])
@pytest.mark.parametrize("settings", [Decoding(max_length=4), Decoding(sample=True)], ids=str)
def test_the_tokens_are_the_same_when_no_scores_are_wanted(settings, prefix):
    model = make()
    decoder, batch = Decoder(model, settings, extra=2), batch_of(model, [*SOURCES, []])
    for seed in range(4):
        weigh(model, seed)
        scored, unscored = decoder(*batch, prefix=prefix), decoder(*batch, prefix=prefix, scored=False)
        assert [h.tokens for (h,) in unscored] == [h.tokens for (h,) in scored]
        assert {h.log_probability for (h,) in unscored} == {None}


@pytest.mark.parametrize(
    "settings",
    [
        Decoding(),
        Decoding(beam=4, n_best=4, min_length=4),
        Decoding(sample=True, seed=5),
        Decoding(beam=2, no_repeat_ngram=2, min_length=4),
    ],
    ids=str,
)
def test_outputs_do_not_depend_on_the_batch(settings):
    model = make(seed=4, scale=1.5)  # of which the source makes more
    rng = np.random.default_rng(1)
    texts = [[*map(int, rng.integers(3, VOCABULARY, n)), END] for n in (2, 7, 1, 4, 3, 6, 5, 2)]
    decoder = Decoder(model, settings, extra=5)

    def decoded(rows):
        found = decode_all(decoder, lambda batch: batch_of(model, batch), texts, rows)
        return [[h.tokens for h in hypotheses] for hypotheses in found]

    expected = decoded(8)
    assert len({tuple(map(tuple, row)) for row in expected}) > 1
    assert decoded(1) == decoded(3) == expected


def test_blocks_of_the_vocabulary_hide_nothing_from_a_beam(monkeypatch):
    spec = {"source_vocabulary": 130, "target_vocabulary": 130, "max_length": 24}
    model = registry.architecture.get("transformer")(**spec, width=8, depth=1, num_heads=2, feed_forward=12)
    model.build()
    weigh(model, seed=0, scale=1.0)
    sources = np.random.default_rng(1).integers(3, 130, (6, 5)).astype("int32")

    def found():
        decoder = Decoder(model, Decoding(beam=3, n_best=3, max_length=9))
        return decoder({"source": sources}, np.full(6, 5))

    in_blocks = found()
    monkeypatch.setattr(beam_search, "largest", ops.top_k)
    assert [[h.tokens for h in row] for row in in_blocks] == [[h.tokens for h in row] for row in found()]


def test_an_end_that_a_model_rules_out():
    class Endless(Fixed):
        LOGITS = np.where(np.arange(VOCABULARY) == END, -np.inf, Fixed.LOGITS).astype("float32")

    for beam in (1, 3):
        ((found,),) = Decoder(Endless(), Decoding(beam=beam, max_length=4))(
            {"source": np.ones((1, 1))}, np.ones(1, int)
        )
        assert found.tokens == [3] * 4


def test_where_nothing_may_come_an_end_does():
    settings = {"min_length": 5, "max_length": 5, "no_repeat_ngram": 1}
    for beam in (1, 3):
        ((found,),) = Decoder(Fixed(), Decoding(beam=beam, **settings))({"source": np.ones((1, 1))}, np.ones(1, int))
        assert sorted(found.tokens) == [3, 4, 5]


def test_a_better_score_than_greedy_or_the_same():
    model = make()
    batch = batch_of(model, SOURCES)
    greedy = Decoder(model, Decoding(max_length=6))
    beam = Decoder(model, Decoding(beam=30, length_penalty=0.0, max_length=6))
    for seed in range(5):
        weigh(model, seed)
        for source, one, best in zip(SOURCES, greedy(*batch), beam(*batch), strict=True):
            ended = log_probability(model, source, one[0].tokens)  # greedy may have been cut before its end
            assert best[0].log_probability >= ended - 1e-5


# Constraints


@pytest.mark.parametrize("beam", [1, 4])
def test_lengths(beam):
    for shortest, longest in ((0, 2), (3, 3), (4, 9)):
        model = make(seed=1)
        settings = Decoding(beam=beam, min_length=shortest, max_length=longest)
        for (hypothesis,) in Decoder(model, settings)(*batch_of(model, SOURCES)):
            assert shortest <= len(hypothesis.tokens) <= longest


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", ["transformer", "decoder_only"])
def test_no_sequence_comes_twice(name, beam):
    model = make(name, seed=3)
    sources = SOURCES if name == "transformer" else [[*row[:-1], BEGIN] for row in SOURCES]
    free = Decoder(model, Decoding(beam=beam, min_length=12, max_length=14))(*batch_of(model, sources))
    assert any(repeats(h.tokens, 3) for (h,) in free), "the test must see a model that repeats itself"
    for size in (1, 2, 3):
        settings = Decoding(beam=beam, no_repeat_ngram=size, max_length=14)
        for (hypothesis,) in Decoder(model, settings)(*batch_of(model, sources)):
            assert not repeats(hypothesis.tokens, size)


def repeats(tokens, size):
    grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(grams)) < len(grams)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", ["transformer", "decoder_only"])
def test_a_prefix_comes_first_and_the_rest_follows_from_it(name, beam):
    model = make(name, seed=6)
    sources = SOURCES if name == "transformer" else [[*row[:-1], BEGIN] for row in SOURCES]
    decoder = Decoder(model, Decoding(beam=beam, length_penalty=0.0, max_length=4 if beam > 1 else None), extra=4)
    for (hypothesis,), source in zip(decoder(*batch_of(model, sources), prefix=(5, 3)), sources, strict=True):
        assert hypothesis.tokens[:2] == [5, 3]
        if beam == 1 and name == "transformer":
            logits = ops.convert_to_numpy(model({"source": np.array([source]), "target": np.array([[BEGIN, 5, 3]])}))
            best = int(np.argmax(np.where(np.isin(np.arange(VOCABULARY), (PAD, BEGIN)), -np.inf, logits[0, -1])))
            assert [*hypothesis.tokens, END][2] == best


# Draws


class Fixed(Architecture):
    """The same distribution at every step."""

    LOGITS = np.log([1e-9, 1e-9, 0.1, 0.4, 0.3, 0.2]).astype("float32")

    def __init__(self):
        super().__init__()
        self.built = True

    def init_decoding(self, inputs, max_length):
        return {"rows": ops.zeros((ops.shape(inputs["source"])[0], 1))}

    def decode_step(self, tokens, state, index):
        return state["rows"] + self.LOGITS, state


def drawn(**settings):
    """The first tokens of many draws."""
    batch = {"source": np.full((4000, 1), END, "int32")}, np.ones(4000, "int64")
    found = Decoder(Fixed(), Decoding(sample=True, max_length=1, **settings))(*batch)
    first = [(h.tokens or [END])[0] for (h,) in found]
    return np.bincount(first, minlength=VOCABULARY) / 4000


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0, 0, 0.1, 0.4, 0.3, 0.2]),
        ({"temperature": 0.5}, [0, 0, 0.01 / 0.3, 0.16 / 0.3, 0.09 / 0.3, 0.04 / 0.3]),
        ({"top_k": 2}, [0, 0, 0, 4 / 7, 3 / 7, 0]),
        ({"top_p": 0.65}, [0, 0, 0, 4 / 7, 3 / 7, 0]),
        ({"top_p": 0.75}, [0, 0, 0, 4 / 9, 3 / 9, 2 / 9]),
        ({"top_k": 99, "top_p": 1.0}, [0, 0, 0.1, 0.4, 0.3, 0.2]),
    ],
)
def test_draws_have_their_distribution(settings, expected):
    expected = np.array(expected)
    found = drawn(**settings)
    assert not found[expected == 0].any()
    assert (np.abs(found - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / 4000)).all()


def test_a_very_small_share_of_the_probability_is_the_most_likely():
    """Of each row, whatever the others are."""
    scores = np.array([[0.0, 3.0, 1.0], [50.0, 40.0, 60.0]], "float32")
    for settings in (Decoding(sample=True, top_p=1e-300), Decoding(sample=True, temperature=1e-6)):
        found = single._drawn(ops.convert_to_tensor(scores), settings, ops.convert_to_tensor([0, 1]), 0)
        assert np.argmax(ops.convert_to_numpy(found), -1).tolist() == [1, 2], settings


def test_a_seed_is_a_draw():
    np.testing.assert_array_equal(drawn(seed=3), drawn(seed=3))
    assert (drawn(seed=3) != drawn(seed=4)).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "beam must be at least 1, not 0"),
        ({"n_best": 2}, "n_best 2 needs a beam at least as wide"),
        ({"temperature": 0.0, "sample": True}, "temperature must be from 1e-6 to 1e6, not 0.0"),
        ({"temperature": float("nan"), "sample": True}, "temperature must be from 1e-6 to 1e6, not nan"),
        ({"beam": 2.5}, "beam must be a whole number, not 2.5"),
        ({"beam": True}, "beam must be a whole number, not True"),
        ({"seed": None}, "seed must be a whole number, not None"),
        ({"length_penalty": None}, "length_penalty must be a number, not None"),
        ({"sample": "no"}, "sample must be True or False, not 'no'"),
        ({"length_penalty": float("inf"), "beam": 2}, "length_penalty must be at least 0, not inf"),
        ({"beam": 10**8}, "beam must be at most 1000000"),
        ({"top_p": 1.5, "sample": True}, "top_p must be above 0 and at most 1"),
        ({"top_k": 3}, "set sample, or leave them out"),
        ({"beam": 2, "sample": True}, "a beam searches and a sample is drawn"),
        ({"n_best": 2, "sample": True}, "for several draws of a text give it several times"),
        ({"min_length": 5, "max_length": 4}, "min_length 5 is above max_length 4"),
        ({"length_penalty": -1.0}, "length_penalty must be at least 0"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram must be at least 0"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(InputError, match=message):
        Decoding(**settings)


def test_settings_as_a_line():
    assert str(Decoding()) == "greedy"
    assert str(Decoding(beam=5, max_length=9)) == "beam 5, length penalty 0.6, max_length 9"
    assert str(Decoding(sample=True, top_k=3)) == "sampling, temperature 1.0, top_k 3, seed 1"
