"""Block and Stack: the one place where position meets attention.

                 pre-norm (norm_first)                    post-norm

x ---------------------------------+        x -------------+
|                                  |        |              |
+-- norm -- attention -- dropout --+--> x   +- attention --+-- norm --> x      and so for each sublayer:
                                                                               self, cross, feed-forward
"""

import keras
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.layers.configured import Configured
from zoo.layers.dropout import Dropout
from zoo.layers.feed_forward import FeedForward
from zoo.layers.normalization import Normalization


@keras.saving.register_keras_serializable("zoo")
class Block(Configured, keras.layers.Layer):
    """Self-attention, cross-attention if asked for, and a feed-forward network, each with a residual and a norm.

    Args:
        width: of the model, D.
        num_heads: attention heads.
        feed_forward: hidden units of the feed-forward network.
        attention: kind of the self-attention, by its registered name.
        attention_options: further arguments of that kind.
        head_dim: width of a head; width / num_heads when None.
        causal: no position sees a later one.
        cross: whether the block also attends to a memory.
        cross_attention: kind of the cross-attention; None takes the self-attention's where it can cross, else
            "multi_head".
        norm: "layer", "rms", "batch" or "none".
        norm_first: normalise before each sublayer (pre-norm) rather than after its residual (post-norm).
        residual: add each sublayer's input to its output.
        dropout: of each sublayer's output.
        average_heads: take the mean of the heads rather than lay them side by side.
        attention_dropout: of the attention weights.
        feed_forward_dropout: of the hidden units.
        activation: of the feed-forward network.
        gated: whether that network is gated.

    Call arguments:
        x: (B, T, D).
        memory: (B, S, D) for the cross-attention; not needed with a cache.
        attention_mask: bool (B, 1 or T, T), True where attending is allowed.
        padding_mask: bool (B, T), True at real positions; for batch normalisation.
        memory_mask: bool (B, 1, S).
        bias, rotation: from the positional scheme.
        cache, cache_index: see :meth:`init_cache`.

    Returns:
        (B, T, D), or with a cache ``(out, cache)``.

    Reference:
        Vaswani et al., 2017, section 3.1; Xiong et al., 2020, "On Layer Normalization in the Transformer
        Architecture" for pre-norm.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        feed_forward: int,
        *,
        attention: str = "multi_head",
        attention_options: dict | None = None,
        head_dim: int | None = None,
        causal: bool = False,
        cross: bool = False,
        cross_attention: str | None = None,
        norm: str = "layer",
        norm_first: bool = True,
        residual: bool = True,
        dropout: float = 0.0,
        average_heads: bool = False,
        attention_dropout: float = 0.0,
        feed_forward_dropout: float = 0.0,
        activation: str = "relu",
        gated: bool = False,
        **kwargs,
    ):
        super().__init__(autocast=False, **kwargs)  # which would round a kind's float32 cache in half precision
        self.width = width
        self.num_heads = num_heads
        self.causal = causal
        self.cross = cross
        self.residual = residual
        self.norm_first = norm_first
        self.head_dim = head_dim_of(width, num_heads, head_dim)
        policy = self.dtype_policy
        options = attention_options or {}
        heads = {
            "num_heads": num_heads,
            "head_dim": self.head_dim,
            "average_heads": average_heads,
            "dropout": attention_dropout,
            "dtype": policy,
        }
        self.self_attention = registry.attention.get(attention)(
            **heads, causal=causal, name="self_attention", **options
        )
        self.cross_attention = None
        if cross:
            kind = cross_attention or crossing_kind(attention)
            crossing = options if kind == attention else {}
            self.cross_attention = registry.attention.get(kind)(**heads, name="cross_attention", **crossing)
        self.feed_forward = FeedForward(
            width,
            feed_forward,
            activation=activation,
            gated=gated,
            dropout=feed_forward_dropout,
            name="feed_forward",
            dtype=policy,
        )
        self.self_norm = Normalization(norm, name="self_norm", dtype=policy)
        self.cross_norm = Normalization(norm, name="cross_norm", dtype=policy) if cross else None
        self.feed_forward_norm = Normalization(norm, name="feed_forward_norm", dtype=policy)
        self.dropout_layer = Dropout(dropout, name="dropout", dtype=policy)

    def build(self, x_shape=None, memory_shape=None):
        shape = (None, None, self.width)
        for attention in (self.self_attention, self.cross_attention):
            if attention is not None and not attention.built:
                attention.build(shape, shape)
        for layer in (self.feed_forward, self.self_norm, self.cross_norm, self.feed_forward_norm):
            if layer is not None and not layer.built:
                layer.build(shape)
        self.built = True

    def call(
        self,
        x,
        memory=None,
        *,
        attention_mask=None,
        padding_mask=None,
        memory_mask=None,
        bias=None,
        rotation=None,
        cache=None,
        cache_index=None,
        training=None,
    ):
        x = ops.cast(x, self.compute_dtype)
        caches = {} if cache is None else dict(cache)

        def attend_self(y):
            given = {
                "attention_mask": attention_mask,
                "bias": bias,
                "rotation": rotation,
                "cache": caches.get("self"),
                "cache_index": cache_index,
            }
            # A kind need not take what it does not support.
            given = {name: tensor for name, tensor in given.items() if tensor is not None}
            out = self.self_attention(y, training=training, **given)
            if cache is not None:
                out, caches["self"] = out
            return out

        def attend_memory(y):
            out = self.cross_attention(
                y, memory, attention_mask=memory_mask, cache=caches.get("memory"), training=training
            )
            return out if cache is None else out[0]

        x = self._sublayer(x, attend_self, self.self_norm, padding_mask, training)
        if self.cross:
            x = self._sublayer(x, attend_memory, self.cross_norm, padding_mask, training)
        x = self._sublayer(
            x, lambda y: self.feed_forward(y, training=training), self.feed_forward_norm, padding_mask, training
        )
        return x if cache is None else (x, caches)

    def _sublayer(self, x, sublayer, norm, padding_mask, training):
        y = norm(x, padding_mask=padding_mask, training=training) if self.norm_first else x
        y = self.dropout_layer(sublayer(y), training=training)
        if self.residual:
            y = x + y
        return y if self.norm_first else norm(y, padding_mask=padding_mask, training=training)

    def init_cache(self, batch_size, max_length: int, memory=None) -> dict:
        """Caches for decoding up to ``max_length`` positions, with ``memory`` (B, S, D) projected once."""
        cache = {"self": self.self_attention.init_cache(batch_size, max_length)}
        if self.cross:
            cache["memory"] = self.cross_attention.value_cache(memory)
        return cache

    def compute_output_shape(self, x_shape, memory_shape=None):
        return x_shape


@keras.saving.register_keras_serializable("zoo")
class Stack(Configured, keras.layers.Layer):
    """A positional scheme and ``depth`` blocks.

    Args:
        depth: number of blocks.
        block: the arguments of each :class:`Block`.
        position: the positional scheme, by its registered name.
        position_options: further arguments of that scheme.
        position_in_every_block: give an embedded scheme to the input of every block, and not of the first alone.
        max_length: longest sequence, for a scheme with a table of that length.
        dropout: of the embedded tokens, once their positions are added.

    Call arguments:
        x: (B, T, D), embedded tokens.
        memory: (B, S, D) for cross-attention; not needed with a cache.
        padding_mask: bool (B, T), True at real positions. A causal stack ignores it in its attention: padding
            comes last, where no real position sees it.
        memory_mask: bool (B, 1, S).
        cache, cache_index: see :meth:`init_cache`.

    Returns:
        (B, T, D), or with a cache ``(out, cache)``.
    """

    def __init__(
        self,
        depth: int,
        block: dict,
        *,
        position: str = "sinusoidal",
        position_options: dict | None = None,
        position_in_every_block: bool = False,
        max_length: int | None = None,
        dropout: float = 0.0,
        **kwargs,
    ):
        super().__init__(autocast=False, **kwargs)  # see Block
        if depth < 1:
            raise InputError(f"depth must be at least 1, not {depth}")
        policy = self.dtype_policy
        self.blocks = [Block(**block, name=f"block_{i}", dtype=policy) for i in range(depth)]
        first = self.blocks[0]
        self.position = registry.position.get(position)(
            width=first.width,
            num_heads=first.num_heads,
            head_dim=first.head_dim,
            max_length=max_length,
            causal=first.causal,
            name="position",
            dtype=policy,
            **(position_options or {}),
        )
        if position_in_every_block and self.position.stage != "embedding":
            raise InputError(f"position_in_every_block is for a scheme that is embedded; {position} is not")
        self.position_in_every_block = position_in_every_block
        self.dropout_layer = Dropout(dropout, name="dropout", dtype=policy)
        needs_norm = first.norm_first  # the residual stream of a pre-norm stack ends unnormalised
        self.norm = Normalization(block.get("norm", "layer"), name="norm", dtype=policy) if needs_norm else None

    def build(self, x_shape=None, memory_shape=None):
        shape = (None, None, self.blocks[0].width)
        for layer in (*self.blocks, self.norm):
            if layer is not None and not layer.built:
                layer.build(shape)
        if not self.position.built:
            self.position.build((None,))
        self.built = True

    def call(
        self,
        x,
        memory=None,
        *,
        padding_mask=None,
        memory_mask=None,
        cache=None,
        cache_index=None,
        training=None,
    ):
        x, encoded, positions = self._with_positions(ops.cast(x, self.compute_dtype), cache, cache_index, training)
        x = self.dropout_layer(x, training=training)
        attention_mask = None
        if padding_mask is not None and not self.blocks[0].causal:
            attention_mask = ops.expand_dims(padding_mask, 1)
        caches = []
        for i, block in enumerate(self.blocks):
            if i and self.position_in_every_block:
                x = self.position.combine(x, encoded)
            x = block(
                x,
                memory,
                attention_mask=attention_mask,
                padding_mask=padding_mask,
                memory_mask=memory_mask,
                cache=None if cache is None else cache["blocks"][i],
                cache_index=cache_index,
                training=training,
                **positions,
            )
            if cache is not None:
                x, block_cache = x
                caches.append(block_cache)
        if self.norm is not None:
            x = self.norm(x, padding_mask=padding_mask, training=training)
        return x if cache is None else (x, {**cache, "blocks": caches})

    def _with_positions(self, x, cache, cache_index, training):
        """``x`` with an embedded scheme, what that gave, and by name a rotation or a bias for the blocks."""
        places = ops.arange(ops.shape(x)[1], dtype="int32")
        if cache is None:
            query_positions = key_positions = self.position.place(places, training=training)
        else:
            query_positions = self.position.place(places + ops.cast(cache_index, "int32"))
            key_positions = self.position.place(cache["places"][0])
        stage = self.position.stage
        if stage == "none":
            return x, None, {}
        encoded = self.position(query_positions, key_positions)
        if stage == "embedding":
            return self.position.combine(x, encoded), encoded, {}
        return x, None, {stage: encoded}

    def init_cache(self, batch_size, max_length: int, memory=None) -> dict:
        """Caches of all blocks; ``memory`` (B, S, D) is projected once."""
        places = ops.expand_dims(ops.arange(max_length, dtype="int32"), 0)
        return {
            "places": ops.broadcast_to(places, (batch_size, max_length)),  # batch first, as everything cached
            "blocks": [block.init_cache(batch_size, max_length, memory) for block in self.blocks],
        }

    def compute_output_shape(self, x_shape, memory_shape=None):
        return x_shape


def head_dim_of(width: int, num_heads: int, head_dim: int | None = None) -> int:
    """The width of a head: as given, or an equal share of the model's.

    Raises:
        InputError: the heads don't divide the width.
    """
    if head_dim is not None:
        return head_dim
    if num_heads < 1 or width % num_heads:
        raise InputError(f"{num_heads} heads don't divide the width {width}; change num_heads or width")
    return width // num_heads


def crossing_kind(attention: str) -> str:
    """The kind that attends across when nothing else is said: ``attention`` where it can, else "multi_head"."""
    return attention if "cross" in registry.attention.get(attention).supports else "multi_head"
