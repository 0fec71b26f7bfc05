"""Measures attention kinds as the sequence grows: time, its growth, and peak memory.

A point is a kind at a length: one layer with its projections, self-attention, float32, no mask and no positions. Each
point has a process of its own, so that its memory is its alone. Kinds take turns at each length, and that several
times over: a machine that is slow for a while is then slow for all of them.
"""

import contextlib
import csv
import io
import itertools
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zoo import plugin, registry
from zoo.errors import InputError
from zoo.recipe import parse_value
from zoo.training.devices import choose_backend

WARM_UP = 3  #: Steps before the first that is timed; one of them compiles.


@dataclass(frozen=True)
class Settings:
    """What is measured of every kind, and how.

    Attributes:
        train: time the gradients, see :func:`make_step`; else the output.
        causal: no query sees a key after it.
        num_heads, head_dim: N and H, unless a kind's options say otherwise; the input is (batch_size, T, N * H).
        batch_size: sequences at once.
        jit: compile with XLA where the backend does: TensorFlow and JAX. PyTorch runs eagerly.
        backend: see :func:`zoo.training.devices.choose_backend`.
        plugins: what the processes load; the one that calls :func:`bench` has to know their kinds too.
        repeats: timed steps of a process.
    """

    train: bool = True
    causal: bool = False
    num_heads: int = 4
    head_dim: int = 64
    batch_size: int = 1
    jit: bool = True
    backend: str | None = None
    plugins: Sequence[str] = ()
    repeats: int = 10


def bench(
    kinds: Sequence[str],
    lengths: Sequence[int],
    output: str | Path,
    settings: Settings = Settings(),
    *,
    rounds: int = 3,
    tell: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Measures every kind at every length, and writes ``<output>.csv`` and ``<output>.png``, each whole or not at all.

    Args:
        kinds: names, with options or without, as :func:`split_kinds` gives them.
        lengths: of the sequences, T.
        output: the two files, without their endings; their folder is made.
        settings: of all points.
        rounds: processes of a point, whose steps are pooled.
        tell: is called with a line for each process that has ended.

    Returns:
        A row for each kind and length, as in the CSV. ``ms`` is the median time of a step in milliseconds, from the
        call until all it gives is there; ``ms_min``, ``ms_q1``, ``ms_q3`` and ``ms_max`` are its spread over
        ``samples`` steps, and ``peak_mib`` is the largest of the rounds, see :func:`measure`. ``growth`` is that of
        the kind's time, see :func:`growth`. ``failure`` is empty, or why a process of the point failed, for want of
        memory or because the kind can't be built; the point isn't tried again, and the others go on.

    Raises:
        InputError: a kind is unknown, a number too small, the output can't be written, or every point failed.
    """
    kinds, lengths, output = list(dict.fromkeys(kinds)), sorted(set(lengths)), Path(output)
    parsed = {kind: parse_kind(kind) for kind in kinds}
    if not kinds or not lengths:
        raise InputError("name at least one attention kind and one length")
    if min(*lengths, settings.num_heads, settings.head_dim, settings.batch_size, settings.repeats, rounds) < 1:
        raise InputError("lengths, heads and their width, the batch, repeats and rounds must be at least 1")
    with _writing(output):  # before the hour that the rest may take
        output.parent.mkdir(parents=True, exist_ok=True)

    results = {(kind, length): [] for kind in kinds for length in lengths}
    failures: dict[tuple[str, int], str] = {}
    for turn, length, kind in itertools.product(range(1, rounds + 1), lengths, kinds):
        if (kind, length) in failures:
            continue
        result = _in_own_process(*parsed[kind], length, settings)
        if "failure" in result:
            failures[kind, length] = said = result["failure"]
        else:
            results[kind, length].append(result)
            said = f"{statistics.median(result['ms']):.4g} ms"
        tell(f"round {turn}/{rounds}  {kind}  {length}  {said}")

    ran = [result["ran"] for found in results.values() for result in found]
    if not ran:
        said = dict.fromkeys(f"{kind}: {why}" for (kind, _), why in failures.items())
        raise InputError(f"nothing could be measured: {'; '.join(said)}")
    columns = {name: value for name, value in asdict(settings).items() if name not in ("plugins", "repeats")} | ran[0]
    rows = []
    for kind in kinds:
        own = {length: _pooled(results[kind, length]) for length in lengths}
        slope = growth([(length, point["ms"]) for length, point in own.items() if point["samples"]])
        for length, point in own.items():
            outcome = {"growth": slope, "failure": failures.get((kind, length), "")}
            rows.append({"kind": kind, "length": length, **point, **outcome, **columns})
    _write(rows, output)
    return rows


def split_kinds(text: str) -> list[str]:
    """The kinds in a list such as ``multi_head,relative:max_distance=1024,per_head=true,local:block_length=256``.

    A colon leads from a kind to its options, and commas separate both: what has a ``=`` is an option of the kind
    before it. A kind may come several times with other options.
    """
    return re.split(r",\s*(?=[^\W\d][\w.-]*(?:[:,]|$))", text.strip())


def parse_kind(text: str) -> tuple[str, dict[str, Any]]:
    """``local:block_length=256`` as a name and options, typed as those of a recipe are.

    Raises:
        InputError: no kind goes by the name, or something is not ``option=value``.
    """
    name, _, rest = text.partition(":")
    registry.attention.require(name)
    options = {}
    for part in re.split(r",\s*(?=\w+=)", rest) if rest else ():  # a list keeps its commas
        option, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"{part!r} is not option=value; write {text!r} as local:block_length=256,sliding=true")
        options[option] = parse_value(f"model.attention_options.{option}", value)
    return name, options


def growth(points: Sequence[tuple[int, float]]) -> float | None:
    """The slope of log time over log length, by least squares; None with fewer than two of ``(length, time)``."""
    if len(points) < 2:
        return None
    lengths, times = zip(*((math.log(length), math.log(ms)) for length, ms in points), strict=True)
    return round(statistics.linear_regression(lengths, times).slope, 3)


def _in_own_process(name: str, options: dict[str, Any], length: int, settings: Settings) -> dict[str, Any]:
    """What :func:`measure` gives, or ``{"failure": why}``."""
    words = [sys.executable, "-m", "zoo.bench", json.dumps([name, options, length, asdict(settings)])]
    ended = subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace")
    if ended.returncode == 0:
        return json.loads(ended.stdout.splitlines()[-1])
    if ended.returncode == -signal.SIGKILL:
        return {"failure": "killed, as happens when memory runs out"}
    last = (ended.stderr.strip() or "it said nothing").splitlines()[-1]
    return {"failure": f"the process ended with code {ended.returncode}: {last[:300]}"}


def _pooled(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns of a point that its processes measured."""
    import numpy as np

    names = ("ms_min", "ms_q1", "ms", "ms_q3", "ms_max")
    samples = [ms for result in results for ms in result["ms"]]
    peaks = [result["peak_mib"] for result in results if result["peak_mib"] is not None]
    spread = np.percentile(samples, (0, 25, 50, 75, 100)) if samples else [None] * len(names)
    times = {name: ms if ms is None else float(f"{ms:.4g}") for name, ms in zip(names, spread, strict=True)}
    return {"ms": times.pop("ms"), **times, "samples": len(samples), "peak_mib": max(peaks, default=None)}


def _write(rows: list[dict[str, Any]], output: Path) -> None:
    table, picture = io.StringIO(), io.BytesIO()
    writer = csv.DictWriter(table, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    _draw(rows).savefig(picture, format="png", dpi=150)
    for ending, content in ((".csv", table.getvalue().encode()), (".png", picture.getvalue())):
        partial = output.with_name(output.name + ending + ".partial")
        with _writing(output):
            partial.write_bytes(content)
            partial.replace(output.with_name(output.name + ending))


def _draw(rows: list[dict[str, Any]]):
    """A figure of time, with its quartiles, and memory over length."""
    from matplotlib.figure import Figure  # and not pyplot, which would look for a display

    figure = Figure(figsize=(11, 5), layout="constrained")
    lengths, kinds = (list(dict.fromkeys(row[name] for row in rows)) for name in ("length", "kind"))
    panels = figure.subplots(1, 2)
    for axes, column, title in zip(panels, ("ms", "peak_mib"), ("ms a step", "peak memory, MiB"), strict=True):
        for kind in kinds:
            own = [row for row in rows if row["kind"] == kind and row[column]]  # a logarithm has no place for 0
            x, y, low, high = ([row[name] for row in own] for name in ("length", column, "ms_q1", "ms_q3"))
            label = f"{kind}, T^{own[0]['growth']:.2f}" if own and own[0]["growth"] is not None else kind
            (line,) = axes.plot(x, y, marker="o", label=label)
            if column == "ms":
                axes.fill_between(x, low, high, alpha=0.2, color=line.get_color())
        axes.set(title=title, xlabel="length T", xscale="log", yscale="log")
        axes.set_xticks(lengths, labels=map(str, lengths))
        axes.xaxis.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].legend()
    shown = ("backend", "device", "jit", "train", "causal", "num_heads", "head_dim", "batch_size")
    figure.suptitle("  ".join(f"{name}={rows[0][name]}" for name in shown), fontsize="small")
    return figure


@contextlib.contextmanager
def _writing(output: Path):
    try:
        yield
    except OSError as error:
        raise InputError(f"{str(output)!r} can't be written: {error.strerror}; name another output") from error


# Of a point's own process -------------------------------------------------------------------------------------------


def measure(name: str, options: dict[str, Any], length: int, settings: Settings) -> dict[str, Any]:
    """Builds the layer and times its steps, in this process, which has done nothing else.

    Peak memory is on a CPU the most that was resident during the timed steps, less what was before the layer was
    built: input, weights, all that a step holds at once, and what compiling the layer left behind (13 to 22 MiB on
    TensorFlow, at any length), but not the peak of compiling itself. On an accelerator it is what the allocator of the
    backend held at most, in the warm-up too.

    Returns:
        ``ms``, the time of each step; ``peak_mib``, None where the system doesn't say (no Linux); and ``ran``, where
        and how.

    Raises:
        InputError: the kind doesn't do what is asked.
    """
    choose_backend(settings.backend)
    plugin.load_installed()
    for spec in settings.plugins:
        plugin.load(spec)
    import keras

    kind, backend = registry.attention.get(name), keras.backend.backend()
    wanted = "causal" if settings.causal else "bidirectional"
    if wanted not in kind.supports:
        raise InputError(f"attention {name!r} can't be {wanted}")
    width = settings.num_heads * settings.head_dim

    def step_of(layer, *shape):
        x = keras.random.normal(shape, dtype="float32", seed=0)
        layer.build(shape)
        return make_step(layer, x, settings.train, settings.jit)

    # Wakes compiler and threads, 20 MiB that aren't the layer's; it is kept, as its memory would be used again.
    awake = step_of(registry.attention.get("multi_head")(settings.num_heads, settings.head_dim), 1, 8, width)
    awake()

    on_cpu = _accelerator_peak() is None
    before = _resident("VmRSS") if on_cpu else _accelerator_peak()
    shape = {"num_heads": settings.num_heads, "head_dim": settings.head_dim}
    layer = kind(**{**shape, "causal": settings.causal, "dtype": "float32", **options})
    step = step_of(layer, settings.batch_size, length, width)
    for _ in range(WARM_UP):
        step()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    times = []
    for _ in range(settings.repeats):
        start = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - start))
    after = _resident("VmHWM") if on_cpu else _accelerator_peak()
    ran = {"backend": backend, "device": "cpu" if on_cpu else "accelerator", "jit": settings.jit and backend != "torch"}
    return {"ms": times, "peak_mib": None if after is None else round((after - before) / 2**20, 1), "ran": ran}


def make_step(layer, x, train: bool, jit: bool) -> Callable[[], list]:
    """One step of a built layer: a function that is over when all it gives is there.

    It gives all that it computes, as a compiler leaves out what nobody reads: ``[output]`` or, to train, the gradients
    of the summed squares of the output for each trainable variable and then for ``x`` (B, T, D).
    """
    import keras

    makers = {"tensorflow": _tensorflow_step, "jax": _jax_step, "torch": _torch_step}
    return makers[keras.backend.backend()](layer, x, train, jit)


def _tensorflow_step(layer, x, train, jit):
    import tensorflow as tf

    weights = [weight.value for weight in layer.trainable_variables]

    @tf.function(jit_compile=jit)
    def compute(x):
        if not train:
            return [layer(x, training=False)]
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(layer(x, training=True)))
        return tape.gradient(loss, [*weights, x])

    def step():
        found = compute(x)
        tf.test.experimental.sync_devices()
        return found

    return step


def _jax_step(layer, x, train, jit):
    import jax

    weights, state = ([v.value for v in vs] for vs in (layer.trainable_variables, layer.non_trainable_variables))

    def output(weights, x):
        return layer.stateless_call(weights, state, x, training=train)[0]

    def compute(weights, x):
        if not train:
            return [output(weights, x)]
        of_weights, of_x = jax.grad(lambda *given: jax.numpy.sum(output(*given) ** 2), argnums=(0, 1))(weights, x)
        return [*of_weights, of_x]

    compute = jax.jit(compute) if jit else compute
    return lambda: jax.block_until_ready(compute(weights, x))


def _torch_step(layer, x, train, jit):
    import torch

    x = x.detach().requires_grad_(train)
    weights = [weight.value for weight in layer.trainable_variables]

    def step():
        with torch.set_grad_enabled(train):
            found = [layer(x, training=train)]
            if train:
                found = torch.autograd.grad(found[0].square().sum(), [*weights, x], allow_unused=True)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return list(found)

    return step


def _resident(field: str) -> int | None:
    """Bytes of this process in memory, now ("VmRSS") or at most ("VmHWM"); None where there is no such record.

    Not by ``getrusage``, whose peak can't start anew and may be that of the process before it.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    return 1024 * int(re.search(rf"{field}:\s+(\d+) kB", status)[1])


def _accelerator_peak() -> int | None:
    """Bytes that the accelerator's allocator held at most so far; None on a CPU."""
    import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        found = tf.config.list_physical_devices("GPU")
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] if found else None
    if keras.backend.backend() == "jax":
        import jax

        found = jax.devices()[0].memory_stats()
        return found["peak_bytes_in_use"] if found else None
    import torch

    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None


def _main(point: str) -> None:
    with contextlib.suppress(OSError):  # if memory runs out, this process is to be ended, and no other
        Path("/proc/self/oom_score_adj").write_text("1000")
    name, options, length, settings = json.loads(point)
    try:
        result = measure(name, options, length, Settings(**settings))
    except InputError as error:
        result = {"failure": str(error)}
    except Exception as error:  # whatever a kind or a compiler raises, it is this point's failure alone
        result = {"failure": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]}
    print(json.dumps(result), flush=True)
    os._exit(0)  # what libraries do and say at the end of a process is no part of the result


if __name__ == "__main__":
    _main(sys.argv[1])
