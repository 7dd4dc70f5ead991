"""Conjuncts of the actions of a specification, each with its kind, and copies of a module that lack one.

The module is read by SANY, the parser of TLC, so what counts as a conjunct, what is primed and what belongs together
is what TLC takes it for. Reading starts at `Next` and goes into every operator of the module that is an action where
it is used. A list of `/\\`, be it bulleted or in one line, is read where it says that a step is possible: under `\\/`,
`\\E`, `\\A`, IF and CASE, the body of LET, and on the right of `=>`. Every item has one kind:

guard      no primed variable and no guard with a name: taken away by `epic check tla --guards`.
named      it looks for a name in Broken: taken away by that name.
mutant     it stands beside `~Has("...")` or `"..." \\in Broken`, so it does nothing unless that guard is gone.
switch     it has constants of the specification only: it chooses the configuration, and others choose otherwise.
effect     it has a primed variable or UNCHANGED.
group      it is made of items, which are listed themselves, and of nothing else that could be taken away: actions.
condition  the test of an IF or CASE in an action: taken away it would leave one branch. Items of an IF's test are
           listed; those of a CASE tell kinds apart, for TLC takes the first that holds.

What is said in an operator that is no action, such as `Room(e)`, is one guard where an action has it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from epic_spec.errors import ConfigError
from epic_testbed.proofs import java

GUARD, NAMED, MUTANT, SWITCH = "guard", "named", "mutant", "switch"
EFFECT, GROUP, CONDITION = "effect", "group", "condition"
NEXT = "Next"
_ACTION_LEVEL = 2
_TIMEOUT = 120.0
_COMMENT = re.compile(r"\\\*[^\n]*|\(\*.*?\*\)", re.DOTALL)
_AND, _OR = {"\\land", "$ConjList"}, {"\\lor", "$DisjList"}
_QUANTIFIERS = {"$BoundedExists", "$BoundedForall", "$UnboundedExists", "$UnboundedForall"}
_EFFECTS = {"=", "/=", "\\in", "\\notin", "\\subseteq", "<", ">", "\\leq", "\\geq", "UNCHANGED"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression is: lines and columns from 1, the last ones included."""

    line: int
    column: int
    last_line: int
    last_column: int

    def within(self, other: Place) -> bool:
        """Whether it is in the other, or the same."""
        begin, end = (self.line, self.column), (self.last_line, self.last_column)
        return begin >= (other.line, other.column) and end <= (other.last_line, other.last_column)


@dataclass(frozen=True, slots=True)
class Conjunct:
    """An item of an action: its name (`Action: text`), its kind and its place."""

    name: str
    kind: str
    place: Place

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"name": self.name, "kind": self.kind, "line": self.place.line}


class _Reader:
    """One module as SANY gives it."""

    def __init__(self, module: Path) -> None:
        self.module = module
        self.lines = module.read_text().splitlines()
        self.entries = {
            entry.findtext("UID", ""): entry[1] for entry in _export(module).iterfind("context/entry")
        }
        self.found: list[tuple[str, str, Place]] = []
        self._visited = set[str]()
        self._waiting: list[Element] = []

    def read(self) -> list[Conjunct]:
        """All items in the order of the text. Raises ConfigError for a shape that is not known."""
        begin = [d for d in self.entries.values() if d.findtext("uniquename") == NEXT and self._is_own(d)]
        if len(begin) != 1 or not _is_operator(begin[0]):
            raise ConfigError(
                f"{self.module}: no definition {NEXT}, expected one from which actions are found"
            )
        self._waiting = [begin[0]]
        while self._waiting:
            definition = self._waiting.pop()
            body = definition.find("body/*")
            assert body is not None
            self._action(body, definition.findtext("uniquename", ""))
        self.found.sort(key=lambda f: (f[2].line, f[2].column, -f[2].last_line, -f[2].last_column))
        return self._named()

    def _named(self) -> list[Conjunct]:
        """With names; the second of two that read the same gets a number."""
        seen: dict[str, int] = {}
        conjuncts = []
        for action, kind, place in self.found:
            name = f"{action}: {self._text(place)}"
            seen[name] = seen.get(name, 0) + 1
            conjuncts.append(Conjunct(name if seen[name] == 1 else f"{name} ({seen[name]})", kind, place))
        return conjuncts

    def _is_own(self, node: Element) -> bool:
        return node.findtext("location/filename") == self.module.stem

    def _place(self, node: Element) -> Place:
        numbers = [
            int(node.findtext(f"location/{what}/{end}", "0"))
            for end in ("begin", "end")
            for what in ("line", "column")
        ]
        return Place(*numbers)

    def _text(self, place: Place) -> str:
        lines = self.lines[place.line - 1 : place.last_line]
        lines[-1] = lines[-1][: place.last_column]
        lines[0] = lines[0][place.column - 1 :]
        return " ".join(_COMMENT.sub(" ", "\n".join(lines)).split())

    def _unreadable(self, node: Element, what: str) -> ConfigError:
        place = self._place(node)
        return ConfigError(
            f"{self.module}:{place.line}: {what}: {self._text(place)[:80]!r}, expected actions of /\\, \\/, \\E, \\A, "
            "=>, IF, CASE, LET, operators, and relations of primed variables"
        )

    def _operator(self, node: Element) -> tuple[str, Element | None]:
        """The name of what a node applies, and its entry."""
        reference = node.find("operator/*")
        if reference is None:
            return "", None
        entry = self.entries.get(reference.findtext("UID", ""))
        return (entry.findtext("uniquename", "") if entry is not None else ""), entry

    def _definitions(self, node: Element) -> Iterator[Element]:
        """Definitions, constants, variables and parameters that are named in a node."""
        for reference in node.iter():
            if reference.tag.endswith("Ref"):
                entry = self.entries.get(reference.findtext("UID", ""))
                if entry is not None:
                    yield entry

    def _action(self, node: Element, action: str) -> None:
        """Read an expression that says which steps there are."""
        name, entry = self._operator(node)
        operands = node.findall("operands/*")
        if node.tag == "LetInNode":
            self._action(_only(node, "body/*"), action)
        elif _level(node) < _ACTION_LEVEL:
            self._state(node, action)
        elif node.tag != "OpApplNode":
            raise self._unreadable(node, f"an action that is a {node.tag}")
        elif name in _AND:
            self._items(list(self._flat(node)), action)
        elif name in _OR:
            for operand in operands:
                self._action(operand, action)
        elif name in _QUANTIFIERS:
            self._action(operands[-1], action)
        elif name == "$IfThenElse":
            self._note(operands[0], CONDITION, action)
            self._state(operands[0], action)
            self._action(operands[1], action)
            self._action(operands[2], action)
        elif name == "$Case":
            for arm in operands:
                condition, step = arm.findall("operands/*")
                if condition.tag != "StringNode":  # SANY's sign of OTHER
                    self._note(condition, CONDITION, action)
                self._action(step, action)
        elif name == "=>" and _level(operands[0]) < _ACTION_LEVEL:
            self._action(operands[1], action)
        elif entry is not None and _is_operator(entry):
            self._called(node, entry)
        elif name not in _EFFECTS:
            raise self._unreadable(node, "an action of an unknown shape")

    def _called(self, node: Element, entry: Element) -> None:
        """An operator that is an action: read its definition, once."""
        uid = _only(node, "operator/*").findtext("UID", "")
        if any(_level(operand) >= _ACTION_LEVEL for operand in node.iterfind("operands/*")):
            raise self._unreadable(node, "an operator that gets a step or a next state")
        if not self._is_own(entry):
            raise self._unreadable(node, "an action of another module")
        if uid not in self._visited:
            self._visited.add(uid)
            self._waiting.append(entry)

    def _flat(self, node: Element) -> Iterator[Element]:
        """The items of a conjunction, also of one in another without a list of its own."""
        if self._operator(node)[0] in _AND:
            for operand in node.iterfind("operands/*"):
                yield from self._flat(operand)
        else:
            yield node

    def _items(self, items: Sequence[Element], action: str) -> None:
        mutant = any(self._is_missing_name(item) for item in items)
        for item in items:
            self._item(item, action, mutant)

    def _item(self, item: Element, action: str, mutant: bool) -> None:
        if _level(item) >= _ACTION_LEVEL:
            self._note(item, GROUP if self._is_group(item) else EFFECT, action)
            self._action(item, action)
            return
        names = [d.findtext("uniquename") for d in self._definitions(item)]
        if "Has" in names or "Broken" in names:
            kind = NAMED
        elif mutant:
            kind = MUTANT
        elif not any(d.tag == "FormalParamNode" for d in self._definitions(item)) and _level(item) == 0:
            kind = SWITCH
        else:
            kind = GUARD
        self._note(item, kind, action)
        if kind in (GUARD, NAMED):
            self._state(item, action)

    def _is_group(self, item: Element) -> bool:
        """Whether an item with primes is made of others, or is an action that has a definition of its own."""
        return self._operator(item)[0] not in _EFFECTS

    def _state(self, node: Element, action: str) -> None:
        """Read an expression without primes for items that are deeper in it."""
        name, _ = self._operator(node)
        operands = node.findall("operands/*")
        if node.tag == "LetInNode":
            self._state(_only(node, "body/*"), action)
        elif name in _AND:
            self._items(list(self._flat(node)), action)
        elif name in _OR:
            for operand in operands:
                self._state(operand, action)
        elif name in _QUANTIFIERS or name == "=>":
            self._state(operands[-1], action)
        elif name == "$IfThenElse":
            self._state(operands[1], action)
            self._state(operands[2], action)

    def _is_missing_name(self, item: Element) -> bool:
        """Whether an item is `~Has("...")` or `"..." \\in Broken`."""
        name, _ = self._operator(item)
        operands = item.findall("operands/*")
        if name == "\\lnot":
            return self._operator(operands[0])[0] == "Has"
        return name == "\\in" and self._operator(operands[1])[0] == "Broken"

    def _note(self, node: Element, kind: str, action: str) -> None:
        if not self._is_own(node):
            raise self._unreadable(node, "text of another module")
        place = self._place(node)
        if not place.line:
            raise ConfigError(
                f"{self.module}: {action}: an item without a place, expected text of the module"
            )
        self.found.append((action, kind, place))


def _export(module: Path) -> Element:
    """A module as SANY understands it. Raises ConfigError with what it says."""
    line = [java.java(), "-Xss8m", "-cp", str(java.jar()), "tla2sany.xml.XMLExporter", "-o", module.name]
    try:
        done = subprocess.run(line, cwd=module.parent, capture_output=True, text=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{module}: not parsed after {_TIMEOUT:.0f} s") from None
    begin = done.stdout.find("<?xml")
    try:
        if begin < 0:
            raise ElementTree.ParseError
        return ElementTree.fromstring(done.stdout[begin:])  # noqa: S314  (our own parser wrote it)
    except ElementTree.ParseError:
        said = " ".join((done.stdout[:4000] + done.stderr).split())
        raise ConfigError(f"{module}: SANY cannot read it: {said[-300:]}") from None


def _level(node: Element) -> int:
    return int(node.findtext("level", "0"))


def _only(node: Element, path: str) -> Element:
    found = node.find(path)
    assert found is not None, path
    return found


def _is_operator(entry: Element) -> bool:
    return entry.tag == "UserDefinedOpKind"


def read(module: Path) -> list[Conjunct]:
    """Every item of the actions of a module, in the order of the text.

    Raises ConfigError for a module without Next, one that SANY refuses, and for an action of an unknown shape.
    """
    return _Reader(module).read()


def without(text: str, conjunct: Conjunct) -> str:
    """The text of a module with TRUE for an item; what stands behind it keeps its columns.

    Raises ConfigError where it cannot: a list of several lines begins behind a shorter item.
    """
    place = conjunct.place
    lines = text.splitlines()
    first, last = place.line - 1, place.last_line - 1
    head, tail = lines[first][: place.column - 1], lines[last][place.last_column :]
    if first == last:
        width = place.last_column - place.column + 1
        if (
            width < len("TRUE")
            and re.search(r"/\\|\\/|\bIF\b|\bLET\b|\bCASE\b", tail)
            and not _ends(lines, last, head)
        ):
            raise ConfigError(
                f"line {place.line}: {conjunct.name} is too short to be taken away, expected a line of its own"
            )
        lines[first] = head + "TRUE".ljust(width) + tail
    else:
        lines[first] = head + "TRUE"
        lines[first + 1 : last] = ["" for _ in range(first + 1, last)]
        lines[last] = " " * place.last_column + tail
    return "\n".join(lines) + "\n"


def _ends(lines: Sequence[str], number: int, head: str) -> bool:
    """Whether what stands in a line behind the item ends there: the next line begins no deeper than the item."""
    following = next((line for line in lines[number + 1 :] if line.strip()), "")
    return len(following) - len(following.lstrip()) <= len(head)
