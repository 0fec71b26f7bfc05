"""Whether a kind or a scheme works in a whole model: two steps of training, and decoding from its cache."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from zoo import registry
from zoo.registry import Registry
from zoo.testing.backend import array, close
from zoo.testing.report import Unsupported

WIDTH, VOCABULARY, LENGTH = 16, 11, 7


def check_training(*, attention=None, position=None) -> str:
    """Trains the first architecture that asks for no more than what there is; compares its decoding to a full pass."""
    settings: dict[str, Any] = {"width": WIDTH, "depth": 1, "num_heads": 2, "feed_forward": 16, "dropout": 0.0}
    supports = registry.attention.get("multi_head").supports
    with contextlib.ExitStack() as stack:
        if attention is not None:
            supports = attention.cls.supports
            name = stack.enter_context(named(registry.attention, attention.cls))
            settings |= {"attention": name, "attention_options": attention.options}
            settings |= {"num_heads": attention.num_heads, "head_dim": attention.head_dim}
        if position is not None:
            name = stack.enter_context(named(registry.position, position.cls))
            settings |= {"position": name, "position_options": position.options}
        for architecture in ("transformer", "decoder_only", "encoder_only"):
            if registry.architecture.get(architecture).requires <= supports:
                return _train(architecture, settings)
    raise Unsupported("no architecture is content with so little in supports")


def _train(name: str, settings: dict[str, Any]) -> str:
    cls = registry.architecture.get(name)
    model = cls(**_vocabularies(cls), max_length=16, **settings)
    model.build()
    rng = np.random.default_rng(0)
    source, target, after = rng.integers(4, VOCABULARY, (3, 4, LENGTH), dtype="int32")
    source[1, -2:] = 0
    inputs = {"encoder_decoder": {"source": source, "target": target}}.get(cls.layout, {"tokens": target})
    before = [array(weight) for weight in model.trainable_weights]
    model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(inputs, after, batch_size=4, epochs=2, verbose=0).history["loss"]
    assert np.isfinite(history).all(), f"the loss in the {name} is {history}"
    pairs = zip(model.trainable_weights, before, strict=True)
    # Not biases: one that is added to every key alike has no gradient.
    still = [w.path for w, old in pairs if old.ndim > 1 and not np.abs(array(w) - old).any()]
    assert not still, f"two steps in the {name} leave {still[0]} as it was"
    if cls.layout != "encoder":
        given = {key: value for key, value in inputs.items() if key != "target"}
        logits, state = array(model(inputs)), model.init_decoding(given, LENGTH)
        for i in range(LENGTH):
            step, state = model.decode_step(target[:, i : i + 1], state, ops.convert_to_tensor(i))
            close(step, logits[:, i], f"step {i} of decoding in the {name}", 1e-4)
    return f"in the {name}"


def _vocabularies(cls: type) -> dict[str, int]:
    return {name: VOCABULARY for name in cls.described_by_task if name.endswith("vocabulary")}


@contextlib.contextmanager
def named(held: Registry, cls: type) -> Iterator[str]:
    """The name of ``cls``, registered for the while if it is not."""
    for name in held.names():
        if held.module(name) == cls.__module__ and held.get(name) is cls:
            yield name
            return
    name = f"checked_{cls.__name__}"
    held.register(name)(cls)
    try:
        yield name
    finally:
        held.unregister(name)
