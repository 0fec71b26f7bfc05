"""Time and memory over length, as curves."""

from typing import Any


def draw(rows: list[dict[str, Any]]):
    """A figure of time, with its quartiles, and memory over length."""
    from matplotlib.figure import Figure  # and not pyplot, which would look for a display

    figure = Figure(figsize=(11, 5), layout="constrained")
    lengths, kinds = (list(dict.fromkeys(row[name] for row in rows)) for name in ("length", "kind"))
    panels = figure.subplots(1, 2)
    for axes, column, title in zip(panels, ("ms", "peak_mib"), ("ms a step", "peak memory, MiB"), strict=True):
        for kind in kinds:
            own = [row for row in rows if row["kind"] == kind and row[column]]  # a logarithm has no place for 0
            x, y, low, high = ([row[name] for row in own] for name in ("length", column, "ms_q1", "ms_q3"))
            label = f"{kind}, T^{own[0]['growth']:.2f}" if own and own[0]["growth"] is not None else kind
            (line,) = axes.plot(x, y, marker="o", label=label)
            if column == "ms":
                axes.fill_between(x, low, high, alpha=0.2, color=line.get_color())
        axes.set(title=title, xlabel="length T", xscale="log", yscale="log")
        axes.set_xticks(lengths, labels=map(str, lengths))
        axes.xaxis.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].legend()
    shown = ("backend", "device", "jit", "train", "causal", "num_heads", "head_dim", "batch_size")
    figure.suptitle("  ".join(f"{name}={rows[0][name]}" for name in shown), fontsize="small")
    return figure
