"""A search that is killed at random moments, beside one that is not.

    python benchmarks/killed_search.py --kills=10
    python benchmarks/killed_search.py --kills=10 --workers=2

A grid of twelve small models on the task ``copy`` is searched without interruption, and again while processes get
SIGKILL: the search itself, or with workers any of the search, its chief, its workers and their trials. Whenever the
search itself is gone, the same command is given again. In the end every trial must be there once, with the number it
has without interruption.
"""

import argparse
import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPACE = ("--over=model.num_heads=1,2,4", "--over=model.depth=1,2", "--over=model.position=none,sinusoidal")


def main() -> int:
    """Searches twice and compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the searches are kept; a temporary folder when not given")
    given = parser.parse_args()
    chosen = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        command = [sys.executable, "-m", "zoo.cli", "search", "--recipe=copy", "--tuner=grid", *SPACE]
        command += [f"--steps={given.steps}", f"--workers={given.workers}"]
        start = time.monotonic()
        subprocess.run([*command, f"--workdir={folder / 'whole'}"], check=True, stdout=subprocess.DEVNULL)
        took = time.monotonic() - start
        print(f"without interruption: {took:.0f} s", flush=True)
        killed = _kill_now_and_then([*command, f"--workdir={folder / 'killed'}"], given.kills, took, chosen)
        whole, again = (_rows(folder / name) for name in ("whole", "killed"))
    same = whole == again
    print(f"killed: {', '.join(killed)}")
    print(f"{len(again)} trials; {'each as without interruption' if same else 'NOT as without interruption'}")
    for name in sorted(whole.keys() | again.keys()):
        if whole.get(name) != again.get(name):
            print(f"  trial {name}: {whole.get(name)} whole, {again.get(name)} killed")
    if len(killed) < given.kills:
        print(f"it ended before {given.kills} kills: give it more --steps")
    return 0 if same and len(killed) == given.kills else 1


def _kill_now_and_then(command: list[str], kills: int, took: float, chosen: random.Random) -> list[str]:
    """Runs the command, again and again, until it ends by itself after all kills; gives what was killed."""
    killed: list[str] = []
    while True:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        while len(killed) < kills:
            try:
                process.wait(chosen.uniform(1, 2 * took / kills))
                break
            except subprocess.TimeoutExpired:
                tree = _tree(process.pid)
                pid = process.pid if "--workers=1" in command else chosen.choice(list(tree))
                os.kill(pid, signal.SIGKILL)
                killed.append(tree.get(pid, "search"))
                print(f"killed {killed[-1]}", flush=True)
                if pid == process.pid:
                    break
        code = process.wait()
        if code == 0:
            return killed
        if code != -signal.SIGKILL:
            raise SystemExit(f"the search ended with code {code}")


def _tree(root: int) -> dict[int, str]:
    """A process and all that it began, with what they are."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            variables = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
        except (OSError, ValueError):
            continue
        name = next((v.partition("=")[2] for v in variables if v.startswith("KERASTUNER_TUNER_ID=")), "search")
        names[int(folder.name)] = f"a trial of {name}" if "zoo.search.trial" in words else name
    found = {root: "search"}
    while more := {pid: names.get(pid, "?") for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return found


def _rows(directory: Path) -> dict[str, tuple]:
    """Trial -> what it tried, what came of it."""
    with open(directory / "search.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if len({row["trial"] for row in rows}) != len(rows):
        raise SystemExit("a trial is there twice")
    left_out = ("trial", "seconds")
    return {row["trial"]: tuple(value for name, value in row.items() if name not in left_out) for row in rows}


if __name__ == "__main__":
    sys.exit(main())
