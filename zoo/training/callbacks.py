"""What happens at the end of each round of training, a round being the steps between two validations."""

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from zoo.errors import InputError
from zoo.recipe import TrainConfig
from zoo.tasks.base import Batches
from zoo.training import checkpoint
from zoo.training.run_directory import RunDirectory
from zoo.whole import write_text


class Rounds(keras.callbacks.Callback):
    """Validates, writes checkpoints and logs, and stops training, at the end of each round.

    The checkpoint is written last and holds all that goes on from round to round, so a run killed at any moment
    repeats at most the round it was in.

    Args:
        run: where to write.
        train: how the model is trained.
        valid: batches to validate on.
        decode: gives decoded metrics, and samples to show, or nothing.
        higher_is_better: for each metric that can be monitored.
        data: what stands for the training data; a run goes on with the same alone.
    """

    def __init__(
        self,
        run: RunDirectory,
        train: TrainConfig,
        valid: Batches,
        decode: Callable[[], tuple[dict[str, Any], list[str]]],
        higher_is_better: dict[str, bool],
        data: str,
    ):
        super().__init__()
        self.run = run
        self.train = train
        self.valid = valid
        self.decode = decode
        self.data = data
        self.sign = 1.0 if higher_is_better[train.monitor] else -1.0
        self.state: dict[str, Any] = {
            "step": 0,
            "best": None,
            "best_step": 0,
            "rounds_since_best": 0,
            "seconds": 0.0,
            "finished": False,
            "log": [],
        }

    def restore(self) -> int:
        """Goes on from the last checkpoint, if there is one; gives the step."""
        if self.run.last.is_file():
            values, meta = checkpoint.read(self.run.last)
            checkpoint.assign(checkpoint.named_variables(self.model, self.model.optimizer), values)
            if wrong := [key for key, value in self.state.items() if not _like(meta.get(key), value)]:
                raise InputError(f"{str(self.run.last)!r} is damaged: {wrong[0]} is {meta.get(wrong[0])!r}")
            if meta.get("data", self.data) != self.data:
                raise InputError("the training data has changed since this run began; choose another --workdir")
            self.state = {key: meta[key] for key in self.state}
            for ahead in self.run.kept():
                if ahead > self.run.checkpoint_of(self.state["step"]):
                    ahead.unlink()
            if self.state["log"]:
                self.run.write_log(self.state["log"])  # a row may have been lost with the process, or be one ahead
        return self.state["step"]

    def on_train_begin(self, logs=None):
        self._writer = tf.summary.create_file_writer(str(self.run.tensorboard))
        self._since = time.monotonic()

    def on_train_batch_end(self, batch, logs=None):
        self.state["step"] += 1
        if self.state["step"] >= self.train.steps:
            self.model.stop_training = True  # the last round may be a short one

    def on_epoch_end(self, epoch, logs=None):
        self._require_finite("loss", logs["loss"])
        row, samples = self._validate(logs)
        self._require_finite("validation loss", row["valid_loss"])  # what the last step did shows only here
        state = self.state
        value = self.sign * row[f"valid_{self.train.monitor}"]
        better = state["best"] is None or value > self.sign * state["best"]
        if better:
            state |= {"best": self.sign * value, "best_step": state["step"], "rounds_since_best": 0}
        else:
            state["rounds_since_best"] += 1
        patience = self.train.patience
        stop = patience is not None and not better and state["rounds_since_best"] >= patience
        state["seconds"] += time.monotonic() - self._since
        over = self.train.minutes is not None and state["seconds"] >= 60 * self.train.minutes
        state["finished"] = stop or over or state["step"] >= self.train.steps
        self._since = time.monotonic()
        row["seconds"] = round(state["seconds"], 1)
        state["log"].append(row)
        self._write(row, samples, better)
        self.model.stop_training = state["finished"]

    def _require_finite(self, name: str, value: float) -> None:
        if not math.isfinite(value):
            raise InputError(
                f"the {name} is {value} at step {self.state['step']}: training diverged; lower --learning_rate, "
                "warm up for longer, or set --set train.clip_norm=1"
            )

    def _validate(self, logs) -> tuple[dict[str, Any], list[str]]:
        """Measures the weights to keep: the averaged ones where there is an average."""
        variables = checkpoint.named_variables(self.model)
        trained = checkpoint.snapshot(variables) if self.train.ema is not None else None
        if trained is not None:
            self.model.optimizer.finalize_variable_values(self.model.trainable_variables)
            # Copies: on JAX the weights are now the very arrays of the average, and evaluating consumes them.
            checkpoint.assign(variables, checkpoint.snapshot(variables))
        measured = self.model.evaluate(self.valid.dataset, steps=self.valid.steps, verbose=0, return_dict=True)
        decoded, samples = self.decode()
        self._kept = checkpoint.snapshot(variables)
        self._trained = self._kept if trained is None else trained
        if trained is not None:
            checkpoint.assign(variables, trained)
        row = {
            "step": self.state["step"],
            "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
            **{name: float(value) for name, value in logs.items()},
            **{f"valid_{name}": float(value) for name, value in measured.items()},
            **{f"valid_{name}": value for name, value in decoded.items() if isinstance(value, int | float)},
        }
        return row, samples

    def _write(self, row: dict[str, Any], samples: list[str], better: bool) -> None:
        state = self.state
        if better:
            meta = {"step": state["step"], self.train.monitor: state["best"], "weights": self._weights_are()}
            checkpoint.write(self.run.best, self._kept, meta)
        if self.train.keep_last:
            self.run.checkpoints.mkdir(exist_ok=True)
            meta = {"step": state["step"], "weights": "as trained"}
            checkpoint.write(self.run.checkpoint_of(state["step"]), self._trained, meta)
            for old in self.run.kept()[: -self.train.keep_last]:
                old.unlink()
        if samples:
            write_text(self.run.samples_file, "\n".join([f"step {state['step']}", *samples]) + "\n")
        with self._writer.as_default(step=state["step"]):
            for name, value in row.items():
                if name not in ("step", "seconds"):
                    tf.summary.scalar(name, value)
        self._writer.flush()
        variables = checkpoint.named_variables(self.model, self.model.optimizer)
        checkpoint.write(self.run.last, checkpoint.snapshot(variables), {**state, "data": self.data})
        self.run.write_log(state["log"])
        self.samples = samples

    def _weights_are(self) -> str:
        return "as trained" if self.train.ema is None else f"moving average, decay {self.train.ema}"


class Progress(keras.callbacks.Callback):
    """Prints a line for each round, and in a terminal one that moves with the steps.

    Args:
        rounds: the callback whose state is printed; it must come before this one.
        tokens: real tokens in a batch, on average.
        steps: of the whole run.
    """

    def __init__(self, rounds: Rounds, tokens: float, steps: int):
        super().__init__()
        self.rounds = rounds
        self.tokens = tokens
        self.steps = steps
        self.live = sys.stdout.isatty()

    def on_epoch_begin(self, epoch, logs=None):
        self._start = self._shown = time.monotonic()
        self._first = self.rounds.state["step"]
        self._trained = 0.0

    def on_train_batch_end(self, batch, logs=None):
        now = time.monotonic()
        self._trained = now - self._start
        if self.live and now - self._shown > 0.5:
            self._shown = now
            step = self.rounds.state["step"]
            share = step / self.steps
            bar = "#" * int(20 * share) + "." * (20 - int(20 * share))
            left = self._trained / max(step - self._first, 1) * (self.steps - step)
            print(
                f"\r[{bar}] step {step}/{self.steps}  loss {logs['loss']:.3f}  {self._speed()}  {_clock(left)} left  ",
                end="",
            )

    def on_epoch_end(self, epoch, logs=None):
        state = self.rounds.state
        row = state["log"][-1]
        shown = [f"{name} {row[f'valid_{name}']:.3f}" for name in self._names(row)]
        line = f"step {row['step']:>6}/{self.steps}  loss {row['loss']:.3f}  valid: {'  '.join(shown)}"
        line += f"  {self._speed()}  {_clock(state['seconds'])}{'  best' if state['best_step'] == row['step'] else ''}"
        print(("\r" if self.live else "") + line, flush=True)
        for sample in self.rounds.samples:
            print(f"    {sample}", flush=True)

    def _names(self, row) -> list[str]:
        names = [name.removeprefix("valid_") for name in row if name.startswith("valid_")]
        return [name for name in names if not name.endswith("_digits")]

    def _speed(self) -> str:
        steps = self.rounds.state["step"] - self._first
        return f"{self.tokens * steps / max(self._trained, 1e-9):,.0f} tokens/s"


def _like(value: Any, known: Any) -> bool:
    """Whether a checkpoint has the kind of value that the state has."""
    if known is None:
        return value is None or isinstance(value, int | float)
    if isinstance(known, int | float) and not isinstance(known, bool):
        return isinstance(value, int | float)
    return isinstance(value, type(known))


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"
