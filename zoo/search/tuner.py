"""KerasTuner's tuner, whose trials are processes, and what its workers need to outlive each other."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
from keras_tuner.engine.base_tuner import BaseTuner
from keras_tuner.engine.trial import Trial, TrialStatus
from keras_tuner.errors import FailedTrialError

from zoo.errors import InputError
from zoo.search.oracles import Kept, make_oracle
from zoo.search.results import ORACLE, trial_folder
from zoo.search.settings import Search
from zoo.search.trial import train_in_own_process

_WORKERS = "workers"  #: The folder of the files that say which workers are alive.

_BEAT = 1.0  #: Seconds between two signs of life of a worker.
_GONE = 15.0  #: Seconds without one, by the chief's clock, after which a worker is given up.


class RecipeTuner(BaseTuner):
    """Trains the trials of a search; alone, as a worker, or as the chief that gives workers their trials.

    Which it is, KerasTuner's environment says: KERASTUNER_TUNER_ID ("chief", or a name for each worker),
    KERASTUNER_ORACLE_IP and KERASTUNER_ORACLE_PORT, of the chief.

    Args:
        search: what is searched, and how.
        directory: of the search, which all workers share.
        on_begin: is called with each trial that begins.
        on_end: is called with each trial that has ended.
    """

    def __init__(
        self,
        search: Search,
        directory: Path,
        on_begin: Callable[[Trial], None] = lambda trial: None,
        on_end: Callable[[Trial], None] = lambda trial: None,
    ):
        oracle = make_oracle(search)
        self.folder = directory
        super().__init__(oracle, directory=str(directory.parent), project_name=directory.name)
        self.settings = search
        self.kept: Kept = oracle
        if self._is_worker():
            self.oracle = _Persistent(self.oracle)
            return
        oracle.on_begin, oracle.on_end = on_begin, on_end
        if (directory / ORACLE).is_file():
            oracle.reload()

    def run_trial(self, trial, *args, **kwargs):
        """Trains what the trial's values say; the value of the objective.

        Raises:
            FailedTrialError: there is none.
            InputError: not for a reason that lies in the trial, so that it must be tried again.
        """
        search = self.settings
        changes = search.changes(trial.hyperparameters.values)
        folder = trial_folder(self.folder, trial.trial_id)
        limits = {"max_parameters": search.max_parameters, "max_minutes": search.max_minutes}
        try:
            result = train_in_own_process(search.base.override(changes), folder, **limits)
        except OSError as error:
            raise InputError(f"{str(folder)!r}: {error.strerror or error}; the same command goes on") from error
        if result.value is None:
            raise FailedTrialError(result.failure)
        return {search.base.train.monitor: result.value}

    def _try_run_and_update_trial(self, trial, *args, **kwargs):
        """As KerasTuner's, which prints a traceback of each failed trial, and takes any exception for one."""
        try:
            self._run_and_update_trial(trial, *args, **kwargs)
            trial.status = TrialStatus.COMPLETED
        except FailedTrialError as error:
            trial.status, trial.message = TrialStatus.FAILED, str(error)

    def search(self) -> None:
        """Goes on until there is nothing left to try."""
        if self._is_worker():
            with beating(self.folder / _WORKERS / self.tuner_id):
                super().search()
            return
        if self._is_chief():
            threading.Thread(target=self._watch, daemon=True).start()
        else:
            for worker in self.kept.workers() - {self.tuner_id}:  # of a chief that is no more
                self.kept.take_back(worker)
        super().search()

    def _is_chief(self) -> bool:
        return "KERASTUNER_ORACLE_IP" in os.environ and not self._is_worker()

    def _watch(self) -> None:
        """Gives up workers from which nothing is heard."""
        heard: dict[str, tuple[Any, float]] = {}
        while True:
            time.sleep(_BEAT)
            for worker in self.kept.workers():
                sign = _last_beat(self.folder / _WORKERS / worker)
                now = time.monotonic()
                if worker not in heard or heard[worker][0] != sign:
                    heard[worker] = sign, now
                elif now - heard[worker][1] > _GONE:
                    self.kept.take_back(worker)
                    del heard[worker]

    # The oracle keeps all there is to keep.

    def save(self):
        """Writes the oracle's state, unless that is the chief's to do."""
        if not self._is_worker():
            self.kept.save()

    def reload(self):
        """Nothing: the constructor does."""

    def _get_tuner_fname(self):
        return str(self.folder / "tuner.json")  # is never written


class _Persistent:
    """A worker's line to the chief, that waits for a chief which is started again, and before it asks again."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name: str):
        found = getattr(self._client, name)
        if not callable(found):
            return found

        def call(*args, **kwargs):
            while True:
                try:
                    answer = found(*args, **kwargs)
                except grpc.RpcError as error:
                    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
                        raise InputError("the chief did not answer for an hour; see whether it runs") from error
                    if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                        raise
                    time.sleep(_BEAT)
                    continue
                if isinstance(answer, Trial) and answer.status == TrialStatus.IDLE:
                    time.sleep(_BEAT)
                return answer

        return call


@contextlib.contextmanager
def beating(file: Path) -> Iterator[None]:
    """Says, by changing a file again and again, that this process is alive."""
    file.parent.mkdir(parents=True, exist_ok=True)
    over = threading.Event()

    def beat():
        count = 0
        while not over.wait(_BEAT if count else 0):
            count += 1
            with contextlib.suppress(OSError):  # a disk that is full for a while
                file.write_text(f"{os.getpid()} {count}")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _last_beat(file: Path) -> str | None:
    try:
        return file.read_text()
    except OSError:
        return None
