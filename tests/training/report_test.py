"""The report of a run, read as text and looked at in a browser."""

import re
import shutil

import pytest

import zoo
from zoo.training.report import write_report
from zoo.training.run_directory import RunDirectory


@pytest.fixture(scope="module")
def page(trained_run):
    return RunDirectory(trained_run[0]).report_file


def test_it_says_what_was_trained_and_how_it_went(page, trained_run):
    run = RunDirectory(trained_run[0])
    text = page.read_text(encoding="utf-8")
    assert ">model.num_heads</th><td>2</td>" in text
    assert ">parameters</th><td>" in text and ">steps</th><td>5</td>" in text
    last = float(run.read_log()[-1]["valid_token_nll"])
    assert f">token_nll, last validation</th><td>{last:.4g}</td>" in text
    assert text.count("<svg") >= 4
    for line in run.samples_file.read_text().splitlines()[1:]:
        assert line.replace(">", "&gt;") in text


def test_it_needs_no_network(page):
    text = page.read_text(encoding="utf-8")
    outside = set(re.findall(r"(?:src|href)\s*=\s*[\"']?([^\s\"'>]+)", text))
    assert not {target for target in outside if not target.startswith("#")}
    assert "@import" not in text and "url(" not in re.sub(r"url\(#", "", text)


def test_measured_anew(trained_run, tmp_path):
    shutil.copytree(trained_run[0], tmp_path / "run")
    trained = zoo.load(tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    run.samples_file.write_text("step 5\n<b>&  ->  @TITLE@\n")
    write_report(run, trained, {"exact_match": 0.25, "checkpoint": {"file": "best.npz"}})
    text = run.report_file.read_text()
    assert ">exact_match</th><td>0.25</td>" in text
    assert "<li>&lt;b&gt;&amp;  -&gt;  @TITLE@</li>" in text


def test_what_cannot_be_shown_takes_no_training_down(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("zoo.training.report.attention_maps", lambda *arguments: 1 / 0)
    zoo.train(tiny({"model.architecture": "encoder_only", "train.steps": 2}), tmp_path)
    assert "zoo: warning: no report: division by zero" in capsys.readouterr().err
    trained = zoo.load(tmp_path)
    monkeypatch.setattr(type(trained.task), "pairs", lambda self, split: ([], []))  # nothing to look at
    write_report(RunDirectory(tmp_path), trained)
    assert "<h2>Attention</h2>" not in RunDirectory(tmp_path).report_file.read_text()


@pytest.mark.parametrize("width", [380, 1200])
def test_in_a_browser(page, in_browser, width):
    """At the width of a telephone and of a desk: nothing sticks out, and a head and a token can be chosen."""
    found = in_browser(
        page,
        width,
        """
        page.querySelectorAll("#heads button")[1].click();
        page.querySelectorAll("#queries span")[1].dispatchEvent(new MouseEvent("mouseenter"));
        const chosen = () => [...page.querySelectorAll("#queries span")].findIndex(s => s.style.background);
        const [pointed, box] = [chosen(), page.querySelector("#map").getBoundingClientRect()];
        page.querySelector("#map").dispatchEvent(new MouseEvent("mousemove", {clientY: box.bottom - 5}));
        const weights = [...page.querySelectorAll("#keys span")].map(s => +s.title);
        return {
          layers: page.querySelectorAll("#layer option").length,
          pointed,
          lowest: chosen() === page.querySelectorAll("#queries span").length - 1,
          pressed: page.querySelector("#heads button[aria-pressed=true]").textContent,
          sum: Math.round(100 * weights.reduce((a, b) => a + b, 0)) / 100,
        };
        """,
    )
    curves = page.read_text().count("<svg")
    shown = {"overflow": 0, "pictures": curves, "layers": 3, "pressed": "head 2", "sum": 1}
    assert found == shown | {"pointed": 1, "lowest": True}
