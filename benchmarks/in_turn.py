"""Attention kinds in turn, in one process: a step of one after a step of the other, so that noise falls on all.

    python benchmarks/in_turn.py --attention=multi_head,keras_multi_head --lengths=64,256,1024
    python benchmarks/in_turn.py --attention=local:block_length=256,multi_head --lengths=4096,8192 --causal

`zoo bench` gives each point a process of its own, for the sake of its memory; two processes differ by up to 10 %, which
is too much where a ratio is asked for. A line for each length and pass: the median milliseconds of each kind, and their
ratio to the first. Heads are 4 x 64, the batch is 1, steps are compiled by XLA.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

from zoo.errors import InputError
from zoo.training.devices import choose_backend


def measure(specs: list[str], length: int, train: bool, causal: bool) -> list[float]:
    """The median step of each kind, in milliseconds."""
    import keras

    from zoo import registry
    from zoo.bench.compare import parse_kind
    from zoo.bench.point import make_step

    steps = []
    for name, options in map(parse_kind, specs):
        layer = registry.attention.get(name)(**{"num_heads": 4, "head_dim": 64, "causal": causal, **options})
        x = keras.random.normal((1, length, 256), seed=0)
        layer.build(x.shape)
        steps.append(make_step(layer, x, train, jit=True))
        for _ in range(3):
            steps[-1]()
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(max(10, 20000 // length)):
        for step, taken in zip(steps, times, strict=True):
            start = time.perf_counter()
            step()
            taken.append(1000 * (time.perf_counter() - start))
    return [statistics.median(taken) for taken in times]


def main() -> None:
    """Measures what the flags say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attention", default="multi_head,keras_multi_head", help="kinds, as for `zoo bench`")
    parser.add_argument("--lengths", default="64,256,1024", help="of the sequences")
    parser.add_argument("--causal", action="store_true", help="no query sees a key after it")
    parser.add_argument("--backend", help="tensorflow or jax")
    flags = parser.parse_args()
    try:
        backend = choose_backend(flags.backend)
        from zoo import plugin
        from zoo.bench.compare import split_kinds

        plugin.load(str(Path(__file__).parent / "keras_multi_head.py"))
        specs = split_kinds(flags.attention)
        print("backend", "length", "pass", *specs, "ratios to the first", sep="\t")
        for length in map(int, flags.lengths.split(",")):
            for train in (False, True):
                medians = measure(specs, length, train, flags.causal)
                ratios = " ".join(f"{median / medians[0]:.2f}" for median in medians[1:])
                row = (backend, length, "train" if train else "forward", *(f"{median:.2f}" for median in medians))
                print(*row, ratios, sep="\t", flush=True)
    except (InputError, ValueError) as error:
        print(f"in_turn: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
