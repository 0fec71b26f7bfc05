"""Search over the settings of a recipe with KerasTuner.

``zoo search`` trains every trial in a process of its own; :class:`HyperModel` is for a KerasTuner tuner in a notebook.
"""

import importlib

_PUBLIC = {
    "HyperModel": "zoo.search.hypermodel",
    "Search": "zoo.search.settings",
    "Space": "zoo.search.space",
    "search": "zoo.search.run",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str):
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'zoo.search' has no attribute {name!r}")
