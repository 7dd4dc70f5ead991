"""What a program on a switch offers to groups, and the refusals (EPIC-E-18)."""

from __future__ import annotations

from dataclasses import dataclass

from epic_p4.control.description import GroupLike
from epic_spec.errors import ResourceError
from epic_spec.tables import CAPABILITIES


@dataclass(frozen=True, slots=True)
class ProgramCapabilities:
    """Upper limits, sets and options by the names of epic.toml."""

    mode: int = 3
    window: int = 4096
    slots: int = 8192
    payload_bytes: int = 256
    children: int = 64
    groups: int = 64
    operators: tuple[str, ...] = ("SUM", "MAX", "MIN")
    datatypes: tuple[str, ...] = ("INT32",)
    byte_order: tuple[str, ...] = ("big",)
    icrc: tuple[str, ...] = ("full", "none")
    partial_format: tuple[str, ...] = ("input",)
    ack_reflection: bool = True
    window_guard: bool = True
    conflict_record: bool = False
    ordered: bool = False
    ecn: bool = True

    def check(self, group: GroupLike) -> None:
        """Refuse a group that asks for more than is offered. Raises ResourceError naming the capability."""
        params = group.params
        where = f"group {params.group}"
        if params.mode != self.mode:
            raise ResourceError(f"{where}: mode = {params.mode}, this switch offers mode {self.mode}")
        for name in ("window", "slots", "payload_bytes"):
            asked, most = getattr(params, name), getattr(self, name)
            if asked > most:
                raise ResourceError(f"{where}: {name} = {asked}, this switch offers at most {most}")
        if not 1 <= len(group.children) <= self.children:
            raise ResourceError(
                f"{where}: fan-in {len(group.children)}, this switch offers 1 to {self.children}"
            )
        for name in ("operators", "datatypes"):
            offered = getattr(self, name)
            for value in getattr(params, name):
                if value not in offered:
                    raise ResourceError(
                        f"{where}: {name} has {value}, this switch offers {', '.join(offered)}"
                    )
        for name in ("byte_order", "icrc", "partial_format"):
            asked, offered = getattr(params, name), getattr(self, name)
            if asked not in offered:
                raise ResourceError(f"{where}: {name} = {asked}, this switch offers {', '.join(offered)}")
        for name in ("ack_reflection", "window_guard", "conflict_record", "ordered", "ecn"):
            used = self.mode in CAPABILITIES[name]["modes"]
            if used and getattr(params, name) and not getattr(self, name):
                raise ResourceError(f"{where}: {name} is asked for, this switch does not offer it")
