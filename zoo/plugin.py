"""Loads plugins: modules outside this repository that register attention kinds, schemes, architectures, tasks.

There are three doors: an entry point in the group ``zoo.plugins`` of an installed distribution, the name of a
module, and the path of a file. ``import zoo`` loads none of them; the command line and :func:`zoo.load` do.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import sys
import types
from dataclasses import dataclass
from pathlib import Path

from zoo.errors import InputError

GROUP = "zoo.plugins"

_PLACES: set[Path] = set()  # files, and folders of packages


@dataclass(frozen=True)
class Plugin:
    """A plugin that was asked for: where it came from, and why it failed if it did."""

    name: str
    source: str
    error: str = ""


def load_installed() -> list[Plugin]:
    """Imports every entry point in the group ``zoo.plugins``; one that fails is reported and the rest go on."""
    plugins = []
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: e.name):
        source = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
        try:
            _remember(importlib.import_module(entry.module))
            entry.load()
            plugins.append(Plugin(entry.name, source))
        except (
            Exception,
            SystemExit,
        ) as error:  # a plugin may raise anything; it must not take the command down with it
            plugins.append(Plugin(entry.name, source, _one_line(error)))
    return plugins


def load(spec: str) -> Plugin:
    """Imports the plugin that ``spec`` names: a path that ends in ``.py``, or a module.

    A file is imported under a module name made from its content, so no two files clash, and a file and the copy of it
    that a run keeps are one plugin, imported once.

    Raises:
        InputError: there is no such file or module, or it raised while it was imported.
    """
    try:
        if not all(part.isidentifier() for part in spec.split(".")) and not spec.endswith(".py"):
            raise InputError(f"plugin {spec!r} is neither a module's name nor the path of a .py file")
        if spec.endswith(".py"):
            _import_file(Path(spec))
        else:
            _remember(importlib.import_module(spec))
    except InputError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (spec == error.name or spec.startswith(error.name + ".")):
            raise InputError(
                f"plugin {spec!r} is not installed; give an installed module or the path of a .py file"
            ) from error
        raise InputError(f"plugin {spec!r} failed to import: {_one_line(error)}") from error
    except (Exception, SystemExit) as error:
        raise InputError(f"plugin {spec!r} failed to import: {_one_line(error)}") from error
    return Plugin(spec, spec)


def is_loaded_file(path: str) -> bool:
    """Whether the file at ``path`` is a plugin that was loaded, or part of the package of one."""
    return not _PLACES.isdisjoint((Path(path), *Path(path).parents))


def module_name(path: Path) -> str:
    """The module name under which the file at ``path`` is imported: of no other file, unless it says the same."""
    return f"zoo_plugin_{path.stem}_{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"plugin file {str(path)!r} does not exist")
    name = module_name(path)
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    _remember(module)
    sys.modules[name] = module  # before it runs: its classes look themselves up by module name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _remember(module: types.ModuleType) -> None:
    """Keeps where a plugin's code lies."""
    _PLACES.update(map(Path, getattr(module, "__path__", None) or filter(None, [getattr(module, "__file__", None)])))


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
