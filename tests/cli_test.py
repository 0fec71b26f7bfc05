import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zoo import cli
from zoo import recipe as recipes
from zoo.training.run_directory import RunDirectory

HEAVY = {"keras", "tensorflow", "jax", "torch", "numpy"}

SMALL = (
    *("--recipe=copy", "--steps=2", "--width=16", "--num_heads=2", "--batch_tokens=256"),
    *("--position=learned", "--set=model.feed_forward=16", "--set=train.samples=0", "--set=train.jit=false"),
    *("--set=task.options.longest=6", "--set=task.options.max_length=16"),
    *("--set=task.options.train_size=64", "--set=task.options.valid_size=8", "--set=task.options.test_size=8"),
)


@pytest.fixture(scope="module")
def trained(command, tmp_path_factory) -> Path:
    """The directory of a run of two steps, trained in a process of its own."""
    workdir = tmp_path_factory.mktemp("cli") / "run"
    done = command("train", *SMALL, f"--workdir={workdir}")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "step      2/2" in done.stdout
    assert f"zoo evaluate --workdir={workdir}" in done.stdout
    return workdir


@pytest.fixture
def copied(trained, tmp_path) -> Path:
    """A copy of that run, to damage."""
    return shutil.copytree(trained, tmp_path / "run")


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


def test_help_names_the_commands(called):
    code, out, _ = called("--help")
    assert code == 0
    assert all(f"  {name} " in out for name in ("train", "evaluate", "generate", "list", "show", "copy"))
    assert called()[:2] == (2, out)


# Tables


def test_list_as_tab_separated_text_and_as_json(called):
    rows = [line.split("\t") for line in called("list")[1].splitlines()]
    assert {len(row) for row in rows} == {3}
    assert {row[0] for row in rows} == {"attention", "position", "architecture", "task", "recipe"}
    assert ["attention", "multi_head"] in [row[:2] for row in rows]
    assert called("list", "--format=tsv")[1].splitlines() == ["\t".join(row) for row in rows]
    assert [list(row.values()) for row in json.loads(called("list", "--format=json")[1])] == rows


def test_list_of_one_kind_and_of_two(called):
    tasks = called("list", "task")[1].splitlines()
    assert tasks and all(line.startswith("task\t") for line in tasks)
    both = called("list", "position", "task")[1].splitlines()
    assert both[-len(tasks) :] == tasks
    assert all(line.startswith("position\t") for line in both[: -len(tasks)])


def test_a_table_has_its_columns_aligned(called):
    lines = called("list", "--format=table")[1].splitlines()
    rows = json.loads(called("list", "--format=json")[1])
    start = lines[0].index(rows[0]["name"])
    assert len(lines) == len(rows)
    assert all(line[start:].startswith(row["name"]) for line, row in zip(lines, rows, strict=True))


def test_a_reader_that_has_seen_enough(command):
    read, write = os.pipe()
    os.close(read)
    try:
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = command("list", capture_output=False, stdout=write, stderr=subprocess.PIPE, env=buffered)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


# Show and copy


def test_show(called):
    code, out, err = called("show", "copy")
    assert (code, err) == (0, "")
    assert out.startswith(recipes.docstring(recipes.find("copy")))
    rows = dict(line.split("\t") for line in called("show", "copy", "--format=tsv")[1].splitlines())
    assert rows["train.steps"] == str(recipes.load("copy").train.steps)
    assert rows["model.attention"] == "null"
    assert rows.keys() == recipes.flatten(recipes.load("copy")).keys()


def test_show_as_json_is_the_recipe(called):
    assert recipes.from_json(called("show", "copy", "--format=json")[1]) == recipes.load("copy")
    changed = called("show", "--format=json", "--depth=5", "copy", "--set=task.options.symbols=3")[1]
    assert recipes.from_json(changed) == recipes.load("copy").override({"model.depth": 5, "task.options.symbols": 3})


def test_show_a_run(called, trained):
    assert called("show", trained, "--format=json")[1] == (trained / "recipe.json").read_text()


def test_copy(called, refused):
    source = recipes.find("copy").read_text()
    code, out, err = called("copy", "copy")
    assert (code, err) == (0, "")
    assert "zoo train --recipe=copy.py" in out
    assert Path("copy.py").read_text() == source
    assert recipes.load("copy.py") == recipes.load("copy")
    Path("copy.py").write_text("mine")
    assert "'copy.py' exists" in refused("copy", "copy")
    assert Path("copy.py").read_text() == "mine"
    Path("folder").mkdir()
    assert called("copy", "copy", "folder")[0] == 0
    assert Path("folder/copy.py").read_text() == source
    assert called("copy", "copy", "other.py")[0] == 0
    assert Path("other.py").read_text() == source


@pytest.mark.usefixtures("nothing_written")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a recipe and the file to make"),
        (("copy", "a.py", "b.py"), "name a recipe and the file to make"),
        (("copy", "mine.txt"), "ends in .py"),
        (("copy", "none/mine.py"), "cannot be written: No such file or directory"),
        (("cpy",), "unknown recipe 'cpy' (did you mean 'copy'?)"),
    ],
)
def test_copy_refuses(refused, words, message):
    assert message in refused("copy", *words)


# Flags


@pytest.mark.parametrize(
    "words",
    [
        ("show", "copy", "--depth=7", "--format=json"),
        ("--depth=7", "--format=json", "show", "copy"),
        ("--format", "json", "show", "--depth", "7", "copy"),
        ("show", "--recipe=copy", "--set", "model.depth=7", "--format=json"),
        ("show", "copy", "--set=model.depth=2", "--set=model.depth=7", "--format=json"),
        ("show", "copy", "--depth=2", "--set=model.depth=7", "--format=json"),
    ],
)
def test_flags_stand_anywhere(called, words):
    code, out, err = called(*words)
    assert (code, err) == (0, "")
    assert recipes.from_json(out) == recipes.load("copy").override({"model.depth": 7})


@pytest.mark.parametrize(("flag", "path"), cli.SETTINGS.items())
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
        (("train", "--recipe=copy", "--stesp=2"), "unknown flag --stesp (did you mean 'steps' or 'set'?)"),
        (("train", "--recipe=copy", "--text=a"), "--text is no flag of `zoo train`; it is one of: generate"),
        (("list", "--depth=2"), "--depth is no flag of `zoo list`"),
        (("evaluate", "--attention=multi_head"), "--attention is no flag of `zoo evaluate`"),
        (("evaluate",), "name a run directory"),
        (("generate", "--text=a", "--input=b", "--workdir=x"), "give --text or --input, not both"),
        (("list", "attentoin"), "nothing of the kind 'attentoin' (did you mean 'attention'?)"),
        (("list", "--format=xml"), "--format=xml: value should be one of <table|tsv|json>"),
        (("generate", "--format=xml"), "--format=xml"),
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


# What training refuses


@pytest.mark.usefixtures("nothing_written")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--recipe=cpy", "unknown recipe 'cpy' (did you mean 'copy'?); there are: "),
        ("--recipe=none.py", "recipe file 'none.py' does not exist"),
        ("--recipe=copy --attention=multihead", "unknown attention 'multihead' (did you mean 'multi_head'?)"),
        ("--recipe=copy --position=nine", "unknown position 'nine'"),
        ("--recipe=copy --architecture=transformr", "unknown architecture 'transformr' (did you mean 'transformer'?)"),
        ("--recipe=copy --set=task.name=cpy", "unknown task 'cpy' (did you mean 'copy'?)"),
        ("--recipe=copy --set=model.num_head=2", "unknown setting 'model.num_head' (did you mean 'model.num_heads'"),
        ("--recipe=copy --set=model.depth", "'model.depth' is not path=value"),
        ("--recipe=copy --set=model.depth=two", "model.depth must be a whole number or none, not 'two'"),
        ("--recipe=copy --depth=two", "model.depth must be a whole number or none, not 'two'"),
        ("--recipe=copy --steps=1.5", "train.steps must be a whole number, not 1.5"),
        ("--recipe=copy --steps=0", "train.steps must be at least 1, not 0"),
        ("--recipe=copy --depth=0", "model.depth must be at least 1, not 0"),
        ("--recipe=copy --dropout=1.5", "model.dropout must be at least 0 and below 1, not 1.5"),
        ("--recipe=copy --learning_rate=-1", "train.learning_rate must be above 0, not -1"),
        ("--recipe=copy --seed=-1", "train.seed must be at least 0, not -1"),
        ("--recipe=copy --num_heads=3", "3 heads don't divide the width 64"),
        ("--recipe=copy --precision=float8", "train.precision has no 'float8'"),
        ("--recipe=copy --backend=theano", "unknown backend 'theano'"),
        ("--recipe=copy --set=train.backend=theano", "unknown backend 'theano'"),
        ("--recipe=copy --set=model.options.windoww=3", "architecture 'transformer' has no option 'windoww'"),
        ("--recipe=copy --set=model.attention_options.x=3", "attention 'multi_head' has no option 'x'"),
        ("--recipe=copy --set=model.position_options.x=3", "position 'sinusoidal' has no option 'x'"),
        ("--recipe=copy --set=task.options.x=3", "task 'copy' has no option 'x'"),
        ("--recipe=copy --set=train.weight_decay=0.1", "train.weight_decay has no effect with adam"),
        ("--recipe=copy --set=task.options.longest=40", "longest"),
        ("--recipe=copy --set=task.options.symbols=99", "symbols must be from 1 to 26"),
        ("--recipe=number_words --architecture=encoder_only", "layout"),
        ("--recipe=number_words --set=task.options.target_language=xx", "num2words cannot spell"),
        ("--recipe=copy --plugin=none.py", "does not exist"),
        ("--recipe=copy --plugin=no_such_module_here", "plugin 'no_such_module_here' is not installed"),
    ],
)
def test_train_refuses(refused, flags, message):
    assert message in refused("train", *flags.split(), "--workdir=run")


def test_a_backend_that_is_not_installed(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)  # as Python marks what cannot be imported
    for flag in ("--backend=jax", "--set=train.backend=jax"):
        assert "the backend 'jax' is not installed: pip install 'attention-zoo[jax]'" in refused(
            "train", "--recipe=copy", flag
        )


def test_a_wrong_backend_in_the_environment(refused, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "theano")
    assert "unknown backend 'theano'" in refused("train", "--recipe=copy")


def test_a_recipe_file_that_is_no_recipe(refused):
    for text in ("def (", "raise RuntimeError('x\\ny')", "x = 1", "def get_recipe(): return 1"):
        Path("mine.py").write_text(text)
        assert "mine.py" in refused("train", "--recipe=mine.py")
        assert "mine.py" in refused("show", "mine.py")
    assert [path.name for path in Path.cwd().iterdir() if path.name != "__pycache__"] == ["mine.py"]


# Data

TRANSLATION = '''
"""Translation of nothing much."""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe():
    options = {"vocabulary": 40, "max_length": 16}
    return Recipe(
        task=TaskConfig("translation", options=options),
        model=ModelConfig(depth=1, width=16, num_heads=2, feed_forward=16),
        train=TrainConfig(steps=2, batch_tokens=256, samples=0, jit=False),
    )
'''


@pytest.fixture
def data():
    """A folder of aligned files, to damage."""
    Path("mine.py").write_text(TRANSLATION)
    folder = Path("data")
    folder.mkdir()
    for stem in ("train", "val", "test"):
        for language in ("en", "de"):
            (folder / f"{stem}.{language}").write_text("".join(f"{language} {'abc'[i % 3]}\n" for i in range(20)))
    return folder


def missing(folder):
    shutil.rmtree(folder)
    return "data folder"


def without_a_file(folder):
    (folder / "train.de").unlink()
    return "has no train.de and no train.de.gz; it has "


def without_a_validation_file(folder):
    (folder / "val.en").unlink()
    return "has no val.en"


def unequal(folder):
    (folder / "train.de").write_text("a\nb\n")
    return "train.en' has 20 lines and "


def empty(folder):
    (folder / "train.en").write_text("")
    return "train.en' is empty"


def not_utf8(folder):
    (folder / "train.en").write_bytes(b"a\nb\n\xff\n")
    return "train.en' is not UTF-8: line 3 has the byte 0xff"


def truncated(folder):
    (folder / "train.en").unlink()
    (folder / "train.en.gz").write_bytes(gzip.compress(b"a\n" * 2000)[:-10])
    return "train.en.gz' cannot be read"


def damaged(folder):
    (folder / "train.en").unlink()
    packed = bytearray(gzip.compress(bytes(range(256)) * 20))
    packed[20:40] = b"\xff" * 20
    (folder / "train.en.gz").write_bytes(packed)
    return "train.en.gz' cannot be read"


def not_gzipped(folder):
    (folder / "train.en").rename(folder / "train.en.gz")
    return "train.en.gz' cannot be read"


@pytest.mark.parametrize(
    "fault",
    [missing, without_a_file, without_a_validation_file, unequal, empty, not_utf8, truncated, damaged, not_gzipped],
)
def test_data_that_is_not_right(refused, data, fault):
    message = fault(data)
    assert message in refused("train", "--recipe=mine.py", "--data_dir=data", "--workdir=run")
    assert not Path("run").exists()


def test_no_data_at_all(refused, data):
    assert "give --data_dir=FOLDER" in refused("train", "--recipe=mine.py", "--workdir=run")
    assert not Path("run").exists()


def test_evaluation_is_json_also_where_pairs_are_left_out(called, data):
    (data / "test.en").write_text("en a\n" * 19 + "en a b c a b c a b c a b c a b c\n")
    code, out, err = called("train", "--recipe=mine.py", "--data_dir=data", "--workdir=run")
    assert (code, err) == (0, ""), out
    code, out, err = called("evaluate", "--workdir=run")
    assert code == 0
    assert json.loads(out)["examples"] == 20
    assert err == "1 of 20 test pairs are longer than 16 tokens: left out\n"


# Run directories


def test_a_directory_that_cannot_be_made(refused):
    Path("file").write_text("x")
    assert "'file/run' cannot be written: Not a directory" in refused("train", *SMALL, "--workdir=file/run")
    assert "'file' cannot be written" in refused("train", *SMALL, "--workdir=file")
    assert Path("file").read_text() == "x"


def test_a_directory_with_other_files(refused):
    Path("mine").mkdir()
    Path("mine/letter.txt").write_text("x")
    line = refused("train", *SMALL, "--workdir=mine")
    assert "'mine' has files and is no run directory (letter.txt); choose another --workdir" in line
    assert [path.name for path in Path("mine").iterdir()] == ["letter.txt"]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_directory_of_another_recipe(refused, trained):
    before = snapshot(trained)
    line = refused("train", *SMALL, "--depth=2", f"--workdir={trained}")
    assert "holds a run of another recipe: model.depth is 1 there and 2 here; choose another --workdir" in line
    assert snapshot(trained) == before


def test_a_directory_in_use(refused, copied):
    before = snapshot(copied)
    run = RunDirectory(copied)
    with run.claim(run.recipe()):
        assert "is in use by another process" in refused("train", *SMALL, f"--workdir={copied}")
    assert snapshot(copied) == before


def test_a_run_that_came_to_no_checkpoint_may_be_another_recipes(trained):
    run, left = Path("run"), Path("left")
    one = recipes.load("copy")
    other = one.override({"model.width": 16})
    with RunDirectory(run).claim(one):
        assert (run / "recipe.json").is_file()
        shutil.copy(trained / "target.subwords", run)
        shutil.copytree(run, left)  # as a process leaves it that is killed
    assert not run.exists()
    with RunDirectory(left).claim(other):
        assert recipes.read_json(left / "recipe.json") == other
        assert not (left / "target.subwords").exists()  # it is not that of the other recipe


def test_an_empty_directory_is_there_afterwards(refused):
    Path("mine").mkdir()
    refused("train", "--recipe=number_words", "--set=task.options.target_language=xx", "--workdir=mine")
    assert list(Path("mine").iterdir()) == []


def test_the_same_command_again(called, trained):
    before = snapshot(trained)
    code, out, err = called("train", *SMALL, f"--workdir={trained}")
    assert (code, err) == (0, "")
    assert "already finished at step 2" in out
    assert snapshot(trained) == before


# Damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def blank(path: Path) -> None:
    path.write_bytes(b"")


def scribble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = os.urandom(64)
    path.write_bytes(data)


def replace(path: Path) -> None:
    path.write_text("something else")


DAMAGE = [cut, blank, scribble, replace]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_last_checkpoint(refused, copied, damage):
    damage(copied / "last.npz")
    before = snapshot(copied)
    assert "last.npz' is not a checkpoint, or is damaged" in refused("train", *SMALL, f"--workdir={copied}")
    assert snapshot(copied) == before


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_best_checkpoint(refused, copied, damage):
    damage(copied / "best.npz")
    assert "best.npz' is not a checkpoint, or is damaged" in refused("evaluate", f"--workdir={copied}")


def test_a_missing_checkpoint(refused, copied):
    (copied / "best.npz").unlink()
    assert "there is no checkpoint" in refused("evaluate", f"--workdir={copied}")


def test_a_checkpoint_of_another_model(refused, copied):
    text = (copied / "recipe.json").read_text()
    (copied / "recipe.json").write_text(text.replace('"depth": 1', '"depth": 2'))
    assert "the checkpoint is of another model" in refused("evaluate", f"--workdir={copied}")


@pytest.mark.parametrize("damage", [cut, blank, replace])
@pytest.mark.parametrize("words", [("evaluate",), ("train", *SMALL)])
def test_a_damaged_recipe(refused, copied, damage, words):
    damage(copied / "recipe.json")
    assert "recipe.json' is damaged" in refused(*words, f"--workdir={copied}")
    assert "recipe.json' is damaged" in refused("show", copied)


def test_a_damaged_vocabulary(refused, copied):
    replace(copied / "target.subwords")
    assert "target.subwords" in refused("evaluate", f"--workdir={copied}")


# Evaluate and generate


def test_evaluate_prints_json_and_nothing_else(command, called, trained):
    done = command("evaluate", f"--workdir={trained}", "--limit=3")
    assert (done.returncode, done.stderr) == (0, "")
    measured = json.loads(done.stdout)
    assert measured["examples"] == 3
    assert measured["split"] == "test"
    assert measured["checkpoint"]["file"] == "best.npz"
    assert 0 <= measured["exact_match"] <= 1
    assert measured["teacher_forced_perplexity"] > 1
    other = json.loads(called("evaluate", f"--workdir={trained}", "--split=valid", "--checkpoint=last")[1])
    assert (other["split"], other["examples"], other["checkpoint"]["file"]) == ("valid", 8, "last.npz")


def test_generate_from_text_file_and_standard_input(command, called, trained):
    texts = ["ab", "", "hgf", "ab"]
    Path("in.txt").write_text("".join(f"{text}\n" for text in texts))
    from_file = called("generate", f"--workdir={trained}", "--input=in.txt")
    code, out, err = from_file
    assert (code, err) == (0, "")
    lines = out.removesuffix("\n").split("\n")
    assert len(lines) == 4
    assert lines[0] == lines[3]
    assert called("generate", f"--workdir={trained}", *(f"--text={text}" for text in texts)) == from_file
    done = command("generate", f"--workdir={trained}", "--batch_size=3", "--format=json", input="\n".join(texts))
    assert (done.returncode, done.stderr) == (0, "")
    rows = [json.loads(row) for row in done.stdout.splitlines()]
    assert rows == [{"source": text, "output": line} for text, line in zip(texts, lines, strict=True)]


def standard_input(monkeypatch, data: bytes) -> None:
    Path("stdin").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", open("stdin", encoding="utf-8"))  # noqa: SIM115  the test ends with it


@pytest.mark.parametrize(
    ("data", "sources"), [(b"", []), (b"\n", [""]), (b"a", ["a"]), (b"a\r\n\r\nb\r\n", ["a", "", "b"])]
)
def test_lines_of_standard_input(called, trained, monkeypatch, data, sources):
    standard_input(monkeypatch, data)
    code, out, err = called("generate", f"--workdir={trained}", "--input=-", "--format=json")
    assert (code, err) == (0, "")
    assert [json.loads(line)["source"] for line in out.splitlines()] == sources


def test_text_that_is_not_utf8(refused, trained, monkeypatch):
    standard_input(monkeypatch, b"a\xff\n")
    assert "'-' is not UTF-8: byte 1 is 0xff" in refused("generate", f"--workdir={trained}")
    Path("in.txt").write_bytes(b"\xe9t\xe9\n")
    assert "'in.txt' is not UTF-8: byte 0 is 0xe9" in refused("generate", f"--workdir={trained}", "--input=in.txt")
    assert "'--text' is not UTF-8" in refused("generate", f"--workdir={trained}", "--text=a\udcff")


def test_a_text_longer_than_the_model(refused, called, trained):
    line = refused("generate", f"--workdir={trained}", "--text=ab", f"--text={'abc' * 20}")
    assert "a text of 62 tokens is longer than the 16 positions of the model: 'abcabc" in line
    assert called("generate", f"--workdir={trained}", f"--text={'a' * 14}")[0] == 0
