"""Which tokens may not come next."""

from keras import ops

from zoo.generation.settings import Decoding
from zoo.tokens import BEGIN, END, PAD

NEVER = -1e9  #: Added to the log-probability of a token that may not come.


def penalty(settings: Decoding, tokens, index, starts, vocabulary: int):
    """What is added to the log-probabilities (R, V) of the token after position ``index``.

    Args:
        settings: of the decoder.
        tokens: int (R, L), the tokens so far and zeros after them.
        index: scalar int, the position of the last one.
        starts: int (R,), where the outputs begin; a prefix that was given is part of them.
        vocabulary: V.
    """
    ids = ops.expand_dims(ops.arange(vocabulary, dtype="int32"), 0)
    unwritten = ops.logical_or(ops.equal(ids, PAD), ops.equal(ids, BEGIN))  # (1, V)
    banned = unwritten
    if settings.min_length:
        generated = index + 1 - starts  # so far
        early = ops.expand_dims(generated < settings.min_length, 1)
        banned = ops.logical_or(banned, ops.logical_and(early, ops.equal(ids, END)))
    if settings.no_repeat_ngram:
        repeated = _repeats(tokens, index, starts, settings.no_repeat_ngram, vocabulary)
        banned = ops.logical_or(banned, repeated)
    return ops.where(unwritten, 2 * NEVER, ops.where(banned, NEVER, 0.0))  # where nothing may come, an end does


def _repeats(tokens, index, starts, size: int, vocabulary: int):
    """Bool (R, V): whether a token would end a sequence of ``size`` that the output already has."""
    rows, length = ops.shape(tokens)[0], tokens.shape[1]
    windows = length - size + 1
    if windows < 1:
        return ops.zeros((rows, vocabulary), "bool")
    places = ops.expand_dims(ops.arange(windows, dtype="int32"), 0)  # (1, W)
    same = ops.logical_and(places >= ops.expand_dims(starts, 1), places + size - 1 <= index)  # (R, W)
    for i in range(size - 1):
        place = ops.maximum(index - (size - 2) + i, 0)
        last = ops.slice(tokens, (0, place), (rows, 1))
        same = ops.logical_and(same, ops.equal(tokens[:, i : i + windows], last))
    enough = index + 1 - starts >= size - 1  # the last tokens are all of the output
    same = ops.logical_and(same, ops.expand_dims(enough, 1))
    after = tokens[:, size - 1 :]  # (R, W), what ended each sequence
    flat = ops.expand_dims(ops.arange(rows, dtype="int32"), 1) * vocabulary + after
    counts = ops.scatter(ops.reshape(flat, (-1, 1)), ops.reshape(ops.cast(same, "int32"), (-1,)), (rows * vocabulary,))
    return ops.reshape(counts, (rows, vocabulary)) > 0
