"""The largest of the numbers of a row, without XLA's own ``argmax`` and ``top_k``, which are slow loops on CPUs."""

from keras import ops

_BLOCK = 32  # numbers; of 16 to 128 the fastest for a beam of 5 and 10,000 tokens


def first_largest(x):
    """The first place of the largest of each row of ``x`` (R, V), int (R,)."""
    places = ops.expand_dims(ops.arange(x.shape[-1], dtype="int32"), 0)
    most = ops.max(x, axis=-1, keepdims=True)
    return ops.min(ops.where(x >= most, places, x.shape[-1] - 1), axis=-1)


def largest(x, count: int):
    """The largest of each row of ``x`` (R, V) and their places, each (R, count), as by ``ops.top_k``.

    They are in the ``count`` blocks with the largest maxima, of which the first are taken where some are equal, and in
    the rest beyond the last whole block; so only the maxima and these numbers are sorted.
    """
    width = x.shape[-1]
    blocks = width // _BLOCK
    if blocks <= count:
        return ops.top_k(x, count)
    whole = blocks * _BLOCK
    parts = ops.reshape(x[:, :whole], (-1, blocks, _BLOCK))
    _, chosen = ops.top_k(ops.max(parts, axis=-1), count)
    chosen = ops.expand_dims(ops.sort(ops.cast(chosen, "int32"), axis=-1), 2)  # in order, as equals shall be
    numbers = ops.take_along_axis(parts, chosen, axis=1)  # (R, count, 32)
    places = chosen * _BLOCK + ops.arange(_BLOCK, dtype="int32")
    numbers, places = (ops.reshape(part, (-1, count * _BLOCK)) for part in (numbers, places))
    rest = ops.expand_dims(ops.arange(whole, width, dtype="int32"), 0)
    rest = ops.broadcast_to(rest, (ops.shape(x)[0], width - whole))
    numbers = ops.concatenate([numbers, x[:, whole:]], axis=1)
    found, at = ops.top_k(numbers, count)
    return found, ops.take_along_axis(ops.concatenate([places, rest], axis=1), at, axis=1)
