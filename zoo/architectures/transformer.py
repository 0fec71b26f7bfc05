"""The encoder-decoder Transformer."""

import keras
from keras import ops

from zoo import registry
from zoo.architectures.blocks import BlockArchitecture, at_index, empty_tokens, write_tokens
from zoo.errors import InputError
from zoo.layers.embedding import TokenEmbedding
from zoo.layers.masks import padding_mask
from zoo.layers.transformer import crossing_kind


@registry.architecture.register("transformer")
class Transformer(BlockArchitecture):
    """The encoder-decoder Transformer.

    Args:
        source_vocabulary, target_vocabulary: numbers of tokens.
        decoder_depth: blocks of the decoder; as many as the encoder's ``depth`` when None.
        cross_attention: kind of the cross-attention; see :class:`zoo.layers.transformer.Block`.
        share_embeddings: one table for source and target, which must have one vocabulary.
        tie_output: the target's embedding is also the output projection.
        settings: see :class:`zoo.architectures.blocks.BlockArchitecture`.

    Call arguments:
        inputs: {"source": int (B, S), "target": int (B, T) that starts with the begin token}, padded with 0.

    Returns:
        Logits (B, T, target_vocabulary).

    Reference:
        Vaswani et al., 2017, "Attention Is All You Need".
    """

    layout = "encoder_decoder"
    requires = frozenset({"causal", "bidirectional", "mask"})
    described_by_task = frozenset({"source_vocabulary", "target_vocabulary", "max_length"})

    def __init__(
        self,
        *,
        source_vocabulary: int,
        target_vocabulary: int,
        decoder_depth: int | None = None,
        cross_attention: str | None = None,
        share_embeddings: bool = True,
        tie_output: bool = True,
        name: str = "transformer",
        **settings,
    ):
        super().__init__(name=name, **settings)
        if share_embeddings and source_vocabulary != target_vocabulary:
            raise InputError(
                f"share_embeddings needs one vocabulary, and these have {source_vocabulary} and {target_vocabulary} "
                "tokens; use a shared vocabulary or set share_embeddings to false"
            )
        attention = settings.get("attention", "multi_head")
        crossing = registry.attention.get(cross_attention or crossing_kind(attention))
        self.caches = self.caches and "cache" in crossing.supports
        policy = self.dtype_policy
        embed = {"width": self.width, "dtype": policy}
        self.target_embedding = TokenEmbedding(target_vocabulary, name="target_embedding", **embed)
        self.source_embedding = self.target_embedding
        if not share_embeddings:
            self.source_embedding = TokenEmbedding(source_vocabulary, name="source_embedding", **embed)
        self.encoder = self.stack("encoder")
        self.decoder = self.stack("decoder", decoder_depth, causal=True, cross=True, cross_attention=cross_attention)
        self.output_dense = None
        if not tie_output:
            self.output_dense = keras.layers.Dense(target_vocabulary, name="output", dtype=policy)

    def build(self, inputs_shape=None):
        for layer in (self.source_embedding, self.target_embedding, self.encoder, self.decoder):
            if not layer.built:
                layer.build()
        if self.output_dense is not None and not self.output_dense.built:
            self.output_dense.build((None, None, self.width))
        self.built = True

    def call(self, inputs, training=None):
        memory, memory_mask = self.encode(inputs["source"], training=training)
        target = inputs["target"]
        x = self.decoder(
            self.target_embedding(target),
            memory,
            padding_mask=ops.squeeze(padding_mask(target), 1),
            memory_mask=memory_mask,
            training=training,
        )
        return self.logits(x)

    def encode(self, source, training=None):
        """The memory (B, S, D) of ``source`` (B, S), and its mask (B, 1, S)."""
        mask = padding_mask(source)
        x = self.source_embedding(source)
        return self.encoder(x, padding_mask=ops.squeeze(mask, 1), training=training), mask

    def logits(self, x, projection=None):
        """(B, T, D) -> (B, T, target_vocabulary); ``projection`` as for :meth:`TokenEmbedding.logits`."""
        return self.target_embedding.logits(x, projection) if self.output_dense is None else self.output_dense(x)

    def init_decoding(self, inputs, max_length):
        source = inputs["source"]
        memory, mask = self.encode(source, training=False)
        if not self.caches:
            return {"memory": memory, "memory_mask": mask, "tokens": empty_tokens(source, max_length)}
        return {
            "cache": self.decoder.init_cache(ops.shape(source)[0], max_length, memory),
            "memory_mask": mask,
            "shared": {} if self.output_dense is not None else {"projection": self.target_embedding.projection()},
        }

    def decode_step(self, tokens, state, index):
        if not self.caches:  # the whole target again, for a kind that keeps no cache
            target = write_tokens(state["tokens"], tokens, index)
            x = self.decoder(
                self.target_embedding(target), state["memory"], memory_mask=state["memory_mask"], training=False
            )
            return self.logits(at_index(x, index)), {**state, "tokens": target}
        x, cache = self.decoder(
            self.target_embedding(tokens),
            memory_mask=state["memory_mask"],
            cache=state["cache"],
            cache_index=index,
            training=False,
        )
        return self.logits(x, **state.get("shared", {}))[:, 0], {**state, "cache": cache}
