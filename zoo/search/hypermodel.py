"""A recipe as a KerasTuner hypermodel."""

import copy
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import keras_tuner
from keras_tuner.errors import FailedTrialError

from zoo import plugin
from zoo.errors import InputError
from zoo.recipe import Recipe
from zoo.search.space import Space
from zoo.tasks.base import Task
from zoo.training.build import build_model, build_task
from zoo.training.check import check, monitors
from zoo.training.devices import find_devices
from zoo.training.schedules import make_optimizer


class HyperModel(keras_tuner.HyperModel):
    """A recipe with the settings that are searched, for any tuner of KerasTuner.

        import keras_tuner, zoo.search

        hypermodel = zoo.search.HyperModel(recipe, {"model.num_heads": (2, 4), "model.depth": "1:3"})
        tuner = keras_tuner.RandomSearch(hypermodel, objective=hypermodel.objective, max_trials=5, directory="notebook")
        tuner.search()

    ``search`` trains on the recipe's own data when it is given none. A combination that can't be built is a failed
    trial. All trials share the process; ``zoo search`` gives each its own, and goes on inside one that was killed.

    Args:
        recipe: what is not searched.
        over: path -> values, or a range as text (see :mod:`zoo.search.space`); the recipe's ``search`` when None.

    Raises:
        InputError: the recipe can't be trained, or not over that space.
    """

    def __init__(self, recipe: Recipe, over: Mapping[str, Any] | None = None):
        super().__init__()
        for spec in recipe.plugins:
            plugin.load(spec)
        check(recipe)
        self.recipe = recipe
        self.space = Space(recipe, over)
        self._tasks: dict[str, Task] = {}

    @property
    def objective(self) -> keras_tuner.Objective:
        """What the recipe monitors, under the name that it has in ``fit``.

        Raises:
            InputError: it is measured on decoded text, which ``fit`` does not do.
        """
        task, name = self._task(check(self.recipe)), self.recipe.train.monitor
        if name in task.decoded_metrics:
            raise InputError(f"{name} is measured on decoded text: search with zoo search, or set train.monitor")
        return keras_tuner.Objective(f"val_{name}", "max" if monitors(task)[name] else "min")

    def build(self, hp):
        self.space.declare(hp)
        try:
            recipe = check(self._recipe(hp))
        except InputError as error:
            return _Refused(str(error))
        keras.utils.set_random_seed(recipe.train.seed)
        task = self._task(recipe)
        model = build_model(recipe, task)
        jit = recipe.train.jit
        model.compile(
            optimizer=make_optimizer(recipe.train, recipe.model.width or 1),
            loss=task.loss(recipe.train.label_smoothing),
            weighted_metrics=task.metrics(),
            jit_compile=find_devices().jit if jit is None else jit,
        )
        return model

    def fit(self, hp, model, *args, callbacks=(), **kwargs):
        if isinstance(model, _Refused):
            raise FailedTrialError(model.reason)
        recipe = check(self._recipe(hp))
        train, task = recipe.train, self._task(recipe)
        if train.ema is not None:
            callbacks = [keras.callbacks.SwapEMAWeights(), *callbacks]
        if not args and "x" not in kwargs:
            settings = {"batch_tokens": train.batch_tokens}
            stream = task.batches("train", model.layout, buckets=train.buckets, seed=train.seed, **settings)
            valid = task.batches("valid", model.layout, buckets=1, **settings)
            kwargs = {
                "x": stream.dataset,
                "steps_per_epoch": min(train.validate_every, train.steps),
                "epochs": math.ceil(train.steps / train.validate_every),
                "validation_data": valid.dataset,
                "validation_steps": valid.steps,
                "shuffle": False,
                **kwargs,
            }
        return model.fit(*args, callbacks=list(callbacks), **kwargs)

    def _recipe(self, hp) -> Recipe:
        return self.recipe.override(self.space.changes(hp.values))

    def _task(self, recipe: Recipe) -> Task:
        """The task of a recipe, prepared; one for all recipes that share it."""
        key = repr(recipe.task)
        if key not in self._tasks:
            task = build_task(recipe)
            with tempfile.TemporaryDirectory() as folder:
                task.prepare(Path(folder))
            self._tasks[key] = task
        return self._tasks[key]

    def __deepcopy__(self, memo):
        """Tuners copy what they are given; a task's tables stay the same."""
        copied = copy.copy(self)
        memo[id(self)] = copied
        return copied


class _Refused(keras.Model):
    """In place of a model that can't be built: KerasTuner's constructor builds some to see the space."""

    def __init__(self, reason: str):
        super().__init__()
        self.reason = reason
