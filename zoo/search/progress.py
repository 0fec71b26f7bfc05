"""What is said and written while a search goes on."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from zoo.search.results import Results, Trial, collect
from zoo.search.settings import Search
from zoo.whole import write_text


class Progress:
    """Says a line for each trial that begins or has ended, and writes the table, and what TensorBoard's HParams shows.

    Args:
        search: what is searched.
        directory: of the search.
        tell: is called with each line.
    """

    def __init__(self, search: Search, directory: Path, tell: Callable[[str], None]):
        self.search = search
        self.directory = directory
        self.tell = tell
        self._skipped = 0

    def begin(self, trial) -> None:
        """Says which combination a trial tries."""
        self._safely(self._begin, trial)

    def end(self, trial) -> None:
        """Says what came of a trial."""
        self._safely(self._end, trial)

    def finish(self) -> None:
        """Says what was skipped since the last trial, and writes for TensorBoard what a kill may have left out."""
        results = collect(self.search, self.directory)
        self._tell_skipped(results)
        for trial in results.complete:
            if not _hparams(results, trial).is_dir():
                _write_hparams(results, trial)

    def _safely(self, say: Callable[[str, Results], None], trial) -> None:
        try:
            say(trial.trial_id, collect(self.search, self.directory))
        except Exception as error:  # inside KerasTuner's lock, which an exception would leave closed for ever
            print(f"zoo: warning: {type(error).__name__}: {error}", file=sys.stderr)

    def _begin(self, name: str, results: Results) -> None:
        self._tell_skipped(results)
        self.tell(f"trial {name} begins: {_said(_of(results, name).changes)}")

    def _tell_skipped(self, results: Results) -> None:
        for skipped in results.skipped[self._skipped :]:
            self.tell(f"skipped {_said(skipped['changes'])}: {skipped['reason']}")
        self._skipped = len(results.skipped)

    def _end(self, name: str, results: Results) -> None:
        trial, objective = _of(results, name), self.search.base.train.monitor
        if trial.complete:
            best = results.best
            so_far = "the best" if best.id == name else f"the best is {best.result.value:.5g} of trial {best.id}"
            self.tell(f"trial {name} ended: {objective} {trial.result.value:.5g}; {so_far}")
            _write_hparams(results, trial)
        else:
            self.tell(f"trial {name} failed: {trial.result.failure}")
        write_text(self.directory / "search.csv", results.table())


def _of(results: Results, name: str) -> Trial:
    return next(trial for trial in results.trials if trial.id == name)


def _said(changes) -> str:
    return "  ".join(f"{path.rpartition('.')[2]}={value}" for path, value in changes.items())


def _hparams(results: Results, trial: Trial) -> Path:
    return results.directory / "hparams" / trial.id


def _write_hparams(results: Results, trial: Trial) -> None:
    """The values and the result for ``tensorboard --logdir``, tab HParams, beside the curves of the trial's run."""
    import tensorflow as tf
    from tensorboard.plugins.hparams import api

    with contextlib.suppress(RuntimeError):  # TensorFlow has begun already
        tf.config.set_visible_devices([], "GPU")  # they are for the trials
    plain = (bool, int, float, str)
    values = {path: value if isinstance(value, plain) else str(value) for path, value in trial.changes.items()}
    writer = tf.summary.create_file_writer(str(_hparams(results, trial)))
    with writer.as_default(step=trial.result.step):
        api.hparams(values, trial_id=trial.id)
        tf.summary.scalar(results.search.base.train.monitor, trial.result.value)
    writer.close()
