"""The table of a bench: nccl-tests' columns, and how much faster EPIC is than each peer."""

from __future__ import annotations

from collections.abc import Sequence

from epic_testbed.bench.rows import Row
from epic_testbed.options import Setup

_FORMAT = "{:>10} {:>10} {:>5} {:>5} {:>4} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>6}"


def head(setup: Setup, peers: Sequence[str], iterations: int, warmup: int) -> list[str]:
    """What was measured, and the names of the columns."""
    params = setup.params
    about = (
        f"# epic: mode {params.mode}, {setup.datapath} datapath, topology {setup.topology.name}, {setup.ranks} ranks, "
        f"payload {params.payload_bytes}, window {params.window}, ICRC {params.icrc}, {params.byte_order} endian"
    )
    what = f"# {iterations} iterations, {warmup} to warm up; time: mean over the ranks; bandwidth of the median, Gb/s"
    names = _FORMAT.format(
        "size",
        "count",
        "type",
        "redop",
        "root",
        "min us",
        "median us",
        "p99 us",
        "max us",
        "algbw",
        "busbw",
        "#wrong",
    )
    units = "".join(f" {f'{peer} us':>11} {'ratio':>6}" for peer in peers)
    return [about, what, (names + units).rstrip()]


def line(row: Row, peers: Sequence[str]) -> str:
    """One size."""
    case, own = row.case, row.times["epic"]
    times = own.to_dict()
    text = _FORMAT.format(
        case.bytes,
        case.count,
        case.dtype,
        case.op,
        "-" if case.root is None else case.root,
        f"{times['min']:.1f}",
        f"{times['median']:.1f}",
        f"{times['p99']:.1f}",
        f"{times['max']:.1f}",
        f"{row.algbw('epic'):.3f}",
        f"{row.busbw('epic'):.3f}",
        own.wrong,
    )
    for peer in peers:
        other = row.times[peer]
        text += (
            f" {'n/a':>11} {'':>6}"
            if other.missing
            else f" {other.quantile(0.5):>11.1f} {row.ratio(peer):>6.2f}"
        )
    return text.rstrip()


def notes(rows: Sequence[Row], peers: Sequence[str]) -> list[str]:
    """Why a peer has no figures, once each; wrong elements of peers."""
    found = []
    for peer in peers:
        reasons = dict.fromkeys(row.times[peer].missing for row in rows if row.times[peer].missing)
        found += [f"# n/a: {reason}" for reason in reasons]
        wrong = sum(row.times[peer].wrong for row in rows)
        if wrong:
            found.append(f"# {peer}: {wrong} elements wrong")
    return found
