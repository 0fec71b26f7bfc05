"""What the kinds share whose windows are looked up: any blocks of queries, each with any keys."""

import numpy as np
from keras import ops

from zoo.errors import MissingMethodError
from zoo.layers.attention.base import known
from zoo.layers.attention.heads import compare, softmax_mean
from zoo.layers.attention.windowed import WindowedAttention


class GatheredAttention(WindowedAttention):
    """Base of the kinds that look up the queries and the keys of each block, at a cost of their number.

    A kind says in :meth:`blocks` which they are. In an export for any length by JAX the square is computed, with the
    same result.
    """

    def blocks(self, length, xp) -> tuple:
        """Positions of the queries (C, Q) and of the keys (C, K) of each block; -1 where there is none.

        Every position below ``length`` is a query of one block, and all keys in its window are keys of that block.

        Args:
            length: T, an int or a scalar tensor.
            xp: what computes with it: numpy, or ``keras.ops``.
        """
        raise MissingMethodError(f"{type(self).__name__} must define blocks")

    def has_blocks(self, length) -> bool:
        return known(length)

    def _blocks(self, length):
        return self.blocks(length, np if isinstance(length, int) else ops)

    def attend_in_blocks(self, q, k, v, *, mask, bias, training):
        length = ops.shape(q)[1]
        queries, keys = self._blocks(length)
        q, k, v = _look_up(q * self.head_dim**-0.5, queries), _look_up(k, keys), _look_up(v, keys)
        logits = compare(q, k)
        bias = None if bias is None else ops.transpose(_look_up_pairs(bias, queries, keys), (0, 2, 1, 3, 4))
        mask = ops.expand_dims(self._mask(mask, queries, keys), 2)
        context = softmax_mean(logits, v, mask, bias, dropout=self.dropout_layer, training=training)
        context = ops.reshape(context, (-1, _size(queries), self.num_heads, self.head_dim))
        return ops.take(context, _places(queries, length), axis=1)

    def any_in_blocks(self, mask, length):
        queries, keys = self._blocks(length)
        seen = ops.any(self._mask(mask, queries, keys), axis=-1)  # (B, C, Q)
        return ops.take(ops.reshape(seen, (-1, _size(queries))), _places(queries, length), axis=1)

    def _mask(self, mask, queries, keys):
        """(B or 1, C, Q, K)."""
        seen = self.seen(ops.convert_to_tensor(queries[:, :, None]), ops.convert_to_tensor(keys[:, None, :]))
        seen = ops.expand_dims(ops.logical_and(seen, keys[:, None, :] >= 0), 0)
        if mask is None:
            return seen
        if mask.shape[2] == 1:
            of_keys = _look_up(ops.squeeze(mask, (1, 2)), keys)  # (B, C, K)
            return ops.logical_and(seen, ops.expand_dims(of_keys, 2))
        length = ops.shape(mask)[3]
        mask = ops.broadcast_to(mask, (ops.shape(mask)[0], 1, length, length))
        return ops.logical_and(seen, _look_up_pairs(mask, queries, keys)[:, 0])


def _look_up(x, positions):
    """(B, T, ...) -> (B, C, Q, ...); anything where there is no position."""
    return ops.take(x, _there(positions), axis=1)


def _look_up_pairs(x, queries, keys):
    """(B, N, T, T) -> (B, N, C, Q, K)."""
    length = ops.shape(x)[3]
    pairs = _there(queries)[:, :, None] * length + _there(keys)[:, None, :]
    return ops.take(ops.reshape(x, (-1, ops.shape(x)[1], length * length)), pairs, axis=2)


def _there(positions):
    """Some position in place of -1."""
    return np.maximum(positions, 0) if isinstance(positions, np.ndarray) else ops.maximum(positions, 0)


def _size(positions):
    count, size = ops.shape(positions)
    return count * size


def _places(queries, length):
    """Where each position below ``length`` is among the queries of all blocks, (T,)."""
    if isinstance(queries, np.ndarray):
        flat = queries.reshape(-1)
        return np.argsort(np.where(flat < 0, flat.size, flat), kind="stable")[:length].astype("int32")
    flat = ops.reshape(queries, (-1,))
    return ops.cast(ops.argsort(ops.where(flat < 0, _size(queries), flat))[:length], "int32")
