"""The published base Transformer builds at its full size and trains.

`python benchmarks/published_sizes.py --recipe=wmt14_ende_big` does the same for the big one, which is too slow here.
"""

import importlib.util
import math
from pathlib import Path

import pytest

PATH = Path(__file__).parents[1] / "benchmarks" / "published_sizes.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("published_sizes", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_base_transformer(benchmark, tmp_path):
    changes = {"train.steps": 2, "train.batch_tokens": 64, "train.jit": False}
    result = benchmark.measure("wmt14_ende_base", tmp_path, changes)
    assert result["vocabulary"] == 37000
    assert round(result["parameters"] / 1e6) == 63  # the paper rounds to 65 million
    assert result["loss"] == pytest.approx(math.log(37000), abs=1)
    assert math.isfinite(result["valid_loss"])
