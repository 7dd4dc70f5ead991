"""A Python class for each header, struct and header stack that a program uses.

Fields are slots; `_v` is the validity of a header. What is not set is 0 or invalid, and a header that becomes invalid
has its fields set to 0 (P4 leaves them undefined). Objects are passed by reference and
changed in place: `assign` copies the value.
"""

from __future__ import annotations

from collections.abc import Callable

from epic_p4.errors import NOWHERE, Pos, UnsupportedError
from epic_p4.lower.layout import bits, packed
from epic_p4.lower.names import Scope, identifier
from epic_p4.types import Fielded, HeaderType, StackType, StructType, TupleType, Type, underlying


def is_object(type_: Type) -> bool:
    """Whether values are objects with `assign` and `copy` rather than numbers."""
    return isinstance(type_, Fielded | StackType)


class Shapes:
    """Writes the classes; `global_name` hands out module names, `constant` makes a module name for a value."""

    def __init__(self, scope: Scope, constant: Callable[[str, str], str]) -> None:
        self._scope = scope
        self._constant = constant
        self._classes: dict[Type, str] = {}
        self.lines: list[str] = []

    def initial(self, type_: Type) -> str:
        """Code for a value that nothing has set."""
        type_ = underlying(type_)
        if is_object(type_):
            return f"{self.class_of(type_)}()"
        if isinstance(type_, TupleType):
            return "(" + "".join(f"{self.initial(item)}, " for item in type_.items) + ")"
        return "0"

    def class_of(self, type_: Type) -> str:
        """The name of the class, written at its first use."""
        type_ = underlying(type_)
        if type_ not in self._classes:
            self._write(type_)
        return self._classes[type_]

    def struct_format(self, letters: str, method: str) -> str:
        """A module name for `pack` or `unpack_from` of a format."""
        return self._constant(f"_{method}_{letters[1:]}"[:24], f"_struct({letters!r}).{method}")

    def _write(self, type_: Type) -> None:
        match type_:
            case HeaderType():
                self._write_header(type_)
            case StructType():
                self._write_struct(type_)
            case StackType():
                self._write_stack(type_)
            case _:
                raise UnsupportedError(NOWHERE, f"a variable of type {type_}")

    def _begin(self, type_: Type, name: str, doc: str) -> str:
        kind = "_S_" if isinstance(type_, StructType) else "_H_"
        made = self._scope.fresh(kind + identifier(name))
        self._classes[type_] = made
        self.lines += ["", "", f"class {made}:", f'    """{doc}"""']
        return made

    def _write_header(self, type_: HeaderType) -> None:
        if any(is_object(underlying(one.type)) for one in type_.fields):
            raise UnsupportedError(type_.decl.pos, f"header {type_.name} with a struct inside")
        name = self._begin(type_, type_.name, f"header {type_.name}")
        slots = [identifier(one.name) for one in type_.fields]
        zero = [" = ".join(f"self.{one}" for one in slots) + " = 0"] if slots else []
        self._slots(["_v", *slots])
        self._method("__init__(self)", ["self._v = False", *zero])
        self._method("reset(self)", ["self._v = False", *zero])
        self._copying(name, ["_v", *slots], [])
        equal = " and ".join(f"self.{one} == other.{one}" for one in slots) or "True"
        self._method("same(self, other)", [f"return self._v == other._v and (not self._v or ({equal}))"])
        self._method("set_valid(self)", ["if not self._v:", "    self.reset()", "    self._v = True"])
        self._packing(type_)

    def _packing(self, type_: HeaderType) -> None:
        fields = [(one.name, one.type) for one in type_.fields]
        if sum(bits(one.type) for one in type_.fields) % 8:
            return
        if not fields:
            self._method("pack(self)", ['return b""'])
            return
        letters, args = packed([(f"self.{identifier(one)}", field_type) for one, field_type in fields])
        pack = self.struct_format(letters, "pack")
        self._method("pack(self)", [f"return {pack}({', '.join(args)})"])

    def _write_struct(self, type_: StructType) -> None:
        inner = {one.name: self.class_of(one.type) for one in type_.fields if is_object(underlying(one.type))}
        name = self._begin(type_, type_.name, f"struct {type_.name}")
        objects = [identifier(one) for one in inner]
        plain = [one for one in type_.fields if one.name not in inner]
        slots = [identifier(one.name) for one in plain]
        self._slots([identifier(one.name) for one in type_.fields])
        zero = [f"self.{identifier(one.name)} = {self.initial(one.type)}" for one in plain]
        self._method(
            "__init__(self)",
            zero + [f"self.{identifier(one)} = {made}()" for one, made in inner.items()] or ["pass"],
        )
        self._method("reset(self)", zero + [f"self.{one}.reset()" for one in objects] or ["pass"])
        self._copying(name, slots, objects)
        equal = [f"self.{one} == other.{one}" for one in slots]
        equal += [f"self.{one}.same(other.{one})" for one in objects]
        self._method("same(self, other)", [f"return {' and '.join(equal) or 'True'}"])

    def _write_stack(self, type_: StackType) -> None:
        element = self.class_of(type_.element)
        name = self._begin(type_, f"{element.removeprefix('_H_')}_x{type_.size}", f"header stack {type_}")
        self._slots(["items", "next"])
        fill = f"[{element}() for _ in range({type_.size})]"
        self._method("__init__(self)", [f"self.items = {fill}", "self.next = 0"])
        self._method("reset(self)", ["for item in self.items:", "    item.reset()", "self.next = 0"])
        copied = "made.items = [item.copy() for item in self.items]"
        new = f"made = _new({name})"
        self._method("copy(self)", [new, copied, "made.next = self.next", "return made"])
        each = ["for mine, theirs in zip(self.items, other.items):", "    mine.assign(theirs)"]
        self._method("assign(self, other)", [*each, "self.next = other.next"])
        same = "return all(mine.same(theirs) for mine, theirs in zip(self.items, other.items))"
        self._method("same(self, other)", [same])
        # A shift moves the elements, so that new ones come in at the other end.
        self._method(
            "push_front(self, count)",
            [
                f"count = min(count, {type_.size})",
                f"fresh = [{element}() for _ in range(count)]",
                f"self.items[:] = fresh + self.items[:{type_.size} - count]",
                f"self.next = min(self.next + count, {type_.size})",
            ],
        )
        self._method(
            "pop_front(self, count)",
            [
                f"count = min(count, {type_.size})",
                f"self.items[:] = self.items[count:] + [{element}() for _ in range(count)]",
                "self.next = max(self.next - count, 0)",
            ],
        )

    def _copying(self, name: str, slots: list[str], objects: list[str]) -> None:
        self._method(
            "copy(self)",
            [
                f"made = _new({name})",
                *(f"made.{one} = self.{one}" for one in slots),
                *(f"made.{one} = self.{one}.copy()" for one in objects),
                "return made",
            ],
        )
        body = [f"self.{one} = other.{one}" for one in slots]
        body += [f"self.{one}.assign(other.{one})" for one in objects]
        self._method("assign(self, other)", body or ["pass"])

    def _slots(self, names: list[str]) -> None:
        self.lines.append(f"    __slots__ = ({''.join(f'{name!r}, ' for name in names)})")

    def _method(self, head: str, body: list[str]) -> None:
        self.lines += ["", f"    def {head}:", *(f"        {line}" for line in body)]


def whole_bytes(type_: HeaderType, pos: Pos) -> int:
    """The size of a header in bytes. Raises UnsupportedError when it is not whole."""
    size = sum(bits(one.type) for one in type_.fields)
    if size % 8:
        raise UnsupportedError(
            pos, f"extract or emit of header {type_.name} of {size} bits (not whole bytes)"
        )
    return size // 8
