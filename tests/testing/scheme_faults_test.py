"""Every fault planted in a positional scheme is found under its property."""

import pytest
from keras import ops

from zoo.layers.position.base import Position
from zoo.layers.position.learned import LearnedPosition
from zoo.layers.position.sinusoidal import SinusoidalPosition
from zoo.testing import check_position
from zoo.testing.attention import PROPERTIES
from zoo.testing.position import PROPERTIES as POSITION_PROPERTIES

pytestmark = pytest.mark.backends

# These compile or start a process. Every kind is tried with them below, but with its first variant alone.
SLOW = {"fresh process", "export", "training", "jit"}
QUICK = [name for name in PROPERTIES if name not in SLOW]
QUICK_POSITIONS = [name for name in POSITION_PROPERTIES if name not in SLOW]


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
    assert {result.property for result in report.failures} == {fault}, report
