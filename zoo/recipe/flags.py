"""Settings as they are typed at the command line: which have a flag of their own, and text as a typed value."""

import ast
from typing import Any

from zoo.errors import InputError
from zoo.recipe.config import field_type
from zoo.recipe.values import accepts, check_value

#: A flag of the command line for what people change most -> the setting it changes.
SHORT_FLAGS = {
    "architecture": "model.architecture",
    "attention": "model.attention",
    "position": "model.position",
    "num_heads": "model.num_heads",
    "depth": "model.depth",
    "width": "model.width",
    "dropout": "model.dropout",
    "data_dir": "task.data_dir",
    "batch_tokens": "train.batch_tokens",
    "steps": "train.steps",
    "minutes": "train.minutes",
    "learning_rate": "train.learning_rate",
    "seed": "train.seed",
    "precision": "train.precision",
    "backend": "train.backend",
}


def parse_setting(text: str) -> tuple[str, Any]:
    """``"model.depth=4"`` as a path and a typed value, for :meth:`Recipe.override`.

    Raises:
        InputError: no ``=``, no such path, or a value of the wrong type.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{text!r} is not path=value, as in model.depth=4")
    return path.strip(), parse_value(path.strip(), value)


def parse_value(path: str, text: str) -> Any:
    """A value typed at the command line, in the type of the setting at ``path``."""
    hint = field_type(path)
    if accepts(hint, text) and hint is not Any:  # "none" is a text, and the name of a positional scheme
        return None if text == "null" and accepts(hint, None) else text
    words = {"true": True, "false": False, "null": None}
    if hint is not Any:
        words["none"] = None  # an option's type is known only to check, and "none" may be the name of something
    if text.lower() in words:
        value = words[text.lower()]
    else:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
    check_value(path, value, hint)
    return value
