"""The report of a run: one page that opens from the disk and needs no network."""

import html
import io
import json
from collections.abc import Iterable
from typing import Any

from zoo.errors import InputError, said
from zoo.generation.trained import Trained
from zoo.inspect.maps import attention_maps
from zoo.inspect.page import document, widget
from zoo.recipe import flatten
from zoo.training.run_directory import RunDirectory
from zoo.whole import write_text


def write_report(run: RunDirectory, trained: Trained, measured: dict[str, Any] | None = None) -> None:
    """Writes report.html: what was trained, how it went, what it says, and where it looks.

    Args:
        run: the run directory, with its log.
        trained: the model, for the attention of a sample.
        measured: what :func:`zoo.evaluate` found, if it was asked.
    """
    log = run.read_log()
    facts = run.environment()
    last = log[-1] if log else {}
    told = {
        "task": trained.recipe.task.name,
        "architecture": trained.recipe.model.architecture,
        "parameters": f"{trained.model.count_params():,}",
        "steps": last.get("step", "0"),
        "training time": _time(last.get("seconds", "0")),
        **{name: facts[name] for name in ("device", "backend", "python") if name in facts},
        **{f"version of {name}": version for name, version in facts.get("versions", {}).items()},
    }
    settings = {
        path: value if isinstance(value, str) else json.dumps(value) for path, value in flatten(trained.recipe).items()
    }
    sections = {
        "Metrics": _table(_metrics(log, measured)),
        "Curves": _curves(log),
        "Samples": _samples(run),
        "Attention": _attention(trained),
        "Run": _table(told.items()),
        "Recipe": _table(settings.items()),
    }
    write_text(run.report_file, document(run.path.resolve().name, sections, _STYLE))


def _metrics(log: list[dict[str, str]], measured: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What was measured on the split that was asked for, and at the last validation."""
    rows = []
    for name, value in (measured or {}).items():
        if isinstance(value, float | int | str):
            rows.append((name, f"{value:.4g}" if isinstance(value, float) else str(value)))
    rows += [
        (f"{name.removeprefix('valid_')}, last validation", f"{float(value):.4g}")
        for name, value in (log[-1] if log else {}).items()
        if name.startswith("valid_") and value
    ]
    return rows


def _curves(log: list[dict[str, str]]) -> str:
    """A small plot for the loss and for each metric of the validations, as SVG."""
    if len(log) < 2:
        return ""
    import matplotlib
    from matplotlib.figure import Figure

    steps = [int(row["step"]) for row in log]
    names = [name for name in log[0] if name.startswith("valid_") and name != "valid_loss"]
    plots = [{"loss, training": "loss", "loss, validation": "valid_loss"}]
    plots += [{name.removeprefix("valid_"): name} for name in names] + [{"learning rate": "learning_rate"}]
    parts = []
    for lines in plots:
        figure = Figure(figsize=(4, 2.4), layout="constrained")
        axes = figure.subplots()
        for label, column in lines.items():
            axes.plot(steps, [float(row.get(column) or "nan") for row in log], label=label, linewidth=1.5)
        axes.set_xlabel("step", fontsize=8)
        axes.tick_params(labelsize=7)
        axes.legend(fontsize=7, frameon=False)
        text = io.StringIO()
        with matplotlib.rc_context({"svg.hashsalt": "zoo"}):  # the same log, the same file
            figure.savefig(text, format="svg", metadata={"Date": None})
        parts.append(text.getvalue()[text.getvalue().index("<svg") :])
    return f'<div class="curves">{"".join(parts)}</div>'


def _samples(run: RunDirectory) -> str:
    if not run.samples_file.is_file():
        return ""
    first, *lines = run.samples_file.read_text(encoding="utf-8").splitlines()
    return f"<p>{html.escape(first)}</p>\n<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>"


def _attention(trained: Trained) -> str:
    """Where the model looks while it is given the reference of a validation pair; or why there is nothing to see."""
    try:
        few = list(zip(*(side[:20] for side in trained.task.pairs("valid")), strict=True))
        if not few:
            return ""
        source, target = max(few, key=lambda pair: len(pair[0]))  # one with something to see
        shown = f"<p>{html.escape(source)} → {html.escape(target)}</p>"
        return shown + widget(attention_maps(trained, source, target))
    except InputError as error:
        return f"<p>{html.escape(said(error))}</p>"


def _table(rows: Iterable[tuple[str, Any]]) -> str:
    cells = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>" if cells else ""


def _time(seconds: str) -> str:
    minutes, rest = divmod(round(float(seconds)), 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


_STYLE = """
  table { border-collapse: collapse; font-size: .9rem; width: 100% }
  th { text-align: left; font-weight: 400; color: #666; padding-right: 1rem; width: 40% }
  th, td { vertical-align: top; overflow-wrap: anywhere; padding-bottom: .15rem }
  li { overflow-wrap: anywhere }
  .curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); gap: 1rem }
  .curves svg { width: 100%; height: auto }
"""
