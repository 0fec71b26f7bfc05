"""The report of a search: one page that opens from the disk and needs no network."""

import html
import io
import json
from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from zoo.inspect.page import document
from zoo.search.effects import Effect, effects
from zoo.search.picture import curves, effect_plot, parallel_coordinates
from zoo.search.results import Results
from zoo.whole import replaced_file, write_text

REPORT = "report.html"


def write_report(results: Results) -> None:
    """Writes ``report.html``, and its pictures of what was tried and what matters as PNG.

    Raises:
        InputError: no trial is complete.
    """
    best, objective = results.best, results.search.base.train.monitor
    found = effects(results)
    figures = {"tried": parallel_coordinates(results)}
    if found:
        figures["effects"] = effect_plot(found, objective)
    for name, figure in figures.items():
        with replaced_file(results.directory / f"{name}.png") as partial:
            figure.savefig(partial, format="png", dpi=150)
    learned = curves(results)
    counts = f"{len(results.complete)} of {len(results.trials)} trials are complete"
    told = [
        f"<p>{counts}; {len(results.skipped)} combinations could not be built.</p>",
        f"<p>The best, trial {best.id}: {objective} {best.result.value:.6g} at step {best.result.step}.</p>",
        f"<pre>{html.escape(results.command(best))}</pre>",
    ]
    sections = {
        "Best": "\n".join(told),
        "What was tried": _svg(figures["tried"]),
        "What matters": (_svg(figures["effects"]) + _effect_table(found)) if found else "",
        "Learning curves": _svg(learned) if learned else "",
        "Trials": _trials(results),
        "Skipped": _skipped(results),
        "Search": f"<pre>{html.escape(results.search.to_json())}</pre>",
    }
    title = f"{results.search.tuner} search from {results.search.name}"
    write_text(results.directory / REPORT, document(title, sections, _STYLE))


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "zoo"}):  # the same trials, the same file
        figure.savefig(text, format="svg", metadata={"Date": None})
    return f'<div class="picture">{text.getvalue()[text.getvalue().index("<svg") :]}</div>'


def _signed(number: float) -> str:
    """With its sign; what is nought but for rounding, as +0."""
    return f"{0.0 if abs(number) < 1e-12 else number:+.4g}"


def _effect_table(found: Sequence[Effect]) -> str:
    note = (
        "<p>The effect of a value is how far the objective lies from the mean over the setting's values, the other "
        "settings and the number of steps being equal, in an additive model; beside it the 5th and the 95th "
        "percentile over 500 drawings of the trials. Ten or more trials of the most steps stand alone.</p>"
    )
    head = "".join(f"<th>{name}</th>" for name in ("setting", "value", "trials", "effect", "5 %", "95 %"))
    rows = "".join(
        f"<tr><td>{html.escape(e.path)}</td><td>{html.escape(e.value)}</td><td>{e.trials}</td>"
        + "".join(f"<td>{_signed(number)}</td>" for number in (e.mean, e.low, e.high))
        + "</tr>"
        for e in found
    )
    return f'{note}<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def _trials(results: Results) -> str:
    rows = results.rows()
    names = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
    head = "".join(f"<th>{html.escape(name.rpartition('.')[2])}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(_shown(row[name]))}</td>' for name in names)}</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _skipped(results: Results) -> str:
    items = "".join(
        f"<li>{html.escape(json.dumps(skipped['changes']))}: {html.escape(skipped['reason'])}</li>"
        for skipped in results.skipped
    )
    return f"<ul>{items}</ul>" if items else ""


def _shown(value) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


_STYLE = """
  table { border-collapse: collapse; font-size: .85rem }
  th { text-align: left; font-weight: 400; color: #666 }
  th, td { vertical-align: top; padding: .1rem .8rem .1rem 0 }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem }
  .wide { overflow-x: auto }
  .picture svg { max-width: 100%; height: auto }
"""
