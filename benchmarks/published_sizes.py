"""Trains the recipes of published size for a few steps on made-up text, to see that they build, fit and run.

    python benchmarks/published_sizes.py --recipe=wmt14_ende_big --batch_tokens=512

The text has as many different characters as the recipe's vocabulary has tokens, so the embedding has its full size.
"""

import json
import resource
import tempfile
import time
from pathlib import Path

from absl import app, flags

from zoo import recipe as recipes
from zoo.training.devices import choose_backend

RECIPE = flags.DEFINE_string("recipe", "wmt14_ende_base", "one of translation")
BATCH_TOKENS = flags.DEFINE_integer("batch_tokens", 512, "padded positions in a batch", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 2, "optimizer steps", lower_bound=1)
PRECISION = flags.DEFINE_string("precision", "float32", "float32, bfloat16 or float16")
JIT = flags.DEFINE_bool("jit", False, "compile with XLA")


def write_text(folder: Path, options: dict) -> None:
    """Aligned files whose characters are many, and each of which is in the vocabulary."""
    letters = [chr(code) for first, last in ((0x3400, 0x9FFF), (0xAC00, 0xD7A3)) for code in range(first, last + 1)]
    letters = letters[: options["vocabulary"] - 5]  # the reserved tokens and the mark of a word's begin are the rest
    lines = ["".join(letters[i : i + 20]) for i in range(0, len(letters), 20)]
    for stem, part in (("train", lines), (options["valid"], lines[:8]), (options["test"], lines[:8])):
        for language in ("en", "de"):
            (folder / f"{stem}.{language}").write_text("\n".join(part) + "\n", encoding="utf-8")


def measure(name: str, workdir: Path, changes: dict) -> dict:
    """Trains ``name`` at its full size and gives what it took."""
    choose_backend(None)
    from zoo.training import checkpoint
    from zoo.training.run_directory import RunDirectory
    from zoo.training.train import train

    recipe = recipes.load(name)
    folder = workdir / "text"
    folder.mkdir()
    write_text(folder, recipe.task.options)
    recipe = recipe.override(
        {
            "task.data_dir": str(folder),
            "task.options.subwords": "char",
            "train.validate_every": changes["train.steps"],
            "train.buckets": 1,
            "train.samples": 0,
            **changes,
        }
    )
    start = time.monotonic()
    result = train(recipe, workdir / "run")
    seconds = time.monotonic() - start
    weights, _ = checkpoint.read(RunDirectory(workdir / "run").best)
    return {
        "recipe": name,
        "parameters": sum(value.size for value in weights.values()),
        "vocabulary": len(weights["transformer/target_embedding/table"]),
        "loss": result["loss"],
        "valid_loss": result["valid_loss"],
        "seconds": round(seconds, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def main(argv: list[str]) -> None:
    """Prints what one recipe took, as JSON."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected {argv[1]!r}; a flag is written --flag=value")
    with tempfile.TemporaryDirectory() as folder:
        changes = {
            "train.steps": STEPS.value,
            "train.batch_tokens": BATCH_TOKENS.value,
            "train.precision": PRECISION.value,
            "train.jit": JIT.value,
        }
        print(json.dumps(measure(RECIPE.value, Path(folder), changes), indent=2))


if __name__ == "__main__":
    app.run(main)
