"""Copying random strings with a decoder whose memory does not grow with their length.

    zoo train --recipe=linear_attention/copy
    zoo evaluate --workdir=runs/linear_attention/copy

Measured: 99.6 % of 500 unseen strings copied to the letter after 36 s of training on 2 CPU cores that had other work
at the time.

Reference:
    Katharopoulos et al., 2020, "Transformers are RNNs", section 4.1, where strings of up to 128 symbols are copied.
"""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe() -> Recipe:
    """One stack over a string and its copy, decoded step by step from the state."""
    return Recipe(
        task=TaskConfig("copy", options={"train_size": 12000}),
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
            steps=900,
            batch_tokens=2048,
            buckets=1,
            learning_rate=1e-2,
            schedule="cosine",
            warmup_steps=60,
            validate_every=150,
            label_smoothing=0.0,
        ),
    )
