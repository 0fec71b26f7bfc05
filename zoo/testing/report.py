"""What the kit found, one property a line."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoo.errors import InputError, near

PASS, FAIL, UNSUPPORTED = "pass", "FAIL", "unsupported"


class Unsupported(Exception):
    """Raised by a property that the subject does not claim, or that this backend cannot try."""


@dataclass(frozen=True)
class Result:
    """One property: what was seen of it, and of which options."""

    subject: str
    property: str
    status: str
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """All results; true when nothing failed. As a string, a table."""

    results: tuple[Result, ...]

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results that failed."""
        return tuple(result for result in self.results if result.status == FAIL)

    def __bool__(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        rows = [(r.subject, r.property, r.status, r.detail) for r in self.results]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows)


def chosen(properties: Mapping[str, Callable], names: Sequence[str] | None) -> dict[str, Callable]:
    """The properties of these names, or all.

    Raises:
        InputError: there is no such property, or no name at all.
    """
    if names is not None and not names:
        raise InputError(f"no properties to try; there are: {', '.join(properties)}")
    for name in names or ():
        if name not in properties:
            raise InputError(f"no property {name!r}{near(name, properties)}; there are: {', '.join(properties)}")
    return {name: check for name, check in properties.items() if names is None or name in names}


def run(
    subject: str, properties: Mapping[str, Callable], argument: Any, tell: Callable[[Result], None]
) -> list[Result]:
    """Tries each property; whatever it raises but :class:`Unsupported` is a failure, and the next one is tried."""
    results = []
    for name, check in properties.items():
        try:
            status, detail = PASS, check(argument) or ""
        except Unsupported as reason:
            status, detail = UNSUPPORTED, str(reason)
        except Exception as error:  # code under test may raise anything
            what = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            status, detail = FAIL, what + textwrap.shorten(str(error), 300)
        results.append(Result(subject, name, status, detail))
        tell(results[-1])
    return results
