"""Copying random strings with a decoder whose memory does not grow with their length.

    zoo train --recipe=linear_attention/copy
    zoo evaluate --workdir=runs/copy

Measured: TODO.

Reference:
    Katharopoulos et al., 2020, "Transformers are RNNs", section 4.1, where strings of up to 128 symbols are copied.
"""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe() -> Recipe:
    """One stack over a string and its copy, decoded step by step from the state."""
    return Recipe(
        task=TaskConfig("copy"),
        model=ModelConfig(
            architecture="decoder_only",
            attention="linear_attention",
            depth=2,
            width=64,
            num_heads=4,
            feed_forward=128,
            dropout=0.0,
        ),
        train=TrainConfig(
            steps=600,
            batch_tokens=2048,
            buckets=1,
            learning_rate=3e-3,
            schedule="cosine",
            warmup_steps=60,
            validate_every=100,
            decode_validation=100,
            label_smoothing=0.0,
        ),
    )
