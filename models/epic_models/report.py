"""One HTML page of a sweep's results: plots over each parameter of the grid, and the numbers behind them.

What is plotted follows from what the rows have: times and repeats by every parameter; the speed-up over the ring where
that is among the algorithms; what a host's link carried; time by slot memory where windows differ; queues over time
where they were sampled; fairness and slow-downs at flow level.
"""

from __future__ import annotations

import html
import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from epic_models.report_plots import Row, Value, distributions, label, lines, place, queues, series
from epic_models.sweep import CONFIG, done
from epic_spec.errors import ConfigError

PAGE: Final = "report.html"
_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
img { max-width: 100% } pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; font-size: 13px }
table { border-collapse: collapse; font-size: 13px } td, th { padding: .2rem .6rem; border-bottom: 1px solid #ddd }
td { text-align: right } th { text-align: left }
"""
_RING: Final = "ring"


def _of_row(name: str) -> Value:
    return lambda row: row.get(name)


def _several(row: Row) -> bool:
    """Whether jobs of a flow-level simulation can be compared with each other."""
    return isinstance(row.get("jobs"), int) and row["jobs"] > 1


def _fairness(row: Row) -> float | None:
    return row["jain"] if _several(row) else None


def _slowdown(row: Row) -> float | None:
    return row["slowdown"]["p95"] if _several(row) and row["slowdown"] else None


def _slots(row: Row) -> float | None:
    """Bytes of slots that the first job has at each of its switches (packet level)."""
    jobs = row.get("jobs")
    return jobs[0]["slot_bytes"] if isinstance(jobs, list) else None


def _traffic(row: Row) -> float | None:
    """Payload on the busiest link out of a host, in sizes of the data."""
    if "host_link_payload_bytes" not in row or len(row["jobs"]) != 1:
        return None
    return float(row["host_link_payload_bytes"]) / float(row["jobs"][0]["size_bytes"])


# Figures by parameter: a heading, the axis, the value, and whether one is left out where it is 0 everywhere.
FIGURES: Final[tuple[tuple[str, str, Value, bool], ...]] = (
    ("Completion time", "completion, µs", _of_row("completion_us"), False),
    ("Repeats", "packets sent again", _of_row("retransmissions"), True),
    ("Drops", "packets dropped for want of room", _of_row("drops"), True),
    ("Fairness of jobs", "Jain's index of 1 / slow-down", _fairness, False),
    ("Slow-down of jobs", "slow-down, 95th percentile", _slowdown, False),
)


def write(out: Path) -> Path:
    """Write `out`/report.html from the results in `out`. Raises ConfigError where there are none."""
    rows = [row for row in done(out) if "error" not in row]
    if not rows:
        raise ConfigError(f"{out}: no results, expected a folder that `epic sim sweep --out` filled")
    text = (out / CONFIG).read_text() if (out / CONFIG).exists() else ""
    grid = tomllib.loads(text).get("grid", {})
    rows.sort(
        key=lambda row: [*(_order(grid, key, value) for key, value in row["point"].items()), row["seed"]]
    )
    keys = list(rows[0]["point"])
    seeds = sorted({row["seed"] for row in rows})
    note, first = _note(out, rows, keys, seeds), _note(out, rows, keys, seeds[:1])
    sections = [
        f"<h2>{html.escape(title)}</h2>{image}"
        for title, image in _plots(rows, keys, note, first, len(seeds) > 1)
    ]
    page = (
        f"<!doctype html><meta charset=utf-8><title>EPIC sweep</title><style>{_STYLE}</style>"
        f"<h1>{html.escape(out.name)}: {len(rows)} simulations</h1>"
        f"{''.join(sections)}{_table(rows, keys)}<h2>Configuration</h2><pre>{html.escape(text)}</pre>\n"
    )
    path = out / PAGE
    path.write_text(page)
    return path


def _order(grid: dict[str, list[Any]], key: str, value: Any) -> int:
    """Where the grid has a value: lines and rows come in the order in which they were asked for."""
    values = grid.get(key, [])
    return values.index(value) if value in values else len(values)


def _note(out: Path, rows: Sequence[Row], keys: Sequence[str], seeds: Sequence[int]) -> str:
    """What every plot says: which configuration, which grid, which seeds."""
    grid = []
    for key in keys:
        values = list(dict.fromkeys(str(row["point"][key]) for row in rows))
        grid.append(f"{key} = {', '.join(values) if len(values) < 9 else f'{values[0]} … {values[-1]}'}")
    many = "medians of seeds, bars from the least to the greatest; seeds" if len(seeds) > 1 else "seed"
    return f"{out.name}/{CONFIG}; {'; '.join(grid)}; {many} {', '.join(map(str, seeds))}."


def _plots(
    rows: Sequence[Row], keys: Sequence[str], note: str, first: str, bars: bool
) -> Iterator[tuple[str, str]]:
    varied = [key for key in keys if len({str(row["point"][key]) for row in rows}) > 1]
    numeric = [
        key for key in varied if all(isinstance(place(key, row["point"][key]), int | float) for row in rows)
    ]
    algorithm = next((key for key in varied if key.endswith("algorithm")), None)
    for x in numeric or varied[:1] or keys[:1]:
        others = [key for key in varied if key != x]
        for title, axis, value, hide in FIGURES:
            data = series(rows, x, others, value)
            heights = [h for points in data.values() for _, values in points for h in values]
            if heights and (any(heights) or not hide):
                yield f"{title} by {label(x)}", lines(data, label(x), axis, note, bars=bars)
        if algorithm and x != algorithm:
            yield from _against_ring(rows, x, others, algorithm, note, bars)
        if x.endswith("window") and any(map(_slots, rows)):
            slots = series([row for row in rows if _slots(row)], _slots, others, _of_row("completion_us"))
            yield (
                "Completion time by slot memory",
                lines(slots, "slot bytes of a switch", "completion, µs", note, bars=bars),
            )
    if any(row.get("queues") for row in rows):
        yield "Queue depth over time", queues([row for row in rows if row["seed"] == rows[0]["seed"]], first)
    several = [row for row in rows if row["seed"] == rows[0]["seed"] and _several(row)]
    if several:
        yield "How jobs slowed down", distributions(several, varied, first)


def _against_ring(
    rows: Sequence[Row], x: str, others: Sequence[str], algorithm: str, note: str, bars: bool
) -> Iterator[tuple[str, str]]:
    """Speed-up over the ring of the same point and seed, and what a host's link carried."""
    ring = {
        _rest(row, algorithm): row["completion_us"]
        for row in rows
        if row["point"][algorithm] == _RING and row.get("completion_us")
    }

    def speedup(row: Row) -> float | None:
        base, own = ring.get(_rest(row, algorithm)), row.get("completion_us")
        return base / own if base and own and row["point"][algorithm] != _RING else None

    if ring:
        data = series(rows, x, others, speedup)
        yield (
            f"Speed-up over the ring by {label(x)}",
            lines(data, label(x), "times as fast as the ring", note, bars=bars),
        )
    data = series(rows, x, others, _traffic)
    if any(data.values()) and x.endswith(("ranks", "size")):
        yield (
            f"Data on a host's link by {label(x)}",
            lines(data, label(x), "payload on the busiest host link / size", note, bars=bars),
        )


def _rest(row: Row, key: str) -> str:
    return json.dumps([{k: v for k, v in row["point"].items() if k != key}, row["seed"]], sort_keys=True)


def _table(rows: Sequence[Row], keys: Sequence[str]) -> str:
    figures = [
        name
        for name in (
            "completion_us", "retransmissions", "drops", "lost", "marked", "wrong", "jobs_done", "jain", "mean_wait_us",
            "never_in_network",
        )
        if any(row.get(name) is not None for row in rows)
    ]  # fmt: skip
    names = (*keys, "seed", *figures)
    head = "".join(f"<th>{html.escape(label(name))}" for name in names)
    lines_ = []
    for row in rows:
        cells = [*(row["point"][k] for k in keys), row["seed"], *(row.get(name) for name in figures)]
        words = (_figures(c) for c in cells)
        lines_.append("<tr>" + "".join(f"<td>{html.escape(word)}" for word in words))
    return f"<h2>Numbers</h2><table><tr>{head}{''.join(lines_)}</table>"


def _figures(value: Any) -> str:
    """A number as it is read best."""
    if isinstance(value, float):
        return f"{value:,.2f}" if value >= 1 else f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else "-" if value is None else str(value)
