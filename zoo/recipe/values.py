"""What a setting may hold: values held against the type that it is declared with."""

import json
import math
import types
import typing
from typing import Any

from zoo.errors import InputError

#: ``int | None`` and ``Optional[int]``: plugins may write either.
_UNIONS = (types.UnionType, typing.Union)
_CONTAINERS = {dict: "settings by name", list: "a list", tuple: "a list"}


def check_value(path: str, value: Any, hint: Any) -> None:
    """Raises InputError where the setting at ``path``, declared as ``hint``, cannot be ``value``."""
    if not accepts(hint, value):
        raise InputError(f"{path} must be {type_name(hint)}, not {value!r}")
    if hint is Any and not _is_plain(value):
        raise InputError(f"{path} must be a value that JSON can hold (a list, not a tuple), not {value!r}")


def _is_plain(value: Any) -> bool:
    """Whether a run that reads ``value`` from its ``recipe.json`` has an equal one."""
    try:
        return json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        return False


def accepts(hint: Any, value: Any) -> bool:
    """Whether ``value`` is of the type that a setting is declared with."""
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in _UNIONS:
        return any(accepts(option, value) for option in args)
    if origin is typing.Literal:
        return value in args
    if origin is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if origin is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if not isinstance(origin, type) or origin is Any:  # nothing that a plain value could be held against
        return True
    if not isinstance(value, origin):
        return False
    if origin is dict and args:
        return all(accepts(args[0], key) and accepts(args[1], item) for key, item in value.items())
    return all(accepts(args[0], item) for item in value) if origin in (list, tuple) and args else True


def type_name(hint: Any) -> str:
    """A type in the words of an error message."""
    if typing.get_origin(hint) in _UNIONS:
        return " or ".join(type_name(option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(repr(option) for option in typing.get_args(hint))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "none"}
    return names.get(hint) or _CONTAINERS.get(typing.get_origin(hint), str(hint))
