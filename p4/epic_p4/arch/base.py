"""What the architectures share: the state of the switch, and externs of both."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from epic_p4 import ast
from epic_p4.errors import SourceError, UnsupportedError
from epic_p4.lower.calls import Calls
from epic_p4.lower.layout import bits
from epic_p4.lower.parsers import ParserBody
from epic_p4.lower.unit import Unit
from epic_p4.runtime.errors import ExecutionError
from epic_p4.runtime.multicast import MulticastEngine
from epic_p4.runtime.state import Counter, Register

MAX_PASSES = 64
"""How often one packet may come round again by recirculation or resubmission."""


@dataclass(slots=True)
class Environment:
    """What a switch gets from outside: a clock in seconds, random numbers, and a place for log lines."""

    clock: Callable[[], float]
    generator: random.Random
    log: Callable[[str], None]


class Architecture(ABC):
    """A loaded program. As the `Externs` of its own lowering it makes registers and counters when it meets them."""

    zeroes_valid = True
    """Whether a header that becomes valid has its fields set to 0."""

    ports = 511
    """Ports are 0 .. ports - 1."""

    def __init__(self, program: ast.Program, environment: Environment) -> None:
        self.program = program
        self.environment = environment
        self.registers: dict[str, Register] = {}
        self.counters: dict[str, Counter] = {}
        self.multicast = MulticastEngine()
        self.unit = Unit(program, self)
        for table in program.tables.values():
            self.unit.table(table)
        self.instances = reachable(program)
        for instance in self.instances:
            self.make(instance)

    @property
    def tables(self) -> dict[str, Any]:
        """Tables by control-plane name."""
        return self.unit.tables

    @abstractmethod
    def process(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """The frames that leave because of one that came in."""

    @abstractmethod
    def method(self, body: Calls, call: ast.Call, instance: ast.Instance, name: str) -> str:
        """A method of an extern object; the code of its result."""

    @abstractmethod
    def table_applied(self, body: Calls, table: ast.TableInstance, entry: str) -> None:
        """A table was looked up and gave `entry`."""

    @abstractmethod
    def make(self, instance: ast.Instance) -> None:
        """Make the register or counter that an extern object is; nothing for others."""

    def counter(self, instance: ast.Instance) -> Counter:
        """The indexed counter of an instance, made at its first use."""
        if instance.name not in self.counters:
            self.counters[instance.name] = Counter(instance.name, self.size_of(instance))
        return self.counters[instance.name]

    def size_of(self, instance: ast.Instance) -> int:
        """The constructor argument `size`."""
        size = instance.args.get("size")
        if not isinstance(size, int) or size <= 0:
            pos = instance.node.pos if instance.node is not None else instance.decl.pos
            raise SourceError(pos, f"size {size} of {instance.name}, expected a number > 0")
        return size

    # -- externs of core.p4, and how to refuse others

    def function(self, body: Calls, call: ast.Call) -> str:
        """An extern function of core.p4."""
        name = call.decl.name if isinstance(call.decl, ast.Declaration) else ""
        if name == "verify" and isinstance(body, ParserBody):
            return body.verify(call)
        if name == "static_assert" and call.const is not None:
            return "True"
        raise UnsupportedError(call.pos, f"extern function {name}")

    def refuse(self, call: ast.Call, instance: ast.Instance, name: str) -> UnsupportedError:
        """The error for a method that cannot be run."""
        return UnsupportedError(call.pos, f"{instance.type}.{name}")


def reachable(program: ast.Program) -> list[ast.Instance]:
    """All instances: those below `main`, and those of the top level."""
    found: dict[ast.Instance, None] = {}
    pending = [*reversed(program.top.values())]
    if program.main is not None:
        pending.append(program.main)
    while pending:
        one = pending.pop()
        if one not in found:
            found[one] = None
            pending += [arg for arg in reversed(one.args.values()) if isinstance(arg, ast.Instance)]
            pending += reversed(one.members.values())
    return list(found)


def argument(call: ast.Call, number: int) -> ast.Expression:
    """An argument that must be there."""
    found = call.args[number]
    assert found is not None
    return found


def member_of(body: Calls, node: ast.Expression, what: str) -> str:
    """The name of an enum member that is known before the program runs."""
    value = body.known(node)
    if not isinstance(value, ast.EnumValue):
        raise UnsupportedError(node.pos, f"{what} that is not constant")
    return value.member


def in_range(body: Calls, index: ast.Expression, size: int) -> bool:
    """Whether an index cannot lie outside `size` cells."""
    value = body.known(index)
    return value < size if isinstance(value, int) else 1 << bits(index.type) <= size


def too_many_passes(what: str) -> ExecutionError:
    """The error for a packet that never leaves."""
    return ExecutionError(f"a packet was {what} more than {MAX_PASSES} times, expected an end")
