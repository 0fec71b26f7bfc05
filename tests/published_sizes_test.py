"""The published Transformers have their size.

`python benchmarks/published_sizes.py --recipe=wmt14_ende_base` also trains them for two steps, which is too slow here.
"""

import keras
import pytest
from keras.src.initializers import random_initializers

from zoo import recipe as recipes
from zoo import registry
from zoo.training.check import check, settings_of


@pytest.mark.parametrize(
    # The paper rounds to 65 and 213 million, with a vocabulary of "about 37,000".
    ("name", "parameters"),
    [("wmt14_ende_base", 63_082_496), ("wmt14_ende_big", 214_245_376)],
)
def test_parameters(name, parameters, monkeypatch):
    for drawn in ("normal", "uniform"):  # random numbers would take a minute
        monkeypatch.setattr(random_initializers.random, drawn, lambda shape, *args, **settings: keras.ops.zeros(shape))
    recipe = check(recipes.load(name))
    assert recipe.task.options["vocabulary"] == 37000
    sizes = {"source_vocabulary": 37000, "target_vocabulary": 37000, "max_length": 256}
    model = registry.architecture.get("transformer")(**sizes, **settings_of(recipe.model))
    model.build()
    assert model.count_params() == parameters
