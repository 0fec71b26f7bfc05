"""Heads specialise: how far each head of an encoder looks, after training on number_words.

    zoo claim heads
    zoo train --recipe=claim_heads

Measured, seed 1: in the second layer the heads look from 1.06 to 2.05 tokens far on average, where no preference would
be 2.29.

Reference:
    Vaswani et al., 2017, "Attention Is All You Need", section 3.2.2.
"""

from zoo.recipe import Recipe, load


def get_recipe() -> Recipe:
    return load("number_words").override(
        {
            "model.num_heads": 8,
            "train.ema": None,
            "train.validate_every": 160,
            "train.decode_validation": 0,
            "train.samples": 1,
        }
    )
