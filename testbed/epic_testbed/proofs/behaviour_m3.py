"""Recordings of Mode III as the lines of tla/Trace3.tla."""

from __future__ import annotations

from collections.abc import Iterator

from epic_spec import psn
from epic_spec.tables import Syndrome
from epic_testbed.proofs.behaviour import Behaviour, failures, record
from epic_testbed.proofs.recording import Seen, Step
from epic_testbed.proofs.values import Fun, Value


class Mode3Behaviour(Behaviour):
    """Mode III: `Mode3.tla`."""

    MODE = 3

    def constants(self) -> dict[str, Value]:
        """Those of Mode3, and who overran its window on purpose."""
        params = self.recording.params
        return super().constants() | {
            "Children": Fun(self.recording.children),
            "N": params.slots,
            "Life": psn.HALF,
            "Guard": params.window_guard,
            "Reflection": params.ack_reflection,
            "Rogues": self.recording.rogues,
        }

    def _lines(self, step: Step) -> Iterator[Fun]:
        sends = frozenset(self._packet(p) for p in step.sends)
        if step.call == "submit":
            x = self._content(step.line["imm"], step.line["length"])
            state = self._rank_state(step)
            cell = step.line["next"] - 1
            yield record(act="contribute", node=step.node, cell=cell, x=x, sends=sends, **state)
        elif step.call == "poll":
            if sends:
                yield record(act="repeat", node=step.node, sends=sends, **self._rank_state(step))
        elif self.is_rank(step.node):
            assert step.received is not None
            m, errs = self._packet(step.received), failures(step)
            yield record(act="receive", node=step.node, m=m, sends=sends, errs=errs, **self._rank_state(step))
        else:
            assert step.received is not None
            slots = frozenset(_slot(*slot) for slot in step.line.get("slots", ()))
            yield record(
                act="receive", node=step.node, m=self._packet(step.received), sends=sends, slots=slots
            )

    def _packet(self, p: Seen) -> Fun:
        if p.is_ack:
            kind, x = "reflected" if p.up else "ack", record(nak=p.syndrome >= Syndrome.RNR_NAK)
        else:
            kind, x = "up" if p.up else "down", self._content(p.imm or 0, p.length)
        return record(kind=kind, edge=p.edge, cell=p.number, x=x)


def _slot(cell: int, bitmap: int, done: bool) -> Fun:
    children = frozenset(i + 1 for i in range(bitmap.bit_length()) if bitmap >> i & 1)
    return record(tag=cell, bitmap=children, done=done)
