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
# Lines that a legend inside a plot can name without covering them.
_LINES: Final = 7
# Values that an axis has ticks at before some are left out.
_TICKS: Final = 12
# Points by which error bars of two lines at one place are apart.
_APART: Final = 3.5
# Simulations whose queues are shown.
_QUEUES: Final = 6
_UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_MARKERS: Final = "os^Dv<>Pxd"
_STYLES: Final = ("-", "--", "-.", ":")
# Microseconds above which an axis has a larger unit.
_TIMES: Final = ((10_000_000.0, 1e-6, "s"), (10_000.0, 1e-3, "ms"), (0.0, 1.0, "µs"))
# Characters of a line of small print below a plot.
_SMALL: Final = 150
# Parameters whose keys do not say what they are: name and unit.
_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "loss": ("loss", "share of packets on each link"),
    "window": ("window W", "cells or packets"),
    "ranks": ("ranks", ""),
    "rate_per_s": ("arrivals", "jobs/s"),
    "straggle_us": ("mean delay of a rank", "µs"),
    "delay_ns": ("delay of a link", "ns"),
    "rate_gbps": ("rate of a link", "Gb/s"),
}


def label(key: str) -> str:
    """A parameter's name on an axis: the last part of its dotted key."""
    name, unit = _named(key)
    return f"{name}, {unit}" if unit else name


def _named(key: str) -> tuple[str, str]:
    """A parameter's name and unit."""
    words = key.rpartition(".")[2]
    if words in _NAMES:
        return _NAMES[words]
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
    return f"{name} {number}" + (f" {unit}" if unit and " " not in unit else "")


def _bytes(count: float) -> str:
    for unit, word in _UNITS:
        if count >= unit:
            return f"{count / unit:g} {word}"
    return f"{count:g} B"


def series(
    rows: Sequence[Row], x: Value | str, others: Sequence[str], value: Value
) -> dict[str, list[tuple[Any, list[float]]]]:
    """For each combination of the other parameters, (x, values of all seeds) in order of x, words as they come."""
    found: dict[str, dict[Any, list[float]]] = {}
    for row in rows:
        # A line without points keeps its place, so that a name has the same colour in every plot of a page.
        line = found.setdefault(", ".join(shown(k, row["point"][k]) for k in others), {})
        height = value(row)
        if height is not None:
            at = place(x, row["point"][x]) if isinstance(x, str) else x(row)
            line.setdefault(at, []).append(height)
    return {
        name: sorted(values.items(), key=lambda item: 0 if isinstance(item[0], str) else item[0])
        for name, values in found.items()
    }


def lines(
    data: Mapping[str, Sequence[tuple[Any, Sequence[float]]]],
    x_label: str,
    y_label: str,
    note: str,
    *,
    bars: bool,
) -> str:
    """Medians over the seeds, with bars from the least to the greatest, as an <img>.

    Over words, columns in the order of `data`.
    """
    heights = [v for points in data.values() for _, values in points for v in values]
    unit = 1.0
    if y_label.endswith("µs"):
        unit, word = next((u, word) for above, u, word in _TIMES if max(heights, default=0.0) >= above)
        y_label = y_label.removesuffix("µs") + word
    plot, axes = _figure(note)
    drawn = {
        name: [(at, [value * unit for value in values]) for at, values in points]
        for name, points in data.items()
    }
    places = list(dict.fromkeys(at for points in drawn.values() for at, _ in points))
    if any(isinstance(at, str) for at in places):
        _columns(axes, drawn, places, bars=bars)
    else:
        _lines(plot, axes, drawn, bars=bars)
        _scale_x(axes, sorted(places), "bytes" in x_label or x_label == "size")
        _scale_y(axes, [height * unit for height in heights])
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    _legend(axes, sum(map(bool, data.values())))
    return _image(plot, f"{y_label} by {x_label}")


_Drawn = Mapping[str, Sequence[tuple[Any, Sequence[float]]]]


def _spread(points: Sequence[tuple[Any, Sequence[float]]]) -> tuple[list[float], list[list[float]]]:
    """Medians, and how far below and above them values go."""
    middle = [statistics.median(values) for _, values in points]
    low = [m - min(values) for m, (_, values) in zip(middle, points, strict=True)]
    high = [max(values) - m for m, (_, values) in zip(middle, points, strict=True)]
    return middle, [low, high]


def _lines(plot: Figure, axes: Axes, data: _Drawn, *, bars: bool) -> None:
    from matplotlib.transforms import ScaledTranslation

    for number, (name, points) in enumerate(data.items()):
        if not points:
            continue
        middle, far = _spread(points)
        made = axes.errorbar(
            [at for at, _ in points], middle, yerr=far if bars else None, marker=_MARKERS[number % len(_MARKERS)],
            markersize=5, markerfacecolor="none", capsize=2, elinewidth=1, label=name,
            color=f"C{number}", linestyle=_STYLES[number % len(_STYLES)],
        )  # fmt: skip
        if bars:
            # Side by side, for bars at one place would cover each other.
            aside = ScaledTranslation(_APART / 72 * (number - (len(data) - 1) / 2), 0, plot.dpi_scale_trans)
            for artist in made.get_children():
                artist.set_transform(axes.transData + aside)


def _columns(axes: Axes, data: _Drawn, places: Sequence[Any], *, bars: bool) -> None:
    """A column for each word and line, with its height in figures."""
    width = 0.7 / max(1, len(data))
    for number, (name, points) in enumerate(data.items()):
        middle, far = _spread(points)
        across = [places.index(at) + (number - (len(data) - 1) / 2) * width for at, _ in points]
        made = axes.bar(
            across, middle, 0.9 * width, yerr=far if bars else None, capsize=3, label=name, color=f"C{number}"
        )
        axes.bar_label(made, [f"{height:,.4g}" for height in middle], padding=2, fontsize=8)
    axes.set_xticks(range(len(places)), places)
    axes.margins(y=0.1)


def _scale_x(axes: Axes, places: Sequence[float], is_size: bool) -> None:
    """Logarithmic where values are factors apart; ticks where the values are, as many as there is room for."""
    above = [at for at in places if at > 0]
    if len(places) >= 3 and above and max(above) >= 8 * min(above):
        if len(above) == len(places):
            axes.set_xscale("log", base=2)
        else:
            axes.set_xscale("symlog", linthresh=min(above), base=10)
        axes.set_xticks([], minor=True)
    ticks = places[:: -(-len(places) // _TICKS)]
    words = [_bytes(at) if is_size else _number(at) for at in ticks]
    axes.set_xticks(ticks, words, fontsize=8 if is_size and len(ticks) > 8 else None)


def _number(at: float) -> str:
    """In figures, without an exponent where that is short."""
    return f"{at:f}".rstrip("0").rstrip(".") if 1e-6 <= abs(at) < 1e6 else f"{at:g}"


def _scale_y(axes: Axes, heights: Sequence[float]) -> None:
    if heights and min(heights) > 0 and max(heights) > 10 * min(heights):
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

        axes.set_yscale("log")
        # With few decades, powers of ten alone say too little.
        few = max(heights) < 1000 * min(heights)
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: _number(at)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)


def queues(rows: Sequence[Row], note: str) -> str:
    """The longest queue of a switch over time, a panel a simulation, as an <img>; each has a time of its own."""
    chosen = [row for row in rows if row.get("queues")][:_QUEUES]
    plot = _canvas(note, 1.2 + 1.7 * len(chosen))
    panels = plot.subplots(len(chosen), 1, sharey=True, squeeze=False)[:, 0]
    for row, axes in zip(chosen, panels, strict=True):
        found = row["queues"]
        at = [i * found["every_us"] for i in range(len(found["longest_bytes"]))]
        axes.plot(at, [depth / 1024 for depth in found["longest_bytes"]], linewidth=1)
        axes.set_title(
            ", ".join(shown(k, v) for k, v in row["point"].items()) or "all", fontsize=9, loc="left"
        )
        axes.grid(alpha=0.3)
        axes.margins(x=0.01)
    panels[0].set_ylim(bottom=0)
    panels[-1].set_xlabel("time, µs")
    plot.supylabel("longest queue of a switch, KiB", fontsize=10)
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
        style = _STYLES[(len(names) - 1) % len(_STYLES)]
        axes.plot(row["slowdown_quantiles"], row["quantiles"], label=name, linewidth=1.4, linestyle=style)
    axes.set_xlabel("slow-down of a job: its time over its time alone, all groups in the network")
    axes.set_ylabel("share of jobs")
    axes.set_ylim(0, 1.02)
    if axes.get_xlim()[1] > 20:
        axes.set_xscale("log")
    _legend(axes, len(names))
    return _image(plot, "distribution of slow-downs")


def _figure(note: str) -> tuple[Figure, Axes]:
    """A plot of one panel."""
    plot = _canvas(note, 4.4)
    axes = plot.subplots()
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    return plot, axes


def _canvas(note: str, height: float) -> Figure:
    """With `note` in small print: a picture that is taken out of its page still says what it is of."""
    from matplotlib.figure import Figure

    plot = Figure(figsize=(7.5, height), layout="constrained")
    plot.supxlabel("\n".join(textwrap.wrap(note, _SMALL)), fontsize=6, color="#666666", x=0.02, ha="left")
    return plot


def _legend(axes: Axes, count: int) -> None:
    """Names of lines, without their error bars."""
    if count < 2:
        return
    from matplotlib.container import ErrorbarContainer

    handles, names = axes.get_legend_handles_labels()
    handles = [handle[0] if isinstance(handle, ErrorbarContainer) else handle for handle in handles]
    if count > _LINES:
        axes.legend(handles, names, fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        axes.legend(handles, names, fontsize=8, framealpha=0.8, edgecolor="none")


def _image(plot: Figure, title: str) -> str:
    picture = io.BytesIO()
    plot.savefig(picture, format="png", dpi=130)
    encoded = base64.b64encode(picture.getvalue()).decode()
    return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{encoded}">'
