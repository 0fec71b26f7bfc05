import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from zoo import plugin, registry
from zoo.errors import InputError

# A plugin needs no Keras for a task that is never trained.
TASK = '''
from zoo import registry


@registry.task.register("{name}")
class Theirs:
    """A task of theirs."""
'''

RECIPE = '''
"""Copying, tiny.

zoo train --recipe={prefix}/tiny
"""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe():
    return Recipe(
        task=TaskConfig("copy", options={{"longest": 6, "train_size": 64, "valid_size": 8, "test_size": 8}}),
        model=ModelConfig({model}depth=1, width=16, num_heads=2, feed_forward=16),
        train=TrainConfig(steps=2, batch_tokens=256, samples=0, jit=False),
    )
'''

ATTENTION = '''
from pathlib import Path

from zoo import recipe, registry
from zoo.layers.attention.multi_head import MultiHeadAttention

recipe.add_directory("theirs", Path(__file__).parent / "recipes")


@registry.attention.register("{name}")
class Cold(MultiHeadAttention):
    """Attention at half the temperature."""

    def attend(self, q, k, v, **settings):
        return super().attend(2 * q, k, v, **settings)
'''


@pytest.fixture(autouse=True)
def for_a_test(own_registries):
    """What plugins register and import, for the length of a test."""


@pytest.fixture
def write(tmp_path):
    """``write("a/b.py", text)`` is the path of a new file."""

    def write(path: str, text: str) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


@pytest.fixture
def install(tmp_path, write, monkeypatch):
    """``install("theirs-a", "theirs_a", text)`` makes a distribution of one module with an entry point."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=":")

    def install(distribution: str, module: str, text: str) -> Path:
        info = f"site/{module}-1.5.dist-info"
        write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n")
        write(f"{info}/entry_points.txt", f"[zoo.plugins]\n{distribution}-point = {module}\n")
        return write(f"site/{module}.py", text)

    return install


def theirs() -> list[plugin.Plugin]:
    """What is installed may be more than a test installs."""
    return [p for p in plugin.load_installed() if p.name.startswith("theirs")]


# The three doors


def test_an_entry_point(install):
    install("theirs-a", "theirs_a", TASK.format(name="plugin_test_a"))
    assert "plugin_test_a" not in registry.task.names()
    assert theirs() == [plugin.Plugin("theirs-a-point", "theirs-a 1.5")]
    assert registry.task.module("plugin_test_a") == "theirs_a"


def test_a_module(write, tmp_path, monkeypatch):
    write("theirs_m/__init__.py", "")
    write("theirs_m/inner.py", TASK.format(name="plugin_test_m"))
    monkeypatch.syspath_prepend(tmp_path)
    plugin.load("theirs_m.inner")
    assert registry.task.module("plugin_test_m") == "theirs_m.inner"


def test_a_file(write):
    file = write("theirs.py", TASK.format(name="plugin_test_f"))
    plugin.load(str(file))
    assert registry.task.summary("plugin_test_f") == "A task of theirs."
    assert registry.task.get("plugin_test_f").__module__ in sys.modules


def test_a_file_is_imported_once_and_so_is_its_copy(write, tmp_path):
    text = f"open({str(tmp_path / 'times')!r}, 'a').write('x')\n" + TASK.format(name="plugin_test_once")
    for path in ("mine.py", "mine.py", "copies/0/mine.py"):
        plugin.load(str(write(path, text)))
    assert (tmp_path / "times").read_text() == "x"


def test_two_files_of_one_name(write):
    for folder in ("a", "b"):
        plugin.load(str(write(f"{folder}/theirs.py", TASK.format(name=f"plugin_test_{folder}"))))
    modules = {registry.task.module(f"plugin_test_{folder}") for folder in ("a", "b")}
    assert len(modules) == 2
    assert all(sys.modules[module].Theirs for module in modules)


@pytest.mark.parametrize("name", ["copy", "plugin_test_taken"])
def test_a_taken_name_is_refused_with_both_modules(write, name):
    if name != "copy":
        plugin.load(str(write("first.py", TASK.format(name=name))))
    holder = registry.task.module(name)
    with pytest.raises(InputError) as error:
        plugin.load(str(write("second.py", "# another\n" + TASK.format(name=name))))
    assert f"task '{name}' of zoo_plugin_second" in str(error.value)
    assert f"is taken by {holder}" in str(error.value)
    assert registry.task.module(name) == holder


# Plugins that fail


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('no\\nway')", "RuntimeError: no way"),
        ("import theirs_missing", "No module named 'theirs_missing'"),
        ("def (", "SyntaxError"),
        ("raise KeyError", "KeyError"),
    ],
)
def test_a_file_that_fails(write, text, message):
    file = write("theirs.py", text)
    for _ in range(2):  # it is not taken for loaded the second time
        with pytest.raises(InputError) as error:
            plugin.load(str(file))
        assert f"plugin {str(file)!r} failed to import" in str(error.value)
        assert message in str(error.value)
        assert "\n" not in str(error.value)


def test_a_file_can_be_mended(write):
    file = write("theirs.py", "def (")
    with pytest.raises(InputError):
        plugin.load(str(file))
    plugin.load(str(write("theirs.py", TASK.format(name="plugin_test_mended"))))
    assert "plugin_test_mended" in registry.task.names()


def test_a_missing_file_or_module(tmp_path, write, monkeypatch):
    with pytest.raises(InputError, match=r"plugin file '.*none.py' does not exist"):
        plugin.load(str(tmp_path / "none.py"))
    for name in ("theirs_none", "theirs_none.inner", ""):
        with pytest.raises(InputError, match=f"plugin {name!r} "):
            plugin.load(name)
    monkeypatch.syspath_prepend(tmp_path)
    write("theirs_importer.py", "import theirs_none")
    with pytest.raises(InputError, match=r"'theirs_importer' failed to import: .*theirs_none"):  # it is installed
        plugin.load("theirs_importer")


def test_an_installed_one_that_fails_stops_no_other(install):
    install("theirs-a", "theirs_a", "raise RuntimeError('broken\\nin two')")
    install("theirs-b", "theirs_b", TASK.format(name="plugin_test_b"))
    broken, whole = theirs()
    assert broken == plugin.Plugin("theirs-a-point", "theirs-a 1.5", "RuntimeError: broken in two")
    assert whole == plugin.Plugin("theirs-b-point", "theirs-b 1.5")
    assert "plugin_test_b" in registry.task.names()


# On the command line


def test_importing_zoo_loads_none(install, tmp_path):
    install("theirs-a", "theirs_a", f"open({str(tmp_path / 'loaded')!r}, 'w')")
    code = "import zoo, zoo.registry, zoo.recipe; zoo.registry.task.names(); zoo.recipe.load('copy'); zoo.Recipe"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not (tmp_path / "loaded").exists()
    subprocess.run([sys.executable, "-m", "zoo.cli", "list", "task"], check=True, capture_output=True)
    assert (tmp_path / "loaded").exists()


def with_a_recipe(write) -> Path:
    """A plugin that adds a directory with one recipe."""
    folder = write("recipes/tiny.py", RECIPE.format(prefix="theirs", model="").lstrip()).parent
    return write("theirs.py", f"from zoo import recipe\nrecipe.add_directory('theirs', {str(folder)!r})\n")


def test_list_shows_what_plugins_bring(install, write, called):
    install("theirs-a", "theirs_a", TASK.format(name="plugin_test_a"))
    file = with_a_recipe(write)
    code, out, err = called("list", "task", "recipe", f"--plugin={file}")
    assert (code, err) == (0, "")
    assert "task\tplugin_test_a\tA task of theirs.\n" in out
    assert "recipe\ttheirs/tiny\tCopying, tiny.\n" in out
    code, out, _ = called("show", "theirs/tiny", f"--plugin={file}")
    assert code == 0
    assert "model.width\t16\n" in out


def test_a_recipe_of_a_plugin_is_copied(write, tmp_path, called):
    file = with_a_recipe(write)
    code, _, err = called("copy", "theirs/tiny", tmp_path / "mine.py", f"--plugin={file}")
    assert (code, err) == (0, "")
    assert (tmp_path / "mine.py").read_text() == (tmp_path / "recipes/tiny.py").read_text()


def test_a_broken_installed_one_is_a_warning_with_its_distribution(install, called):
    install("theirs-a", "theirs_a", "raise RuntimeError('broken')")
    install("theirs-b", "theirs_b", TASK.format(name="plugin_test_b"))
    code, out, err = called("list", "task")
    assert code == 0
    assert "plugin_test_b" in out
    (line,) = [line for line in err.splitlines() if "theirs" in line]
    assert line == (
        "zoo: warning: plugin 'theirs-a-point' of theirs-a 1.5 failed: RuntimeError: broken; going on without it"
    )


@pytest.mark.parametrize(
    "wish",
    [
        ("train", "--recipe=copy", "--attention=plugin_test_kind"),
        ("train", "--recipe=copy", "--set=task.name=plugin_test_task"),
        ("train", "--recipe=theirs/tiny"),
        ("show", "theirs/tiny"),
        ("copy", "theirs/tiny"),
    ],
)
def test_a_broken_installed_one_that_is_needed_is_the_error(install, refused, wish, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    install("theirs-a", "theirs_a", "raise RuntimeError('broken')")
    line = refused(*wish)
    assert "unknown" in line
    assert "plugin 'theirs-a-point' of theirs-a 1.5 failed: RuntimeError: broken" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]


@pytest.mark.parametrize("words", [("list",), ("show", "copy"), ("train", "--recipe=copy"), ("copy", "copy")])
def test_a_named_one_that_fails_is_the_error(write, refused, words, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    file = write("theirs.py", "raise RuntimeError('broken')")
    assert "failed to import: RuntimeError: broken" in refused(*words, f"--plugin={file}")
    assert "does not exist" in refused(*words, "--plugin=none.py")
    assert "is not installed" in refused(*words, "--plugin=theirs_none")
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == ["theirs.py"]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("flag", ["--backend=torch", "--set=train.backend=torch", "--recipe=theirs_recipe.py"])
def test_the_backend_is_settled_before_a_plugin_is_imported(install, write, command, tmp_path, flag):
    text = f"import os; open({str(tmp_path / 'on')!r}, 'a').write(os.environ['KERAS_BACKEND'] + ' ')"
    install("theirs-a", "theirs_a", text)
    file = write("theirs.py", text)
    recipe = "from zoo.recipe import *\ndef get_recipe(): return Recipe(TaskConfig('copy'), {})\n"
    write("theirs_recipe.py", recipe.format("train=TrainConfig(backend='torch')"))
    words = [flag] if flag.startswith("--recipe") else ["--recipe=copy", flag]
    done = command("train", *words, f"--plugin={file}", "--architecture=none", cwd=tmp_path)
    assert "unknown architecture" in done.stderr
    assert (tmp_path / "on").read_text() == "torch torch "


def test_importing_a_kind_makes_no_noise(write, command):
    file = write("theirs.py", ATTENTION.format(name="plugin_test_quiet"))
    done = command("list", "attention", f"--plugin={file}", "--format=json")
    assert (done.returncode, done.stderr) == (0, "")
    assert "plugin_test_quiet" in [row["name"] for row in json.loads(done.stdout)]


# With a run


def test_a_run_keeps_its_plugins(write, called, command, tmp_path):
    """Trained with a file and an installed plugin, it is used in a fresh process when the file is gone."""
    write("recipes/tiny.py", RECIPE.format(prefix="theirs", model='attention="plugin_test_mine", ').lstrip())
    file = write("mine.py", ATTENTION.format(name="plugin_test_mine"))
    run = tmp_path / "run"
    train = ("train", "--recipe=theirs/tiny", f"--plugin={file}", f"--workdir={run}")
    code, out, err = called(*train)
    assert (code, err) == (0, ""), out
    recorded = json.loads((run / "recipe.json").read_text())
    assert recorded["plugins"] == [str(file)]
    assert recorded["model"]["attention"] == "plugin_test_mine"
    assert "already finished" in called(*train)[1]

    code, _, err = called("evaluate", f"--workdir={run}", "--limit=2")  # where the file itself is loaded already
    assert (code, err) == (0, "")

    changed = write("mine.py", file.read_text() + "# changed\n")
    done = command(*train)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"plugin {str(changed)!r} has changed since this run began" in done.stderr

    file.unlink()
    assert called("show", run)[0] == 0
    done = command("generate", f"--workdir={run}", "--text=ab")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
