"""One hypothesis for each input: the most likely token at every step, or one that is drawn."""

from keras import ops

from zoo.generation.constraints import NEVER, penalty
from zoo.generation.largest import first_largest
from zoo.generation.settings import Decoding
from zoo.layers.hashing import hashed
from zoo.tokens import END, PAD


def decode(model, settings: Decoding, inputs: dict, max_length: int, scored: bool = True):
    """The loop, as backend operations; it ends as soon as every row has ended.

    Args:
        model: an architecture.
        settings: greedy, or a sample.
        inputs: as for :func:`zoo.generation.beam.search`, and "places", int (B,), which of all inputs each row is.
        max_length: L, positions of the cache.
        scored: whether the log-probabilities are wanted. The tokens are the same without; a pass over the vocabulary
            at each step is saved, and the step that only tells whether the longest output ends there.

    Returns:
        Tokens (B, 1, L), the prompt included, and log-probabilities (B, 1), those of the model itself, or zeros.
    """
    prompt, prompt_lengths, limits = inputs["prompt"], inputs["prompt_lengths"], inputs["limits"]
    rows = ops.shape(prompt)[0]
    room = ops.zeros((rows, max_length - prompt.shape[1]), "int32")
    tokens = ops.concatenate([ops.cast(prompt, "int32"), room], axis=1)
    state = model.init_decoding(inputs["inputs"], max_length)

    def going(index, tokens, finished, total, state):
        return ops.logical_and(index + 1 < max_length, ops.logical_not(ops.all(finished)))

    def step(index, tokens, finished, total, state):
        logits, state = model.decode_step(ops.slice(tokens, (0, index), (rows, 1)), state, index)
        logits = ops.cast(logits, "float32")
        allowed = logits + penalty(settings, tokens, index, inputs["starts"], logits.shape[-1])
        if settings.sample:
            allowed = _drawn(allowed, settings, inputs["places"], index)
        chosen = first_largest(allowed)
        in_prompt = index + 1 < prompt_lengths  # while a row's prompt lasts, its tokens are given
        given = ops.squeeze(ops.slice(tokens, (0, index + 1), (rows, 1)), 1)
        after_limit = index + 2 - prompt_lengths > limits  # only an end may come
        counts = ops.logical_not(ops.logical_or(finished, in_prompt))
        cut = ops.logical_and(after_limit, ops.not_equal(chosen, END))
        if scored:
            score = ops.take_along_axis(logits, ops.expand_dims(chosen, 1), axis=1)
            score = ops.squeeze(score, 1) - ops.logsumexp(logits, axis=-1)
            total = total + ops.where(ops.logical_and(counts, ops.logical_not(cut)), score, 0.0)
        chosen = ops.where(ops.logical_or(finished, cut), PAD, chosen)
        chosen = ops.where(in_prompt, given, chosen)
        over = ops.logical_or(ops.equal(chosen, END), cut)
        if not scored:  # what comes after the last token changes the score alone
            over = ops.logical_or(over, index + 2 - prompt_lengths >= limits)
        finished = ops.logical_or(finished, ops.logical_and(over, ops.logical_not(in_prompt)))
        return index + 1, ops.slice_update(tokens, (0, index + 1), ops.expand_dims(chosen, 1)), finished, total, state

    start = (ops.zeros((), "int32"), tokens, ops.equal(prompt_lengths, 0), ops.zeros((rows,)), state)
    _, tokens, _, total, _ = ops.while_loop(going, step, start)
    return ops.expand_dims(tokens, 1), ops.expand_dims(total, 1)


def _drawn(scores, settings: Decoding, places, index):
    """Scores (B, V) whose largest is a draw: what may not be drawn put away, and Gumbel noise on the rest."""
    scores = scores / settings.temperature
    if settings.top_k is not None and settings.top_k < scores.shape[-1]:
        least = ops.top_k(scores, settings.top_k)[0][:, -1:]
        scores = ops.where(scores < least, NEVER, scores)
    if settings.top_p is not None:
        ordered = ops.flip(ops.sort(scores, axis=-1), axis=-1)
        shares = ops.softmax(ordered, axis=-1)
        before = ops.cumsum(shares, axis=-1) - shares  # of all that are more likely
        least = ops.min(ops.where(before < settings.top_p, ordered, ordered[:, :1]), axis=-1, keepdims=True)
        scores = ops.where(scores < least, NEVER, scores)
    # The noise of a token depends on the seed, the input's place and the step alone, and not on the batch.
    seed = ops.convert_to_tensor(settings.seed % 2**31, "int32")
    stream = hashed(ops.cast(places, "int32") + hashed(ops.cast(index, "int32") + hashed(seed)))
    bits = hashed(ops.expand_dims(stream, 1) + ops.expand_dims(ops.arange(scores.shape[-1], dtype="int32"), 0))
    uniform = (ops.cast(ops.bitwise_and(bits, 2**23 - 1), "float32") + 0.5) / 2**23
    return scores - ops.log(-ops.log(uniform))
