"""Where a size's time went: what ranks and the switch measured, and what of the compiled work each kernel is."""

from __future__ import annotations

from typing import Final

from epic_testbed.bench.rows import Row
from epic_testbed.cases import REDUCING

_WORDS: Final = {"receive": "receiving calls", "send": "sending calls", "kernels": "kernels", "rest": "rest"}


def payload_bytes(primitive: str, size: int, ranks: int) -> tuple[float, float]:
    """Payload bytes that all ranks send, and receive, in a collective of `size` bytes (protocol, section 2)."""
    out = {"broadcast": 1.0, "all_gather": 1.0, "barrier": 0.0}.get(primitive, float(ranks))
    into = {"reduce": 1.0, "reduce_scatter": 1.0, "barrier": 0.0}.get(primitive, float(ranks))
    return out * size, into * size


def kernels(row: Row, rates: dict[str, float]) -> dict[str, float]:
    """Seconds of CRC, addition and moving in all timed iterations on one switch, by what each takes by itself.

    Ranks encode and check all they send and receive; the switch checks what comes in, adds it, and computes the CRC of
    a result once for all ranks.
    """
    times = len(row.times["epic"].us)
    out, into = payload_bytes(row.case.primitive, row.case.bytes, row.ranks)
    adds = out if row.case.primitive in REDUCING else 0.0
    return {
        "rank crc": (out + into) * rates["crc"] * times,
        "rank move": (out + into) * rates["move"] * times,
        "switch crc": (out + row.case.bytes) * rates["crc"] * times,
        "switch add": adds * rates["add"] * times,
    }


def lines(row: Row, rates: dict[str, float] | None) -> list[str]:
    """For people: parts of the processor time, and how much of what two processors could have given that was."""
    spent = row.times["epic"].profile
    total = sum(spent.values())
    if not total:
        return []
    wall = sum(row.times["epic"].us) * 1e-6
    found = [f"#   processor time: {total / wall:.2f} s a second of the collectives"]
    estimate = {} if rates is None else kernels(row, rates)
    for who in ("rank", "switch"):
        parts = []
        for what, word in _WORDS.items():
            seconds = spent.get(f"{who} {what}", 0.0)
            text = f"{word} {seconds / total:.0%}"
            if what == "kernels":
                inner = [
                    f"{name.removeprefix(who + ' ')} {part / total:.0%}"
                    for name, part in estimate.items()
                    if name.startswith(who) and part / total >= 0.005
                ]
                text += f" ({', '.join(inner)} by their rates alone)" if inner else ""
            parts.append(text)
        found.append(f"#   {'ranks' if who == 'rank' else 'switch'}: {', '.join(parts)}")
    return found
