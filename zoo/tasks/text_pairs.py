"""Tasks that turn one text into another."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from zoo.errors import InputError
from zoo.tasks.base import Batches, Task
from zoo.tasks.bucketing import BatchPlan
from zoo.tasks.subwords import Subwords
from zoo.tasks.token_losses import SmoothedCrossEntropy, token_metrics
from zoo.tokens import BEGIN, END

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
        shared_vocabulary: bool = True,
        max_length: int = 128,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if subwords not in ("bpe", "unigram", "char"):
            raise InputError(f"subwords must be bpe, unigram or char, not {subwords!r}")
        self.vocabulary = vocabulary
        self.subwords = subwords
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
        lengths, tokens = self._lengths(sources, targets, layout)
        kept = np.flatnonzero(lengths <= (2 * self.max_length + 1 if layout == "decoder" else self.max_length))
        if not len(kept):
            raise InputError(f"no {split} pair has at most {self.max_length} tokens; raise task.options.max_length")
        if len(kept) < len(lengths):
            left_out = f"{len(lengths) - len(kept)} of {len(lengths)} {split} pairs"
            print(f"{left_out} are longer than {self.max_length} tokens: left out", file=sys.stderr)
        plan = BatchPlan(lengths[kept], batch_tokens, buckets, seed, row_multiple)
        tokens = tokens[kept]
        texts = [tf.constant([*(side[i] for i in kept), ""]) for side in (sources, targets)]

        def stream():
            return iter(plan.epoch(0)) if seed is None else plan.from_step(step)

        signature = (tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64))
        dataset = tf.data.Dataset.from_generator(stream, output_signature=signature)
        dataset = dataset.map(
            lambda i, n: self._batch(texts, i, n, layout), num_parallel_calls=os.cpu_count(), deterministic=True
        )
        return Batches(
            dataset=dataset.prefetch(4),
            steps=plan.steps,
            tokens=float(tokens.sum()) / plan.steps,
            examples=len(kept),
            shapes=plan.shapes,
        )

    def _lengths(self, sources, targets, layout) -> tuple[np.ndarray, np.ndarray]:
        """Positions each pair needs in a batch of this layout, and its real tokens on both sides."""
        s, t = self._count(self.source, sources), self._count(self.target, targets)
        if layout == "encoder_decoder":
            return np.maximum(s, t) + 1, s + t + 2
        if layout == "decoder":
            return s + t + 1, s + t + 1
        if not np.array_equal(s, t):
            raise InputError("an encoder-only model needs sources and targets of the same number of tokens")
        return s, s

    @staticmethod
    def _count(subwords: Subwords, texts: list[str]) -> np.ndarray:
        dataset = tf.data.Dataset.from_tensor_slices(tf.constant(texts)).batch(1024)
        counts = dataset.map(lambda batch: subwords.tokenize(batch).row_lengths(), num_parallel_calls=os.cpu_count())
        return np.concatenate(list(counts.as_numpy_iterator()))

    def _batch(self, texts, indices, length, layout):
        """One batch, tokenised and padded to (rows, length), inside the data pipeline."""
        padding = tf.size(texts[0], tf.int64) - 1  # the empty text at the end stands for a row of padding
        indices = tf.where(indices < 0, padding, indices)
        real = tf.cast(indices < padding, tf.int64)
        source = self.source.tokenize(tf.gather(texts[0], indices))
        target = self.target.tokenize(tf.gather(texts[1], indices))
        begin = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(real)], BEGIN), real)
        end = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(real)], END), real)

        def dense(ragged):
            return tf.ensure_shape(ragged.to_tensor(shape=tf.stack([tf.size(indices, tf.int64), length])), [None, None])

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


def _padded(length: int) -> int:
    """The most positions a batch of this length has: training pads to a multiple of 4, decoding to one of 8."""
    return -(-length // 8) * 8
