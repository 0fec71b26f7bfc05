"""Names for what can be swapped: attention kinds, positional schemes, architectures and tasks.

Built-in names are declared in the ``__init__`` of the package that holds them and imported on first use, so that
listing names imports neither Keras nor TensorFlow. A plugin registers its classes with a decorator:

    from zoo import registry

    @registry.attention.register("talking_heads")
    class TalkingHeads(zoo.Attention):
        ...
"""

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zoo.errors import UnknownNameError, near


class Registry:
    """One kind of thing, by name.

    Args:
        kind: what is registered, in the words of an error message ("attention").
        package: the package whose ``__init__`` declares the built-in names.
    """

    def __init__(self, kind: str, package: str):
        self.kind = kind
        self._package = package
        self._declared: dict[str, str] = {}  # name -> "module:Class", not imported yet
        self._classes: dict[str, type] = {}  # name -> class

    def declare(self, package: str, built_in: Mapping[str, str]) -> Callable[[str], Any]:
        """Declares the built-in names of ``package`` without importing them.

        Args:
            package: the declaring package's ``__name__``.
            built_in: name -> class; the class lives in the module ``<package>.<name>``, or in the module that a
                ``"module:Class"`` value names.

        Returns:
            A module ``__getattr__`` (PEP 562) that imports a class when it is first asked for.
        """
        classes = {}
        for name, target in built_in.items():
            module, _, class_name = target.rpartition(":")
            self._declared[name] = f"{package}.{module or name}:{class_name}"
            classes[class_name] = name

        def module_getattr(attribute: str):
            if attribute in classes:
                return self.get(classes[attribute])
            raise AttributeError(f"module {package!r} has no attribute {attribute!r}")

        return module_getattr

    def register(self, name: str) -> Callable[[type], type]:
        """Decorates a class: ``name`` stands for it from now on.

        A Keras layer or model becomes serializable as ``zoo><kind>.<name>``, so a saved model loads in a fresh
        process once the module that registers it is imported.

        Raises:
            ValueError: the name is taken, with both modules named.
        """

        def decorate(cls: type) -> type:
            declared = self._declared.get(name, "").partition(":")[0]
            holder = self._classes.get(name)
            if declared and declared != cls.__module__:
                raise ValueError(
                    f"{self.kind} {name!r} of {cls.__module__} is taken by {declared}; choose another name"
                )
            if holder is not None and not _same_definition(holder, cls):
                raise ValueError(
                    f"{self.kind} {name!r} of {cls.__module__} is taken by {holder.__module__}; choose another name"
                )
            self._classes[name] = cls
            keras = sys.modules.get("keras")  # a Keras class has imported Keras; a task has not, and need not
            if keras is not None and issubclass(cls, keras.layers.Layer):
                keras.saving.register_keras_serializable("zoo", f"{self.kind}.{name}")(cls)
            return cls

        return decorate

    def unregister(self, name: str) -> None:
        """Takes back what :meth:`register` did, for a class that was to have a name only for a while."""
        cls, full_name = self._classes.pop(name), f"zoo>{self.kind}.{name}"
        keras = sys.modules.get("keras")
        if keras is None or not issubclass(cls, keras.layers.Layer):
            return
        from keras.src.saving.object_registration import GLOBAL_CUSTOM_NAMES  # no public function forgets a name

        objects = keras.saving.get_custom_objects()
        objects.pop(full_name, None)
        if GLOBAL_CUSTOM_NAMES.get(cls) == full_name:
            del GLOBAL_CUSTOM_NAMES[cls]
            for other_name, other in objects.items():
                if other is cls:  # the name it had before
                    GLOBAL_CUSTOM_NAMES[cls] = other_name

    def get(self, name: str) -> type:
        """The class registered as ``name``.

        Raises:
            UnknownNameError: see :meth:`require`.
        """
        self.require(name)
        if name not in self._classes:
            module, _, class_name = self._declared[name].partition(":")
            self._classes[name] = getattr(importlib.import_module(module), class_name)
        return self._classes[name]

    def require(self, name: str) -> None:
        """Sees that there is something of that name; imports no implementation.

        Raises:
            UnknownNameError: nothing is registered under that name; the message lists the names that there are.
        """
        names = self.names()
        if name not in names:
            raise UnknownNameError(f"unknown {self.kind} {name!r}{near(name, names)}; there are: {', '.join(names)}")

    def names(self) -> list[str]:
        """All names, sorted; imports no implementation."""
        importlib.import_module(self._package)
        return sorted({*self._declared, *self._classes})

    def summary(self, name: str) -> str:
        """The first line of the class's docstring, read from its source when the class is not imported yet."""
        importlib.import_module(self._package)
        if name in self._classes:
            return _first_line(self._classes[name].__doc__)
        module, _, class_name = self._declared[name].partition(":")
        tree = ast.parse(Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == class_name:
                return _first_line(ast.get_docstring(node))
        return ""

    def module(self, name: str) -> str:
        """The module that holds ``name``."""
        importlib.import_module(self._package)
        if name in self._classes:
            return self._classes[name].__module__
        return self._declared[name].partition(":")[0]


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().partition("\n")[0]


def _same_definition(old: type, new: type) -> bool:
    """A notebook cell run again, or a reloaded module, defines the same class anew; that is no clash."""
    return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)


attention = Registry("attention", "zoo.layers.attention")
position = Registry("position", "zoo.layers.position")
architecture = Registry("architecture", "zoo.architectures")
task = Registry("task", "zoo.tasks")

ALL = {registry.kind: registry for registry in (attention, position, architecture, task)}
