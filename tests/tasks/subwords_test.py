"""Subwords: sentencepiece and tensorflow-text agree, and what is decoded is what was there."""

import gc

import keras
import pytest
import tensorflow as tf

from zoo.errors import InputError
from zoo.tasks.subwords import Subwords
from zoo.tokens import BEGIN, END, PAD, UNKNOWN

LINES = [
    "Über den Wölken muß die Freiheit wohl grenzenlos sein - sagt man",
    "twenty-three thousand, four hundred and fifty-six",
    "a\u00a0no-break space, a\ttab, a \u2028 line separator",
    "ﬁne ﬁgures, ½ and Ａ stay as they are",  # NFKC would rewrite them
    "e\u0301 and \u00e9 stay different",
    "日本語とemoji 🙂",
    "",
]


def trained(kind: str = "bpe") -> Subwords:
    return Subwords.train(LINES * 3, {"bpe": 150, "unigram": 120, "char": 200}[kind], kind)


def in_pipeline(subwords: Subwords, texts: list[str]) -> list[list[int]]:
    dataset = tf.data.Dataset.from_tensor_slices(tf.constant(texts)).batch(3).map(subwords.tokenize)
    return [row for batch in dataset for row in batch.to_list()]


@pytest.fixture(scope="module", params=["bpe", "unigram", "char"])
def subwords(request) -> Subwords:
    return trained(request.param)


def test_pipeline_and_sentencepiece_agree(subwords):
    texts = [*LINES, "never seen: ξένος zzz", "  two  spaces  ", "▁"]
    assert in_pipeline(subwords, texts) == [subwords.encode(text) for text in texts]


def test_nothing_is_lost(subwords):
    rows = [subwords.encode(line) for line in LINES]
    assert UNKNOWN not in {i for row in rows for i in row}
    assert [subwords.detokenize([row])[0] for row in rows] == LINES


def test_spaces_run_together(subwords):
    """The one thing that is lost: runs of spaces become one, and those at the ends go."""
    assert subwords.detokenize([subwords.encode("  a  tab ")]) == ["a tab"]


def test_reserved_tokens_come_from_no_text(subwords):
    ids = {i for line in [*LINES, "<s>", "</s>", "<pad>"] for i in subwords.encode(line)}
    assert not ids & {PAD, BEGIN, END}
    assert max(ids) < subwords.size
    assert UNKNOWN in subwords.encode("ξένος")


@pytest.mark.parametrize("stop", [END, PAD])
def test_decoding_ends_at_the_end_or_at_padding(stop):
    subwords = trained()
    row = subwords.encode("twenty-three")
    assert subwords.detokenize([[*row, stop, *row]]) == ["twenty-three"]
    assert subwords.detokenize([[stop]]) == [""]


def test_pieces_spell_the_text():
    pieces = trained().pieces("twenty-three thousand")
    assert "".join(pieces).replace("▁", " ").strip() == "twenty-three thousand"
    assert len(pieces) == len(trained().encode("twenty-three thousand"))


@pytest.mark.parametrize("reset", [lambda: tf.random.set_seed(3), lambda: keras.utils.set_random_seed(3)])
def test_a_new_seed_does_not_break_the_pipeline(reset):
    """Both empty the cache in which TensorFlow keeps the tokenizer's resource."""
    subwords = trained()
    expected = in_pipeline(subwords, LINES)
    reset()
    assert in_pipeline(subwords, LINES) == expected


def test_one_of_two_equal_vocabularies_can_go():
    """Two operations of equal models share a resource, which the first one collected would destroy."""
    one = trained()
    other = Subwords(bytes(bytearray(one.model)))
    expected = in_pipeline(one, LINES)
    assert in_pipeline(other, LINES) == expected
    del one
    gc.collect()
    assert in_pipeline(other, LINES) == expected
    assert in_pipeline(Subwords(other.model), LINES) == expected


def test_two_vocabularies_keep_apart():
    one, other = trained("bpe"), trained("char")
    both = tf.data.Dataset.from_tensors(LINES[1:2]).map(lambda x: (one.tokenize(x), other.tokenize(x)))
    ((a, b),) = both
    assert a.to_list() == [one.encode(LINES[1])]
    assert b.to_list() == [other.encode(LINES[1])]
    assert a.to_list() != b.to_list()


def test_save_and_load(tmp_path):
    subwords = trained()
    subwords.save(tmp_path / "a.subwords")
    loaded = Subwords.load(tmp_path / "a.subwords")
    assert loaded.size == subwords.size
    assert [loaded.encode(line) for line in LINES] == [subwords.encode(line) for line in LINES]
    assert [path.name for path in tmp_path.iterdir()] == ["a.subwords"]


def test_training_again_gives_the_same():
    assert trained().model == trained().model


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_no_text(lines):
    with pytest.raises(InputError, match="no vocabulary of 50 subwords"):
        Subwords.train(lines, 50)


def test_too_small_for_the_characters():
    with pytest.raises(InputError, match=r"10 subwords.*10 vs \d+"):
        Subwords.train(LINES, 10)


def test_size_is_a_limit():
    assert Subwords.train(LINES, 150).size <= 150
    assert Subwords.train(["abc"], 5000).size < 20


def test_not_a_vocabulary(tmp_path):
    (tmp_path / "a.subwords").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"a\.subwords.*vocabulary"):
        Subwords.load(tmp_path / "a.subwords")
