"""A message sequence as text: a column a node, a line a step, arrows at the time of reception."""

from __future__ import annotations

import textwrap
from collections import Counter

from epic_testbed.proofs.explain import Event, Message, MessageSequence

_COLUMN = 18
_WIDTH = 118


def render(sequence: MessageSequence) -> str:
    """The whole sequence, ending in a newline."""
    lines = [sequence.title, ""]
    if not sequence.nodes:
        lines += _plain(sequence)
    else:
        lines.append("".join(f"{n:^{_COLUMN}}" for n in sequence.nodes).rstrip())
        received = Counter(e.received for e in sequence.events if e.received and not e.is_loss)
        seen: Counter[Message] = Counter()
        for event in sequence.events:
            again = bool(event.received and seen[event.received])
            if event.received and not event.is_loss:
                seen[event.received] += 1
            lines += _step(sequence.nodes, event, again, received)
    return "\n".join([*lines, "", *textwrap.wrap(sequence.ending, _WIDTH)]) + "\n"


def _plain(sequence: MessageSequence) -> list[str]:
    lines = []
    for event in sequence.events:
        lines.append(f"{event.number:>3}  {event.text()}")
        for _, note in event.notes:
            lines += textwrap.wrap(note, _WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 9)
    return lines


def _step(nodes: list[str], event: Event, again: bool, received: Counter[Message]) -> list[str]:
    arrow = _arrow(nodes, event)
    lines = [f"{arrow}  {event.number:>3}  {event.text(again)}"]
    blank = _lifelines(nodes)
    for node, note in event.notes:
        lines.append(f"{blank}         {node}: {note}" if node != event.node else f"{blank}         {note}")
    lines += [
        f"{blank}         {m.kind} {m.cell} to {m.receiver}: not received"
        for m in event.sent
        if not received[m]
    ]
    return [line.rstrip() for line in lines]


def _lifelines(nodes: list[str]) -> str:
    return "".join(f"{'|':^{_COLUMN}}" for _ in nodes)


def _arrow(nodes: list[str], event: Event) -> str:
    """The columns of a step: an arrow from sender to receiver, or a mark at the node that acts."""
    cells = list(_lifelines(nodes))
    centre = {n: i * _COLUMN + _COLUMN // 2 for i, n in enumerate(nodes)}
    # `^` puts an odd remainder to the right.
    centre = {n: "".join(cells).index("|", i * _COLUMN) for i, n in enumerate(nodes)}
    message = event.received
    if message is None or event.is_loss:
        if event.node in centre:
            cells[centre[event.node]] = "x" if event.is_loss else "*"
        return "".join(cells)
    start, end = centre[message.sender], centre[message.receiver]
    step = 1 if end > start else -1
    for i in range(start + step, end, step):
        cells[i] = "-"
    cells[start] = "o"
    cells[end - step] = ">" if step > 0 else "<"
    text = f" {message.kind} {message.cell} "
    if len(text) > abs(end - start) - 3:
        text = text.strip()
    room = abs(end - start) - 3
    if len(text) <= room:
        at = min(start, end) + 1 + (room - len(text)) // 2 + (step < 0)
        cells[at : at + len(text)] = text
    return "".join(cells)
