"""Bucketing: the least padding, every example once an epoch, few shapes, and any step without those before it."""

import itertools

import numpy as np
import pytest

from zoo.tasks.bucketing import BatchPlan, bucket_lengths


def lengths_of(seed: int, count: int = 200, longest: int = 60) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, longest + 1, count)


def padded(lengths, bounds) -> int:
    """Positions in all when each example is padded to the smallest bound that holds it."""
    return sum(min(bound for bound in bounds if bound >= length) for length in lengths)


def examples(batches) -> list[int]:
    return [int(i) for indices, _ in batches for i in indices if i >= 0]


def same(one, other) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(a, b) and m == n for (a, m), (b, n) in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("multiple", [1, 4])
@pytest.mark.parametrize("buckets", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_least_padding_of_all_choices(seed, buckets, multiple):
    lengths = lengths_of(seed, count=25, longest=9 * multiple)
    bounds = bucket_lengths(lengths, buckets, multiple)
    candidates = range(multiple, 9 * multiple + 1, multiple)
    choices = itertools.chain.from_iterable(itertools.combinations(candidates, n) for n in range(1, buckets + 1))
    least = min(padded(lengths, choice) for choice in choices if choice[-1] >= lengths.max())
    assert padded(lengths, bounds) == least
    assert len(bounds) <= buckets
    assert list(bounds) == sorted(set(bounds))
    assert all(bound % multiple == 0 for bound in bounds)
    assert lengths.max() <= bounds[-1] < lengths.max() + multiple


def test_empty_examples_have_a_bucket():
    assert bucket_lengths(np.array([0, 0, 0]), 4) == (4,)


@pytest.mark.parametrize("seed", [None, 7])
def test_every_example_once_an_epoch(seed):
    lengths = lengths_of(1)
    plan = BatchPlan(lengths, batch_tokens=256, buckets=4, seed=seed)
    for epoch in range(3):
        batches = plan.epoch(epoch)
        assert sorted(examples(batches)) == list(range(len(lengths)))
        assert len(batches) == plan.steps
        assert all(lengths[i] <= length for indices, length in batches for i in indices if i >= 0)


def test_few_shapes_that_never_change():
    plan = BatchPlan(lengths_of(2), batch_tokens=256, buckets=3, seed=1)
    assert len(plan.shapes) <= 3
    for epoch in range(3):
        assert {(len(indices), length) for indices, length in plan.epoch(epoch)} == set(plan.shapes)


@pytest.mark.parametrize("row_multiple", [1, 2, 3, 5, 6, 16])
@pytest.mark.parametrize("batch_tokens", [1, 64, 500, 4096])
def test_rows_are_for_the_devices_and_the_tokens_within_the_limit(batch_tokens, row_multiple):
    plan = BatchPlan(lengths_of(3), batch_tokens, buckets=4, row_multiple=row_multiple)
    for rows, length in plan.shapes:
        assert rows % row_multiple == 0
        assert rows * length <= max(batch_tokens, row_multiple * length)  # a device has one row at least
        assert (rows + 8 * row_multiple) * length > batch_tokens  # and not far fewer than fit


def test_from_step_goes_on_where_it_would_have_been():
    plan = BatchPlan(lengths_of(4), batch_tokens=512, buckets=3, seed=5)
    expected = list(itertools.islice(plan.from_step(0), 3 * plan.steps))
    for step in (0, 1, plan.steps - 1, plan.steps, plan.steps + 1, 2 * plan.steps + 3):
        assert same(list(itertools.islice(plan.from_step(step), 3 * plan.steps - step)), expected[step:])
    assert same(expected[plan.steps : 2 * plan.steps], plan.epoch(1))


def test_seed_and_epoch_decide_the_order():
    def epoch(seed, number):
        return BatchPlan(lengths_of(6), batch_tokens=256, buckets=3, seed=seed).epoch(number)

    assert same(epoch(1, 0), epoch(1, 0))
    assert not same(epoch(1, 0), epoch(2, 0))
    assert not same(epoch(1, 0), epoch(1, 1))


def test_without_a_seed_short_ones_come_first():
    lengths = lengths_of(8)
    plan = BatchPlan(lengths, batch_tokens=256, buckets=3)
    assert same(plan.epoch(0), plan.epoch(1))
    in_order = lengths[examples(plan.epoch(0))]
    assert np.array_equal(in_order, np.sort(lengths))


def test_shuffling_mixes_batches_of_all_lengths():
    plan = BatchPlan(lengths_of(9, count=2000), batch_tokens=256, buckets=4, seed=1)
    first_half = [length for _, length in plan.epoch(0)[: plan.steps // 2]]
    assert len(set(first_half)) == len(plan.shapes)
