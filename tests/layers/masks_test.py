import numpy as np
import pytest
from keras import ops

from zoo.layers import masks

pytestmark = pytest.mark.backends


def test_padding_mask_is_false_at_padding_only():
    mask = masks.padding_mask(ops.convert_to_tensor([[5, 1, 0, 0], [0, 0, 0, 0], [1, 2, 3, 4]], "int32"))
    expected = [[[True, True, False, False]], [[False] * 4], [[True] * 4]]
    np.testing.assert_array_equal(ops.convert_to_numpy(mask), expected)


@pytest.mark.parametrize("offset", [0, 1, 4])
@pytest.mark.parametrize(("num_queries", "num_keys"), [(1, 1), (1, 6), (3, 6), (6, 6), (4, 2)])
def test_causal_mask_is_the_brute_force_one(num_queries, num_keys, offset):
    expected = [[[key <= offset + query for key in range(num_keys)] for query in range(num_queries)]]
    for value in (offset, ops.convert_to_tensor(offset, "int32")):
        mask = ops.convert_to_numpy(masks.causal_mask(num_queries, num_keys, value))
        assert mask.dtype == bool
        np.testing.assert_array_equal(mask, expected)


def test_combine_is_the_and_of_those_given():
    rows = ops.convert_to_tensor([[[True, True, False]]])  # (1, 1, 3)
    columns = ops.convert_to_tensor([[[True], [False]]])  # (1, 2, 1)
    combined = ops.convert_to_numpy(masks.combine(None, rows, None, columns))
    np.testing.assert_array_equal(combined, [[[True, True, False], [False, False, False]]])
    np.testing.assert_array_equal(ops.convert_to_numpy(masks.combine(rows, None)), ops.convert_to_numpy(rows))
    assert masks.combine(None, None) is None
