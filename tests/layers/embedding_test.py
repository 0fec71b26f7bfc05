import keras
import numpy as np
import pytest
from keras import ops

from zoo.layers.embedding import TokenEmbedding

pytestmark = pytest.mark.backends


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


@pytest.fixture
def table(rng):
    return rng.normal(size=(11, 6)).astype("float32")


def make(table, **settings):
    layer = TokenEmbedding(*table.shape, **settings)
    layer.build()
    layer.table.assign(table)
    return layer


def test_vectors_are_rows_of_the_table_times_the_root_of_the_width(table):
    tokens = np.array([[0, 10, 3], [3, 3, 1]], "int32")
    np.testing.assert_allclose(array(make(table)(tokens)), table[tokens] * np.sqrt(6), rtol=1e-6)


def test_logits_are_products_with_every_vector(rng, table):
    x = rng.normal(size=(2, 3, 6)).astype("float32")
    np.testing.assert_allclose(array(make(table).logits(x)), x.astype("float64") @ table.T, atol=1e-5)


def test_vectors_start_at_unit_scale():
    layer = TokenEmbedding(500, 64)
    assert abs(array(layer(np.arange(500)[None])).std() - 1) < 0.02


def test_dtype_policy(table):
    layer = make(table, dtype="mixed_bfloat16")
    out = layer(np.array([[1, 2]]))
    assert layer.table.dtype == "float32"
    for result in (out, layer.logits(out)):
        assert keras.backend.standardize_dtype(result.dtype) == "bfloat16"
