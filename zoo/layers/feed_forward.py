"""The position-wise feed-forward network."""

import keras

from zoo.errors import InputError
from zoo.layers.configured import Configured
from zoo.layers.dropout import Dropout


@keras.saving.register_keras_serializable("zoo")
class FeedForward(Configured, keras.layers.Layer):
    """Two projections with a nonlinearity between them, the same at every position.

    Args:
        width: of input and output, D.
        hidden: of the layer between.
        activation: "relu", "gelu", "silu" or any other that Keras knows.
        gated: multiply the activated half by a linear one (with "silu": SwiGLU; with "gelu": GeGLU).
        dropout: share of the hidden units dropped in training.

    Raises:
        InputError: there is no such activation.

    Call arguments:
        x: (B, T, D), giving (B, T, D).

    Reference:
        Vaswani et al., 2017, section 3.3; Shazeer, 2020, "GLU Variants Improve Transformer" for ``gated``.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        activation: str = "relu",
        gated: bool = False,
        dropout: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.width = width
        self.hidden = hidden
        self.gated = gated
        self.dropout = dropout
        policy = self.dtype_policy
        try:
            keras.activations.get(activation)
        except ValueError as error:
            raise InputError(f"unknown activation {activation!r}; Keras has relu, gelu, silu and others") from error
        self.hidden_dense = keras.layers.Dense(hidden, activation=activation, name="hidden", dtype=policy)
        self.gate_dense = keras.layers.Dense(hidden, name="gate", dtype=policy) if gated else None
        self.output_dense = keras.layers.Dense(width, name="output", dtype=policy)
        self.dropout_layer = Dropout(dropout, name="dropout", dtype=policy)

    def build(self, x_shape=None):
        self.hidden_dense.build((None, None, self.width))
        if self.gated:
            self.gate_dense.build((None, None, self.width))
        self.output_dense.build((None, None, self.hidden))
        self.built = True

    def call(self, x, training=None):
        hidden = self.hidden_dense(x)
        if self.gated:
            hidden = hidden * self.gate_dense(x)
        return self.output_dense(self.dropout_layer(hidden, training=training))

    def compute_output_shape(self, x_shape):
        return x_shape
