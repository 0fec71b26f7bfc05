import keras
import numpy as np
import pytest
from keras import ops

from zoo.tasks.token_losses import (
    SmoothedCrossEntropy,
    log_normalizer,
    logit_of,
    token_accuracy,
    token_metrics,
    token_nll,
)

pytestmark = pytest.mark.backends

VOCABULARY = 300  # more than bfloat16 can count


@pytest.fixture
def batch(rng):
    """Labels (B, T), logits (B, T, V) and weights (B, T)."""
    labels = rng.integers(0, VOCABULARY, (3, 5)).astype("int32")
    labels[0, 0] = VOCABULARY - 1
    logits = (rng.normal(size=(3, 5, VOCABULARY)) * 4).astype("float32")
    weights = (np.arange(5) < np.array([5, 2, 1])[:, None]).astype("float32")
    return labels, logits, weights


def cross_entropy(labels, logits, smoothing):
    """Against the smoothed one-hot labels, in float64: (B, T)."""
    logits = logits.astype("float64")
    target = np.eye(VOCABULARY)[labels] * (1 - smoothing) + smoothing / VOCABULARY
    shifted = logits - logits.max(-1, keepdims=True)
    return -(target * (shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))).sum(-1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_loss_is_the_mean_cross_entropy_against_smoothed_labels(batch, smoothing, weighted):
    labels, logits, weights = batch
    weights = weights * [[1], [0.5], [3]] if weighted else None
    expected = np.average(cross_entropy(labels, logits, smoothing), weights=weights)
    found = SmoothedCrossEntropy(smoothing)(labels, logits, sample_weight=weights)
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_is_the_difference_to_the_smoothed_labels(batch, gradient, smoothing):
    labels, logits, weights = batch
    found = gradient(lambda z: SmoothedCrossEntropy(smoothing)(labels, z, sample_weight=weights), logits)
    powers = np.exp(logits.astype("float64") - logits.max(-1, keepdims=True))
    target = np.eye(VOCABULARY)[labels] * (1 - smoothing) + smoothing / VOCABULARY
    expected = (powers / powers.sum(-1, keepdims=True) - target) * (weights / weights.sum())[..., None]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not found[weights == 0].any()


def test_a_batch_without_weight_costs_nothing(batch):
    labels, logits, weights = batch
    assert float(SmoothedCrossEntropy(0.1)(labels, logits, sample_weight=0 * weights)) == 0


def test_large_logits_stay_finite(batch):
    labels, logits, _ = batch
    expected = cross_entropy(labels, logits * 1e4, 0.1).mean()
    np.testing.assert_allclose(float(SmoothedCrossEntropy(0.1)(labels, logits * 1e4)), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_summed_in_float32(batch, dtype):
    labels, logits, _ = batch
    half = ops.cast(logits, dtype)
    exact = ops.convert_to_numpy(ops.cast(half, "float32"))
    for found, expected in (
        (token_nll(labels, half), cross_entropy(labels, exact, 0.0)),
        (SmoothedCrossEntropy(0.1).call(labels, half), cross_entropy(labels, exact, 0.1)),
    ):
        assert keras.backend.standardize_dtype(found.dtype) == "float32"
        np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=1e-5)
    np.testing.assert_array_equal(ops.convert_to_numpy(token_accuracy(labels, half)), exact.argmax(-1) == labels)


def test_the_parts(batch):
    labels, logits, _ = batch
    expected = np.log(np.exp(logits.astype("float64")).sum(-1))
    np.testing.assert_allclose(ops.convert_to_numpy(log_normalizer(logits)), expected, rtol=1e-6)
    picked = ops.convert_to_numpy(logit_of(labels, ops.convert_to_tensor(logits)))
    np.testing.assert_array_equal(picked, np.take_along_axis(logits, labels[..., None], -1)[..., 0])


def test_token_nll(batch):
    labels, logits, _ = batch
    found = ops.convert_to_numpy(token_nll(labels, ops.convert_to_tensor(logits)))
    np.testing.assert_allclose(found, cross_entropy(labels, logits, 0.0), rtol=1e-5, atol=1e-5)


def test_token_accuracy_is_that_of_the_argmax(batch):
    labels, logits, _ = batch
    labels[::2] = logits.argmax(-1)[::2]
    found = ops.convert_to_numpy(token_accuracy(labels, ops.convert_to_tensor(logits)))
    np.testing.assert_array_equal(found, logits.argmax(-1) == labels)
    assert 0 < found.mean() < 1


def test_metrics_are_means_over_the_tokens_with_weight(batch):
    labels, logits, weights = batch
    labels[:, 0] = logits.argmax(-1)[:, 0]
    batches = [(labels[i : i + 1], logits[i : i + 1], weights[i : i + 1]) for i in range(3)]  # of unequal weight
    found = {}
    for metric in token_metrics():
        for one in batches:
            metric.update_state(one[0], one[1], sample_weight=one[2])
        found[metric.name] = float(metric.result())
    exact = {"token_nll": cross_entropy(labels, logits, 0.0), "token_accuracy": logits.argmax(-1) == labels}
    assert found.keys() == exact.keys()
    for name, values in exact.items():
        np.testing.assert_allclose(found[name], np.average(values, weights=weights), rtol=1e-5)


def test_the_metrics_of_two_models_are_apart(batch):
    labels, logits, _ = batch
    one, other = token_metrics()[0], token_metrics()[0]
    one.update_state(labels, logits)
    assert float(other.result()) == 0 < float(one.result())


def test_a_loss_is_made_again_from_its_config(batch):
    labels, logits, _ = batch
    loss = SmoothedCrossEntropy(0.3, name="mine")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert (again.name, again.label_smoothing) == ("mine", 0.3)
    assert float(again(labels, logits)) == float(loss(labels, logits))
