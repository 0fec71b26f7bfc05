"""Times dropout's random stream against the backend's, forward and backward, compiled.

KERAS_BACKEND=tensorflow python benchmarks/dropout.py
"""

import time

import numpy as np
from absl import app, flags

ROWS = flags.DEFINE_integer("rows", 3072, "tokens in a batch", lower_bound=1)
WIDTH = flags.DEFINE_integer("width", 128, "features of a token", lower_bound=1)
LAYERS = flags.DEFINE_integer("layers", 22, "dropouts in a row; 4 + 4 Transformer blocks have 22", lower_bound=1)
REPEATS = flags.DEFINE_integer("repeats", 20, "timed steps", lower_bound=1)


def milliseconds(layer_class: type) -> float:
    """The median time of a training step of a model that is nothing but dropout and a scale."""
    import keras

    inputs = keras.Input((WIDTH.value,))
    x = keras.layers.EinsumDense("bd,d->bd", output_shape=(WIDTH.value,))(inputs)
    for _ in range(LAYERS.value):
        x = layer_class(0.1)(x)
    model = keras.Model(inputs, x)
    model.compile("sgd", "mse", jit_compile=keras.backend.backend() != "torch")
    batch = np.ones((ROWS.value, WIDTH.value), "float32")
    times = []
    for _ in range(REPEATS.value + 2):
        start = time.perf_counter()
        model.train_on_batch(batch, batch)
        times.append(time.perf_counter() - start)
    return 1000 * float(np.median(times[2:]))


def main(_) -> None:
    """Prints both and their ratio."""
    from zoo.training.devices import choose_backend

    choose_backend(None)
    import keras

    from zoo.layers.dropout import Dropout

    ours, theirs = milliseconds(Dropout), milliseconds(keras.layers.Dropout)
    print(f"zoo {ours:.1f} ms, keras {theirs:.1f} ms, ratio {theirs / ours:.1f} ({keras.backend.backend()})")


if __name__ == "__main__":
    app.run(main)
