"""Tables: keys, actions, default action, entries, properties."""

from __future__ import annotations

from epic_p4 import ast, types
from epic_p4.check import fold
from epic_p4.check.context import Context, Place
from epic_p4.check.expressions import Expressions
from epic_p4.check.scope import did_you_mean
from epic_p4.check.statements import Statements, key_parts
from epic_p4.errors import SourceError, UnsupportedError, counted
from epic_p4.types import BitType, ExternType, Fielded, IntType, underlying

_EXTERN_PROPERTIES = frozenset(
    {
        "implementation",
        "counters",
        "meters",
        "registers",
        "filters",
        "psa_implementation",
        "psa_direct_counter",
        "psa_direct_meter",
        "atcam",
        "alpm",
    }
)
_VALUE_PROPERTIES = frozenset(
    {"support_timeout", "idle_timeout", "proxy_hash", "requires_versioning", "ternary_match"}
)


class Tables:
    """Checks a table declaration in place."""

    def __init__(self, context: Context, expressions: Expressions, statements: Statements) -> None:
        self.context = context
        self.expressions = expressions
        self.statements = statements

    def check(self, table: ast.TableDecl) -> None:
        """The whole table."""
        with self.context.at(Place.TABLE):
            self._keys(table)
            self._actions(table)
            self._default(table)
            if table.size_ref is not None:
                table.size = self.expressions.constant_int(
                    self.expressions.check(table.size_ref), f"table {table.name}: size", 0, (1 << 32) - 1
                )
            for found in table.properties.values():
                with self.context.collecting():
                    self._property(table, found)
            seen: dict[tuple[ast.Value | None, ...], ast.TableEntry] = {}
            for entry in table.entries:
                with self.context.collecting():
                    self._entry(table, entry)
                    self._twice(table, entry, seen)

    # -- key

    def _keys(self, table: ast.TableDecl) -> None:
        names: dict[str, ast.KeyElement] = {}
        lpm: ast.KeyElement | None = None
        for element in table.key:
            what = f"table {table.name}: key"
            element.expression = self.expressions.run_time(element.expression, what)
            self.statements.match_type(element.expression.type, element.expression, what)
            if element.match_kind not in self.context.match_kinds:
                expected = ", ".join(self.context.match_kinds) or "none declared"
                hint = did_you_mean(element.match_kind, list(self.context.match_kinds))
                raise SourceError(
                    element.pos, f"{what}: match kind {element.match_kind}, expected one of {expected}{hint}"
                )
            if element.match_kind == "lpm":
                if lpm is not None:
                    raise SourceError(element.pos, f"{what}: second lpm field, expected at most one")
                lpm = element
            if element.match_kind in {"lpm", "range"} and not isinstance(
                underlying(element.expression.type), BitType | IntType
            ):
                kind = element.expression.type
                raise SourceError(element.pos, f"{what}: {element.match_kind} of {kind}, expected bit<N>")
            element.name = self._key_name(table, element)
            if element.match_kind != "selector":
                if element.name in names:
                    raise SourceError(
                        element.pos,
                        f"{what}: two fields have the name {element.name}, expected @name for one",
                    )
                names[element.name] = element

    def _key_name(self, table: ast.TableDecl, element: ast.KeyElement) -> str:
        for annotation in element.annotations:
            if annotation.name == "name":
                if len(annotation.args) != 1 or not isinstance(annotation.args[0], str):
                    raise SourceError(annotation.pos, "@name: expected one string")
                return annotation.args[0]
        name = control_plane_name(element.expression)
        if name is None:
            if element.match_kind == "selector":
                return ""
            raise SourceError(
                element.pos,
                f'table {table.name}: key has no name of its own, expected an annotation @name("…")',
            )
        return name

    # -- actions

    def _resolve_action(self, table: ast.TableDecl, ref: ast.ActionRef) -> ast.ActionDecl:
        entry = self.context.scopes.look_up(ref.name, ref.pos, "an action", top=ref.dotted)
        if not isinstance(entry, ast.ActionDecl):
            raise SourceError(ref.pos, f"table {table.name}: {ref.name} is not an action")
        ref.decl = entry
        return entry

    def _actions(self, table: ast.TableDecl) -> None:
        seen: dict[ast.ActionDecl, ast.ActionRef] = {}
        for ref in table.actions:
            decl = self._resolve_action(table, ref)
            if decl in seen:
                raise SourceError(ref.pos, f"table {table.name}: action {ref.name} listed twice")
            seen[decl] = ref
            bound = [param for param in decl.params if param.direction]
            for param in decl.data_params:
                if not fold.is_constant_type(param.type):
                    raise SourceError(
                        ref.pos,
                        f"table {table.name}: parameter {param.name} of action {ref.name} is {param.type}, which the "
                        "control plane cannot give; expected bits, bool or enum",
                    )
            if len(ref.args) != len(bound):
                raise SourceError(
                    ref.pos,
                    f"table {table.name}: action {ref.name} has {counted(len(ref.args), 'argument')} in the list, "
                    f"expected {len(bound)}, one for each parameter with a direction",
                )
            for index, param in enumerate(bound):
                what = f"action {ref.name}: argument {param.name}"
                if param.direction in {"out", "inout"}:
                    value = self.expressions.l_value(ref.args[index], what)
                    if value.type != param.type:
                        raise SourceError(value.pos, f"{what}: type is {value.type}, expected {param.type}")
                    ref.args[index] = value
                else:
                    ref.args[index] = self.expressions.value(ref.args[index], param.type, what)

    def _default(self, table: ast.TableDecl) -> None:
        default = table.default_action
        if default is None:
            decl = self.context.scopes.find("NoAction", top=True)
            if not isinstance(decl, ast.ActionDecl):
                raise SourceError(
                    table.pos,
                    f"table {table.name}: no default_action and no action NoAction, expected one of them",
                )
            table.default_action = ast.ActionRef(table.pos, "NoAction", [])
            table.default_action.decl = decl
            if table.action(decl) is None:
                marked = ast.ActionRef(table.pos, "NoAction", [], (ast.Annotation(table.pos, "defaultonly"),))
                marked.decl = decl
                table.actions.append(marked)
            return
        decl = self._resolve_action(table, default)
        listed = table.action(decl)
        if listed is None:
            raise SourceError(
                default.pos,
                f"table {table.name}: default_action {default.name} is not in the list of actions",
            )
        if listed.table_only:
            raise SourceError(default.pos, f"table {table.name}: default_action {default.name} is @tableonly")
        self._arguments(default, listed, decl, f"default_action {default.name}")

    def _arguments(self, ref: ast.ActionRef, listed: ast.ActionRef, decl: ast.ActionDecl, what: str) -> None:
        """The arguments of an entry or default: constants for the data, as in the list for the others."""
        data = decl.data_params
        given = ref.args
        if len(given) == len(decl.params) and listed.args:
            for value, bound in zip(given, listed.args, strict=False):
                if _text(value) != _text(bound):
                    raise SourceError(
                        value.pos, f"{what}: argument is not that of the list of actions at {bound.pos}"
                    )
            given = given[len(listed.args) :]
        if len(given) != len(data):
            names = ", ".join(f"{param.type} {param.name}" for param in data)
            raise SourceError(
                ref.pos,
                f"{what}: {counted(len(ref.args), 'argument')}, expected {len(data)}{f' ({names})' if names else ''}",
            )
        checked = [
            self.expressions.constant(value, param.type, f"{what}: argument {param.name}")
            for value, param in zip(given, data, strict=True)
        ]
        ref.args = [*listed.args, *checked]

    # -- other properties

    def _property(self, table: ast.TableDecl, found: ast.TableProperty) -> None:
        what = f"table {table.name}: property {found.name}"
        if found.name not in _EXTERN_PROPERTIES | _VALUE_PROPERTIES:
            hint = did_you_mean(
                found.name, ["key", "actions", "size", "default_action", "entries", *_EXTERN_PROPERTIES]
            )
            raise (
                UnsupportedError(found.pos, f"{what}{hint}")
                if not hint
                else SourceError(found.pos, f"{what}: unknown{hint}")
            )
        found.value = self.expressions.check(found.value)
        if found.name in _EXTERN_PROPERTIES and not isinstance(found.value.type, ExternType):
            raise SourceError(
                found.value.pos, f"{what}: type is {found.value.type}, expected an extern object"
            )

    # -- entries

    def _entry(self, table: ast.TableDecl, entry: ast.TableEntry) -> None:
        what = f"table {table.name}: entry"
        if not table.key:
            raise SourceError(entry.pos, f"{what}: the table has no key, expected no entries")
        keys = entry.keys
        if len(keys) == 1 and isinstance(keys[0], ast.ListExpr):
            keys = list(keys[0].items)
        if len(keys) == 1 and isinstance(keys[0], ast.DefaultExpr) and len(table.key) > 1:
            keys = [ast.DefaultExpr(entry.pos) for _ in table.key]
        if len(keys) != len(table.key):
            raise SourceError(entry.pos, f"{what}: {counted(len(keys), 'key')}, expected {len(table.key)}")
        entry.keys = [
            self._entry_key(key, element, f"{what}: key {element.name}")
            for key, element in zip(keys, table.key, strict=True)
        ]
        decl = self._resolve_action(table, entry.action)
        listed = table.action(decl)
        if listed is None:
            raise SourceError(
                entry.action.pos, f"{what}: action {entry.action.name} is not in the list of actions"
            )
        if listed.default_only:
            raise SourceError(entry.action.pos, f"{what}: action {entry.action.name} is @defaultonly")
        self._arguments(entry.action, listed, decl, f"{what}: action {entry.action.name}")
        if entry.priority is not None:
            entry.priority = self.expressions.check(entry.priority)
            self.expressions.constant_int(entry.priority, f"{what}: priority", 1, (1 << 31) - 1)
            if all(one.match_kind in {"exact", "lpm"} for one in table.key):
                raise SourceError(entry.pos, f"{what}: priority, but no key is ternary, range or optional")

    def _entry_key(self, key: ast.Expression, element: ast.KeyElement, what: str) -> ast.Expression:
        kind = element.match_kind
        target = element.expression.type
        if isinstance(key, ast.MaskExpr) and kind not in {"ternary", "lpm"}:
            raise SourceError(key.pos, f"{what}: mask for {kind}, expected one value")
        if isinstance(key, ast.RangeExpr) and kind != "range":
            raise SourceError(
                key.pos, f"{what}: range for {kind}, expected a value{' or mask' if kind != 'exact' else ''}"
            )
        if isinstance(key, ast.DefaultExpr) and kind == "exact":
            raise SourceError(key.pos, f"{what}: everything for exact, expected one value")
        key = self.statements.key_set(key, target, what)
        for part in key_parts(key):
            if part.const is None:
                raise SourceError(part.pos, f"{what}: not known at compile time, expected a constant")
        if isinstance(key, ast.MaskExpr) and kind == "lpm":
            self._prefix(key, target, what)
        return key

    def _prefix(self, key: ast.MaskExpr, target: types.Type, what: str) -> None:
        mask = key.mask.const
        assert isinstance(mask, int)
        bits = fold.unsigned(mask, target)
        width = types.width(target) or 0
        inverse = ~bits & ((1 << width) - 1)
        if inverse & (inverse + 1):
            raise SourceError(
                key.mask.pos, f"{what}: mask {bits:#x} for lpm, expected a prefix (ones, then zeros)"
            )

    def _twice(
        self,
        table: ast.TableDecl,
        entry: ast.TableEntry,
        seen: dict[tuple[ast.Value | None, ...], ast.TableEntry],
    ) -> None:
        """In a table with exact keys only, a second entry of the same key could never match."""
        if any(element.match_kind != "exact" for element in table.key):
            return
        key = tuple(one.const for one in entry.keys)
        if key in seen:
            raise SourceError(
                entry.pos,
                f"table {table.name}: entry: same key as the entry at {seen[key].pos}, never matches",
            )
        seen[key] = entry


def _plain(node: ast.Expression) -> ast.Expression:
    """Without the casts that the source does not show."""
    while isinstance(node, ast.Cast) and node.implicit:
        node = node.operand
    return node


def _text(node: ast.Expression) -> object:
    """What tells two expressions apart, whether checked or not."""
    match _plain(node):
        case ast.Name(name=name):
            return name
        case ast.Member(base=base, name=name):
            return (_text(base), name)
        case ast.IntLiteral(value=value):
            return value
        case ast.BoolLiteral(value=flag):
            return flag
        case other:
            parts = [one for one in ast.walk(other)[1:] if isinstance(one, ast.Expression)]
            return (type(other), *map(_text, parts))


def control_plane_name(node: ast.Expression) -> str | None:
    """The name that a key has in the control plane's view when it has no @name."""
    match node:
        case ast.Name():
            return node.name
        case ast.Member(kind=ast.MemberKind.METHOD):
            return None
        case ast.Member():
            name = _field_name(node)
            if name.startswith("."):
                return name[1:]
            base = control_plane_name(node.base)
            return None if base is None else f"{base}.{name}"
        case ast.Index():
            base = control_plane_name(node.base)
            index = (
                node.index.const if node.index.const is not None else control_plane_name(_plain(node.index))
            )
            return None if base is None or index is None else f"{base}[{index}]"
        case ast.Slice():
            base = control_plane_name(node.base)
            return None if base is None else f"{base}[{node.hi}:{node.lo}]"
        case ast.Call(kind=ast.CallKind.HEADER) if isinstance(node.callee, ast.Member):
            base = control_plane_name(node.callee.base)
            return None if base is None else f"{base}.$valid$"
        case _:
            return None


def _field_name(node: ast.Member) -> str:
    """The member's name, or the @name of the field that it is."""
    field = node.base.type.field(node.name) if isinstance(node.base.type, Fielded) else None
    for annotation in field.annotations if field else ():
        if annotation.name == "name" and annotation.args:
            return str(annotation.args[0])
    return node.name
