"""``zoo check`` and ``zoo bench``."""

import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

from absl import flags

from zoo import recipe as recipes
from zoo import registry
from zoo.commands import given
from zoo.commands.tables import form_of, print_rows
from zoo.errors import InputError, UnknownNameError, near

_SIZES = ("num_heads", "head_dim")  #: What the variants of a kind, and the kinds of a bench, may set with its options.


def check(values: flags.FlagValues, arguments: list[str]) -> int:
    """Prints the conformance of an attention kind or a positional scheme; 1 when a property fails."""
    if len(arguments) != 1:
        raise InputError("name one attention kind or positional scheme, as in `zoo check local`")
    name, changed, form = arguments[0], given.changes(values), form_of(values.format)
    with given.plugins(values.plugin, changed.get("train.backend")), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You are using a softmax over axis")  # of one key, which is tried on purpose
        kind = _kind_of(name)
        options, num_heads = _options(kind, changed)
        given.import_tensorflow()
        from zoo.testing import check_attention, check_position

        _try(kind, name, options, num_heads)
        if kind == "attention":
            report = check_attention(name, num_heads=num_heads, tell=_teller(form), **options)
        else:
            report = check_position(name, tell=_teller(form), **options)
    if form == "json":
        print_rows([vars(result) for result in report.results], form)
    elif form == "table":
        print(f"{len(report.results)} properties, {len(report.failures)} failed")
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
        from zoo.bench import Settings, bench, parse_kind, split_kinds

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
        for kind, options in map(parse_kind, kinds):
            _try_to_measure(kind, options, heads)
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


def _teller(form: str) -> Callable[[Any], None]:
    """Prints a result of ``zoo check`` as soon as it is known; JSON waits, as a part of it can't be read."""
    subjects = []

    def tell(result):
        if form == "tsv":
            print(*vars(result).values(), sep="\t", flush=True)
        elif form == "table":
            if result.subject not in subjects:
                subjects.append(result.subject)
                print(result.subject)
            text, margin = ": ".join(filter(None, (result.property, result.detail))), 15 * " "
            room = max(shutil.get_terminal_size().columns, 40)
            first = f"  {result.status:<11}  "
            print(textwrap.fill(text, room, initial_indent=first, subsequent_indent=margin), flush=True)

    return tell


def _try(kind: str, name: str, options: dict[str, Any], num_heads: int | None) -> None:
    """Refuses what was asked for where no layer can be made of it: that is no property that fails."""
    from zoo.testing.position import MAX_LENGTH, SIZES
    from zoo.training.check import check_options

    cls = registry.ALL[kind].get(name)
    if kind == "position":
        cls(**SIZES, max_length=MAX_LENGTH, **check_options(kind, name, options))
    elif options:
        check_options(kind, name, options, num_heads)
    elif num_heads:
        for variant in cls.variants:
            check_options(kind, name, {o: v for o, v in variant.items() if o not in _SIZES}, num_heads)


def _try_to_measure(name: str, options: dict[str, Any], num_heads: int) -> None:
    """Refuses a kind with options that no layer can be made of, rather than let each of its processes fail."""
    given.import_tensorflow()
    from zoo.training.check import check_options

    own = {option: value for option, value in options.items() if option not in _SIZES}
    for option in options.keys() - own.keys():
        if type(options[option]) is not int or options[option] < 1:
            raise InputError(f"{option} of {name} must be a whole number of at least 1, not {options[option]!r}")
    check_options("attention", name, own, options.get("num_heads", num_heads))


def _options(kind: str, changed: dict[str, Any]) -> tuple[dict[str, Any], int | None]:
    """The options of the kind, and the heads, among the settings that flags change."""
    model = recipes.Recipe(task=recipes.TaskConfig("copy")).override(changed).model
    prefix = f"model.{kind}_options."
    for path in changed:
        if not path.startswith(prefix) and path not in ("model.num_heads", "train.backend"):
            raise InputError(f"`zoo check` has no use for {path}{near(path, [prefix + '...'])}; set {prefix}<name>")
    if model.num_heads is not None and kind == "position":
        raise InputError("--num_heads is of attention kinds; a positional scheme is tried with 2 heads")
    if model.num_heads is not None and model.num_heads < 1:
        raise InputError(f"--num_heads must be at least 1, not {model.num_heads}")
    return getattr(model, f"{kind}_options"), model.num_heads
