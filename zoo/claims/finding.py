"""What comes of trying a claim."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from zoo.errors import InputError


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
        try:
            stem.parent.mkdir(parents=True, exist_ok=True)
            picture, text = (stem.with_name(f"{stem.name}.{ending}.partial") for ending in ("png", "json"))
            figure.savefig(picture, format="png", dpi=150)
            text.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
            picture.replace(stem.with_name(f"{stem.name}.png"))
            text.replace(stem.with_name(f"{stem.name}.json"))
        except OSError as error:
            raise InputError(f"{str(stem)!r} cannot be written: {error.strerror}") from error
