"""Keras' own multi-head attention beside ours: as a kind, and both measured in turn in one process.

    python benchmarks/keras_multi_head.py [tensorflow|jax] [LENGTH ...]
    zoo bench --attention=multi_head,keras_multi_head --plugin=benchmarks/keras_multi_head.py --lengths=64,256,1024

The first prints a line for each length and pass: the median of the steps of each, in milliseconds, one step of one
after a step of the other, so that what the machine does meanwhile falls on both.
"""

import statistics
import sys
import time

from zoo.training.devices import choose_backend

if __name__ == "__main__":
    choose_backend(sys.argv[1] if len(sys.argv) > 1 else None)

import keras

from zoo import Attention, registry


@registry.attention.register("keras_multi_head")
class KerasMultiHeadAttention(Attention):
    """Scaled dot-product attention by ``keras.layers.MultiHeadAttention``."""

    supports = frozenset({"causal", "bidirectional", "cross", "mask"})

    def build(self, query_shape, value_shape=None):
        self.layer = keras.layers.MultiHeadAttention(
            self.num_heads, self.head_dim, dropout=self.dropout, name="keras", dtype=self.dtype_policy
        )
        self.layer.build(query_shape, query_shape if value_shape is None else value_shape)
        self.built = True

    def call(self, query, value=None, *, attention_mask=None, training=None):
        value = query if value is None else value
        return self.layer(query, value, attention_mask=attention_mask, use_causal_mask=self.causal, training=training)


def main(lengths: list[int]) -> None:
    """Prints the median step of both kinds for each length, forward and with gradients."""
    from zoo.bench.point import make_step

    print("backend\tlength\tpass\tmulti_head ms\tkeras ms\tratio")
    for length in lengths:
        for train in (False, True):
            steps = []
            for name in ("multi_head", "keras_multi_head"):
                layer, x = registry.attention.get(name)(4, 64), keras.random.normal((1, length, 256), seed=0)
                layer.build(x.shape)
                steps.append(make_step(layer, x, train, jit=True))
                for _ in range(3):
                    steps[-1]()
            times: list[list[float]] = [[], []]
            for _ in range(max(20, 20000 // length)):
                for step, taken in zip(steps, times, strict=True):
                    start = time.perf_counter()
                    step()
                    taken.append(1000 * (time.perf_counter() - start))
            ours, theirs = map(statistics.median, times)
            row = (keras.backend.backend(), length, "train" if train else "forward")
            print(*row, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}", sep="\t", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[2:]] or [64, 256, 1024])
