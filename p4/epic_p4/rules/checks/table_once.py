"""A table is applied at most once on a path, and all that touch a register can lie in one stage."""

from __future__ import annotations

from collections.abc import Iterator

from epic_p4.rules.context import Context
from epic_p4.rules.finding import Finding
from epic_p4.rules.flow import Kind

NAME = "table-once"
TITLE = "a table is applied at most once on every path"
SOURCE = "[forum] 1409: applications that do not exclude each other are refused"


def check(context: Context) -> Iterator[Finding]:
    """For each table the first application that follows another."""
    for half in context.halves:
        flow = half.flow
        reach = flow.reachable()
        seen: set[str] = set()
        for site in flow.sites:
            if site.unit.kind is not Kind.TABLE:
                continue
            for later in flow.sites[site.number + 1 :]:
                if (
                    later.unit is site.unit
                    and reach[site.number] >> later.number & 1
                    and site.unit.name not in seen
                ):
                    seen.add(site.unit.name)
                    yield Finding(
                        NAME,
                        later.pos,
                        f"table {site.unit.name} is applied a second time on a path that applied it at "
                        f"{site.pos.line}:{site.pos.column}, expected once a packet",
                    )
