"""Heads specialise: some look near, some far.

Each head learns projections of its own, so the heads of a layer come to look at different distances; how far each looks
on average is measured on sentences that training did not see.

Reference:
    Vaswani et al., 2017, "Attention Is All You Need", section 3.2.2 and the figures of its appendix.
"""

from pathlib import Path
from typing import Any

import numpy as np

from zoo.claims import trained
from zoo.claims.finding import Finding

CLAIM = "Heads specialise: some look near, some far"


def find(workdir: Path, changes: dict[str, Any]) -> Finding:
    """The mean distance of what each head of the encoder looks at, in tokens, beside that of no preference."""
    weights = trained.encoder_weights(trained.run("claim_heads", changes, workdir / "run"))
    far = []
    uniform = []
    for layers in weights:
        distances = trained.distances(layers[0].shape[-1])
        far.append([(layer * distances).sum(-1).mean(-1) for layer in layers])  # (layers, N)
        uniform.append(distances.mean())
    mean = np.mean(far, axis=0)
    numbers = {
        f"layer {i + 1}, head {j + 1}": round(float(mean[i, j]), 2)
        for i in range(mean.shape[0])
        for j in range(mean.shape[1])
    }
    numbers["no preference"] = round(float(np.mean(uniform)), 2)

    def draw(axes):
        for i, row in enumerate(mean):
            axes.bar(np.arange(len(row)) + 1 + i * (len(row) + 1), np.sort(row), label=f"layer {i + 1}")
        axes.axhline(np.mean(uniform), color="#999", linewidth=0.8, linestyle=":", label="no preference")
        axes.set(ylabel="mean distance, tokens", xlabel="heads of each layer, the nearest first", xticks=[])
        axes.legend()

    return Finding(CLAIM, numbers, bool((mean.max(1) > 1.5 * mean.min(1)).all()), draw)
