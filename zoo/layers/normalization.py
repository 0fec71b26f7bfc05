"""The normalisations a block can use, by name."""

import keras
from keras import ops

from zoo.errors import InputError, near
from zoo.layers.configured import Configured

NAMES = ("layer", "rms", "batch", "none")


@keras.saving.register_keras_serializable("zoo")
class Normalization(Configured, keras.layers.Layer):
    """Layer, RMS or batch normalisation of (B, T, D) over its features, with padding left out of batch statistics.

    Args:
        kind: "layer" (Ba et al., 2016), "rms" (Zhang and Sennrich, 2019), "batch" (Ioffe and Szegedy, 2015) or "none".
        epsilon: added to the variance.

    Call arguments:
        x: (B, T, D).
        padding_mask: bool (B, T), True at real positions; only "batch" looks at it.
        training: whether "batch" uses and updates the statistics of this batch.
    """

    def __init__(self, kind: str = "layer", *, epsilon: float = 1e-6, **kwargs):
        super().__init__(**kwargs)
        self.kind = kind
        self.epsilon = epsilon
        settings = {"epsilon": epsilon, "name": kind, "dtype": self.dtype_policy}
        if kind == "layer":
            self.inner = keras.layers.LayerNormalization(**settings)
        elif kind == "rms":
            self.inner = keras.layers.RMSNormalization(**settings)
        elif kind == "batch":
            self.inner = keras.layers.BatchNormalization(momentum=0.9, **settings)
        elif kind == "none":
            self.inner = None
        else:
            raise InputError(f"unknown normalisation {kind!r}{near(kind, NAMES)}; there are: {', '.join(NAMES)}")

    def build(self, x_shape):
        if self.inner is not None:
            self.inner.build(x_shape)
        self.built = True

    def call(self, x, padding_mask=None, training=None):
        if self.inner is None:
            return x
        if self.kind == "batch":
            mask = ops.ones(ops.shape(x)[:2], "bool") if padding_mask is None else padding_mask
            # Past Keras' own call, which would hang the mask on the output, where our layers don't look for one.
            return self.inner.call(x, training=training, mask=mask)
        return self.inner(x)

    def compute_output_shape(self, x_shape):
        return x_shape
