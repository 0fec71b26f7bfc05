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
    # As published, for a vocabulary of "about 37,000".
    ("name", "millions", "d", "hidden"),
    [("wmt14_ende_base", 65, 512, 2048), ("wmt14_ende_big", 213, 1024, 4096)],
)
def test_parameters(name, millions, d, hidden, monkeypatch):
    for drawn in ("normal", "uniform"):  # random numbers would take a minute
        monkeypatch.setattr(random_initializers.random, drawn, lambda shape, *args, **settings: keras.ops.zeros(shape))
    recipe = check(recipes.load(name))
    assert recipe.task.options["vocabulary"] == 37000
    sizes = {"source_vocabulary": 37000, "target_vocabulary": 37000, "max_length": 256}
    model = registry.architecture.get("transformer")(**sizes, **settings_of(recipe.model))
    model.build()
    attention, network, norm = 4 * (d * d + d), 2 * d * hidden + hidden + d, 2 * d
    encoder, decoder = attention + network + 2 * norm, 2 * attention + network + 3 * norm
    assert model.count_params() == 37000 * d + 6 * (encoder + decoder)
    assert abs(model.count_params() / (millions * 1e6) - 1) < 0.04
