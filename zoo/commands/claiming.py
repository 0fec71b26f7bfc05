"""``zoo claim``."""

import importlib
from pathlib import Path

from absl import flags

from zoo.claims import CLAIMS
from zoo.commands import given
from zoo.commands.tables import print_rows
from zoo.errors import InputError, near


def claim(values: flags.FlagValues, arguments: list[str]) -> int:
    """Tries what the lectures claim, and prints the numbers."""
    for name in arguments:
        if name not in CLAIMS:
            raise InputError(f"there is no claim {name!r}{near(name, CLAIMS)}; there are: {', '.join(CLAIMS)}")
    changes = given.changes(values)
    workdir = Path(values.workdir or "runs/claims")
    with given.plugins([], changes.get("train.backend")):
        given.import_tensorflow()
        rows, borne_out = [], True
        for name in arguments or CLAIMS:
            finding = importlib.import_module(f"zoo.claims.{name}").find(workdir / name, changes)
            finding.write(workdir / name / name)
            borne_out = borne_out and finding.holds
            rows.append({"claim": name, "measured": "holds", "value": "yes" if finding.holds else "no"})
            rows += [{"claim": name, "measured": what, "value": f"{n:.4g}"} for what, n in finding.numbers.items()]
            rows.append({"claim": name, "measured": "picture", "value": f"{workdir / name / name}.png"})
    print_rows(rows, values.format)
    return 0 if borne_out else 1
