"""The language of benchmarks/extrapolation.py: a task in which a longer context tells more of what comes next."""

import itertools
import math

import numpy as np
import tensorflow as tf

from zoo import registry
from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig
from zoo.tasks.base import Batches, Task
from zoo.tasks.token_losses import SmoothedCrossEntropy, token_metrics
from zoo.tokens import BEGIN


@registry.task.register("markov_chains")
class MarkovChains(Task):
    """Sequences that are each drawn from a Markov chain of its own, which a model has to find out as it reads.

    Args:
        symbols: states of a chain.
        concentration: of the Dirichlet distribution that a symbol's successors are drawn from; the smaller, the more
            predictable they are.
        longest: symbols of each sequence.
        size: sequences to validate and to test on.

    Reference:
        Edelman et al., 2024, "The Evolution of Statistical Induction Heads: In-Context Learning Markov Chains".
    """

    layouts = frozenset({"decoder"})
    teacher_forced_metrics = {"token_nll": False, "token_accuracy": True}

    def __init__(self, *, symbols: int = 8, concentration: float = 0.1, longest: int = 32, size: int = 512, **kwargs):
        super().__init__(**kwargs)
        self.symbols = symbols
        self.concentration = concentration
        self.longest = longest
        self.size = size

    def prepare(self, directory):
        pass  # there is nothing to keep

    def restore(self, directory):
        pass  # nor to read again

    def spec(self, layout):
        return {"vocabulary": BEGIN + 1 + self.symbols, "max_length": self.longest}

    def loss(self, label_smoothing):
        return SmoothedCrossEntropy(label_smoothing)

    def metrics(self):
        return token_metrics()

    def pairs(self, split):
        return [], []  # nothing is decoded

    def batches(self, split, layout, batch_tokens, *, seed=None, step=0, **_):
        rows = max(1, batch_tokens // self.longest)
        if seed is None:
            dataset = tf.data.Dataset.from_tensor_slices(_laid_out(self.sequences(split))).batch(rows)
        else:

            def stream():
                for i in itertools.count(step):
                    yield _laid_out(self.draw(np.random.default_rng([seed, i]), rows))

            ids, weights = (tf.TensorSpec((rows, self.longest), dtype) for dtype in (tf.int32, tf.float32))
            dataset = tf.data.Dataset.from_generator(stream, output_signature=({"tokens": ids}, ids, weights))
        return Batches(
            dataset=dataset.prefetch(4),
            steps=-(-self.size // rows),
            examples=self.size,
            tokens=rows * self.longest,
            shapes=((rows, self.longest),),
        )

    def sequences(self, split: str) -> np.ndarray:
        """Those to measure on, (size, longest); the shorter ones are the beginnings of the longer ones."""
        return self.draw(np.random.default_rng([self.seed, *split.encode()]), self.size)

    def draw(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        """(rows, longest) symbols, each row by a chain of its own."""
        chains = rng.dirichlet(np.full(self.symbols, self.concentration), (rows, self.symbols))  # (B, V, V)
        bounds = chains.cumsum(-1)[:, :, :-1]  # the last would be 1, but for rounding
        symbols = [rng.integers(self.symbols, size=rows)]
        for _ in range(self.longest - 1):
            drawn = rng.random((rows, 1))
            symbols.append((drawn > bounds[np.arange(rows), symbols[-1]]).sum(-1))
        return np.stack(symbols, axis=1)

    def optimum(self, split: str) -> float:
        """The least negative log-likelihood per symbol that who knows all but the chains can have.

        A symbol is then as likely as it has followed the last one before, with the concentration added to each count.
        """
        sequences = self.sequences(split)
        rows = np.arange(len(sequences))
        counts = np.full((len(rows), self.symbols, self.symbols), self.concentration)
        total = len(rows) * math.log(self.symbols)  # of the first symbols
        for last, symbol in itertools.pairwise(sequences.T):
            seen = counts[rows, last]  # (B, V)
            total -= np.log(seen[rows, symbol] / seen.sum(-1)).sum()
            counts[rows, last, symbol] += 1
        return float(total / sequences.size)


def _laid_out(symbols: np.ndarray) -> tuple:
    """Inputs, labels and weights of a batch: every symbol is asked for, given a begin and those before it."""
    labels = (symbols + BEGIN + 1).astype("int32")
    tokens = np.pad(labels[:, :-1], ((0, 0), (1, 0)), constant_values=BEGIN)
    return {"tokens": tokens}, labels, np.ones(labels.shape, "float32")


def markov_chains() -> Recipe:
    """A small decoder of MarkovChains."""
    return Recipe(
        task=TaskConfig("markov_chains"),
        model=ModelConfig(depth=2, width=64, num_heads=4, feed_forward=128, dropout=0.0),
        train=TrainConfig(
            steps=1200,
            batch_tokens=2048,
            learning_rate=3e-3,
            schedule="cosine",
            warmup_steps=100,
            validate_every=400,
            label_smoothing=0.0,
            samples=0,
            jit=False,
        ),
    )
