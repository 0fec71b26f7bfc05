"""Beam search: the loop that keeps the best K hypotheses of every input.

Each input has K live hypotheses and a pool of K finished ones. A hypothesis that ends moves to the pool and stays
there, whatever comes later. An input is done when no live hypothesis can still beat the worst of a full pool, or at
its own limit of tokens; from then on it is frozen, so its outputs don't depend on what else is in the batch.
"""

from keras import ops

from zoo.architectures.base import map_rows
from zoo.generation.constraints import NEVER, penalty
from zoo.generation.largest import largest
from zoo.generation.settings import Decoding
from zoo.tokens import END

_RULED_OUT = -1e4  # log-probability of an end that must come though the model rules it out: hypotheses still compare


def search(model, settings: Decoding, inputs: dict, max_length: int):
    """The loop, as backend operations.

    Args:
        model: an architecture.
        settings: with the width of the beam, K.
        inputs: "inputs", what the model's ``call`` gets without the target; "prompt", int (B, P);
            "prompt_lengths", int (B,), 0 for a row of padding; "starts", int (B,), where in the prompt the output
            begins; "limits", int (B,), the most tokens after the prompt.
        max_length: L, positions of the cache.

    Returns:
        Tokens (B, K, L + 1), the prompt included, and log-probabilities (B, K), the best first; where there are fewer
        outputs than K, the rest have about NEVER.

    Reference:
        Wu et al., 2016, "Google's Neural Machine Translation System", section 7.
    """
    beam, limits, prompt_lengths = settings.beam, inputs["limits"], inputs["prompt_lengths"]
    rows = ops.shape(inputs["prompt"])[0]
    prompt = ops.repeat(ops.expand_dims(ops.cast(inputs["prompt"], "int32"), 1), beam, axis=1)
    room = ops.zeros((rows, beam, max_length + 1 - inputs["prompt"].shape[1]), "int32")
    tokens = ops.concatenate([prompt, room], axis=2)  # (B, K, L + 1): an end needs no place in the cache
    state = model.init_decoding(inputs["inputs"], max_length)
    state = map_rows(lambda part: ops.repeat(part, beam, axis=0), state)  # (B * K, ...)
    itself = ops.expand_dims(ops.arange(beam, dtype="int32"), 0)  # (1, K)
    live = ops.where(ops.equal(ops.broadcast_to(itself, (rows, beam)), 0), 0.0, NEVER)  # all start as one
    pool = (ops.zeros_like(tokens), ops.full((rows, beam), 2 * NEVER), ops.full((rows, beam), NEVER))
    start = (ops.zeros((), "int32"), tokens, live, pool, ops.equal(prompt_lengths, 0), state)

    def going(index, tokens, live, pool, done, state):
        return ops.logical_and(index < max_length, ops.logical_not(ops.all(done)))

    def step(index, tokens, live, pool, done, state):
        flat = ops.reshape(tokens, (-1, max_length + 1))
        logits, moved = model.decode_step(ops.slice(flat, (0, index), (ops.shape(flat)[0], 1)), state, index)
        vocabulary = logits.shape[-1]
        length = ops.expand_dims(index + 2 - prompt_lengths, 1)  # (B, 1): with this token, the end counted
        last = length > ops.expand_dims(limits, 1)  # only an end may come now
        last = ops.logical_or(last, index + 1 >= max_length)
        scores = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        is_end = ops.equal(ops.arange(vocabulary, dtype="int32"), END)
        ending = ops.where(is_end, ops.maximum(scores, _RULED_OUT), NEVER)
        allowed = scores + penalty(settings, flat, index, ops.repeat(inputs["starts"], beam), vocabulary)
        scores = ops.where(ops.repeat(last, beam, axis=0), ending, allowed)
        scores = ops.expand_dims(live, 2) + ops.reshape(scores, (-1, beam, vocabulary))
        best, place = largest(ops.reshape(scores, (-1, beam * vocabulary)), 2 * beam)  # at most K of them end
        parent, token = place // vocabulary, ops.cast(place % vocabulary, "int32")  # (B, 2K)
        extended = _written(_taken(tokens, parent), token, index + 1)
        ended = ops.equal(token, END)
        share = _length_penalty(length, settings.length_penalty)
        new_live, chosen = ops.top_k(ops.where(ended, NEVER * 2, best), beam)  # (B, K)
        finished = (extended, ops.where(ended, best / share, 2 * NEVER), best)
        new_pool = _best_of(beam, pool, finished)

        given = index + 1 < prompt_lengths  # of rows whose prompt lasts, the next token is written already
        kept = ops.expand_dims(ops.logical_or(given, done), 1)  # (B, 1)
        chosen_parent = ops.where(kept, itself, ops.take_along_axis(parent, chosen, axis=1))
        tokens = ops.where(ops.expand_dims(kept, 2), tokens, _taken(extended, chosen))
        live = ops.where(kept, live, new_live)
        pool = tuple(
            ops.where(ops.expand_dims(kept, 2) if len(new.shape) == 3 else kept, old, new)
            for old, new in zip(pool, new_pool, strict=True)
        )
        # With more tokens a hypothesis only loses probability; its share can grow up to that of the longest.
        longest = _length_penalty(limits + 1, settings.length_penalty)
        beaten = ops.max(live, axis=1) / longest <= ops.min(pool[1], axis=1)
        over = ops.logical_and(ops.logical_not(given), ops.logical_or(beaten, ops.squeeze(last, 1)))
        origin = ops.reshape(ops.expand_dims(ops.arange(rows, dtype="int32"), 1) * beam + chosen_parent, (-1,))
        # What a step leaves as it is, is the same for all hypotheses of an input: the encoded source.
        state = map_rows(lambda new, old: new if new is old else ops.take(new, origin, axis=0), moved, state)
        return index + 1, tokens, live, pool, ops.logical_or(done, over), state

    _, _, _, pool, _, _ = ops.while_loop(going, step, start)
    return pool[0], pool[2]


def _length_penalty(length, alpha: float):
    """What a log-probability is divided by, for outputs of ``length`` tokens, the end counted."""
    return ops.power((5.0 + ops.cast(length, "float32")) / 6.0, alpha)


def _taken(x, index):
    """(B, K, L) and (B, M) -> (B, M, L)."""
    return ops.take_along_axis(x, ops.expand_dims(index, 2), axis=1)


def _written(tokens, token, index):
    """``tokens`` (B, M, L) with ``token`` (B, M) at position ``index``."""
    here = ops.equal(ops.arange(tokens.shape[2], dtype="int32"), index)
    return ops.where(here, ops.expand_dims(token, 2), tokens)


def _best_of(beam: int, *pools):
    """The best K by score, of several pools of tokens (B, M, L), scores (B, M) and log-probabilities (B, M)."""
    tokens, scores, logs = (ops.concatenate(parts, axis=1) for parts in zip(*pools, strict=True))
    scores, place = ops.top_k(scores, beam)
    return _taken(tokens, place), scores, ops.take_along_axis(logs, place, axis=1)
