"""What README.md says works as it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from zoo import cli
from zoo import recipe as recipes
from zoo.training.check import check

README = Path(__file__).parents[1] / "README.md"


def block(name: str) -> str:
    """The Python code behind the comment ``<!-- name -->``."""
    found = re.search(rf"<!-- {name} -->\n```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"README.md has no block {name}"
    return found.group(1)


def run(arguments: list[str], folder: Path) -> str:
    """The standard output of a command that must succeed."""
    root = str(README.parent)
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    done = subprocess.run(
        arguments, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def zoo(*arguments: str, folder: Path) -> str:
    """The output of the ``zoo`` command."""
    return run([sys.executable, "-m", "zoo.cli", *arguments], folder)


def test_the_plugin_trains_and_is_loaded_again_by_the_run(called, own_registries, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = block("plugin")
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    (tmp_path / "cosine.py").write_text(code)
    small = ["--recipe=copy", "--steps=2", "--width=16", "--num_heads=2", "--set=train.jit=false", "--workdir=run"]
    small += [f"--set=task.options.{split}_size=16" for split in ("train", "valid", "test")]
    assert called("train", "--plugin=cosine.py", "--attention=cosine", *small)[0] == 0
    (tmp_path / "cosine.py").unlink()
    assert '"exact_match"' in zoo("evaluate", "--workdir=run", "--limit=4", folder=tmp_path)


def test_the_plugin_keeps_its_contract(tmp_path):
    (tmp_path / "cosine.py").write_text(block("plugin"))
    (tmp_path / "check.py").write_text(block("check"))
    run([sys.executable, "check.py"], tmp_path)


@pytest.mark.skipif(os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow", reason="made on TensorFlow")
def test_the_exported_model_is_served(called, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["--recipe=number_words", "--steps=2", "--width=16", "--num_heads=2", "--depth=1", "--workdir=run"]
    quick = ["decode_validation=0", "samples=0", "jit=false"]
    small += [f"--set=train.{setting}" for setting in quick]
    small += [f"--set=task.options.{split}_size=40" for split in ("train", "valid", "test")]
    assert called("train", *small)[0] == 0
    text = re.search(r'tf\.constant\(\["(.*)"\]\)', block("served")).group(1)
    assert called("export", "--workdir=run", "--output=served/1")[0] == 0
    (tmp_path / "client.py").write_text(block("served"))
    line = run([sys.executable, "client.py"], tmp_path).splitlines()[-1]
    output = called("generate", "--workdir=run", f"--text={text}")[1].removesuffix("\n")
    assert line.rpartition(" ")[0] == output


def test_the_library_example(tmp_path):
    (tmp_path / "example.py").write_text(block("library"))
    lines = run([sys.executable, "example.py"], tmp_path).splitlines()
    assert len(eval(lines[-2])) == 2
    assert 0 <= float(lines[-1]) <= 1


def test_the_layers_example(tmp_path):
    (tmp_path / "example.py").write_text(block("layers"))
    assert "(2, 10, 64)" in run([sys.executable, "example.py"], tmp_path)


def test_the_tables_name_everything_there_is(tmp_path):
    text = README.read_text(encoding="utf-8")
    missing = [row for row in zoo("list", folder=tmp_path).splitlines() if f"`{row.split(chr(9))[1]}`" not in text]
    assert not missing


@pytest.mark.parametrize(
    "command", re.findall(r"^zoo train (.*?)(?<!\\)$", README.read_text(), re.MULTILINE | re.DOTALL)
)
def test_the_commands_that_change_one_thing_are_understood(command, tmp_path):
    words = [w for w in command.replace("\\\n", " ").replace("FOLDER", str(tmp_path)).split() if w != "\\"]
    words = [w for w in words if not w.startswith(("--workdir", "--plugin", "--attention=cosine"))]
    check(recipes.from_json(zoo("show", *words, "--format=json", folder=tmp_path)))


@pytest.mark.parametrize("command", re.findall(r"^zoo (?!train)(\w+) (.*)$", README.read_text(), re.MULTILINE))
def test_the_flags_of_the_other_commands_are_theirs(command):
    name, words = command
    assert set(re.findall(r"--(\w+)", words)) <= set(cli.COMMANDS[name].flags)
