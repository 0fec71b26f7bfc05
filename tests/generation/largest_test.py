"""The largest numbers of rows, against a stable sort."""

import keras
import numpy as np
import pytest
from keras import ops

from zoo.generation.largest import first_largest, largest

pytestmark = pytest.mark.backends


@pytest.mark.parametrize("values", [3, 10**6])  # with many equal ones, and with few
@pytest.mark.parametrize(("width", "count"), [(7, 7), (64, 2), (320, 4), (331, 9), (2000, 54), (2048, 10), (331, 1)])
def test_they_come_in_the_order_of_a_stable_sort(width, count, values):
    rng = np.random.default_rng(width + count)
    x = rng.integers(-values, values, (6, width)).astype("float32")
    x[0] = -1e9
    expected = np.argsort(-x, axis=-1, kind="stable")[:, :count]
    found, places = (ops.convert_to_numpy(part) for part in largest(ops.convert_to_tensor(x), count))
    np.testing.assert_array_equal(found, np.take_along_axis(x, expected, axis=-1))
    np.testing.assert_array_equal(np.take_along_axis(x, places, axis=-1), found)
    if keras.backend.backend() != "torch":  # whose top_k takes equals in any order
        np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(ops.convert_to_numpy(first_largest(ops.convert_to_tensor(x))), expected[:, 0])
