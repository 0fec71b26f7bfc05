"""The conformance kit: what is right passes, and every planted fault is found where it is."""

import keras
import numpy as np
import pytest
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.base import Attention, masked_softmax
from zoo.layers.attention.local import LocalAttention
from zoo.layers.attention.multi_head import MultiHeadAttention
from zoo.layers.position.base import Position
from zoo.layers.position.learned import LearnedPosition
from zoo.layers.position.sinusoidal import SinusoidalPosition
from zoo.testing import check_attention, check_position
from zoo.testing.attention import PROPERTIES
from zoo.testing.position import PROPERTIES as POSITION_PROPERTIES
from zoo.testing.report import FAIL, PASS, UNSUPPORTED, Report, Result

pytestmark = pytest.mark.backends

SLOW = {"fresh process", "export", "training", "jit"}  # saving_test and architectures_test have every kind as well
QUICK = [name for name in PROPERTIES if name not in SLOW]
QUICK_POSITIONS = [name for name in POSITION_PROPERTIES if name not in SLOW]


@pytest.mark.parametrize("name", registry.attention.names())
def test_every_kind_conforms(name):
    report = check_attention(name, properties=QUICK)
    assert report, report


@pytest.mark.parametrize("name", registry.position.names())
def test_every_scheme_conforms(name):
    report = check_position(name, properties=QUICK_POSITIONS)
    assert report, report


def test_a_kind_with_all_properties():
    report = check_attention("local", block_length=4)
    assert report, report
    found = {result.property: result.status for result in report.results}
    assert found.keys() == PROPERTIES.keys()
    untried = {name for name, status in found.items() if status == UNSUPPORTED}
    assert untried - {"jit", "export"} == {"permutation equivariance", "cache across"}
    if keras.backend.backend() != "torch":
        assert not untried & {"jit", "export"}


def test_a_scheme_with_all_properties():
    report = check_position("rotary")
    assert report, report
    assert {result.property for result in report.results} == POSITION_PROPERTIES.keys()


# Planted faults in kinds


class Leaking(MultiHeadAttention):
    """A causal mask that is off by one."""

    def visible(self, attention_mask, num_queries, num_keys, offset):
        return super().visible(attention_mask, num_queries, num_keys, (0 if offset is None else offset) + 1)


class Peeking(MultiHeadAttention):
    """A normalisation over all positions before the mask has its say."""

    def attend(self, q, k, v, **settings):
        return super().attend(q, k, v - ops.mean(v, axis=1, keepdims=True), **settings)


class MaskForgetting(MultiHeadAttention):
    """The mask of a query is taken for that of all."""

    def visible(self, attention_mask, num_queries, num_keys, offset):
        mask = None if attention_mask is None else ops.any(attention_mask, axis=1, keepdims=True)
        return super().visible(mask, num_queries, num_keys, offset)


class CacheOffByOne(MultiHeadAttention):
    """Keys go one place too far."""

    def call(self, query, value=None, *, cache=None, cache_index=None, **settings):
        if cache is not None and cache_index is not None:
            cache = {name: ops.roll(part, 1, axis=1) for name, part in cache.items()}
        return super().call(query, value, cache=cache, cache_index=cache_index, **settings)


class CacheOfOthers(MultiHeadAttention):
    """A cache without the batch in front."""

    def init_cache(self, batch_size, max_length):
        return {name: ops.swapaxes(part, 0, 1) for name, part in super().init_cache(batch_size, max_length).items()}

    def call(self, query, value=None, *, cache=None, cache_index=None, **settings):
        if cache is None or cache_index is None:
            return super().call(query, value, cache=cache, **settings)
        turned = {name: ops.swapaxes(part, 0, 1) for name, part in cache.items()}
        out, turned = super().call(query, value, cache=turned, cache_index=cache_index, **settings)
        return out, {name: ops.swapaxes(part, 0, 1) for name, part in turned.items()}


class Unscaled(MultiHeadAttention):
    """No division by the square root of the head's width."""

    def attend(self, q, k, v, **settings):
        return super().attend(q * self.head_dim**0.5, k, v, **settings)


class Forgetful(MultiHeadAttention):
    """A config without one of its arguments."""

    def __init__(self, num_heads, head_dim, *, sharpness=1.0, **settings):
        super().__init__(num_heads, head_dim, **settings)
        self.sharpness = sharpness

    def get_config(self):
        config = super().get_config()
        del config["sharpness"]
        return config


class Cut(MultiHeadAttention):
    """No gradient through the keys."""

    def attend(self, q, k, v, **settings):
        return super().attend(q, ops.stop_gradient(k), v, **settings)


class Restless(MultiHeadAttention):
    """A query with nothing to attend to takes the mean."""

    def sees_any(self, mask, num_queries, num_keys, offset):
        return ops.ones((1, 1), "bool")


class Lavish(MultiHeadAttention):
    """Weights that sum to 2."""

    def attend(self, q, k, v, **settings):
        context, scores = super().attend(q, k, v, **settings)
        return 2 * context, None if scores is None else 2 * scores


class HalfPrecise(MultiHeadAttention):
    """An output in float32, whatever the policy."""

    def call(self, *arguments, **settings):
        out = super().call(*arguments, **settings)
        return out if isinstance(out, tuple) else ops.cast(out, "float32")


class BiasForgetting(MultiHeadAttention):
    """A bias is taken, and dropped."""

    def attend(self, q, k, v, *, bias, **settings):
        return super().attend(q, k, v, bias=None, **settings)


class Ordered(MultiHeadAttention):
    """Not said to be positional, and it is."""

    def attend(self, q, k, v, **settings):
        steps = ops.reshape(ops.arange(ops.shape(v)[1], dtype=v.dtype), (1, -1, 1, 1))
        return super().attend(q, k, v * steps, **settings)


class Wrapping(LocalAttention):
    """Blocks at either end have each other for neighbours."""

    def window(self, queries, keys):
        return super().window(queries, keys % 24)

    def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
        k, v = ops.roll(k, 1, axis=1), ops.roll(v, 1, axis=1)
        settings = {"mask": mask, "bias": bias, "offset": offset, "with_scores": with_scores, "training": training}
        return super().attend(q, k, v, **settings)


@pytest.mark.parametrize(
    ("mutant", "fault"),
    [
        (Leaking, "no leak from the future"),
        (Peeking, "masks"),
        (MaskForgetting, "masks"),
        (CacheOffByOne, "cached steps"),
        (CacheOfOthers, "cache after a beam reorder"),
        (Unscaled, "scale"),
        (Forgetful, "config"),
        (Cut, "finite differences"),
        (Restless, "nothing to attend to"),
        (Lavish, "scores sum to 1"),
        (HalfPrecise, "dtype policies"),
        (BiasForgetting, "bias and rotation"),
        (Ordered, "permutation equivariance"),
        (Wrapping, "no leak from the future"),
    ],
)
def test_a_planted_fault_is_found(mutant, fault):
    options = {"block_length": 4} if mutant is Wrapping else {}
    report = check_attention(mutant, properties=QUICK, **options)
    assert fault in {result.property for result in report.failures}, report
    assert not report


def test_a_fault_only_in_compiled_code_or_another_process_is_found(monkeypatch):
    class Eager(MultiHeadAttention):
        """Python's own numbers, which a compiled function does not have."""

        def attend(self, q, k, v, **settings):
            return super().attend(q * float(np.asarray(ops.convert_to_numpy(q)).max() * 0 + 1), k, v, **settings)

    report = check_attention(Eager, properties=["jit", "fresh process"])
    status = {result.property: result.status for result in report.results}
    assert status["jit"] == (UNSUPPORTED if keras.backend.backend() == "torch" else FAIL)
    assert status["fresh process"] == UNSUPPORTED  # a class of this function is in no module


def test_what_a_kind_does_not_claim_is_not_tried():
    class Modest(MultiHeadAttention):
        supports = frozenset({"bidirectional"})

    report = check_attention(Modest)
    assert report
    status = {result.property: result.status for result in report.results}
    assert status["shapes"] == status["scale"] == PASS or status["scale"] == UNSUPPORTED
    for name in ("no leak from the future", "masks", "cached steps", "cache across", "training"):
        assert status[name] == UNSUPPORTED


def test_a_kind_that_claims_what_there_is_not():
    class Boastful(MultiHeadAttention):
        supports = frozenset({"bidirectional", "everything"})

    report = check_attention(Boastful, properties=["shapes"])
    assert "everything" in report.failures[0].detail


def test_a_kind_that_raises_fails_and_the_rest_goes_on():
    class Broken(Attention):
        def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
            scores = masked_softmax(ops.einsum("btnh,bsnh->bnts", q, k), mask, bias)
            return ops.einsum("bnts,bsnh->btnh", scores, v)  # and no scores

    report = check_attention(Broken, properties=["shapes", "config"])
    assert [result.status for result in report.results] == [FAIL, FAIL]


# Planted faults in schemes


class FromZero(SinusoidalPosition):
    """Positions that always start at 0."""

    def call(self, query_positions, key_positions=None):
        return super().call(query_positions - query_positions[0], key_positions)


class Endless(LearnedPosition):
    """Silently the last row, beyond the table."""

    def call(self, query_positions, key_positions=None):
        return super().call(ops.minimum(query_positions[: self.limit], self.limit - 1))


class Blind(SinusoidalPosition):
    """All positions are one."""

    def call(self, query_positions, key_positions=None):
        return super().call(query_positions * 0)


class Narrow(SinusoidalPosition):
    """Half the width."""

    def call(self, query_positions, key_positions=None):
        return super().call(query_positions)[:, ::2]


class Dropping(SinusoidalPosition):
    """A config without one of its arguments."""

    def get_config(self):
        return {name: value for name, value in super().get_config().items() if name != "base"}


class Nowhere(Position):
    """A stage that there is not."""

    stage = "elsewhere"

    def call(self, query_positions, key_positions=None):
        return query_positions


@pytest.mark.parametrize(
    ("mutant", "fault"),
    [
        (FromZero, "any offset"),
        (FromZero, "cached steps"),
        (Endless, "beyond the trained length"),
        (Blind, "positions differ"),
        (Blind, "order matters"),
        (Narrow, "shapes"),
        (Dropping, "config"),
        (Nowhere, "shapes"),
    ],
)
def test_a_fault_planted_in_a_scheme_is_found(mutant, fault):
    report = check_position(mutant, properties=[fault])
    assert [result.property for result in report.failures] == [fault], report


# The report


def test_a_report_is_a_table():
    results = (Result("a", "shapes", PASS, "fine"), Result("a", "cached steps", FAIL, "differs"))
    report = Report(results)
    assert not report
    assert str(report).splitlines() == ["a  shapes        pass  fine", "a  cached steps  FAIL  differs"]
    assert Report(results[:1])


def test_wrong_names():
    with pytest.raises(InputError, match="did you mean 'masks'"):
        check_attention("multi_head", properties=["mask"])
    with pytest.raises(InputError, match="unknown attention 'multi_hed'"):
        check_attention("multi_hed")
    with pytest.raises(InputError, match="unknown position 'rotery'"):
        check_position("rotery")
