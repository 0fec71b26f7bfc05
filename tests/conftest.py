"""What tests of several parts share. Keras is imported inside the fixtures: some tests check that it is not loaded."""

import html
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # as the command line does, before TensorFlow is imported


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def registered():
    """``registered(registry, name, cls)`` registers a class for the length of one test."""
    added = []

    def register(registry, name, cls):
        registry.register(name)(cls)
        added.append((registry, name))
        return cls

    yield register
    for registry, name in added:
        registry.unregister(name)


@pytest.fixture
def own_registries(monkeypatch):
    """What plugins register and import, for the length of a test."""
    from zoo import registry

    for held in registry.ALL.values():
        monkeypatch.setattr(held, "_classes", dict(held._classes))
    monkeypatch.setattr("zoo.recipe.files._directories", {})
    before = set(sys.modules)
    yield
    for name in [n for n in set(sys.modules) - before if n.startswith(("zoo_plugin_", "theirs_"))]:
        del sys.modules[name]


@pytest.fixture
def gradient():
    """``gradient(function, x)``: that of a scalar function at the array ``x``, by the backend's own means."""
    import keras

    def with_tensorflow(function, x):
        import tensorflow as tf

        x = tf.convert_to_tensor(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    def with_jax(function, x):
        import jax

        return jax.grad(function)(jax.numpy.asarray(x))

    def with_torch(function, x):
        import torch

        x = torch.tensor(x, requires_grad=True)
        return torch.autograd.grad(function(x), x)[0]

    backend = {"tensorflow": with_tensorflow, "jax": with_jax, "torch": with_torch}[keras.backend.backend()]
    return lambda function, x: keras.ops.convert_to_numpy(backend(function, x))


@pytest.fixture(scope="session")
def command():
    """``command("list", "task")`` runs ``zoo list task`` in a process of its own."""

    def run(*arguments, **settings) -> subprocess.CompletedProcess:
        words = [sys.executable, "-m", "zoo.cli", *map(str, arguments)]
        return subprocess.run(words, **{"capture_output": True, "text": True, **settings})

    return run


@pytest.fixture
def called(capfd):
    """``called("list", "task")`` runs ``zoo list task`` in this process: its exit code, and what it wrote."""
    from zoo import cli

    def run(*arguments) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        return ended.value.code, *capfd.readouterr()

    return run


@pytest.fixture
def refused(called):
    """``refused("train", "--recipe=x")`` is the one line that a command answers wrong input with."""

    def run(*arguments) -> str:
        code, _, err = called(*arguments)
        assert code == 2
        assert err.startswith("zoo: ") and err.endswith("\n") and err.count("\n") == 1, err
        return err

    return run


@pytest.fixture(scope="session")
def small_copy():
    """Changes that make the recipe ``copy`` small and quick."""
    sizes = {"train_size": 200, "valid_size": 24, "test_size": 24, "symbols": 4, "longest": 8, "max_length": 15}
    return {
        "model.width": 16,
        "model.num_heads": 2,
        "model.feed_forward": 32,
        "task.options": sizes,
        "train.steps": 4,
        "train.validate_every": 2,
        "train.batch_tokens": 128,
        "train.samples": 0,
    }


_FRAME = """<!doctype html>
<iframe id="frame" src="report.html" style="width: WIDTHpx; height: 900px; border: 0"></iframe>
<pre id="found"></pre>
<script>
onload = () => {
  const page = document.getElementById("frame").contentDocument;
  const look = () => {SCRIPT};
  const said = look();
  const overflow = page.documentElement.scrollWidth - page.documentElement.clientWidth;
  const pictures = page.querySelectorAll("svg").length;
  document.getElementById("found").textContent = JSON.stringify({overflow, pictures, ...said});
};
</script>
"""


@pytest.fixture
def in_browser(tmp_path):
    """``in_browser(page, width, script)``: what the script returns of a file that headless Chromium shows so wide.

    The script sees the document as ``page``. Beside what it returns are "overflow", pixels by which the document is
    wider than its window, and "pictures", its SVGs.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Chromium")

    def look(page, width: int, script: str = "return {};") -> dict:
        shutil.copy(page, tmp_path / "report.html")
        (tmp_path / "frame.html").write_text(_FRAME.replace("WIDTH", str(width)).replace("SCRIPT", script))
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        options += [f"--user-data-dir={tmp_path}/user", "--virtual-time-budget=5000"]
        done = subprocess.run(
            [chromium, *options, "--dump-dom", f"file://{tmp_path}/frame.html"],
            capture_output=True,
            text=True,
            timeout=120,
        )
        return json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', done.stdout).group(1)))

    return look
