"""Recipes are found by name, by path or in a plugin's directory, and loaded."""

import pytest

from zoo import recipe as recipes
from zoo.errors import InputError
from zoo.recipe import Recipe, TaskConfig

RECIPE = Recipe(task=TaskConfig("copy"))


@pytest.fixture(autouse=True)
def directories(monkeypatch):
    """The recipe directories that plugins add, for the length of a test."""
    monkeypatch.setattr("zoo.recipe.files._directories", {})


@pytest.fixture
def written(tmp_path):
    """``written("...")`` is the path of a recipe file with that text."""

    def write(text: str | bytes):
        path = tmp_path / "mine.py"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


TEXT = '''"""Mine."""

from zoo.recipe import Recipe, TaskConfig


def get_recipe():
    return Recipe(task=TaskConfig("copy"))
'''


def test_built_in_recipes_are_listed_found_and_loaded():
    found = recipes.list_recipes()
    assert {"copy", "number_words"} <= found.keys()
    assert "__init__" not in found
    assert recipes.find("copy") == found["copy"]
    assert recipes.load("copy").task.name == "copy"


def test_a_file(written):
    assert recipes.load(written(TEXT)) == RECIPE


def test_a_directory_of_a_plugin(tmp_path):
    for name in ("tiny", "__init__"):
        (tmp_path / f"{name}.py").write_text(TEXT)
    recipes.add_directory("theirs", tmp_path)
    assert recipes.load("theirs/tiny") == RECIPE
    assert "theirs/tiny" in recipes.list_recipes()
    assert "theirs/__init__" not in recipes.list_recipes()
    with pytest.raises(InputError, match=r"unknown recipe 'theirs/tinny' .*did you mean 'theirs/tiny'"):
        recipes.load("theirs/tinny")
    with pytest.raises(InputError, match="unknown recipe 'tiny'"):
        recipes.load("tiny")


def test_an_unknown_recipe_names_the_close_and_all():
    with pytest.raises(InputError) as error:
        recipes.find("cpy")
    assert "unknown recipe 'cpy' (did you mean 'copy'?); there are: " in str(error.value)
    assert all(name in str(error.value) for name in recipes.list_recipes())


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"recipe file '.*none.py' does not exist"):
        recipes.load(str(tmp_path / "none.py"))
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(InputError, match=r"recipe file '.*folder.py' does not exist"):
        recipes.load(str(tmp_path / "folder.py"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('no\\nway')", "RuntimeError: no way"),
        ("def get_recipe(", "SyntaxError"),
        ("x = 1", "get_recipe"),
        ("def get_recipe(): return 3", "must return a Recipe, not int"),
        ("def get_recipe(): pass", "must return a Recipe, not NoneType"),
        ("def get_recipe(): raise KeyError('k')", "KeyError: 'k'"),
        ("import no_such_module_here", "ModuleNotFoundError"),
        (TEXT.replace('"copy"', "3"), "task.name must be text, not 3"),
        (TEXT.replace('TaskConfig("copy")', '"copy"'), "failed"),
        (TEXT.replace('"copy"', '"copy", size=3'), "size"),
        (b"x = '\xff'", "SyntaxError"),
    ],
)
def test_a_file_that_is_no_recipe(written, text, message):
    path = written(text)
    with pytest.raises(InputError) as error:
        recipes.load(path)
    assert message in str(error.value)
    assert path in str(error.value)
    assert "\n" not in str(error.value)


def test_docstring_is_read_without_running(written, tmp_path):
    assert recipes.docstring(recipes.find(written(f"{TEXT}\nraise RuntimeError"))) == "Mine."
    assert recipes.docstring(recipes.find(written("x = 1"))) == ""
    for wrong in ("def (", b"'\xff'"):
        with pytest.raises(InputError, match="is not Python"):
            recipes.docstring(recipes.find(written(wrong)))
