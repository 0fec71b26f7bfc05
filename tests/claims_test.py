"""What the claims measure, against what is known, and what the command says."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from zoo import registry
from zoo.claims import CLAIMS, heads, order, residuals, scaling
from zoo.claims.trained import distances, encoder_weights
from zoo.errors import InputError

SMALL = ["--steps=2", "--set=train.jit=false", "--set=train.samples=0"]
SMALL += [f"--set=model.{size}" for size in ("width=16", "num_heads=2", "options.decoder_depth=1")]
SMALL += [f"--set=task.options.{split}_size={size}" for split, size in (("train", 40), ("valid", 8), ("test", 8))]


def test_entropy_against_d():
    """Undivided products of d features have variance d: their softmax is that of normal numbers times sqrt(d)."""
    rng = np.random.default_rng(0)
    finding = scaling.find(None, {"train.seed": 3})
    assert finding.holds
    for size in scaling.SIZES[1:]:
        logits = rng.normal(size=(4000, scaling.KEYS))
        for word, factor in (("divided", 1.0), ("undivided", size**0.5)):
            weights = np.exp(factor * (logits - logits.max(1, keepdims=True)))
            weights /= weights.sum(1, keepdims=True)
            expected = -(weights * np.log2(np.maximum(weights, 1e-300))).sum(1).mean()
            assert finding.numbers[f"entropy in bits, d={size}, {word}"] == pytest.approx(expected, abs=0.25)


def test_order_is_seen_with_positions_alone():
    finding = order.find(None, {})
    assert finding.holds
    assert finding.numbers["change, none"] < 1e-5 < 1e-2 < finding.numbers["change, sinusoidal"]


def test_focus_on_the_diagonal():
    """Equal weights have the focus 1, and the identity has that of the whole over the share of the diagonal."""
    length = 8
    near = (distances(length) <= 1).mean()
    equal, identity = np.full((2, length, length), 1 / length), np.stack([np.eye(length)] * 2)
    np.testing.assert_allclose(residuals._focus([[equal, identity]] * 3), [1, 1 / near])


def test_distance_of_a_head(monkeypatch):
    length = 7
    ahead = np.eye(length, k=3)
    ahead[-3:, -1] = 1  # the last ones look at the end
    weights = np.stack([np.eye(length), ahead])
    monkeypatch.setattr(heads.trained, "run", lambda *arguments: None)
    monkeypatch.setattr(heads.trained, "encoder_weights", lambda run: [[weights]] * 4)
    finding = heads.find(heads.Path("none"), {})
    assert finding.numbers["layer 1, head 1"] == 0
    assert finding.numbers["layer 1, head 2"] == pytest.approx((4 * 3 + 2 + 1) / 7, abs=0.01)
    assert finding.numbers["no preference"] == pytest.approx(distances(length).mean(), abs=0.01)
    assert finding.holds


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_leaves_numbers_and_a_picture(called, tmp_path, name):
    flags = {
        "residuals": [*SMALL, "--set=model.depth=2"],
        "heads": [*SMALL, "--set=model.depth=1"],
        "normalization": [*SMALL, "--set=model.depth=1", "--set=train.decode_validation=1"],
    }.get(name, ())
    code, out, _ = called("claim", name, f"--workdir={tmp_path}", "--format=json", *flags)
    assert code in (0, 1)
    rows = json.loads(out)
    said = json.loads((tmp_path / name / f"{name}.json").read_text())
    assert [row["measured"] for row in rows] == ["holds", *said["numbers"], "picture"]
    assert said["holds"] == (code == 0) == (rows[0]["value"] == "yes")
    assert (tmp_path / name / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["scalng"], "there is no claim 'scalng' (did you mean 'scaling'?)"),
        (["scaling", "--steps=5"], "train.steps changes nothing: scaling trains no model"),
        (["order", "--seed=-1"], "train.seed must be at least 0"),
        (["residuals", "--set=model.options.residual=true"], "tries several values of model.options.residual"),
        (["--set=model.options.norm=rms"], "the claim normalization tries several values of model.options.norm"),
    ],
)
def test_bad_input(refused, words, said):
    assert said in refused("claim", *words)


def test_weights_that_cannot_be_had(tmp_path):
    task = registry.task.get("copy")()
    task.prepare(tmp_path)
    with pytest.raises(InputError, match="no validation sentence has 6 tokens"):
        encoder_weights(SimpleNamespace(task=task.with_pairs("valid", ["ab"], ["ab"])))
