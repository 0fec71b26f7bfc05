"""Generated tasks that need no data: copying and reversing."""

import random

from zoo import registry
from zoo.errors import InputError, MissingMethodError
from zoo.tasks.scores import exact_match
from zoo.tasks.text_pairs import TextPairs

SYMBOLS = "abcdefghijklmnopqrstuvwxyz"


class Algorithmic(TextPairs):
    """Base of the tasks whose target is a function of a random string.

    Args:
        symbols: distinct letters.
        shortest, longest: lengths of the strings, drawn evenly.
        train_size, valid_size, test_size: pairs of each split; no string is in two of them.
    """

    layouts = frozenset({"encoder_decoder", "decoder", "encoder"})
    decoded_metrics = {"exact_match": True}

    def __init__(
        self,
        *,
        symbols: int = 8,
        shortest: int = 4,
        longest: int = 12,
        train_size: int = 4000,
        valid_size: int = 200,
        test_size: int = 500,
        vocabulary: int = 64,
        subwords: str = "char",
        max_length: int = 32,
        **kwargs,
    ):
        super().__init__(vocabulary=vocabulary, subwords=subwords, max_length=max_length, **kwargs)
        if not 1 <= symbols <= len(SYMBOLS):
            raise InputError(f"symbols must be from 1 to {len(SYMBOLS)}, not {symbols}")
        if not 1 <= shortest <= longest < max_length:
            raise InputError(
                f"1 <= shortest <= longest < max_length must hold, not {shortest}, {longest}, {max_length}"
            )
        self.symbols = SYMBOLS[:symbols]
        self.shortest = shortest
        self.longest = longest
        self.require_sizes(train_size=train_size, valid_size=valid_size, test_size=test_size)
        self.sizes = {"train": train_size, "valid": valid_size, "test": test_size}

    def answer(self, source: str) -> str:
        """The target of a source."""
        raise MissingMethodError(f"{type(self).__name__} must define answer")

    def read(self, split):
        rng = random.Random(f"{self.seed} {self.symbols} {self.shortest} {self.longest}")
        needed = sum(self.sizes.values())
        strings: dict[str, None] = {}  # a set that keeps its order
        for _ in range(20 * needed):
            if len(strings) == needed:
                break
            strings["".join(rng.choices(self.symbols, k=rng.randint(self.shortest, self.longest)))] = None
        if len(strings) < needed:
            raise InputError(f"there are not {needed} different strings; raise symbols or longest, or lower the sizes")
        first = {"test": 0, "valid": self.sizes["test"], "train": self.sizes["test"] + self.sizes["valid"]}[split]
        sources = list(strings)[first : first + self.sizes[split]]
        return sources, [self.answer(source) for source in sources]

    def score(self, outputs, references, sources):
        return {"exact_match": exact_match(outputs, references)}


@registry.task.register("copy")
class Copy(Algorithmic):
    """The source again."""

    def answer(self, source):
        return source


@registry.task.register("reverse")
class Reverse(Algorithmic):
    """The source backwards."""

    def answer(self, source):
        return source[::-1]
