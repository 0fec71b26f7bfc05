"""LayerNorm against BatchNorm on text of varying length: number_words, trained with each.

    zoo claim normalization
    zoo train --recipe=claim_normalization

Reference:
    Ba et al., 2016, "Layer Normalization".
"""

from zoo.recipe import Recipe, load


def get_recipe() -> Recipe:
    return load("number_words").override(
        {
            "train.buckets": 4,
            "train.ema": None,
            "train.samples": 1,
        }
    )
