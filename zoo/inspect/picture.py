"""Attention weights as a picture: a row for each layer, a column for each head."""

from pathlib import Path

from zoo.errors import InputError
from zoo.inspect.maps import Maps
from zoo.whole import replaced_file


def write_picture(maps: Maps, path: Path) -> None:
    """Writes a PNG, whole or not at all.

    Raises:
        InputError: no layer shows its weights, or the file can't be written.
    """
    if not maps.maps:
        raise InputError(f"no layer has weights to show: {'; '.join(maps.without)}")
    from matplotlib.figure import Figure  # and not pyplot, which would look for a display
    from matplotlib.text import Text

    heads = max(len(layer.weights) for layer in maps.maps)
    tokens = max(len(layer.queries) for layer in maps.maps)
    side = min(max(2.2, 0.22 * tokens), 8)
    figure = Figure(figsize=(side * heads + 1, side * len(maps.maps) + 0.6), layout="constrained")
    panels = figure.subplots(len(maps.maps), heads, squeeze=False)
    for row, layer in zip(panels, maps.maps, strict=True):
        for head, axes in enumerate(row):
            if head >= len(layer.weights):
                axes.axis("off")
                continue
            axes.imshow(layer.weights[head], vmin=0, vmax=1, cmap="Purples", aspect="auto")
            axes.set_title(f"{layer.name}, head {head + 1}", fontsize=7)
            axes.set_xticks(range(len(layer.keys)), labels=layer.keys, rotation=90, fontsize=5)
            axes.set_yticks(range(len(layer.queries)), labels=layer.queries if head == 0 else [], fontsize=5)
    figure.suptitle(f"{maps.source}  →  {maps.output}\nrow: the token that was read; the darker, the more", fontsize=8)
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a dollar sign is one
    with replaced_file(path) as partial:
        figure.savefig(partial, format="png", dpi=150)
