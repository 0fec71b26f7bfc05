"""LayerNorm suits text of varying length, BatchNorm does not.

Batch normalisation takes its statistics over all tokens of a batch, which in text differ with the words and lengths
that happen to be in it, and decoding uses averages of them; layer normalisation takes each token by itself. The two
are trained by the same recipe, on sequences of varying length.

Reference:
    Ba et al., 2016, "Layer Normalization"; Ioffe and Szegedy, 2015, "Batch Normalization".
"""

from pathlib import Path
from typing import Any

from zoo.claims import trained
from zoo.claims.finding import Finding
from zoo.training.run_directory import RunDirectory

CLAIM = "On text of varying length, LayerNorm learns better than BatchNorm"
NORMS = ("layer", "batch")


def find(workdir: Path, changes: dict[str, Any]) -> Finding:
    """The likelihood of validation text as training goes on, in nats a token, and what is right when decoded."""
    logs, numbers = {}, {}
    for norm in NORMS:
        trained.run("claim_normalization", changes | {"model.options.norm": norm}, workdir / norm)
        logs[norm] = RunDirectory(workdir / norm).read_log()
        last = logs[norm][-1]
        numbers[f"{norm}: nats a token"] = round(float(last["valid_token_nll"]), 4)
        if "valid_exact_match" in last:
            numbers[f"{norm}: exact match, decoded"] = round(float(last["valid_exact_match"]), 3)

    def draw(axes):
        for norm, log in logs.items():
            steps = [int(row["step"]) for row in log]
            axes.semilogy(steps, [float(row["valid_token_nll"]) for row in log], marker="o", label=f"{norm} norm")
        axes.set(xlabel="step", ylabel="validation, nats a token")
        axes.legend()

    return Finding(CLAIM, numbers, numbers["layer: nats a token"] < numbers["batch: nats a token"], draw)
