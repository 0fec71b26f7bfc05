"""What there is keeps its contracts, and the report says so."""

import keras
import pytest

from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.multi_head import MultiHeadAttention
from zoo.testing import check_attention, check_position, outside
from zoo.testing.attention import PROPERTIES
from zoo.testing.kind import Kind, inputs
from zoo.testing.position import PROPERTIES as POSITION_PROPERTIES
from zoo.testing.report import FAIL, PASS, Report, Result

pytestmark = pytest.mark.backends

# These compile or start a process. Every kind is tried with them below, but with its first variant alone.
SLOW = {"fresh process", "export", "training", "jit"}
QUICK = [name for name in PROPERTIES if name not in SLOW]
QUICK_POSITIONS = [name for name in POSITION_PROPERTIES if name not in SLOW]


@pytest.mark.parametrize("name", registry.attention.names())
def test_every_kind_conforms(name):
    """With its last variant, as ``zoo check`` takes minutes for all; each variant has its reference in float64."""
    variant = registry.attention.get(name).variants[-1]
    report = check_attention(name, properties=QUICK, **variant)
    assert report, report


@pytest.mark.parametrize("name", registry.position.names())
def test_every_scheme_conforms(name):
    report = check_position(name, properties=QUICK_POSITIONS, **registry.position.get(name).variants[-1])
    assert report, report


def first_variant(name: str) -> Kind:
    cls = registry.attention.get(name)
    return Kind.of_variant(cls, name, cls.variants[0])


@pytest.mark.parametrize("name", registry.attention.names())
@pytest.mark.parametrize("slow", ["training", "jit"])
def test_every_kind_trains_and_compiles(name, slow):
    if slow == "jit" and keras.backend.backend() == "torch":
        pytest.skip("PyTorch runs eagerly here")
    PROPERTIES[slow](first_variant(name))


def test_every_kind_leaves_its_process():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("what a file holds depends on no backend")
    layers = [first_variant(name).make(causal=True, name=name) for name in registry.attention.names()]
    outside.check_fresh_process(layers, inputs(2, 9))  # all in one process: it takes seconds to start
    outside.check_export(layers, inputs(2, 9))


def test_all_properties_of_a_kind():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("the parts are tried on every backend, above")
    told = []
    report = check_attention("multi_head", tell=told.append)
    assert report, report
    assert told == list(report.results)
    assert {result.property: result.status for result in told} == dict.fromkeys(PROPERTIES, PASS)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dot_product", {"scaled": False}),
        ("grouped_query", {"num_key_value_heads": 4}),
        ("multi_head", {"num_heads": 3, "head_dim": 6}),
    ],
)
def test_heads_that_fit_the_options(name, settings):
    report = check_attention(name, properties=["shapes", "cached steps", "bias and rotation"], **settings)
    assert report, report


def test_heads_that_a_variant_asks_for():
    class Particular(MultiHeadAttention):
        variants = ({"num_heads": 3, "head_dim": 2}, {"num_heads": 5}, {"use_bias": False})

        def __init__(self, num_heads, head_dim, **settings):
            super().__init__(num_heads, head_dim, **settings)
            sizes.add((num_heads, head_dim))

    sizes = set()
    report = check_attention(Particular, properties=["shapes"])
    assert report, report
    assert sizes == {(3, 2), (5, 2)}
    sizes.clear()
    assert check_attention(Particular, num_heads=7, head_dim=8, properties=["shapes"])
    assert sizes == {(7, 8)}


def test_heads_that_do_not_divide_the_width_of_the_model():
    report = check_attention("multi_head", num_heads=3, properties=["training"])
    assert report, report


def test_a_scheme_with_all_properties():
    report = check_position("rotary", randomized=64, spacing=2)
    assert report, report
    assert {result.property for result in report.results} == POSITION_PROPERTIES.keys()


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
    with pytest.raises(InputError, match="no properties to try"):
        check_attention("multi_head", properties=[])
    with pytest.raises(InputError, match="unknown attention 'multi_hed'"):
        check_attention("multi_hed")
    with pytest.raises(InputError, match="unknown position 'rotery'"):
        check_position("rotery")
