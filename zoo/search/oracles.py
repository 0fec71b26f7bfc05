"""KerasTuner's oracles, which say what is tried next, mended where a search would be lost.

Measured with KerasTuner 1.4.8: a process killed while it writes ``oracle.json`` leaves half of it; killed between two
files it forgets a trial, or counts one twice; the grid does not know where it was; a trial of a worker that is gone
stays "running", and the chief waits for it without end; a combination that cannot be built uses up a trial; Bayesian
search proposes what was tried before, and other things after a restart; Hyperband promotes nothing of a round that a
small space can't fill, and too little of one with failed trials.
"""

import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras_tuner
import numpy as np
from keras_tuner import synchronized
from keras_tuner.engine import trial as kt_trial

from zoo.errors import InputError
from zoo.search.settings import FACTOR, Search
from zoo.whole import write_text

_DRAWS = 1000  #: In a row that were tried or can't be built: then the space is taken to be exhausted.

Status = kt_trial.TrialStatus


class Kept(keras_tuner.Oracle):
    """An oracle whose state is one file, that takes trials back from workers that are gone, and skips what can't be.

    Args:
        why_not: why a combination of values can't be built; None if it can.
        **settings: of KerasTuner's oracle.
    """

    def __init__(self, why_not: Callable[[Mapping[str, Any]], str | None], **settings):
        super().__init__(max_consecutive_failed_trials=10**9, **settings)
        self.verbose = 0
        self.why_not = why_not
        self.skipped: list[dict[str, Any]] = []
        self.on_begin: Callable[[kt_trial.Trial], None] = lambda trial: None
        self.on_end: Callable[[kt_trial.Trial], None] = lambda trial: None

    # What is proposed

    def _random_values(self) -> dict[str, Any] | None:
        for _ in range(_DRAWS):
            hps = keras_tuner.HyperParameters()
            for hp in self.hyperparameters.space:
                hps.merge([hp])
                if hps.is_active(hp):
                    hps.values[hp.name] = hp.random_sample(self._seed_state)
                    self._seed_state += 1
            if self.is_new(hps.values):
                return hps.values
        return None

    def is_new(self, values: Mapping[str, Any]) -> bool:
        """Whether the values were not tried yet and can be built; what can't is remembered, and why."""
        if self._duplicate(values):
            return False
        reason = self.why_not(values)
        if reason is not None:
            self._tried_so_far.add(self._compute_values_hash(values))
            self.skipped.append({"values": dict(values), "reason": reason})
        return reason is None

    @synchronized
    def create_trial(self, tuner_id):
        known = tuner_id in self.ongoing_trials
        trial = super().create_trial(tuner_id)
        if trial.status == Status.STOPPED and self.ongoing_trials:
            trial.status = Status.IDLE  # one of them may still come back
            self.tuner_ids.add(tuner_id)
        elif trial.status == Status.STOPPED:
            self.save()  # with what was skipped since the last trial
        elif trial.status == Status.RUNNING and not known:
            self.on_begin(trial)
        return trial

    # What has ended

    @synchronized
    def update_trial(self, trial_id, metrics, step=0):
        trial = self.trials[trial_id]
        if trial_id not in self.end_order and not trial.metrics.exists(self.objective.name):
            super().update_trial(trial_id, metrics, step)
            self.save()  # before the worker hears that it is known
        return trial

    @synchronized
    def end_trial(self, trial):
        name = trial.trial_id
        if name in self.end_order:  # a worker that was given up came back after another had ended its trial
            self.ongoing_trials = {n: own for n, own in self.ongoing_trials.items() if own.trial_id != name}
            return
        if name in self._retry_queue:  # it came back before another had begun
            self._retry_queue.remove(name)
        super().end_trial(trial)
        self.on_end(self.trials[name])

    @synchronized
    def take_back(self, tuner_id: str) -> None:
        """Gives the trial of a worker that is gone to whoever asks next."""
        trial = self.ongoing_trials.pop(tuner_id, None)
        self.tuner_ids.discard(tuner_id)
        if trial is not None:
            self._retry_queue.append(trial.trial_id)
            self.save()

    @synchronized
    def workers(self) -> set[str]:
        """The workers that are to come back: with a result, or to hear that there is nothing left."""
        return {*self.tuner_ids, *self.ongoing_trials}

    # What is on the disk: all of it in one file, which is the old one or the new one

    def get_state(self):
        trials = {name: trial.get_state() for name, trial in self.trials.items()}
        return {**super().get_state(), "trials": trials, "skipped": self.skipped}

    def save(self):
        file = Path(self._get_oracle_fname())
        try:
            write_text(file, json.dumps(self.get_state()))
        except OSError as error:
            said = f"{str(file)!r} cannot be written: {error.strerror}; once it can be, the same command goes on"
            if "KERASTUNER_ORACLE_IP" not in os.environ:
                raise InputError(said) from error
            # KerasTuner's lock stays closed after an exception, and the chief's other threads would wait for ever.
            print(f"zoo: {said}", file=sys.stderr, flush=True)
            os._exit(2)

    def _save_trial(self, trial):
        """Nothing: :meth:`save`, which follows, writes the trials too."""

    def reload(self):
        """Goes on from the file.

        Raises:
            InputError: it is damaged.
        """
        file = Path(self._get_oracle_fname())
        try:
            state = json.loads(file.read_text(encoding="utf-8"))
            self.trials = {name: kt_trial.Trial.from_state(kept) for name, kept in state["trials"].items()}
            self.set_state(state)
            self.skipped = state["skipped"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{str(file)!r} is damaged: {error}; choose another --workdir") from error
        running = {n: trial for n, trial in self.ongoing_trials.items() if trial.trial_id not in self.end_order}
        self.ongoing_trials = running
        self.tuner_ids = set(running)


class RandomOracle(Kept, keras_tuner.oracles.RandomSearchOracle):
    """Draws every value."""


class HyperbandOracle(Kept, keras_tuner.oracles.HyperbandOracle):
    """Draws many, and trains the best for longer.

    KerasTuner promotes trials of full rounds alone, and counts those that failed as still to come. Here a round is as
    large as there is something to try, and a failed trial is one that was not promoted.
    """

    _exhausted = False  #: Whether there is nothing left to draw.

    def populate_space(self, trial_id):
        for bracket in self._brackets:
            rounds = bracket["rounds"]
            if not self._closed(bracket, 0):
                found = self._random_trial(trial_id, bracket)
                if found["status"] == Status.RUNNING:
                    return found
                self._exhausted = True
            for number in range(1, len(rounds)):
                best = None if self._closed(bracket, number) else self._to_promote(bracket, number)
                if best is not None:
                    rounds[number].append({"past_id": best.trial_id, "id": trial_id})
                    return {"status": Status.RUNNING, "values": self._longer(best, bracket["bracket_num"], number)}
        over = self._current_iteration + 1 - (self._current_bracket > 0) >= self.hyperband_iterations
        if over or self._exhausted:
            return {"status": Status.IDLE if self.ongoing_trials else Status.STOPPED}
        self._increment_bracket_num()
        self._start_new_bracket()
        return self.populate_space(trial_id)

    def _size(self, bracket, number: int) -> int:
        """Trials of a round, once it is closed."""
        full = self._get_size(bracket["bracket_num"], number)
        if number == 0:
            return len(bracket["rounds"][0]) if self._exhausted else full
        if not self._closed(bracket, number - 1):
            return full
        return min(full, math.ceil(len(bracket["rounds"][number - 1]) / FACTOR))

    def _closed(self, bracket, number: int) -> bool:
        """Whether no more trials come into a round."""
        own = bracket["rounds"][number]
        if number == 0:
            return self._exhausted or len(own) >= self._size(bracket, 0)
        if not self._closed(bracket, number - 1):
            return False
        past = {info["id"] for info in bracket["rounds"][number - 1]}
        return len(own) >= self._size(bracket, number) or (
            past <= set(self.end_order) and not self._candidates(bracket, number)
        )

    def _candidates(self, bracket, number: int) -> list[kt_trial.Trial]:
        """What is complete of the round before, and was not promoted."""
        taken = {info["past_id"] for info in bracket["rounds"][number]}
        past = [self.trials[info["id"]] for info in bracket["rounds"][number - 1] if info["id"] not in taken]
        return [trial for trial in past if trial.status == Status.COMPLETED]

    def _to_promote(self, bracket, number: int) -> kt_trial.Trial | None:
        """The best of the round before, once more of it have ended than will be left behind."""
        past, own = bracket["rounds"][number - 1], bracket["rounds"][number]
        ended = sum(info["id"] in self.end_order for info in past)
        candidates = self._candidates(bracket, number)
        if not candidates or ended - len(own) <= self._size(bracket, number - 1) - self._size(bracket, number):
            return None
        return (max if self.objective.direction == "max" else min)(candidates, key=lambda trial: trial.score)

    def _longer(self, trial: kt_trial.Trial, bracket_number: int, number: int) -> dict[str, Any]:
        """The values of a trial, with the budget of a round."""
        return {
            **trial.hyperparameters.values,
            "tuner/trial_id": trial.trial_id,
            "tuner/epochs": self._get_epochs(bracket_number, number),
            "tuner/initial_epoch": self._get_epochs(bracket_number, number - 1),
            "tuner/bracket": bracket_number,
            "tuner/round": number,
        }

    def set_state(self, state):
        iterations = self.hyperband_iterations
        super().set_state(state)
        self.hyperband_iterations = iterations  # more trials may be asked for than there were


class BayesianOracle(Kept, keras_tuner.oracles.BayesianOptimizationOracle):
    """Asks a Gaussian process; draws what was tried already, or can't be built, anew."""

    def populate_space(self, trial_id):
        self._random_state = np.random.RandomState(self.seed + len(self.trials))  # the same after a restart
        found = super().populate_space(trial_id)
        if found["status"] == Status.RUNNING and not self.is_new(found["values"]):
            return self._random_populate_space()
        return found


class GridOracle(Kept):
    """Every combination, the first setting changing slowest."""

    _combinations: Iterator[dict[str, Any]] | None = None

    def populate_space(self, trial_id):
        if self._combinations is None:
            self._combinations = combinations(self.hyperparameters)
        values = next((values for values in self._combinations if self.is_new(values)), None)
        if values is not None:
            return {"status": Status.RUNNING, "values": values}
        return {"status": Status.STOPPED}


def combinations(hps: keras_tuner.HyperParameters) -> Iterator[dict[str, Any]]:
    """The values of each combination, without those of settings that are not active in it."""
    seen = set()
    for values in itertools.product(*(hp.values for hp in hps.space)):
        trial = keras_tuner.HyperParameters()
        for hp, value in zip(hps.space, values, strict=True):
            trial.merge([hp])
            if trial.is_active(hp):
                trial.values[hp.name] = value
            else:
                trial.values.pop(hp.name, None)
        key = json.dumps(trial.values)
        if key not in seen:
            seen.add(key)
            yield trial.values


def make_oracle(search: Search) -> Kept:
    """The oracle of a search, with its space."""
    hps = keras_tuner.HyperParameters()
    search.space.declare(hps)
    hps.values = {}
    settings = {
        "why_not": search.why_not,
        "objective": keras_tuner.Objective(search.base.train.monitor, search.direction),
        "hyperparameters": hps,
        "seed": search.recipe.train.seed + 1,  # 0 would mean any
    }
    if search.tuner == "grid":
        return GridOracle(max_trials=search.trials, tune_new_entries=False, **settings)
    if search.tuner == "random":
        return RandomOracle(max_trials=search.trials or 10, **settings)
    if search.tuner == "bayesian":
        return BayesianOracle(max_trials=search.trials or 10, **settings)
    oracle = HyperbandOracle(
        max_epochs=search.max_epochs, factor=FACTOR, hyperband_iterations=search.trials or 1, **settings
    )
    oracle.max_trials = search.trials
    return oracle
