"""From a resolved recipe to its task and its model."""

from zoo import registry
from zoo.architectures.base import Architecture
from zoo.errors import InputError
from zoo.recipe import Recipe
from zoo.tasks.base import Task
from zoo.training.check import PRECISIONS, settings_of


def build_task(recipe: Recipe) -> Task:
    """The task of a resolved recipe, not prepared yet."""
    where = {} if recipe.task.data_dir is None else {"data_dir": recipe.task.data_dir}
    return registry.task.get(recipe.task.name)(**where, **recipe.task.options)


def build_model(recipe: Recipe, task: Task) -> Architecture:
    """The model of a resolved recipe, with its variables, for a prepared task.

    Raises:
        InputError: the task does not say something that the architecture needs to know.
    """
    cls = registry.architecture.get(recipe.model.architecture)
    spec = task.spec(cls.layout)
    try:
        model = cls(**spec, **settings_of(recipe.model), dtype=PRECISIONS[recipe.train.precision])
    except TypeError as error:
        raise InputError(
            f"task {recipe.task.name!r} and architecture {recipe.model.architecture!r} don't fit: {error}"
        ) from error
    model.build()
    return model
