"""Batches of text pairs, against a construction in plain Python."""

import numpy as np
import pytest

from zoo.errors import InputError
from zoo.tasks.text_pairs import TextPairs
from zoo.tokens import BEGIN, END

SOURCES = ["twenty-three", "", "one", "Über fünf", "a b c d e f", "x", "seven hundred and eight"]
TARGETS = ["dreiundzwanzig", "leer", "", "mehr als fünf", "f e d c b a", "x", "siebenhundertacht"]
LAYOUTS = ("encoder_decoder", "decoder", "encoder")


class Pairs(TextPairs):
    """A task with the pairs it is given."""

    layouts = frozenset(LAYOUTS)

    def __init__(self, sources=SOURCES, targets=TARGETS, **options):
        super().__init__(**{"vocabulary": 60, "max_length": 40, **options})
        self.given = list(sources), list(targets)

    def read(self, split):
        return self.given


def prepared(directory, *args, **options) -> Pairs:
    task = Pairs(*args, **options)
    task.prepare(directory)
    return task


def row_of(task, source: str, target: str, layout: str) -> tuple[dict, list, list]:
    """What the docstring of TextPairs shows, for one pair: inputs, labels and weights, not yet padded."""
    s, t = task.source.encode(source), task.target.encode(target)
    if layout == "encoder_decoder":
        return {"source": [*s, END], "target": [BEGIN, *t]}, [*t, END], [1] * (len(t) + 1)
    if layout == "decoder":
        sequence = [*s, BEGIN, *t, END]
        return {"tokens": sequence[:-1]}, sequence[1:], [0] * len(s) + [1] * (len(t) + 1)
    return {"tokens": s}, t, [1] * len(t)


def pad(rows, length) -> np.ndarray:
    return np.array([[*row, *[0] * (length - len(row))] for row in rows])


def rows_in(batches) -> list[tuple]:
    """Every row of every batch, with its length: hashable, to compare as sets."""
    rows = []
    for inputs, labels, weights in batches.dataset.as_numpy_iterator():
        for i in range(len(labels)):
            rows.append((*(tuple(inputs[name][i]) for name in sorted(inputs)), tuple(labels[i]), tuple(weights[i])))
    return rows


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_are_as_the_docstring_says(layout, tmp_path):
    targets = SOURCES if layout == "encoder" else TARGETS
    task = prepared(tmp_path, SOURCES, targets)
    batches = task.batches("train", layout, batch_tokens=3 * 24, buckets=2)
    assert batches.examples == len(SOURCES)
    found = []
    for inputs, labels, weights in batches.dataset.as_numpy_iterator():
        assert labels.shape in batches.shapes
        assert all(array.shape == labels.shape for array in (*inputs.values(), weights))
        for i, row in enumerate(labels):
            arrays = [*(inputs[name][i] for name in sorted(inputs)), row, weights[i]]
            if any(array.any() for array in arrays):
                found.append((len(row), arrays))
            # else a row of padding: nothing but zeros, and no weight
    expected = {}
    for pair in zip(SOURCES, targets, strict=True):
        inputs, labels, weights = row_of(task, *pair, layout)
        if any((*inputs.values(), labels)):  # an encoder's empty pair looks as padding does
            key = str([*(inputs[name] for name in sorted(inputs)), labels])
            expected[key] = [*(inputs[name] for name in sorted(inputs)), labels, weights]
    assert len(found) == len(expected)
    for length, arrays in found:
        needed = [np.trim_zeros(array, "b").tolist() for array in arrays[:-1]]
        wanted = expected.pop(str(needed))
        assert np.array_equal(np.stack(arrays), pad(wanted, length))
    assert not expected


def test_a_decoder_sees_an_empty_source(tmp_path):
    task = prepared(tmp_path, ["", "ab"], ["ab", ""])
    (batch,) = task.batches("train", "decoder", batch_tokens=64).dataset.as_numpy_iterator()
    rows = {
        tuple(np.trim_zeros(tokens, "b")): (labels, weights)
        for tokens, labels, weights in zip(batch[0]["tokens"], batch[1], batch[2], strict=True)
    }
    ab = task.target.encode("ab")
    labels, weights = rows[BEGIN, *ab]
    assert labels[: len(ab) + 1].tolist() == [*ab, END]
    assert weights.tolist() == [1] * (len(ab) + 1) + [0] * (len(weights) - len(ab) - 1)
    labels, weights = rows[*ab, BEGIN]
    assert labels[: len(ab) + 1].tolist() == [*ab[1:], BEGIN, END]
    assert weights.tolist() == [0] * len(ab) + [1] + [0] * (len(weights) - len(ab) - 1)


@pytest.mark.parametrize("layout", ["encoder_decoder", "decoder"])
def test_rows_of_padding_weigh_nothing(layout, tmp_path):
    task = prepared(tmp_path)
    batches = task.batches("train", layout, batch_tokens=4096, buckets=1, row_multiple=8)
    ((inputs, labels, weights),) = batches.dataset.as_numpy_iterator()
    empty = ~labels.any(1)
    assert empty.sum() == len(labels) - len(SOURCES) > 0
    assert not weights[empty].any()
    assert all(not array[empty].any() for array in inputs.values())


def test_counts(tmp_path):
    task = prepared(tmp_path)
    batches = task.batches("valid", "encoder_decoder", batch_tokens=64, buckets=3)
    everything = list(batches.dataset.as_numpy_iterator())
    assert batches.steps == len(everything) > 1
    real = sum((inputs["source"] > 0).sum() + (labels > 0).sum() for inputs, labels, _ in everything)
    assert batches.tokens == pytest.approx(real / len(everything))
    assert {labels.shape for _, labels, _ in everything} == set(batches.shapes)


def test_limit_takes_the_first(tmp_path):
    task = prepared(tmp_path)
    batches = task.batches("test", "encoder_decoder", batch_tokens=4096, buckets=1, limit=3)
    assert batches.examples == 3
    ((inputs, _, _),) = batches.dataset.as_numpy_iterator()
    found = {tuple(np.trim_zeros(row, "b")) for row in inputs["source"] if row.any()}
    assert found == {(*task.source.encode(source), END) for source in SOURCES[:3]}


@pytest.mark.parametrize(("layout", "longest"), [("encoder_decoder", 7), ("decoder", 15)])
def test_pairs_that_are_too_long_are_left_out_and_counted(layout, longest, tmp_path, capsys):
    task = prepared(tmp_path, subwords="char", max_length=7)
    batches = task.batches("train", layout, batch_tokens=256)
    positions = [
        len(row_of(task, *pair, layout)[1])
        if layout == "decoder"
        else max(map(len, row_of(task, *pair, layout)[0].values()))
        for pair in zip(SOURCES, TARGETS, strict=True)
    ]
    kept = sum(n <= longest for n in positions)
    assert 0 < kept < len(SOURCES)
    assert batches.examples == kept
    assert (
        f"{len(SOURCES) - kept} of {len(SOURCES)} train pairs are longer than 7 tokens: left out"
        in capsys.readouterr().err
    )


def test_nothing_left_out_is_not_spoken_of(tmp_path, capsys):
    prepared(tmp_path).batches("train", "encoder_decoder", batch_tokens=256)
    assert "left out" not in capsys.readouterr().err


def test_all_too_long(tmp_path):
    task = prepared(tmp_path, ["abcdefghij"], ["abcdefghij"], subwords="char", max_length=4)
    with pytest.raises(InputError, match=r"no train pair has at most 4 tokens; raise task\.options\.max_length"):
        task.batches("train", "encoder_decoder", batch_tokens=256)


@pytest.mark.parametrize("layout", ["encoder_decoder", "decoder"])
@pytest.mark.parametrize("max_length", range(5, 12))
def test_no_batch_is_longer_than_the_model(layout, max_length, tmp_path):
    """Lengths are rounded up to few shapes; positions that are learned have a table of ``max_length`` rows."""
    texts = ["a" * n for n in range(1, 12)]
    task = prepared(tmp_path, texts, texts, subwords="char", max_length=max_length)
    batches = task.batches("train", layout, batch_tokens=256, buckets=3)
    assert max(length for _, length in batches.shapes) <= task.spec(layout)["max_length"]


def test_a_stream_goes_on_at_any_step(tmp_path):
    texts = [f"{a}{b}" for a in "abcdef" for b in "ghijkl"]
    task = prepared(tmp_path, texts, texts)

    def take(step, count):
        batches = task.batches("train", "encoder_decoder", batch_tokens=64, buckets=2, seed=3, step=step)
        return [labels.tolist() for _, labels, _ in batches.dataset.take(count).as_numpy_iterator()]

    whole = take(0, 20)  # several epochs
    assert take(7, 13) == whole[7:]
    assert len({str(labels) for labels in whole}) > 10


@pytest.mark.parametrize("layout", ["encoder_decoder", "decoder"])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sampled_subwords_spell_the_same_texts_anew(layout, kind, tmp_path):
    task = prepared(tmp_path, SOURCES * 8, TARGETS * 8, subwords=kind, subword_sampling=0.5)

    def spelt(inputs, labels):
        if layout == "decoder":
            begin = list(inputs["tokens"]).index(BEGIN)
            return task.texts([inputs["tokens"][:begin], labels[begin:]])
        return task.texts([inputs["source"], labels])

    batches = task.batches("train", layout, 400, seed=3, buckets=2)
    seen, segmentations = set(), set()
    for inputs, labels, weights in batches.dataset.take(2 * batches.steps).as_numpy_iterator():
        for i in np.flatnonzero(weights.any(axis=1)):
            pair = spelt({name: rows[i] for name, rows in inputs.items()}, labels[i])
            seen.add(tuple(pair))
            segmentations.add(tuple(labels[i]))
    assert seen == set(zip(SOURCES, TARGETS, strict=True))
    assert len(segmentations) > 2 * len(TARGETS)


def test_sampled_subwords_go_on_at_any_step_and_fit(tmp_path):
    task = prepared(tmp_path, SOURCES * 8, TARGETS * 8, subword_sampling=0.5, max_length=14)
    whole = task.batches("train", "encoder_decoder", 200, seed=3)
    later = task.batches("train", "encoder_decoder", 200, seed=3, step=whole.steps + 2)
    expected = list(whole.dataset.take(whole.steps + 6).as_numpy_iterator())[whole.steps + 2 :]
    for (inputs, labels, _), (again, labels_again, _) in zip(
        expected, later.dataset.take(4).as_numpy_iterator(), strict=True
    ):
        np.testing.assert_array_equal(inputs["source"], again["source"])
        np.testing.assert_array_equal(labels, labels_again)
    assert max(length for _, length in whole.shapes) <= 16
    plain = task.batches("train", "encoder_decoder", 200)
    task.subword_sampling = 0.0
    for (a, *_), (b, *_) in zip(plain.dataset, task.batches("train", "encoder_decoder", 200).dataset, strict=True):
        np.testing.assert_array_equal(a["source"], b["source"])  # what is validated is not drawn


def test_what_sampling_needs(tmp_path):
    with pytest.raises(InputError, match="at least 0 and below 1, not 1"):
        Pairs(subword_sampling=1.0)
    with pytest.raises(InputError, match="bpe or unigram, not char"):
        Pairs(subword_sampling=0.1, subwords="char")
    task = prepared(tmp_path, SOURCES, SOURCES, subword_sampling=0.1)
    with pytest.raises(InputError, match="must align"):
        task.batches("train", "encoder", 100, seed=1)


def test_an_encoder_needs_as_many_labels_as_tokens(tmp_path):
    task = prepared(tmp_path)
    with pytest.raises(InputError, match="the same number of tokens"):
        task.batches("train", "encoder", batch_tokens=256)


# Vocabularies


def test_one_vocabulary_for_both(tmp_path):
    task = prepared(tmp_path)
    assert task.source is task.target
    spec = task.spec("encoder_decoder")
    assert spec["source_vocabulary"] == spec["target_vocabulary"] == task.target.size
    assert task.spec("decoder")["vocabulary"] == task.target.size


def test_a_vocabulary_for_each(tmp_path):
    task = prepared(tmp_path, ["abc"], ["xyz"], shared_vocabulary=False)
    assert task.source.encode("abc") and 3 in task.source.encode("xyz")
    assert task.target.encode("xyz") and 3 in task.target.encode("abc")
    with pytest.raises(InputError, match="shared_vocabulary"):
        task.spec("decoder")


def test_the_vocabulary_of_a_run_is_kept(tmp_path):
    first = prepared(tmp_path)
    later = prepared(tmp_path, ["other"], ["text"])
    assert later.target.model == first.target.model
    restored = Pairs()
    restored.restore(tmp_path)
    assert restored.source.encode("Über") == first.source.encode("Über")


def test_nothing_to_restore(tmp_path):
    with pytest.raises(InputError, match="holds no vocabulary"):
        Pairs().restore(tmp_path)


def test_unknown_kind_of_subwords():
    with pytest.raises(InputError, match="bpe, unigram or char, not 'words'"):
        Pairs(subwords="words")


# Prompts


@pytest.mark.parametrize(
    ("layout", "name", "tail"),
    [("encoder_decoder", "source", [END]), ("decoder", "tokens", [BEGIN]), ("encoder", "tokens", [])],
)
def test_prompts(layout, name, tail, tmp_path):
    task = prepared(tmp_path)
    inputs, lengths = task.prompts(SOURCES, layout)
    assert list(inputs) == [name]
    rows = [task.source.encode(source) + tail for source in SOURCES]
    assert lengths.tolist() == [len(row) for row in rows]
    assert np.array_equal(inputs[name], pad(rows, max(map(len, rows))))


def test_a_prompt_longer_than_the_model(tmp_path):
    task = prepared(tmp_path)
    with pytest.raises(InputError, match=r"longer than the 3 positions of the model: 'seven hundred"):
        task.prompts([*SOURCES[:3], "seven hundred and eight"], "encoder_decoder", limit=3)


def test_a_task_without_its_texts_says_so():
    class Mine(TextPairs):
        pass

    with pytest.raises(InputError, match="Mine must define read"):
        Mine(vocabulary=10).pairs("train")
