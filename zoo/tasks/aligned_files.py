"""Text files whose lines correspond."""

import gzip
import zlib
from pathlib import Path

from zoo.errors import InputError


def has_lines(directory: Path, stem: str, language: str) -> bool:
    """Whether :func:`find` finds the file."""
    return any((directory / f"{stem}.{language}{ending}").is_file() for ending in ("", ".gz"))


def find(directory: Path, stem: str, language: str) -> Path:
    """The file ``stem.language`` in ``directory``, or the same with ``.gz``.

    Raises:
        InputError: there is neither.
    """
    for name in (f"{stem}.{language}", f"{stem}.{language}.gz"):
        if (directory / name).is_file():
            return directory / name
    if not directory.is_dir():
        raise InputError(f"data folder {str(directory)!r} does not exist; give --data_dir=FOLDER")
    there = sorted(path.name for path in directory.iterdir() if path.is_file())
    raise InputError(
        f"{str(directory)!r} has no {stem}.{language} and no {stem}.{language}.gz; "
        f"it has {', '.join(there[:8]) or 'no files'}{' ...' if len(there) > 8 else ''}"
    )


def read_lines(path: Path) -> list[str]:
    """The lines of a text file in UTF-8, gzipped or not, without their ends.

    Raises:
        InputError: the file is empty, cannot be read, or is not UTF-8; the line is named.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{str(path)!r} cannot be read: {error}") from error
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")  # a byte order mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{str(path)!r} is not UTF-8: line {line} has the byte 0x{data[error.start]:02x}") from error
    lines = text.removesuffix("\n").split("\n") if text else []  # not splitlines: U+2028 may stand within a sentence
    if not any(line.strip() for line in lines):
        raise InputError(f"{str(path)!r} is empty")
    return [line.removesuffix("\r") for line in lines]


def read_aligned(directory: Path, stem: str, languages: tuple[str, str]) -> tuple[list[str], list[str]]:
    """The corresponding lines of ``stem.source`` and ``stem.target``.

    Raises:
        InputError: a file is missing or unreadable, or the two have different numbers of lines.
    """
    paths = [find(directory, stem, language) for language in languages]
    source, target = (read_lines(path) for path in paths)
    if len(source) != len(target):
        raise InputError(
            f"{str(paths[0])!r} has {len(source)} lines and {str(paths[1])!r} has {len(target)}; "
            "line n of one must be the translation of line n of the other"
        )
    return source, target
