"""Translation from files: which files, which pairs, which score."""

import pytest
import sacrebleu

from zoo.errors import InputError
from zoo.tasks.scores import bleu, exact_match
from zoo.tasks.translation import Translation

ENGLISH = ["a dog runs", "two cats", "a man in a very long sentence of many words", "yes"]
GERMAN = ["ein Hund läuft", "zwei Katzen", "ein Mann", "ja das ist so"]


@pytest.fixture
def folder(tmp_path):
    for stem in ("train", "val", "test"):
        (tmp_path / f"{stem}.en").write_text("\n".join(ENGLISH) + "\n", encoding="utf-8")
        (tmp_path / f"{stem}.de").write_text("\n".join(GERMAN) + "\n", encoding="utf-8")
    return tmp_path


def test_splits_are_the_files(folder):
    (folder / "val.en").write_text("one\n")
    (folder / "val.de").write_text("eins\n")
    task = Translation(data_dir=str(folder))
    assert task.pairs("train") == (ENGLISH, GERMAN)
    assert task.pairs("valid") == (["one"], ["eins"])


def test_languages_and_stems(folder):
    task = Translation(data_dir=str(folder), source_language="de", target_language="en", test="train")
    assert task.pairs("test") == (GERMAN, ENGLISH)


def test_longest_words_counts_both_sides(folder):
    assert Translation(data_dir=str(folder), longest_words=3).pairs("train") == (ENGLISH[:2], GERMAN[:2])
    assert Translation(data_dir=str(folder), longest_words=4).pairs("train")[0] == [*ENGLISH[:2], ENGLISH[3]]
    with pytest.raises(InputError, match=r"at most 1 words; raise task\.options\.longest_words"):
        Translation(data_dir=str(folder), longest_words=1).pairs("train")


def test_no_data():
    with pytest.raises(InputError, match=r"give --data_dir=FOLDER that has train\.en and train\.de"):
        Translation()
    with pytest.raises(InputError, match="unknown corpus 'wmt'"):
        Translation(corpus="wmt")


OUTPUTS = ["ein Hund läuft schnell.", "zwei kleine Katzen, hier", "ein Mann"]
REFERENCES = ["ein Hund läuft schnell.", "zwei große Katzen , dort", "ein Mann und eine Frau gehen"]


@pytest.mark.parametrize("tokenize", ["13a", "none", "intl"])
def test_bleu_is_that_of_sacrebleu(tokenize):
    result = bleu(OUTPUTS, REFERENCES, tokenize)
    assert result["bleu"] == sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES], tokenize=tokenize, force=True).score
    assert result["chrf"] == sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score
    assert 0 < result["bleu"] < 100
    assert f"tok:{tokenize}" in result["bleu_signature"]
    assert "version:" in result["chrf_signature"]


def test_the_tokenizer_makes_a_difference(folder):
    scores = [
        Translation(data_dir=str(folder), bleu_tokenize=tokenize).score(OUTPUTS, REFERENCES, OUTPUTS)["bleu"]
        for tokenize in ("13a", "none")
    ]
    assert scores[0] != scores[1]


def test_perfect_and_hopeless():
    assert bleu(REFERENCES, REFERENCES)["bleu"] == pytest.approx(100)
    assert bleu(["", "", ""], REFERENCES)["bleu"] == 0


def test_exact_match():
    assert exact_match(["a", "b", "c"], ["a", "x", "c"]) == pytest.approx(2 / 3)
    assert exact_match([], []) == 0
