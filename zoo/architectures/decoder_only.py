"""The decoder-only Transformer."""

import keras
from keras import ops

from zoo import registry
from zoo.architectures.blocks import BlockArchitecture, at_index, empty_tokens, write_tokens
from zoo.layers.embedding import TokenEmbedding
from zoo.layers.masks import padding_mask


@registry.architecture.register("decoder_only")
class DecoderOnly(BlockArchitecture):
    """The decoder-only Transformer: one causal stack over source and target in a row.

    Args:
        vocabulary: number of tokens.
        tie_output: the embedding is also the output projection.
        settings: see :class:`zoo.architectures.blocks.BlockArchitecture`.

    Call arguments:
        inputs: {"tokens": int (B, T)}, padded with 0 at the end.

    Returns:
        Logits (B, T, vocabulary) of the token after each position.

    Reference:
        Liu et al., 2018, "Generating Wikipedia by Summarizing Long Sequences", section 4.2.3.
    """

    layout = "decoder"
    requires = frozenset({"causal"})
    described_by_task = frozenset({"vocabulary", "max_length"})

    def __init__(self, *, vocabulary: int, tie_output: bool = True, name: str = "decoder_only", **settings):
        super().__init__(name=name, **settings)
        self.embedding = TokenEmbedding(vocabulary, self.width, name="embedding", dtype=self.dtype_policy)
        self.decoder = self.stack("decoder", causal=True)
        self.output_dense = None
        if not tie_output:
            self.output_dense = keras.layers.Dense(vocabulary, name="output", dtype=self.dtype_policy)

    def build(self, inputs_shape=None):
        for layer in (self.embedding, self.decoder):
            if not layer.built:
                layer.build()
        if self.output_dense is not None and not self.output_dense.built:
            self.output_dense.build((None, None, self.width))
        self.built = True

    def call(self, inputs, training=None):
        tokens = inputs["tokens"]
        mask = ops.squeeze(padding_mask(tokens), 1)
        return self.logits(self.decoder(self.embedding(tokens), padding_mask=mask, training=training))

    def logits(self, x, projection=None):
        """(B, T, D) -> (B, T, vocabulary); ``projection`` as for :meth:`TokenEmbedding.logits`."""
        return self.embedding.logits(x, projection) if self.output_dense is None else self.output_dense(x)

    def init_decoding(self, inputs, max_length):
        tokens = inputs["tokens"]
        if not self.caches:
            return {"tokens": empty_tokens(tokens, max_length)}
        return {
            "cache": self.decoder.init_cache(ops.shape(tokens)[0], max_length),
            "shared": {} if self.output_dense is not None else {"projection": self.embedding.projection()},
        }

    def decode_step(self, tokens, state, index):
        if not self.caches:  # everything again, for a kind that keeps no cache
            tokens = write_tokens(state["tokens"], tokens, index)
            x = self.decoder(self.embedding(tokens), training=False)
            return self.logits(at_index(x, index)), {"tokens": tokens}
        x, cache = self.decoder(self.embedding(tokens), cache=state["cache"], cache_index=index, training=False)
        return self.logits(x, **state.get("shared", {}))[:, 0], {**state, "cache": cache}
