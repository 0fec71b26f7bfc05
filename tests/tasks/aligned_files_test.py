"""Aligned text files: what counts as a line, and an error that names the file and what is wrong with it."""

import gzip

import pytest

from zoo.errors import InputError
from zoo.tasks.aligned_files import find, read_aligned, read_lines


def write(path, text: str | bytes):
    data = text.encode("utf-8") if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["train.en", "train.en.gz"])
def test_plain_and_gzipped(name, tmp_path):
    path = write(tmp_path / name, "one\nzwei Wölfe\n")
    assert read_lines(path) == ["one", "zwei Wölfe"]


def test_the_last_line_may_have_no_end(tmp_path):
    assert read_lines(write(tmp_path / "a", "one\ntwo")) == ["one", "two"]


def test_empty_lines_count(tmp_path):
    assert read_lines(write(tmp_path / "a", "\none\n\n\n")) == ["", "one", "", ""]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_only_a_newline_ends_a_line(character, tmp_path):
    """str.splitlines would split at each of these, and the two sides would no longer match."""
    text = f"one{character}and a half\ntwo\n"
    assert read_lines(write(tmp_path / "a", text)) == [f"one{character}and a half", "two"]


def test_line_ends_of_windows(tmp_path):
    assert read_lines(write(tmp_path / "a", "one\r\ntwo\r\n")) == ["one", "two"]


def test_a_byte_order_mark_is_no_text(tmp_path):
    assert read_lines(write(tmp_path / "a", b"\xef\xbb\xbfone\ntwo\n")) == ["one", "two"]


@pytest.mark.parametrize("text", ["", "\n", "\n \n"])
def test_empty(text, tmp_path):
    path = write(tmp_path / "train.en", text)
    with pytest.raises(InputError, match=r"train\.en' is empty"):
        read_lines(path)


@pytest.mark.parametrize("name", ["train.de", "train.de.gz"])
def test_not_utf8_names_the_line(name, tmp_path):
    path = write(tmp_path / name, b"eins\nzwei\ndr\xfcben\n")
    with pytest.raises(InputError, match=r"train\.de.*is not UTF-8: line 3 has the byte 0xfc"):
        read_lines(path)


def broken_gzips() -> dict[str, bytes]:
    whole = gzip.compress(b"one\ntwo\n" * 100)
    flipped = bytearray(whole)
    flipped[12:20] = b"\xff" * 8
    return {"no gzip": b"plain text", "cut off": whole[:-12], "damaged": bytes(flipped)}


@pytest.mark.parametrize("kind", list(broken_gzips()))
def test_broken_gzip(kind, tmp_path):
    (tmp_path / "train.en.gz").write_bytes(broken_gzips()[kind])
    with pytest.raises(InputError, match=r"train\.en\.gz' cannot be read"):
        read_lines(tmp_path / "train.en.gz")


def test_aligned(tmp_path):
    write(tmp_path / "train.en", "one\ntwo\n")
    write(tmp_path / "train.de.gz", "eins\nzwei\n")
    assert read_aligned(tmp_path, "train", ("en", "de")) == (["one", "two"], ["eins", "zwei"])
    assert read_aligned(tmp_path, "train", ("de", "en")) == (["eins", "zwei"], ["one", "two"])


def test_unequal_numbers_of_lines(tmp_path):
    write(tmp_path / "train.en", "one\ntwo\n")
    write(tmp_path / "train.de", "eins\n")
    with pytest.raises(InputError, match=r"train\.en' has 2 lines and .*train\.de' has 1"):
        read_aligned(tmp_path, "train", ("en", "de"))


def test_the_plain_file_comes_first(tmp_path):
    write(tmp_path / "train.en", "plain\n")
    write(tmp_path / "train.en.gz", "gzipped\n")
    assert find(tmp_path, "train", "en").name == "train.en"


def test_missing_folder(tmp_path):
    with pytest.raises(InputError, match=r"nowhere' does not exist; give --data_dir"):
        find(tmp_path / "nowhere", "train", "en")


def test_missing_file_names_what_is_there(tmp_path):
    write(tmp_path / "train.fr", "un\n")
    with pytest.raises(InputError, match=r"no train\.en and no train\.en\.gz; it has train\.fr"):
        find(tmp_path, "train", "en")
    (tmp_path / "train.fr").unlink()
    with pytest.raises(InputError, match="it has no files"):
        find(tmp_path, "train", "en")
