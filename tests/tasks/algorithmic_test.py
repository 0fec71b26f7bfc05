"""The generated tasks: right answers, splits apart, settings that cannot be."""

import pytest

from zoo.errors import InputError
from zoo.tasks.algorithmic import Copy, Reverse

SPLITS = ("train", "valid", "test")


@pytest.mark.parametrize("cls", [Copy, Reverse])
def test_splits_are_apart_and_of_their_sizes(cls):
    task = cls(train_size=300, valid_size=40, test_size=50)
    sources = {split: task.pairs(split)[0] for split in SPLITS}
    assert [len(sources[split]) for split in SPLITS] == [300, 40, 50]
    assert len({source for texts in sources.values() for source in texts}) == 390


def test_answers():
    sources, targets = Copy(train_size=50).pairs("train")
    assert targets == sources
    sources, targets = Reverse(train_size=50).pairs("train")
    assert targets == ["".join(reversed(source)) for source in sources]
    assert any(source != target for source, target in zip(sources, targets, strict=True))


def test_symbols_and_lengths():
    sources, _ = Copy(symbols=3, shortest=5, longest=9, train_size=500).pairs("train")
    assert {symbol for source in sources for symbol in source} == set("abc")
    assert {len(source) for source in sources} == set(range(5, 10))


def test_seed_decides():
    assert Copy().pairs("valid") == Copy().pairs("valid")
    assert Copy(seed=2).pairs("valid") != Copy().pairs("valid")


def test_score_is_the_share_of_exact_matches():
    assert Copy().score(["ab", "cd", "", "ef"], ["ab", "cx", "", "fe"], ["-"] * 4) == {"exact_match": 0.5}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"symbols": 0}, "symbols must be from 1 to 26, not 0"),
        ({"symbols": 27}, "symbols must be from 1 to 26, not 27"),
        ({"shortest": 6, "longest": 5}, "shortest <= longest"),
        ({"longest": 32, "max_length": 32}, "longest < max_length"),
    ],
)
def test_settings_that_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        Copy(**options)


def test_too_few_strings():
    with pytest.raises(InputError, match="raise symbols or longest"):
        Copy(symbols=2, shortest=1, longest=3).pairs("train")


def test_unknown_split():
    with pytest.raises(InputError, match=r"unknown split 'dev'; there are: train, valid, test"):
        Copy().pairs("dev")
