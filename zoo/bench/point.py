"""A point, in its own process: time and memory of a kind at a length."""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo import plugin, registry
from zoo.errors import InputError, said
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


def main(point: str) -> None:
    """Measures the point that JSON describes, and prints what comes of it as the last line."""
    with contextlib.suppress(OSError):  # if memory runs out, this process is to be ended, and no other
        Path("/proc/self/oom_score_adj").write_text("1000")
    name, options, length, settings = json.loads(point)
    try:
        result = measure(name, options, length, Settings(**settings))
    except InputError as error:
        result = {"failure": said(error)}
    except Exception as error:  # whatever a kind or a compiler raises, it is this point's failure alone
        result = {"failure": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]}
    print(json.dumps(result), flush=True)
    os._exit(0)  # what libraries do and say at the end of a process is no part of the result
