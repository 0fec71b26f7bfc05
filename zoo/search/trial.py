"""A trial: the training of one combination, in a process of its own.

What it trains is an ordinary run directory, from which it goes on if it was killed.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zoo.errors import InputError, said
from zoo.quiet import quiet
from zoo.recipe import Recipe, from_json
from zoo.search.child import begin, end, get_ready, told
from zoo.training.run_directory import InUseError, RunDirectory
from zoo.whole import write_text

RESULT = "result.json"
RUN = "run"

_IN_USE = 75  #: The exit code when another process trains the same trial: that of a search which is just ending.
_LIVES = 2  #: A process that is killed from outside is given another try: it may have been an accident.


@dataclass(frozen=True)
class Result:
    """What came of a trial.

    Attributes:
        value: of the objective, at the best checkpoint; None if there is none.
        failure: why not, or "".
        step: of the best checkpoint.
        parameters: of the model, once that is known.
        seconds: of training.
    """

    value: float | None = None
    failure: str = ""
    step: int | None = None
    parameters: int | None = None
    seconds: float | None = None

    def write(self, folder: Path) -> None:
        """Writes the result into the folder of its trial."""
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / RESULT, json.dumps(asdict(self)) + "\n")


def read_result(folder: Path) -> Result | None:
    """The result in the folder of a trial, if it has ended."""
    try:
        return Result(**json.loads((folder / RESULT).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def train_in_own_process(
    recipe: Recipe, folder: Path, max_parameters: int | None = None, max_minutes: float | None = None
) -> Result:
    """Trains a recipe in ``folder/run``, or goes on there; what it prints is added to ``folder/log.txt``.

    Args:
        recipe: what to train.
        folder: of the trial.
        max_parameters: a model with more is not trained.
        max_minutes: training that takes longer, with what it took before it was interrupted, is ended.
    """
    known = read_result(folder)
    if known is not None:
        return known
    folder.mkdir(parents=True, exist_ok=True)
    task = {"recipe": recipe.to_json(), "folder": str(folder), "max_parameters": max_parameters}
    lives = _LIVES
    while True:
        left = None if max_minutes is None else max(0.0, 60 * max_minutes - _trained(folder))
        code = _run(json.dumps(task), folder / "log.txt", left)
        result = read_result(folder)
        if result is not None:
            return result
        if code == _IN_USE:
            time.sleep(1)
            continue
        lives -= code in (-signal.SIGKILL, -signal.SIGTERM)
        if code not in (-signal.SIGKILL, -signal.SIGTERM) or not lives:
            break
    result = Result(failure=_reason(code, folder / "log.txt", max_minutes))
    result.write(folder)
    return result


def _trained(folder: Path) -> float:
    """Seconds of training that processes which are no more have put into a trial."""
    log = RunDirectory(folder / RUN).read_log()
    return float(log[-1]["seconds"]) if log else 0.0


def _run(task: str, log: Path, seconds: float | None) -> int | None:
    """The exit code of the process, or None if it took longer."""
    with open(log, "ab") as output:
        process = begin("zoo.search.trial", task, output=output)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end(process)


def _reason(code: int | None, log: Path, max_minutes: float | None) -> str:
    if code is None:
        return f"took more than {max_minutes:g} minutes"
    if code == -signal.SIGKILL:
        return "killed twice, as happens when memory runs out"
    if code < 0:
        return f"ended by signal {-code}"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"the process ended with code {code}: {lines[-1][:300] if lines else 'it said nothing'}"


def main(line: str) -> int:
    """Trains what a line of JSON says, and writes the result beside the run."""
    task = json.loads(line)
    recipe, folder = from_json(task["recipe"]), Path(task["folder"])
    parameters = None
    try:
        get_ready(recipe)
        with quiet():
            from zoo.training.train import train
        if task["max_parameters"] is not None:
            parameters = _count_parameters(recipe)
            if parameters > task["max_parameters"]:
                failure = f"{parameters:,} parameters are more than {task['max_parameters']:,}"
                Result(failure=failure, parameters=parameters).write(folder)
                return 0
        ended = train(recipe, folder / RUN)
    except InUseError:
        return _IN_USE
    except InputError as error:
        failure = said(error)
    except MemoryError:
        failure = "memory ran out"
    except Exception as error:
        if type(error).__name__ != "ResourceExhaustedError":  # TensorFlow's
            raise
        failure = "memory ran out"
    else:
        _ended(ended, recipe.train.monitor).write(folder)
        return 0
    Result(failure=failure, parameters=parameters).write(folder)
    return 0


def _ended(ended: dict[str, Any], objective: str) -> Result:
    return Result(
        value=float(ended[f"best_{objective}"]),
        step=ended["best_step"],
        parameters=ended["parameters"],
        seconds=ended["seconds"],
    )


def _count_parameters(recipe: Recipe) -> int:
    from zoo.training.build import build_model, build_task
    from zoo.training.check import check

    recipe = check(recipe)
    task = build_task(recipe)
    with tempfile.TemporaryDirectory() as folder:
        task.prepare(Path(folder))
        return build_model(recipe, task).count_params()


if __name__ == "__main__":
    sys.exit(main(told()))
