"""A trained model with what it needs to be used."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zoo.architectures.base import Architecture
from zoo.errors import InputError
from zoo.generation.decoder import Decoder, decode_all
from zoo.recipe import Recipe
from zoo.tasks.base import Task


@dataclass(frozen=True)
class Trained:
    """A model with what it needs to be used.

    Attributes:
        recipe: the resolved recipe it was trained by.
        task: with its vocabularies.
        model: with its weights.
        decoder: from a batch to tokens.
        checkpoint: which weights these are: the file, the step, and what was measured there.
    """

    recipe: Recipe
    task: Task
    model: Architecture
    decoder: Decoder
    checkpoint: dict[str, Any]

    def generate(self, texts: list[str], rows: int = 64, prefix: str = "") -> list[str]:
        """The model's output for each text.

        Args:
            texts: (N,) sources.
            rows: sentences in a batch; the result does not depend on it.
            prefix: what every output begins with.

        Raises:
            InputError: a text is longer than the model can place, or is no string.
        """
        return [hypotheses[0][0] for hypotheses in self.hypotheses(texts, rows, prefix, scored=False)]

    def hypotheses(
        self, texts: list[str], rows: int = 64, prefix: str = "", first: int = 0, scored: bool = True
    ) -> list[list[tuple[str, float | None]]]:
        """The model's ``n_best`` outputs for each text, or as many as there are, with their log-probabilities.

        The best comes first. ``first`` is the place of the first text among all, on which a draw depends. Without
        ``scored`` there is None for each log-probability, and greedy decoding is a little faster.
        """
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise InputError(f"texts are a list, not {texts!r:.80}")
        texts = list(texts)
        if odd := [text for text in texts if not isinstance(text, str)]:
            raise InputError(f"a text is a string, not {odd[0]!r:.80}")
        if rows < 1:
            raise InputError(f"a batch has at least 1 row, not {rows}")
        if not texts:
            return []
        layout, limit = self.model.layout, self.model.position_limit()
        rows = -(-min(rows, len(texts)) // 8) * 8  # few shapes to compile, and a share for each of several devices
        tokens = tuple(self.task.prefix(prefix)) if prefix else ()
        found = decode_all(
            self.decoder, lambda batch: self.task.prompts(batch, layout, limit), texts, rows, tokens, first, scored
        )
        written = iter(self.task.texts([hypothesis.tokens for of_text in found for hypothesis in of_text]))
        return [[(next(written), hypothesis.log_probability) for hypothesis in of_text] for of_text in found]
