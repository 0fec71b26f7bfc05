"""Recipes by name: in this distribution, in a plugin's directory, or in a file of one's own."""

import ast
import importlib.util
from pathlib import Path

from zoo.errors import InputError, UnknownNameError, near
from zoo.recipe.config import Recipe

_PACKAGE = Path(__file__).resolve().parents[1]
_directories: dict[str, Path] = {}


def add_directory(prefix: str, directory: str | Path) -> None:
    """Makes the recipes in ``directory`` available as ``prefix/name``; for plugins."""
    _directories[prefix] = Path(directory)


def built_in_directory() -> Path:
    """Where the recipes of this distribution lie: inside the installed package, or beside it in a checkout."""
    installed = _PACKAGE / "recipes"
    return installed if installed.is_dir() else _PACKAGE.parent / "recipes"


def list_recipes() -> dict[str, Path]:
    """Name -> file of every recipe that can be named, those of loaded plugins included."""
    places = [("", built_in_directory()), *((f"{prefix}/", folder) for prefix, folder in sorted(_directories.items()))]
    return {
        f"{prefix}{path.stem}": path
        for prefix, folder in places
        for path in sorted(folder.glob("*.py"))
        if path.stem != "__init__"
    }


def find(name: str) -> Path:
    """The file of the recipe ``name``: a name, ``plugin/name``, or a path that ends in ``.py``.

    Raises:
        InputError: there is no such recipe or file; near names are given.
    """
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise InputError(f"recipe file {name!r} does not exist")
        return Path(name)
    known = list_recipes()
    if name not in known:
        raise UnknownNameError(f"unknown recipe {name!r}{near(name, known)}; there are: {', '.join(known)}")
    return known[name]


def load(name: str) -> Recipe:
    """Runs the recipe file's ``get_recipe()``.

    Raises:
        InputError: there is no such recipe, the file raises, or ``get_recipe`` is missing or returns something else.
    """
    path = find(name)
    spec = importlib.util.spec_from_file_location(f"zoo_recipe_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        if not hasattr(module, "get_recipe"):
            raise InputError("it defines no get_recipe()")
        recipe = module.get_recipe()
    except InputError as error:
        raise InputError(f"recipe {str(path)!r} failed: {error}") from error
    except (Exception, SystemExit) as error:
        raise InputError(
            f"recipe {str(path)!r} failed: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(recipe, Recipe):
        raise InputError(f"recipe {str(path)!r}: get_recipe() must return a Recipe, not {type(recipe).__name__}")
    return recipe


def docstring(path: Path) -> str:
    """The docstring of a recipe file, read without running it."""
    try:
        return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {str(path)!r} is not Python: {error}") from error
