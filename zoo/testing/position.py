"""The properties of a positional scheme."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.configured import Configured, constructor_parameters
from zoo.layers.position.base import Position
from zoo.layers.transformer import Stack
from zoo.testing import model
from zoo.testing.backend import array, close, compiled
from zoo.testing.report import Report, Result, Unsupported, chosen, run

SIZES = {"width": 16, "num_heads": 2, "head_dim": 8}
MAX_LENGTH = 24
STAGES = ("none", "embedding", "rotation", "bias")


@dataclass(frozen=True)
class Scheme:
    """A scheme with the options it is tried with."""

    cls: type[Position]
    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, **settings) -> Position:
        """A built layer with random weights."""
        layer = self.cls(**{**SIZES, "max_length": MAX_LENGTH, **settings}, **self.options)
        layer.build((None,))
        rng = np.random.default_rng(0)
        for weight in layer.trainable_weights:
            weight.assign(rng.normal(size=weight.shape))
        return layer

    def needs_encoding(self) -> None:
        """Leaves the property untried if the scheme gives nothing."""
        if self.cls.stage == "none":
            raise Unsupported("the scheme gives nothing")


def check_position(
    scheme: str | type[Position],
    *,
    properties: Sequence[str] | None = None,
    tell: Callable[[Result], None] = lambda result: None,
    **options,
) -> Report:
    """Tries a positional scheme, property by property.

    Args:
        scheme: a registered name, or a class.
        properties: names of those to try; all when None.
        tell: is told each result as soon as there is one.
        options: of the scheme. Without any, those of each of its ``variants`` in turn.

    Raises:
        InputError: there is no such scheme or property.
    """
    cls = registry.position.get(scheme) if isinstance(scheme, str) else scheme
    name = scheme if isinstance(scheme, str) else cls.__name__
    checks, results = chosen(PROPERTIES, properties), []
    for variant in [options] if options else cls.variants:
        label = f"{name}({', '.join(f'{key}={value}' for key, value in variant.items())})" if variant else name
        results += run(label, checks, Scheme(cls, name, dict(variant)), tell)
    return Report(tuple(results))


def positions(start: int, length: int):
    """Int32 (T,) from ``start``."""
    return ops.arange(length, dtype="int32") + start


def parts(encoded) -> list[np.ndarray]:
    """What a scheme gives, as arrays along whose first axis the queries are."""
    if isinstance(encoded, tuple):
        return [array(part) for part in encoded]
    encoded = array(encoded)
    return [encoded if encoded.ndim == 2 else np.moveaxis(encoded, 2, 0)]


# Properties --------------------------------------------------------------------------------------------------------


def shapes(scheme: Scheme) -> str:
    """What the stage promises, for as many queries and keys as there are."""
    stage, layer = scheme.cls.stage, scheme.make()
    assert stage in STAGES, f"there is no stage {stage!r}; there are: {', '.join(STAGES)}"
    encoded = layer(positions(0, 5), positions(0, 7))
    if stage == "none":
        assert encoded is None, "a scheme of the stage 'none' gives None"
        return stage
    expected = {"embedding": [(5, 16)], "rotation": [(5, 1, 8)] * 2, "bias": [(1, 2, 5, 7)]}[stage]
    found = [tuple(part.shape) for part in (encoded if isinstance(encoded, tuple) else (encoded,))]
    assert found == expected, f"the stage {stage!r} gives {expected}, not {found}"
    assert all(np.isfinite(part).all() for part in parts(encoded)), "not finite"
    return stage


def any_offset(scheme: Scheme) -> None:
    """Positions that start anywhere are those of the whole."""
    scheme.needs_encoding()
    layer = scheme.make()
    full = parts(layer(positions(0, 20), positions(0, 20)))
    for start, length in ((0, 1), (3, 1), (3, 4), (19, 1), (11, 9)):
        for found, expected in zip(parts(layer(positions(start, length), positions(0, 20))), full, strict=True):
            close(found, expected[start : start + length], f"{length} positions from {start}")


def positions_differ(scheme: Scheme) -> None:
    """No two positions are the same."""
    scheme.needs_encoding()
    rows = [np.concatenate([part[i].ravel() for part in parts(scheme.make()(positions(0, 6)))]) for i in range(6)]
    for i in range(6):
        for j in range(i):
            assert np.abs(rows[i] - rows[j]).max() > 1e-4, f"positions {j} and {i} are the same"


def beyond_the_trained_length(scheme: Scheme) -> str:
    """There are more positions than were trained, or a clear error."""
    scheme.needs_encoding()
    layer = scheme.make()
    if layer.limit is None:
        assert all(np.isfinite(part).all() for part in parts(layer(positions(0, 10 * MAX_LENGTH)))), "not finite"
        return "no limit"
    layer(positions(0, layer.limit))
    try:
        layer(positions(0, layer.limit + 1))
    except InputError:
        return f"refused beyond {layer.limit}"
    raise AssertionError(f"limit is {layer.limit}, and one more is not refused with an InputError")


def dtype_policies(scheme: Scheme) -> None:
    """Mixed policies come close to float32."""
    scheme.needs_encoding()
    expected = parts(scheme.make()(positions(0, 20)))
    for policy, tolerance in (("mixed_bfloat16", 0.02), ("mixed_float16", 0.004)):
        for found, wanted in zip(parts(scheme.make(dtype=policy)(positions(0, 20))), expected, strict=True):
            close(found, wanted, policy, tolerance * max(1.0, np.abs(wanted).max()))


def config(scheme: Scheme) -> None:
    """The config has every argument, and makes an equal layer."""
    layer = scheme.make(causal=True)
    saved = layer.get_config()
    missing = sorted(set(constructor_parameters(scheme.cls, stop=Configured)) - set(saved))
    assert not missing, f"get_config leaves out {', '.join(missing)}"
    changed = sorted(name for name, value in scheme.options.items() if saved[name] != value)
    assert not changed, f"get_config changes {', '.join(changed)}"
    again = scheme.cls.from_config(saved)
    again.build((None,))
    again.set_weights(layer.get_weights())
    if scheme.cls.stage != "none":
        pairs = zip(parts(again(positions(0, 9))), parts(layer(positions(0, 9))), strict=True)
        for found, expected in pairs:
            close(found, expected, "made from its config")


def order_matters(scheme: Scheme) -> None:
    """A stack can tell the order of its tokens."""
    scheme.needs_encoding()
    stack = _stack(scheme, causal=False)
    x = keras.random.normal((2, 9, 16), seed=1)
    order = np.random.default_rng(0).permutation(9)
    difference = np.abs(array(stack(x))[:, order] - array(stack(ops.take(x, order, axis=1)))).max()
    assert difference > 1e-4, "in a stack, another order of the tokens changes nothing"


def cached_steps(scheme: Scheme) -> None:
    """A stack decodes from its cache to what it gives all at once."""
    stack = _stack(scheme, causal=True)
    x = keras.random.normal((2, 20, 16), seed=1)
    full = array(stack(x))
    for chunks in ((1,) * 20, (7, 1, 12)):
        cache, start = stack.init_cache(2, 22), 0
        for chunk in chunks:
            index = ops.convert_to_tensor(start, "int32")
            out, cache = stack(x[:, start : start + chunk], cache=cache, cache_index=index)
            close(out, full[:, start : start + chunk], f"{chunk} from position {start}")
            start += chunk


def jit(scheme: Scheme) -> None:
    """Compiled, a stack gives the same."""
    stack = _stack(scheme, causal=True)
    x = ops.convert_to_numpy(keras.random.normal((2, 9, 16), seed=1))
    close(compiled(lambda y: stack(y))(x), array(stack(x)), "compiled")


def training(scheme: Scheme) -> str:
    """It trains in a whole model."""
    return model.check_training(position=scheme)


def _stack(scheme: Scheme, causal: bool) -> Stack:
    """One block whose scheme has random weights."""
    with model.named(registry.position, scheme.cls) as name:
        block = {"width": 16, "num_heads": 2, "feed_forward": 16, "causal": causal}
        stack = Stack(1, block, position=name, position_options=scheme.options, max_length=MAX_LENGTH)
    stack.build()
    rng = np.random.default_rng(0)
    for weight in stack.position.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return stack


PROPERTIES: dict[str, Callable[[Scheme], str | None]] = {
    "shapes": shapes,
    "any offset": any_offset,
    "positions differ": positions_differ,
    "beyond the trained length": beyond_the_trained_length,
    "dtype policies": dtype_policies,
    "config": config,
    "order matters": order_matters,
    "cached steps": cached_steps,
    "jit": jit,
    "training": training,
}
