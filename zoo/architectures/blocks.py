"""The settings that every architecture made of Transformer blocks shares."""

from keras import ops

from zoo import registry
from zoo.architectures.base import Architecture
from zoo.layers.transformer import Stack


class BlockArchitecture(Architecture):
    """Base of the architectures made of stacks of Transformer blocks.

    Args:
        max_length: longest sequence, for positions that are learned.
        width: of the model.
        depth: blocks of each stack.
        num_heads: attention heads.
        feed_forward: hidden units of the feed-forward networks; 4 * width when None.
        attention, attention_options: kind of the self-attention and its arguments.
        position, position_options: positional scheme and its arguments.
        position_in_every_block: see :class:`zoo.layers.transformer.Stack`.
        head_dim: width of a head; width / num_heads when None.
        dropout: of embeddings and of each sublayer's output.
        average_heads: take the mean of the heads rather than lay them side by side.
        attention_dropout: of the attention weights.
        feed_forward_dropout: of the hidden units.
        norm, norm_first, residual, activation, gated: see :class:`zoo.layers.transformer.Block`.
    """

    def __init__(
        self,
        *,
        max_length: int,
        width: int = 128,
        depth: int = 2,
        num_heads: int = 4,
        feed_forward: int | None = None,
        attention: str = "multi_head",
        attention_options: dict | None = None,
        position: str = "sinusoidal",
        position_options: dict | None = None,
        position_in_every_block: bool = False,
        head_dim: int | None = None,
        dropout: float = 0.1,
        average_heads: bool = False,
        attention_dropout: float = 0.0,
        feed_forward_dropout: float = 0.0,
        norm: str = "layer",
        norm_first: bool = True,
        residual: bool = True,
        activation: str = "relu",
        gated: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.width = width
        self.depth = depth
        self._limits: tuple[int | None, ...] = ()  # positions that each stack's scheme has
        self.caches = "cache" in registry.attention.get(attention).supports
        self._block = {
            "width": width,
            "num_heads": num_heads,
            "feed_forward": feed_forward or 4 * width,
            "attention": attention,
            "attention_options": attention_options,
            "head_dim": head_dim,
            "dropout": dropout,
            "average_heads": average_heads,
            "attention_dropout": attention_dropout,
            "feed_forward_dropout": feed_forward_dropout,
            "norm": norm,
            "norm_first": norm_first,
            "residual": residual,
            "activation": activation,
            "gated": gated,
        }
        self._stack = {
            "position": position,
            "position_options": position_options,
            "position_in_every_block": position_in_every_block,
            "max_length": max_length,
            "dropout": dropout,
            "dtype": self.dtype_policy,
        }

    def stack(self, name: str, depth: int | None = None, **block) -> Stack:
        """A stack by these settings; ``block`` adds to those of its blocks."""
        depth = self.depth if depth is None else depth
        stack = Stack(depth, {**self._block, **block}, name=name, **self._stack)
        self._limits = (*self._limits, stack.position.limit)
        return stack

    def position_limit(self):
        return min((limit for limit in self._limits if limit is not None), default=None)


def empty_tokens(inputs, max_length: int):
    """A (B, max_length) buffer of padding for the tokens decoded so far, for kinds that keep no cache."""
    return ops.zeros((ops.shape(inputs)[0], max_length), "int32")


def at_index(x, index):
    """(B, T, D) -> (B, D) at position ``index``."""
    return ops.squeeze(ops.slice(x, (0, index, 0), (ops.shape(x)[0], 1, x.shape[-1])), 1)


def write_tokens(buffer, tokens, index):
    """``buffer`` (B, L) with ``tokens`` (B, 1) at position ``index``."""
    return ops.slice_update(buffer, (0, index), ops.cast(tokens, buffer.dtype))
