"""Numbers in words, from English to German, with heads that talk.

    zoo train --recipe=talking_heads/number_words
    zoo evaluate --workdir=runs/talking_heads/number_words

The built-in recipe of that name with another kind of attention in encoder and decoder. Measured: 99.75 % of 2,000
unseen numbers right, as many as with heads that do not talk, after 86 s of training on 2 CPU cores that had other work
at the time.

Reference:
    Shazeer et al., 2020, "Talking-Heads Attention".
"""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe() -> Recipe:
    """The built-in ``number_words`` with heads that talk."""
    return Recipe(
        task=TaskConfig("number_words"),
        model=ModelConfig(attention="talking_heads", depth=2, width=128, num_heads=4, feed_forward=256, dropout=0.1),
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
    )
