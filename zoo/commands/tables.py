"""Rows for a person, or for a script."""

import json
import shutil
import sys


def form_of(form: str | None) -> str:
    """The form that was asked for; else a table in a terminal, and tab-separated text elsewhere."""
    return form or ("table" if sys.stdout.isatty() else "tsv")


def print_rows(rows: list[dict[str, str]], form: str | None) -> None:
    """Prints rows of the same columns as "table", "tsv" or "json"; see :func:`form_of` for None."""
    form = form_of(form)
    if form == "json":
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    elif form == "tsv":
        for row in rows:
            print("\t".join(row.values()))
    else:
        names = list(rows[0]) if rows else []
        widths = {name: max(len(row[name]) for row in rows) for name in names[:-1]}
        room = shutil.get_terminal_size().columns - sum(widths.values()) - 2 * len(widths)
        for row in rows:
            last, most = row[names[-1]], max(room, 20)
            last = last if len(last) <= most else f"{last[: most - 1].rstrip()}…"
            print("  ".join([*(row[n].ljust(widths[n]) for n in names[:-1]), last]))
