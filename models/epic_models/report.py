"""One HTML page of a sweep's results: a plot for each parameter of the grid, and the numbers behind them."""

from __future__ import annotations

import base64
import html
import io
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from epic_models.sweep import CONFIG, done
from epic_spec.errors import ConfigError

PAGE: Final = "report.html"
_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
img { max-width: 100% } pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; font-size: 13px }
table { border-collapse: collapse; font-size: 13px } td, th { padding: .2rem .6rem; border-bottom: 1px solid #ddd }
td { text-align: right } th { text-align: left } p.note { color: #555 }
"""
# Figures that are plotted, with their axis.
FIGURES: Final = {
    "completion_us": "completion, microseconds",
    "retransmissions": "packets sent again",
}


def write(out: Path) -> Path:
    """Write `out`/report.html from the results in `out`. Raises ConfigError where there are none."""
    rows = [row for row in done(out) if "error" not in row]
    if not rows:
        raise ConfigError(f"{out}: no results, expected a folder that `epic sim sweep --out` filled")
    text = (out / CONFIG).read_text() if (out / CONFIG).exists() else ""
    keys = list(rows[0]["point"])
    # The x axis: the numeric parameter with the most values; lines: the combinations of the others.
    numeric = [key for key in keys if all(isinstance(row["point"][key], int | float) for row in rows)]
    sections = []
    for x in numeric or keys[:1]:
        others = [key for key in keys if key != x]
        for figure, axis in FIGURES.items():
            sections.append(_section(rows, x, others, figure, axis))
    seeds = sorted({row["seed"] for row in rows})
    body = "\n".join(sections) + _table(rows, keys)
    page = (
        f"<!doctype html><meta charset=utf-8><title>EPIC sweep</title><style>{_STYLE}</style>"
        f"<h1>{html.escape(out.name)}: {len(rows)} simulations, seeds {', '.join(map(str, seeds))}</h1>"
        f"{body}<h2>Configuration</h2><pre>{html.escape(text)}</pre>\n"
    )
    path = out / PAGE
    path.write_text(page)
    return path


def _label(key: str) -> str:
    return key.rpartition(".")[2].replace("_", " ")


def _series(
    rows: Sequence[Mapping[str, Any]], x: str, others: Sequence[str], figure: str
) -> dict[str, list[tuple[Any, list[float]]]]:
    """For each combination of the other parameters, (x, values of all seeds) in order of x."""
    found: dict[str, dict[Any, list[float]]] = {}
    for row in sorted(rows, key=lambda row: [str(type(v)) + f"{v:>24}" for v in row["point"].values()]):
        if row[figure] is None:
            continue
        name = ", ".join(
            str(row["point"][k]) if isinstance(row["point"][k], str) else f"{_label(k)} {row['point'][k]}"
            for k in others
        )
        found.setdefault(name or figure, {}).setdefault(row["point"][x], []).append(row[figure])
    return {name: sorted(values.items()) for name, values in found.items()}


def _section(rows: Sequence[Mapping[str, Any]], x: str, others: Sequence[str], figure: str, axis: str) -> str:
    """A plot: medians over the seeds, with bars from the least to the greatest."""
    from matplotlib.figure import Figure

    series = _series(rows, x, others, figure)
    plot = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = plot.subplots()
    places = sorted({place for points in series.values() for place, _ in points})
    words = any(isinstance(place, str) for place in places)
    for name, points in series.items():
        at = [places.index(place) if words else place for place, _ in points]
        middle = [statistics.median(values) for _, values in points]
        low = [m - min(values) for m, (_, values) in zip(middle, points, strict=True)]
        high = [max(values) - m for m, (_, values) in zip(middle, points, strict=True)]
        axes.errorbar(at, middle, yerr=[low, high], marker="o", markersize=4, capsize=3, label=name)
    if words:
        axes.set_xticks(range(len(places)), places)
    elif min(places) >= 0 and max(places) > 20 * max(min((p for p in places if p > 0), default=1), 1e-12):
        axes.set_xscale("symlog", linthresh=min(p for p in places if p > 0), base=10)
    axes.set_xlabel(_label(x))
    axes.set_ylabel(axis)
    heights = [value for points in series.values() for _, values in points for value in values]
    if min(heights) > 0 and max(heights) > 30 * min(heights):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if len(series) > 1:
        axes.legend(fontsize=8, frameon=False)
    picture = io.BytesIO()
    plot.savefig(picture, format="png", dpi=130)
    encoded = base64.b64encode(picture.getvalue()).decode()
    title = f"{axis.split(',')[0]} by {_label(x)}"
    seeds = len({row["seed"] for row in rows})
    note = f"Median of {seeds} seeds; bars from the least to the greatest." if seeds > 1 else "One seed."
    return (
        f"<h2>{html.escape(title.capitalize())}</h2>"
        f'<img alt="{html.escape(title)}" src="data:image/png;base64,{encoded}"><p class=note>{note}</p>'
    )


def _table(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> str:
    names = (*keys, "seed", "completion_us", "retransmissions", "drops", "lost", "wrong")
    head = "".join(f"<th>{html.escape(_label(name))}" for name in names)
    lines = []
    for row in sorted(rows, key=lambda row: json.dumps([row["point"], row["seed"]])):
        cells = [*(row["point"][k] for k in keys), *(row[name] for name in names[len(keys) :])]
        shown = (f"{c:,.2f}" if isinstance(c, float) and c >= 1 else str(c) for c in cells)
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in shown))
    return f"<h2>Numbers</h2><table><tr>{head}{''.join(lines)}</table>"
