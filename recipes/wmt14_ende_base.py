"""WMT 2014 English to German: the published base Transformer, for GPUs.

    zoo train --recipe=wmt14_ende_base --data_dir=FOLDER --precision=bfloat16
    zoo evaluate --workdir=runs/wmt14_ende_base

FOLDER holds files of aligned lines: train.en, train.de (4.5 million pairs), newstest2013.en, newstest2013.de and
newstest2014.en, newstest2014.de, gzipped or not. Published: 27.3 BLEU on newstest 2014 after 100,000 steps, 12 hours
on 8 P100, with a beam of 4 and the last 5 checkpoints averaged. Not trained here: what was run is its full size, two
steps.

Reference:
    Vaswani et al., 2017, "Attention Is All You Need", tables 2 and 3.
"""

from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig


def get_recipe() -> Recipe:
    return Recipe(
        task=TaskConfig(
            "translation",
            options={"valid": "newstest2013", "test": "newstest2014", "vocabulary": 37000, "max_length": 256},
        ),
        model=ModelConfig(
            depth=6, width=512, num_heads=8, feed_forward=2048, dropout=0.1, options={"norm_first": False}
        ),
        train=TrainConfig(
            steps=100_000,
            batch_tokens=25_000,
            buckets=8,
            schedule="noam",  # with the published peak, (512 * 4000) ** -0.5
            warmup_steps=4000,
            label_smoothing=0.1,
            ema=0.999,  # in place of the published average of the last 5 checkpoints
            validate_every=1000,
        ),
    )
