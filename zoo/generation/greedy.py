"""Greedy decoding: the most likely token at every step."""

import keras
import numpy as np
from keras import ops

from zoo.architectures.base import Architecture
from zoo.errors import InputError
from zoo.tokens import BEGIN, END, PAD


class _Loop(keras.Model):
    """The decoding loop as a model, so that Keras compiles it for whichever backend is in use."""

    def __init__(self, model: Architecture, max_length: int):
        super().__init__(name="greedy")
        self.model = model
        self.max_length = max_length
        self.built = True

    def call(self, inputs):
        """{"inputs": ..., "prompt": (B, P), "prompt_lengths": (B,)} -> tokens (B, max_length), the prompt included."""
        prompt, lengths = inputs["prompt"], inputs["prompt_lengths"]
        rows = ops.shape(prompt)[0]
        room = ops.zeros((rows, self.max_length - prompt.shape[1]), "int32")
        tokens = ops.concatenate([ops.cast(prompt, "int32"), room], axis=1)
        state = self.model.init_decoding(inputs["inputs"], self.max_length)

        def unfinished(index, tokens, finished, state):
            return ops.logical_and(index + 1 < self.max_length, ops.logical_not(ops.all(finished)))

        def step(index, tokens, finished, state):
            current = ops.slice(tokens, (0, index), (rows, 1))
            logits, state = self.model.decode_step(current, state, index)
            chosen = ops.cast(ops.argmax(logits, axis=-1), "int32")
            chosen = ops.where(finished, PAD, chosen)
            given = ops.squeeze(ops.slice(tokens, (0, index + 1), (rows, 1)), 1)
            in_prompt = index + 1 < lengths  # while a row's prompt lasts, its tokens are given
            chosen = ops.where(in_prompt, given, chosen)
            finished = ops.logical_or(finished, ops.logical_and(ops.equal(chosen, END), ops.logical_not(in_prompt)))
            return index + 1, ops.slice_update(tokens, (0, index + 1), ops.expand_dims(chosen, 1)), finished, state

        start = (ops.zeros((), "int32"), tokens, ops.equal(lengths, 0), state)
        return ops.while_loop(unfinished, step, start)[1]


class GreedyDecoder:
    """Decodes batches with a model, the most likely token at every step.

    One loop is compiled for each shape of batch; it ends as soon as every row has ended.

    Args:
        model: an architecture.
        extra: tokens that a target may have beyond its source's (Vaswani et al., 2017, section 6.1, use 50).
        jit: compile with XLA.
    """

    def __init__(self, model: Architecture, *, extra: int = 50, jit: bool | str = "auto"):
        self.model = model
        self.extra = extra
        self.jit = jit
        self._loops: dict[int, _Loop] = {}

    def __call__(self, inputs: dict, lengths: np.ndarray) -> list[list[int]]:
        """Decodes one batch.

        Args:
            inputs: what the model's ``call`` gets, without the target, as numpy arrays.
            lengths: (B,) tokens of each source; 0 marks a row of padding.

        Returns:
            The tokens of each row, its prompt and its end token left out.
        """
        limit = self.model.position_limit()
        inputs = {name: array[:, :limit] for name, array in inputs.items()}  # what lies beyond is padding
        if limit is not None and max(lengths) > limit:
            raise InputError(f"a source of {max(lengths)} tokens is longer than the {limit} positions of the model")
        if self.model.layout == "encoder":
            labels = np.argmax(self.model.predict_on_batch(inputs), -1)  # all at once: nothing to loop over
            return [row[:n].tolist() for row, n in zip(labels, lengths, strict=True)]
        if self.model.layout == "decoder":
            prompt, prompt_lengths = inputs["tokens"], lengths
        else:
            prompt_lengths = np.minimum(lengths, 1)
            prompt = BEGIN * prompt_lengths[:, None]
        max_length = next(iter(inputs.values())).shape[1] + prompt.shape[1] + self.extra
        max_length = max_length if limit is None else min(max_length, limit)
        batch = {"inputs": inputs, "prompt": prompt, "prompt_lengths": prompt_lengths.astype("int32")}
        tokens = self._loop(max_length).predict_on_batch(batch)
        rows = []
        for row, given, length in zip(tokens, prompt_lengths, lengths, strict=True):
            row = row[given : given + length + self.extra]  # as far as it would go alone
            stop = np.flatnonzero((row == END) | (row == PAD))
            rows.append(row[: stop[0]].tolist() if len(stop) else row.tolist())
        return rows

    def _loop(self, max_length: int) -> _Loop:
        if max_length not in self._loops:
            self._loops[max_length] = _Loop(self.model, max_length)
            self._loops[max_length].compile(jit_compile=self.jit)
        return self._loops[max_length]


def decode_all(decoder, prompts, texts: list[str], rows: int = 64) -> list[list[int]]:
    """Decodes texts in batches of similar length and gives the results in the order of the texts.

    Args:
        decoder: called with the inputs of a batch and its lengths.
        prompts: makes those from a list of texts.
        texts: (N,) sources.
        rows: of a batch.
    """
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    results: list[list[int]] = [[] for _ in texts]
    for first in range(0, len(order), rows):
        chosen = order[first : first + rows]
        inputs, lengths = prompts([texts[i] for i in chosen])
        inputs, lengths = _pad(inputs, lengths, rows)
        for i, tokens in zip(chosen, decoder(inputs, lengths), strict=False):
            results[i] = tokens
    return results


def _pad(inputs: dict, lengths: np.ndarray, rows: int, multiple: int = 8):
    """Full rows and a rounded length, so that few distinct shapes are compiled."""
    missing = rows - len(lengths)
    padded = {name: np.pad(array, ((0, missing), (0, -array.shape[1] % multiple))) for name, array in inputs.items()}
    return padded, np.pad(lengths, (0, missing))
