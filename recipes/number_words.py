"""Numbers in words, from English to German: the default recipe, with no download.

    zoo train --recipe=number_words
    zoo evaluate --workdir=runs/number_words

Trained on 12,000 numbers of up to six digits, tested on 2,000 others of every magnitude. The pairs are made by rule,
so a small model gets all but a few right; what it has to learn is the crossing, as in "twenty-three" and
"dreiundzwanzig". Measured: 99.75 % exact match after 50 s of training on 2 CPU cores, and 25 s of compiling; the one
number of a single digit that is held out, "two", comes out as "zweitausend".

Reference:
    Vaswani et al., 2017, "Attention Is All You Need", for the model.
"""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe() -> Recipe:
    return Recipe(
        task=TaskConfig("number_words"),
        model=ModelConfig(depth=2, width=128, num_heads=4, feed_forward=256, dropout=0.1),
        train=TrainConfig(
            steps=320,
            batch_tokens=2048,
            buckets=2,
            learning_rate=2e-3,
            schedule="cosine",
            warmup_steps=50,
            ema=0.98,
            validate_every=80,
            decode_validation=100,
        ),
        search={
            "model.num_heads": (1, 2, 4, 8),
            "model.depth": (1, 2, 4),
            "model.position": ("none", "sinusoidal", "learned", "rotary", "alibi"),
            "model.attention": "multi_head,relative if model.position=none",
        },
    )
