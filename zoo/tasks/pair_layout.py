"""How pairs of texts become batches: tokens, laid out side by side or one after the other, and padded."""

import os
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from zoo.errors import InputError
from zoo.tasks.bucketing import BatchPlan
from zoo.tasks.subwords import Subwords
from zoo.tokens import BEGIN, END


@dataclass(frozen=True)
class PairLayout:
    """A layout of batches, with the vocabularies of both sides; :class:`zoo.tasks.text_pairs.TextPairs` shows them.

    Attributes:
        name: "encoder_decoder", "decoder" or "encoder".
        source, target: the vocabularies.
    """

    name: str
    source: Subwords
    target: Subwords

    def lengths(self, sources: list[str], targets: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Positions each pair needs in a batch, and its real tokens on both sides.

        Raises:
            InputError: an encoder's sources and targets have different numbers of tokens.
        """
        s, t = _count(self.source, sources), _count(self.target, targets)
        if self.name == "encoder" and not np.array_equal(s, t):
            raise InputError("an encoder-only model needs sources and targets of the same number of tokens")
        return self._needed(s, t), s + t + {"encoder_decoder": 2, "decoder": 1, "encoder": 0}[self.name]

    def room(self, sides: list[list[str]], lengths: np.ndarray, sampling: float) -> np.ndarray:
        """Positions that most draws of each pair need: those of the longest of its plain subwords and two draws.

        Raises:
            InputError: the layout needs source and target to align.
        """
        if self.name == "encoder":
            raise InputError("subword_sampling is not for an encoder-only model, whose source and target must align")
        return np.maximum.reduce([lengths, *(self._positions(*self._draw(sides, sampling, (i, 2))) for i in range(2))])

    def tokenized(self, sides: list[list[str]], plan: BatchPlan, step: int) -> tf.data.Dataset:
        """(inputs, labels, weights) of each batch of a plan from a step on, tokenised inside the data pipeline."""

        def stream():
            return iter(plan.epoch(0)) if plan.seed is None else plan.from_step(step)

        def batch(indices, length):
            real = indices >= 0
            source, target = (tf.gather(side, tf.where(real, indices, padding)) for side in texts)
            return self._batch(self.source.tokenize(source), self.target.tokenize(target), real, length)

        texts, padding = [tf.constant([*side, ""]) for side in sides], len(sides[0])  # "" stands for a row of padding
        signature = (tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64))
        dataset = tf.data.Dataset.from_generator(stream, output_signature=signature)
        return dataset.map(batch, num_parallel_calls=os.cpu_count(), deterministic=True)

    def sampled(self, sides: list[list[str]], plan: BatchPlan, step: int, sampling: float) -> tf.data.Dataset:
        """As :meth:`tokenized`, in subwords drawn at random: a function of the seed and the step, as all else is."""

        def stream():
            for number, (indices, length) in enumerate(plan.from_step(step), step):
                texts = [[side[i] if i >= 0 else "" for i in indices] for side in sides]
                rows = self._draw(texts, sampling, (plan.seed, number))
                for i in np.flatnonzero(self._positions(*rows) > length):  # the subwords there was room made for
                    rows[0][i], rows[1][i] = self.source.encode(texts[0][i]), self.target.encode(texts[1][i])
                yield *(_ragged(side) for side in rows), indices >= 0, length

        tokens = tf.RaggedTensorSpec([None, None], tf.int32)
        signature = (tokens, tokens, tf.TensorSpec([None], tf.bool), tf.TensorSpec([], tf.int64))
        dataset = tf.data.Dataset.from_generator(stream, output_signature=signature)
        return dataset.map(self._batch, num_parallel_calls=os.cpu_count(), deterministic=True)

    def _draw(self, sides, sampling: float, seed: tuple[int, int]) -> list[list[list[int]]]:
        """Rows of ids of both sides, in subwords drawn at random."""
        seeds = np.random.SeedSequence(seed).generate_state(2).tolist()
        each = zip((self.source, self.target), sides, seeds, strict=True)
        return [subwords.sample(side, sampling, seed) for subwords, side, seed in each]

    def _needed(self, source, target):
        """Positions that pairs of so many tokens need."""
        if self.name == "encoder_decoder":
            return np.maximum(source, target) + 1
        return source + target + 1 if self.name == "decoder" else source

    def _positions(self, source: list[list[int]], target: list[list[int]]) -> np.ndarray:
        return self._needed(*(np.array([len(row) for row in side]) for side in (source, target)))

    def _batch(self, source, target, real, length):
        """One batch, padded to (rows, length), of ragged tokens; rows that are not real get no begin and no end."""
        real = tf.cast(real, tf.int64)
        begin = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(real)], BEGIN), real)
        end = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(real)], END), real)

        def dense(ragged):
            return tf.ensure_shape(ragged.to_tensor(shape=tf.stack([tf.size(real, tf.int64), length])), [None, None])

        def weigh(ragged):
            return tf.sequence_mask(ragged.row_lengths(), length, tf.float32)

        if self.name == "encoder_decoder":
            inputs = {"source": dense(tf.concat([source, end], 1)), "target": dense(tf.concat([begin, target], 1))}
            labels = tf.concat([target, end], 1)
            weights = weigh(labels)
        elif self.name == "decoder":
            sequence = tf.concat([source, begin, target, end], 1)
            inputs, labels = {"tokens": dense(sequence[:, :-1])}, sequence[:, 1:]
            weights = weigh(labels) - weigh(source)  # only the target counts
        else:
            inputs, labels = {"tokens": dense(source)}, target
            weights = weigh(labels)
        return inputs, dense(labels), weights


def _count(subwords: Subwords, texts: list[str]) -> np.ndarray:
    dataset = tf.data.Dataset.from_tensor_slices(tf.constant(texts)).batch(1024)
    counts = dataset.map(lambda batch: subwords.tokenize(batch).row_lengths(), num_parallel_calls=os.cpu_count())
    return np.concatenate(list(counts.as_numpy_iterator()))


def _ragged(rows: list[list[int]]) -> tf.RaggedTensor:
    flat = np.array([token for row in rows for token in row], "int32")
    return tf.RaggedTensor.from_row_lengths(flat, [len(row) for row in rows])
