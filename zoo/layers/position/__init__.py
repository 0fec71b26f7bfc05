"""Positional schemes, one file each. A new scheme is a file and a line here."""

from zoo import registry

__getattr__ = registry.position.declare(
    __name__,
    {
        "none": "NoPosition",
        "learned": "LearnedPosition",
        "sinusoidal": "SinusoidalPosition",
        "axial_2d": "Axial2DPosition",
        "rotary": "RotaryPosition",
        "alibi": "AlibiPosition",
        "relative_bias": "RelativeBiasPosition",
        "t5_bias": "T5BiasPosition",
    },
)
