"""From the states of a counterexample to a message sequence: who sent what to whom, and what it changed there.

TLC 2.15 names the action of a step but not its parameters, so the states are given back to it: a module that
walks through them prints, at each step, the messages in the network, every action that can lead from one state to the
next, and what each node keeps. What these are for a specification `Mode3` is said in TLA+, in `ShowMode3.tla`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from epic_testbed.proofs import values
from epic_testbed.proofs.config import TlcConfig
from epic_testbed.proofs.guards import extended
from epic_testbed.proofs.output import Outcome, State
from epic_testbed.proofs.tlc import Job, Pool
from epic_testbed.proofs.values import Fun, Value, ordered

_DEADLINE = 120.0
LOSES = "loses"
_SHOWN = re.compile(r'^<<\s*"shown",\s*(\d+),(.*)>>$', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Message:
    """A message between two nodes."""

    sender: str
    receiver: str
    kind: str
    cell: int
    content: str


@dataclass(slots=True)
class Event:
    """One step: what a node did (`receives` the message, …), what it sent then, and what changed at nodes."""

    number: int
    node: str
    act: str
    received: Message | None
    sent: list[Message] = field(default_factory=list)
    # Node and text.
    notes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_loss(self) -> bool:
        """Whether it is the network that acts: the message is lost."""
        return self.received is not None and self.act == LOSES

    def text(self, again: bool = False) -> str:
        """The step in words; `again`: the message has been received before."""
        m = self.received
        if m is None:
            return f"{self.node} {self.act}".strip()
        if self.is_loss:
            return f"{m.kind} {m.cell} from {m.sender} to {m.receiver} is lost"
        what = f"{self.node} {self.act} {m.kind} {m.cell} from {m.sender}" + (" again" if again else "")
        return what + (f": {m.content}" if m.content else "")


@dataclass(slots=True)
class MessageSequence:
    """A whole counterexample: nodes in the order of their columns, steps, and how it ends."""

    title: str
    nodes: list[str]
    events: list[Event]
    ending: str


def show_module(model_module: Path) -> Path | None:
    """The module that says how to show a specification, found by the name of one that `model_module` extends."""
    for path in sorted(extended(model_module)):
        found = path.parent / f"Show{path.name}"
        if found.is_file():
            return found
    return None


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A model's name and text, its module and configuration, and what TLC found: `result` names what is violated."""

    name: str
    text: str
    module: Path
    config: TlcConfig
    outcome: Outcome
    result: str


def explain(found: Sequence[Counterexample], pool: Pool, folder: Path) -> list[MessageSequence]:
    """The message sequences of counterexamples, which have states; files go into `folder`.

    Without a Show module, or when TLC cannot follow the states, a sequence is plain: no messages, but what changed.
    """
    jobs: dict[str, Counterexample] = {}
    made = []
    for c in found:
        job = _job(c, folder)
        if job is not None:
            jobs[job.name] = c
            made.append(job)
    shown, failed = dict[str, dict[int, Fun]](), dict[str, str]()
    for f in pool.run_all(made):
        name = jobs[f.job.name].name
        shown[name] = _shown(f.outcome)
        if f.outcome.result != "ok":
            failed[name] = f" (No message sequence: {f.outcome.message})"
    return [_sequence(c, shown.get(c.name, {}), failed.get(c.name, "")) for c in found]


def _job(c: Counterexample, folder: Path) -> Job | None:
    show = show_module(c.module)
    if show is None:
        return None
    place = folder / f"explain-{c.name}"
    place.mkdir()
    (place / "Explain.tla").write_text(_module(c.module.stem, show.stem, c.outcome.states))
    constants = c.config.only_constants()
    (place / "Explain.cfg").write_text(f"{constants}\nSPECIFICATION ExplainSpec\nINVARIANT ExplainState\n")
    return Job(place.name, place, "Explain", place / "Explain.cfg", _DEADLINE, (c.module.parent,))


def _shown(outcome: Outcome) -> dict[int, Fun]:
    """What was printed of each state, by its number."""
    shown: dict[int, Fun] = {}
    for text in outcome.printed:
        if match := _SHOWN.match(text):
            shown.setdefault(int(match[1]), _fun(values.parse(match[2])))
    return shown


def _ending(outcome: Outcome, result: str) -> str:
    """How a counterexample ends, in words."""
    what, _, name = result.partition(":")
    text = f"{name} is violated." if what == "violation" else "No step is possible any more."
    if outcome.back_to is not None:
        text += f" The behaviour goes on for ever from step {outcome.back_to}."
    elif outcome.stuttering:
        text += " Nothing more happens, although something should."
    return text


def _module(model: str, show: str, states: Sequence[State]) -> str:
    names = list(states[0].text)
    rows = ",\n".join("[" + ", ".join(f"{n} |-> {s.text[n]}" for n in names) + "]" for s in states)
    now = " /\\ ".join(f"{n} = ExplainStates[1].{n}" for n in names)
    then = " /\\ ".join(f"{n}' = ExplainStates[explained + 1].{n}" for n in names)
    return f"""---- MODULE Explain ----
EXTENDS {model}, {show}, TLC
VARIABLES explained, explainedBy
ExplainStates == <<{rows}>>
ExplainInit == {now} /\\ explained = 1 /\\ explainedBy = {{}}
ExplainNext == explained < Len(ExplainStates) /\\ {then} /\\ explained' = explained + 1 /\\ explainedBy' = ShowActions
ExplainSpec == ExplainInit /\\ [][ExplainNext]_<<explained, explainedBy>>
ExplainState == PrintT(<<"shown", explained, [messages |-> ShowMessages, nodes |-> ShowNodes, parent |-> ShowParent,
                                               actions |-> explainedBy]>>)
====
"""


def _plain(title: str, outcome: Outcome, ending: str) -> MessageSequence:
    """Steps without messages: the action of each, and the variables that changed."""
    events = []
    before: Mapping[str, Value] = {}
    for state in outcome.states:
        now = state.values()
        notes = (
            [("", text) for name in now for text in changes(name, before.get(name), now[name])]
            if before
            else []
        )
        events.append(Event(state.number, "", state.action.name, None, [], notes))
        before = now
    return MessageSequence(title, [], events[1:], ending)


def changes(name: str, before: Value | None, after: Value) -> list[str]:
    """What changed in a value, down to the argument of a function or the element of a set."""
    if before == after:
        return []
    if isinstance(before, Fun) and isinstance(after, Fun) and set(before) == set(after):
        return [
            text
            for key in ordered(after)
            for text in changes(f"{name}[{_short(key)}]", before[key], after[key])
        ]
    if isinstance(before, frozenset) and isinstance(after, frozenset):
        gone = [f"{name} loses {_short(v)}" for v in ordered(frozenset(before - after))]
        return gone + [f"{name} gets {_short(v)}" for v in ordered(frozenset(after - before))]
    if isinstance(before, tuple) and isinstance(after, tuple) and after[: len(before)] == before:
        return [f"{name} gets {_short(v)} at its end" for v in after[len(before) :]]
    return [f"{name} = {_short(after)}"]


def _short(value: Value) -> str:
    return value if isinstance(value, str) else values.show(value)


def _sequence(c: Counterexample, shown: Mapping[int, Fun], remark: str) -> MessageSequence:
    title, ending, states = f"{c.name}: {c.text}", _ending(c.outcome, c.result) + remark, c.outcome.states
    if any(state.number not in shown for state in states):
        return _plain(title, c.outcome, ending)
    events = [
        _event(now.number, shown[before.number], shown[now.number], now.action.name)
        for before, now in pairwise(states)
    ]
    tree = shown[1]["parent"]
    # Without a tree it is the set of the nodes.
    nodes = columns({str(k): str(v) for k, v in tree.items()}) if isinstance(tree, Fun) else _names(tree)
    return MessageSequence(title, nodes, events, ending)


def _names(nodes: Value) -> list[str]:
    return [str(node) for node in ordered(_set(nodes))]


def _event(number: int, before: Fun, after: Fun, name: str) -> Event:
    news = _set(after["messages"]) - _set(before["messages"])
    sent = [_message(m) for m in ordered(frozenset(news))]
    notes = _notes(_fun(before["nodes"]), _fun(after["nodes"]))
    chosen = _choose([_fun(a) for a in ordered(_set(after["actions"]))], sent, notes)
    if chosen is None:
        node = sent[0].sender if sent else notes[0][0] if notes else ""
        return Event(number, node, name, None, sent, notes)
    received = chosen["message"]
    message = _message(received) if isinstance(received, Fun) else None
    return Event(number, str(chosen["node"]), str(chosen["act"]), message, sent, notes)


def _choose(actions: Sequence[Fun], sent: Sequence[Message], notes: Sequence[tuple[str, str]]) -> Fun | None:
    """The action to show where several lead to the next state: one of the node that sends or changes."""
    busy = {m.sender for m in sent} | {node for node, _ in notes}
    return next((a for a in actions if a["node"] in busy), actions[0] if actions else None)


def _notes(before: Fun, after: Fun) -> list[tuple[str, str]]:
    """What changed at each node, in short."""
    items = (
        (str(node), _fun(item))
        for node in ordered(after)
        for item in ordered(frozenset(_set(after[node]) - _set(before[node])))
    )
    return [(node, text) for node, item in items if (text := _note(item))]


def _note(item: Fun) -> str:
    """What a node keeps, in short; empty for a slot that became free."""
    if "text" in item:
        return str(item["text"])
    name, index = item["name"], item["index"]
    content = _content(item["content"])
    if name == "delivers":
        return f"delivers {index}: {content}"
    if item["cell"] == -1:
        return ""
    parts = [f"{name}[{index}] = cell {item['cell']}"]
    if "from" in item:
        parts.append(f"from {', '.join(map(str, ordered(_set(item['from'])))) or 'nobody'}")
    if item.get("done") is True:
        parts.append("done")
    return ", ".join(parts) + (f": {content}" if content else "")


def _message(value: Value) -> Message:
    m = _fun(value)
    cell = m["cell"]
    assert isinstance(cell, int)
    return Message(str(m["from"]), str(m["to"]), str(m["kind"]), cell, _content(m["content"]))


def _content(value: Value) -> str:
    """A payload: the contributions that are summed in it, as r0.3 for that of rank r0 to cell 3."""
    if not isinstance(value, Fun) or "sum" not in value:
        return ""
    if value.get("err"):
        return "ERR"
    terms = sorted(".".join(map(str, t)) for t in _set(value["sum"]) if isinstance(t, tuple))
    return " + ".join(terms) or "NULL"


def columns(parent: Mapping[str, str]) -> list[str]:
    """Nodes from left to right: each engine between the halves of its children."""
    children: dict[str, list[str]] = defaultdict(list)
    for child, above in sorted(parent.items()):
        children[above].append(child)
    roots = sorted(set(parent.values()) - set(parent))

    def walk(node: str) -> list[str]:
        below = children.get(node, [])
        half = (len(below) + 1) // 2
        return [
            *(n for c in below[:half] for n in walk(c)),
            node,
            *(n for c in below[half:] for n in walk(c)),
        ]

    return [node for root in roots for node in walk(root)]


def _fun(value: Value) -> Fun:
    assert isinstance(value, Fun), value
    return value


def _set(value: Value) -> frozenset[Value]:
    if value == ():
        return frozenset()
    assert isinstance(value, frozenset), value
    return value
