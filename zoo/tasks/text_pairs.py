"""Tasks that turn one text into another."""

import copy
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import InputError, MissingMethodError
from zoo.tasks.base import Batches, Task
from zoo.tasks.bucketing import BatchPlan
from zoo.tasks.pair_layout import PairLayout
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
        raise MissingMethodError(f"{type(self).__name__} must define read")

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
        sides = [texts[:limit] for texts in self.pairs(split)]
        layout = PairLayout(layout, self.source, self.target)
        lengths, tokens = layout.lengths(*sides)
        longest = 2 * self.max_length + 1 if layout.name == "decoder" else self.max_length
        kept = np.flatnonzero(lengths <= longest)
        if not len(kept):
            raise InputError(
                f"no {split} pair has at most {self.max_length} tokens; raise task.options.max_length and train with it"
            )
        if len(kept) < len(lengths):
            left_out = f"{len(lengths) - len(kept)} of {len(lengths)} {split} pairs"
            print(f"{left_out} are longer than {self.max_length} tokens: left out", file=sys.stderr)
        lengths, tokens, sides = lengths[kept], tokens[kept], [[side[i] for i in kept] for side in sides]
        sampling = self.subword_sampling if seed is not None else 0.0
        if sampling:
            lengths = np.minimum(layout.room(sides, lengths, sampling), longest)
        plan = BatchPlan(lengths, batch_tokens, buckets, seed, row_multiple)
        dataset = layout.sampled(sides, plan, step, sampling) if sampling else layout.tokenized(sides, plan, step)
        return Batches(
            dataset=dataset.prefetch(4),
            steps=plan.steps,
            tokens=float(tokens.sum()) / plan.steps,
            examples=len(kept),
            shapes=plan.shapes,
        )

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
