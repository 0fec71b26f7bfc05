"""attention-zoo: a Keras 3 workbench for attention.

Importing ``zoo`` imports neither Keras nor TensorFlow and loads no plugin; each public name is imported when it is
first used.
"""

import importlib

__version__ = "0.1.0"

_PUBLIC = {
    "Attention": "zoo.layers.attention.base",
    "compare": "zoo.layers.attention.heads",
    "masked_softmax": "zoo.layers.attention.heads",
    "weigh": "zoo.layers.attention.heads",
    "Position": "zoo.layers.position.base",
    "Architecture": "zoo.architectures.base",
    "Task": "zoo.tasks.base",
    "InputError": "zoo.errors",
    "Recipe": "zoo.recipe",
    "ModelConfig": "zoo.recipe",
    "TaskConfig": "zoo.recipe",
    "TrainConfig": "zoo.recipe",
    "Decoding": "zoo.generation.settings",
    "train": "zoo.training.train",
    "evaluate": "zoo.training.evaluate",
    "load": "zoo.training.load",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str):
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
