"""Models saved as ``.keras`` files give the same outputs when another process loads them."""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

from zoo import plugin, registry
from zoo.layers.attention.multi_head import MultiHeadAttention
from zoo.layers.dropout import Dropout
from zoo.layers.embedding import TokenEmbedding
from zoo.layers.feed_forward import FeedForward
from zoo.layers.normalization import Normalization
from zoo.layers.transformer import Block, Stack

pytestmark = pytest.mark.backends

PLUGIN = '''
"""A kind of attention from outside: only ``attend``, and an argument of its own."""

from keras import ops

from zoo import Attention, registry
from zoo.layers.attention.heads import masked_softmax


@registry.attention.register("test_sharp")
class Sharp(Attention):
    def __init__(self, num_heads, head_dim, *, sharpness=1.0, **kwargs):
        super().__init__(num_heads, head_dim, **kwargs)
        self.sharpness = sharpness

    def attend(self, q, k, v, *, mask, bias, offset, with_scores, training):
        scores = masked_softmax(self.sharpness * ops.einsum("btnh,bsnh->bnts", q, k), mask, bias)
        return ops.einsum("bnts,bsnh->btnh", scores, v), scores if with_scores else None
'''

LOAD = """
import sys

import keras
import numpy as np

from zoo import plugin, registry

folder = sys.argv[1]
plugin.load(f"{folder}/sharp.py")
for kind in (registry.attention, registry.position, registry.architecture):
    for name in kind.names():
        kind.get(name)
import zoo.tasks.token_losses, zoo.training.schedules

for name in sys.argv[2:]:
    model = keras.saving.load_model(f"{folder}/{name}.keras")
    with np.load(f"{folder}/{name}.npz") as arrays:
        inputs = dict(arrays)
    inputs = inputs.get("x", inputs)
    np.save(f"{folder}/{name}.npy", keras.ops.convert_to_numpy(keras.ops.cast(model(inputs), "float32")))
"""

SIZES = {"width": 8, "num_heads": 2, "feed_forward": 12}
BLOCK = {**SIZES, "attention_options": {"use_bias": False}, "head_dim": 3, "gated": True, "dropout": 0.1}
TOKENS = np.array([[5, 3, 8, 1], [2, 9, 0, 0]], "int32")


def functional(layer, **inputs):
    """A model of one layer that all of ``inputs`` go into; ``memory`` is the same vectors again."""
    x = keras.Input((None, 8), name="x")
    return keras.Model(x, layer(x, **{name: x for name in inputs}))


def architecture(name, **settings):
    spec = {
        "transformer": {"source_vocabulary": 11, "target_vocabulary": 11},
        "decoder_only": {"vocabulary": 11},
        "encoder_only": {"source_vocabulary": 11, "target_vocabulary": 7},
    }[name]
    return registry.architecture.get(name)(**spec, max_length=6, width=8, depth=2, num_heads=2, **settings)


def tokens_in(layers):
    x = keras.Input((None,), dtype="int32", name="x")
    y = x
    for layer in layers:
        y = layer(y)
    return keras.Model(x, y)


MODELS = {
    "transformer": lambda: architecture("transformer", position="learned", norm_first=False, tie_output=False),
    "transformer_apart": lambda: architecture("transformer", share_embeddings=False, norm="batch", decoder_depth=1),
    "transformer_half": lambda: architecture("transformer", dtype="mixed_bfloat16"),
    "decoder_only": lambda: architecture("decoder_only", norm="rms", gated=True, activation="silu", head_dim=3),
    "encoder_only": lambda: architecture("encoder_only", residual=False, position="none"),
    "custom_kind": lambda: architecture("transformer", attention="test_sharp", attention_options={"sharpness": 3.0}),
    "attention": lambda: functional(MultiHeadAttention(2, 3, causal=True, use_bias=False)),
    "cross": lambda: functional(MultiHeadAttention(2, 3, dropout=0.1), value=True),
    "block": lambda: functional(Block(**BLOCK, causal=True, norm="batch")),
    "block_cross": lambda: functional(Block(**BLOCK, cross=True, norm_first=False), memory=True),
    "stack": lambda: functional(Stack(2, {**BLOCK, "norm": "rms"}, position="learned", max_length=6)),
    "parts": lambda: tokens_in(
        [TokenEmbedding(11, 8), Dropout(0.2), Normalization("rms"), FeedForward(8, 5, activation="gelu", gated=True)]
    ),
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """For each model its output here, and in a fresh process that loads them all."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "sharp.py").write_text(PLUGIN)
    plugin.load(str(folder / "sharp.py"))
    rng = np.random.default_rng(0)
    here = {}
    for name, make in MODELS.items():
        model = make()
        if name in ("attention", "cross", "block", "block_cross", "stack"):
            inputs = {"x": rng.normal(size=(2, 4, 8)).astype("float32")}
        elif name == "parts":
            inputs = {"x": TOKENS}
        else:
            both = {"source": TOKENS, "target": TOKENS[:, :3]}
            inputs = both if model.layout == "encoder_decoder" else {"tokens": TOKENS}
        call = inputs.get("x", inputs)
        model(call, training=True)  # so that batch statistics are none of a start
        for weight in model.trainable_weights:
            weight.assign(ops.convert_to_numpy(weight) + rng.normal(scale=0.3, size=weight.shape))
        here[name] = ops.convert_to_numpy(ops.cast(model(call), "float32"))
        np.savez(folder / f"{name}.npz", **inputs)
        model.save(folder / f"{name}.keras")
    del registry.attention._classes["test_sharp"]
    command = [sys.executable, "-c", LOAD, str(folder), *MODELS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    return {name: (here[name], np.load(folder / f"{name}.npy").astype("float32")) for name in MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_a_fresh_process_gives_the_same_outputs(outputs, name):
    here, there = outputs[name]
    assert here.std() > 1e-3
    np.testing.assert_allclose(there, here, atol=1e-6)
