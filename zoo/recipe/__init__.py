"""Recipes: everything that decides what a run does, as frozen dataclasses of plain values.

A recipe file holds a docstring (the paper, the number to expect, the time it takes and on what, the command) and
``get_recipe()``. It is found by name, by path, or as ``plugin/name`` in a directory that a plugin added.
"""

from zoo.recipe.config import (
    ModelConfig,
    Recipe,
    TaskConfig,
    TrainConfig,
    field_type,
    flatten,
    from_json,
    read_json,
)
from zoo.recipe.files import add_directory, built_in_directory, docstring, find, list_recipes, load
from zoo.recipe.flags import SHORT_FLAGS, parse_setting, parse_value
from zoo.recipe.values import accepts, type_name

__all__ = [
    "SHORT_FLAGS",
    "ModelConfig",
    "Recipe",
    "TaskConfig",
    "TrainConfig",
    "accepts",
    "add_directory",
    "built_in_directory",
    "docstring",
    "field_type",
    "find",
    "flatten",
    "from_json",
    "list_recipes",
    "load",
    "parse_setting",
    "parse_value",
    "read_json",
    "type_name",
]
