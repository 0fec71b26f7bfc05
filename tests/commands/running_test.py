import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo import recipe as recipes
from zoo.commands import given

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
        ("--recipe=copy --learning_rate=1e400", "train.learning_rate must be a number or none, not inf"),
        ("--recipe=copy --set=train.epsilon=1e400", "train.epsilon must be a number, not inf"),
        ("--recipe=copy --depth=100000000000", "model.depth must be at most 10000"),
        ("--recipe=copy --num_heads=0", "model.num_heads must be at least 1, not 0"),
        ("--recipe=copy --set=model.options.depth=2", "model.options.depth is a setting of its own: model.depth"),
        ("--recipe=copy --set=model.options.activation=nope", "unknown activation 'nope'"),
        ("--recipe=copy --set=model.position_options.base=0", "the base of the wavelengths must be above 0, not 0"),
        ("--recipe=copy --set=task.options.valid_size=0", "valid_size must be from 1 to 100000000, not 0"),
        ("--recipe=copy --set=task.options.vocabulary=3", "vocabulary must be from 5 to 16777216, not 3"),
        ("--recipe=multi30k --set=task.options.bleu_tokenize=13b", "no tokenizer '13b' (did you mean '13a'?)"),
        ("--recipe=copy --plugin=.", "plugin '.' is neither a module's name nor the path of a .py file"),
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


def test_an_interruption_says_how_to_go_on_where_one_can(called, monkeypatch):
    from zoo.training import train

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "train", interrupt)
    code, _, err = called("train", "--recipe=copy", "--workdir=run")
    assert (code, err) == (130, "\nzoo: interrupted; there is no checkpoint yet to go on from\n")
    Path("run").mkdir()
    Path("run/last.npz").write_bytes(b"")
    code, _, err = called("train", "--recipe=copy", "--workdir=run")
    assert (code, err) == (130, "\nzoo: interrupted; the same command goes on from the last checkpoint\n")
    monkeypatch.setattr(recipes, "list_recipes", interrupt)
    code, _, err = called("list", "recipe")
    assert (code, err) == (130, "\nzoo: interrupted\n")


@pytest.mark.parametrize(
    ("recipe", "folder"),
    [("copy", "runs/copy"), ("folder/mine.py", "runs/mine"), ("theirs/copy", "runs/theirs/copy")],
)
def test_a_run_directory_is_named_after_the_recipe(refused, recipe, folder):
    assert f"{folder!r} is no run directory" in refused("evaluate", f"--recipe={recipe}")


def test_training_goes_on_without_a_reader(command, small):
    read, write = os.pipe()
    os.close(read)
    try:
        done = command("train", *small, "--workdir=run", capture_output=False, stdout=write, stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("run/last.npz").is_file()


PLUGIN = """
import sys
from zoo import Attention, registry
{now}

@registry.attention.register("odd")
class Odd(Attention):
    def logits(self, q, k, offset):
        {later}
"""


@pytest.mark.parametrize(
    ("now", "later", "message"),
    [
        ("sys.exit(0)", "pass", "plugin 'odd.py' failed to import: SystemExit: 0"),
        ("", "raise RuntimeError('not today')", "odd.py' failed in logits, line 9: RuntimeError: "),
        ("", "sys.exit(3)", "a plugin or a recipe ended the program by sys.exit(3)"),
        ("", "raise OSError(2, 'gone', 'its.txt')", "odd.py' failed in logits, line 9: "),
        ("", "pass", "zoo: Odd.logits returns nothing\n"),
    ],
)
def test_a_plugin_that_fails_is_named(refused, own_registries, small, now, later, message):
    Path("odd.py").write_text(PLUGIN.format(now=now, later=later))
    assert message in refused("train", *small, "--plugin=odd.py", "--attention=odd", "--workdir=run")


def test_closed_streams(small):
    for redirect in (">&-", "<&-", "2>&-"):
        words = [sys.executable, "-m", "zoo.cli", "list", "recipe"]
        done = subprocess.run(["sh", "-c", f'"$@" {redirect}', "sh", *words], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


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


def test_generate_from_text_file_and_standard_input(called, trained, monkeypatch):
    texts = ["ab", "", "hgf", "ab"]
    Path("in.txt").write_text("".join(f"{text}\n" for text in texts))
    from_file = called("generate", f"--workdir={trained}", "--input=in.txt")
    code, out, err = from_file
    assert (code, err) == (0, "")
    lines = out.removesuffix("\n").split("\n")
    assert len(lines) == 4
    assert lines[0] == lines[3]
    assert called("generate", f"--workdir={trained}", *(f"--text={text}" for text in texts)) == from_file
    standard_input(monkeypatch, "\n".join(texts).encode())
    code, out, err = called("generate", f"--workdir={trained}", "--batch_size=3", "--format=json")
    assert (code, err) == (0, "")
    rows = [json.loads(row) for row in out.splitlines()]
    assert [(row["source"], row["output"]) for row in rows] == list(zip(texts, lines, strict=True))
    assert all(row["log_probability"] < 0 for row in rows)


def test_several_outputs_name_their_text_and_go_from_the_most_likely_on(called, trained):
    code, out, err = called(
        "generate", f"--workdir={trained}", "--beam=3", "--length_penalty=0", "--n_best=3", "--text=ab", "--text=hgf"
    )
    assert (code, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [number for number, _, _ in rows] == ["1"] * 3 + ["2"] * 3
    for number in ("1", "2"):
        scores = [float(score) for n, score, _ in rows if n == number]
        assert scores == sorted(scores, reverse=True)


def test_each_line_of_a_pipe_is_answered_before_the_next_comes(trained):
    words = [sys.executable, "-m", "zoo.cli", "generate", f"--workdir={trained}", "--format=json"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for text in ("ab", "hgf"):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["source"] == text
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_a_draw_does_not_depend_on_how_the_lines_come(called, trained, monkeypatch):
    monkeypatch.setattr(given, "_PART", 4)
    texts = ["ab", "ab", "cd", "ab", "ab"]
    Path("in.txt").write_text("".join(f"{text}\n" for text in texts))
    flags = (f"--workdir={trained}", "--sample", "--temperature=3")
    in_parts = called("generate", *flags, "--input=in.txt")
    assert in_parts == called("generate", *flags, *(f"--text={text}" for text in texts))
    assert len(set(in_parts[1].splitlines())) > 2


def test_a_terminal_that_sends_something_else(monkeypatch):
    typed = iter([UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "invalid start byte"), EOFError()])

    def read(prompt):
        raise next(typed)

    monkeypatch.setattr("builtins.input", read)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    assert list(given.typed()) == [b"a\xff"]


def test_interactive(command, called, refused, trained):
    lines = ["ab", "\udcff", "abc" * 20, "hgf", "", "never read"]  # one is the byte FF, which is no UTF-8
    text = {"input": "\n".join(lines), "encoding": "utf-8", "errors": "surrogateescape"}
    done = command("generate", f"--workdir={trained}", "--interactive", **text)
    assert done.returncode == 0
    assert done.stdout == called("generate", f"--workdir={trained}", "--text=ab", "--text=hgf")[1]
    assert "greedy; an empty line or Ctrl-D ends" in done.stderr
    assert "zoo: a text of 62 tokens is longer" in done.stderr
    assert "zoo: standard input is not UTF-8: byte 0 is 0xff" in done.stderr
    assert "not both" in refused("generate", f"--workdir={trained}", "--interactive", "--text=ab")


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("evaluate", ["--source=-", "--reference=-"], "one of --source and --reference, not both"),
        ("evaluate", ["--checkpoint=last", "--average_last=1"], "--checkpoint or --average_last, not both"),
        ("evaluate", ["--length_penalty=1"], "--length_penalty does nothing without --beam"),
        ("generate", ["--text=a", "--seed=2"], "--seed does nothing without --sample"),
        ("generate", ["--text=a", "--prefix=\udcff"], "'--prefix' is not UTF-8"),
        ("export", ["--format=keras", "--beam=2"], "--beam is for a SavedModel"),
    ],
)
def test_flags_that_do_not_go_together(refused, trained, name, flags, message):
    assert message in refused(name, f"--workdir={trained}", *flags)


def test_a_name_that_is_too_long(refused):
    assert "name too long" in refused("evaluate", f"--workdir={'x' * 300}")


def test_evaluate_on_files(called, refused, trained):
    sources, references = ["ab", "hgf", "a"], ["ab", "fgh", "a"]
    Path("in.txt").write_text("".join(f"{text}\n" for text in sources))
    Path("out.txt").write_text("".join(f"{text}\n" for text in references))
    flags = (f"--workdir={trained}", "--source=in.txt", "--reference=out.txt")
    code, out, _ = called("evaluate", *flags)
    measured = json.loads(out)
    outputs = called("generate", f"--workdir={trained}", "--input=in.txt")[1].splitlines()
    assert code == 0
    assert measured["exact_match"] == sum(a == b for a, b in zip(outputs, references, strict=True)) / 3
    assert (measured["source"], measured["reference"], measured["examples"]) == ("in.txt", "out.txt", 3)
    assert "split" not in measured
    assert measured["teacher_forced_perplexity"] > 1
    assert json.loads(called("evaluate", *flags, "--average_last=1")[1])["checkpoint"]["weights"].startswith("average")
    Path("short.txt").write_text("ab\n")
    line = refused("evaluate", f"--workdir={trained}", "--source=in.txt", "--reference=short.txt")
    assert "'in.txt' has 3 lines and 'short.txt' has 1" in line
    assert "give --source and --reference" in refused("evaluate", f"--workdir={trained}", "--source=in.txt")
    assert "not both" in refused("evaluate", *flags, "--split=test")


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
    assert "standard input is not UTF-8: byte 1 is 0xff" in refused("generate", f"--workdir={trained}")
    Path("in.txt").write_bytes(b"\xe9t\xe9\n")
    assert "'in.txt' is not UTF-8: byte 0 is 0xe9" in refused("generate", f"--workdir={trained}", "--input=in.txt")
    assert "'--text' is not UTF-8" in refused("generate", f"--workdir={trained}", "--text=a\udcff")


def test_a_text_longer_than_the_model(refused, called, trained):
    line = refused("generate", f"--workdir={trained}", "--text=ab", f"--text={'abc' * 20}")
    assert "a text of 62 tokens is longer than the 16 positions of the model: 'abcabc" in line
    assert called("generate", f"--workdir={trained}", f"--text={'a' * 14}")[0] == 0
