"""A message sequence as SVG: time goes down, an arrow goes from where a message was sent to where it was received."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable
from xml.sax.saxutils import escape

from epic_testbed.proofs.explain import Event, Message, MessageSequence

_LANE = 150
_MARGIN = 24
_HEAD = 76
_ROW = 26
_LINE = 15
_LETTER = 6.2
_WRAP = 96
_STUB = 46
# Where a label stands on its arrow, as a part of the length.
_AT = 0.58
# Colour by what a message is; what is received again is drawn dashed.
_COLOURS = (
    ("NAK", "#c2570c"),
    ("ACK", "#64748b"),
    ("result", "#15803d"),
    ("partial", "#4338ca"),
    ("contribution", "#1d4ed8"),
)
_OTHER, _LOST, _INK, _FAINT, _RAIL = "#334155", "#b91c1c", "#0f172a", "#475569", "#cbd5e1"


def render(sequence: MessageSequence) -> str:
    """The SVG document."""
    return _Drawing(sequence).document()


def _colour(message: Message) -> str:
    return next((colour for word, colour in _COLOURS if message.kind.startswith(word)), _OTHER)


class _Drawing:
    def __init__(self, sequence: MessageSequence) -> None:
        self._sequence = sequence
        self._x = {n: _MARGIN + _LANE // 2 + i * _LANE for i, n in enumerate(sequence.nodes)}
        self._text_x = _MARGIN + len(sequence.nodes) * _LANE + 16
        self._rows: list[tuple[Event, int, list[str]]] = []
        self._ending = textwrap.wrap(sequence.ending, _WRAP + len(sequence.nodes) * 18)
        y = _HEAD
        for event in sequence.events:
            notes = self._notes(event)
            self._rows.append((event, y, notes))
            y += _ROW + _LINE * len(notes)
        self._bottom = y
        self._height = y + 20 + 18 * len(self._ending) + _MARGIN
        texts = [t for event, _, notes in self._rows for t in (event.text(again=True), *notes)]
        titles = [sequence.title + " " * (len(sequence.title) // 3), *self._ending]
        right = self._text_x + 10 + _LETTER * max(map(len, texts), default=0)
        self._width = round(max(right, 2 * _MARGIN + _LETTER * max(map(len, titles))) + _MARGIN)
        self._received = Counter(e.received for e in sequence.events if e.received and not e.is_loss)

    def _notes(self, event: Event) -> list[str]:
        notes = [f"{node}: {note}" if node and node != event.node else note for node, note in event.notes]
        return [line for note in notes for line in textwrap.wrap(note, _WRAP, subsequent_indent="  ")]

    def document(self) -> str:
        title = escape(self._sequence.title)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self._width}" height="{self._height}" '
            f'viewBox="0 0 {self._width} {self._height}" font-family="Helvetica, Arial, sans-serif">',
            f"<title>{title}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            _text(_MARGIN, 28, self._sequence.title, 16, _INK, weight="bold"),
            *self._lanes(),
            *self._arrows(),
            *self._steps(),
            *self._end(),
            "</svg>",
            "",
        ]
        return "\n".join(parts)

    def _lanes(self) -> Iterable[str]:
        for node, x in self._x.items():
            yield f'<line x1="{x}" y1="62" x2="{x}" y2="{self._bottom}" stroke="{_RAIL}" stroke-width="2"/>'
            yield f'<rect x="{x - 34}" y="42" width="68" height="22" rx="5" fill="#f1f5f9" stroke="{_FAINT}"/>'
            yield _text(x, 57, node, 13, _INK, anchor="middle", weight="bold")

    def _arrows(self) -> Iterable[str]:
        """An arrow a reception, from the step in which the message was sent; stubs for those never received."""
        sent_at: dict[Message, int] = {}
        seen: Counter[Message] = Counter()
        for event, y, _ in self._rows:
            for message in event.sent:
                sent_at.setdefault(message, y)
            if event.received is not None and not event.is_loss and self._known(event.received):
                start = sent_at.get(event.received, y - 8)
                yield from self._arrow(event.received, start, y, again=seen[event.received] > 0)
                seen[event.received] += 1
            lost = [m for m in event.sent if not self._received[m] and self._known(m)]
            for side in (-1, 1):
                for i, message in enumerate(m for m in lost if self._side(m) == side):
                    yield from self._stub(message, y, side, i)
            yield from self._mark(event, y)

    def _known(self, message: Message) -> bool:
        return message.sender in self._x and message.receiver in self._x

    def _side(self, message: Message) -> int:
        return 1 if self._x[message.receiver] > self._x[message.sender] else -1

    def _arrow(self, message: Message, start: int, end: int, *, again: bool) -> Iterable[str]:
        side, colour = self._side(message), _colour(message)
        x1, x2 = self._x[message.sender], self._x[message.receiver] - side * 3
        slope = math.degrees(math.atan2(side * (end - start), abs(x2 - x1)))
        dash = ' stroke-dasharray="5 4"' if again else ""
        yield f'<line x1="{x1}" y1="{start}" x2="{x2}" y2="{end}" stroke="{colour}" stroke-width="1.6"{dash}/>'
        yield f'<circle cx="{x1}" cy="{start}" r="3" fill="{colour}"/>'
        yield (
            f'<path d="M 1 0 l {-side * 10} -4.5 v 9 z" fill="{colour}" '
            f'transform="translate({x2} {end}) rotate({slope:.1f})"/>'
        )
        label = f"{message.kind} {message.cell}" + (" again" if again else "")
        # On the line, nearer to its end, turned with it so that it reads from left to right.
        x, y = x1 + _AT * (x2 - x1), start + _AT * (end - start)
        yield f'<g transform="translate({x:.1f} {y:.1f}) rotate({slope:.1f})">'
        yield _text(0, -4, label, 11, colour, anchor="middle", halo=True)
        yield "</g>"

    def _stub(self, message: Message, y: int, side: int, index: int) -> Iterable[str]:
        x, below = self._x[message.sender], y + 9 + 12 * index
        end = x + side * _STUB
        yield f'<line x1="{x}" y1="{y}" x2="{end}" y2="{below}" stroke="{_LOST}" stroke-dasharray="2 3"/>'
        yield _text(end + side * 2, below + 4, "×", 13, _LOST, anchor="middle", weight="bold")
        label = f"{message.kind} {message.cell} to {message.receiver}"
        yield _text(
            end + side * 9, below + 4, label, 10, _LOST, anchor="start" if side > 0 else "end", halo=True
        )

    def _mark(self, event: Event, y: int) -> Iterable[str]:
        if event.node in self._x and (event.received is None or event.is_loss):
            colour = _LOST if event.is_loss else _INK
            x = self._x[event.node]
            yield f'<circle cx="{x}" cy="{y}" r="4.5" fill="#ffffff" stroke="{colour}" stroke-width="2"/>'

    def _steps(self) -> Iterable[str]:
        """What is said of each step, at the right."""
        seen: Counter[Message] = Counter()
        for event, y, notes in self._rows:
            words = event.text(again=seen[event.received] > 0 if event.received else False)
            if event.received and not event.is_loss:
                seen[event.received] += 1
            yield _text(self._text_x, y + 4, str(event.number), 11, _FAINT, anchor="end")
            yield _text(self._text_x + 10, y + 4, words, 12, _INK)
            for i, note in enumerate(notes, 1):
                yield _text(self._text_x + 10, y + 4 + _LINE * i, note, 11, _FAINT)

    def _end(self) -> Iterable[str]:
        y = self._bottom + 8
        height = 18 * len(self._ending) + 10
        yield (
            f'<rect x="{_MARGIN}" y="{y}" width="{self._width - 2 * _MARGIN}" height="{height}" rx="6" '
            f'fill="#fef2f2" stroke="{_LOST}"/>'
        )
        for i, line in enumerate(self._ending):
            yield _text(_MARGIN + 12, y + 19 + 18 * i, line, 13, _LOST)


def _text(
    x: float,
    y: float,
    text: str,
    size: int,
    colour: str,
    *,
    anchor: str = "start",
    weight: str = "",
    halo: bool = False,
) -> str:
    more = f' text-anchor="{anchor}"' if anchor != "start" else ""
    more += f' font-weight="{weight}"' if weight else ""
    more += ' stroke="#ffffff" stroke-width="3" paint-order="stroke"' if halo else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}"{more} xml:space="preserve">{escape(text)}</text>'
