"""Numbers spelled out in one language and in another."""

import math
import random

from zoo import registry
from zoo.errors import InputError, near
from zoo.tasks.scores import exact_match
from zoo.tasks.text_pairs import TextPairs


@registry.task.register("number_words")
class NumberWords(TextPairs):
    """Numbers spelled out in one language and in another: "twenty-three" and "dreiundzwanzig".

    The pairs are made by rule, with num2words, so nothing is downloaded. Numbers to train on are drawn log-uniformly,
    else small ones would be rare; of every magnitude some are held out, for validation and for testing.

    Args:
        source_language, target_language: any that num2words has.
        digits: the numbers have from 1 to this many digits.
        train_size, valid_size, test_size: numbers of each split.
    """

    decoded_metrics = {"exact_match": True}

    def __init__(
        self,
        *,
        source_language: str = "en",
        target_language: str = "de",
        digits: int = 6,
        train_size: int = 12000,
        valid_size: int = 500,
        test_size: int = 2000,
        vocabulary: int = 200,
        max_length: int = 64,
        **kwargs,
    ):
        super().__init__(vocabulary=vocabulary, max_length=max_length, **kwargs)
        if not 1 <= digits <= 12:
            raise InputError(f"digits must be from 1 to 12, not {digits}")
        self.languages = (source_language, target_language)
        self.digits = digits
        self.require_sizes(train_size=train_size, valid_size=valid_size, test_size=test_size)
        self.sizes = {"test": test_size, "valid": valid_size, "train": train_size}

    def read(self, split):
        numbers = self.numbers()[split]
        source, target = self.languages
        return [spell(n, source) for n in numbers], [spell(n, target) for n in numbers]

    def numbers(self) -> dict[str, list[int]]:
        """The numbers of each split; none is in two of them.

        Test and validation take equally many of each magnitude, as far as a tenth of the magnitude goes, in no order.
        """
        rng = random.Random(self.seed)
        splits: dict[str, list[int]] = {}
        taken: set[int] = set()
        for split in ("test", "valid"):
            splits[split] = []
            for digits in range(1, self.digits + 1):  # small magnitudes first; large ones make up for them
                low, high = (0 if digits == 1 else 10 ** (digits - 1)), 10**digits
                share = (self.sizes[split] - len(splits[split])) // (self.digits - digits + 1)
                free = high - low if high - low > 10**6 else [n for n in range(low, high) if n not in taken]
                count = min(share, max((high - low) // 10, 1))
                chosen = _sample(rng, low, high, count, taken) if isinstance(free, int) else rng.sample(free, count)
                splits[split] += chosen
                taken |= set(chosen)
            random.Random(self.seed).shuffle(splits[split])  # so that the first ones are of all magnitudes
        train: list[int] = []
        while len(train) < self.sizes["train"]:  # with repetition: that is what makes small numbers common
            number = int(math.exp(rng.uniform(0, self.digits * math.log(10)))) - 1
            if number not in taken:
                train.append(number)
        return splits | {"train": train}

    def score(self, outputs, references, sources):
        result = {"exact_match": exact_match(outputs, references)}
        digits_of = {
            spell(n, self.languages[0]): len(str(n)) for split in ("valid", "test") for n in self.numbers()[split]
        }
        magnitudes = [digits_of.get(source) for source in sources]
        for digits in range(1, self.digits + 1):
            rows = [i for i, magnitude in enumerate(magnitudes) if magnitude == digits]
            if rows:
                share = exact_match([outputs[i] for i in rows], [references[i] for i in rows])
                result[f"exact_match_{digits}_digits"] = share
        return result


def _sample(rng: random.Random, low: int, high: int, count: int, taken: set[int]) -> list[int]:
    """Different numbers from a range too wide to list."""
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        number = rng.randrange(low, high)
        if number not in taken:
            chosen[number] = None
    return list(chosen)


def spell(number: int, language: str) -> str:
    """A number in words.

    Raises:
        InputError: num2words has no such language.
    """
    import num2words

    try:
        return num2words.num2words(number, lang=language)
    except NotImplementedError as error:
        known = sorted(num2words.CONVERTER_CLASSES)
        raise InputError(
            f"num2words cannot spell {number} in {language!r}{near(language, known)}; there are: {', '.join(known)}"
        ) from error
