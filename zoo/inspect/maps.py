"""The attention weights of a trained model for one text, with the tokens they lie between."""

from dataclasses import dataclass

import numpy as np
from keras import ops

from zoo.architectures.base import Architecture
from zoo.errors import InputError
from zoo.generation.trained import Trained
from zoo.layers.attention.base import Attention
from zoo.tokens import BEGIN, END


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one layer.

    Attributes:
        name: where the layer is, as "encoder 1", "decoder 2" or "decoder 2 across".
        queries, keys: tokens, T and S of them.
        weights: (N, T, S), those of a query summing to 1.
    """

    name: str
    queries: list[str]
    keys: list[str]
    weights: np.ndarray


@dataclass(frozen=True)
class Maps:
    """All layers of a model for one text, and the layers whose kind has no weights to show.

    Attributes:
        source, output: the text, and what the model made of it, or was given.
        maps: one for each layer that shows its weights.
        without: the other layers, as "decoder 1: memory_compressed".
    """

    source: str
    output: str
    maps: list[AttentionMap]
    without: list[str]


def attention_maps(trained: Trained, text: str, output: str | None = None) -> Maps:
    """The weights of every attention layer while the model reads ``text`` and writes ``output``.

    Args:
        trained: a trained run.
        text: the source.
        output: the target whose writing is shown; what the model decodes when None.

    Raises:
        InputError: the task has no tokens to show, or the text is longer than the model can place.
    """
    task, model = trained.task, trained.model
    if not hasattr(task, "source") or not hasattr(task, "target"):
        raise InputError(f"task {trained.recipe.task.name!r} has no subwords to put on the axes")
    limit = model.position_limit()
    decoded = output is None
    output = trained.generate([text])[0] if decoded else output
    source, target = task.source.encode(text), task.target.encode(output)
    if decoded and limit is not None:  # in other tokens than it was written in, it may be longer
        target = target[: limit - 1 if model.layout == "encoder_decoder" else max(limit - len(source) - 1, 0)]
    if model.layout == "encoder_decoder":
        inputs = {"source": [*source, END], "target": [BEGIN, *target]}
        axes = {
            "encoder": [*task.source.pieces(text), "</s>"],
            "decoder": ["<s>", *task.target.pieces(output)[: len(target)]],
        }
    elif model.layout == "decoder":
        inputs = {"tokens": [*source, BEGIN, *target]}
        axes = {"decoder": [*task.source.pieces(text), "<s>", *task.target.pieces(output)[: len(target)]]}
    else:
        inputs, axes = {"tokens": source}, {"encoder": task.source.pieces(text)}
    longest = max(map(len, inputs.values()))
    if limit is not None and longest > limit:
        raise InputError(f"{longest} tokens are longer than the {limit} positions of the model; shorten the text")
    seen, without = _recorded(model, {name: np.array([tokens]) for name, tokens in inputs.items()})
    maps = []
    for path, weights in seen:
        stack, _, across = _place(path)
        queries = axes[stack]
        keys = axes["encoder"] if across else queries
        maps.append(AttentionMap(_name(path), queries, keys, weights[0]))
    return Maps(text, output, maps, without)


def attention_layers(model: Architecture) -> list[Attention]:
    """The attention layers of a model, in the order in which they were made."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, Attention)]


def _recorded(model: Architecture, inputs: dict) -> tuple[list[tuple[str, np.ndarray]], list[str]]:
    """(path, weights (B, N, T, S)) of each layer during one pass, and the layers that have none."""
    layers = attention_layers(model)
    shown = [layer for layer in layers if "scores" in layer.supports]
    found: dict[str, np.ndarray] = {}

    def listening(layer):
        attend = layer.attend

        def attend_and_tell(*arguments, **settings):
            context, scores = attend(*arguments, **{**settings, "with_scores": True})
            found[layer.path] = ops.convert_to_numpy(ops.cast(scores, "float32"))
            return context, scores

        return attend_and_tell

    chunks = [layer.query_chunks for layer in shown]
    try:
        for layer in shown:
            object.__setattr__(layer, "attend", listening(layer))  # past Keras, which would track it
            layer.query_chunks = 1  # the whole square at once
        model(inputs, training=False)
    finally:
        for layer, number in zip(shown, chunks, strict=True):
            object.__delattr__(layer, "attend")
            layer.query_chunks = number
    without = [f"{_name(layer.path)}: {type(layer).__name__}" for layer in layers if layer.path not in found]
    return list(found.items()), without


def _place(path: str) -> tuple[str, int, bool]:
    """Stack, block from 0 and whether across, of "transformer/decoder/block_1/cross_attention"."""
    parts = path.split("/")
    block = next(part for part in parts if part.startswith("block_"))
    return parts[parts.index(block) - 1], int(block.removeprefix("block_")), parts[-1] == "cross_attention"


def _name(path: str) -> str:
    stack, block, across = _place(path)
    return f"{stack} {block + 1}" + (" across" if across else "")
