"""Decodes batches with a compiled loop."""

from dataclasses import dataclass

import keras
import numpy as np

from zoo.architectures.base import Architecture
from zoo.errors import InputError
from zoo.generation import beam, single
from zoo.generation.constraints import NEVER
from zoo.generation.settings import Decoding
from zoo.tokens import BEGIN, END, PAD


@dataclass(frozen=True)
class Hypothesis:
    """An output: its tokens, without prompt and end, and its log-probability by the model, if wanted.

    The end counts, but where greedy decoding or a draw was cut off before one came.
    """

    tokens: list[int]
    log_probability: float | None


class _Loop(keras.Model):
    """The decoding loop as a model, so that Keras compiles it for whichever backend is in use."""

    def __init__(self, model: Architecture, settings: Decoding, max_length: int, scored: bool):
        super().__init__(name="decoding")
        self.model = model
        self.settings = settings
        self.max_length = max_length
        self.scored = scored
        self.built = True

    def call(self, inputs):
        if self.settings.beam > 1:
            return beam.search(self.model, self.settings, inputs, self.max_length)
        return single.decode(self.model, self.settings, inputs, self.max_length, self.scored)


class Decoder:
    """Decodes batches with a model.

    One loop is compiled for each shape of batch, over a cache of that length, and another where no log-probabilities
    are wanted; it ends as soon as every row has ended.

    Args:
        model: an architecture.
        settings: how; greedy when None.
        extra: tokens that an output may have beyond its source's (Vaswani et al., 2017, section 6.1, use 50).
        jit: compile with XLA.
    """

    def __init__(
        self, model: Architecture, settings: Decoding | None = None, *, extra: int = 50, jit: bool | str = "auto"
    ):
        self.model = model
        self.settings = settings or Decoding()
        self.extra = extra
        self.jit = jit
        self._loops: dict[tuple[int, bool], _Loop] = {}
        if model.layout == "encoder" and self.settings != Decoding():
            raise InputError("an encoder labels all tokens at once: it has nothing to search for or to draw")

    def __call__(
        self,
        inputs: dict,
        lengths: np.ndarray,
        places: np.ndarray | None = None,
        prefix: tuple[int, ...] = (),
        scored: bool = True,
    ) -> list[list[Hypothesis]]:
        """Decodes one batch.

        Args:
            inputs: what the model's ``call`` gets, without the target, as numpy arrays.
            lengths: (B,) tokens of each source; 0 marks a row of padding.
            places: (B,) which of all inputs each row is, for draws; their order in the batch when None.
            prefix: tokens that every output begins with.
            scored: whether the log-probabilities are wanted; without them greedy decoding is a little faster.

        Returns:
            For each row ``n_best`` hypotheses, the best first, or as many as there are.

        Raises:
            InputError: a source and its prefix are longer than the model can place.
        """
        limit = self.model.position_limit()
        inputs = {name: array[:, :limit] for name, array in inputs.items()}  # what lies beyond is padding
        before = int(max(lengths)) if self.model.layout == "decoder" else 1  # tokens before an output
        longest = max(int(max(lengths)), before + len(prefix))
        if limit is not None and longest > limit:
            what = "a source with its prefix" if prefix else "a source"
            raise InputError(f"{what} of {longest} tokens is longer than the {limit} positions of the model")
        if self.model.layout == "encoder":
            if prefix:
                raise InputError("an encoder labels all tokens at once: no output begins with a prefix")
            return self._labels(inputs, lengths, scored)
        settings, most = self.settings, self.settings.max_length
        if most is None and settings.min_length > self.extra:
            raise InputError(
                f"min_length {settings.min_length} is more than the {self.extra} tokens that an output has at most "
                "beside as many as its source; give max_length too"
            )
        if most is not None and len(prefix) > most:
            raise InputError(f"the prefix has {len(prefix)} tokens and max_length is {most}")
        sources = inputs["tokens"] if self.model.layout == "decoder" else BEGIN * np.minimum(lengths, 1)[:, None]
        given = lengths if self.model.layout == "decoder" else np.minimum(lengths, 1)
        prompt, prompt_lengths = _with_prefix(sources, given, prefix)
        limits = lengths + self.extra if self.settings.max_length is None else 0 * lengths + self.settings.max_length
        limits = np.maximum(limits - len(prefix), 0)
        batch = {
            "inputs": inputs,
            "prompt_lengths": prompt_lengths.astype("int32"),
            "starts": given.astype("int32"),
            "limits": limits.astype("int32"),
            "places": (np.arange(len(lengths)) if places is None else places).astype("int32"),
        }
        room = self.extra + next(iter(inputs.values())).shape[1]
        room = room if self.settings.max_length is None else self.settings.max_length
        max_length = prompt.shape[1] + room + 1
        max_length = max_length if limit is None else min(max_length, limit)
        # One shape for each loop; what is cut off is padding.
        batch["prompt"] = np.pad(prompt, ((0, 0), (0, max(0, max_length - prompt.shape[1]))))[:, :max_length]
        tokens, scores = self._loop(max_length, scored).predict_on_batch(batch)
        return [
            [
                Hypothesis(_until_end(row[n - len(prefix) :], len(prefix)), float(score) if scored else None)
                for rank, (row, score) in enumerate(zip(rows[: self.settings.n_best], of_row, strict=False))
                if rank == 0 or score > NEVER / 2
            ]
            for rows, of_row, n in zip(tokens, scores, prompt_lengths, strict=True)
        ]

    def _labels(self, inputs: dict, lengths: np.ndarray, scored: bool) -> list[list[Hypothesis]]:
        """All labels at once: nothing to loop over."""
        logits = self.model.predict_on_batch(inputs).astype("float32")
        logits = logits - logits.max(-1, keepdims=True)
        best = -np.log(np.exp(logits).sum(-1))  # the log-probability of the most likely label
        return [
            [Hypothesis(np.argmax(row[:n], -1).tolist(), float(score[:n].sum()) if scored else None)]
            for row, score, n in zip(logits, best, lengths, strict=True)
        ]

    def _loop(self, max_length: int, scored: bool) -> _Loop:
        key = max_length, scored or self.settings.beam > 1  # a beam has its scores anyway
        if key not in self._loops:
            self._loops[key] = _Loop(self.model, self.settings, *key)
            self._loops[key].compile(jit_compile=self.jit)
        return self._loops[key]


def decode_all(
    decoder,
    prompts,
    texts: list[str],
    rows: int = 64,
    prefix: tuple[int, ...] = (),
    first_place: int = 0,
    scored: bool = True,
) -> list:
    """Decodes texts in batches of similar length and gives the results in the order of the texts.

    Args:
        decoder: a :class:`Decoder`.
        prompts: makes the inputs of a batch and their lengths from a list of texts.
        texts: (N,) sources.
        rows: of a batch.
        prefix: tokens that every output begins with.
        first_place: place of the first text among all that are decoded, on which a draw depends.
        scored: whether the log-probabilities are wanted.
    """
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    results: list = [None] * len(texts)
    for first in range(0, len(order), rows):
        chosen = order[first : first + rows]
        inputs, lengths = prompts([texts[i] for i in chosen])
        inputs, lengths = _pad(inputs, lengths, rows)
        places = first_place + np.array(chosen + [0] * (rows - len(chosen)))
        for i, hypotheses in zip(chosen, decoder(inputs, lengths, places, prefix, scored), strict=False):
            results[i] = hypotheses
    return results


def _with_prefix(sources: np.ndarray, lengths: np.ndarray, prefix: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Prompts (B, P) with the prefix after each source, and their lengths; a row of padding stays one."""
    prompt = np.pad(sources, ((0, 0), (0, len(prefix))))
    for row, length in zip(prompt, lengths, strict=True):
        if length:
            row[length : length + len(prefix)] = prefix
    return prompt, np.where(lengths > 0, lengths + len(prefix), 0)


def _until_end(row: np.ndarray, least: int) -> list[int]:
    """The tokens before the end, of which ``least`` are given."""
    stop = np.flatnonzero((row == END) | (row == PAD))
    stop = stop[stop >= least]
    return row[: stop[0]].tolist() if len(stop) else row.tolist()


def _pad(inputs: dict, lengths: np.ndarray, rows: int, multiple: int = 8):
    """Full rows and a rounded length, so that few distinct shapes are compiled."""
    missing = rows - len(lengths)
    padded = {name: np.pad(array, ((0, missing), (0, -array.shape[1] % multiple))) for name, array in inputs.items()}
    return padded, np.pad(lengths, (0, missing))
