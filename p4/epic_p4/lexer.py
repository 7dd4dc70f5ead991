"""Text into tokens, telling type names from other names by the scopes seen so far.

P4's grammar needs to know whether a name is a type. The parser reports each declaration as soon as
it has been reduced (`declare`, `open_scope`); braces open and close scopes here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lark import Token
from lark.common import LexerConf
from lark.lexer import Lexer, PatternStr

from epic_p4.errors import Pos, SourceError, UnsupportedError
from epic_p4.preprocess import Preprocessed

_SCAN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<pragma>@pragma[ \t]+[^\n]*)
    | (?P<annotation>@[ \t]*[A-Za-z_]\w*)
    | (?P<integer>(?:\d+[ws])?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[dD][0-9_]+|[0-9][0-9_]*))
    | (?P<word>[A-Za-z_]\w*)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<mark>\|\+\|=|\|-\|=|<<=|>>=|\.\.\.|&&&|\|\+\||\|-\||\.\.|<<|<=|>=|==|!=|&&|\|\||\+\+
        |\+=|-=|\*=|/=|%=|&=|\|=|\^=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    | (?P<other>.)  # only right within the body of an annotation
    """,
    re.VERBOSE | re.DOTALL,
)

_REFUSED = {
    "for": "for loop",
    "break": "break statement",
    "continue": "continue statement",
    "header_union": "header_union",
    "value_set": "value_set",
    "this": "this",
}

_TYPE_WORDS = frozenset(
    {"bit", "int", "varbit", "bool", "error", "string", "tuple", "void", "match_kind", "_"}
)
_RESERVED = frozenset({"true", "false"})


@dataclass(frozen=True, slots=True)
class AnnotationText:
    """An annotation as the lexer sees it: its name and the lexemes of its body."""

    name: str
    text: str
    lexemes: tuple[tuple[str, str], ...]  # (kind, text)
    pragma: bool = False
    structured: bool = False


@dataclass(slots=True)
class _Scope:
    depth: int
    by_brace: bool
    names: dict[str, bool]  # name -> whether it is a type


class Scopes:
    """Which names are types, by nested scopes."""

    def __init__(self) -> None:
        self.scopes = [_Scope(-1, True, {})]
        self.depth = 0

    def declare(self, name: str, is_type: bool) -> None:
        """A name of the innermost scope."""
        self.scopes[-1].names[name] = is_type

    def open_scope(self) -> None:
        """A scope that ends with the `;` or closing brace of the declaration whose head was just read."""
        self.scopes.append(_Scope(self.depth, False, {}))

    def is_type(self, name: str) -> bool:
        """Whether the innermost declaration of `name` is a type."""
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        return False

    def brace(self, opening: bool) -> None:
        """A brace was read."""
        if opening:
            self.scopes.append(_Scope(self.depth, True, {}))
            self.depth += 1
            return
        self.depth -= 1
        while len(self.scopes) > 1 and self.scopes[-1].depth >= self.depth:
            self.scopes.pop()

    def semicolon(self) -> None:
        """A semicolon was read."""
        while len(self.scopes) > 1 and not self.scopes[-1].by_brace and self.scopes[-1].depth == self.depth:
            self.scopes.pop()


@dataclass(slots=True)
class Source:
    """What the lexer works on: the text and the parse's scopes."""

    text: Preprocessed
    scopes: Scopes


class P4Lexer(Lexer):
    """A lark lexer. `lex` is lazy: the scopes are read when the parser asks for the next token."""

    def __init__(self, conf: LexerConf) -> None:
        self.fixed = {
            terminal.pattern.value: terminal.name
            for terminal in conf.terminals
            if isinstance(terminal.pattern, PatternStr)
        }

    # lark passes on what was given to `parse`; with __future_interface__ also the parser's state.
    def lex(self, source: Any) -> Iterator[Token]:  # type: ignore[override]
        """The tokens of a Source."""
        assert isinstance(source, Source)
        return _Lexing(source, self.fixed).tokens()


@dataclass(slots=True)
class _Lexeme:
    kind: str
    text: str
    start: int


class _Lexing:
    """One run over a text."""

    def __init__(self, source: Source, fixed: dict[str, str]) -> None:
        self.source = source
        self.scopes = source.scopes
        self.fixed = fixed
        self.lexemes = list(self._scan())

    def pos(self, lexeme: _Lexeme) -> Pos:
        return self.source.text.pos(lexeme.start)

    def _scan(self) -> Iterator[_Lexeme]:
        text = self.source.text.text
        offset = 0
        while offset < len(text):
            match = _SCAN.match(text, offset)
            assert match is not None  # the last group takes any character
            kind = match.lastgroup or ""
            if kind != "space":
                yield _Lexeme(kind, match.group(), offset)
            offset = match.end()

    def tokens(self) -> Iterator[Token]:
        index = 0
        previous = ""
        while index < len(self.lexemes):
            lexeme = self.lexemes[index]
            if lexeme.kind in {"annotation", "pragma"}:
                token, index = self._annotation(index)
                yield token
                continue
            kind = self._kind(lexeme, index, previous)
            yield Token(kind, lexeme.text, start_pos=lexeme.start)
            # Only now, for the parser declares the name before a brace when it has seen the brace.
            if lexeme.text in {"{", "}"}:
                self.scopes.brace(lexeme.text == "{")
            elif lexeme.text == ";":
                self.scopes.semicolon()
            previous = kind
            index += 1

    def _kind(self, lexeme: _Lexeme, index: int, previous: str) -> str:
        text = lexeme.text
        if lexeme.kind == "integer":
            following = self.lexemes[index + 1] if index + 1 < len(self.lexemes) else None
            if following and following.kind == "word" and following.start == lexeme.start + len(text):
                raise SourceError(
                    self.pos(lexeme), f"number {text}{following.text}: not a number, expected e.g. 8w0xFF"
                )
            return "INTEGER"
        if lexeme.kind == "other":
            raise SourceError(self.pos(lexeme), f"character {text!r}: not part of P4")
        if lexeme.kind == "string":
            return "STRING_LITERAL"
        if lexeme.kind == "word":
            if text in _REFUSED:
                raise UnsupportedError(self.pos(lexeme), _REFUSED[text])
            if text in self.fixed:
                return self.fixed[text]
            return "TYPE_ID" if self.scopes.is_type(text) else "IDENTIFIER"
        if text == "<" and previous in {"IDENTIFIER", "TYPE_ID"} and self._type_follows(index + 1):
            return "LANGLE_ARGS"
        if text == ">" and index + 1 < len(self.lexemes):
            following = self.lexemes[index + 1]
            if following.text == ">" and following.start == lexeme.start + 1:
                return "RANGLE_SHIFT"
        return self.fixed[text]

    def _type_follows(self, index: int) -> bool:
        """Whether a type stands at `index`: then `<` before it opens type arguments, it does not compare."""
        if index >= len(self.lexemes):
            return False
        lexeme = self.lexemes[index]
        following = self.lexemes[index + 1].text if index + 1 < len(self.lexemes) else ""
        if lexeme.text in _TYPE_WORDS:
            return following != "."
        return lexeme.kind == "word" and self.scopes.is_type(lexeme.text) and following not in {".", "("}

    def _annotation(self, index: int) -> tuple[Token, int]:
        """One token for `@name`, `@name(…)`, `@name[…]` and `@pragma name …`."""
        first = self.lexemes[index]
        if first.kind == "pragma":
            words = first.text.split(None, 2)
            value = AnnotationText(words[1], words[2] if len(words) > 2 else "", (), pragma=True)
            return _annotation_token(first, value), index + 1
        name = first.text[1:].strip()
        index += 1
        close = {"(": ")", "[": "]"}.get(self.lexemes[index].text if index < len(self.lexemes) else "")
        if close is None:
            return _annotation_token(first, AnnotationText(name, "", ())), index
        start = index + 1
        pending: list[str] = []
        while True:
            if index == len(self.lexemes):
                raise SourceError(
                    self.pos(first), f"annotation @{name}: body without end, expected {close!r}"
                )
            text = self.lexemes[index].text
            if text in {"(", "[", "{"}:
                pending.append({"(": ")", "[": "]", "{": "}"}[text])
            elif text in {")", "]", "}"} and pending.pop() != text:
                raise SourceError(self.pos(self.lexemes[index]), f"annotation @{name}: {text!r} not opened")
            index += 1
            if not pending:
                break
        body = self.lexemes[start : index - 1]
        source = self.source.text.text
        text = source[body[0].start : body[-1].start + len(body[-1].text)] if body else ""
        lexemes = tuple((one.kind, one.text) for one in body)
        return _annotation_token(
            first, AnnotationText(name, " ".join(text.split()), lexemes, structured=close == "]")
        ), index


def _annotation_token(lexeme: _Lexeme, value: AnnotationText) -> Token:
    return Token("ANNOTATION", value, start_pos=lexeme.start)
