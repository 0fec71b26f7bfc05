"""Multi30k, English to German, on raw, cased text: the recipe `multi30k`, but for its files.

    zoo train --recipe=multi30k_raw
    zoo evaluate --workdir=runs/multi30k_raw

The number is cased sacreBLEU, which other systems' output can be compared with, as that of `multi30k` cannot. Without
--data_dir the text is downloaded; a folder that has train.en, train.de and the rest is used with --data_dir.

MEASURED
"""

from zoo.recipe import Recipe, load


def get_recipe() -> Recipe:
    return load("multi30k").override(
        {
            "task.options.train": "train",
            "task.options.valid": "val",
            "task.options.test": "test_2016_flickr",
            "task.options.bleu_tokenize": "13a",
        }
    )
