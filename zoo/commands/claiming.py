"""``zoo claim``."""

import contextlib
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from zoo.claims import CLAIMS, READS, SETS
from zoo.commands import given
from zoo.commands.tables import print_rows
from zoo.errors import InputError, near


def claim(values: flags.FlagValues, arguments: list[str]) -> int:
    """Tries what the lectures claim, and prints the numbers."""
    for name in arguments:
        if name not in CLAIMS:
            raise InputError(f"there is no claim {name!r}{near(name, CLAIMS)}; there are: {', '.join(CLAIMS)}")
    changes = given.changes(values)
    _require_of_use(changes, arguments or CLAIMS)
    workdir = Path(values.workdir or "runs/claims")
    with given.plugins([], changes.get("train.backend")):
        given.import_tensorflow()
        rows, borne_out = [], True
        for name in arguments or CLAIMS:
            with contextlib.redirect_stdout(sys.stderr):  # how the training goes on
                finding = importlib.import_module(f"zoo.claims.{name}").find(workdir / name, changes)
            finding.write(workdir / name / name)
            borne_out = borne_out and finding.holds
            rows.append({"claim": name, "measured": "holds", "value": "yes" if finding.holds else "no"})
            rows += [{"claim": name, "measured": what, "value": f"{n:.4g}"} for what, n in finding.numbers.items()]
            rows.append({"claim": name, "measured": "picture", "value": f"{workdir / name / name}.png"})
    print_rows(rows, values.format)
    return 0 if borne_out else 1


def _require_of_use(changes: dict[str, Any], names: Sequence[str]) -> None:
    """Refuses what would change nothing, or what a claim is about to try itself."""
    for path in changes:
        for name in names:
            if path in SETS.get(name, ()):
                raise InputError(f"the claim {name} tries several values of {path}; leave it out")
        if all(name in READS and path not in READS[name] for name in names):
            raise InputError(f"{path} changes nothing: {', '.join(names)} trains no model")
    seed = changes.get("train.seed", 0)
    if not 0 <= seed < 2**32:
        raise InputError(f"train.seed must be at least 0 and below 2 ** 32, not {seed}")
