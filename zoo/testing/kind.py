"""What the properties of an attention kind are tried on."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zoo.layers.attention.base import Attention
from zoo.testing.backend import TOLERANCE, array
from zoo.testing.report import Unsupported

WIDTH = 12


@dataclass(frozen=True)
class Kind:
    """A kind with the options it is tried with."""

    cls: type[Attention]
    name: str
    num_heads: int = 2
    head_dim: int = 4
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_variant(cls, kind: type[Attention], name: str, variant: dict, **given: int | None) -> "Kind":
        """The kind with one of its variants; its heads are those given, or the variant's, or any other variant's."""
        options, sizes = dict(variant), {}
        for size in ("num_heads", "head_dim"):
            said = [given.get(size), options.pop(size, None), *(other.get(size) for other in kind.variants)]
            said = [value for value in said if value is not None]
            if said:
                sizes[size] = said[0]
        return cls(kind, name, options=options, **sizes)

    @property
    def label(self) -> str:
        """The name with the options."""
        options = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}({options})" if options else self.name

    def make(self, *, value_width: int | None = None, seed: int = 0, **settings) -> Attention:
        """A built layer with random weights, biases included."""
        sizes = {"num_heads": self.num_heads, "head_dim": self.head_dim, **settings}
        layer = self.cls(**sizes, **self.options)
        layer.build((None, None, WIDTH), None if value_width is None else (None, None, value_width))
        rng = np.random.default_rng(seed)
        for weight in layer.trainable_weights:
            # Small, so that an unscaled softmax does not saturate: what is seen is to have a visible influence.
            weight.assign(rng.normal(scale=0.2, size=weight.shape))
        return layer

    def needs(self, *capabilities: str) -> None:
        """Leaves the property untried if the kind does not claim all of these."""
        missing = sorted(set(capabilities) - self.cls.supports)
        if missing:
            raise Unsupported(f"not in supports: {', '.join(missing)}")

    @property
    def modes(self) -> list[bool]:
        """Of ``causal``, those the kind claims."""
        found = [mode for mode, name in ((False, "bidirectional"), (True, "causal")) if name in self.cls.supports]
        assert found, "supports has neither 'causal' nor 'bidirectional'"
        return found


def inputs(batch: int, length: int, seed: int = 1, width: int = WIDTH) -> np.ndarray:
    """Random (B, T, D)."""
    return np.random.default_rng(seed).normal(size=(batch, length, width)).astype("float32")


def influence(layer: Attention, length: int, **settings) -> np.ndarray:
    """Bool (T, S): whether the output at t changes with the input at s."""
    x = np.repeat(inputs(1, length), length + 1, axis=0)
    x[np.arange(length), np.arange(length)] += inputs(1, length, seed=2)[0] * 3  # one changed place in each copy
    out = array(layer(x, **settings))
    return (np.abs(out[:-1] - out[-1:]).max(-1) > TOLERANCE).T
