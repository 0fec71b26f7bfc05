"""Tasks that turn one text into another."""

import copy
import hashlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from zoo.errors import InputError
from zoo.tasks.base import Batches, Task
from zoo.tasks.bucketing import BatchPlan
from zoo.tasks.subwords import Subwords
from zoo.tasks.token_losses import SmoothedCrossEntropy, token_metrics
from zoo.tokens import BEGIN, END, RESERVED

SPLITS = ("train", "valid", "test")


class TextPairs(Task):
    """Base of the tasks that turn one text into another; a task says what its pairs are.

    How a batch is laid out, for a source "a b" and a target "x y", with begin B, end E and padding _:

    layout             inputs                            labels      weights
    encoder_decoder    source: a b E   target: B x y     x y E       1 1 1
    decoder            tokens: a b B x y                 b B x y E   0 0 1 1 1
    encoder            tokens: a b                       x y         1 1            (source and target align)

    Args:
        vocabulary: tokens of each vocabulary, at most.
        subwords: "bpe", "unigram" or "char".
        subword_sampling: training draws how words fall into subwords, anew each time: the chance that a merge of "bpe"
            is left out, or the exponent of "unigram"; see :meth:`zoo.tasks.subwords.Subwords.sample`. 0: never.
        shared_vocabulary: one vocabulary for source and target.
        max_length: longer pairs are left out of training, with a count; the longest the model is built for.
    """

    layouts = frozenset({"encoder_decoder", "decoder"})
    teacher_forced_metrics = {"token_nll": False, "token_accuracy": True}

    def __init__(
        self,
        *,
        vocabulary: int = 4000,
        subwords: str = "bpe",
        subword_sampling: float = 0.0,
        shared_vocabulary: bool = True,
        max_length: int = 128,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if subwords not in ("bpe", "unigram", "char"):
            raise InputError(f"subwords must be bpe, unigram or char, not {subwords!r}")
        if not len(RESERVED) < vocabulary <= 2**24:
            raise InputError(f"vocabulary must be from {len(RESERVED) + 1} to {2**24}, not {vocabulary}")
        if max_length < 1:
            raise InputError(f"max_length must be at least 1, not {max_length}")
        if not 0 <= subword_sampling < 1:
            raise InputError(f"subword_sampling must be at least 0 and below 1, not {subword_sampling}")
        if subword_sampling and subwords == "char":
            raise InputError("subword_sampling needs subwords of several characters: bpe or unigram, not char")
        self.vocabulary = vocabulary
        self.subwords = subwords
        self.subword_sampling = subword_sampling
        self.shared_vocabulary = shared_vocabulary
        self.max_length = max_length
        self._pairs: dict[str, tuple[list[str], list[str]]] = {}
        self.source: Subwords | None = None
        self.target: Subwords | None = None

    # What a task says -------------------------------------------------------------------------------------------

    def read(self, split: str) -> tuple[list[str], list[str]]:
        """The sources and targets of a split."""
        raise NotImplementedError

    # What all share ---------------------------------------------------------------------------------------------

    def pairs(self, split: str) -> tuple[list[str], list[str]]:
        """The sources and targets of a split, read once."""
        if split not in SPLITS:
            raise InputError(f"unknown split {split!r}; there are: {', '.join(SPLITS)}")
        if split not in self._pairs:
            self._pairs[split] = self.read(split)
        return self._pairs[split]

    def fingerprint(self, split: str) -> str:
        digest = hashlib.sha256()
        for side in self.pairs(split):
            digest.update("\n".join(side).encode())
            digest.update(b"\0")
        return digest.hexdigest()[:16]

    def with_pairs(self, split: str, sources: list[str], targets: list[str]) -> "TextPairs":
        """This task with other pairs in a split; vocabularies and all else are shared."""
        task = copy.copy(self)
        task._pairs = {**self._pairs, split: (sources, targets)}
        return task

    def prepare(self, directory: Path) -> None:
        if not (directory / "target.subwords").is_file():
            sources, targets = self.pairs("train")
            if self.shared_vocabulary:
                source = target = Subwords.train([*sources, *targets], self.vocabulary, self.subwords)
            else:
                source = Subwords.train(sources, self.vocabulary, self.subwords)
                target = Subwords.train(targets, self.vocabulary, self.subwords)
            source.save(directory / "source.subwords")
            target.save(directory / "target.subwords")
        self.restore(directory)

    def restore(self, directory: Path) -> None:
        try:
            self.source, self.target = (Subwords.load(directory / f"{side}.subwords") for side in ("source", "target"))
        except OSError as error:
            raise InputError(f"{directory} holds no vocabulary: {error.strerror} {error.filename}") from error
        if self.source.model == self.target.model:
            self.source = self.target

    def loss(self, label_smoothing: float) -> SmoothedCrossEntropy:
        return SmoothedCrossEntropy(label_smoothing)

    def metrics(self) -> list:
        return token_metrics()

    def spec(self, layout: str) -> dict[str, Any]:
        if layout == "decoder":
            if self.source is not self.target:
                raise InputError("a decoder-only model needs shared_vocabulary: source and target are one sequence")
            return {"vocabulary": self.target.size, "max_length": _padded(2 * self.max_length + 1)}
        return {
            "source_vocabulary": self.source.size,
            "target_vocabulary": self.target.size,
            "max_length": _padded(self.max_length),
        }

    def batches(
        self,
        split: str,
        layout: str,
        batch_tokens: int,
        *,
        buckets: int = 4,
        seed: int | None = None,
        step: int = 0,
        row_multiple: int = 1,
        limit: int | None = None,
    ) -> Batches:
        """The batches of a split: with a ``seed`` an endless shuffled stream, else one pass in order of length.

        Args:
            split: "train", "valid" or "test".
            layout: of the batch; see the class.
            batch_tokens: padded positions in a batch, at most.
            buckets: distinct shapes.
            seed: of the shuffling.
            step: where the endless stream goes on.
            row_multiple: rows of a batch are a multiple of this.
            limit: only the first so many examples.
        """
        sources, targets = (texts[:limit] for texts in self.pairs(split))
        sampling = seed is not None and self.subword_sampling > 0
        lengths, tokens = self._lengths(sources, targets, layout)
        longest = 2 * self.max_length + 1 if layout == "decoder" else self.max_length
        kept = np.flatnonzero(lengths <= longest)
        if not len(kept):
            raise InputError(f"no {split} pair has at most {self.max_length} tokens; raise task.options.max_length")
        if len(kept) < len(lengths):
            left_out = f"{len(lengths) - len(kept)} of {len(lengths)} {split} pairs"
            print(f"{left_out} are longer than {self.max_length} tokens: left out", file=sys.stderr)
        lengths, tokens = lengths[kept], tokens[kept]
        texts = [[*(side[i] for i in kept), ""] for side in (sources, targets)]  # "" stands for a row of padding
        if sampling:
            lengths = np.minimum(self._room(texts, lengths, layout), longest)
        plan = BatchPlan(lengths, batch_tokens, buckets, seed, row_multiple)
        make = self._sampled if sampling else self._tokenized
        dataset = make(texts, plan, step, layout).map(
            partial(self._batch, layout=layout), num_parallel_calls=os.cpu_count(), deterministic=True
        )
        return Batches(
            dataset=dataset.prefetch(4),
            steps=plan.steps,
            tokens=float(tokens.sum()) / plan.steps,
            examples=len(kept),
            shapes=plan.shapes,
        )

    def _tokenized(self, texts, plan, step, layout):
        """(source, target, real, length) of each batch, tokenised inside the data pipeline; see :meth:`_batch`."""

        def stream():
            return iter(plan.epoch(0)) if plan.seed is None else plan.from_step(step)

        def tokenize(indices, length):
            real = indices >= 0
            source, target = (tf.gather(side, tf.where(real, indices, padding)) for side in sides)
            return self.source.tokenize(source), self.target.tokenize(target), real, length

        sides, padding = [tf.constant(side) for side in texts], len(texts[0]) - 1
        signature = (tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64))
        dataset = tf.data.Dataset.from_generator(stream, output_signature=signature)
        return dataset.map(tokenize, num_parallel_calls=os.cpu_count(), deterministic=True)

    def _sampled(self, texts, plan, step, layout):
        """As :meth:`_tokenized`, in subwords drawn at random: a function of the seed and the step, as all else is."""

        def stream():
            for number, (indices, length) in enumerate(plan.from_step(step), step):
                rows = self._draw([[side[i] for i in indices] for side in texts], (plan.seed, number))
                fits = _positions(*rows, layout) <= length
                for i in np.flatnonzero(~fits):  # a draw that is too long: the subwords there was room made for
                    rows[0][i] = self.source.encode(texts[0][indices[i]])
                    rows[1][i] = self.target.encode(texts[1][indices[i]])
                yield *(_ragged(side) for side in rows), indices >= 0, length

        signature = (
            *[tf.RaggedTensorSpec([None, None], tf.int32)] * 2,
            tf.TensorSpec([None], tf.bool),
            tf.TensorSpec([], tf.int64),
        )
        return tf.data.Dataset.from_generator(stream, output_signature=signature)

    def _draw(self, texts, seed: tuple[int, int]) -> list[list[list[int]]]:
        """Rows of ids of both sides, in subwords drawn at random."""
        seeds = np.random.SeedSequence(seed).generate_state(2).tolist()
        sides = zip((self.source, self.target), texts, seeds, strict=True)
        return [subwords.sample(side, self.subword_sampling, seed) for subwords, side, seed in sides]

    def _room(self, texts, lengths, layout) -> np.ndarray:
        """Positions that most draws of each pair need: those of the longest of its plain subwords and two draws."""
        if layout == "encoder":
            raise InputError("subword_sampling is not for an encoder-only model, whose source and target must align")
        pairs = [side[:-1] for side in texts]
        return np.maximum.reduce([lengths, *(_positions(*self._draw(pairs, (draw, 2)), layout) for draw in range(2))])

    def _lengths(self, sources, targets, layout) -> tuple[np.ndarray, np.ndarray]:
        """Positions each pair needs in a batch of this layout, and its real tokens on both sides."""
        s, t = self._count(self.source, sources), self._count(self.target, targets)
        if layout == "encoder" and not np.array_equal(s, t):
            raise InputError("an encoder-only model needs sources and targets of the same number of tokens")
        return _needed(s, t, layout), s + t + {"encoder_decoder": 2, "decoder": 1, "encoder": 0}[layout]

    @staticmethod
    def _count(subwords: Subwords, texts: list[str]) -> np.ndarray:
        dataset = tf.data.Dataset.from_tensor_slices(tf.constant(texts)).batch(1024)
        counts = dataset.map(lambda batch: subwords.tokenize(batch).row_lengths(), num_parallel_calls=os.cpu_count())
        return np.concatenate(list(counts.as_numpy_iterator()))

    @staticmethod
    def _batch(source, target, real, length, layout):
        """One batch, padded to (rows, length), of ragged tokens; rows that are not real get no begin and no end."""
        real = tf.cast(real, tf.int64)
        begin = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(real)], BEGIN), real)
        end = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(real)], END), real)

        def dense(ragged):
            return tf.ensure_shape(ragged.to_tensor(shape=tf.stack([tf.size(real, tf.int64), length])), [None, None])

        def weigh(ragged):
            return tf.sequence_mask(ragged.row_lengths(), length, tf.float32)

        if layout == "encoder_decoder":
            inputs = {"source": dense(tf.concat([source, end], 1)), "target": dense(tf.concat([begin, target], 1))}
            labels = tf.concat([target, end], 1)
            weights = weigh(labels)
        elif layout == "decoder":
            sequence = tf.concat([source, begin, target, end], 1)
            inputs, labels = {"tokens": dense(sequence[:, :-1])}, sequence[:, 1:]
            weights = weigh(labels) - weigh(source)  # only the target counts
        else:
            inputs, labels = {"tokens": dense(source)}, target
            weights = weigh(labels)
        return inputs, dense(labels), weights

    def prefix(self, text: str) -> list[int]:
        """The tokens of the beginning of an output."""
        return self.target.encode(text)

    def texts(self, rows: list[list[int]]) -> list[str]:
        """Decoded tokens as text."""
        return [self.target.detokenize([row])[0] for row in rows]

    def prompts(
        self, texts: list[str], layout: str, limit: int | None = None
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The inputs of one batch from which ``texts`` are decoded, and the tokens of each.

        Args:
            texts: (N,) sources.
            layout: of the batch.
            limit: the longest sequence the model can place.

        Raises:
            InputError: a text is longer than that.
        """
        tail = {"encoder_decoder": [END], "decoder": [BEGIN], "encoder": []}[layout]
        name = "source" if layout == "encoder_decoder" else "tokens"
        rows = [self.source.encode(text) + tail for text in texts]
        lengths = np.array([len(row) for row in rows])
        longest = int(lengths.max())
        if limit is not None and longest > limit:
            raise InputError(
                f"a text of {longest} tokens is longer than the {limit} positions of the model: "
                f"{texts[int(lengths.argmax())][:60]!r}"
            )
        batch = np.zeros((len(rows), max(longest, 1)), "int32")
        for row, filled in zip(rows, batch, strict=True):
            filled[: len(row)] = row
        return {name: batch}, lengths


def _ragged(rows: list[list[int]]) -> tf.RaggedTensor:
    flat = np.array([token for row in rows for token in row], "int32")
    return tf.RaggedTensor.from_row_lengths(flat, [len(row) for row in rows])


def _needed(source, target, layout: str):
    """Positions that pairs of so many tokens need in a batch of this layout."""
    if layout == "encoder_decoder":
        return np.maximum(source, target) + 1
    return source + target + 1 if layout == "decoder" else source


def _positions(source, target, layout: str) -> np.ndarray:
    """As :func:`_needed`, of rows of ids."""
    return _needed(*(np.array([len(row) for row in side]) for side in (source, target)), layout)


def _padded(length: int) -> int:
    """The most positions a batch of this length has: training pads to a multiple of 4, decoding to one of 8."""
    return -(-length // 8) * 8
