"""Learning-rate schedules."""

import math

import keras
from keras import ops

from zoo.errors import InputError, near
from zoo.recipe import TrainConfig

NAMES = ("noam", "cosine", "constant")
OPTIMIZERS = ("adam", "adamw")

#: Names of the weights that are looked up: of tokens, positions and distances.
_TABLES = ("table", "rows", "columns", "distance_keys", "distance_values")


@keras.saving.register_keras_serializable("zoo")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up to ``peak``, then one of three ways on.

    With s the step, counted from 1, and w the steps of the warm-up:

    "noam"      peak * min(s / w, sqrt(w / s)); the published form d^-0.5 min(s^-0.5, s w^-1.5) has
                peak = (d w)^-0.5
    "cosine"    peak * s / w, then half a cosine down to zero at ``steps``
    "constant"  peak * min(s / w, 1)

    Args:
        kind: "noam", "cosine" or "constant".
        peak: the highest learning rate.
        warmup_steps: w.
        steps: where "cosine" comes to zero.

    Reference:
        Vaswani et al., 2017, section 5.3; Loshchilov and Hutter, 2017, "SGDR", for the cosine.
    """

    def __init__(self, kind: str, peak: float, warmup_steps: int, steps: int):
        super().__init__()
        if kind not in NAMES:
            raise InputError(f"unknown schedule {kind!r}{near(kind, NAMES)}; there are: {', '.join(NAMES)}")
        self.kind = kind
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.steps = steps

    def __call__(self, step):
        s = ops.cast(step, "float32") + 1.0  # Keras counts from 0
        w = float(max(self.warmup_steps, 1))
        factor = ops.minimum(s / w, 1.0)
        if self.kind == "noam":
            factor = ops.minimum(s / w, ops.sqrt(w / s))
        elif self.kind == "cosine":
            progress = ops.clip((s - w) / max(self.steps - w, 1.0), 0.0, 1.0)
            factor = factor * 0.5 * (1.0 + ops.cos(math.pi * progress))
        return self.peak * factor

    def get_config(self):
        return {"kind": self.kind, "peak": self.peak, "warmup_steps": self.warmup_steps, "steps": self.steps}


def make_schedule(train: TrainConfig, width: int) -> WarmupSchedule:
    """The schedule of a recipe; the published peak for "noam" when it names none."""
    peak = train.learning_rate
    if peak is None:
        if train.schedule != "noam":
            raise InputError(f"train.learning_rate is needed with the schedule {train.schedule!r}")
        peak = (width * max(train.warmup_steps, 1)) ** -0.5
    if train.decay_steps is not None and (train.schedule != "cosine" or train.decay_steps < train.steps):
        raise InputError(
            f"train.decay_steps is where the schedule cosine comes to zero, at step {train.steps}, the last, or later; "
            f"it is {train.decay_steps} with the schedule {train.schedule}"
        )
    return WarmupSchedule(train.schedule, peak, train.warmup_steps, train.decay_steps or train.steps)


def make_optimizer(train: TrainConfig, width: int) -> keras.optimizers.Optimizer:
    """The optimizer of a recipe; weight decay spares biases, norms and embeddings."""
    settings = {
        "learning_rate": make_schedule(train, width),
        "beta_1": train.beta_1,
        "beta_2": train.beta_2,
        "epsilon": train.epsilon,
        "global_clipnorm": train.clip_norm,
        "use_ema": train.ema is not None,
        "ema_momentum": train.ema or 0.99,
    }
    if train.optimizer == "adam":
        return keras.optimizers.Adam(**settings)
    optimizer = keras.optimizers.AdamW(weight_decay=train.weight_decay, **settings)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "scale", *_TABLES])
    return optimizer
