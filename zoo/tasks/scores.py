"""Metrics on decoded text."""

from typing import Any

from zoo.errors import InputError, near


def exact_match(outputs: list[str], references: list[str]) -> float:
    """Share of the outputs that equal their reference, from 0 to 1."""
    return sum(o == r for o, r in zip(outputs, references, strict=True)) / max(len(references), 1)


def require_tokenizer(name: str) -> None:
    """Sees that sacreBLEU has a tokenizer of that name, with what it needs.

    Raises:
        InputError: it has none, or something is to be installed first.
    """
    from sacrebleu.metrics import BLEU

    if name not in BLEU.TOKENIZERS:
        raise InputError(f"sacreBLEU has no tokenizer {name!r}{near(name, BLEU.TOKENIZERS)}; see sacrebleu --help")
    if name.endswith("-mecab"):  # others need nothing more, or download it
        try:
            BLEU(tokenize=name)
        except (RuntimeError, ImportError) as error:
            raise InputError(f"sacreBLEU's tokenizer {name!r}: {' '.join(str(error).split())}") from error


def bleu(outputs: list[str], references: list[str], tokenize: str = "13a") -> dict[str, Any]:
    """BLEU and chrF of decoded text by sacreBLEU, with the signatures that make the numbers comparable.

    Args:
        outputs: (N,) texts.
        references: (N,) texts, one for each.
        tokenize: sacreBLEU's tokenizer; "none" for text that is tokenised already.

    Reference:
        Post, 2018, "A Call for Clarity in Reporting BLEU Scores"; Popovic, 2015, "chrF".
    """
    from sacrebleu.metrics import BLEU, CHRF  # slow to import

    # force: tokenised text is what a caller of tokenize="none" has, so sacreBLEU need not warn of it
    metrics = {"bleu": BLEU(tokenize=tokenize, force=tokenize == "none"), "chrf": CHRF()}
    result: dict[str, Any] = {}
    for name, metric in metrics.items():
        result[name] = metric.corpus_score(outputs, [references]).score
        result[f"{name}_signature"] = str(metric.get_signature())
    return result
