"""Token embeddings that can also give the output logits."""

import keras
from keras import ops

from zoo.layers.configured import Configured


@keras.saving.register_keras_serializable("zoo")
class TokenEmbedding(Configured, keras.layers.Layer):
    """Vectors of tokens, scaled by sqrt(width); its transpose can serve as the output projection.

    Args:
        vocabulary: number of tokens, V.
        width: size of a vector, D.

    Call arguments:
        tokens: int (B, T), giving (B, T, D).

    Reference:
        Vaswani et al., 2017, section 3.4; Press and Wolf, 2017, "Using the Output Embedding to Improve Language
        Models".
    """

    def __init__(self, vocabulary: int, width: int, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary = vocabulary
        self.width = width

    def build(self, tokens_shape=None):
        self.table = self.add_weight(
            name="table",
            shape=(self.vocabulary, self.width),
            initializer=keras.initializers.RandomNormal(stddev=self.width**-0.5),
        )
        self.built = True

    def call(self, tokens):
        tokens = ops.cast(tokens, "int32")  # with tf.distribute, Keras builds a model on an average of the inputs
        return ops.take(ops.cast(self.table, self.compute_dtype), tokens, axis=0) * self.width**0.5

    def projection(self):
        """The transpose of the table, (D, V)."""
        return ops.transpose(ops.cast(self.table, self.compute_dtype))

    def logits(self, x, projection=None):
        """(B, T, D) -> (B, T, V), against the vector of every token.

        A loop over few positions gives what :meth:`projection` gave before it, and need not turn the table each time.
        """
        return ops.matmul(x, self.projection() if projection is None else projection)

    def compute_output_shape(self, tokens_shape):
        return (*tokens_shape, self.width)
