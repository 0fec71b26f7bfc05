"""The loss and the teacher-forced metrics of token prediction, all from the same two sums over the vocabulary."""

import keras
from keras import ops


def log_normalizer(logits):
    """The log of the sum of exponentials over the vocabulary: (B, T, V) -> (B, T), float32."""
    return ops.logsumexp(ops.cast(logits, "float32"), axis=-1)


def logit_of(labels, logits):
    """The logit of each label: int (B, T), (B, T, V) -> (B, T), float32."""
    index = ops.expand_dims(ops.cast(labels, "int32"), -1)
    return ops.cast(ops.squeeze(ops.take_along_axis(logits, index, axis=-1), -1), "float32")


@keras.saving.register_keras_serializable("zoo")
class SmoothedCrossEntropy(keras.losses.Loss):
    """Cross-entropy against labels that keep 1 - e of their mass and spread e evenly over the vocabulary.

    In closed form, logsumexp(z) - (1 - e) z_label - e mean(z), so no one-hot tensor is built. Averaged over the
    tokens that have weight.

    Args:
        label_smoothing: e.

    Reference:
        Szegedy et al., 2016, "Rethinking the Inception Architecture for Computer Vision", section 7.
    """

    def __init__(self, label_smoothing: float = 0.0, name: str = "loss"):
        super().__init__(name=name, reduction="mean_with_sample_weight")
        self.label_smoothing = label_smoothing

    def __call__(self, y_true, y_pred, sample_weight=None):
        loss = super().__call__(y_true, y_pred, sample_weight)
        return loss if sample_weight is None else loss * share_of_replica(sample_weight)

    def call(self, y_true, y_pred):
        loss = log_normalizer(y_pred) - (1.0 - self.label_smoothing) * logit_of(y_true, y_pred)
        if self.label_smoothing:
            loss = loss - self.label_smoothing * ops.mean(ops.cast(y_pred, "float32"), axis=-1)
        return loss

    def get_config(self):
        return {"label_smoothing": self.label_smoothing, "name": self.name}


def share_of_replica(weights):
    """The weight of this replica's tokens over the mean of all replicas: tf.distribute averages their means evenly."""
    if keras.backend.backend() != "tensorflow":
        return 1.0
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return 1.0
    total = tf.reduce_sum(weights)
    return tf.math.divide_no_nan(total, replica.all_reduce("MEAN", total))


@keras.saving.register_keras_serializable("zoo")
def token_nll(y_true, y_pred):
    """Negative log-likelihood of each token, in nats, given the right tokens before it (teacher-forced)."""
    return log_normalizer(y_pred) - logit_of(y_true, y_pred)


@keras.saving.register_keras_serializable("zoo")
def token_accuracy(y_true, y_pred):
    """1 where the right token has the highest logit, given the right tokens before it (teacher-forced).

    A tie counts as right. By comparing with the maximum, which vectorises, rather than with the argmax, which does not.
    """
    highest = ops.cast(ops.max(y_pred, axis=-1), "float32")
    return ops.cast(ops.greater_equal(logit_of(y_true, y_pred), highest), "float32")


@keras.saving.register_keras_serializable("zoo")
class TokenMean(keras.metrics.MeanMetricWrapper):
    """The mean of a function over tokens, each of which counts by its weight.

    Keras' own means are of each row first, over its padding too, so that tokens of a shorter batch would count more.
    """

    def update_state(self, y_true, y_pred, sample_weight=None):
        values = ops.reshape(self._fn(y_true, y_pred, **self._fn_kwargs), (-1,))  # (B, T) -> (B * T,)
        weights = None if sample_weight is None else ops.reshape(sample_weight, (-1,))
        return keras.metrics.Mean.update_state(self, values, weights)


def token_metrics() -> list:
    """The teacher-forced metrics, fresh for each model."""
    return [TokenMean(token_nll, name="token_nll"), TokenMean(token_accuracy, name="token_accuracy")]
