"""``zoo check`` and ``zoo bench``."""

import sys
from typing import Any

from absl import flags

from zoo import recipe as recipes
from zoo import registry
from zoo.commands import given
from zoo.commands.tables import print_rows
from zoo.errors import InputError, UnknownNameError, near


def check(values: flags.FlagValues, arguments: list[str]) -> int:
    """Prints the conformance of an attention kind or a positional scheme; 1 when a property fails."""
    if len(arguments) != 1:
        raise InputError("name one attention kind or positional scheme, as in `zoo check local`")
    changed = given.changes(values)
    with given.plugins(values.plugin, values.backend):
        kind = _kind_of(arguments[0])
        options, num_heads = _options(kind, changed)
        given.import_tensorflow()
        from zoo.testing import check_attention, check_position
        from zoo.training.check import check_options

        check_options(kind, arguments[0], options, num_heads)
        if kind == "attention":
            report = check_attention(arguments[0], num_heads=num_heads, **options)
        else:
            report = check_position(arguments[0], **options)
    rows = [vars(result) for result in report.results]
    print_rows(rows, values.format)
    return 0 if report else 1


def bench(values: flags.FlagValues, arguments: list[str]) -> None:
    """Prints time and memory of attention kinds over lengths, and writes them as a table and a picture."""
    if not values.attention:
        raise InputError("name the kinds to measure, as in --attention=multi_head,relative,local:block_length=256")
    heads = given.int_of("num_heads", values.num_heads or "4")
    width = given.int_of("width", values.width or str(64 * heads))
    if heads < 1 or width % heads:
        raise InputError(f"{heads} heads don't divide the width {width}; change --num_heads or --width")
    lengths = [given.int_of("lengths", length) for length in values.lengths]
    with given.plugins(values.plugin, values.backend):
        from zoo.bench import Settings, bench, split_kinds

        settings = Settings(
            train=values["pass"].value == "train",
            causal=values.causal,
            num_heads=heads,
            head_dim=width // heads,
            backend=values.backend,
            plugins=[given.absolute(spec) for spec in values.plugin],
            repeats=values.repeats,
        )
        kinds = split_kinds(values.attention)
        rows = bench(kinds, lengths, values.output, settings, rounds=values.rounds, tell=_tell)
    shown = ("kind", "length", "ms", "ms_q1", "ms_q3", "peak_mib", "growth", "failure")
    print_rows([{name: "" if row[name] is None else str(row[name]) for name in shown} for row in rows], values.format)
    _tell(f"{values.output}.csv, {values.output}.png")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _kind_of(name: str) -> str:
    held = {kind: registry.ALL[kind].names() for kind in ("attention", "position")}
    for kind, names in held.items():
        if name in names:
            return kind
    names = [*held["attention"], *held["position"]]
    raise UnknownNameError(
        f"no attention kind or positional scheme {name!r}{near(name, names)}; there are: {', '.join(names)}"
    )


def _options(kind: str, changed: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """The options of the kind, and the heads, among the settings that flags change."""
    model = recipes.Recipe(task=recipes.TaskConfig("copy")).override(changed).model
    prefix = f"model.{kind}_options."
    for path in changed:
        if not path.startswith(prefix) and path not in ("model.num_heads", "train.backend"):
            raise InputError(f"`zoo check` has no use for {path}{near(path, [prefix + '...'])}; set {prefix}<name>")
    return getattr(model, f"{kind}_options"), model.num_heads
