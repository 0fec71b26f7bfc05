"""Evaluation, against numbers that are computed another way."""

import keras
import numpy as np
import pytest

from zoo.errors import InputError
from zoo.training import checkpoint
from zoo.training.evaluate import evaluate, teacher_forced
from zoo.training.load import load
from zoo.training.train import train


@pytest.fixture(scope="module")
def trained(trained_run):
    return load(trained_run[0])


@pytest.fixture(scope="module")
def half_right(tiny, tmp_path_factory):
    """A model that gets some of its outputs right, but not all: labels for each token, learned for a little while."""
    changes = {
        "model.architecture": "encoder_only",
        "model.dropout": 0.0,
        "train.steps": 6,
        "train.validate_every": 6,
        "train.learning_rate": 5e-3,
        "train.schedule": "constant",
        "train.warmup_steps": 0,
    }
    directory = tmp_path_factory.mktemp("half_right")
    train(tiny(changes), directory)
    return load(directory)


def test_decoded_metrics_are_of_what_is_generated(half_right):
    sources, references = half_right.task.pairs("test")
    outputs = half_right.generate(sources)
    share = sum(output == reference for output, reference in zip(outputs, references, strict=True)) / len(sources)
    assert 0 < share < 1
    result = evaluate(half_right)
    assert result["exact_match"] == pytest.approx(share)
    assert result["examples"] == len(sources)
    assert result["split"] == "test"


def test_teacher_forced_metrics_are_those_of_the_logits(trained):
    batches = trained.task.batches("test", "encoder_decoder", 128)
    assert len({length for _, length in batches.shapes}) > 1  # a token counts the same in a short batch and a long one
    nll = right = tokens = 0.0
    for inputs, labels, weights in batches.dataset.as_numpy_iterator():
        logits = keras.ops.convert_to_numpy(trained.model(inputs, training=False)).astype("float64")
        shifted = logits - logits.max(-1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        nll -= (np.take_along_axis(log_p, labels[..., None], -1)[..., 0] * weights).sum()
        right += ((logits.argmax(-1) == labels) * weights).sum()
        tokens += weights.sum()
    sources, _ = trained.task.pairs("test")
    assert tokens == sum(len(trained.task.target.encode(text)) + 1 for text in sources)
    result = teacher_forced(trained, batches)
    assert result["teacher_forced_perplexity"] == pytest.approx(np.exp(nll / tokens), rel=1e-5)
    assert result["teacher_forced_accuracy"] == pytest.approx(right / tokens, rel=1e-5)


def test_the_size_of_a_batch_changes_nothing(trained, half_right, rng):
    """Neither for a decoding loop, here with random weights that say more, nor for labels all at once."""
    before = checkpoint.snapshot(checkpoint.named_variables(trained.model))
    noise = {name: rng.normal(size=value.shape).astype("float32") for name, value in before.items()}
    checkpoint.assign(checkpoint.named_variables(trained.model), noise)
    for model in (trained, half_right):
        sources, _ = model.task.pairs("test")
        outputs = model.generate(sources)
        assert len(set(outputs)) > 3
        assert model.generate(sources, rows=5) == outputs
    checkpoint.assign(checkpoint.named_variables(trained.model), before)
    assert evaluate(half_right, rows=5) == evaluate(half_right, rows=64)


def test_a_limit_takes_the_first(half_right):
    sources, references = (texts[:5] for texts in half_right.task.pairs("valid"))
    outputs = half_right.generate(sources)
    result = evaluate(half_right, "valid", limit=5)
    assert result["examples"] == 5
    assert result["exact_match"] == pytest.approx(sum(map(str.__eq__, outputs, references)) / 5)


def test_it_says_what_was_measured(trained_run):
    directory, trained = trained_run
    result = evaluate(directory, "valid", limit=3)
    assert result["split"] == "valid"
    assert result["decoder"] == "greedy"
    assert result["checkpoint"]["file"] == "best.npz"
    assert result["checkpoint"]["step"] == trained["best_step"]
    assert result["checkpoint"]["weights"] == "moving average, decay 0.5"


def test_nothing_to_generate(trained):
    assert trained.generate([]) == []


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("abc", "texts are a list"),
        (5, "texts are a list"),
        ([None], "a text is a string"),
        ([b"ab"], "a text is a string"),
    ],
)
def test_what_is_no_list_of_texts(trained, texts, message):
    with pytest.raises(InputError, match=message):
        trained.generate(texts)


def test_a_generator_of_texts(trained):
    assert trained.generate(text for text in ["ab", "cd"]) == trained.generate(["ab", "cd"])
    with pytest.raises(InputError, match="at least 1 row"):
        trained.generate(["ab"], rows=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": 0}, "limit must be at least 1"),
        ({"limit": -3}, "limit must be at least 1"),
        ({"pairs": ([], [])}, "0 sources and 0 references"),
        ({"pairs": (["a"], ["a", "b"])}, "1 sources and 2 references"),
    ],
)
def test_nothing_to_measure(trained, settings, message):
    with pytest.raises(InputError, match=message):
        evaluate(trained, **settings)


def test_what_is_no_checkpoint(trained_run):
    with pytest.raises(InputError, match="not from None"):
        load(None)
    with pytest.raises(InputError, match="best or last, not 'bset'"):
        load(trained_run[0], "bset")
