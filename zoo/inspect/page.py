"""Attention weights to point at, without a network: pick a layer and a head, point at a token."""

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path

from zoo.errors import InputError
from zoo.inspect.maps import Maps
from zoo.whole import replaced_file


def write_page(maps: Maps, path: Path) -> None:
    """Writes an HTML page of its own, whole or not at all.

    Raises:
        InputError: no layer shows its weights, or the file can't be written.
    """
    text = filled(_PAGE, TITLE=html.escape(f"{maps.source} → {maps.output}"), MAPS=widget(maps))
    with replaced_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def widget(maps: Maps) -> str:
    """The part of a page that shows the weights: HTML with the style and the script that it needs.

    Raises:
        InputError: no layer shows its weights.
    """
    if not maps.maps:
        raise InputError(f"no layer has weights to show: {'; '.join(maps.without)}")
    data = [
        {
            "name": layer.name,
            "queries": layer.queries,
            "keys": layer.keys,
            "weights": [[[round(float(w), 4) for w in row] for row in head] for head in layer.weights],
        }
        for layer in maps.maps
    ]
    note = f'<p class="label">{html.escape("Without weights to show: " + "; ".join(maps.without))}</p>'
    return filled(
        _WIDGET,
        NOTE=note if maps.without else "",
        DATA=json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"),
    )


def filled(template: str, **parts: str) -> str:
    """``template`` with each @NAME@ replaced by the part of that name, in one pass: a part may hold any text."""
    return re.sub("|".join(f"@{name}@" for name in parts), lambda found: parts[found[0].strip("@")], template)


def document(title: str, sections: Mapping[str, str], style: str) -> str:
    """A page that needs no network.

    Args:
        title: as text.
        sections: heading -> HTML; those that are empty are left out.
        style: CSS beside that of all pages.
    """
    shown = "\n".join(f"<h2>{name}</h2>\n{part}" for name, part in sections.items() if part)
    return filled(_DOCUMENT, TITLE=html.escape(title), STYLE=style.strip("\n"), SECTIONS=shown)


_DOCUMENT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>@TITLE@</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
  h1 { font-size: 1.4rem }
  h2 { font-size: 1.1rem; margin-top: 2rem; border-bottom: 1px solid #ddd }
@STYLE@
</style>
<h1>@TITLE@</h1>
@SECTIONS@
</html>
"""

_WIDGET = """<style>
  select, button { font: inherit; padding: .2rem .5rem; margin: 0 .5rem .5rem 0 }
  button[aria-pressed=true] { background: #35356f; color: #fff }
  .line { display: flex; flex-wrap: wrap; gap: .25rem; margin: .75rem 0 }
  .line span { padding: .1rem .35rem; border-radius: .25rem; border: 1px solid #ddd; cursor: default; white-space: pre }
  .line span:focus { outline: 2px solid #35356f }
  .label { color: #666; font-size: .85rem }
  .map { overflow-x: auto; margin-top: 1rem }
</style>
@NOTE@
<label>Layer <select id="layer"></select></label><span id="heads" role="group" aria-label="Head"></span>
<div class="label">From: the token that was read, after which a decoder writes the next (point at it or press Tab)</div>
<div class="line" id="queries"></div>
<div class="label">To: the darker, the more of its attention</div>
<div class="line" id="keys"></div>
<div class="map"><canvas id="map" role="img"
  aria-label="All weights: a row for each token from, a column for each token to"></canvas></div>
<script>
const data = @DATA@;
const at = id => document.getElementById(id);
let layer = 0, head = 0, query = 0;
const make = (tag, text, parent) => {
  const element = document.createElement(tag);
  element.textContent = text;
  parent.append(element);
  return element;
};
data.forEach((l, i) => { make("option", l.name, at("layer")).value = i; });
at("layer").onchange = e => { layer = +e.target.value; head = 0; query = 0; build(); };
function build() {
  const l = data[layer];
  for (const id of ["heads", "queries", "keys"]) at(id).replaceChildren();
  l.weights.forEach((_, i) => {
    make("button", "head " + (i + 1), at("heads")).onclick = () => { head = i; show(); };
  });
  l.queries.forEach((token, i) => {
    const span = make("span", token, at("queries"));
    span.tabIndex = 0;
    span.onmouseenter = span.onfocus = () => { query = i; show(); };
  });
  l.keys.forEach(token => make("span", token, at("keys")));
  show();
}
function show() {
  const l = data[layer], weights = l.weights[head];
  [...at("heads").children].forEach((b, i) => b.setAttribute("aria-pressed", i === head));
  [...at("queries").children].forEach((s, i) => { s.style.background = i === query ? "#ffe08a" : ""; });
  [...at("keys").children].forEach((s, i) => {
    const w = weights[query][i];
    s.style.background = `rgba(53, 53, 111, ${w})`;
    s.style.color = w > .5 ? "#fff" : "";
    s.title = w.toFixed(3);
  });
  draw(l, weights);
}
// The whole matrix with its tokens at the side and on top; cells become smaller with the sentence.
function draw(l, weights) {
  const canvas = at("map"), context = canvas.getContext("2d"), font = "12px system-ui, sans-serif";
  const size = Math.max(3, Math.min(28, Math.floor(900 / Math.max(l.keys.length, l.queries.length))));
  context.font = font;
  const room = tokens => 10 + Math.ceil(Math.max(...tokens.map(token => context.measureText(token).width)));
  const left = room(l.queries), top = room(l.keys), named = size > 8;
  const width = left + size * l.keys.length + 1, height = top + size * l.queries.length + 1;
  const scale = Math.min(window.devicePixelRatio || 1, 4096 / Math.max(width, height));  // what browsers can hold
  [canvas.width, canvas.height] = [width * scale, height * scale];
  [canvas.style.width, canvas.style.height] = [width + "px", height + "px"];
  canvas.onmousemove = e => {
    const row = Math.floor((e.offsetY - top) / size);
    if (row >= 0 && row < l.queries.length && row !== query) { query = row; show(); }
  };
  context.scale(scale, scale);
  context.font = font;
  context.textBaseline = "middle";
  weights.forEach((row, y) => row.forEach((w, x) => {
    context.fillStyle = `rgba(53, 53, 111, ${w})`;
    context.fillRect(left + x * size, top + y * size, size, size);
  }));
  context.strokeStyle = "#ddd";
  context.strokeRect(left + .5, top + .5, size * l.keys.length, size * l.queries.length);
  if (named) l.queries.forEach((token, i) => {
    context.fillStyle = i === query ? "#b36b00" : "#222";
    context.textAlign = "right";
    context.fillText(token, left - 5, top + (i + .5) * size);
  });
  context.fillStyle = "#222";
  context.textAlign = "left";
  if (named) l.keys.forEach((token, i) => {
    context.save();
    context.translate(left + (i + .5) * size, top - 5);
    context.rotate(-Math.PI / 2);
    context.fillText(token, 0, 0);
    context.restore();
  });
}
build();
</script>
"""

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Attention: @TITLE@</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; margin: 1.5rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
  h1 { font-size: 1.1rem; font-weight: 600 }
</style>
<h1>@TITLE@</h1>
@MAPS@
</html>
"""
