"""What an architecture says about its extern functions and objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from epic_p4 import ast

if TYPE_CHECKING:
    from epic_p4.lower.calls import Calls


class Externs(Protocol):
    """Writes out the externs of an architecture. Each raises UnsupportedError for what it does not know."""

    @property
    def zeroes_valid(self) -> bool:
        """Whether a header that becomes valid has its fields set to 0."""

    def function(self, body: Calls, call: ast.Call) -> str:
        """An extern function; the code of its result."""

    def method(self, body: Calls, call: ast.Call, instance: ast.Instance, name: str) -> str:
        """A method of an extern object; the code of its result."""

    def table_applied(self, body: Calls, table: ast.TableInstance, entry: str) -> None:
        """A table was looked up and gave `entry`: count it, where a direct counter does so by itself."""
