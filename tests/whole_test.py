"""What is written is there whole or not at all, and what others wrote stays."""

import shutil
from pathlib import Path

import pytest

from zoo.errors import InputError
from zoo.whole import partial_of, replaced_file, replaced_folder, write_text


def test_a_folder_takes_the_place_of_its_like_alone(tmp_path):
    path = tmp_path / "model"
    for text in ("first", "second"):
        with replaced_folder(path, "mark") as partial:
            (partial / "mark").write_text(text)
        assert (path / "mark").read_text() == text
    with pytest.raises(RuntimeError), replaced_folder(path, "mark"):
        raise RuntimeError
    assert (path / "mark").read_text() == "second"
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="holds no mark"), replaced_folder(tmp_path / "mine", "mark"):
        pass


def test_killed_between_two_renames(tmp_path):
    path, old = tmp_path / "model", tmp_path / ".model.zoo-old"
    with replaced_folder(path, "mark") as partial:
        (partial / "mark").write_text("first")
    path.rename(old)
    with pytest.raises(RuntimeError), replaced_folder(path, "mark"):
        raise RuntimeError
    assert (path / "mark").read_text() == "first"
    shutil.copytree(path, old)  # killed before it was gone
    with replaced_folder(path, "mark") as partial:
        (partial / "mark").write_text("second")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert (path / "mark").read_text() == "second"


def test_no_name_to_write():
    with pytest.raises(InputError, match="'/' cannot be written"), replaced_folder(Path("/"), "mark"):
        pass


@pytest.mark.parametrize("name", ["model.old", "model.partial"])
def test_folders_of_others_beside_it(tmp_path, name):
    """As of someone who put the last model aside."""
    beside = tmp_path / name
    beside.mkdir()
    (beside / "mark").write_text("precious")
    for text in ("first", "second"):
        with replaced_folder(tmp_path / "model", "mark") as partial:
            (partial / "mark").write_text(text)
    assert (beside / "mark").read_text() == "precious"
    assert (tmp_path / "model" / "mark").read_text() == "second"


def test_a_folder_that_a_killed_process_left_half_written(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("zoo.whole.shutil.rmtree", lambda *arguments, **settings: None)  # as if it never came so far
        with pytest.raises(RuntimeError), replaced_folder(tmp_path / "model", "mark") as partial:
            (partial / "half").touch()
            raise RuntimeError
    assert (tmp_path / ".model.zoo-partial" / "half").exists()
    with replaced_folder(tmp_path / "model", "mark") as partial:
        (partial / "mark").touch()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["model", "model/mark"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "mark").write_text("first")
    (tmp_path / "link").symlink_to("real")
    with replaced_folder(tmp_path / "link", "mark") as partial:
        (partial / "mark").write_text("second")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "mark").read_text() == "second"


def test_a_link_to_itself(tmp_path):
    (tmp_path / "link").symlink_to("link")
    with replaced_file(tmp_path / "link") as partial:
        partial.write_text("text")
    assert (tmp_path / "link").read_text() == "text"


def test_a_file_is_replaced_or_stays(tmp_path):
    path = tmp_path / "new" / "m.onnx"
    with replaced_file(path) as partial:
        partial.write_text("first")
        assert partial.suffix == ".onnx" and not path.exists()
    beside = partial_of(path)  # a person's, whatever its name
    beside.write_text("precious")
    with pytest.raises(RuntimeError), replaced_file(path) as partial:
        partial.write_text("half")
        raise RuntimeError
    with pytest.raises(InputError, match="cannot be written: No space left"), replaced_file(path) as partial:
        raise OSError(28, "No space left on device")
    assert {file.name: file.read_text() for file in path.parent.iterdir()} == {
        "m.onnx": "first",
        beside.name: "precious",
    }
    with pytest.raises(InputError, match="cannot be written: File exists"), replaced_file(path / "x"):
        pass


def test_text_that_could_not_be_written_leaves_what_was_there(tmp_path):
    write_text(tmp_path / "a.csv", "über")
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "a.csv", "\ud800")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"a.csv": "über"}
