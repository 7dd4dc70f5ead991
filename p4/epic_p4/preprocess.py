"""The C preprocessor in front of P4, keeping the position of every piece of text.

`pcpp` does the work on tokens; this module adds columns to them, gives tokens that come from a macro the
position where the macro is used (its arguments keep their own), and joins the result to one text
with an index from offsets to positions.
"""

from __future__ import annotations

import bisect
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pcpp  # type: ignore[import-untyped]

from epic_p4.errors import Pos, SourceError
from epic_spec.errors import ConfigError

SYSTEM_INCLUDE = Path(__file__).absolute().parent / "include"
"""Our declarations of core.p4 and the architectures, found with `#include <…>`."""


@dataclass(slots=True)
class Preprocessed:
    """Text without directives, comments and macros; `pos(offset)` says where a character came from."""

    text: str
    starts: list[int]
    positions: list[Pos]
    spread: list[bool]  # whether columns go on within the piece (text as in the source, not a macro's)
    sources: tuple[str, ...] = field(default=())

    def pos(self, offset: int) -> Pos:
        """The position of the character at `offset`."""
        index = max(bisect.bisect_right(self.starts, offset) - 1, 0)
        if not self.positions:
            return Pos(self.sources[0] if self.sources else "<text>", 1, 1)
        where = self.positions[index]
        if not self.spread[index]:
            return where
        return where._replace(column=where.column + offset - self.starts[index])


def preprocess_file(
    path: str | Path, *, include: Sequence[str | Path] = (), defines: Mapping[str, str] | None = None
) -> Preprocessed:
    """Preprocess a file. `include` are directories searched before the package's own."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"P4 source {path}: cannot be read ({reason}), expected a text file") from None
    return preprocess_text(text, str(path), include=include, defines=defines)


def preprocess_text(
    text: str,
    name: str = "<text>",
    *,
    include: Sequence[str | Path] = (),
    defines: Mapping[str, str] | None = None,
) -> Preprocessed:
    """Preprocess `text` as if it were the file `name`."""
    engine = _Preprocessor(name)
    for directory in (*include, SYSTEM_INCLUDE):
        engine.add_path(str(directory))
    engine.rewrite_paths = []  # `display` makes the names for messages
    for macro, value in (defines or {}).items():
        engine.define(f"{macro} {value}")
    engine.parse(text, name)
    return _join(engine.stream(), engine.sources)


class _Preprocessor(pcpp.Preprocessor):  # type: ignore[misc]
    """pcpp with columns and our errors.

    A token gets two attributes: `where` (Pos) and `used` (whether it was made by a macro).
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.line_directive = None
        self.main = (os.path.abspath(name), name)  # noqa: PTH100 - as pcpp names it
        self.sources: list[str] = [name]
        self.directive_pos = Pos(name, 1, 1)

    def stream(self) -> Iterator[Any]:
        """The tokens of the result."""
        while (token := self.token()) is not None:
            yield token

    def display(self, source: str | None) -> str:
        """A source's name for messages: as given for the main file, `<name>` for the package's own."""
        if source is None or source == self.main[0]:
            return self.main[1]
        path = Path(source)
        if path.parent == SYSTEM_INCLUDE:
            return f"<{path.name}>"
        try:
            return str(path.relative_to(Path.cwd()))
        except ValueError:
            return source

    def group_lines(self, input: str, abssource: str | None) -> Iterator[list[Any]]:  # noqa: A002 - pcpp's
        data = "\n".join(line.rstrip() for line in input.splitlines())
        file = self.display(abssource)
        for line in super().group_lines(input, abssource):
            for token in line:
                column = token.lexpos - data.rfind("\n", 0, token.lexpos)
                token.where = Pos(file, token.lineno, column)
                token.used = False
            yield line

    def expand_macros(self, tokens: list[Any], expanding_from: Sequence[str] = ()) -> list[Any]:
        if expanding_from:
            expanded: list[Any] = super().expand_macros(tokens, list(expanding_from))
            return expanded
        index = 0
        while index < len(tokens):
            extent = self._invocation(tokens, index)
            if not extent:
                index += 1
                continue
            use = tokens[index]
            own = {id(token) for token in tokens[index : index + extent]}
            inside = {
                (token.where, token.value)
                for token in tokens[index + 1 : index + extent]
                if getattr(token, "where", None) is not None
            }
            piece = super().expand_macros(list(tokens[index : index + extent]), [])
            for token in piece:
                where = getattr(token, "where", None)
                if id(token) not in own and (where, token.value) not in inside:
                    token.where = getattr(use, "where", None)
                    token.used = True
            if not piece:
                # Keeps what stands before and after an empty macro apart.
                piece = [self._space(use)]
            tokens[index : index + extent] = piece
            index += self._resume(tokens, index, len(piece))
        return tokens

    def _space(self, like: Any) -> Any:
        token = self.tokenize(" ")[0]
        token.where = getattr(like, "where", None)
        token.used = True
        token.lineno = like.lineno
        token.source = getattr(like, "source", None)
        return token

    def _resume(self, tokens: list[Any], index: int, length: int) -> int:
        """How far to go on: back to the last token of an expansion if that may be a macro's name itself."""
        for offset in range(length - 1, -1, -1):
            token = tokens[index + offset]
            if token.type in self.t_WS:
                continue
            return offset if self._invocation(tokens, index + offset) else length
        return length

    def _invocation(self, tokens: list[Any], index: int) -> int:
        """Number of tokens of the macro invocation that starts at `index`; 0 if none does."""
        token = tokens[index]
        if token.type != self.t_ID:
            return 0
        if token.value == "__LINE__":
            return 1
        macro = self.macros.get(token.value)
        if macro is None or token.value in getattr(token, "expanded_from", ()):
            return 0
        if macro.arglist is None:
            return 1
        end = index + 1
        while end < len(tokens) and (tokens[end].type in self.t_WS or tokens[end].type in self.t_COMMENT):
            end += 1
        if end == len(tokens) or tokens[end].value != "(":
            return 0
        depth = 0
        for last in range(end, len(tokens)):
            depth += {"(": 1, ")": -1}.get(tokens[last].value, 0)
            if not depth:
                return last + 1 - index
        raise SourceError(
            self._where(token), f"macro {token.value}: argument list without end, expected a ')'"
        )

    def _where(self, token: Any) -> Pos:
        where = getattr(token, "where", None)
        if isinstance(where, Pos):
            return where
        return Pos(self.display(getattr(token, "source", None)), token.lineno, 1)

    def include(self, tokens: list[Any], original_line: list[Any]) -> Iterator[Any]:
        self.directive_pos = self._where(next(t for t in original_line if t.type not in self.t_WS))
        if not tokens:
            raise SourceError(self.directive_pos, '#include without file name, expected <file> or "file"')
        if self.include_depth > 64:
            raise SourceError(self.directive_pos, "#include nested more than 64 deep, expected no recursion")
        return iter(super().include(tokens, original_line))

    def on_include_not_found(
        self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str
    ) -> str:
        if is_malformed:
            raise SourceError(self.directive_pos, f'#include {includepath}: expected <file> or "file"')
        searched = ", ".join(self._searched(is_system_include, curdir))
        raise SourceError(self.directive_pos, f"include file {includepath}: not found in {searched}")

    def _searched(self, system: bool, curdir: str) -> Iterable[str]:
        directories = [*([] if system else [curdir or "."]), *self.path]
        return dict.fromkeys("<built-in>" if Path(one) == SYSTEM_INCLUDE else one for one in directories)

    def on_file_open(self, is_system_include: bool, includepath: str) -> io.TextIOBase:
        path = Path(includepath)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            message = f"include file {includepath}: not UTF-8 text, expected a text file"
            raise SourceError(self.directive_pos, message) from None
        shown = self.display(includepath)
        if shown not in self.sources:
            self.sources.append(shown)
        return io.StringIO(text)

    def on_error(self, file: str, line: int, msg: str) -> None:
        raise SourceError(Pos(self.display(file), line, 1), f"preprocessor: {msg}")

    def on_directive_unknown(
        self, directive: Any, toks: list[Any], ifpassthru: bool, precedingtoks: list[Any]
    ) -> bool:
        text = "".join(token.value for token in toks).strip()
        name = str(directive.value)
        if name == "error":
            raise SourceError(self._where(directive), f"#error {text}")
        if name in {"warning", "pragma", "line", "ident"}:
            return True  # as p4c: without effect on the program
        raise SourceError(self._where(directive), f"directive #{name}: unknown")

    def on_comment(self, tok: Any) -> bool:
        return False


def _join(tokens: Iterator[Any], sources: list[str]) -> Preprocessed:
    """One text; a space goes between a macro's text and its neighbours so that they cannot merge."""
    parts: list[str] = []
    starts: list[int] = []
    positions: list[Pos] = []
    spread: list[bool] = []
    offset = 0
    used = False
    for token in tokens:
        value = str(token.value)
        if not value:
            continue
        now_used = bool(getattr(token, "used", False))
        if now_used != used and parts:
            parts.append(" ")
            offset += 1
        used = now_used
        where = getattr(token, "where", None)
        if where is not None and not value.isspace():
            starts.append(offset)
            positions.append(where)
            spread.append(not now_used)
        parts.append(value)
        offset += len(value)
    return Preprocessed("".join(parts), starts, positions, spread, tuple(sources))
