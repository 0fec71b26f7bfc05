"""Numbers in words: the splits, the spelling, and the score by magnitude."""

from collections import Counter

import num2words
import pytest

from zoo.errors import InputError
from zoo.tasks.number_words import NumberWords, spell

SIZES = {"train_size": 3000, "valid_size": 60, "test_size": 120}


def magnitudes(numbers: list[int]) -> Counter:
    return Counter(len(str(n)) for n in numbers)


@pytest.fixture(scope="module")
def task() -> NumberWords:
    return NumberWords(**SIZES)


def test_no_number_is_in_two_splits(task):
    splits = task.numbers()
    assert all(len(set(splits[split])) == len(splits[split]) for split in ("valid", "test"))
    assert not set(splits["train"]) & set(splits["valid"])
    assert not set(splits["train"]) & set(splits["test"])
    assert not set(splits["valid"]) & set(splits["test"])


def test_sizes_and_range(task):
    splits = task.numbers()
    assert {name: len(numbers) for name, numbers in splits.items()} == {"train": 3000, "valid": 60, "test": 120}
    assert all(0 <= n < 10**6 for numbers in splits.values() for n in numbers)


def test_every_magnitude_is_tested_and_trained(task):
    splits = task.numbers()
    for split in ("train", "valid", "test"):
        assert set(magnitudes(splits[split])) == set(range(1, 7)), split
    counts = magnitudes(splits["test"])
    large = [counts[digits] for digits in (3, 4, 5, 6)]  # they share evenly what the small ones leave
    assert 20 < max(large) <= min(large) + 1


def test_the_first_of_a_split_are_of_all_magnitudes(task):
    """For what looks at a part of it: a validation, ``--limit``."""
    for split in ("valid", "test"):
        assert set(magnitudes(task.numbers()[split][:30])) >= {3, 4, 5, 6}, split


def test_small_numbers_are_left_to_train_on(task):
    trained = magnitudes(set(task.numbers()["train"]))
    assert trained[1] >= 6
    assert trained[2] >= 60


def test_numbers_are_drawn_log_uniformly():
    """Each magnitude has the same share of the training numbers; drawn evenly, it would have ten times the last."""
    counts = magnitudes(NumberWords(digits=12, **SIZES).numbers()["train"])
    shares = [counts[digits] for digits in range(2, 13)]
    assert max(shares) < 1.6 * min(shares)


def test_seed_decides(task):
    assert NumberWords(**SIZES).numbers() == task.numbers()
    assert NumberWords(seed=2, **SIZES).numbers() != task.numbers()


@pytest.mark.parametrize(
    ("number", "language", "words"),
    [
        (23, "en", "twenty-three"),
        (23, "de", "dreiundzwanzig"),
        (71, "fr", "soixante et onze"),
        (16, "es", "dieciséis"),
        (0, "it", "zero"),
        (21, "nl", "eenentwintig"),
    ],
)
def test_known_spellings(number, language, words):
    assert spell(number, language) == words


@pytest.mark.parametrize("pair", [("en", "de"), ("de", "fr"), ("es", "en")])
def test_pairs_are_spelled_by_num2words(pair):
    task = NumberWords(source_language=pair[0], target_language=pair[1], train_size=200, valid_size=50, test_size=50)
    for split in ("train", "valid", "test"):
        numbers = task.numbers()[split]
        sources, targets = task.pairs(split)
        assert len(sources) == len(targets) == len(numbers)
        for i in range(0, len(numbers), 7):
            assert sources[i] == num2words.num2words(numbers[i], lang=pair[0])
            assert targets[i] == num2words.num2words(numbers[i], lang=pair[1])


def test_score_by_magnitude(task):
    numbers = task.numbers()["test"]
    sources, references = task.pairs("test")
    wrong = [i for i, n in enumerate(numbers) if len(str(n)) == 3]
    half_wrong = [i for i, n in enumerate(numbers) if len(str(n)) == 5][::2]
    outputs = list(references)
    for i in (*wrong, *half_wrong):
        outputs[i] = "nothing"
    score = task.score(outputs, references, sources)
    counts = magnitudes(numbers)
    assert score["exact_match"] == pytest.approx(1 - (len(wrong) + len(half_wrong)) / len(numbers))
    assert score["exact_match_3_digits"] == 0.0
    assert score["exact_match_5_digits"] == pytest.approx(1 - len(half_wrong) / counts[5])
    assert all(score[f"exact_match_{digits}_digits"] == 1.0 for digits in (1, 2, 4, 6))


def test_score_of_a_few(task):
    """Only the magnitudes that are there get a number of their own."""
    sources, references = ([texts[0]] for texts in task.pairs("valid"))
    score = task.score(references, references, sources)
    assert score == {"exact_match": 1.0, f"exact_match_{len(str(task.numbers()['valid'][0]))}_digits": 1.0}


def test_unknown_language():
    with pytest.raises(InputError, match=r"'gr'.*there are:.*\bel\b|'gr'.*there are:.*\bfr\b"):
        NumberWords(target_language="gr", **SIZES).pairs("valid")


@pytest.mark.parametrize("digits", [0, 13])
def test_digits_out_of_range(digits):
    with pytest.raises(InputError, match=f"digits must be from 1 to 12, not {digits}"):
        NumberWords(digits=digits)


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_few_numbers_leave_something_for_each_split(digits):
    splits = NumberWords(digits=digits).numbers()
    assert all(splits.values())
    assert not set(splits["train"]) & ({*splits["valid"], *splits["test"]})
