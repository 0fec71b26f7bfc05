"""Every fault planted in an attention kind is found under its property."""

import keras
import numpy as np
import pytest
from keras import ops

from zoo import plugin, registry
from zoo.layers import masks
from zoo.layers.attention.base import Attention
from zoo.layers.attention.heads import masked_softmax
from zoo.layers.attention.local import LocalAttention
from zoo.layers.attention.multi_head import MultiHeadAttention
from zoo.testing import check_attention, model
from zoo.testing.attention import PROPERTIES
from zoo.testing.position import PROPERTIES as POSITION_PROPERTIES
from zoo.testing.report import FAIL, PASS, UNSUPPORTED

pytestmark = pytest.mark.backends

# These compile or start a process. Every kind is tried with them below, but with its first variant alone.
SLOW = {"fresh process", "export", "training", "jit"}
QUICK = [name for name in PROPERTIES if name not in SLOW]
QUICK_POSITIONS = [name for name in POSITION_PROPERTIES if name not in SLOW]


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


class IndexOfPython(MultiHeadAttention):
    """The index of the cache is taken for a number, which it is not in compiled code."""

    def call(self, query, value=None, *, cache_index=None, **settings):
        index = None if cache_index is None else int(cache_index)
        return super().call(query, value, cache_index=index, **settings)


class MaskFreeCache(MultiHeadAttention):
    """Decoding drops the mask."""

    def call(self, query, value=None, *, attention_mask=None, cache_index=None, **settings):
        mask = attention_mask if cache_index is None else None
        return super().call(query, value, attention_mask=mask, cache_index=cache_index, **settings)


class BiasFreeCache(MultiHeadAttention):
    """Decoding drops the bias."""

    def attend(self, q, k, v, *, bias, offset, **settings):
        return super().attend(q, k, v, bias=bias if offset is None else None, offset=offset, **settings)


class Shifted(MultiHeadAttention):
    """A step is turned as if it were the first."""

    def call(self, query, value=None, *, rotation=None, cache_index=None, **settings):
        if rotation is not None and cache_index is not None:
            rotation = tuple(ops.roll(part, 1, axis=0) for part in rotation)
        return super().call(query, value, rotation=rotation, cache_index=cache_index, **settings)


class Counting(MultiHeadAttention):
    """A mean over all keys, in which padding counts."""

    def attend(self, q, k, v, **settings):
        context, scores = super().attend(q, k, v, **settings)
        return context / ops.cast(ops.shape(k)[1], context.dtype), scores


class Swapped(MultiHeadAttention):
    """The cache of a value has its keys for values."""

    def value_cache(self, value):
        cache = super().value_cache(value)
        return {"key": cache["value"], "value": cache["key"]}


class Measured(MultiHeadAttention):
    """The length must be known when the step is compiled."""

    def attend(self, q, k, v, **settings):
        return super().attend(q, k, v * np.ones((1, v.shape[1], 1, 1), "float32"), **settings)


class Eager(MultiHeadAttention):
    """Python's own numbers, which a compiled function does not have."""

    def attend(self, q, k, v, **settings):
        return super().attend(q * float(ops.max(q) * 0 + 1), k, v, **settings)


class Square(LocalAttention):
    """Full attention, in silence."""

    def near(self, block, other, count):
        return block == block + 0 * other

    def attend_in_blocks(self, q, k, v, *, mask, bias, training):
        length = q.shape[1]
        count, place = -(-length // self.block_length), np.arange(length)
        block = place // self.block_length
        seen = self.near(block[:, None], block[None], count)
        if self.causal:
            seen = seen & (place[None] <= place[:, None])
        logits = ops.einsum("btnh,bsnh->bnts", q * self.head_dim**-0.5, k)
        scores = masked_softmax(logits, masks.combine(mask, ops.convert_to_tensor(seen[None, None])), bias)
        return ops.einsum("bnts,bsnh->btnh", scores, v)


class Wrapping(Square):
    """The blocks at either end have each other for neighbours."""

    def near(self, block, other, count):
        return np.isin((block - other) % count, (0, 1, count - 1))


class Neighbouring(Square):
    """No fault: what the two above are without theirs."""

    def near(self, block, other, count):
        return abs(block - other) <= 1


@pytest.mark.parametrize(
    ("mutant", "fault"),
    [
        (Leaking, "no leak from the future"),
        (Peeking, "masks"),
        (MaskForgetting, "masks"),
        (Square, "masks"),
        (Wrapping, "masks"),
        (Counting, "padding invariance"),
        (CacheOffByOne, "cached steps"),
        (MaskFreeCache, "cached steps"),
        (BiasFreeCache, "cached steps"),
        (Shifted, "cached steps"),
        (CacheOfOthers, "cache after a beam reorder"),
        (Swapped, "cache across"),
        (Unscaled, "scale"),
        (Forgetful, "config"),
        (Cut, "finite differences"),
        (Cut, "training"),
        (Restless, "nothing to attend to"),
        (Lavish, "scores sum to 1"),
        (HalfPrecise, "dtype policies"),
        (BiasForgetting, "bias and rotation"),
        (Ordered, "permutation equivariance"),
    ],
)
def test_a_planted_fault_is_found(mutant, fault):
    options = {"block_length": 4} if issubclass(mutant, LocalAttention) else {}
    report = check_attention(mutant, properties=[fault], **options)
    assert [result.property for result in report.failures] == [fault], report


def test_what_the_faults_are_planted_in_has_none():
    report = check_attention(Neighbouring, properties=["masks", "no leak from the future"], block_length=4)
    assert report, report


@pytest.mark.parametrize(("mutant", "fault"), [(IndexOfPython, "cached steps"), (Eager, "jit"), (Measured, "export")])
def test_a_fault_only_in_compiled_code_is_found(mutant, fault):
    if keras.backend.backend() == "torch" or (fault == "export" and keras.backend.backend() != "tensorflow"):
        pytest.skip("there is no such compiled code")
    report = check_attention(mutant, properties=[fault])
    assert [result.property for result in report.failures] == [fault], report


MOODY = """
import os

from zoo import registry
from zoo.layers.attention.multi_head import MultiHeadAttention

FACTOR = float(os.environ.get("TEST_FACTOR", "1"))


@registry.attention.register("test_moody")
class Moody(MultiHeadAttention):
    def attend(self, q, k, v, **settings):
        return super().attend(q, k, v * FACTOR, **settings)
"""


def test_a_fault_only_in_another_process_is_found(tmp_path, monkeypatch):
    (tmp_path / "test_moody_module.py").write_text(MOODY)
    monkeypatch.syspath_prepend(tmp_path)  # installed nowhere: the process is to find it as this one does
    plugin.load("test_moody_module")
    try:
        monkeypatch.setenv("TEST_FACTOR", "2")
        report = check_attention("test_moody", properties=["fresh process"])
    finally:
        registry.attention.unregister("test_moody")
    assert "loaded in a fresh process: differs by" in report.failures[0].detail, report


def test_a_class_of_a_function_is_in_no_module():
    class Inner(MultiHeadAttention):
        pass

    (result,) = check_attention(Inner, properties=["fresh process"]).results
    assert result.status == UNSUPPORTED


def test_a_check_leaves_the_names_as_they_were():
    name_of = keras.saving.get_registered_name
    with model.named(registry.attention, LocalAttention) as name:
        assert name == "local"
    assert name_of(LocalAttention) == "zoo>attention.local"

    @keras.saving.register_keras_serializable("testing_test")
    class Own(MultiHeadAttention):
        pass

    for cls in (Own, Lavish):
        before, held = name_of(cls), dict(keras.saving.get_custom_objects())
        with model.named(registry.attention, cls) as name:
            assert name_of(cls) == f"zoo>attention.{name}"
        assert name_of(cls) == before
        assert keras.saving.get_custom_objects() == held
        assert name not in registry.attention.names()


def test_what_a_kind_does_not_claim_is_not_tried():
    class Modest(MultiHeadAttention):
        supports = frozenset({"bidirectional"})

    report = check_attention(Modest)
    assert report
    status = {result.property: result.status for result in report.results}
    assert status["shapes"] == PASS
    for name in ("no leak from the future", "masks", "scale", "cached steps", "cache across", "training"):
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
