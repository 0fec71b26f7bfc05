"""The properties of an attention kind."""

import random
from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from zoo import registry
from zoo.layers.attention.base import CAPABILITIES, Attention
from zoo.layers.attention.windowed import WindowedAttention
from zoo.layers.configured import Configured, constructor_parameters
from zoo.testing import model, outside
from zoo.testing.backend import TOLERANCE, array, close, compiled, gradients
from zoo.testing.kind import WIDTH, Kind, influence, inputs
from zoo.testing.report import Report, Result, Unsupported, chosen, run

LENGTHS = (1, 2, 5, 13, 24)


def check_attention(
    kind: str | type[Attention],
    *,
    num_heads: int | None = None,
    head_dim: int | None = None,
    properties: Sequence[str] | None = None,
    tell: Callable[[Result], None] = lambda result: None,
    **options,
) -> Report:
    """Tries an attention kind, property by property.

    Args:
        kind: a registered name, or a class.
        num_heads, head_dim: of the layers that are tried; what the kind's ``variants`` say, or 2 and 4, when None.
        properties: names of those to try; all when None.
        tell: is told each result as soon as there is one.
        options: of the kind. Without any, those of each of its ``variants`` in turn.

    Raises:
        InputError: there is no such kind or property.
    """
    cls = registry.attention.get(kind) if isinstance(kind, str) else kind
    name = kind if isinstance(kind, str) else cls.__name__
    checks, results = chosen(PROPERTIES, properties), []
    for variant in [options] if options else cls.variants:
        subject = Kind.of_variant(cls, name, variant, num_heads=num_heads, head_dim=head_dim)
        results += run(subject.label, checks, subject, tell)
    return Report(tuple(results))


# Properties --------------------------------------------------------------------------------------------------------


def shapes(kind: Kind) -> None:
    """(B, T, D) gives (B, T, D), across too, and finite numbers."""
    assert kind.cls.supports <= CAPABILITIES, f"unknown in supports: {sorted(kind.cls.supports - CAPABILITIES)}"
    for causal in kind.modes:
        layer = kind.make(causal=causal)
        for batch, length in ((1, 1), (3, 1), (1, 7), (3, 24)):
            x = inputs(batch, length)
            out = layer(x)
            assert tuple(out.shape) == x.shape, f"(B, T, D) {x.shape} became {tuple(out.shape)}"
            assert np.isfinite(array(out)).all(), f"not finite at length {length}"
            assert tuple(layer.compute_output_shape(x.shape)) == x.shape, "compute_output_shape is not the query's"
    if "cross" in kind.cls.supports:
        out = kind.make(value_width=7)(inputs(2, 3), inputs(2, 5, width=7))
        assert tuple(out.shape) == (2, 3, WIDTH), f"across, (2, 3, {WIDTH}) became {tuple(out.shape)}"


def dtype_policies(kind: Kind) -> None:
    """Mixed policies compute in their type, keep float32 weights, and come close to float32."""
    x = inputs(2, 9)
    for causal in kind.modes:
        expected = array(kind.make(causal=causal)(x))
        for policy, share in (("float32", 1e-6), ("mixed_bfloat16", 0.06), ("mixed_float16", 0.01)):
            layer = kind.make(causal=causal, dtype=policy)
            out = layer(x)
            dtype = keras.backend.standardize_dtype(out.dtype)
            assert dtype == layer.compute_dtype, f"under {policy} the output is {dtype}"
            stored = {weight.dtype for weight in layer.trainable_weights}
            assert stored <= {"float32"}, f"under {policy} weights are {stored}"
            close(out, expected, policy, share * np.abs(expected).max())


def scale(kind: Kind) -> str:
    """The softmax is no sharper with wide heads than with narrow ones."""
    if not kind.make().scaled:
        raise Unsupported("unscaled on purpose")
    kind.needs("scores", "bidirectional")
    entropies, state = {}, random.getstate()
    random.seed(0)  # from which Keras draws the seeds of the initializers
    for head_dim in (4, 256):
        layer = kind.cls(num_heads=kind.num_heads, head_dim=head_dim, **kind.options)
        x = inputs(2, 24, width=kind.num_heads * head_dim)
        scores = array(layer(x, return_attention_scores=True)[1])
        entropies[head_dim] = float(-(scores * np.log(scores + 1e-9)).sum(-1).mean())
    random.setstate(state)
    small, large = entropies.values()
    assert large > small / 2, (
        f"wide heads saturate the softmax: an entropy of {small:.2f} nats with heads of 4, {large:.2f} with 256; "
        "divide the products by sqrt(head_dim), or set scaled = False"
    )
    return f"entropy {small:.2f} nats with heads of 4, {large:.2f} with 256"


def no_leak_from_the_future(kind: Kind) -> None:
    """No output of a causal layer changes with a later input, and its gradient is exactly zero."""
    kind.needs("causal")
    layer = kind.make(causal=True)
    for length in LENGTHS:
        leaks = np.argwhere(np.triu(influence(layer, length), 1))
        assert not len(leaks), f"at length {length}, the output at {leaks[0][0]} depends on the input at {leaks[0][1]}"
    x, weights = inputs(2, 9), inputs(2, 9, seed=3)
    found, _ = gradients(lambda y: ops.sum(ops.multiply(layer(y)[:, :4], weights[:, :4])), x, layer)
    assert not found[:, 4:].any(), "the gradient of the first outputs by later inputs is not exactly zero"
    assert found[:, :4].any(), "the gradient of the first outputs by their own inputs is zero"


def masks(kind: Kind) -> None:
    """A query sees nothing that is masked, by key or for itself, and all else in its window, if it has one."""
    kind.needs("mask")
    rng = np.random.default_rng(4)
    for causal in kind.modes:
        layer = kind.make(causal=causal)
        windowed = isinstance(layer, WindowedAttention)
        for length in LENGTHS:
            places = np.arange(length, dtype="int32")
            allowed = np.tri(length, dtype=bool) | (not causal)
            if windowed:
                allowed = array(layer.seen(places[:, None], places[None])).astype(bool)
            for rows in (1, length):
                mask = rng.random((1, rows, length)) < 0.6
                mask[:, -1, 0] = True
                seen = mask[0] & allowed
                found = influence(layer, length, attention_mask=np.repeat(mask, length + 1, 0))
                wrong = np.argwhere(found & ~seen & ~np.eye(length, dtype=bool))
                assert not len(wrong), f"at length {length}, {wrong[0][0]} sees {wrong[0][1]}, which it may not see"
                if windowed or not kind.cls.positional:  # another positional kind may see what it likes
                    lost = np.argwhere(seen & ~found)
                    assert not len(lost), f"at length {length}, {lost[0][0]} misses {lost[0][1]}, which it may see"
                if "scores" in kind.cls.supports:
                    scores = array(layer(inputs(1, length), attention_mask=mask, return_attention_scores=True)[1])
                    assert not scores[0][:, ~seen].any(), f"at length {length}, a key that is not seen has a score"


def padding_invariance(kind: Kind) -> None:
    """What is padded, and how much, changes nothing."""
    kind.needs("mask")
    for causal in kind.modes:
        layer = kind.make(causal=causal)
        for length in LENGTHS:
            x = inputs(1, length)
            expected = array(layer(x))
            for padding in (1, 11):
                padded = np.concatenate([x, inputs(1, padding, seed=5) * 10], 1)
                mask = np.arange(length + padding)[None, None] < length
                close(layer(padded, attention_mask=mask)[:, :length], expected, f"{length} and {padding} of padding")


def nothing_to_attend_to(kind: Kind) -> None:
    """A query with nothing to attend to gives zeros, and no gradient."""
    kind.needs("mask")
    mask = np.array([[[False] * 6], [[True] * 6]])
    for causal in kind.modes:
        layer = kind.make(causal=causal)
        x = inputs(2, 6) * 10
        out = array(layer(x, attention_mask=mask))
        assert np.isfinite(out).all(), "not finite"
        assert not out[0].any(), "a query with nothing to attend to does not give zeros"
        found, of_weights = gradients(lambda y, f=layer: ops.sum(ops.square(f(y, attention_mask=mask))), x, layer)
        assert all(np.isfinite(g).all() for g in (found, *of_weights)), "the gradient is not finite"
        assert not found[0].any(), "the gradient by what nobody sees is not zero"


def scores_sum_to_1(kind: Kind) -> None:
    """Scores are shares, and asking for them changes nothing."""
    kind.needs("scores")
    for causal in kind.modes:
        layer = kind.make(causal=causal)
        for length in LENGTHS:
            x = inputs(2, length)
            out, scores = layer(x, return_attention_scores=True)
            close(out, array(layer(x)), "with scores asked for, the output")
            expected = np.ones((2, kind.num_heads, length))
            assert array(scores).min() >= 0, "a score is negative"
            close(ops.sum(scores, -1), expected, "the sum of the scores")


def permutation_equivariance(kind: Kind) -> None:
    """Inputs in another order give the outputs in that order."""
    if kind.cls.positional:
        raise Unsupported("positional: its outputs depend on the order by themselves")
    kind.needs("bidirectional")
    layer, order = kind.make(), np.random.default_rng(6).permutation(13)
    x = inputs(2, 13)
    close(layer(x[:, order]), array(layer(x))[:, order], "in another order")


def cached_steps(kind: Kind) -> None:
    """Decoding from a cache gives the full pass: any number of steps at once, masked, biased, turned and compiled."""
    kind.needs("causal", "cache")
    layer, x = kind.make(causal=True), inputs(2, 16)
    room = 19  # in the cache, for more than there is
    angles = np.arange(room)[:, None, None] * np.ones(kind.head_dim) * 0.7
    rng = np.random.default_rng(10)
    beside = {
        "mask": {"attention_mask": np.arange(room) >= np.array([0, 5])[:, None, None]},  # padding in front
        "bias": {"bias": rng.normal(size=(1, kind.num_heads, room, room)).astype("float32")},
        "rotation": {"rotation": tuple(turn(angles).astype("float32") for turn in (np.cos, np.sin))},
    }

    def of(settings, start, stop, keys):
        """The part of the settings for the queries from ``start`` to ``stop`` and the first ``keys``."""
        cuts = {
            "attention_mask": lambda mask: mask[..., :keys],
            "bias": lambda bias: bias[:, :, start:stop, :keys],
            "rotation": lambda pair: tuple(part[start:stop] for part in pair),
        }
        return {name: cuts[name](value) for name, value in settings.items()}

    uneven = (5, 1, 1, 6, 3)
    tried = [("", {}, ((1,) * 16, (16,), uneven, (1, 15)))]
    tried += [(f" with a {name}", given, (uneven,)) for name, given in beside.items() if name in kind.cls.supports]
    for what, settings, ways in tried:
        full = array(layer(x, **of(settings, 0, 16, 16)))
        for chunks in ways:
            cache, start = layer.init_cache(2, room), 0
            for chunk in chunks:
                stop, index = start + chunk, ops.convert_to_tensor(start, "int32")
                given = of(settings, start, stop, room)
                out, cache = layer(x[:, start:stop], cache=cache, cache_index=index, **given)
                close(out, full[:, start:stop], f"{chunk} from position {start}{what}")
                start = stop
    if keras.backend.backend() != "torch":
        step = compiled(lambda y, cache, index: layer(y, cache=cache, cache_index=index))
        _, cache = layer(x[:, :7], cache=layer.init_cache(2, room), cache_index=0)
        out, _ = step(ops.convert_to_tensor(x[:, 7:8]), cache, ops.convert_to_tensor(7, "int32"))
        close(out, array(layer(x))[:, 7:8], "a compiled step")


def beam_reorder(kind: Kind) -> None:
    """A cache whose rows are taken in another order is that of the batch in that order."""
    kind.needs("causal", "cache")
    layer, x, later, order = kind.make(causal=True), inputs(3, 6), inputs(3, 5, seed=7), np.array([2, 0, 2])
    expected = array(layer(np.concatenate([x[order], later], 1)))[:, 6:]
    _, cache = layer(x, cache=layer.init_cache(3, 11), cache_index=0)
    rows = [part.shape[:1] for part in keras.tree.flatten(cache)]
    assert all(tuple(first) == (3,) for first in rows), "a part of the cache does not have the batch as its first axis"
    cache = keras.tree.map_structure(lambda part: ops.take(part, order, axis=0), cache)
    for i in range(5):
        out, cache = layer(later[:, i : i + 1], cache=cache, cache_index=6 + i)
        close(out[:, 0], expected[:, i], f"step {i} after the reorder")


def cross_attention_cache(kind: Kind) -> None:
    """A value that is projected once gives what the value gives."""
    kind.needs("cross", "cache", "mask")
    layer, x, value = kind.make(value_width=7), inputs(2, 4), inputs(2, 6, width=7)
    mask = np.arange(6) < np.array([6, 3])[:, None, None]
    expected, cache = array(layer(x, value, attention_mask=mask)), layer.value_cache(value)
    for i in range(4):
        out, cache = layer(x[:, i : i + 1], attention_mask=mask, cache=cache)
        close(out[:, 0], expected[:, i], f"query {i}")


def bias_and_rotation(kind: Kind) -> str:
    """A bias goes onto the logits and a rotation turns, and neither does anything when it is nothing."""
    known = [stage for stage in ("bias", "rotation") if stage in kind.cls.supports]
    if not known:
        raise Unsupported("not in supports: bias, rotation")
    for causal in kind.modes:
        layer, x = kind.make(causal=causal), inputs(1, 6)
        plain = array(layer(x))
        if "bias" in known:
            itself = np.eye(6, dtype=bool)[None]
            alone = np.where(itself, 0.0, -1e5)[None].repeat(kind.num_heads, 1).astype("float32")
            found = array(layer(x, bias=alone)) - array(layer(x, attention_mask=itself))
            assert np.abs(found).max() <= TOLERANCE, "a bias that leaves one key is not a mask that leaves one key"
            close(layer(x, bias=np.ones((1, kind.num_heads, 6, 6), "float32")), plain, "the same bias on every key")
        if "rotation" in known:
            still = (np.ones((6, 1, kind.head_dim), "float32"), np.zeros((6, 1, kind.head_dim), "float32"))
            close(layer(x, rotation=still), plain, "a rotation by nothing")
            angles = np.arange(6)[:, None, None] * np.ones(kind.head_dim) * 0.7
            turned = array(layer(x, rotation=tuple(f(angles).astype("float32") for f in (np.cos, np.sin))))
            assert np.abs(turned - plain).max() > TOLERANCE, "a rotation changes nothing"
    return " and ".join(known)


def finite_differences(kind: Kind) -> None:
    """Gradients by the input and every weight are those of finite differences."""
    rng = np.random.default_rng(8)
    for causal in kind.modes:
        layer, x, weights = kind.make(causal=causal), inputs(2, 9), inputs(2, 9, seed=9)

        def loss(y, layer=layer, weights=weights):
            return ops.sum(ops.multiply(layer(y), weights))

        of_x, of_weights = gradients(loss, x, layer)
        assert all(np.isfinite(g).all() for g in (of_x, *of_weights)), "not finite"
        for variable, found in ((None, of_x), *zip(layer.trainable_weights, of_weights, strict=True)):
            direction = rng.normal(size=found.shape)
            direction = (direction / np.linalg.norm(direction)).astype("float32")
            ends = []
            for step in (1e-2, -1e-2):
                if variable is None:
                    ends.append(array(loss(x + step * direction)))
                else:
                    value = array(variable)
                    variable.assign(value + step * direction)
                    ends.append(array(loss(x)))
                    variable.assign(value)
            expected, slope = (ends[0] - ends[1]) / 2e-2, (found * direction).sum()
            name = "the input" if variable is None else variable.path
            error = abs(slope - expected)
            assert error <= 2e-2 * abs(expected) + 5e-3, f"by {name}: {slope:.4g}, by differences {expected:.4g}"


def jit(kind: Kind) -> None:
    """Compiled, it gives the same."""
    for causal in kind.modes:
        layer, x = kind.make(causal=causal), inputs(2, 13)
        close(compiled(lambda y, f=layer: f(y))(x), array(layer(x)), "compiled")


def config(kind: Kind) -> None:
    """The config has every argument, and makes an equal layer."""
    layer, x = kind.make(causal=kind.modes[-1]), inputs(2, 9)
    saved = layer.get_config()
    taken = constructor_parameters(kind.cls, stop=Configured)
    missing = sorted(set(taken) - set(saved))
    assert not missing, f"get_config leaves out {', '.join(missing)}"
    changed = sorted(name for name, value in kind.options.items() if saved[name] != value)
    assert not changed, f"get_config changes {', '.join(changed)}"
    again = kind.cls.from_config(saved)
    again.build((None, None, WIDTH))
    assert len(again.weights) == len(layer.weights), "made from its config, it has other weights"
    again.set_weights(layer.get_weights())
    close(again(x), array(layer(x)), "made from its config")


def in_a_fresh_process(kind: Kind) -> None:
    """A saved model gives the same in a process that only loads it."""
    outside.check_fresh_process([kind.make(causal=kind.modes[-1], name="attention")], inputs(2, 9))


def export(kind: Kind) -> None:
    """TensorFlow alone gives the same from an exported model, at any length."""
    outside.check_export([kind.make(causal=kind.modes[-1], name="attention")], inputs(2, 9))


def in_the_transformer(kind: Kind) -> str:
    """It trains in a whole model, which decodes step by step to what it gives all at once."""
    return model.check_training(attention=kind)


PROPERTIES: dict[str, Callable[[Kind], str | None]] = {
    "shapes": shapes,
    "dtype policies": dtype_policies,
    "config": config,
    "scale": scale,
    "no leak from the future": no_leak_from_the_future,
    "masks": masks,
    "padding invariance": padding_invariance,
    "nothing to attend to": nothing_to_attend_to,
    "scores sum to 1": scores_sum_to_1,
    "permutation equivariance": permutation_equivariance,
    "cached steps": cached_steps,
    "cache after a beam reorder": beam_reorder,
    "cache across": cross_attention_cache,
    "bias and rotation": bias_and_rotation,
    "finite differences": finite_differences,
    "jit": jit,
    "fresh process": in_a_fresh_process,
    "export": export,
    "training": in_the_transformer,
}
