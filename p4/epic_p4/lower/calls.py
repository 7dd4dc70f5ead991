"""Calls: what each kind of callee becomes, and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_p4 import ast
from epic_p4.ast import CallKind
from epic_p4.errors import UnsupportedError
from epic_p4.lower.layout import bits, from_bits, packed, to_bits
from epic_p4.lower.names import identifier
from epic_p4.lower.shapes import whole_bytes
from epic_p4.lower.statements import Frame, Statements
from epic_p4.types import VOID, ExternType, Fielded, HeaderType, StackType, Type, underlying

if TYPE_CHECKING:
    from epic_p4.lower.unit import Unit


class Calls(Statements):
    """Adds calls. `hit_entry` is the variable of the entry whose action is being written out."""

    def __init__(self, unit: Unit, instance: ast.Instance | None) -> None:
        super().__init__(unit, instance)
        self.hit_entry = ""

    def call(self, call: ast.Call) -> str:
        """Write out a call; the code of its result."""
        decl = call.decl
        match call.kind:
            case CallKind.ACTION if isinstance(decl, ast.ActionDecl):
                return self.inline(decl.params, call.args, decl.body, call.type)
            case CallKind.FUNCTION if isinstance(decl, ast.FunctionDecl):
                return self.inline(decl.params, call.args, decl.body, decl.result)
            case CallKind.EXTERN_FUNCTION:
                return self.unit.externs.function(self, call)
            case CallKind.METHOD:
                return self._method(call)
            case CallKind.TABLE_APPLY:
                return self.apply_table(call)
            case CallKind.CONTROL_APPLY | CallKind.PARSER_APPLY:
                self._apply(call)
                return ""
            case CallKind.HEADER:
                return self._header(call)
            case CallKind.STACK:
                assert isinstance(call.callee, ast.Member)
                count = self.known(_argument(call, 0))
                self.emit(f"{self.path(call.callee.base)}.{call.callee.name}({count})")
                return ""
        raise UnsupportedError(call.pos, f"call of a {call.kind.value}")

    def _header(self, call: ast.Call) -> str:
        assert isinstance(call.callee, ast.Member)
        path = self.path(call.callee.base)
        if call.callee.name == "isValid":
            return f"{path}._v"
        if call.callee.name == "setInvalid":
            self.emit(f"{path}.reset()")
        elif self.unit.externs.zeroes_valid:
            self.emit(f"{path}.set_valid()")
        else:
            self.emit(f"{path}._v = True")
        return ""

    def _method(self, call: ast.Call) -> str:
        callee = call.callee
        assert isinstance(callee, ast.Member)
        base = callee.base
        if isinstance(base.type, ExternType) and base.type.name in ("packet_in", "packet_out"):
            return self.packet_method(call, callee)
        instance = self.unit.instance_of(base, self.instance)
        if instance is None:
            raise UnsupportedError(call.pos, f"{callee.name} of an extern that is not an instance")
        return self.unit.externs.method(self, call, instance, callee.name)

    # -- packets

    def packet_method(self, call: ast.Call, callee: ast.Member) -> str:
        """A method of packet_out here; parsers have those of packet_in."""
        if callee.name != "emit":
            raise UnsupportedError(call.pos, f"{callee.name} outside a parser")
        argument = _argument(call, 0)
        self._emit_packet(self.path(callee.base), self.path_of(argument), argument.type, argument)
        return ""

    def path_of(self, node: ast.Expression) -> str:
        """A reference to an object, which may be a value made for the purpose."""
        made = isinstance(node, ast.StructExpr | ast.DefaultValue | ast.Call | ast.Cast)
        return self.value(node) if made else self.path(node)

    def _emit_packet(self, out: str, path: str, type_: Type, node: ast.Expression) -> None:
        match underlying(type_):
            case HeaderType() as header:
                whole_bytes(header, node.pos)
                self._emit_header(out, path, header)
            case StackType(element, _):
                assert isinstance(element, HeaderType)
                whole_bytes(element, node.pos)
                self.emit(f"for _h in {path}.items:")
                with self.indented():
                    self.emit("if _h._v:")
                    with self.indented():
                        self.emit(f"{out}.append(_h.pack())")
            case Fielded() as struct:
                for field in struct.fields:
                    self._emit_packet(out, f"{path}.{identifier(field.name)}", field.type, node)
            case _:
                raise UnsupportedError(node.pos, f"emit of {type_}")

    def _emit_header(self, out: str, path: str, header: HeaderType) -> None:
        self.emit(f"if ({path})._v:" if not path.isidentifier() and " " in path else f"if {path}._v:")
        with self.indented():
            if not header.fields:
                return
            self.emit(f"_h = {path}")
            letters, args = packed([(f"_h.{identifier(one.name)}", one.type) for one in header.fields])
            self.emit(f"{out}.append({self.unit.shapes.struct_format(letters, 'pack')}({', '.join(args)}))")

    # -- controls and parsers inside others

    def _apply(self, call: ast.Call) -> None:
        assert isinstance(call.callee, ast.Member)
        instance = self.unit.instance_of(call.callee.base, self.instance)
        if instance is None or not isinstance(instance.decl, ast.ControlDecl | ast.ParserDecl):
            raise UnsupportedError(call.pos, "apply of what is no control or parser instance")
        function = self.unit.function(instance)
        frame = Frame()
        saved = {param: self.env.get(param) for param in instance.decl.params}
        body = ast.Block(call.pos, [])
        copies = self.pass_arguments(instance.decl.params, call.args, frame, body)
        names = [self.env[param] for param in instance.decl.params]
        outs = [self.env[param] for param in function.returned]
        self.before_apply(call)
        made = f"{function.name}({', '.join(names)})"
        targets = (["_x"] if function.status else []) + outs
        if not targets:
            self.emit(made)
        else:
            self.emit(f"{', '.join(targets)} = {made}")
        for param, old in saved.items():
            if old is not None:
                self.env[param] = old
        for back in copies:
            back()
        if function.status:
            self.after_apply()

    def before_apply(self, call: ast.Call) -> None:
        """What a parser does so that a parser inside it goes on where it is."""

    def after_apply(self) -> None:
        """Go on only when `_x`, the status of a control or parser inside, allows."""
        self.emit("if _x:")
        with self.indented():
            self._exit()

    # -- tables

    def apply_table(self, call: ast.Call) -> str:
        """Write out `table.apply()`; the variable that holds the entry."""
        assert isinstance(call.callee, ast.Member)
        name = call.callee.base
        assert isinstance(name, ast.Name) and isinstance(name.decl, ast.TableDecl)
        assert self.instance is not None
        decl, instance = name.decl, self.instance.tables[name.decl]
        table = self.unit.table(instance)
        self.at(call.pos)
        entry = self.scope.fresh("_e")
        if not decl.key:
            self.emit(f"{entry} = {self.unit.bind(f'_miss_{decl.name}', table.miss)}")
        else:
            keys = self.in_order([lambda key=key: self.value(key.expression) for key in decl.key])  # type: ignore[misc]
            keys = [to_bits(code, key.expression.type) for code, key in zip(keys, decl.key, strict=True)]
            find = self.unit.bind(f"_find_{decl.name}", table.cache.get)
            self.emit(f"_k = {keys[0] if len(keys) == 1 else '(' + ', '.join(keys) + ')'}")
            self.emit(f"{entry} = {find}(_k)")
            self.emit(f"if {entry} is None:")
            with self.indented():
                self.emit(f"{entry} = {self.unit.bind(f'_search_{decl.name}', table.lookup)}(_k)")
        self.unit.externs.table_applied(self, instance, entry)
        self._run_action(decl, entry)
        return entry

    def _run_action(self, decl: ast.TableDecl, entry: str) -> None:
        before, self.hit_entry = self.hit_entry, entry
        word = "if"
        chosen = ""
        for number, ref in enumerate(decl.actions):
            action = ref.decl
            assert action is not None
            if not any(not isinstance(one, ast.Empty) for one in action.body.statements):
                continue
            if len(decl.actions) == 1:
                self._action(ref, action, entry)
                continue
            chosen = chosen or self.temporary("_a", f"{entry}.action")
            self.emit(f"{word} {chosen} == {number}:")
            word = "elif"
            with self.indented():
                self._action(ref, action, entry)
        self.hit_entry = before

    def _action(self, ref: ast.ActionRef, action: ast.ActionDecl, entry: str) -> None:
        data = action.data_params
        names = [self.scope.fresh(identifier(param.name)) for param in data]
        if names:
            self.emit(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {entry}.args")
        codes = {param: from_bits(name, param.type) for param, name in zip(data, names, strict=True)}
        given = iter(ref.args)
        args = [codes[param] if param in codes else next(given) for param in action.params]
        self.inline(action.params, args, action.body, VOID)

    # -- data of hashes and checksums

    def octets(self, node: ast.Expression, *, skip_invalid: bool, copied: bool = False) -> str:
        """Code of the bytes of all fields in `node`; a last byte that is not full has zeros at its end.

        `skip_invalid`: fields of invalid headers are left out; when they are `copied` first, invalid headers only.
        """
        runs: list[tuple[str, list[tuple[str, Type]]]] = []
        for valid, code, type_ in self.fields(node, copied=copied):
            owner = valid if skip_invalid else ""
            if not runs or runs[-1][0] != owner:
                runs.append((owner, []))
            runs[-1][1].append((code, type_))
        if all(sum(bits(type_) for _, type_ in run) % 8 == 0 for _, run in runs):
            parts = [self._run_octets(owner, run) for owner, run in runs]
            if len(parts) < 2:
                return parts[0] if parts else 'b""'
            return f"b''.join(({', '.join(parts)}))"
        value, size = self.temporary("_d", "0"), self.temporary("_w", "0")
        for owner, run in runs:
            self.emit(f"if {owner or 'True'}:")
            with self.indented():
                count = sum(bits(type_) for _, type_ in run)
                self.emit(f"{value} = {value} << {count}")
                shift = count
                for code, type_ in run:
                    shift -= bits(type_)
                    self.emit(f"{value} |= {to_bits(code, type_)} << {shift}")
                self.emit(f"{size} += {count}")
        return f"_padded({value}, {size})"

    def _run_octets(self, owner: str, run: list[tuple[str, Type]]) -> str:
        letters, args = packed(run)
        code = f"{self.unit.shapes.struct_format(letters, 'pack')}({', '.join(args)})"
        return f"({code} if {owner} else b'')" if owner else code


def _argument(call: ast.Call, number: int) -> ast.Expression:
    argument = call.args[number]
    if argument is None:
        raise UnsupportedError(call.pos, "a call without its argument")
    return argument
