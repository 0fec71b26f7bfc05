"""Boolean attention masks: True where a query may attend to a key."""

from keras import ops

from zoo.tokens import PAD


def padding_mask(tokens):
    """(B, S) token ids -> (B, 1, S), False at padding.

    Padding is the reserved id PAD, which no text is ever tokenised to; the mask is passed on explicitly.
    """
    return ops.expand_dims(ops.not_equal(tokens, PAD), 1)


def causal_mask(num_queries, num_keys, offset=0):
    """(1, T, S): query ``i``, at position ``offset + i``, sees the keys at positions up to its own.

    ``offset`` may be a scalar tensor, as in cached decoding.
    """
    queries = ops.expand_dims(ops.arange(num_queries, dtype="int32"), 1) + ops.cast(offset, "int32")  # (T, 1)
    keys = ops.expand_dims(ops.arange(num_keys, dtype="int32"), 0)  # (1, S)
    return ops.expand_dims(ops.less_equal(keys, queries), 0)


def combine(*masks):
    """The logical and of the masks that are not None, by broadcasting; None when there are none."""
    present = [mask for mask in masks if mask is not None]
    if not present:
        return None
    combined = present[0]
    for mask in present[1:]:
        combined = ops.logical_and(combined, mask)
    return combined
