"""LayerNorm against BatchNorm on text of varying length: number_words, trained with each.

    zoo claim normalization
    zoo train --recipe=claim_normalization

Reference:
    Ba et al., 2016, "Layer Normalization".
"""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe() -> Recipe:
    return Recipe(
        task=TaskConfig("number_words"),
        model=ModelConfig(depth=2, width=128, num_heads=4, feed_forward=256, dropout=0.1),
        train=TrainConfig(
            steps=320,
            batch_tokens=2048,
            buckets=4,
            learning_rate=2e-3,
            schedule="cosine",
            warmup_steps=50,
            validate_every=80,
            decode_validation=100,
            samples=1,
        ),
    )
