"""What every rule gets."""

from __future__ import annotations

from dataclasses import dataclass

from epic_p4 import ast
from epic_p4.rules.effects import REGISTER_ACTIONS, register_of
from epic_p4.rules.fields import Scope
from epic_p4.rules.flow import Unit
from epic_p4.rules.pipeline import Half, halves
from epic_p4.rules.target import Target


@dataclass(slots=True)
class Context:
    """A TNA program taken apart, and the chip it is for."""

    program: ast.Program
    chip: Target
    halves: list[Half]

    @classmethod
    def of(cls, program: ast.Program, chip: Target) -> Context:
        """Take a program apart. Raises SourceError when it is not a TNA program."""
        return cls(program, chip, halves(program))

    def units(self) -> list[Unit]:
        """The units of both gresses."""
        return [unit for half in self.halves for unit in half.flow.units]

    def register_actions(self) -> list[tuple[ast.Instance, ast.Instance, Scope]]:
        """(RegisterAction, its register, scope of its declaration) of each that is declared, in source order."""
        found: dict[ast.Instance, tuple[ast.Instance, ast.Instance, Scope]] = {}
        for half in self.halves:
            for owner, scope in half.flow.world.scopes.items():
                for instance in owner.members.values():
                    register = register_of(instance) if instance.decl.name in REGISTER_ACTIONS else None
                    if register is not None:
                        found[instance] = (instance, register, scope)
        return list(found.values())
