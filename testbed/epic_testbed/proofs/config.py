"""TLC configuration files (`.cfg`): what they check, and copies of them with another value of a constant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from epic_spec.errors import ConfigError

_COMMENT = re.compile(r"\\\*[^\n]*|\(\*.*?\*\)", re.DOTALL)
# Keywords of a configuration, by what they introduce.
_KEYWORDS = {
    "INVARIANT": "invariants", "INVARIANTS": "invariants", "PROPERTY": "properties", "PROPERTIES": "properties",
    "SPECIFICATION": "specification", "CONSTANT": "constants", "CONSTANTS": "constants",
    "CONSTRAINT": "other", "CONSTRAINTS": "other", "ACTION_CONSTRAINT": "other", "ACTION_CONSTRAINTS": "other",
    "SYMMETRY": "other", "VIEW": "other", "INIT": "other", "NEXT": "other", "ALIAS": "other", "POSTCONDITION": "other",
    "CHECK_DEADLOCK": "other",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TlcConfig:
    """A configuration's text and the names of what it checks."""

    text: str
    invariants: tuple[str, ...]
    properties: tuple[str, ...]

    @classmethod
    def load(cls, path: Path) -> TlcConfig:
        """From a file. Raises ConfigError naming it."""
        try:
            return cls.parse(path.read_text())
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}, expected a TLC configuration") from None

    @classmethod
    def parse(cls, text: str) -> TlcConfig:
        """From the text of a configuration."""
        found: dict[str, list[str]] = {"invariants": [], "properties": []}
        section = ""
        for word in re.findall(r"[\w!]+|\S", _COMMENT.sub(" ", text)):
            if word in _KEYWORDS:
                section = _KEYWORDS[word]
            elif section in found and re.fullmatch(r"[\w!]+", word):
                found[section].append(word)
        return cls(text, tuple(found["invariants"]), tuple(found["properties"]))

    @property
    def checks(self) -> tuple[str, ...]:
        """Names of all invariants and properties."""
        return self.invariants + self.properties

    def only_constants(self) -> str:
        """The part that gives constants their values."""
        kept, keep = [], False
        for part in re.split(r"(\b[A-Z_]{4,}\b)", _COMMENT.sub(" ", self.text)):
            if part in _KEYWORDS:
                keep = _KEYWORDS[part] == "constants"
            if keep:
                kept.append(part)
        return "".join(kept)

    def value_of(self, constant: str) -> str | None:
        """How the configuration writes a constant's value, or None where it does not give one with `=`."""
        match = _assignment(constant).search(_COMMENT.sub(" ", self.text))
        return match["value"].strip() if match and match["sign"] == "=" else None

    def has(self, constant: str) -> bool:
        """Whether the configuration gives the constant a value."""
        return _assignment(constant).search(_COMMENT.sub(" ", self.text)) is not None

    def with_value(self, constant: str, value: str) -> TlcConfig:
        """A copy in which a constant has another value. Raises ConfigError when it has none here."""
        text = _COMMENT.sub(" ", self.text)
        changed, count = _assignment(constant).subn(lambda m: f"{m['head']}{constant} = {value}", text)
        if count != 1:
            raise ConfigError(f"configuration: constant {constant} has {count} values, expected 1")
        return TlcConfig(changed, self.invariants, self.properties)


def _assignment(constant: str) -> re.Pattern[str]:
    """`constant = value` or `constant <- name`; a value is a set, a string, a number or a word."""
    return re.compile(
        rf"(?P<head>^|\s){re.escape(constant)}\s*(?P<sign>=|<-)\s*(?P<value>\{{[^}}]*\}}|\"[^\"]*\"|[\w-]+)"
    )
