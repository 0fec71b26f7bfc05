"""A search, from its directory: begun or gone on with, alone, with workers, or over several machines."""

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from zoo.errors import InputError
from zoo.quiet import quiet
from zoo.search.child import begin, end, get_ready, told
from zoo.search.results import Results, collect
from zoo.search.settings import Search, read_search
from zoo.whole import partial_of, write_text

SETTINGS = "search.json"

_CHIEF = "chief"
_REPLACED = 5  #: Times that a process which was killed is started again, before the search is given up.
_PATIENCE = 20.0  #: Seconds to wait for a search that is just ending.
_CHIEF_PATIENCE = 3600.0  #: Seconds that a worker waits for its chief to begin.


def search(
    settings: Search, directory: str | Path, workers: int = 1, tell: Callable[[str], None] = lambda line: None
) -> Results:
    """Searches, or goes on with the search that is in the directory.

    A search that was killed at any moment goes on with the same call: no trial is lost, none is counted twice.

    Over several machines the same call is made on each, with KerasTuner's variables KERASTUNER_TUNER_ID ("chief" on
    one, another name on each other), KERASTUNER_ORACLE_IP and KERASTUNER_ORACLE_PORT (of the chief), in a directory
    that all of them share. One that is not the chief has no results to give.

    Args:
        settings: what is searched, and how.
        directory: where the search is kept: search.json, oracle.json, search.csv, report.html, and a folder for each
            trial with its run.
        workers: processes that train trials at the same time.
        tell: is called with a line for each trial that begins or has ended; with workers their chief writes those
            lines to standard error.

    Raises:
        InputError: the search can't be, the directory holds another one, or no trial has a result.
    """
    directory = Path(directory).resolve()
    settings.space, settings.base  # noqa: B018  what is wrong with them is said before anything is written
    name = _role()
    if name is not None and workers > 1:
        raise InputError("workers are started here, or by KERASTUNER_TUNER_ID on other machines; not both")
    if name != _CHIEF:  # which trains nothing
        settings.try_data()
    if name not in (None, _CHIEF):
        _join(settings, directory, tell)
        _work(settings, directory, tell)
        return Results(settings, directory, (), ())
    _claim(settings, directory)
    if workers > 1:
        _with_workers(settings, directory, workers)
    else:
        _work(settings, directory, tell)
    from zoo.search.report import write_report

    results = collect(settings, directory)
    write_text(directory / "search.csv", results.table())
    write_text(directory / "best.py", results.source(results.best))
    write_report(results)
    return results


def _role() -> str | None:
    """This process's name in a search over several: the chief's or a worker's. None for a search of its own."""
    variables = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT")
    given = [variable for variable in variables if os.environ.get(variable)]
    if not given:
        return None
    for variable in variables:
        if variable not in given:
            raise InputError(f"{given[0]} is set, and so {variable} must be, or none of them")
    if not os.environ["KERASTUNER_ORACLE_PORT"].isdecimal():
        raise InputError(f"KERASTUNER_ORACLE_PORT must be a number, not {os.environ['KERASTUNER_ORACLE_PORT']!r}")
    return os.environ["KERASTUNER_TUNER_ID"]


def _claim(search: Search, directory: Path) -> None:
    """Makes the directory this search's, or sees that it is."""
    file = directory / SETTINGS
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            foreign = [p.name for p in directory.iterdir() if p.name != partial_of(file).name]
            if foreign:
                raise InputError(
                    f"{str(directory)!r} has files and is no search ({foreign[0]}); choose another --workdir"
                )
            write_text(file, search.to_json())
            return
        _compare(search, directory)
        write_text(file, search.to_json())
    except OSError as error:
        raise InputError(f"{str(directory)!r} cannot be written: {error.strerror}; choose another --workdir") from error


def _join(search: Search, directory: Path, tell: Callable[[str], None]) -> None:
    """Waits for the chief of the search to have begun, and sees that it searches the same."""
    if not (directory / SETTINGS).exists():
        tell(f"waiting for the chief to begin the search in {directory}")
    began = time.monotonic()
    while not (directory / SETTINGS).exists():
        if time.monotonic() - began > _CHIEF_PATIENCE:
            raise InputError(f"no chief began a search in {str(directory)!r}, which all machines must share")
        time.sleep(1)
    _compare(search, directory)


def _compare(search: Search, directory: Path) -> None:
    there, here = (_comparable(t) for t in ((directory / SETTINGS).read_text(encoding="utf-8"), search.to_json()))
    for path in sorted(there.keys() | here.keys()):
        if there.get(path) != here.get(path):
            said, mine = (repr(values[path]) if path in values else "not given" for values in (there, here))
            name = path.removeprefix("recipe.").replace("over.", "--over=", 1)
            raise InputError(
                f"{str(directory)!r} holds another search: {name} is {said} there and {mine} here; choose another "
                "--workdir"
            )


def _comparable(text: str) -> dict[str, Any]:
    """What must be equal for a search to go on: all but the number of trials and where the data lies."""
    read_search(text)
    data = json.loads(text)
    data.pop("trials")
    data["recipe"]["task"].pop("data_dir")
    flat = {}
    for name, value in data.items():
        parts = value if isinstance(value, dict) else {"": value}
        for key, part in parts.items():
            flat |= (
                {f"{name}.{key}.{k}": v for k, v in part.items()} if isinstance(part, dict) else {f"{name}.{key}": part}
            )
    return {path.rstrip("."): value for path, value in flat.items()}


def _work(search: Search, directory: Path, tell: Callable[[str], None]) -> None:
    """Trains trials, or gives them to workers; which, the environment says."""
    with quiet():
        from zoo.search.progress import Progress
        from zoo.search.tuner import RecipeTuner
    try:
        if _role() not in (None, _CHIEF):
            RecipeTuner(search, directory).search()
            return
        with _held(directory / "lock"), _without_prints(tell) as aloud:
            progress = Progress(search, directory, aloud)
            RecipeTuner(search, directory, progress.begin, progress.end).search()
            progress.finish()
    except RuntimeError as error:  # gRPC's
        if _role() != _CHIEF or "bind" not in str(error):
            raise
        address = f"{os.environ['KERASTUNER_ORACLE_IP']}:{os.environ['KERASTUNER_ORACLE_PORT']}"
        raise InputError(f"the chief can't listen at {address}; is the port in use?") from error


@contextlib.contextmanager
def _without_prints(tell: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Keeps back what KerasTuner prints of all that it sends to workers; gives ``tell``, which may print."""
    own = sys.stdout

    def aloud(line: str) -> None:
        with contextlib.redirect_stdout(own):
            tell(line)

    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield aloud


@contextlib.contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Holds the oracle against other processes; one that is just ending is waited for."""
    with open(lock, "a") as file:
        waited = time.monotonic()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if time.monotonic() - waited > _PATIENCE:
                    raise InputError(
                        f"{str(lock.parent)!r} is in use by another search; wait for it or choose another --workdir"
                    ) from error
                time.sleep(0.2)
        yield


def _with_workers(search: Search, directory: Path, count: int) -> None:
    """Starts a chief and workers, and again those that are killed, until the chief is done."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    line = json.dumps({"search": search.to_json(), "directory": str(directory)})
    (directory / "workers").mkdir(exist_ok=True)

    def start(name: str) -> subprocess.Popen:
        environment = {
            "KERASTUNER_TUNER_ID": name,
            "KERASTUNER_ORACLE_IP": "127.0.0.1",
            "KERASTUNER_ORACLE_PORT": port,
        }
        if name == _CHIEF:
            return begin("zoo.search.run", line, environment=environment)
        with open(directory / "workers" / f"{name}.log", "ab") as output:
            return begin("zoo.search.run", line, output=output, environment=environment)

    processes = {name: start(name) for name in (_CHIEF, *(f"worker{i}" for i in range(count)))}
    left = dict.fromkeys(processes, _REPLACED)
    try:
        while processes[_CHIEF].poll() != 0:
            for name, process in processes.items():
                code = process.poll()
                if code in (None, 0):
                    continue
                left[name] -= 1
                if code == 2 or left[name] < 0:
                    log = "above" if name == _CHIEF else f"in {directory / 'workers' / name}.log"
                    raise InputError(f"the search's process {name!r} ended with code {code}; see {log}")
                end(process)
                processes[name] = start(name)
            time.sleep(0.2)
    finally:
        for process in processes.values():
            end(process)


def main(line: str) -> int:
    """The process of a chief or a worker."""
    told_of = json.loads(line)
    search_settings = read_search(told_of["search"])
    try:
        get_ready(search_settings.recipe)
        _work(search_settings, Path(told_of["directory"]), lambda said: print(said, file=sys.stderr, flush=True))
    except InputError as error:
        print(f"zoo: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(told()))
