import csv
import subprocess
import sys

import pytest

from zoo import plugin, registry
from zoo.bench import Settings, bench, compare, growth, make_step, measure, parse_kind, split_kinds
from zoo.errors import InputError

PLUGIN = '''
from zoo import registry
from zoo.layers.attention.multi_head import MultiHeadAttention


@registry.attention.register("bench_test_broken")
class Broken(MultiHeadAttention):
    """Attention that can't be built."""

    def build(self, query_shape, value_shape=None):
        raise RuntimeError("no room\\nfor this")
'''


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """What a real run of three processes gives: the rows, and the files without their endings."""
    folder = tmp_path_factory.mktemp("bench")
    file = folder / "broken.py"
    file.write_text(PLUGIN)
    plugin.load(str(file))
    try:
        kinds = ["multi_head", "relative:form=gather", "bench_test_broken"]
        settings = Settings(head_dim=32, plugins=[str(file)], repeats=3)
        return bench(kinds, [384], folder / "new" / "out", settings, rounds=1), folder / "new" / "out"
    finally:
        del registry.attention._classes["bench_test_broken"], sys.modules[plugin.module_name(file)]


@pytest.fixture
def faked(monkeypatch):
    """``faked(answer)`` lets ``answer(name, length)`` measure, in place of a process; it gives the list of calls."""

    def fake(answer):
        calls = []

        def in_own_process(name, options, length, settings):
            calls.append((name, length))
            return answer(name, length)

        monkeypatch.setattr(compare, "_in_own_process", in_own_process)
        return calls

    return fake


def result(*ms, mib=1.0):
    return {"ms": list(ms), "peak_mib": mib, "ran": {"backend": "jax", "device": "cpu", "jit": True}}


# A real run


def test_each_point_has_times_in_order(real):
    for row in real[0][:2]:
        assert 0 < row["ms_min"] <= row["ms_q1"] <= row["ms"] <= row["ms_q3"] <= row["ms_max"]
        assert (row["samples"], row["failure"], row["train"]) == (3, "", True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_what_allocates_more_has_the_higher_peak(real):
    full, gathered, _ = real[0]
    pairs = 384 * 384 * 32 * 4 / 2**20  # (T, S, H) in float32
    assert 0 < full["peak_mib"] < 200  # of the layer, and not of the whole process
    assert gathered["peak_mib"] > full["peak_mib"] + pairs / 2


def test_a_kind_that_fails_has_a_reason_and_the_others_go_on(real):
    *_, broken = real[0]
    assert broken["failure"] == "RuntimeError: no room for this"
    assert (broken["ms"], broken["samples"], broken["peak_mib"]) == (None, 0, None)


def test_the_files_are_whole(real):
    from matplotlib.image import imread

    rows, output = real
    with open(f"{output}.csv", newline="") as file:
        written = list(csv.DictReader(file))
    assert written == [{name: "" if value is None else str(value) for name, value in row.items()} for row in rows]
    assert imread(f"{output}.png").ndim == 3
    assert sorted(path.name for path in output.parent.iterdir()) == ["out.csv", "out.png"]


# Of many processes


def test_kinds_take_turns_and_their_rounds_are_pooled(faked, tmp_path):
    answers = iter([result(1, 2), result(5), result(9), result(5), result(3, mib=4), result(5), result(9), result(5)])
    calls = faked(lambda name, length: next(answers))
    rows = bench(["multi_head", "local"], [32, 16, 32], tmp_path / "out", rounds=2)
    assert calls == 2 * [("multi_head", 16), ("local", 16), ("multi_head", 32), ("local", 32)]
    assert [(row["kind"], row["length"]) for row in rows] == [
        *(("multi_head", 16), ("multi_head", 32)),
        *(("local", 16), ("local", 32)),
    ]
    first = {name: rows[0][name] for name in ("ms_min", "ms_q1", "ms", "ms_q3", "ms_max", "samples", "peak_mib")}
    assert first == {"ms_min": 1, "ms_q1": 1.5, "ms": 2, "ms_q3": 2.5, "ms_max": 3, "samples": 3, "peak_mib": 4}
    assert rows[0]["backend"] == "jax"  # what the processes found, and not what was asked for


def test_growth_is_fitted_to_each_kind(faked, tmp_path):
    faked(lambda name, length: result(length**2 if name == "multi_head" else 7 * length))
    rows = bench(["multi_head", "local"], [16, 32, 64], tmp_path / "out", rounds=1)
    assert [row["growth"] for row in rows] == 3 * [2.0] + 3 * [1.0]


def test_a_point_that_failed_is_not_tried_again(faked, tmp_path):
    calls = faked(lambda name, length: {"failure": "too long"} if length == 32 else result(1))
    told = []
    rows = bench(["multi_head"], [16, 32, 64], tmp_path / "out", rounds=3, tell=told.append)
    assert calls.count(("multi_head", 32)) == 1 and len(calls) == 7
    assert [row["failure"] for row in rows] == ["", "too long", ""]
    assert rows[1]["growth"] == 0.0  # of the two that were measured
    assert told[1] == "round 1/3  multi_head  32  too long"


def test_a_run_in_which_all_failed_says_why(faked, tmp_path):
    faked(lambda name, length: {"failure": f"{name} is tired"})
    with pytest.raises(InputError, match=r"local: local is tired; multi_head: multi_head is tired$"):
        bench(["local", "multi_head"], [16, 32], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("kill -KILL $$", "killed, as happens when memory runs out"),
        ("echo first; echo it broke >&2; exit 3", "the process ended with code 3: it broke"),
        ("exit 3", "the process ended with code 3: it said nothing"),
    ],
)
def test_a_process_that_crashes_is_a_failure(script, reason, tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(InputError, match=f"multi_head: {reason}$"):
        bench(["multi_head"], [16], tmp_path / "out")


def test_a_run_that_is_interrupted_leaves_the_rounds_before(faked, tmp_path):
    def answer(name, length):
        if len(calls) > 5:
            raise KeyboardInterrupt
        return result(len(calls))

    calls = faked(answer)
    with pytest.raises(KeyboardInterrupt):
        bench(["multi_head", "local"], [16], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["kind"], row["samples"], row["ms_max"]) for row in rows] == [
        ("multi_head", "2", "3.0"),
        ("local", "2", "4.0"),
    ]


def test_a_picture_that_fails_leaves_the_one_of_before(faked, tmp_path, monkeypatch):
    faked(lambda name, length: result(1))
    (tmp_path / "out.png").write_text("before")
    monkeypatch.setattr(compare, "draw", lambda rows: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bench(["multi_head"], [16], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.png"]
    assert (tmp_path / "out.png").read_text() == "before"


# What is asked for


@pytest.mark.parametrize(
    ("kinds", "lengths", "changes", "message"),
    [
        (["multi_head", "lokal"], [16], {}, "unknown attention 'lokal'.*did you mean 'local'"),
        (["local:256"], [16], {}, "'256' is not option=value"),
        ([], [16], {}, "at least one attention kind"),
        (["multi_head"], [], {}, "one length"),
        (["multi_head"], [16, 0], {}, "at least 1"),
        (["multi_head"], [16], {"repeats": 0}, "at least 1"),
    ],
)
def test_wrong_input_is_refused_before_anything_runs(faked, tmp_path, kinds, lengths, changes, message):
    calls = faked(lambda name, length: result(1))
    with pytest.raises(InputError, match=message):
        bench(kinds, lengths, tmp_path / "out", Settings(**changes))
    assert calls == []


def test_an_output_that_cannot_be_written_is_refused_before_anything_runs(faked, tmp_path):
    calls = faked(lambda name, length: result(1))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        bench(["multi_head"], [16], tmp_path / "file" / "out")
    assert calls == []


def test_kinds_and_their_options_are_told_apart():
    text = "multi_head,relative:max_distance=1024,per_head=true,local:block_length=256, relative:form=gather,luong"
    assert split_kinds(text) == [
        "multi_head",
        "relative:max_distance=1024,per_head=true",
        "local:block_length=256",
        "relative:form=gather",
        "luong",
    ]
    assert parse_kind("relative:max_distance=1024,per_head=true,form=gather") == (
        "relative",
        {"max_distance": 1024, "per_head": True, "form": "gather"},
    )
    assert split_kinds("local:sizes=[2,4,8],causal=true,luong") == ["local:sizes=[2,4,8],causal=true", "luong"]
    assert parse_kind("local:sizes=[2,4,8],causal=true") == ("local", {"sizes": [2, 4, 8], "causal": True})
    assert parse_kind("local") == ("local", {})


def test_growth():
    assert growth([(length, 3e-4 * length**1.7) for length in (512, 1024, 2048, 4096)]) == pytest.approx(1.7)
    assert growth([(512, 1.0), (1024, 2.0), (2048, 2.0)]) == pytest.approx(0.5)
    assert growth([(512, 1.0)]) is None


def test_the_module_loads_without_keras():
    code = "import sys, zoo.bench; print(*{'keras', 'tensorflow', 'matplotlib', 'numpy'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""


# Of one process


@pytest.fixture
def layer():
    from zoo.layers.attention.multi_head import MultiHeadAttention

    layer = MultiHeadAttention(2, 4, causal=True)
    layer.build((2, 6, 8))
    return layer


@pytest.mark.backends
@pytest.mark.parametrize("jit", [True, False])
def test_a_step_gives_the_output_or_every_gradient(layer, gradient, rng, jit):
    import numpy as np
    from keras import ops

    x = rng.normal(size=(2, 6, 8)).astype("float32")
    expected = ops.convert_to_numpy(layer(x))
    (output,) = make_step(layer, ops.convert_to_tensor(x), train=False, jit=jit)()
    np.testing.assert_allclose(ops.convert_to_numpy(output), expected, atol=1e-5)

    *of_weights, of_x = make_step(layer, ops.convert_to_tensor(x), train=True, jit=jit)()
    assert [tuple(g.shape) for g in of_weights] == [tuple(v.shape) for v in layer.trainable_variables]
    np.testing.assert_allclose(
        ops.convert_to_numpy(of_x), gradient(lambda x: ops.sum(ops.square(layer(x))), x), atol=1e-4
    )
    bias = next(i for i, v in enumerate(layer.trainable_variables) if v is layer.output_dense.bias)
    np.testing.assert_allclose(ops.convert_to_numpy(of_weights[bias]), 2 * expected.sum((0, 1)), atol=1e-4)


@pytest.mark.backends
def test_a_point_is_measured_on_every_backend():
    import keras

    found = measure("multi_head", {"num_heads": 1}, 16, Settings(num_heads=2, head_dim=4, repeats=2, causal=True))
    assert len(found["ms"]) == 2 and min(found["ms"]) > 0
    backend = keras.backend.backend()
    assert (found["ran"]["backend"], found["ran"]["jit"]) == (backend, backend != "torch")


def test_a_kind_that_cannot_be_causal_is_refused(registered):
    from zoo.layers.attention.multi_head import MultiHeadAttention

    registered(
        registry.attention,
        "bench_test_bidirectional",
        type("Bidirectional", (MultiHeadAttention,), {"supports": frozenset({"bidirectional"})}),
    )
    with pytest.raises(InputError, match="'bench_test_bidirectional' can't be causal"):
        measure("bench_test_bidirectional", {}, 16, Settings(causal=True))
