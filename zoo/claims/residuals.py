"""Residuals carry position: without them, heads lose their diagonal focus.

Positions are given to the embeddings alone. Later layers know of them by what residuals hand on; with the residuals
switched off, the heads of an encoder no longer look at the neighbourhood of their own token, and adding the positions
anew in every layer brings some of that back.

Reference:
    Vaswani et al., 2017, "Attention Is All You Need", section 3.1, for the residuals; the experiment is that of the
    lecture, on the task of the recipe ``claim_residuals``.
"""

from pathlib import Path
from typing import Any

import numpy as np

from zoo.claims import trained
from zoo.claims.finding import Finding

CLAIM = "Residuals carry position: without them the heads lose their focus on the diagonal"
RUNS = {
    "with residuals": {},
    "without": {"model.options.residual": False},
    "without, positions in every block": {
        "model.options.residual": False,
        "model.options.position_in_every_block": True,
    },
}


def find(workdir: Path, changes: dict[str, Any]) -> Finding:
    """The share of an encoder's attention within one token of the diagonal, by layer, over that of no preference."""
    focus = {}
    for label, change in RUNS.items():
        run = trained.run("claim_residuals", changes | change, workdir / label.replace(", ", "_").replace(" ", "_"))
        focus[label] = _focus(trained.encoder_weights(run))
    numbers = {
        f"{label}, layer {i + 1}": round(float(value), 3)
        for label, values in focus.items()
        for i, value in enumerate(values)
    }

    def draw(axes):
        layers = np.arange(len(focus["without"])) + 1
        for i, (label, values) in enumerate(focus.items()):
            axes.bar(layers + 0.27 * (i - 1), values, width=0.25, label=label)
        axes.axhline(1, color="#999", linewidth=0.8, linestyle=":")
        axes.set(xlabel="encoder layer", ylabel="attention near the diagonal\n(1: no preference)", xticks=layers)
        axes.legend()

    deep = {label: values[1:].mean() for label, values in focus.items()}  # the first layer sees the positions anyway
    return Finding(CLAIM, numbers, bool(deep["with residuals"] > deep["without"]), draw)


def _focus(weights: list[list[np.ndarray]]) -> np.ndarray:
    """For each layer: the mass at most one token from the diagonal, over what equal weights would put there."""
    ratios = []
    for layers in weights:
        near = trained.distances(layers[0].shape[-1]) <= 1
        ratios.append([(layer * near).sum(-1).mean() / near.mean() for layer in layers])
    return np.mean(ratios, axis=0)
