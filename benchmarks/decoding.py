"""Decoding speed: beside keras-hub's cached decoder, beside decoding without a cache, and a beam beside greedy.

    pip install keras-hub
    python benchmarks/decoding.py

An encoder-decoder of 4 + 4 layers, width 128, feed-forward 256, 4 heads and 10,000 tokens; 32, 64 and 128 sentences of
24 tokens, from each of which 64 tokens are decoded greedily, none of them an end, and no log-probabilities. keras-hub's
blocks decode from their caches in the loop of keras_hub.samplers.GreedySampler, compiled by XLA. What is compared is
measured in turn, one call of one after a call of the other; the medians are printed, and ratios of them.

Seen on 2 cores of an AMD EPYC server (199 GFLOP/s in a product of 2048): keras-hub takes 2.02 to 2.08 times as long for
32 sentences, 2.23 for 64 and 2.55 for 128. Without a cache 256 tokens take 57 times as long, and a beam of 5, which has
log-probabilities, takes 5.25 times as long as greedy decoding, which gives tokens alone.
"""

import argparse
import statistics
import time

from zoo.training.devices import choose_backend

if __name__ == "__main__":
    choose_backend("tensorflow")

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from zoo.architectures.transformer import Transformer
from zoo.generation.decoder import Decoder
from zoo.generation.settings import Decoding
from zoo.tokens import END

DEPTH, WIDTH, HIDDEN, HEADS, VOCABULARY, SOURCE = 4, 128, 256, 4, 10_000, 24


def ours(rows: int, length: int, beam: int = 1, cached: bool = True):
    """A function that decodes ``length`` tokens for each of ``rows`` sources."""
    keras.utils.set_random_seed(1)
    model = Transformer(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        max_length=512,
        depth=DEPTH,
        width=WIDTH,
        feed_forward=HIDDEN,
        num_heads=HEADS,
    )
    model.build()
    model.caches = cached
    decoder = Decoder(model, Decoding(beam=beam, min_length=length, max_length=length), jit=True)
    source = np.random.default_rng(0).integers(4, VOCABULARY, (rows, SOURCE)).astype("int32")

    def decode():
        found = decoder({"source": source}, np.full(rows, SOURCE), scored=False)
        assert all(len(hypotheses[0].tokens) == length for hypotheses in found)

    return decode


def theirs(rows: int, length: int):
    """The same with the blocks of keras-hub, which encode once and decode from their caches."""
    from keras_hub.layers import TokenAndPositionEmbedding, TransformerDecoder, TransformerEncoder

    keras.utils.set_random_seed(1)
    embedding = TokenAndPositionEmbedding(VOCABULARY, 512, WIDTH)
    encoder = [TransformerEncoder(HIDDEN, HEADS, normalize_first=True) for _ in range(DEPTH)]
    decoder = [TransformerDecoder(HIDDEN, HEADS, normalize_first=True) for _ in range(DEPTH)]
    source = tf.constant(np.random.default_rng(0).integers(4, VOCABULARY, (rows, SOURCE)).astype("int32"))
    size = WIDTH // HEADS

    def encode(tokens):
        x = embedding(tokens)
        for layer in encoder:
            x = layer(x)
        return x

    @tf.function(jit_compile=True)
    def run(source):
        memory = encode(source)
        own = ops.zeros((rows, DEPTH, 2, length + 1, HEADS, size))
        across = ops.zeros((rows, DEPTH, 2, SOURCE, HEADS, size))

        def step(tokens, own, across, index, fill):
            token = ops.slice(tokens, (0, index), (rows, 1))
            x = embedding(token, start_index=index)
            owns, acrosses = [], []
            for i, layer in enumerate(decoder):
                x, of_own, of_across = layer(
                    decoder_sequence=x,
                    encoder_sequence=memory,
                    self_attention_cache=own[:, i],
                    self_attention_cache_update_index=index,
                    cross_attention_cache=across[:, i],
                    cross_attention_cache_update_index=0 if fill else None,
                )
                owns.append(of_own)
                acrosses.append(of_across)
            logits = embedding.token_embedding(x, reverse=True)[:, 0]
            logits = ops.where(ops.arange(VOCABULARY) == END, -1e9, logits)
            chosen = ops.cast(ops.argmax(logits, axis=-1), "int32")[:, None]
            tokens = ops.slice_update(tokens, (0, index + 1), chosen)
            return tokens, ops.stack(owns, 1), ops.stack(acrosses, 1)

        tokens = ops.ones((rows, length + 1), "int32")
        tokens, own, across = step(tokens, own, across, 0, True)
        _, tokens, _, _ = ops.while_loop(
            lambda index, *_: index < length,
            lambda index, tokens, own, across: (index + 1, *step(tokens, own, across, index, False)),
            (ops.ones((), "int32"), tokens, own, across),
        )
        return tokens

    return lambda: run(source).numpy()


def in_turn(functions: dict, repeats: int) -> dict[str, float]:
    """Median seconds of each, one call of one after a call of the other, once all are compiled."""
    for function in functions.values():
        function()
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> None:
    """Prints the three comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[32, 64, 128], help="sentences at once")
    parser.add_argument("--repeats", type=int, default=7, help="timed calls of each")
    flags = parser.parse_args()

    def tell(rows, length, first, second, medians):
        a, b = medians[first], medians[second]
        speeds = ", ".join(
            f"{name} {1000 * t:.0f} ms, {rows * length / t:,.0f} tokens/s" for name, t in medians.items()
        )
        print(f"{rows} x {length} tokens: {speeds}; {second} takes {b / a:.2f} times {first}", flush=True)

    for rows in flags.rows:
        pair = {"zoo": ours(rows, 64), "keras-hub": theirs(rows, 64)}
        tell(rows, 64, "zoo", "keras-hub", in_turn(pair, flags.repeats))
    pair = {"cached": ours(32, 256), "uncached": ours(32, 256, cached=False)}
    tell(32, 256, "cached", "uncached", in_turn(pair, max(1, flags.repeats // 3)))
    pair = {"greedy": ours(32, 32), "beam 5": ours(32, 32, beam=5)}
    tell(32, 32, "greedy", "beam 5", in_turn(pair, flags.repeats))


if __name__ == "__main__":
    main()
