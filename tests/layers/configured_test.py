import keras
import numpy as np
import pytest

from zoo.layers.attention.base import Attention
from zoo.layers.attention.multi_head import MultiHeadAttention
from zoo.layers.configured import Configured, constructor_parameters
from zoo.layers.dropout import Dropout
from zoo.layers.embedding import TokenEmbedding
from zoo.layers.feed_forward import FeedForward
from zoo.layers.normalization import Normalization
from zoo.layers.position.learned import LearnedPosition
from zoo.layers.position.none import NoPosition
from zoo.layers.position.sinusoidal import SinusoidalPosition
from zoo.layers.transformer import Block, Stack

pytestmark = pytest.mark.backends

BLOCK = {"width": 8, "num_heads": 2, "feed_forward": 12, "attention_options": {"use_bias": False}}


class Windowed(MultiHeadAttention):
    """A kind with arguments of its own, in front of those it passes on."""

    def __init__(self, num_heads, head_dim, window, *, sink=1, **kwargs):
        super().__init__(num_heads, head_dim, **kwargs)
        self.window = window
        self.sink = sink


class Narrow(Windowed):
    """A kind that settles an argument, and so takes it no more."""

    def __init__(self, num_heads, head_dim, **kwargs):
        super().__init__(num_heads, head_dim, window=2, **kwargs)


class Fixed(MultiHeadAttention):
    """A kind that passes nothing on."""

    def __init__(self, size=3):
        super().__init__(2, size)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiHeadAttention(2, 4, causal=True, dropout=0.2, use_bias=False, name="one", dtype="mixed_bfloat16"),
        lambda: Windowed(2, 4, 5, dropout=0.1, sink=3),
        lambda: Windowed(2, head_dim=4, window=5),
        lambda: Dropout(0.3, seed=4, name="two"),
        lambda: Normalization("rms", epsilon=1e-3),
        lambda: TokenEmbedding(11, 6),
        lambda: FeedForward(6, 9, activation="gelu", gated=True, dropout=0.1),
        lambda: NoPosition(width=8, num_heads=2, head_dim=4),
        lambda: LearnedPosition(width=8, num_heads=2, head_dim=4, max_length=16),
        lambda: SinusoidalPosition(width=8, num_heads=2, head_dim=4, base=100.0, trainable=False),
        lambda: Block(**BLOCK, cross=True, head_dim=3, norm_first=False, dtype="mixed_float16"),
        lambda: Stack(2, BLOCK, position="learned", max_length=9, dropout=0.1),
    ],
)
def test_a_layer_is_made_again_from_its_config(make):
    layer = make()
    config = layer.get_config()
    again = type(layer).from_config(config)
    assert again.get_config() == config
    assert (again.name, again.dtype_policy.name, again.trainable) == (
        layer.name,
        layer.dtype_policy.name,
        layer.trainable,
    )
    for name in constructor_parameters(type(layer), stop=Configured):
        if hasattr(layer, name) and isinstance(getattr(layer, name), int | float | str | None):
            assert getattr(again, name) == getattr(layer, name)


def test_a_config_has_every_argument_through_the_chain_of_classes():
    config = Windowed(2, 4, 5, dropout=0.1).get_config()
    own = {"num_heads": 2, "head_dim": 4, "window": 5, "sink": 1, "dropout": 0.1, "causal": False, "use_bias": True}
    assert config.items() >= own.items()
    assert "window" not in Narrow(2, 4).get_config()
    assert Narrow.from_config(Narrow(2, 4, sink=7).get_config()).sink == 7
    assert Fixed(5).get_config()["size"] == 5
    assert "num_heads" not in Fixed(5).get_config()


def test_parameters_end_where_nothing_is_passed_on():
    assert list(constructor_parameters(Fixed)) == ["size"]
    assert set(constructor_parameters(Windowed, stop=Configured)) == {
        *("num_heads", "head_dim", "window", "sink"),
        *("causal", "dropout", "use_bias", "average_heads", "query_chunks", "kernel_initializer"),
    }
    assert constructor_parameters(Windowed, stop=Configured)["sink"].default == 1
    assert set(constructor_parameters(Windowed, stop=Attention)) == {"num_heads", "head_dim", "window", "sink"}


def test_a_config_is_a_copy():
    block = {**BLOCK, "attention_options": {"use_bias": False}}
    stack = Stack(1, block)
    block["attention_options"]["use_bias"] = True
    stack.get_config()["block"]["width"] = 99
    assert stack.get_config()["block"] == BLOCK


def test_an_argument_that_is_no_plain_value_is_kept():
    layer = MultiHeadAttention(2, 4, kernel_initializer=keras.initializers.Constant(0.5))
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    for one in (layer, again):
        one.build((None, None, 3))
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(one.query_dense.kernel), np.full((3, 8), 0.5))
