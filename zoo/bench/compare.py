"""All points: in which order they are measured, and what is made of them."""

import csv
import io
import itertools
import json
import math
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zoo import registry
from zoo.bench.picture import draw
from zoo.bench.point import Settings
from zoo.errors import InputError
from zoo.recipe import parse_value
from zoo.whole import make_folder_of, replaced_file


def bench(
    kinds: Sequence[str],
    lengths: Sequence[int],
    output: str | Path,
    settings: Settings | None = None,
    *,
    rounds: int = 3,
    tell: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Measures every kind at every length, and writes ``<output>.csv`` and ``<output>.png``.

    Each file is whole or not there; the table is written anew after each round.

    Args:
        kinds: names, with options or without, as :func:`split_kinds` gives them.
        lengths: of the sequences, T.
        output: the two files, without their endings; their folder is made.
        settings: of all points; the defaults when None.
        rounds: processes of a point, whose steps are pooled.
        tell: is called with a line for each process that has ended.

    Returns:
        A row for each kind and length, as in the CSV. ``ms`` is the median time of a step in milliseconds, from the
        call until all it gives is there; ``ms_min``, ``ms_q1``, ``ms_q3`` and ``ms_max`` are its spread over
        ``samples`` steps, and ``peak_mib`` is the largest of the rounds, see :func:`measure`. ``growth`` is that of
        the kind's time, see :func:`growth`. ``failure`` is empty, or why a process of the point failed, for want of
        memory or because the kind can't be built; the point isn't tried again, and the others go on.

    Raises:
        InputError: a kind is unknown, a number too small, the output can't be written, or every point failed.
    """
    settings = settings or Settings()
    kinds, lengths, output = list(dict.fromkeys(kinds)), sorted(set(lengths)), Path(output)
    parsed = {kind: parse_kind(kind) for kind in kinds}
    if not kinds or not lengths:
        raise InputError("name at least one attention kind and one length")
    if min(*lengths, settings.num_heads, settings.head_dim, settings.batch_size, settings.repeats, rounds) < 1:
        raise InputError("lengths, heads and their width, the batch, repeats and rounds must be at least 1")
    make_folder_of(output)  # before the hour that the rest may take

    results = {(kind, length): [] for kind in kinds for length in lengths}
    failures: dict[tuple[str, int], str] = {}
    rows = []
    for turn in range(1, rounds + 1):
        for length, kind in itertools.product(lengths, kinds):
            if (kind, length) in failures:
                continue
            result = _in_own_process(*parsed[kind], length, settings)
            if "failure" in result:
                failures[kind, length] = said = result["failure"]
            else:
                results[kind, length].append(result)
                said = f"{statistics.median(result['ms']):.4g} ms"
            tell(f"round {turn}/{rounds}  {kind}  {length}  {said}")
        if not any(results.values()):
            said = dict.fromkeys(f"{kind}: {why}" for (kind, _), why in failures.items())
            raise InputError(f"nothing could be measured: {'; '.join(said)}")
        rows = _rows(results, failures, settings)
        _write(output, ".csv", _table(rows))  # what is known so far outlives an interruption
    picture = io.BytesIO()
    draw(rows).savefig(picture, format="png", dpi=150)
    _write(output, ".png", picture.getvalue())
    return rows


def split_kinds(text: str) -> list[str]:
    """The kinds in a list such as ``multi_head,relative:max_distance=1024,per_head=true,local:block_length=256``.

    A colon leads from a kind to its options, and commas separate both: what has a ``=`` is an option of the kind
    before it. A kind may come several times with other options.
    """
    return re.split(r",\s*(?=[^\W\d][\w.-]*(?:[:,]|$))", text.strip())


def parse_kind(text: str) -> tuple[str, dict[str, Any]]:
    """``local:block_length=256`` as a name and options, typed as those of a recipe are.

    Raises:
        InputError: no kind goes by the name, or something is not ``option=value``.
    """
    name, _, rest = text.partition(":")
    registry.attention.require(name)
    options = {}
    for part in re.split(r",\s*(?=\w+=)", rest) if rest else ():  # a list keeps its commas
        option, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"{part!r} is not option=value; write {text!r} as local:block_length=256,sliding=true")
        options[option] = parse_value(f"model.attention_options.{option}", value)
    return name, options


def growth(points: Sequence[tuple[int, float]]) -> float | None:
    """The slope of log time over log length, by least squares; None with fewer than two of ``(length, time)``."""
    if len(points) < 2:
        return None
    lengths, times = zip(*((math.log(length), math.log(ms)) for length, ms in points), strict=True)
    return round(statistics.linear_regression(lengths, times).slope, 3)


def _in_own_process(name: str, options: dict[str, Any], length: int, settings: Settings) -> dict[str, Any]:
    """What :func:`measure` gives, or ``{"failure": why}``."""
    words = [sys.executable, "-m", "zoo.bench", json.dumps([name, options, length, asdict(settings)])]
    ended = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace")
    if ended.returncode == 0:
        return json.loads(ended.stdout.splitlines()[-1])
    if ended.returncode == -signal.SIGKILL:
        return {"failure": "killed, as happens when memory runs out"}
    last = (ended.stderr.strip() or "it said nothing").splitlines()[-1]
    return {"failure": f"the process ended with code {ended.returncode}: {last[:300]}"}


def _rows(
    results: dict[tuple[str, int], list[dict[str, Any]]], failures: dict[tuple[str, int], str], settings: Settings
) -> list[dict[str, Any]]:
    """A row for each point, with its columns in the order of the CSV."""
    ran = next(result["ran"] for found in results.values() for result in found)
    columns = {name: value for name, value in asdict(settings).items() if name not in ("plugins", "repeats")} | ran
    points = {point: _pooled(found) for point, found in results.items()}
    slopes = {
        kind: growth([(length, p["ms"]) for (k, length), p in points.items() if k == kind and p["samples"]])
        for kind, _ in points
    }
    return [
        {"kind": kind, "length": length, **point}
        | {"growth": slopes[kind], "failure": failures.get((kind, length), "")}
        | columns
        for (kind, length), point in points.items()
    ]


def _pooled(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns of a point that its processes measured."""
    import numpy as np

    names = ("ms_min", "ms_q1", "ms", "ms_q3", "ms_max")
    samples = [ms for result in results for ms in result["ms"]]
    peaks = [result["peak_mib"] for result in results if result["peak_mib"] is not None]
    spread = np.percentile(samples, (0, 25, 50, 75, 100)) if samples else [None] * len(names)
    times = {name: ms if ms is None else float(f"{ms:.4g}") for name, ms in zip(names, spread, strict=True)}
    return {"ms": times.pop("ms"), **times, "samples": len(samples), "peak_mib": max(peaks, default=None)}


def _table(rows: list[dict[str, Any]]) -> bytes:
    table = io.StringIO()
    writer = csv.DictWriter(table, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return table.getvalue().encode()


def _write(output: Path, ending: str, content: bytes) -> None:
    with replaced_file(output.with_name(output.name + ending)) as partial:
        partial.write_bytes(content)
