"""How outputs are searched for or drawn."""

import numbers
from dataclasses import dataclass

from zoo.errors import InputError


@dataclass(frozen=True)
class Decoding:
    """The settings of a decoder. The defaults are greedy: the most likely token at every step.

    Attributes:
        beam: hypotheses kept at every step, K; 1 is no beam.
        length_penalty: alpha of Wu et al.: hypotheses compete by log-probability / ((5 + tokens) / 6) ** alpha.
        n_best: outputs for each input at most, of a beam at least as wide.
        sample: draw each token rather than take the most likely.
        temperature: what logits are divided by before a token is drawn.
        top_k: draw from this many of the most likely tokens.
        top_p: draw from the fewest tokens that hold this much of the probability.
        seed: of the draws. A draw depends on it, on the place of the input and on the step, not on the batch.
        min_length, max_length: tokens of an output, its end not counted; without a maximum, what the decoder adds to
            the length of its source.
        no_repeat_ngram: no sequence of so many tokens comes twice in an output; 0 for no such rule.

    Raises:
        InputError: a value out of its range, or settings that don't go together.

    Reference:
        Wu et al., 2016, "Google's Neural Machine Translation System", section 7; Fan et al., 2018, "Hierarchical
        Neural Story Generation" for ``top_k``; Holtzman et al., 2020, "The Curious Case of Neural Text Degeneration"
        for ``top_p``; Paulus et al., 2018, "A Deep Reinforced Model for Abstractive Summarization", section 2.5, for
        ``no_repeat_ngram``.
    """

    beam: int = 1
    length_penalty: float = 0.6
    n_best: int = 1
    sample: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 1
    min_length: int = 0
    max_length: int | None = None
    no_repeat_ngram: int = 0

    def __post_init__(self):
        for name in ("beam", "n_best", "top_k", "seed", "min_length", "max_length", "no_repeat_ngram"):
            value = getattr(self, name)
            whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
            if not whole and not (value is None and name in ("top_k", "max_length")):
                raise InputError(f"{name} must be a whole number, not {value!r}")
        for name in ("length_penalty", "temperature", "top_p"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Real) and not (value is None and name == "top_p"):
                raise InputError(f"{name} must be a number, not {value!r}")
        if not isinstance(self.sample, bool):
            raise InputError(f"sample must be True or False, not {self.sample!r}")
        for name, least in (("beam", 1), ("n_best", 1), ("top_k", 1), ("max_length", 1), ("length_penalty", 0)):
            value = getattr(self, name)
            if value is not None and not (value >= least and value < float("inf")):
                raise InputError(f"{name} must be at least {least}, not {value}")
        for name in ("min_length", "no_repeat_ngram", "seed"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} must be at least 0, not {getattr(self, name)}")
        if not 1e-6 <= self.temperature <= 1e6:
            raise InputError(f"temperature must be from 1e-6 to 1e6, not {self.temperature}; greedy is without sample")
        for name in ("beam", "max_length"):
            value = getattr(self, name)
            if value is not None and value > 10**6:
                raise InputError(f"{name} must be at most {10**6}, not {value}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if self.max_length is not None and self.min_length > self.max_length:
            raise InputError(f"min_length {self.min_length} is above max_length {self.max_length}")
        if self.sample and self.beam > 1:
            raise InputError("a beam searches and a sample is drawn: set beam to 1, or leave out sample")
        if self.sample and self.n_best > 1:
            raise InputError("n_best is of a beam; for several draws of a text give it several times")
        if self.n_best > self.beam:
            raise InputError(f"n_best {self.n_best} needs a beam at least as wide, and it is {self.beam}")
        if not self.sample and (self.top_k is not None or self.top_p is not None or self.temperature != 1):
            raise InputError("temperature, top_k and top_p are of drawn outputs; set sample, or leave them out")

    def __str__(self) -> str:
        """As a short line: "beam 5, length penalty 0.6"."""
        words = ["sampling" if self.sample else "greedy"]
        if self.beam > 1:
            words = [f"beam {self.beam}", f"length penalty {self.length_penalty}"]
        if self.sample:
            shown = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "seed")}
            words += [f"{name} {value}" for name, value in shown.items() if value is not None]
        for name in ("min_length", "max_length", "no_repeat_ngram"):
            if getattr(self, name):
                words.append(f"{name} {getattr(self, name)}")
        return ", ".join(words)
