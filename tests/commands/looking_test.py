import json
import os
import subprocess
from pathlib import Path

import pytest

from zoo import recipe as recipes

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
    assert rows.keys() > recipes.flatten(recipes.load("copy")).keys()
    assert rows["model.attention"] == "multi_head"  # with every default, so that each setting can be found
    assert (rows["model.options.norm"], rows["task.options.longest"]) == ("layer", "12")
    rows = dict(
        line.split("\t") for line in called("show", "copy", "--attention=local", "--format=tsv")[1].splitlines()
    )
    assert rows["model.attention_options.block_length"] == "128"


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
