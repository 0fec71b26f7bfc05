"""What every head computes: products with the keys, softmax, the sum of the values; and the rotation of both sides.

The products have the heads in front: on CPUs, XLA takes up to twice the time for an einsum over the same axes where
they lie (JAX, 1024 positions, 4 heads x 64).
"""

import keras
from keras import ops


def compare(q, k):
    """Products of each query with each key: q (..., T, N, H), k (..., S, N, H) -> (..., N, T, S)."""
    before = "abcd"[: len(q.shape) - 3]  # and not a product with the transpose of k, which a decoding step would copy
    return ops.einsum(f"{before}nth,{before}nsh->{before}nts", heads_first(q), heads_first(k))


def weigh(weights, v):
    """Sums of the values: weights (..., N, T, S), v (..., S, N, H) -> (..., T, N, H)."""
    return heads_first(ops.matmul(weights, heads_first(v)))


def masked_softmax(logits, mask, bias=None):
    """Softmax over the last axis of ``logits`` (B, N, T, S) in float32, zero where ``mask`` is False.

    A row that is masked everywhere comes out uniform; the caller zeroes it, which is cheaper by a factor of S.
    """
    if logits.shape[-1] == 1:  # of which Keras warns
        return ops.ones_like(logits)
    return ops.cast(ops.softmax(_masked(logits, mask, bias), axis=-1), logits.dtype)


def softmax_mean(logits, v, mask=None, bias=None, *, dropout, training):
    """Means of the values, weighed by the softmax: logits (..., N, T, S), v (..., S, N, H) -> (..., T, N, H).

    What ``weigh(dropout(masked_softmax(logits, mask, bias)), v)`` gives. In training the sums divide T x H numbers at
    the end and not T x S before, which takes a sixth off a step on JAX (1024 positions, 4 heads x 64); without a
    gradient XLA makes more of the softmax. In half precision, sums of what is not yet divided could overflow.
    """
    if not training or keras.backend.standardize_dtype(logits.dtype) != "float32":
        return weigh(dropout(masked_softmax(logits, mask, bias), training=training), v)
    logits = _masked(logits, mask, bias)
    largest = ops.stop_gradient(ops.max(logits, axis=-1, keepdims=True))  # the mean is the same for any constant
    weights = ops.exp(logits - largest)
    totals = ops.sum(weights, axis=-1, keepdims=True)  # (..., N, T, 1)
    return heads_first(ops.matmul(dropout(weights, training=training), heads_first(v)) / totals)


def _masked(logits, mask, bias):
    """Logits in float32, with the bias added and -1e9 where ``mask`` is False."""
    logits = ops.cast(logits, "float32")
    if bias is not None:
        logits = logits + ops.cast(bias, "float32")
    return logits if mask is None else ops.where(mask, logits, -1e9)


def rotate(x, rotation):
    """Turns each pair of features of ``x`` (B, T, N, H) by the angles in ``rotation``, (cos, sin) of (T, 1, H).

    Pairs are (i, i + H/2), so ``cos`` and ``sin`` hold each angle twice.

    Reference:
        Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
    """
    cos, sin = (ops.cast(part, x.dtype) for part in rotation)
    first, second = ops.split(x, 2, axis=-1)
    return x * cos + ops.concatenate([-second, first], axis=-1) * sin


def heads_first(x):
    """(..., T, N, H) -> (..., N, T, H), and back."""
    return ops.swapaxes(x, -3, -2)
