"""``zoo attend``: the picture, the page, and the weights in them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zoo.inspect.maps import attention_layers, attention_maps
from zoo.inspect.page import write_page
from zoo.training.load import load


def test_attend_writes_a_picture_and_a_page(called, trained):
    code, out, err = called("attend", f"--workdir={trained}", "--text=abc", "--target=cab", "--output=seen/abc")
    assert (code, err) == (0, "")
    assert out.splitlines()[:2] == ["seen/abc.png", "seen/abc.html"]
    assert Path("seen/abc.png").read_bytes().startswith(b"\x89PNG")
    page = Path("seen/abc.html").read_text()
    assert not re.search(r"""(src|href)\s*=|https?://|@\w+@""", page)  # nothing from elsewhere, nothing left out
    data = json.loads(re.search(r"const data = (.*);\n", page)[1])
    layers = {layer["name"]: layer for layer in data}
    assert set(layers) == {"encoder 1", "decoder 1", "decoder 1 across"}
    assert layers["encoder 1"]["keys"] == layers["decoder 1 across"]["keys"]
    for layer in data:
        weights = np.array(layer["weights"])
        assert weights.shape == (2, len(layer["queries"]), len(layer["keys"]))
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-3)
    assert not np.triu(np.array(layers["decoder 1"]["weights"]), 1).any()


@pytest.mark.parametrize("text", ["<!--<script>", "</script><script>alert(1)</script>"])
def test_a_text_is_no_part_of_the_page(trained, tmp_path, text):
    page = tmp_path / "page.html"
    write_page(replace(attention_maps(load(trained), "ab", "ab"), source=text, output=text), page)
    assert text not in page.read_text()
    maps = attention_maps(load(trained), "ab", "ab")
    layers = [replace(layer, queries=[text] * len(layer.queries)) for layer in maps.maps]
    write_page(replace(maps, maps=layers), page)
    assert page.read_text().count("<script") == page.read_text().count("</script>") == 1


def test_an_output_without_a_name(refused, trained):
    for output in ("/", "new/", ".png"):
        assert f"--output={output} names no file" in refused(
            "attend", f"--workdir={trained}", "--text=a", f"--output={output}"
        )


def test_weights_are_those_that_the_layer_gives(trained):
    run = load(trained)
    maps = attention_maps(run, "abc", "cab")
    layer = run.model.encoder.blocks[0]
    tokens = np.array([[*run.task.source.encode("abc"), 2]])
    x, *_ = run.model.encoder._with_positions(run.model.source_embedding(tokens), None, None, False)
    _, scores = layer.self_attention(layer.self_norm(x), return_attention_scores=True)
    np.testing.assert_allclose(maps.maps[0].weights, np.asarray(scores)[0], atol=1e-6)
    before = run.generate(["abc"])
    (decoder,) = (layer for layer in attention_layers(run.model) if layer.causal)
    decoder.query_chunks = 2
    for whole, chunked in zip(maps.maps, attention_maps(run, "abc", "cab").maps, strict=True):
        np.testing.assert_array_equal(chunked.weights, whole.weights)
    assert decoder.query_chunks == 2
    decoder.query_chunks = 1
    assert run.generate(["abc"]) == before  # nothing is left behind in the model


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give one text to look at"),
        (["--text=a", "--text=b"], "give one text to look at"),
        (["--text=" + "abc" * 20], "is longer than the"),
        (["--text=\udcff"], "'--text' is not UTF-8: byte 0 is 0xff"),
        (["--text=a", "--target=\udcff"], "'--target' is not UTF-8"),
        (["--text=abc", "--target=" + "abc" * 20], "positions of the model; shorten the text"),
    ],
)
def test_wrong_input(refused, trained, words, message):
    assert message in refused("attend", f"--workdir={trained}", *words)
