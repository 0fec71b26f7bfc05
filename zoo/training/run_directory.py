"""The run directory: everything that is needed to go on with a run, or to use its model."""

import contextlib
import csv
import fcntl
import io
import json
import shutil
from pathlib import Path
from typing import Any

from zoo import recipe as recipes
from zoo.errors import InputError
from zoo.recipe import Recipe, flatten
from zoo.whole import partial_of, write_text


class InUseError(InputError):
    """Another process trains in the directory."""


class RunDirectory:
    """Paths of a run, and what is read and written there.

    recipe.json        the resolved recipe
    environment.json   versions and devices
    *.subwords         vocabularies
    plugins/           copies of plugin files
    last.npz           everything that is needed to go on
    best.npz           the best weights
    checkpoints/       the weights of the last validations, as trained, by step
    log.csv            a row per validation; tensorboard/ has the same curves
    samples.txt        what the model said at the last validation
    report.html        all of it to look at
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.recipe_file = self.path / "recipe.json"
        self.environment_file = self.path / "environment.json"
        self.last = self.path / "last.npz"
        self.best = self.path / "best.npz"
        self.checkpoints = self.path / "checkpoints"
        self.log_file = self.path / "log.csv"
        self.tensorboard = self.path / "tensorboard"
        self.samples_file = self.path / "samples.txt"
        self.report_file = self.path / "report.html"
        self.plugins = self.path / "plugins"

    def claim(self, recipe: Recipe) -> contextlib.ExitStack:
        """Makes the directory this recipe's, or finds that it is; held against other processes until closed.

        A run that comes to no checkpoint leaves nothing, so that the next try may have another recipe.

        Raises:
            InputError: it cannot be written, is no run directory, is another recipe's, or is in use.
        """
        made, lock_file = not self.path.exists(), self.path / "lock"
        if not made and not self.path.is_dir():
            raise InputError(f"{str(self.path)!r} is a file, and a run needs a directory; choose another --workdir")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._require_own(lock_file)
            stack = contextlib.ExitStack()
            lock = stack.enter_context(open(lock_file, "a"))  # noqa: SIM115  the stack closes it
        except OSError as error:
            raise InputError(
                f"{str(self.path)!r} cannot be written: {error.strerror}; choose another --workdir"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            stack.close()
            raise InUseError(
                f"{str(self.path)!r} is in use by another process; wait for it or choose another --workdir"
            ) from error
        try:
            self._own(recipe)
        except InputError:  # it is another's, and stays as it is
            stack.close()
            raise
        except BaseException:
            self._leave(made)
            stack.close()
            raise
        stack.callback(self._leave, made)
        return stack

    def _require_own(self, lock_file: Path) -> None:
        """Sees that what is in the directory was written by a run."""
        if self.recipe_file.is_file():
            try:
                self.recipe()
            except InputError as error:
                raise InputError(
                    f"{str(self.path)!r} has files and is no run directory: {error}; choose another --workdir"
                ) from error
            return
        lock = lock_file.name if not lock_file.is_file() or not lock_file.stat().st_size else None
        foreign = [p.name for p in self.path.iterdir() if p.name not in (lock, partial_of(self.recipe_file).name)]
        if foreign:
            raise InputError(
                f"{str(self.path)!r} has files and is no run directory ({foreign[0]}); choose another --workdir"
            )

    def _own(self, recipe: Recipe) -> None:
        if self.last.is_file():
            here, there = flatten(recipe), flatten(self.recipe())
            for path in sorted((here.keys() | there.keys()) - {"task.data_dir"}):  # the data may have moved
                if here.get(path) != there.get(path):
                    raise InputError(
                        f"{str(self.path)!r} holds a run of another recipe: {path} is {there.get(path)!r} there and "
                        f"{here.get(path)!r} here; choose another --workdir"
                    )
            for spec, copy in self._plugin_copies(recipe):
                if Path(spec).is_file() and copy.is_file() and Path(spec).read_bytes() != copy.read_bytes():
                    raise InputError(f"plugin {spec!r} has changed since this run began; choose another --workdir")
            return
        if self.log_file.is_file():  # which comes after the first last.npz
            raise InputError(
                f"{str(self.path)!r} holds a trained model and no last.npz, from which training goes on; "
                "choose another --workdir"
            )
        self._clear()  # of a run that was killed before its first checkpoint
        write_text(self.recipe_file, recipe.to_json())  # first: by it the rest is known to be a run's
        for spec, copy in self._plugin_copies(recipe):
            copy.parent.mkdir(parents=True)
            shutil.copyfile(spec, copy)

    def _leave(self, made: bool) -> None:
        if self.last.is_file():
            return
        self._clear()
        (self.path / "lock").unlink()
        if made and not any(self.path.iterdir()):
            self.path.rmdir()

    def _clear(self) -> None:
        """Removes what a run writes."""
        files = (self.environment_file, self.best, self.log_file, self.samples_file, self.report_file)
        for file in (*files, *self.path.glob("*.subwords"), *self.path.glob("*.partial.*")):
            file.unlink(missing_ok=True)
        for folder in (self.plugins, self.tensorboard, self.checkpoints):
            shutil.rmtree(folder, ignore_errors=True)
        self.recipe_file.unlink(missing_ok=True)  # last: by it the rest is known to be a run's

    def recipe(self) -> Recipe:
        """The resolved recipe of this run.

        Raises:
            InputError: this is no run directory, or its recipe is damaged.
        """
        if not self.recipe_file.is_file():
            raise InputError(f"{str(self.path)!r} is no run directory: it has no recipe.json; train first")
        return recipes.read_json(self.recipe_file)

    def plugin_specs(self) -> list[str]:
        """The plugins of this run; of plugin files the copies that it keeps."""
        copies = dict(self._plugin_copies(self.recipe()))
        return [str(copies[spec]) if spec in copies else spec for spec in self.recipe().plugins]

    def _plugin_copies(self, recipe: Recipe) -> list[tuple[str, Path]]:
        files = [spec for spec in recipe.plugins if spec.endswith(".py")]
        return [(spec, self.plugins / str(i) / Path(spec).name) for i, spec in enumerate(files)]

    def checkpoint_of(self, step: int) -> Path:
        """Where the weights of a step are kept."""
        return self.checkpoints / f"{step:09}.npz"

    def kept(self) -> list[Path]:
        """The weights that are kept of the last validations, the last one last."""
        return sorted(file for file in self.checkpoints.glob("*.npz") if file.stem.isdecimal())

    def write_environment(self, facts: dict[str, Any]) -> None:
        """Adds to what is known of where and how the run ran."""
        write_text(self.environment_file, json.dumps({**self.environment(), **facts}, indent=2) + "\n")

    def environment(self) -> dict[str, Any]:
        """What is known of where and how the run ran: nothing, if the file is missing or damaged."""
        try:
            known = json.loads(self.environment_file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            known = {}
        return known if isinstance(known, dict) and isinstance(known.get("versions", {}), dict) else {}

    def read_log(self) -> list[dict[str, str]]:
        """The rows of log.csv."""
        if not self.log_file.is_file():
            return []
        return list(csv.DictReader(io.StringIO(self.log_file.read_text(encoding="utf-8"))))

    def write_log(self, rows: list[dict[str, Any]]) -> None:
        """Writes log.csv anew."""
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(self.log_file, text.getvalue())
