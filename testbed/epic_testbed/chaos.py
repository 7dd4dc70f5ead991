"""Faults of whole processes, on request: `--kill rank:2@0.5`, `--kill switch:s1@0.5`, `--silent rank:3`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from epic_spec.errors import ConfigError
from epic_testbed.options import Setup


@dataclass(frozen=True, slots=True)
class Kill:
    """kill -9 of `node` (a switch's name, or r0, r1, …) `after` seconds into the collectives."""

    node: str
    after: float


@dataclass(frozen=True, slots=True)
class Chaos:
    """What goes wrong in a run, and which ranks never call anything."""

    kills: tuple[Kill, ...] = ()
    silent: frozenset[int] = frozenset()

    @property
    def any(self) -> bool:
        """Whether anything was asked for."""
        return bool(self.kills or self.silent)


def parse(kills: Sequence[str], silent: Sequence[str], setup: Setup) -> Chaos:
    """From the options' texts. Raises ConfigError for a node that the run does not have."""
    parsed: list[Kill] = []
    for text in kills:
        match = re.fullmatch(r"(rank|switch):([A-Za-z0-9_]+)@([0-9]+(?:\.[0-9]+)?)", text)
        if not match:
            raise ConfigError(f"kill = {text!r}, expected rank:NUMBER@SECONDS or switch:NAME@SECONDS")
        node = f"r{_rank(match[2], text, setup)}" if match[1] == "rank" else _switch(match[2], text, setup)
        parsed.append(Kill(node, float(match[3])))
    quiet = set()
    for text in silent:
        kind, _, name = text.partition(":")
        if kind != "rank":
            raise ConfigError(f"silent = {text!r}, expected rank:NUMBER")
        quiet.add(_rank(name, text, setup))
    return Chaos(tuple(sorted(parsed, key=lambda kill: kill.after)), frozenset(quiet))


def _rank(name: str, text: str, setup: Setup) -> int:
    if not name.isdecimal() or int(name) >= setup.ranks:
        raise ConfigError(f"{text!r}: rank {name!r}, expected 0 to {setup.ranks - 1}")
    return int(name)


def _switch(name: str, text: str, setup: Setup) -> str:
    if name not in setup.plan.switches:
        raise ConfigError(f"{text!r}: switch {name!r}, expected one of {', '.join(setup.plan.switches)}")
    return name
