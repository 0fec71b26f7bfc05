"""What the tests of the layers share."""

import numpy as np
import pytest

from zoo import registry


@pytest.fixture(scope="session")
def make_kind():
    """``make_kind("local", block_length=4)``: a built layer whose biases are not zero, of 2 heads x 4 on width 10."""

    def make(name, heads=2, seed=0, **settings):
        layer = registry.attention.get(name)(heads, 4, **settings)
        layer.build((None, None, 10))
        rng = np.random.default_rng(seed)
        for weight in layer.trainable_weights:
            weight.assign(rng.normal(scale=0.4, size=weight.shape))
        return layer

    return make
