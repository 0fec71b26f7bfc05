"""What is exported, loaded by a process that knows nothing of this package, gives what this package gives."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

import zoo
from zoo import Decoding, ModelConfig, Recipe, TaskConfig, TrainConfig
from zoo.errors import InputError
from zoo.export.network import export_keras, export_onnx
from zoo.export.saved_model import export_saved_model

TEXTS = ["abcd", "", "hgfe dcba", "a", "fedc ab"]

# As a server would: the signature by its name, and neither this package nor what it is built on.
SERVE = """
import json, sys
import tensorflow as tf, tensorflow_text
path, texts = sys.argv[1], json.loads(sys.argv[2])
serve = tf.saved_model.load(path).signatures["serving_default"]
assert "zoo" not in sys.modules
try:
    found = serve(text=tf.constant(texts))
except tf.errors.InvalidArgumentError as error:
    sys.exit(error.message)
text = [[output.decode() for output in outputs] for outputs in found["text"].numpy()]
print(json.dumps({"text": text, "log_probability": found["log_probability"].numpy().astype(float).tolist()}))
"""


def served(path, texts):
    """What the SavedModel makes of texts: (N, n_best) outputs and their log-probabilities."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [sys.executable, "-I", "-c", SERVE, str(path), json.dumps(texts)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """``runs(layout)``: the directory of a run of a few steps."""
    made = {}

    def run(architecture="transformer"):
        if architecture not in made:
            made[architecture] = tmp_path_factory.mktemp("export") / architecture
            options = {"symbols": 8, "longest": 9, "train_size": 64, "valid_size": 8, "max_length": 15}
            recipe = Recipe(
                task=TaskConfig("reverse", options=options),
                model=ModelConfig(architecture=architecture, depth=1, width=16, num_heads=2, position="learned"),
                train=TrainConfig(steps=80, batch_tokens=256, buckets=1, samples=0, jit=False, learning_rate=1e-2),
            )
            zoo.train(recipe, made[architecture])
        return made[architecture]

    return run


tensorflow_only = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="made on TensorFlow")


@tensorflow_only
@pytest.mark.parametrize(
    ("architecture", "decoding"),
    [
        ("transformer", Decoding()),
        ("transformer", Decoding(beam=3, n_best=2, max_length=7)),
        ("transformer", Decoding(beam=16, n_best=16, max_length=1)),  # fewer outputs than that
        ("decoder_only", Decoding()),
        ("decoder_only", Decoding(beam=2)),
        ("encoder_only", Decoding()),
    ],
)
def test_a_saved_model_gives_what_generate_gives(runs, tmp_path, architecture, decoding):
    trained = zoo.load(runs(architecture), decoding=decoding)
    export_saved_model(trained, tmp_path / "model")
    found = served(tmp_path / "model", TEXTS)
    for expected, texts, scores in zip(trained.hypotheses(TEXTS), found["text"], found["log_probability"], strict=True):
        assert texts == [text for text, _ in expected] + [""] * (decoding.n_best - len(expected))
        np.testing.assert_allclose(scores[: len(expected)], [score for _, score in expected], atol=1e-4)
    assert len({text for texts in found["text"] for text in texts}) > 1


@tensorflow_only
def test_a_text_too_long_for_a_saved_model(runs, tmp_path):
    export_saved_model(zoo.load(runs()), tmp_path / "model")
    words = [sys.executable, "-c", SERVE, str(tmp_path / "model"), json.dumps(["a", "ab" * 20])]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert "a text is longer than the 16 tokens that this model takes" in done.stderr


@tensorflow_only
def test_onnx_gives_equal_logits(runs, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    trained = zoo.load(runs())
    export_onnx(trained, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    rng = np.random.default_rng(0)
    for rows, sources, targets in ((2, 7, 5), (5, 3, 11), (1, 1, 1)):
        inputs = {
            "source": rng.integers(4, 12, (rows, sources)).astype("int32"),
            "target": rng.integers(4, 12, (rows, targets)).astype("int32"),
        }
        inputs["source"][0, 1:] = 0
        expected = ops.convert_to_numpy(trained.model(inputs))
        np.testing.assert_allclose(session.run(None, inputs)[0], expected, atol=1e-5)


# In a process that has imported no more than it must; tokens, and then logits, on standard input and output.
READ = """
import json, sys
import keras, numpy, zoo.architectures.transformer
inputs = {name: numpy.array(tokens) for name, tokens in json.load(sys.stdin).items()}
logits = keras.saving.load_model(sys.argv[1])(inputs)
print(json.dumps(keras.ops.convert_to_numpy(logits).tolist()))
"""


def test_keras_reads_its_own_file(runs, tmp_path):
    trained = zoo.load(runs())
    export_keras(trained, tmp_path / "model.keras")
    inputs = {"source": [[4, 5, 2]], "target": [[1, 6]]}
    words = [sys.executable, "-c", READ, str(tmp_path / "model.keras")]
    done = subprocess.run(words, input=json.dumps(inputs), capture_output=True, text=True, check=True)
    expected = trained.model({name: np.array(tokens) for name, tokens in inputs.items()})
    np.testing.assert_allclose(json.loads(done.stdout), ops.convert_to_numpy(expected), atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="of the other backends")
def test_other_backends_say_how(runs, tmp_path):
    for export in (export_saved_model, export_onnx):
        with pytest.raises(InputError, match="use --backend=tensorflow"):
            export(zoo.load(runs()), tmp_path / "model")


# Whole or not at all


def test_the_command(called, refused, runs, tmp_path):
    code, out, err = called("export", f"--workdir={runs()}", "--format=keras", f"--output={tmp_path}/m.keras")
    assert (code, out, err) == (0, f"{tmp_path}/m.keras\n", "")
    assert (tmp_path / "m.keras").is_file()
    assert "no --format=tsv; it has: saved_model, onnx, keras" in refused("export", "--workdir=x", "--format=tsv")
    assert "no --format=onnx; it has: table, tsv, json" in refused("list", "--format=onnx")
    for wrong in ("m.h5", ".keras"):
        assert "ends in .keras" in refused("export", "--workdir=x", "--format=keras", f"--output={wrong}")
    (tmp_path / "mine").mkdir()
    if keras.backend.backend() == "tensorflow":
        assert "holds no saved_model.pb" in refused("export", f"--workdir={runs()}", f"--output={tmp_path}/mine")
