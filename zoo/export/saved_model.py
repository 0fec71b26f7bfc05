"""A SavedModel that takes texts and gives texts: tokenizer, decoding loop and weights in one.

TensorFlow and tensorflow-text load it, and so does TensorFlow Serving, which has the operations of both; neither this
package nor Keras is needed. Its signature:

    serving_default(text: string (N,)) -> text: string (N, n_best), log_probability: float32 (N, n_best)

Where a text has fewer outputs, the rest are empty, at a log-probability of about -1e9.
"""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from zoo.errors import InputError
from zoo.generation import beam, single
from zoo.generation.constraints import NEVER
from zoo.generation.trained import Trained
from zoo.quiet import quiet
from zoo.tasks.text_pairs import TextPairs
from zoo.tokens import BEGIN, END, PAD
from zoo.whole import replaced_folder


class TextModel(tf.Module):
    """A trained model with its tokenizers and its decoder, from texts to texts.

    Args:
        trained: the run, on the TensorFlow backend, decoding as it does.
    """

    def __init__(self, trained: Trained):
        super().__init__(name="text_model")
        import tensorflow_text

        self._trained = trained
        self._model, self._settings = trained.model, trained.decoder.settings
        self.weights = [variable.value for variable in trained.model.variables]
        models = dict.fromkeys((trained.task.source.model, trained.task.target.model))
        self.tokenizers = [tensorflow_text.SentencepieceTokenizer(model=model) for model in models]
        limit = trained.model.position_limit()
        self._longest = min(_longest(trained), limit or _longest(trained))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        """Texts (N,) -> what the model makes of them, the best first, and the log-probability of each."""
        source = tf.cast(self.tokenizers[0].tokenize(text), tf.int32)
        tail = {"encoder_decoder": END, "decoder": BEGIN}.get(self._model.layout)
        if tail is not None:
            source = tf.concat([source, tf.fill([tf.size(text), 1], tail)], axis=1)
        lengths = tf.cast(source.row_lengths(), tf.int32)
        message = f"a text is longer than the {self._longest} tokens that this model takes"
        with tf.control_dependencies([tf.debugging.assert_less_equal(lengths, self._longest, message)]):
            tokens = source.to_tensor(shape=[None, self._longest if self._model.layout == "decoder" else None])
        if self._model.layout == "encoder":
            return self._labels(tokens, lengths)
        rows, scores, prompt_lengths = self._decode(tokens, lengths)
        count = self._settings.n_best
        rows, scores = rows[:, :count], scores[:, :count]
        places = tf.range(tf.shape(rows)[2])
        output = places >= prompt_lengths[:, None, None]
        ends = tf.logical_and(output, tf.logical_or(tf.equal(rows, END), tf.equal(rows, PAD)))
        kept = tf.logical_and(output, tf.equal(tf.cumsum(tf.cast(ends, tf.int32), axis=2), 0))
        there = tf.logical_or(scores > NEVER / 2, tf.range(tf.shape(scores)[1]) == 0)
        kept = tf.logical_and(kept, there[:, :, None])
        return {"text": self._texts(rows, kept), "log_probability": scores}

    def _decode(self, tokens, lengths):
        """Tokens (N, K, L), prompt included, log-probabilities (N, K) and the prompts' lengths (N,)."""
        settings, decoder, layout = self._settings, self._trained.decoder, self._model.layout
        ones = tf.ones_like(lengths)
        prompt = tokens if layout == "decoder" else BEGIN * ones[:, None]
        prompt_lengths = lengths if layout == "decoder" else ones
        room = settings.max_length or decoder.extra + self._longest
        limits = lengths + decoder.extra if settings.max_length is None else settings.max_length * ones
        batch = {
            "inputs": {"tokens" if layout == "decoder" else "source": tokens},
            "prompt": prompt,
            "prompt_lengths": prompt_lengths,
            "starts": prompt_lengths,
            "limits": limits,
            "places": tf.range(tf.size(lengths)),
        }
        limit, length = self._model.position_limit(), prompt.shape[1] + room + 1
        search = beam.search if settings.beam > 1 else single.decode
        rows, scores = search(self._model, settings, batch, length if limit is None else min(length, limit))
        return rows, scores, prompt_lengths

    def _labels(self, tokens, lengths):
        """The most likely label of every token."""
        logits = tf.nn.log_softmax(self._model({"tokens": tokens}, training=False))
        kept = tf.sequence_mask(lengths, tf.shape(tokens)[1])
        scores = tf.reduce_sum(tf.where(kept, tf.reduce_max(logits, -1), 0.0), -1, keepdims=True)
        labels = tf.argmax(logits, -1, output_type=tf.int32)
        return {"text": self._texts(labels[:, None], kept[:, None]), "log_probability": scores}

    def _texts(self, rows, kept):
        """Tokens (N, K, L) -> strings (N, K) of those that are kept."""
        shape = tf.shape(rows)
        flat = tf.ragged.boolean_mask(tf.reshape(rows, [-1, shape[2]]), tf.reshape(kept, [-1, shape[2]]))
        return tf.reshape(self.tokenizers[-1].detokenize(flat), shape[:2])


def export_saved_model(trained: Trained, path: Path) -> None:
    """Writes a run as a SavedModel from texts to texts, whole or not at all.

    Args:
        trained: the run; it decodes as ``trained.decoder`` does, greedily or with a beam.
        path: the folder; a SavedModel that is there is replaced.

    Raises:
        InputError: the backend is not TensorFlow, the task is not from texts to texts, or other things are there.
    """
    if keras.backend.backend() != "tensorflow":
        raise InputError("a SavedModel is made on TensorFlow; every run can be: use --backend=tensorflow")
    if not isinstance(trained.task, TextPairs):
        raise InputError(f"task {trained.recipe.task.name!r} is not from texts to texts; export --format=keras")
    model = TextModel(trained)
    with replaced_folder(path, "saved_model.pb") as partial, quiet():
        tf.saved_model.save(model, str(partial), signatures={"serving_default": model.serve})


def _longest(trained: Trained) -> int:
    """Tokens that a source has at most, with the one that ends it."""
    return int(np.ceil((trained.task.max_length + 1) / 8) * 8)
