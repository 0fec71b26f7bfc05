"""Translation, from files of aligned lines."""

import sys
from pathlib import Path

from zoo import registry
from zoo.errors import InputError
from zoo.tasks import multi30k
from zoo.tasks.aligned_files import has_lines, read_aligned
from zoo.tasks.scores import bleu, require_tokenizer
from zoo.tasks.text_pairs import TextPairs


@registry.task.register("translation")
class Translation(TextPairs):
    """Translation, from files of aligned lines: ``train.en`` and ``train.de`` in a folder, gzipped or not.

    Args:
        data_dir: the folder, or None to download the ``corpus``.
        source_language, target_language: the ends of the file names.
        train, valid, test: the stems of the file names.
        corpus: what to download when there is no ``data_dir``: "multi30k", or None.
        longest_words: leave out pairs with more words than this on either side, or None.
        bleu_tokenize: sacreBLEU's tokenizer; "none" for text that is tokenised already.
    """

    decoded_metrics = {"bleu": True, "chrf": True}

    def __init__(
        self,
        *,
        data_dir: str | None = None,
        source_language: str = "en",
        target_language: str = "de",
        train: str = "train",
        valid: str = "val",
        test: str = "test",
        corpus: str | None = None,
        longest_words: int | None = None,
        bleu_tokenize: str = "13a",
        vocabulary: int = 8000,
        **kwargs,
    ):
        super().__init__(vocabulary=vocabulary, **kwargs)
        if bleu_tokenize not in ("13a", "none"):  # importing sacreBLEU takes a while
            require_tokenizer(bleu_tokenize)
        self.data_dir = data_dir
        if corpus not in (None, "multi30k"):
            raise InputError(f"unknown corpus {corpus!r}; there is: multi30k")
        if corpus is None and self.data_dir is None:
            raise InputError(
                f"no data: give --data_dir=FOLDER that has {train}.{source_language} and {train}.{target_language}"
            )
        self.languages = (source_language, target_language)
        self.stems = {"train": train, "valid": valid, "test": test}
        self.corpus = corpus
        self.longest_words = longest_words
        self.bleu_tokenize = bleu_tokenize

    def prepare(self, directory):
        missing = [
            f"{self.stems['test']}.{language}"
            for language in self.languages
            if self.data_dir is not None
            and Path(self.data_dir).is_dir()
            and not has_lines(Path(self.data_dir), self.stems["test"], language)
        ]
        if missing:
            print(
                f"zoo: warning: {self.data_dir!r} has no {missing[0]}, and `zoo evaluate` will ask for it: name the "
                "files with task.options.test, or give it --split=valid or --source and --reference",
                file=sys.stderr,
            )
        super().prepare(directory)

    def read(self, split):
        stem = self.stems[split]
        folder = multi30k.download(stem, self.languages) if self.data_dir is None else Path(self.data_dir)
        sources, targets = read_aligned(folder, stem, self.languages)
        if self.longest_words is not None:
            kept = [
                (s, t)
                for s, t in zip(sources, targets, strict=True)
                if max(len(s.split()), len(t.split())) <= self.longest_words
            ]
            if not kept:
                raise InputError(
                    f"no {split} pair has at most {self.longest_words} words; raise task.options.longest_words"
                )
            sources, targets = ([pair[side] for pair in kept] for side in (0, 1))
        return sources, targets

    def score(self, outputs, references, sources):
        return bleu(outputs, references, self.bleu_tokenize)
