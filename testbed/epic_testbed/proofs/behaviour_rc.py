"""Recordings of Modes I and II as the lines of tla/Trace1.tla and tla/Trace2.tla."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from epic_models.reference.interfaces import EdgeFailed
from epic_spec.errors import ConfigError
from epic_spec.packets import ERR_BIT
from epic_spec.tables import SYNDROME_MASK, Opcode, Syndrome
from epic_testbed.proofs.behaviour import NO_DESCRIPTOR, Behaviour, descriptor, failures, record
from epic_testbed.proofs.recording import Recording, Seen, Step
from epic_testbed.proofs.values import Fun, Value


class RcBehaviour(Behaviour):
    """What the modes have in common whose edges are reliable connections."""

    def __init__(self, recording: Recording) -> None:
        # Data packets sent before the present step, by direction and edge: the number of the next new one.
        self._next: dict[tuple[str, str], int] = {}
        super().__init__(recording)

    def constants(self) -> dict[str, Value]:
        """The tree, and the PSN bases of its edges."""
        recording = self.recording
        bases = recording.bases
        return super().constants() | {
            "Root": recording.root,
            "Parent": Fun(recording.parent),
            "Base": record(
                up=Fun({edge: base for edge, (base, _) in bases.items()}),
                down=Fun({edge: base for edge, (_, base) in bases.items()}),
            ),
            "Mortal": frozenset(bases),
        }

    def _lines(self, step: Step) -> Iterator[Fun]:
        yield from list(self._steps(step))
        for p in step.sends:
            if not p.is_ack:
                self._next[direction(p), p.edge] = max(self._sent(p), p.number + 1)

    def _sent(self, p: Seen) -> int:
        return self._next.get((direction(p), p.edge), 0)

    def _steps(self, step: Step) -> Iterator[Fun]:
        if step.call == "submit":
            yield self._contribution(step)
        elif step.call == "poll":
            yield from self._timers(step)
        else:
            assert step.received is not None
            p, state = step.received, self._state(step)
            place = {"node": step.node, "dir": direction(p), "edge": p.edge}
            yield Fun(
                {"act": "receive", **place, "m": self._packet(p), "sends": self._sends(step.sends), **state}
            )

    def _contribution(self, step: Step) -> Fun:
        x = self._content(step.line["imm"], step.line["length"])
        cell, state = step.line["next"] - 1, self._rank_state(step)
        return record(
            act="contribute", node=step.node, cell=cell, x=x, sends=self._sends(step.sends), **state
        )

    def _timers(self, step: Step) -> Iterator[Fun]:
        """One line an edge whose timer expired: what it repeated, or that it went into error."""
        for event in step.line.get("events", ()):
            if event["event"] == EdgeFailed.__name__:
                edge = event["edge"].removesuffix(f"-{step.node}")
                yield record(act="giveup", node=step.node, edge=edge, sends=frozenset())
        # An edge that sends nothing again has not timed out: a root sends new results when another edge has failed.
        for key in dict.fromkeys((direction(p), p.edge) for p in step.sends if p.number < self._sent(p)):
            mine = [p for p in step.sends if (direction(p), p.edge) == key]
            yield record(act="timeout", node=step.node, dir=key[0], edge=key[1], sends=self._sends(mine))

    def _state(self, step: Step) -> Mapping[str, Value]:
        """What a receiver's line says of it afterwards."""
        if self.is_rank(step.node):
            return {**self._rank_state(step), "errs": failures(step)}
        return {"slots": frozenset(self._slot(step.node, *slot) for slot in step.line.get("slots", ()))}

    def _slot(self, node: str, cell: int, bitmap: int, done: bool) -> Fun:
        children = self.recording.children[node]
        return record(
            cell=cell, bitmap=frozenset(c for i, c in enumerate(children) if bitmap >> i & 1), done=done
        )

    def _sends(self, packets: Iterable[Seen]) -> frozenset[Value]:
        return frozenset(self._packet(p) for p in packets)

    def _packet(self, p: Seen) -> Fun:
        place = record(dir=direction(p), edge=p.edge, p=p.number)
        if p.is_ack:
            return Fun({**place, "kind": _ACKS[p.syndrome & SYNDROME_MASK]})
        return Fun({**place, **self._data(p)})

    @abstractmethod
    def _data(self, p: Seen) -> Mapping[str, Value]:
        """Kind and contents of a data packet."""


_ACKS: dict[int, str] = {Syndrome.ACK: "ack", Syndrome.NAK: "nak", Syndrome.RNR_NAK: "rnr"}


class Mode2Behaviour(RcBehaviour):
    """Mode II: `Mode2.tla`."""

    MODE = 2

    def constants(self) -> dict[str, Value]:
        """Those of Mode2, and who overran its window on purpose."""
        rogues = self.recording.rogues
        return super().constants() | {"Faults": frozenset(["rogue"] if rogues else []), "Rogues": rogues}

    def _data(self, p: Seen) -> Mapping[str, Value]:
        return {"kind": "data", "x": self._content(p.imm or 0, p.length)}


class Mode1Behaviour(RcBehaviour):
    """Mode I: `Mode1.tla`, whose messages have one packet or two; lengths are in packets."""

    MODE = 1
    _KINDS: ClassVar[Mapping[str, str]] = {
        Opcode.SEND_FIRST.name: "first",
        Opcode.SEND_LAST_IMM.name: "last",
        Opcode.SEND_ONLY_IMM.name: "only",
    }

    def __init__(self, recording: Recording) -> None:
        # Bitmaps as last recorded: node, cell -> bitmap.
        self._bitmaps: dict[tuple[str, int], int] = {}
        super().__init__(recording)

    def constants(self) -> dict[str, Value]:
        """Those of Mode1."""
        return super().constants() | {"B": self.recording.params.message_buffers}

    def _length(self, length: int) -> int:
        """In packets. Raises ConfigError for more than Mode1 has."""
        packets = -(-length // self.recording.params.payload_bytes)
        if packets > 2:
            raise ConfigError(
                f"trace {self.recording.name}: a message of {packets} packets, expected at most 2, which Mode1 has"
            )
        return packets

    def _check(self, cell: int, lengths: Iterable[int]) -> None:
        """Raises ConfigError where ranks disagree about a length that is as many packets."""
        known: dict[int, int] = {}
        for length in lengths:
            if known.setdefault(self._length(length), length) != length:
                raise ConfigError(
                    f"trace {self.recording.name}: cell {cell} has messages of {known[self._length(length)]} and "
                    f"{length} bytes, expected lengths that differ in packets, which Mode1 counts"
                )

    def _lines(self, step: Step) -> Iterator[Fun]:
        """The lines of a call; the root publishes in steps of their own, in the order of cells."""
        published = (
            sorted(slot[0] for slot in step.line.get("slots", ()) if slot[2]) if self._is_root(step) else []
        )
        lines = list(super()._lines(step))
        sends = self._sends(step.sends)
        lines += [
            record(
                act="publish",
                node=step.node,
                slots=frozenset([self._slot(step.node, cell, self._full(step), True)]),
            )
            for cell in published
        ]
        for slot in step.line.get("slots", ()):
            self._bitmaps[step.node, slot[0]] = slot[1]
        for line in lines[:-1]:
            yield Fun({**line, "sends": sends, "last": False})
        for line in lines[-1:]:
            yield Fun({**line, "sends": sends, "last": True})

    def _state(self, step: Step) -> Mapping[str, Value]:
        """At the root before it publishes: a cell that is done by now was counted in this call, or before it."""
        if not self._is_root(step):
            return super()._state(step)
        slots = frozenset(
            self._slot(step.node, cell, bitmap, False)
            for cell, bitmap, _ in step.line.get("slots", ())
            if self._bitmaps.get((step.node, cell)) != bitmap
        )
        return {"slots": slots}

    def _is_root(self, step: Step) -> bool:
        return step.node == self.recording.root

    def _full(self, step: Step) -> int:
        return int((1 << len(self.recording.children[step.node])) - 1)

    def _data(self, p: Seen) -> Mapping[str, Value]:
        kind = self._KINDS.get(p.opcode)
        if kind is None:
            raise ConfigError(
                f"trace {self.recording.name}: a packet {p.opcode}, expected messages of at most 2 packets"
            )
        if kind == "first":
            # The descriptor is in the last packet.
            return {"kind": kind, "x": record(desc=NO_DESCRIPTOR, err=False, len=1)}
        err = bool((p.imm or 0) & ERR_BIT)
        length = 0 if err or not p.length else 1
        return {"kind": kind, "x": record(desc=descriptor(p.imm or 0), err=err, len=length)}


def direction(p: Seen) -> str:
    """The direction of an edge that a packet is about."""
    return "up" if p.up else "down"
