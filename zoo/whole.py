"""Files and folders that are there whole, or not at all."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from zoo.errors import InputError


@contextlib.contextmanager
def replaced_folder(path: Path, mark: str) -> Iterator[Path]:
    """Gives a folder to write in, which in the end takes the place of ``path``.

    Args:
        path: the folder; one that is there must hold a file of the name ``mark``, which says what it is.
        mark: that name.

    Raises:
        InputError: another folder or file is there, or it cannot be written.
    """
    path = _named(path)
    partial, old = (_ours(path, ending) for ending in ("partial", "old"))
    with _one_line(path):
        if path.exists() and not (path / mark).is_file():
            raise InputError(f"{str(path)!r} is there and holds no {mark}; choose another --output")
        if old.exists() and not path.exists():  # of a process that was killed between two renames
            old.rename(path)
        for leftover in (partial, old):  # or a little later
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            yield partial
            if path.exists():
                path.rename(old)
            partial.rename(path)
        finally:
            if not path.exists() and old.exists():
                old.rename(path)
            for leftover in (partial, old):
                shutil.rmtree(leftover, ignore_errors=True)


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """As :func:`whole_file`, for a path that a person gave.

    Raises:
        InputError: it cannot be written.
    """
    path = _named(path)
    make_folder_of(path)
    with _one_line(path), whole_file(path, _ours(path, "partial")) as partial:
        yield partial


@contextlib.contextmanager
def whole_file(path: Path, partial: Path | None = None) -> Iterator[Path]:
    """Gives a file to write, :func:`partial_of` when not named, which in the end takes the place of ``path``."""
    partial = partial or partial_of(path)
    try:
        yield partial
        partial.replace(path)
    except BaseException:  # and not after success: another process may be writing it by then
        partial.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Writes a text file, in UTF-8."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def make_folder_of(path: Path) -> None:
    """Makes the folder in which a file will be.

    Raises:
        InputError: it cannot be made.
    """
    with _one_line(path):
        path.parent.mkdir(parents=True, exist_ok=True)


def partial_of(path: Path) -> Path:
    """The name of a file while it is written."""
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def _ours(path: Path, ending: str) -> Path:
    """A name beside ``path`` that no person would have given, of the same ending."""
    return path.with_name(f".{path.stem}.zoo-{ending}{path.suffix}")


def _named(path: Path) -> Path:
    """The whole path, which ends in a name; of a link what it leads to."""
    path = Path(os.path.realpath(path))
    if not path.name:
        raise InputError(f"{str(path)!r} cannot be written; choose another --output")
    return path


@contextlib.contextmanager
def _one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error
