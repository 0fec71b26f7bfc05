"""WMT 2014 English to German: the published big Transformer, for GPUs.

    zoo train --recipe=wmt14_ende_big --data_dir=FOLDER --precision=bfloat16
    zoo evaluate --workdir=runs/wmt14_ende_big

FOLDER is that of wmt14_ende_base. Published: 28.4 BLEU on newstest 2014 after 300,000 steps, 3.5 days on 8 P100, with
a beam of 4 and the last 20 checkpoints averaged. Not trained here: what was run is its full size, two steps.

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
            depth=6, width=1024, num_heads=16, feed_forward=4096, dropout=0.3, options={"norm_first": False}
        ),
        train=TrainConfig(
            steps=300_000,
            batch_tokens=25_000,
            buckets=8,
            schedule="noam",  # with the published peak, (1024 * 4000) ** -0.5
            warmup_steps=4000,
            label_smoothing=0.1,
            ema=0.9995,  # in place of the published average of the last 20 checkpoints
            validate_every=1000,
        ),
    )
