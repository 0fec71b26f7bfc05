"""The encoder-only Transformer."""

import keras
from keras import ops

from zoo import registry
from zoo.architectures.blocks import BlockArchitecture
from zoo.layers.embedding import TokenEmbedding
from zoo.layers.masks import padding_mask


@registry.architecture.register("encoder_only")
class EncoderOnly(BlockArchitecture):
    """The encoder-only Transformer: a label for every token, all at once.

    Args:
        source_vocabulary, target_vocabulary: numbers of tokens and of labels.
        settings: see :class:`zoo.architectures.blocks.BlockArchitecture`.

    Call arguments:
        inputs: {"tokens": int (B, T)}, padded with 0.

    Returns:
        Logits (B, T, target_vocabulary).

    Reference:
        Devlin et al., 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding".
    """

    layout = "encoder"
    requires = frozenset({"bidirectional", "mask"})
    described_by_task = frozenset({"source_vocabulary", "target_vocabulary", "max_length"})

    def __init__(self, *, source_vocabulary: int, target_vocabulary: int, name: str = "encoder_only", **settings):
        super().__init__(name=name, **settings)
        policy = self.dtype_policy
        self.embedding = TokenEmbedding(source_vocabulary, self.width, name="embedding", dtype=policy)
        self.encoder = self.stack("encoder")
        self.output_dense = keras.layers.Dense(target_vocabulary, name="output", dtype=policy)

    def build(self, inputs_shape=None):
        for layer in (self.embedding, self.encoder):
            if not layer.built:
                layer.build()
        if not self.output_dense.built:
            self.output_dense.build((None, None, self.width))
        self.built = True

    def call(self, inputs, training=None):
        tokens = inputs["tokens"]
        mask = ops.squeeze(padding_mask(tokens), 1)
        return self.output_dense(self.encoder(self.embedding(tokens), padding_mask=mask, training=training))
