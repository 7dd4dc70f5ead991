"""P4Info of a program: what P4Runtime clients see of it (P4Runtime specification 1.4, section 6).

Ids come from @id or from the hash of the name that the p4c compiler uses too, so that both agree about a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from finsy.proto import p4i, p4t
from google.protobuf import text_format

from epic_p4 import ast
from epic_p4.errors import NOWHERE, Pos, SourceError
from epic_p4.types import (
    BitType,
    BoolType,
    EnumType,
    ErrorType,
    ExternType,
    HeaderType,
    IntType,
    NewType,
    StackType,
    StructType,
    TupleType,
    Type,
    underlying,
    width,
)

P4Info: TypeAlias = p4i.P4Info

DEFAULT_TABLE_SIZE = 1024
"""Size of a table without `size`, as p4c has it."""

# The first byte of an id (P4Ids.Prefix).
ACTION, TABLE, CONTROLLER_HEADER = 0x01, 0x02, 0x04
ACTION_PROFILE, COUNTER, DIRECT_COUNTER, METER, DIRECT_METER, REGISTER, DIGEST = range(0x11, 0x18)

_EXTERNS = {
    "action_profile": ACTION_PROFILE,
    "action_selector": ACTION_PROFILE,
    "ActionProfile": ACTION_PROFILE,
    "ActionSelector": ACTION_PROFILE,
    "counter": COUNTER,
    "Counter": COUNTER,
    "direct_counter": DIRECT_COUNTER,
    "DirectCounter": DIRECT_COUNTER,
    "meter": METER,
    "Meter": METER,
    "direct_meter": DIRECT_METER,
    "DirectMeter": DIRECT_METER,
    "register": REGISTER,
    "Register": REGISTER,
}
_UNITS = {"packets": "PACKETS", "bytes": "BYTES", "packets_and_bytes": "BOTH"}
_MATCH_TYPES = {
    "exact": "EXACT",
    "lpm": "LPM",
    "ternary": "TERNARY",
    "range": "RANGE",
    "optional": "OPTIONAL",
}
_UNLISTED = frozenset({"name", "id", "brief", "description"})
_SELECTOR = frozenset({"max_group_size", "selector_size_semantics", "max_member_weight"})
_PKGINFO = frozenset({"name", "version", "organization", "contact", "url", "arch"})
_PLATFORM = frozenset(
    {
        "multicast_group_table_size",
        "multicast_group_table_total_replicas",
        "multicast_group_table_max_replicas_per_entry",
    }
)


def name_hash(name: str) -> int:
    """Jenkins's one-at-a-time hash, 32 bits (Bob Jenkins, Dr. Dobb's Journal, 1997)."""
    value = 0
    for byte in name.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


def generate(program: ast.Program) -> P4Info:
    """The P4Info of a checked program that has `main`."""
    return _Generator(program).run()


def to_text(info: P4Info) -> str:
    """P4Info in protobuf's text format, with the header that tools look for."""
    header = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"
    return header + text_format.MessageToString(info)


def value_bytes(value: int | bool, bits: int) -> bytes:
    """A value of `bits` bits as whole bytes, big-endian."""
    return (int(value) & ((1 << bits) - 1)).to_bytes((bits + 7) // 8, "big")


@dataclass(slots=True)
class _Symbols:
    """Names by kind, with the ids given in the source; then the other ids."""

    given: dict[tuple[int, str], int | None] = field(default_factory=dict)
    where: dict[tuple[int, str], Pos] = field(default_factory=dict)
    ids: dict[tuple[int, str], int] = field(default_factory=dict)
    suffixes: dict[tuple[str, ...], int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def add(
        self, kind: int, name: str, node: ast.Declaration | None, annotations: ast.Annotations = ()
    ) -> None:
        if (kind, name) in self.given:
            return
        marks = node.annotations if node is not None else annotations
        self.given[kind, name] = _explicit_id(kind, name, marks)
        self.where[kind, name] = next((one.pos for one in marks if one.name == "id"), NOWHERE)
        if name not in self.names:
            self.names.add(name)
            parts = tuple(name.split("."))
            for start in range(len(parts)):
                suffix = parts[start:]
                self.suffixes[suffix] = self.suffixes.get(suffix, 0) + 1

    def assign(self) -> None:
        """Give every name an id; names are taken in their order, for a collision moves the later one on."""
        taken: dict[int, str] = {}
        for (kind, name), number in self.given.items():
            if number is None:
                continue
            if number in taken:
                short = number & 0xFFFFFF
                raise SourceError(
                    self.where[kind, name], f"@id {short} of {name}: already the id of {taken[number]}"
                )
            taken[number] = name
            self.ids[kind, name] = number
        for kind, name in sorted(key for key, number in self.given.items() if number is None):
            hashed = name_hash(name)
            while (free := kind << 24 | hashed & 0xFFFFFF) in taken:
                hashed += 1
            taken[free] = name
            self.ids[kind, name] = free

    def alias(self, name: str) -> str:
        """The shortest suffix of the name's parts that no other name has."""
        parts = name.split(".")
        for start in range(len(parts) - 1, -1, -1):
            if self.suffixes.get(tuple(parts[start:]), 0) < 2:
                return ".".join(parts[start:])
        return name


def _explicit_id(kind: int, name: str, annotations: ast.Annotations) -> int | None:
    number = _annotated_int(annotations, "id", name)
    if number is None:
        return None
    if number >> 24 not in (0, kind):
        at = next(one.pos for one in annotations if one.name == "id")
        raise SourceError(at, f"@id of {name}: {number:#x}, expected the prefix {kind:#04x} or none")
    return kind << 24 | number & 0xFFFFFF


def _annotated_int(annotations: ast.Annotations, key: str, name: str) -> int | None:
    for one in annotations:
        if one.name == key:
            if len(one.args) != 1 or not isinstance(one.args[0], int) or one.args[0] <= 0:
                raise SourceError(one.pos, f"@{key} of {name}: ({one.text}), expected one positive integer")
            return one.args[0]
    return None


class _Generator:
    def __init__(self, program: ast.Program) -> None:
        self.program = program
        self.info = p4i.P4Info()
        self.symbols = _Symbols()
        self.digests = list(_digests(program))
        self.externs = [
            one
            for one in program.instances.values()
            if isinstance(one.type, ExternType) and one.type.name in _EXTERNS
        ]
        applied = {
            node.decl
            for control in _controls(program)
            for node in ast.walk(control.decl)
            if isinstance(node, ast.Call) and node.kind is ast.CallKind.TABLE_APPLY
        }
        # A table that is never applied does not exist for the control plane, as with p4c.
        self.tables = [one for one in program.tables.values() if one.decl in applied]
        self.in_tables = {action.name: action for table in self.tables for action in table.actions}
        self.actions = self.in_tables | _called_actions(program)

    def run(self) -> P4Info:
        self._collect()
        self.symbols.assign()
        self._package()
        for table in self._visible_tables():
            self._table(table)
        for name, action in self.actions.items():
            if not _hidden(action.decl.annotations):
                self._action(name, action)
        for instance in self.externs:
            self._extern(instance)
        for header in self._controller_headers():
            self._controller_header(header)
        for name, type_ in self.digests:
            digest = self.info.digests.add()
            self._preamble(digest.preamble, DIGEST, name, ())
            digest.type_spec.CopyFrom(self._data_type(type_))
        if self.info.tables or any(one.params for one in self.info.actions) or _uses_externs(self.program):
            self.info.type_info.SetInParent()  # present though empty, as p4c leaves it
        return self.info

    def _visible_tables(self) -> Iterator[ast.TableInstance]:
        return (one for one in self.tables if not _hidden(one.decl.annotations))

    def _controller_headers(self) -> Iterator[ast.HeaderDecl]:
        for node in self.program.declarations:
            if isinstance(node, ast.HeaderDecl) and node.annotation("controller_header"):
                yield node

    def _collect(self) -> None:
        for table in self.tables:
            self.symbols.add(TABLE, table.name, table.decl)
        for name, action in self.actions.items():
            self.symbols.add(ACTION, name, action.decl)
        for instance in self.externs:
            assert isinstance(instance.type, ExternType)
            self.symbols.add(_EXTERNS[instance.type.name], instance.name, None, instance.annotations)
        for header in self._controller_headers():
            self.symbols.add(CONTROLLER_HEADER, header.name, header)
        for name, _ in self.digests:
            self.symbols.add(DIGEST, name, None)

    # -- parts that several messages have

    def _preamble(self, preamble: Any, kind: int, name: str, annotations: ast.Annotations) -> None:
        preamble.id = self.symbols.ids[kind, name]
        preamble.name = name
        preamble.alias = self.symbols.alias(name)
        _annotate(preamble, annotations)
        _document(preamble, annotations)

    def _package(self) -> None:
        package = self.info.pkg_info
        package.arch = self.program.arch
        main = self.program.main
        assert main is not None
        for annotation in main.annotations:
            if annotation.name == "pkginfo":
                for key, value in annotation.pairs.items():
                    if key not in _PKGINFO:
                        raise SourceError(
                            annotation.pos, f"@pkginfo: key {key}, expected {', '.join(sorted(_PKGINFO))}"
                        )
                    setattr(package, key, str(value))
            elif annotation.name == "platform_property":
                for key, value in annotation.pairs.items():
                    if key not in _PLATFORM or not isinstance(value, int):
                        raise SourceError(
                            annotation.pos,
                            f"@platform_property: {key} = {value}, expected an integer for one of "
                            f"{', '.join(sorted(_PLATFORM))}",
                        )
                    setattr(package.platform_properties, key, value)
        kept = tuple(one for one in main.annotations if one.name not in {"pkginfo", "platform_property"})
        _annotate(package, kept)
        _document(package, kept)

    # -- tables and actions

    def _table(self, table: ast.TableInstance) -> None:
        decl = table.decl
        message = self.info.tables.add()
        self._preamble(message.preamble, TABLE, table.name, decl.annotations)
        keys = [one for one in decl.key if one.match_kind != "selector"]
        for element, number in zip(keys, _selected(decl.key, keys), strict=True):
            match = message.match_fields.add()
            match.id, match.name = number, element.name
            match.bitwidth = self._bit_width(element.expression.type)
            if element.match_kind in _MATCH_TYPES:
                match.match_type = p4i.MatchField.MatchType.Value(_MATCH_TYPES[element.match_kind])
            else:
                match.other_match_type = element.match_kind
            self._type_name(match, element.expression.type)
            _annotate(match, element.annotations)
            _document(match, element.annotations)
        for ref, action in zip(decl.actions, table.actions, strict=True):
            self._action_ref(message, ref, action)
        self._default_action(message, table)
        message.size = decl.size or DEFAULT_TABLE_SIZE
        message.is_const_table = decl.const_entries
        message.has_initial_entries = bool(decl.entries)
        timeout = decl.properties.get("support_timeout")
        if timeout is not None and timeout.value.const is True:
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL
        for found in table.properties.values():
            if isinstance(found, ast.Instance) and isinstance(found.type, ExternType):
                self._table_extern(message, table, found, found.type.name)

    def _action_ref(self, message: p4i.Table, ref: ast.ActionRef, action: ast.ActionInstance) -> None:
        made = message.action_refs.add()
        made.id = self.symbols.ids[ACTION, action.name]
        _annotate(made, ref.annotations)
        if ref.default_only:
            made.scope = p4i.ActionRef.DEFAULT_ONLY
        elif ref.table_only:
            made.scope = p4i.ActionRef.TABLE_ONLY

    def _default_action(self, message: p4i.Table, table: ast.TableInstance) -> None:
        decl = table.decl
        default = decl.default_action
        assert default is not None and default.decl is not None
        action = next(one for one in table.actions if one.decl is default.decl)
        number = self.symbols.ids[ACTION, action.name]
        if decl.const_default:
            message.const_default_action_id = number
        message.initial_default_action.action_id = number
        params = default.decl.data_params
        for param, identity in zip(params, _field_ids(params), strict=True):
            value = default.args[default.decl.params.index(param)].const
            assert isinstance(value, int)
            argument = message.initial_default_action.arguments.add()
            argument.param_id = identity
            argument.value = _argument_bytes(value, param.type)

    def _table_extern(
        self, message: p4i.Table, table: ast.TableInstance, found: ast.Instance, kind: str
    ) -> None:
        number = self.symbols.ids.get((_EXTERNS.get(kind, 0), found.name))
        if number is None:
            return
        if _EXTERNS[kind] == ACTION_PROFILE:
            message.implementation_id = number
        else:
            message.direct_resource_ids.append(number)

    def _action(self, name: str, action: ast.ActionInstance) -> None:
        message = self.info.actions.add()
        self._preamble(message.preamble, ACTION, name, action.decl.annotations)
        # Without a table the control plane never gives the arguments.
        params = action.decl.data_params if name in self.in_tables else []
        for param, number in zip(params, _field_ids(params), strict=True):
            made = message.params.add()
            made.id, made.name = number, _param_name(param)
            made.bitwidth = self._bit_width(param.type)
            self._type_name(made, param.type)
            _annotate(made, param.annotations)
            _document(made, param.annotations)

    # -- externs

    def _extern(self, instance: ast.Instance) -> None:
        assert isinstance(instance.type, ExternType)
        kind = _EXTERNS[instance.type.name]
        args = instance.args
        if kind == ACTION_PROFILE:
            self._action_profile(instance, kind)
        elif kind in {COUNTER, METER, REGISTER}:
            lists: dict[int, Any] = {
                COUNTER: self.info.counters,
                METER: self.info.meters,
                REGISTER: self.info.registers,
            }
            message: Any = lists[kind].add()
            self._preamble(message.preamble, kind, instance.name, instance.annotations)
            size = args.get("size")
            assert isinstance(size, int)
            message.size = size
            if kind == REGISTER:
                message.type_spec.CopyFrom(self._data_type(instance.type.args[0]))
            else:
                message.spec.unit = _unit(message.spec, args.get("type"))
            index = instance.type.args[-1] if len(instance.type.args) > (kind == REGISTER) else None
            if isinstance(index, NewType):
                self._type_name(message, index, "index_type_name")
        else:
            tables = [one for one in self.tables if instance in one.properties.values()]
            if not tables:
                return
            direct: Any = (
                self.info.direct_counters if kind == DIRECT_COUNTER else self.info.direct_meters
            ).add()
            self._preamble(direct.preamble, kind, instance.name, instance.annotations)
            direct.spec.unit = _unit(direct.spec, args.get("type"))
            direct.direct_table_id = self.symbols.ids[TABLE, tables[0].name]

    def _action_profile(self, instance: ast.Instance, kind: int) -> None:
        message = self.info.action_profiles.add()
        kept = tuple(one for one in instance.annotations if one.name not in _SELECTOR)
        self._preamble(message.preamble, kind, instance.name, kept)
        message.with_selector = "elector" in str(instance.type)
        size = instance.args.get("size", instance.args.get("max_group_size"))
        message.size = size if isinstance(size, int) else 0
        if message.with_selector:
            self._selector(message, instance)
        for table in self.tables:
            if instance in table.properties.values():
                message.table_ids.append(self.symbols.ids[TABLE, table.name])

    def _selector(self, message: p4i.ActionProfile, instance: ast.Instance) -> None:
        """What the annotations of an action selector say about the size of groups."""
        limit = _annotated_int(instance.annotations, "max_group_size", instance.name)
        if limit is not None:
            message.max_group_size = limit
        for one in instance.annotations:
            if one.name == "selector_size_semantics":
                value = str(one.args[0]).lower() if one.args else one.text
                if value not in {"sum_of_weights", "sum_of_members"}:
                    raise SourceError(
                        one.pos,
                        f"@selector_size_semantics: {value}, expected sum_of_weights or sum_of_members",
                    )
                getattr(message, value).SetInParent()
        weight = _annotated_int(instance.annotations, "max_member_weight", instance.name)
        if weight is not None and message.HasField("sum_of_members"):
            message.sum_of_members.max_member_weight = weight

    # -- controller packet metadata

    def _controller_header(self, node: ast.HeaderDecl) -> None:
        annotation = node.annotation("controller_header")
        assert annotation is not None
        if len(annotation.args) != 1:
            raise SourceError(annotation.pos, "@controller_header: expected one string")
        message = self.info.controller_packet_metadata.add()
        message.preamble.id = self.symbols.ids[CONTROLLER_HEADER, node.name]
        message.preamble.name = message.preamble.alias = str(annotation.args[0])
        _annotate(message.preamble, node.annotations)
        _document(message.preamble, node.annotations)
        kind = node.type
        assert isinstance(kind, HeaderType)
        for one, number in zip(kind.fields, _field_ids(node.fields), strict=True):
            metadata = message.metadata.add()
            metadata.id, metadata.name = number, one.name
            metadata.bitwidth = self._bit_width(one.type)
            self._type_name(metadata, one.type)
            _annotate(metadata, one.annotations)

    # -- types

    def _bit_width(self, type_: Type) -> int:
        """Width for the control plane; 0 for a type that it sees as a string or that has no bits."""
        translation = _translation(type_)
        if translation is not None:
            return translation[1] or 0
        return width(type_) or 0

    def _type_name(self, message: Any, type_: Type, slot: str = "type_name") -> None:
        if isinstance(type_, NewType):
            getattr(message, slot).name = type_.name
            self._new_type(type_)
        elif isinstance(type_, EnumType):
            self._data_type(type_)
            if type_.underlying is None:
                getattr(message, slot).name = type_.name

    def _new_type(self, type_: NewType) -> None:
        if type_.name in self.info.type_info.new_types:
            return
        made = self.info.type_info.new_types[type_.name]
        translation = _translation(type_)
        if translation is None:
            made.original_type.CopyFrom(self._data_type(underlying(type_)))
        else:
            made.translated_type.uri = translation[0]
            if translation[1] is None:
                made.translated_type.sdn_string.SetInParent()
            else:
                made.translated_type.sdn_bitwidth = translation[1]
        _annotate(made, tuple(one for one in type_.annotations if one.name != "p4runtime_translation"))

    def _data_type(self, type_: Type) -> p4t.P4DataTypeSpec:
        """The description of a type; named ones are also entered in the program's type information."""
        spec = p4t.P4DataTypeSpec()
        known = self.info.type_info
        match type_:
            case BitType(bits):
                spec.bitstring.bit.bitwidth = bits
            case IntType(bits):
                spec.bitstring.int.bitwidth = bits
            case BoolType():
                spec.bool.SetInParent()
            case ErrorType():
                spec.error.SetInParent()
                if not known.HasField("error"):
                    known.error.members.extend(self.program.errors)
            case TupleType(items):
                for item in items:
                    spec.tuple.members.add().CopyFrom(self._data_type(item))
            case StackType(element, size):
                spec.header_stack.header.name = str(element)
                spec.header_stack.size = size
                self._data_type(element)
            case NewType():
                spec.new_type.name = type_.name
                self._new_type(type_)
            case EnumType():
                self._enum(spec, type_)
            case HeaderType():
                spec.header.name = type_.name
                if type_.name not in known.headers:
                    made: Any = known.headers[type_.name]
                    for one in type_.fields:
                        member = made.members.add()
                        member.name = one.name
                        member.type_spec.CopyFrom(self._data_type(underlying(one.type)).bitstring)
            case StructType():
                spec.struct.name = type_.name
                if type_.name not in known.structs:
                    structure: Any = known.structs[type_.name]
                    for one in type_.fields:
                        inner = structure.members.add()
                        inner.name = one.name
                        inner.type_spec.CopyFrom(self._data_type(one.type))
            case _:
                raise SourceError(NOWHERE, f"type {type_}: P4Info cannot describe it")
        return spec

    def _enum(self, spec: p4t.P4DataTypeSpec, type_: EnumType) -> None:
        known = self.info.type_info
        if type_.underlying is None:
            spec.enum.name = type_.name
            if type_.name not in known.enums:
                plain = known.enums[type_.name]
                for name in type_.members:
                    plain.members.add().name = name
            return
        spec.serializable_enum.name = type_.name
        if type_.name not in known.serializable_enums:
            made = known.serializable_enums[type_.name]
            made.underlying_type.bitwidth = type_.underlying.width
            for name, value in type_.members.items():
                member = made.members.add()
                member.name, member.value = name, _argument_bytes(value, type_)


# -- helpers ---------------------------------------------------------------------------------------------


def _argument_bytes(value: int | bool, type_: Type) -> bytes:
    return value_bytes(value, width(type_) or 32)


def _hidden(annotations: ast.Annotations) -> bool:
    return any(one.name == "hidden" for one in annotations)


def _param_name(param: ast.Declaration) -> str:
    annotation = param.annotation("name")
    return str(annotation.args[0]) if annotation and annotation.args else param.name


def _field_ids(nodes: Iterable[ast.KeyElement | ast.Declaration]) -> list[int]:
    """Ids within a table, action or header: from @id, the others count from 1 and skip those taken."""
    nodes = list(nodes)
    given = [_annotated_int(node.annotations, "id", getattr(node, "name", "key")) for node in nodes]
    taken = {number for number in given if number is not None}
    if len(taken) != sum(number is not None for number in given):
        twice = next(number for number in given if number is not None and given.count(number) > 1)
        at = nodes[len(given) - 1 - given[::-1].index(twice)]
        raise SourceError(at.pos, f"@id {twice}: given twice")
    ids: list[int] = []
    index = 1
    for number in given:
        if number is not None:
            ids.append(number)
            index += 1
            continue
        while index in taken:
            index += 1
        taken.add(index)
        ids.append(index)
    return ids


def _selected(every: list[ast.KeyElement], some: list[ast.KeyElement]) -> list[int]:
    """Ids of some key elements: selector fields are not shown but count."""
    ids = dict(zip(map(id, every), _field_ids(every), strict=True))
    return [ids[id(one)] for one in some]


def _annotate(message: Any, annotations: ast.Annotations) -> None:
    for one in annotations:
        if one.structured:
            _annotate_structured(message.structured_annotations.add(), one)
        elif one.name not in _UNLISTED:
            message.annotations.append(f"@{one.name}({one.text})" if one.text else f"@{one.name}")


def _annotate_structured(message: Any, one: ast.Annotation) -> None:
    message.name = one.name
    for value in one.args:
        _literal(message.expression_list.expressions.add(), value)
    for key, value in one.pairs.items():
        pair = message.kv_pair_list.kv_pairs.add()
        pair.key = key
        _literal(pair.value, value)


def _literal(message: Any, value: int | bool | str) -> None:
    kind = {bool: "bool_value", int: "int64_value", str: "string_value"}[type(value)]
    setattr(message, kind, value)


def _document(message: Any, annotations: ast.Annotations) -> None:
    for one in annotations:
        if one.name in {"brief", "description"}:
            setattr(message.doc, one.name, str(one.args[0]) if one.args else one.text)


def _unit(spec: Any, value: ast.Value | None) -> int:
    assert isinstance(value, ast.EnumValue)
    number: int = spec.Unit.Value(_UNITS[value.member.lower()])
    return number


def _translation(type_: Type) -> tuple[str, int | None] | None:
    """URI and width (None: a string) of @p4runtime_translation, if the type has it."""
    if not isinstance(type_, NewType):
        return None
    for one in type_.annotations:
        if one.name == "p4runtime_translation":
            if len(one.args) == 2 and isinstance(one.args[1], int):
                return str(one.args[0]), one.args[1]
            if len(one.args) == 2 and one.args[1] == "string":
                return str(one.args[0]), None
            bits = one.text.partition("bit<")[2].partition(">")[0]
            if bits.strip().isdigit():
                return one.text.split('"')[1], int(bits)
            raise SourceError(
                one.pos, f"@p4runtime_translation({one.text}): expected a URI and bit<N>, N or string"
            )
    return None


def _called_actions(program: ast.Program) -> dict[str, ast.ActionInstance]:
    """Actions that a control's apply calls, by control-plane name; those that only actions call are not seen."""
    called: dict[str, ast.ActionInstance] = {}
    for control in _controls(program):
        assert isinstance(control.decl, ast.ControlDecl)
        for node in ast.walk(control.decl.body):
            if isinstance(node, ast.Call) and isinstance(node.decl, ast.ActionDecl):
                made = control.actions.get(node.decl)
                if made is None:
                    made = next(one for one in program.actions.values() if one.decl is node.decl)
                called.setdefault(made.name, made)
    return called


def _uses_externs(program: ast.Program) -> bool:
    """Whether there is an extern object, or a control calls an extern function."""
    if any(isinstance(one.type, ExternType) for one in program.instances.values()):
        return True
    return any(
        isinstance(node, ast.Call) and node.kind is ast.CallKind.EXTERN_FUNCTION
        for control in _controls(program)
        for node in ast.walk(control.decl)
    )


def _controls(program: ast.Program) -> Iterator[ast.Instance]:
    seen: set[int] = set()
    pending = list(program.top.values())
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        pending.extend(one.members.values())
        pending.extend(value for value in one.args.values() if isinstance(value, ast.Instance))
        if isinstance(one.decl, ast.ControlDecl):
            yield one


def _digests(program: ast.Program) -> Iterator[tuple[str, Type]]:
    """v1model's digest(receiver, data): one for each type of data, named after it."""
    seen: set[str] = set()
    unnamed = 0
    for control in _controls(program):
        for node in ast.walk(control.decl):
            if not isinstance(node, ast.Call) or node.kind is not ast.CallKind.EXTERN_FUNCTION:
                continue
            if not isinstance(node.decl, ast.ExternFunction) or node.decl.name != "digest":
                continue
            type_ = node.params[1].type
            name = str(type_)
            if not isinstance(type_, StructType | HeaderType):
                name, unnamed = f"digest_{unnamed}", unnamed + 1
            if name not in seen:
                seen.add(name)
                yield name, type_
