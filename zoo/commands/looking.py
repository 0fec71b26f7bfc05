"""``zoo list``, ``zoo show`` and ``zoo copy``."""

import json
from pathlib import Path
from typing import Any

from absl import flags

from zoo import plugin, registry
from zoo import recipe as recipes
from zoo.commands import given
from zoo.commands.tables import print_rows
from zoo.errors import InputError, near
from zoo.training.run_directory import RunDirectory


def list_(values: flags.FlagValues, arguments: list[str]) -> None:
    """Prints what there is."""
    kinds = [*registry.ALL, "recipe"]
    for kind in arguments:
        if kind not in kinds:
            raise InputError(f"nothing of the kind {kind!r}{near(kind, kinds)}; there are: {', '.join(kinds)}")
    with given.plugins(values.plugin):
        print_rows(_listed(arguments or kinds), values.format)


def _listed(kinds: list[str]) -> list[dict[str, str]]:
    rows = []
    for kind in kinds:
        if kind == "recipe":
            for name, path in recipes.list_recipes().items():
                rows.append({"kind": kind, "name": name, "summary": recipes.docstring(path).partition("\n")[0]})
        else:
            held = registry.ALL[kind]
            rows += [{"kind": kind, "name": name, "summary": held.summary(name)} for name in held.names()]
    return rows


def show(values: flags.FlagValues, arguments: list[str]) -> None:
    """Prints what a recipe or a run says."""
    names = [*arguments, *([values.recipe] if values.recipe else [])]
    if len(names) != 1:
        raise InputError("name one recipe or run directory, as in `zoo show number_words`")
    file, said = Path(names[0]) / "recipe.json", ""
    with given.plugins(values.plugin):
        if file.is_file():
            recipe = recipes.read_json(file)
            specs = RunDirectory(names[0]).plugin_specs()
        else:
            recipe, said = recipes.load(names[0]), recipes.docstring(recipes.find(names[0]))
            specs = recipe.plugins
        recipe = recipe.override(given.changes(values))
        if values.format != "json":  # which is to be read again, and other defaults may hold then
            for spec in specs:
                plugin.load(spec)
            given.import_tensorflow()
            from zoo.training.check import check

            recipe = check(recipe)
    if values.format == "json":
        print(recipe.to_json(), end="")
    else:
        if said and values.format != "tsv":
            print(said + "\n")
        rows = [{"setting": path, "value": _shown(value)} for path, value in recipes.flatten(recipe).items()]
        print_rows(rows, values.format)


def copy(values: flags.FlagValues, arguments: list[str]) -> None:
    """Copies a recipe to a file to edit."""
    if not 1 <= len(arguments) <= 2:
        raise InputError("name a recipe and the file to make, as in `zoo copy number_words mine.py`")
    with given.plugins(values.plugin):
        source = recipes.find(arguments[0])
    target = Path(arguments[1] if len(arguments) == 2 else source.name)
    target = target / source.name if target.is_dir() else target
    if target.suffix != ".py":
        raise InputError(f"a recipe file ends in .py, and {str(target)!r} does not")
    content = source.read_bytes()
    try:
        with open(target, "xb") as file:
            file.write(content)
    except FileExistsError as error:
        raise InputError(f"{str(target)!r} exists; name another file") from error
    except OSError as error:
        raise InputError(f"{str(target)!r} cannot be written: {error.strerror}") from error
    print(f"{target}: edit it, then run `zoo train --recipe={target}`")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
