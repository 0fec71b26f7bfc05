"""Why dot products are divided by sqrt(d).

Queries and keys of independent features of unit variance have products of variance d. Undivided they drive the softmax
into a corner as d grows: nearly all weight lies on one key, where its gradient is nearly zero. Divided by sqrt(d), the
products have unit variance at any d, and the entropy of the weights stays where it was.

Reference:
    Vaswani et al., 2017, "Attention Is All You Need", section 3.2.1 and footnote 4.
"""

from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from zoo.claims.finding import Finding
from zoo.layers.attention.dot_product import DotProductAttention

CLAIM = "Undivided by sqrt(d), dot products saturate the softmax as the dimension grows"
SIZES = (4, 16, 64, 256, 1024)
KEYS = 64


def find(workdir: Path, changes: dict[str, Any]) -> Finding:
    """The mean entropy of the weights over 64 keys, in bits, for each d; 6 bits are those of no preference."""
    rng = np.random.default_rng(changes.get("train.seed", 1))
    curves: dict[bool, list[float]] = {}
    for scaled in (True, False):
        curves[scaled] = [_entropy(rng, size, scaled) for size in SIZES]
    numbers = {
        f"entropy in bits, d={size}, {'divided' if scaled else 'undivided'}": round(entropy, 3)
        for scaled, entropies in curves.items()
        for size, entropy in zip(SIZES, entropies, strict=True)
    }

    def draw(axes):
        for scaled, label in ((True, "divided by sqrt(d)"), (False, "undivided")):
            axes.semilogx(SIZES, curves[scaled], marker="o", base=2, label=label)
        axes.axhline(np.log2(KEYS), color="#999", linewidth=0.8, linestyle=":", label="uniform")
        axes.set(xlabel="dimension d", ylabel=f"entropy of the weights of {KEYS} keys, bits", ylim=(0, None))
        axes.legend()

    steady = max(curves[True]) - min(curves[True]) < 0.5
    return Finding(CLAIM, numbers, steady and curves[False][-1] < 0.1 * curves[True][-1], draw)


def _entropy(rng: np.random.Generator, size: int, scaled: bool) -> float:
    layer = DotProductAttention(num_heads=1, head_dim=size, scaled=scaled, use_bias=False)
    q, k = (ops.convert_to_tensor(rng.normal(size=(1, KEYS, 1, size)).astype("float32")) for _ in range(2))
    _, scores = layer.attend(q, k, k, mask=None, bias=None, offset=None, with_scores=True, training=False)
    weights = np.maximum(ops.convert_to_numpy(scores).astype("float64"), 1e-30)
    return float(-(weights * np.log2(weights)).sum(-1).mean())
