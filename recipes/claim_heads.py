"""Heads specialise: how far each head of an encoder looks, after training on number_words.

    zoo claim heads
    zoo train --recipe=claim_heads

Reference:
    Vaswani et al., 2017, "Attention Is All You Need", section 3.2.2.
"""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe() -> Recipe:
    return Recipe(
        task=TaskConfig("number_words"),
        model=ModelConfig(depth=2, width=128, num_heads=8, feed_forward=256, dropout=0.1),
        train=TrainConfig(
            steps=320,
            batch_tokens=2048,
            buckets=2,
            learning_rate=2e-3,
            schedule="cosine",
            warmup_steps=50,
            validate_every=160,
            samples=1,
        ),
    )
