"""Numbers in words, from English to German: the default recipe, with no download."""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe() -> Recipe:
    return Recipe(
        task=TaskConfig("number_words"),
        model=ModelConfig(depth=2, width=128, num_heads=4, feed_forward=512, dropout=0.1),
        train=TrainConfig(
            steps=1000,
            batch_tokens=4096,
            buckets=2,
            learning_rate=2e-3,
            schedule="cosine",
            warmup_steps=100,
            validate_every=250,
            monitor="exact_match",
            decode_validation=64,
            ema=0.99,
        ),
    )
