"""What the tests of a search share: a small recipe, and trials that end at once."""

import pytest

from zoo import recipe as recipes
from zoo.training.devices import choose_backend

choose_backend(None)  # as the command line does, before Keras is imported


@pytest.fixture
def tiny(small_copy):
    """The recipe ``copy``, small and quick."""
    return recipes.load("copy").override({**small_copy, "model.depth": 1, "train.jit": False})


@pytest.fixture
def make_search(tiny):
    """``make_search(over, **settings)``: a search from the recipe ``copy``."""
    from zoo.search import Search

    def make(over, changes=None, **settings):
        return Search(tiny.override(changes or {}), "copy", over, **settings)

    return make


@pytest.fixture
def instant(monkeypatch):
    """Trials are not trained: their objective is a function of the recipe. Gives the recipes that were asked for.

    ``instant.die_at`` counts down the trials until one is killed, by ``instant.Killed``, before it has its result.
    """
    from zoo.search import tuner
    from zoo.search.trial import Result, read_result

    class Instant(list):
        class Killed(BaseException):
            """The process is gone."""

        die_at = None
        failure = staticmethod(lambda recipe: "")

        def __call__(self, recipe, folder, max_parameters=None, max_minutes=None):
            if (known := read_result(folder)) is not None:
                return known
            if self.die_at is not None:
                self.die_at -= 1
                if self.die_at < 0:
                    self.die_at = None
                    raise self.Killed
            self.append(recipe)
            failure = self.failure(recipe)
            model = recipe.model
            value = (model.depth - 3) ** 2 + 1 / model.num_heads + 10 / recipe.train.steps
            result = Result(failure=failure) if failure else Result(value=value, step=1, parameters=1, seconds=1.0)
            result.write(folder)
            return result

    calls = Instant()
    monkeypatch.setattr(tuner, "train_in_own_process", calls)
    return calls
