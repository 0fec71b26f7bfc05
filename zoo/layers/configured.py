"""Layers whose config is what they were constructed with."""

import copy
import inspect
from inspect import Parameter


def constructor_parameters(cls: type, stop: type = object) -> dict[str, Parameter]:
    """What the constructor takes, by name: its own parameters and, through ``**kwargs``, those of its bases.

    The walk ends before ``stop``, or at the first constructor that passes nothing on.
    """
    found: dict[str, Parameter] = {}
    for ancestor in cls.__mro__:
        if ancestor is stop:
            break
        if "__init__" not in vars(ancestor):
            continue
        parameters = list(inspect.signature(ancestor.__init__).parameters.values())[1:]
        for parameter in parameters:
            if parameter.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL):
                found.setdefault(parameter.name, parameter)
        if not any(parameter.kind == Parameter.VAR_KEYWORD for parameter in parameters):
            break
    return found


class Configured:
    """Mixin for Keras layers and models: ``get_config`` returns the constructor's arguments, defaults included.

    Keras does this by itself only while every argument is a plain value and the class is no model. A subclass needs
    a ``get_config`` of its own only for arguments that are not plain, such as an initializer object.
    """

    def __new__(cls, *args, **kwargs):
        instance = super().__new__(cls, *args, **kwargs)
        parameters = constructor_parameters(cls, stop=Configured)
        arguments = {n: p.default for n, p in parameters.items() if p.default is not Parameter.empty}
        positional = list(inspect.signature(cls.__init__).parameters)[1:]
        arguments |= dict(zip(positional, args, strict=False))
        arguments |= {name: value for name, value in kwargs.items() if name in parameters}
        for name in ("name", "dtype", "trainable"):  # Keras keeps these itself
            arguments.pop(name, None)
        # Past Keras' attribute tracking, which starts with the constructor and would wrap the values.
        object.__setattr__(instance, "_arguments", copy.deepcopy(arguments))
        return instance

    def get_config(self) -> dict:
        return {**super().get_config(), **copy.deepcopy(self._arguments)}
