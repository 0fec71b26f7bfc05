"""Batches of similar length, sized in tokens, in few distinct shapes."""

from dataclasses import dataclass

import numpy as np


def bucket_lengths(lengths: np.ndarray, buckets: int, multiple: int = 4) -> tuple[int, ...]:
    """The ``buckets`` lengths to pad to that cost the least padding in all, by dynamic programming.

    Args:
        lengths: (N,) of the examples.
        buckets: at most so many.
        multiple: each is a multiple of this.

    Returns:
        Increasing lengths; the last holds the longest example.
    """
    rounded = -(-np.maximum(lengths, 1) // multiple)  # in units of ``multiple``, at least 1
    counts = np.bincount(rounded)
    longest = len(counts) - 1
    upto = np.cumsum(counts)  # examples of at most this length
    buckets = min(buckets, longest)
    cost = upto * np.arange(longest + 1)  # positions when all of at most this length are padded to it
    choice = np.zeros((buckets, longest + 1), int)
    for b in range(1, buckets):
        last = np.arange(longest + 1)
        options = cost[:, None] + (upto[None, :] - upto[:, None]) * last[None, :]  # [previous bound, this bound]
        options[np.tri(longest + 1, k=-1, dtype=bool)] = np.iinfo(np.int64).max
        choice[b] = options.argmin(0)
        cost = options.min(0)
    bounds, bound = [], longest
    for b in range(buckets - 1, -1, -1):
        bounds.append(bound)
        bound = choice[b, bound]
    return tuple(int(b) * multiple for b in sorted({b for b in bounds if b > 0}))


@dataclass(frozen=True)
class BatchPlan:
    """Which examples make which batch, for every epoch, as a pure function of seed and step.

    So a resumed run goes on at any step without reading what came before it.

    Attributes:
        lengths: (N,) padded positions each example needs.
        batch_tokens: rows times length of a batch, at most, unless the fewest rows there can be are more.
        buckets: distinct lengths.
        seed: of the shuffling; None keeps the order, shortest bucket first.
        row_multiple: rows of a batch are a multiple of this (a number of devices).
    """

    lengths: np.ndarray
    batch_tokens: int
    buckets: int
    seed: int | None = None
    row_multiple: int = 1

    def __post_init__(self):
        bounds = bucket_lengths(self.lengths, self.buckets)
        object.__setattr__(self, "shapes", tuple((self._rows(bound), bound) for bound in bounds))
        bucket = np.searchsorted(bounds, self.lengths)
        object.__setattr__(self, "_members", [np.flatnonzero(bucket == b) for b in range(len(bounds))])

    def _rows(self, length: int) -> int:
        rows = max(1, self.batch_tokens // length)
        multiple = np.lcm(8, self.row_multiple)
        multiple = multiple if rows >= multiple else self.row_multiple
        return int(max(rows // multiple, 1) * multiple)

    @property
    def steps(self) -> int:
        """Batches in an epoch."""
        return sum(-(-len(m) // rows) for m, (rows, _) in zip(self._members, self.shapes, strict=True))

    def epoch(self, epoch: int) -> list[tuple[np.ndarray, int]]:
        """The batches of an epoch: (rows,) indices, with -1 for rows of padding, and the length to pad to."""
        rng = None if self.seed is None else np.random.default_rng([self.seed, epoch])
        batches = []
        for members, (rows, length) in zip(self._members, self.shapes, strict=True):
            order = (
                members[np.argsort(self.lengths[members], kind="stable")] if rng is None else rng.permutation(members)
            )
            padded = np.full(-(-len(order) // rows) * rows, -1)
            padded[: len(order)] = order
            batches += [(indices, length) for indices in padded.reshape(-1, rows)]
        if rng is not None:
            batches = [batches[i] for i in rng.permutation(len(batches))]
        return batches

    def from_step(self, step: int):
        """The endless sequence of batches from ``step`` on."""
        epoch, within = divmod(step, self.steps)
        while True:
            yield from self.epoch(epoch)[within:]
            epoch, within = epoch + 1, 0
