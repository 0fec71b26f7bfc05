"""``zoo check`` and ``zoo bench``."""

import csv
import json
from pathlib import Path

import pytest

LEAKING = '''
from zoo import registry
from zoo.layers.attention.multi_head import MultiHeadAttention


@registry.attention.register("test_leaking")
class Leaking(MultiHeadAttention):
    """A causal mask that is off by one."""

    def visible(self, attention_mask, num_queries, num_keys, offset):
        return super().visible(attention_mask, num_queries, num_keys, (0 if offset is None else offset) + 1)
'''


def test_check_prints_a_property_a_line(called):
    code, out, err = called("check", "alibi", "--format=tsv")
    assert (code, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert {row[0] for row in rows} == {"alibi", "alibi(randomized=64, spacing=2)"}
    assert {row[2] for row in rows} == {"pass"}
    assert ["alibi", "any offset", "pass", ""] in rows


@pytest.fixture
def found(monkeypatch):
    """``found(*results)`` is what the kit tells of in place of trying anything."""
    from zoo import testing

    def answer(*results):
        def check_position(name, *, tell, **options):
            for result in results:
                tell(result)
            return testing.Report(results)

        monkeypatch.setattr(testing, "check_position", check_position)

    return answer


def test_a_table_of_results_wraps_what_went_wrong(called, found, monkeypatch):
    from zoo.testing import Result

    monkeypatch.setenv("COLUMNS", "50")
    found(
        Result("alibi", "shapes", "pass"),
        Result("alibi", "jit", "FAIL", "the outputs differ by 0.25 at position 3 of the second sequence"),
        Result("alibi(spacing=2)", "training", "unsupported", "no trainable weights"),
    )
    code, out, _ = called("check", "alibi", "--format=table")
    assert code == 1
    assert out.splitlines() == [
        "alibi",
        "  pass         shapes",
        "  FAIL         jit: the outputs differ by 0.25 at",
        "               position 3 of the second sequence",
        "alibi(spacing=2)",
        "  unsupported  training: no trainable weights",
        "3 properties, 1 failed",
    ]


@pytest.mark.parametrize(("form", "lines"), [("tsv", 1), ("table", 2), ("json", 0)])
def test_results_are_printed_as_they_are_known(called, monkeypatch, form, lines):
    from zoo import testing

    def check_position(name, *, tell, **options):
        tell(testing.Result("alibi", "shapes", "pass"))
        raise KeyboardInterrupt

    monkeypatch.setattr(testing, "check_position", check_position)
    code, out, _ = called("check", "alibi", f"--format={form}")
    assert (code, len(out.splitlines())) == (130, lines)


def test_check_of_a_plugin_that_leaks(command):
    Path("leaking.py").write_text(LEAKING)
    done = command("check", "test_leaking", "--plugin=leaking.py", "--format=json")
    assert (done.returncode, done.stderr) == (1, "")
    rows = {row["property"]: row for row in json.loads(done.stdout)}
    assert rows["no leak from the future"]["status"] == "FAIL"
    assert "depends on the input at" in rows["no leak from the future"]["detail"]
    assert rows["fresh process"]["status"] == "pass"  # the file is loaded there too


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check"], "name one attention kind or positional scheme"),
        (["check", "multi_hed"], "did you mean 'multi_head'"),
        (["check", "local", "--set=model.attention_options.block_length=0"], "block_length must be at least 1"),
        (["check", "local", "--set=model.attention_options.block=4"], "has no option 'block'"),
        (["check", "local", "--set=model.attention_options.num_heads=4"], "has no option 'num_heads'"),
        (["check", "local", "--set=model.depth=4"], "has no use for model.depth"),
        (["check", "local", "--num_heads=0"], "--num_heads must be at least 1, not 0"),
        (["check", "grouped_query", "--num_heads=3"], "2 heads of keys and values don't divide 3 query heads"),
        (["check", "rotary", "--num_heads=4"], "--num_heads is of attention kinds"),
        (["check", "sinusoidal", "--set=model.position_options.random_offset=-1"], "random_offset"),
        (["check", "rotary", "--set=train.backend=theano"], "unknown backend 'theano'"),
        (["bench"], "name the kinds to measure"),
        (["bench", "--attention=local:block_lenght=256"], "'block_lenght' (did you mean 'block_length'?)"),
        (["bench", "--attention=local:block_length=0"], "block_length must be at least 1"),
        (["bench", "--attention=local:num_heads=x"], "num_heads of local must be a whole number of at least 1"),
        (["bench", "--attention=dot_product"], "dot_product has one head, not 4"),
        (["bench", "--attention=multi_head,locl"], "did you mean 'local'"),
        (["bench", "--attention=multi_head", "--lengths=12,x"], "--lengths takes whole numbers, and 'x' is none"),
        (["bench", "--attention=multi_head", "--width=10"], "4 heads don't divide the width 10"),
        (["bench", "--attention=multi_head", "--pass=back"], "forward"),
    ],
)
def test_wrong_input(refused, words, message):
    assert message in refused(*words)


def test_bench_prints_what_it_writes(called):
    flags = ("--lengths=8", "--pass=forward", "--num_heads=2", "--width=8", "--repeats=2", "--rounds=1")
    code, out, err = called("bench", "--attention=multi_head", *flags, "--output=out/points", "--format=json")
    assert code == 0
    assert err.splitlines()[-1] == "out/points.csv, out/points.png"
    rows = json.loads(out)
    with open("out/points.csv") as file:
        written = list(csv.DictReader(file))
    assert [(row["kind"], row["length"], row["ms"]) for row in written] == [
        (row["kind"], row["length"], row["ms"]) for row in rows
    ]
    assert [row["length"] for row in rows] == ["8"]
    assert {row["train"] for row in written} == {"False"}
    assert Path("out/points.png").read_bytes().startswith(b"\x89PNG")
