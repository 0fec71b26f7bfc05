"""Files and folders that are there whole, or not at all."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from zoo.errors import InputError

#: A file in a folder that is being written: by it the next process knows what a killed one left.
_UNFINISHED = "zoo-unfinished"


@contextlib.contextmanager
def replaced_folder(path: Path, mark: str) -> Iterator[Path]:
    """Gives a folder to write in, which in the end takes the place of ``path``.

    Args:
        path: the folder; one that is there must hold a file of the name ``mark``, which says what it is.
        mark: that name.

    Raises:
        InputError: another folder or file is there, or where the folder lies meanwhile; or it cannot be written.
    """
    path = _named(path)
    partial, old = (path.with_name(f"{path.name}.{ending}") for ending in ("partial", "old"))
    with _one_line(path):
        for there, own in ((path, mark), (old, mark), (partial, _UNFINISHED)):
            if os.path.lexists(there) and not (there / own).is_file():
                raise InputError(f"{str(there)!r} is there and holds no {own}; choose another --output")
        if old.exists() and not path.exists():  # of a process that was killed between two renames
            old.rename(path)
        for leftover in (partial, old):  # or a little later
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir(parents=True)
        (partial / _UNFINISHED).touch()
        try:
            yield partial
            (partial / _UNFINISHED).unlink()
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
    beside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")  # no file of that person's
    with _one_line(path), whole_file(path, beside) as partial:
        yield partial


@contextlib.contextmanager
def whole_file(path: Path, partial: Path | None = None) -> Iterator[Path]:
    """Gives a file to write, :func:`partial_of` when not named, which in the end takes the place of ``path``."""
    partial = partial or partial_of(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


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


def _named(path: Path) -> Path:
    """The whole path, which ends in a name; of a link what it leads to."""
    path = path.resolve()
    if not path.name:
        raise InputError(f"{str(path)!r} cannot be written; choose another --output")
    return path


@contextlib.contextmanager
def _one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error
