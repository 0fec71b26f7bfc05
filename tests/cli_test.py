import subprocess
import sys
import time
from pathlib import Path

import pytest

import zoo
from zoo import cli
from zoo import recipe as recipes
from zoo.recipe import SHORT_FLAGS

HEAVY = {"keras", "tensorflow", "jax", "torch", "numpy"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def nothing_written(elsewhere):
    yield
    assert list(Path.cwd().iterdir()) == []


# Quick and light

QUICK = [("list",), ("list", "recipe"), ("--help",), ("-h",), *((name, "--help") for name in cli.COMMANDS)]


@pytest.mark.parametrize("words", QUICK, ids=" ".join)
def test_listing_and_help_are_quick(command, words):
    def seconds():
        start = time.perf_counter()
        assert command(*words).returncode == 0
        return time.perf_counter() - start

    assert any(seconds() < 1 for _ in range(3))  # a busy machine gets another try


def test_listing_and_help_load_nothing_heavy():
    code = f"""
import sys
from zoo import cli
for words in {QUICK!r}:
    try:
        cli.main(list(words))
    except SystemExit as ended:
        assert not ended.code
print("loaded", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "zoo.cli" in loaded
    assert not HEAVY & loaded


def test_wrong_names_are_found_before_anything_heavy_is_imported():
    wrong = [
        ["train", "--recipe=none"],
        ["train", "--recipe=copy", "--architecture=none"],
        ["train", "--recipe=copy", "--attention=none"],
        ["train", "--recipe=copy", "--position=nine"],
        ["train", "--recipe=copy", "--set=task.name=none"],
        ["train", "--recipe=copy", "--depth=x"],
        ["train", "--recipe=copy", "--backend=none"],
        ["evaluate", "--workdir=none"],
        ["generate", "--workdir=none", "--text=x"],
    ]
    code = f"""
import sys
from zoo import cli
for words in {wrong!r}:
    try:
        cli.main(words)
    except SystemExit as ended:
        assert ended.code == 2
print("loaded", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("\n") == len(wrong)
    assert not HEAVY & set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_shows_the_flags_of_a_command_and_no_others(called, name):
    code, out, err = called(name, "--help")
    assert (code, err) == (0, "")
    shown = {line.split()[0].removeprefix("--") for line in out.splitlines() if line.startswith("  --")}
    assert shown == set(cli.COMMANDS[name].flags)
    assert called("--help", name)[1] == out


def test_the_version(called):
    assert called("--version") == (0, f"{zoo.__version__}\n", "")


def test_help_names_the_commands(called):
    code, out, _ = called("--help")
    assert code == 0
    assert all(f"  {name} " in out for name in ("train", "evaluate", "generate", "list", "show", "copy"))
    assert called()[:2] == (2, out)


# Flags


@pytest.mark.parametrize(
    "words",
    [
        ("show", "copy", "--depth=7", "--format=json"),
        ("--depth=7", "--format=json", "show", "copy"),
        ("--format", "json", "show", "--depth", "7", "copy"),
        ("show", "--recipe=copy", "--set", "model.depth=7", "--format=json"),
    ],
)
def test_flags_stand_anywhere(called, words):
    code, out, err = called(*words)
    assert (code, err) == (0, "")
    assert recipes.from_json(out) == recipes.load("copy").override({"model.depth": 7})


@pytest.mark.parametrize(("flag", "path"), SHORT_FLAGS.items())
def test_a_short_flag_is_the_setting(called, flag, path):
    hint = recipes.field_type(path)
    value = next(value for value in (3, 0.5, "x") if recipes.accepts(hint, value))
    short, long = (
        called("show", "copy", f, "--format=json")[1] for f in (f"--{flag}={value}", f"--set={path}={value}")
    )
    assert short == long
    assert recipes.from_json(short) == recipes.load("copy").override({path: value})


@pytest.mark.usefixtures("nothing_written")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("trian",), "unknown command 'trian' (did you mean 'train'?); there are: "),
        (("train",), "name a recipe"),
        (("train", "copy"), "`zoo train` takes no 'copy'"),
        (("train", "--recipe"), "recipe"),
        (("train", "--recipe=copy", "--stesp=2"), "unknown flag --stesp (did you mean 'steps' or "),
        (("train", "--recipe=copy", "--text=a"), "--text is no flag of `zoo train`; it is one of: generate"),
        (("list", "--depth=2"), "--depth is no flag of `zoo list`"),
        (("evaluate", "--attention=multi_head"), "--attention is no flag of `zoo evaluate`"),
        (("evaluate",), "name a run directory"),
        (("generate", "--text=a", "--input=b", "--workdir=x"), "give --text or --input, not both"),
        (("list", "attentoin"), "nothing of the kind 'attentoin' (did you mean 'attention'?)"),
        (("list", "--format=xml"), "`zoo list` has no --format=xml; it has: table, tsv, json"),
        (("generate", "--format=xml"), "--format=xml"),
        (("train", "--recipe="), "--recipe is empty; say which, or leave it out"),
        (("show", "copy", "--depth=2", "--set=model.depth=7"), "model.depth is set twice: to 2 and to 7"),
        (("show", "copy", "--set=model.depth=2", "--set=model.depth=7"), "model.depth is set twice: to 2 and to 7"),
        (("show",), "name one recipe or run directory"),
        (("show", "copy", "number_words"), "name one recipe or run directory"),
        (("show", "copy", "--recipe=number_words"), "name one recipe or run directory"),
        (("show", "none"), "unknown recipe 'none'"),
        (("evaluate", "--checkpoint=bogus"), "--checkpoint=bogus: value should be one of <best|last>"),
        (("evaluate", "--split=bogus"), "--split=bogus: value should be one of <train|valid|test>"),
        (("evaluate", "--limit=0"), "--limit=0"),
        (("evaluate", "--limit=x"), "--limit=x"),
        (("generate", "--batch_size=0"), "--batch_size=0"),
        (("evaluate", "--workdir=none"), "'none' is no run directory"),
        (("evaluate", "--recipe=copy"), "'runs/copy' is no run directory"),
        (("generate", "--workdir=none", "--text=a"), "'none' is no run directory"),
        (("generate", "--workdir=none", "--input=none.txt"), "'none.txt' cannot be read: No such file or directory"),
        (("generate", "--workdir=none", "--input=."), "'.' cannot be read: Is a directory"),
    ],
)
def test_wrong_words_and_flags(refused, words, message):
    assert message in refused(*words)
