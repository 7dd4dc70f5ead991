"""Plots of a sweep's rows: lines over a parameter, queues over time, distributions. Each is a PNG in a page.

A row is what `sweep` wrote: `point` (dotted keys of the grid), `seed`, and the figures of one simulation.
"""

from __future__ import annotations

import base64
import html
import io
import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from epic_models.tables import size_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
Value = Callable[[Row], float | None]
# Lines that one plot can have before nobody can tell them apart.
_LINES: Final = 10
# Simulations whose queues are shown.
_QUEUES: Final = 6
_UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_MARKERS: Final = "os^Dv<>Pxd"
_STYLES: Final = ("-", "--", "-.", ":")
# Microseconds above which an axis has a larger unit.
_TIMES: Final = ((10_000_000.0, 1e-6, "s"), (10_000.0, 1e-3, "ms"), (0.0, 1.0, "µs"))
# Characters of a line of small print below a plot.
_SMALL: Final = 150


def label(key: str) -> str:
    """A parameter's name on an axis: the last part of its dotted key."""
    name, unit = _named(key)
    return f"{name}, {unit}" if unit else name


def _named(key: str) -> tuple[str, str]:
    """A parameter's name and unit."""
    words = key.rpartition(".")[2]
    for end, unit in (("_us", "µs"), ("_ns", "ns"), ("_gbps", "Gb/s"), ("_kib", "KiB"), ("_per_s", "/s")):
        if words.endswith(end):
            return words.removesuffix(end).replace("_", " "), unit
    return words.replace("_", " "), ""


def place(key: str, value: Any) -> Any:
    """A parameter's value as a place on an axis: sizes in bytes, numbers, or words."""
    if key.endswith("size") and isinstance(value, int | str):
        return size_of(value, key)
    return value


def shown(key: str, value: Any) -> str:
    """A parameter's value in words."""
    if key.endswith(("size", "bytes")):
        return _bytes(size_of(value, key))
    if isinstance(value, str):
        return value
    name, unit = _named(key)
    number = f"{value:g}" if isinstance(value, int | float) else str(value)
    return f"{name} {number} {unit}".strip()


def _bytes(count: float) -> str:
    for unit, word in _UNITS:
        if count >= unit:
            return f"{count / unit:g} {word}"
    return f"{count:g} B"


def series(
    rows: Sequence[Row], x: Value | str, others: Sequence[str], value: Value
) -> dict[str, list[tuple[Any, list[float]]]]:
    """For each combination of the other parameters, (x, values of all seeds) in order of x."""
    found: dict[str, dict[Any, list[float]]] = {}
    for row in rows:
        # A line without points keeps its place, so that a name has the same colour in every plot of a page.
        line = found.setdefault(", ".join(shown(k, row["point"][k]) for k in others), {})
        height = value(row)
        if height is not None:
            at = place(x, row["point"][x]) if isinstance(x, str) else x(row)
            line.setdefault(at, []).append(height)
    return {name: sorted(values.items(), key=lambda item: item[0]) for name, values in found.items()}


def lines(
    data: Mapping[str, Sequence[tuple[Any, Sequence[float]]]],
    x_label: str,
    y_label: str,
    note: str,
    *,
    bars: bool,
) -> str:
    """Medians over the seeds, with bars from the least to the greatest, as an <img>; words in order on the axis."""
    plot, axes = _figure(note)
    places = sorted(
        {at for points in data.values() for at, _ in points}, key=lambda at: (isinstance(at, str), at)
    )
    words = any(isinstance(at, str) for at in places)
    heights = [v for points in data.values() for _, values in points for v in values]
    unit = 1.0
    if y_label.endswith("µs"):
        unit, word = next((u, word) for above, u, word in _TIMES if max(heights, default=0.0) >= above)
        y_label = y_label.removesuffix("µs") + word
    for number, (name, points) in enumerate(data.items()):
        if not points:
            continue
        across = [places.index(at) if words else at for at, _ in points]
        middle = [statistics.median(values) * unit for _, values in points]
        low = [m - min(values) * unit for m, (_, values) in zip(middle, points, strict=True)]
        high = [max(values) * unit - m for m, (_, values) in zip(middle, points, strict=True)]
        axes.errorbar(
            across, middle, yerr=[low, high] if bars else None, marker=_MARKERS[number % len(_MARKERS)],
            markersize=5, markerfacecolor="none", capsize=3, label=name,
            linestyle="none" if words else _STYLES[number % len(_STYLES)],
        )  # fmt: skip
    if words:
        axes.set_xticks(range(len(places)), places)
        axes.margins(x=0.15)
    else:
        _scale_x(axes, places, "bytes" in x_label or x_label == "size")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    _scale_y(axes, heights)
    _legend(axes, len(data))
    return _image(plot, f"{y_label} by {x_label}")


def _scale_x(axes: Axes, places: Sequence[float], is_size: bool) -> None:
    """Logarithmic where values are factors apart; ticks where the values are, as many as there is room for."""
    above = [at for at in places if at > 0]
    if len(places) < 3 or not above or max(above) < 8 * min(above):
        return
    if len(above) == len(places):
        axes.set_xscale("log", base=2)
    else:
        axes.set_xscale("symlog", linthresh=min(above), base=10)
    ticks = places[:: -(-len(places) // 9)]
    axes.set_xticks(ticks, [_bytes(at) if is_size else f"{at:g}" for at in ticks])
    axes.set_xticks([], minor=True)


def _scale_y(axes: Axes, heights: Sequence[float]) -> None:
    if heights and min(heights) > 0 and max(heights) > 30 * min(heights):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)


def queues(rows: Sequence[Row], note: str) -> str:
    """The longest queue of a switch over time, a line a simulation, as an <img>."""
    plot, axes = _figure(note)
    chosen = [row for row in rows if row.get("queues")][:_QUEUES]
    for row in chosen:
        found = row["queues"]
        at = [i * found["every_us"] for i in range(len(found["longest_bytes"]))]
        name = ", ".join(shown(k, v) for k, v in row["point"].items()) or "all"
        axes.plot(at, [depth / 1024 for depth in found["longest_bytes"]], label=name, linewidth=1)
    axes.set_xlabel("time, µs")
    axes.set_ylabel("longest queue of a switch, KiB")
    axes.set_ylim(bottom=0)
    _legend(axes, len(chosen))
    return _image(plot, "queue depth over time")


def distributions(rows: Sequence[Row], others: Sequence[str], note: str) -> str:
    """Shares of the jobs that slowed down by no more than x (flow level), a line a combination, as an <img>."""
    plot, axes = _figure(note)
    names = []
    for row in rows:
        name = ", ".join(shown(k, row["point"][k]) for k in others) or "jobs"
        if name in names or not row.get("slowdown_quantiles"):
            continue
        names.append(name)
        axes.plot(row["slowdown_quantiles"], row["quantiles"], label=name, linewidth=1.4)
    axes.set_xlabel("slow-down of a job: its time over its time alone, all groups in the network")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1.02)
    if axes.get_xlim()[1] > 20:
        axes.set_xscale("log")
    _legend(axes, len(names))
    return _image(plot, "distribution of slow-downs")


def _figure(note: str) -> tuple[Figure, Axes]:
    """With `note` in small print: a picture that is taken out of its page still says what it is of."""
    from matplotlib.figure import Figure

    plot = Figure(figsize=(7.5, 4.4), layout="constrained")
    plot.supxlabel("\n".join(textwrap.wrap(note, _SMALL)), fontsize=6, color="#666666", x=0.02, ha="left")
    axes = plot.subplots()
    axes.grid(alpha=0.3)
    return plot, axes


def _legend(axes: Axes, count: int) -> None:
    if count > _LINES:
        axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    elif count > 1:
        axes.legend(fontsize=8, frameon=False)


def _image(plot: Figure, title: str) -> str:
    picture = io.BytesIO()
    plot.savefig(picture, format="png", dpi=130)
    encoded = base64.b64encode(picture.getvalue()).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{encoded}">'
