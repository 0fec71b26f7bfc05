"""Subword vocabularies: trained by sentencepiece, applied by tensorflow-text inside the data pipeline."""

import io
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import tensorflow as tf

from zoo.errors import InputError
from zoo.quiet import quiet
from zoo.tokens import BEGIN, END, PAD, UNKNOWN
from zoo.whole import whole_file


class Subwords:
    """A trained subword vocabulary.

    Args:
        model: the serialized sentencepiece model.

    Reference:
        Kudo and Richardson, 2018, "SentencePiece"; Sennrich et al., 2016, "Neural Machine Translation of Rare Words
        with Subword Units".
    """

    def __init__(self, model: bytes):
        sentencepiece.set_min_log_level(2)
        self.model = model
        self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)

    @classmethod
    def train(cls, lines: Iterable[str], size: int, kind: str = "bpe") -> "Subwords":
        """Trains a vocabulary.

        Args:
            lines: the training text.
            size: number of tokens, the reserved ones included; fewer where the text does not have so many.
            kind: "bpe", "unigram" or "char".

        Raises:
            InputError: the text has nothing to train on, or the size is too small for its characters.
        """
        buffer = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=buffer,
                vocab_size=size,
                model_type=kind,
                hard_vocab_limit=False,
                character_coverage=1.0,
                normalization_rule_name="identity",  # what is decoded equals what was there, but for runs of spaces
                pad_id=PAD,
                bos_id=BEGIN,
                eos_id=END,
                unk_id=UNKNOWN,
                input_sentence_size=2_000_000,  # more lines than this are sampled
                num_threads=os.cpu_count(),
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            reason = str(error).split("] ")[-1].strip() or "no text"
            raise InputError(f"no vocabulary of {size} subwords can be trained on this text: {reason}") from error
        return cls(buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """The vocabulary that :meth:`save` wrote.

        Raises:
            InputError: the file is damaged.
        """
        try:
            vocabulary = cls(path.read_bytes())
            if not vocabulary.size:
                raise RuntimeError
        except RuntimeError as error:
            raise InputError(f"{str(path)!r} is not a vocabulary, or is damaged") from error
        return vocabulary

    def save(self, path: Path) -> None:
        """Writes the sentencepiece model, whole or not at all."""
        with whole_file(path) as partial:
            partial.write_bytes(self.model)

    @property
    def size(self) -> int:
        """Number of tokens."""
        return self.processor.vocab_size()

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Strings (N,) -> ids (N, ragged) as int32, without begin or end."""
        return tf.cast(_tokenizer(self.model).tokenize(texts), tf.int32)

    def encode(self, text: str) -> list[int]:
        """The ids of one text, the same as :meth:`tokenize` gives."""
        return self.processor.encode(text)

    def sample(self, texts: Iterable[str], alpha: float, seed: int) -> list[list[int]]:
        """The ids of each text in subwords drawn at random, the same for the same seed.

        Args:
            texts: the texts.
            alpha: of "bpe", the chance that a merge is left out; of "unigram", the exponent of the probability of a
                segmentation.
            seed: of the draws, below 2**32.

        Reference:
            Provilkov et al., 2020, "BPE-Dropout: Simple and Effective Subword Regularization"; Kudo, 2018, "Subword
            Regularization".
        """
        rows = []

        def draw():
            sentencepiece.set_random_generator_seed(seed)
            rows.extend(self.processor.encode(text, enable_sampling=True, alpha=alpha, nbest_size=-1) for text in texts)

        # Sentencepiece seeds the generator of a thread when that thread first draws.
        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
        return rows

    def detokenize(self, rows) -> list[str]:
        """Rows of ids -> texts; a row ends at its end token or its padding."""
        texts = []
        for row in np.asarray(rows):
            stop = np.flatnonzero((row == END) | (row == PAD))
            texts.append(self.processor.decode([int(i) for i in (row[: stop[0]] if len(stop) else row)]))
        return texts

    def pieces(self, text: str) -> list[str]:
        """The subwords of a text as they are written, for showing."""
        return self.processor.encode(text, out_type=str)


_TOKENIZERS: dict[bytes, Any] = {}


def _tokenizer(model: bytes):
    """The tensorflow-text operation of a model, one for all who use that model.

    TensorFlow keeps its resource in a cache that every ``set_seed`` empties, and two operations of equal models
    share one, which the first to be collected destroys. So there is one, kept, and made anew when it is gone.
    """
    import tensorflow_text  # slow to import

    with tf.init_scope():  # not inside the graph of a data pipeline that may be tracing
        with quiet():
            try:
                _TOKENIZERS[model].tokenize([""])
            except (KeyError, tf.errors.NotFoundError):
                _TOKENIZERS[model] = tensorflow_text.SentencepieceTokenizer(model=model)
        return _TOKENIZERS[model]
