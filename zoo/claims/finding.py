"""What comes of trying a claim."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from zoo.whole import replaced_file


@dataclass(frozen=True)
class Finding:
    """Numbers, whether they bear a claim out, and a picture of them.

    Attributes:
        claim: what was said, in a sentence.
        numbers: what was measured, by name.
        holds: whether the numbers say so too.
        draw: draws them into the axes that it is given.
    """

    claim: str
    numbers: dict[str, float]
    holds: bool
    draw: Callable[..., None]

    def write(self, stem: Path) -> None:
        """Writes ``stem.png`` and ``stem.json``, each whole or not at all.

        Raises:
            InputError: they cannot be written.
        """
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.subplots()
        self.draw(axes)
        axes.set_title(self.claim, fontsize=9, wrap=True)
        said = {"claim": self.claim, "holds": self.holds, "numbers": self.numbers}
        with replaced_file(stem.with_name(f"{stem.name}.png")) as partial:
            figure.savefig(partial, format="png", dpi=150)
        with replaced_file(stem.with_name(f"{stem.name}.json")) as partial:
            partial.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
