import gzip
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from zoo import recipe as recipes
from zoo.training import checkpoint
from zoo.training.run_directory import RunDirectory

# Data

TRANSLATION = '''
"""Translation of nothing much."""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe():
    options = {"vocabulary": 40, "max_length": 16}
    return Recipe(
        task=TaskConfig("translation", options=options),
        model=ModelConfig(depth=1, width=16, num_heads=2, feed_forward=16),
        train=TrainConfig(steps=2, batch_tokens=256, samples=0, jit=False),
    )
'''


@pytest.fixture
def data():
    """A folder of aligned files, to damage."""
    Path("mine.py").write_text(TRANSLATION)
    folder = Path("data")
    folder.mkdir()
    for stem in ("train", "val", "test"):
        for language in ("en", "de"):
            (folder / f"{stem}.{language}").write_text("".join(f"{language} {'abc'[i % 3]}\n" for i in range(20)))
    return folder


def missing(folder):
    shutil.rmtree(folder)
    return "data folder"


def without_a_file(folder):
    (folder / "train.de").unlink()
    return "has no train.de and no train.de.gz; it has "


def without_a_validation_file(folder):
    (folder / "val.en").unlink()
    return "has no val.en"


def unequal(folder):
    (folder / "train.de").write_text("a\nb\n")
    return "train.en' has 20 lines and "


def empty(folder):
    (folder / "train.en").write_text("")
    return "train.en' is empty"


def not_utf8(folder):
    (folder / "train.en").write_bytes(b"a\nb\n\xff\n")
    return "train.en' is not UTF-8: line 3 has the byte 0xff"


def truncated(folder):
    (folder / "train.en").unlink()
    (folder / "train.en.gz").write_bytes(gzip.compress(b"a\n" * 2000)[:-10])
    return "train.en.gz' cannot be read"


def damaged(folder):
    (folder / "train.en").unlink()
    packed = bytearray(gzip.compress(bytes(range(256)) * 20))
    packed[20:40] = b"\xff" * 20
    (folder / "train.en.gz").write_bytes(packed)
    return "train.en.gz' cannot be read"


def not_gzipped(folder):
    (folder / "train.en").rename(folder / "train.en.gz")
    return "train.en.gz' cannot be read"


@pytest.mark.parametrize(
    "fault",
    [missing, without_a_file, without_a_validation_file, unequal, empty, not_utf8, truncated, damaged, not_gzipped],
)
def test_data_that_is_not_right(refused, data, fault):
    message = fault(data)
    assert message in refused("train", "--recipe=mine.py", "--data_dir=data", "--workdir=run")
    assert not Path("run").exists()


def test_no_data_at_all(refused, data):
    assert "give --data_dir=FOLDER" in refused("train", "--recipe=mine.py", "--workdir=run")
    assert not Path("run").exists()


def test_evaluation_is_json_also_where_pairs_are_left_out(called, data):
    (data / "test.en").write_text("en a\n" * 19 + "en a b c a b c a b c a b c a b c\n")
    code, out, err = called("train", "--recipe=mine.py", "--data_dir=data", "--workdir=run")
    assert (code, err) == (0, ""), out
    code, out, err = called("evaluate", "--workdir=run")
    assert code == 0
    assert json.loads(out)["examples"] == 20
    assert err == "1 of 20 test pairs are longer than 16 tokens: left out\n"


# Run directories


def test_a_directory_that_cannot_be_made(small, refused):
    Path("file").write_text("x")
    assert "'file/run' cannot be written: Not a directory" in refused("train", *small, "--workdir=file/run")
    assert "'file' is a file, and a run needs a directory" in refused("train", *small, "--workdir=file")
    assert Path("file").read_text() == "x"


def test_a_directory_with_other_files(small, refused):
    Path("mine").mkdir()
    Path("mine/letter.txt").write_text("x")
    line = refused("train", *small, "--workdir=mine")
    assert "'mine' has files and is no run directory (letter.txt); choose another --workdir" in line
    assert [path.name for path in Path("mine").iterdir()] == ["letter.txt"]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_directory_of_another_recipe(small, refused, trained):
    before = snapshot(trained)
    line = refused("train", *small, "--depth=2", f"--workdir={trained}")
    assert "holds a run of another recipe: model.depth is 1 there and 2 here; choose another --workdir" in line
    assert snapshot(trained) == before


def test_a_directory_in_use(small, refused, copied):
    before = snapshot(copied)
    run = RunDirectory(copied)
    with run.claim(run.recipe()):
        assert "is in use by another process" in refused("train", *small, f"--workdir={copied}")
    assert snapshot(copied) == before


def test_a_run_that_came_to_no_checkpoint_may_be_another_recipes(trained):
    run, left = Path("run"), Path("left")
    one = recipes.load("copy")
    other = one.override({"model.width": 16})
    with RunDirectory(run).claim(one):
        assert (run / "recipe.json").is_file()
        shutil.copy(trained / "target.subwords", run)
        shutil.copytree(run, left)  # as a process leaves it that is killed
    assert not run.exists()
    with RunDirectory(left).claim(other):
        assert recipes.read_json(left / "recipe.json") == other
        assert not (left / "target.subwords").exists()  # it is not that of the other recipe


def test_an_empty_directory_is_there_afterwards(refused):
    Path("mine").mkdir()
    refused("train", "--recipe=number_words", "--set=task.options.target_language=xx", "--workdir=mine")
    assert list(Path("mine").iterdir()) == []


def test_the_same_command_again(small, called, trained):
    before = snapshot(trained)
    code, out, err = called("train", *small, f"--workdir={trained}")
    assert (code, err) == (0, "")
    assert "already finished at step 2" in out
    assert snapshot(trained) == before


# Damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def blank(path: Path) -> None:
    path.write_bytes(b"")


def scribble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = os.urandom(64)
    path.write_bytes(data)


def replace(path: Path) -> None:
    path.write_text("something else")


DAMAGE = [cut, blank, scribble, replace]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_last_checkpoint(small, refused, copied, damage):
    damage(copied / "last.npz")
    before = snapshot(copied)
    assert "last.npz' is not a checkpoint, or is damaged" in refused("train", *small, f"--workdir={copied}")
    assert snapshot(copied) == before


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_best_checkpoint(refused, copied, damage):
    damage(copied / "best.npz")
    assert "best.npz' is not a checkpoint, or is damaged" in refused("evaluate", f"--workdir={copied}")


def test_a_missing_checkpoint(refused, copied):
    (copied / "best.npz").unlink()
    assert "there is no checkpoint" in refused("evaluate", f"--workdir={copied}")


def test_weights_that_are_no_numbers(refused, copied):
    values, meta = checkpoint.read(copied / "best.npz")
    name = next(iter(values))
    checkpoint.write(copied / "best.npz", values | {name: np.full_like(values[name], np.nan)}, meta)
    assert f"{name!r} holds NaN or infinity" in refused("generate", f"--workdir={copied}", "--text=ab")


@pytest.mark.parametrize("text", ["{", "[1]", '{"versions": 3}', ""])
def test_a_damaged_environment_is_left_out(called, copied, text):
    (copied / "environment.json").write_text(text)
    code, _, err = called("report", f"--workdir={copied}", "--limit=2")
    assert (code, err) == (0, "")


def test_a_checkpoint_of_another_model(refused, copied):
    text = (copied / "recipe.json").read_text()
    (copied / "recipe.json").write_text(text.replace('"depth": 1', '"depth": 2'))
    assert "the checkpoint is of another model" in refused("evaluate", f"--workdir={copied}")


@pytest.mark.parametrize("damage", [cut, blank, replace])
@pytest.mark.parametrize("name", ["evaluate", "train"])
def test_a_damaged_recipe(small, refused, copied, damage, name):
    words = (name, *small) if name == "train" else (name,)
    damage(copied / "recipe.json")
    assert "recipe.json' is damaged" in refused(*words, f"--workdir={copied}")
    assert "recipe.json' is damaged" in refused("show", copied)


def test_a_damaged_vocabulary(refused, copied):
    replace(copied / "target.subwords")
    assert "target.subwords" in refused("evaluate", f"--workdir={copied}")
