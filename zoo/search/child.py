"""Processes that are told what to do in one line, and end with the process that began them, however that ends."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping

from zoo import plugin
from zoo.quiet import quiet
from zoo.recipe import Recipe
from zoo.training.devices import choose_backend

#: So that processes share a GPU: each takes the memory that it needs, and not all there is.
_SHARING = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def begin(module: str, line: str, *, output=None, environment: Mapping[str, str] | None = None) -> subprocess.Popen:
    """Starts ``python -m module``, and gives it a line.

    Args:
        module: whose ``__main__`` part calls :func:`told`.
        line: what it is told.
        output: the file for what it prints; this process's own streams when None.
        environment: variables beside this process's own.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        env={**_SHARING, **os.environ, **(environment or {})},
        start_new_session=True,  # Ctrl-C is for the process that began it
    )
    with contextlib.suppress(BrokenPipeError):  # it has ended already
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
    return process


def end(process: subprocess.Popen) -> None:
    """Ends a process, if it has not ended yet."""
    process.kill()
    process.wait()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def told() -> str:
    """The line that this process was started with; from now on it ends when the process that began it is gone."""
    line = b""
    while not line.endswith(b"\n"):  # not through sys.stdin, which would read ahead
        part = os.read(0, 1)
        if not part:
            sys.exit(1)
        line += part

    def wait():
        with contextlib.suppress(OSError):
            while os.read(0, 1024):
                pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
    return line.decode()


def get_ready(recipe: Recipe) -> None:
    """Settles the backend, and loads the plugins, that a recipe needs in a process of its own.

    Raises:
        InputError: one of them is missing or fails.
    """
    choose_backend(recipe.train.backend)
    with quiet():
        plugin.load_installed()
        for spec in recipe.plugins:
            plugin.load(spec)
