"""What TLC says with `-tool`: messages between `@!@!@STARTMSG code:class @!@!@` and `@!@!@ENDMSG code @!@!@`.

Codes are those of `tlc2.output.EC` of TLC 2.15.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from epic_testbed.proofs import values
from epic_testbed.proofs.values import Value

_START = re.compile(r"@!@!@STARTMSG (\d+):(\d+) @!@!@")
_END = re.compile(r"@!@!@ENDMSG (\d+) @!@!@")
_STATE = re.compile(r"(\d+): (?:<(?P<action>.*?)>|(?P<word>Stuttering))", re.DOTALL)
_ACTION = re.compile(
    r"(?P<name>\S+)(?: (?P<place>line \d+, col \d+ to line \d+, col \d+) of module (?P<module>\S+))?"
)
_CONJUNCT = re.compile(r"^/\\ (\w+) = ", re.MULTILINE)
_COUNTS = re.compile(
    r"([\d,]+) states generated.*?(-?[\d,]+) distinct states found.*?(-?[\d,]+) states left", re.DOTALL
)
_SIMULATED = re.compile(r"([\d,]+) states generated")

_INVARIANT = {"2107", "2110"}  # in the initial state, in a behaviour
_ACTION_PROPERTY = {"2108", "2112", "2113"}
_STATE_MESSAGES = {"2216", "2217", "2218"}
_COUNT_MESSAGES = {"2199", "2200"}
_TEMPORAL = "2116"
_DEADLOCK = "2114"
_ASSERT = "2132"
_BACK = "2122"
_INITIAL = "2107"
_DEPTH = "2194"
_SIMULATION = "2209"
_FINISHED = "2186"
# Errors that only say more about one that came before.
_ADDITIONS = {"2121", "2264", "2103"}

# A violated temporal property of which TLC does not say the name.
TEMPORAL = "temporal"
ASSERT = "Assert"


@dataclass(frozen=True, slots=True)
class Action:
    """What led to a state: TLC's name of it, and where it is written (`line …` of a module), both may be empty."""

    name: str
    place: str = ""
    module: str = ""

    @classmethod
    def parse(cls, text: str) -> Action:
        """From what TLC writes between the angle brackets."""
        match = _ACTION.fullmatch(text)
        if match is None:
            return cls(text)
        return cls(match["name"], match["place"] or "", match["module"] or "")


@dataclass(frozen=True, slots=True)
class State:
    """One state of a counterexample: its number from 1, the action that led to it, and TLA+ text by variable."""

    number: int
    action: Action
    text: Mapping[str, str]

    def values(self) -> dict[str, Value]:
        """The variables as Python values. Raises ConfigError for a value that cannot be read."""
        return {name: values.parse(text) for name, text in self.text.items()}


@dataclass(slots=True)
class Outcome:
    """What one run of TLC found.

    `result`: "ok", "violation:<name>", "deadlock", "error", and from the runner "timeout", "memory" or "stopped".
    """

    result: str = ""
    message: str = ""
    # For a violated action property without a name: where the property is written.
    place: Action | None = None
    generated: int | None = None
    distinct_states: int | None = None
    queue: int | None = None
    depth: int | None = None
    states: list[State] = field(default_factory=list)
    # A behaviour that never ends goes back to the state with this number; its last one repeated is stuttering.
    back_to: int | None = None
    stuttering: bool = False
    # What the specification printed (PrintT).
    printed: list[str] = field(default_factory=list)


class OutputParser:
    """Takes TLC's output line by line; `outcome` is what is known so far, `finish` settles the result."""

    def __init__(self) -> None:
        self.outcome = Outcome()
        self._open: list[tuple[str, str, list[str]]] = []
        self._loose: list[str] = []
        self._printing: list[str] = []
        self._finished = False

    def feed(self, line: str) -> None:
        """The next line, without its newline. Messages may be nested."""
        text = line
        while (start := _START.search(text)) is not None:
            self._add(text[: start.start()])
            self._open.append((start[1], start[2], []))
            text = text[start.end() :]
        end = _END.search(text)
        if end is None:
            self._add(text)
        elif self._open:
            self._add(text[: end.start()])
            code, kind, lines = self._open.pop()
            self._message(code, kind, "\n".join(lines).strip())

    def finish(self, exit_code: int) -> Outcome:
        """The outcome of a run that has ended by itself."""
        outcome = self.outcome
        if outcome.result:
            return outcome
        if exit_code == 0 and self._finished and not outcome.message:
            outcome.result = "ok"
        else:
            outcome.result = "error"
            told = [line.strip() for line in self._loose if line.strip()]
            # What SANY found comes after this heading, outside of any message.
            found = next(
                (
                    i
                    for i, line in enumerate(told)
                    if re.match(r"\*{3} *(Errors|Parse Error|Abort messages)", line)
                ),
                None,
            )
            if found is not None:
                outcome.message = " ".join(told[found + 1 : found + 4])
            memory = next((x for x in told if "OutOfMemoryError" in x), None)
            errors = [x for x in told if re.search(r"rror|xception|nknown|ould not|annot", x)]
            outcome.message = outcome.message or memory or " ".join((errors or told[-2:])[:3])
            outcome.message = outcome.message or f"TLC ended with exit code {exit_code}"
        if "OutOfMemoryError" in outcome.message or any("OutOfMemoryError" in line for line in self._loose):
            outcome.result = "memory"
        return outcome

    def _add(self, text: str) -> None:
        if self._open:
            self._open[-1][2].append(text)
        elif self._printing or text.startswith("<<"):
            self._print(text)
        elif text.strip():
            self._loose.append(text)
            del self._loose[:-200]

    def _print(self, text: str) -> None:
        """A line of a printed tuple, which may go over several."""
        self._printing.append(text)
        whole = "\n".join(self._printing)
        if whole.count("<<") == whole.count(">>"):
            self.outcome.printed.append(whole)
            self._printing = []

    def _message(self, code: str, kind: str, text: str) -> None:
        outcome = self.outcome
        if code in _STATE_MESSAGES or code == _BACK:
            self._state(code, text)
        elif code in _COUNT_MESSAGES:
            if match := _COUNTS.search(text):
                outcome.generated, outcome.distinct_states, outcome.queue = (
                    int(n.replace(",", "")) for n in match.groups()
                )
        elif code == _DEPTH:
            outcome.depth = int(re.findall(r"\d+", text)[-1])
        elif code == _SIMULATION:
            if match := _SIMULATED.search(text):
                outcome.generated = int(match[1].replace(",", ""))
        elif code == _FINISHED:
            self._finished = True
        elif code == _ASSERT:
            self._violated(ASSERT, text)
        elif kind == "1" and code not in _ADDITIONS:
            self._error(code, text)

    def _error(self, code: str, text: str) -> None:
        first = text.splitlines()[0] if text else ""
        if code in _INVARIANT or code in _ACTION_PROPERTY:
            match = re.match(r"(?:Invariant|Action property|Property) (.*?) is violated", first)
            name = match[1] if match else first
            if name.startswith("line "):
                self.outcome.place = Action.parse(f"? {name}")
            self._violated(name, first)
            if code == _INITIAL:
                self.outcome.states.append(State(1, Action("Initial predicate"), _variables(text)))
        elif code == _TEMPORAL:
            self._violated(TEMPORAL, first)
        elif code == _DEADLOCK and not self.outcome.result:
            self.outcome.result, self.outcome.message = "deadlock", first
        elif not self.outcome.result:
            # The first error is the cause; the result stays open until TLC ends.
            self.outcome.message = self.outcome.message or " ".join(text.split())
            self._finished = False

    def _violated(self, name: str, message: str) -> None:
        if not self.outcome.result:
            self.outcome.result = f"violation:{name}"
            self.outcome.message = " ".join(message.split())

    def _state(self, code: str, text: str) -> None:
        match = _STATE.match(text)
        if code == _BACK:
            self.outcome.back_to = int(text.split(":")[0])
        elif match is None:
            return
        elif match["word"]:
            self.outcome.stuttering = True
        else:
            action = match["action"].removeprefix("Back to state: ")
            state = State(int(match[1]), Action.parse(action), _variables(text))
            if action == "Initial predicate" or not state.text or state.number > len(self.outcome.states):
                self.outcome.states.append(state)


def _variables(text: str) -> dict[str, str]:
    """TLA+ text by variable from `/\\ x = …` lines; a state of one variable has no `/\\`."""
    found = list(_CONJUNCT.finditer(text))
    if not found:
        match = re.search(r"^(\w+) = (.*)", text, re.MULTILINE | re.DOTALL)
        return {match[1]: match[2].strip()} if match else {}
    ends = [m.start() for m in found[1:]] + [len(text)]
    return {m[1]: text[m.end() : end].strip() for m, end in zip(found, ends, strict=True)}
