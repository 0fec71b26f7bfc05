"""Attention does not see order: without positions, shuffling the words changes nothing.

A query compares itself with a set of keys. What an encoder without positions says of a word is the same wherever the
word stands; with positions it is not.

Reference:
    Vaswani et al., 2017, "Attention Is All You Need", section 3.5.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from zoo.claims.finding import Finding
from zoo.layers.transformer import Stack

CLAIM = "Without positions, shuffling the words changes nothing"
SCHEMES = ("none", "sinusoidal", "learned", "rotary", "alibi")
LENGTH, WIDTH = 12, 64


def find(workdir: Path, changes: dict[str, Any]) -> Finding:
    """How far the outputs of an encoder move, relative to their size, when its inputs are shuffled."""
    seed = changes.get("train.seed", 1)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1, LENGTH, WIDTH)).astype("float32")
    order = rng.permutation(LENGTH)
    numbers = {}
    for scheme in SCHEMES:
        keras.utils.set_random_seed(seed)
        stack = Stack(2, {"width": WIDTH, "num_heads": 4, "feed_forward": 128}, position=scheme, max_length=LENGTH)
        told, shuffled = (ops.convert_to_numpy(stack(part)) for part in (x, x[:, order]))
        numbers[scheme] = float(np.abs(told[:, order] - shuffled).max() / np.abs(told).max())

    def draw(axes):
        axes.bar(SCHEMES, [numbers[scheme] for scheme in SCHEMES], color="#35356f")
        axes.set(yscale="log", ylabel="largest change / largest output", xlabel="positional scheme")

    holds = numbers["none"] < 1e-5 and min(numbers[scheme] for scheme in SCHEMES[1:]) > 1e-3
    return Finding(CLAIM, {f"change, {scheme}": number for scheme, number in numbers.items()}, holds, draw)
