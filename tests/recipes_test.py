"""Every recipe loads, says how it is run, and can be trained as far as that is known before it is."""

import ast
from pathlib import Path

import pytest

from zoo import recipe as recipes

RECIPES = recipes.list_recipes()


def test_every_file_is_a_recipe():
    files = {path.name for path in (Path(__file__).parents[1] / "recipes").glob("*.py")}
    assert {path.name for path in RECIPES.values()} == files - {"__init__.py"}
    assert {"copy.py", "number_words.py"} <= files


@pytest.mark.parametrize("name", RECIPES)
def test_the_docstring_names_the_command(name):
    assert f"zoo train --recipe={name}" in recipes.docstring(RECIPES[name])


@pytest.mark.parametrize("name", RECIPES)
def test_it_imports_only_recipe(name):
    nodes = list(ast.walk(ast.parse(RECIPES[name].read_text())))
    imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert imported == ["zoo.recipe"]


@pytest.mark.parametrize("name", RECIPES)
def test_it_passes_the_check_as_it_is_and_once_resolved(name):
    from zoo.training.check import check

    resolved = check(recipes.load(name))
    assert recipes.from_json(resolved.to_json()) == resolved
    assert check(resolved) == resolved


@pytest.mark.parametrize("name", RECIPES)
def test_show_prints_it(called, name):
    code, out, err = called("show", name)
    assert (code, err) == (0, "")
    assert out.startswith(recipes.docstring(RECIPES[name]))
    assert f"task.name\t{recipes.load(name).task.name}\n" in out
