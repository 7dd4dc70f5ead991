"""Top-level declarations, and the insides of controls and parsers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from epic_p4 import ast
from epic_p4.check.calls import Calls, parameters
from epic_p4.check.context import Context, Place
from epic_p4.check.expressions import Expressions, Overloads
from epic_p4.check.instantiation import Instantiations
from epic_p4.check.parsers import Parsers
from epic_p4.check.statements import Statements
from epic_p4.check.tables import Tables
from epic_p4.check.typerefs import TypeRefs
from epic_p4.errors import SourceError, UnsupportedError
from epic_p4.types import (
    BitType,
    ControlType,
    EnumType,
    ExternType,
    Field,
    HeaderType,
    IntType,
    NewType,
    PackageType,
    ParserType,
    StructType,
    Type,
    TypeVariable,
)


class Declarations:
    """Checks declarations in the order of the source; each is known only after itself."""

    def __init__(self) -> None:
        self.context = Context()
        self.type_refs = TypeRefs(self.context)
        self.expressions = Expressions(self.context, self.type_refs)
        self.calls = Calls(self.context, self.type_refs, self.expressions)
        self.statements = Statements(self.context, self.type_refs, self.expressions)
        self.instantiations = Instantiations(self.context, self.type_refs, self.calls)
        self.tables = Tables(self.context, self.expressions, self.statements)
        self.parsers = Parsers(self.context, self.expressions, self.statements)
        self.type_refs.expressions = self.expressions
        self.expressions.calls = self.calls
        self.expressions.instantiations = self.instantiations
        self.instantiations.statements = self.statements

    def check(self, declarations: Sequence[ast.Declaration]) -> None:
        """All declarations; what is wrong is in `context.failures`."""
        for node in declarations:
            with self.context.collecting(node.name):
                self.context.scopes.in_progress.add(node.name)
                try:
                    self._top(node)
                finally:
                    self.context.scopes.in_progress.discard(node.name)

    def _top(self, node: ast.Declaration) -> None:
        match node:
            case ast.ErrorDecl():
                for pos, name in node.members:
                    if name in self.context.error_members:
                        raise SourceError(pos, f"error {name}: declared twice")
                    self.context.error_members[name] = len(self.context.error_members)
            case ast.MatchKindDecl():
                for pos, name in node.members:
                    if name in self.context.match_kinds:
                        raise SourceError(pos, f"match kind {name}: declared twice")
                    self.context.match_kinds[name] = node
            case ast.ConstDecl():
                self.statements.constant(node)
            case ast.ExternFunction():
                self._prototype(node, {})
                self._overloaded(node)
            case ast.TypeDeclaration():
                self._type(node)
            case _:
                self._local(node)

    def _overloaded(self, node: ast.ExternFunction) -> None:
        entry = self.context.scopes.find(node.name, top=True)
        if isinstance(entry, ast.ExternFunction):
            entry = self.context.scopes.tables[0][node.name] = Overloads(entry)
        if isinstance(entry, Overloads):
            for other in entry.functions:
                same = [param.name for param in other.params] == [param.name for param in node.params]
                if same and len(other.type_params) == len(node.type_params):
                    raise SourceError(node.pos, f"{node.name}: declared twice, first at {other.pos}")
            entry.functions.append(node)
            return
        self.context.scopes.declare(node.name, node, node.pos)

    # -- types

    def _type(self, node: ast.TypeDeclaration) -> None:
        existing = self.context.scopes.find(node.name)
        if isinstance(existing, ast.Node):
            self.context.scopes.declare(node.name, node, node.pos)  # raises
        match node:
            case ast.HeaderDecl() | ast.StructDecl():
                node.type = self._fielded(node)
            case ast.EnumDecl():
                node.type = self._enum(node)
            case ast.TypedefDecl():
                node.type = self.type_refs.resolve(node.type_ref)
            case ast.NewTypeDecl():
                below = self.type_refs.resolve(node.type_ref)
                self.type_refs.underlying_of_new(below, node.type_ref)
                node.type = NewType(node.name, below, tuple(node.annotations))
            case ast.ExternDecl():
                self._extern(node)
                return
            case ast.ControlTypeDecl() | ast.ParserTypeDecl() | ast.PackageDecl():
                self._architecture(node)
            case ast.ControlDecl():
                self._control(node)
            case ast.ParserDecl():
                self._parser(node)
            case _:
                raise AssertionError(node)
        self.context.scopes.declare(node.name, node, node.pos)
        self.context.types[node.name] = node.type

    def _fielded(self, node: ast.HeaderDecl | ast.StructDecl) -> Type:
        kind = "header" if isinstance(node, ast.HeaderDecl) else "struct"
        fields: list[Field] = []
        for one in node.fields:
            if any(field.name == one.name for field in fields):
                raise SourceError(one.pos, f"{kind} {node.name}: field {one.name} declared twice")
            found = self.type_refs.resolve(one.type_ref)
            self.type_refs.element(found, f"{kind} {node.name}: field {one.name}", one.type_ref, kind)
            fields.append(Field(one.name, found, tuple(one.annotations)))
        made = HeaderType if kind == "header" else StructType
        return made(node.name, tuple(fields), node)

    def _enum(self, node: ast.EnumDecl) -> Type:
        below: BitType | IntType | None = None
        if node.underlying is not None:
            found = self.type_refs.resolve(node.underlying)
            if not isinstance(found, BitType | IntType):
                raise SourceError(
                    node.underlying.pos, f"enum {node.name}: of {found}, expected bit<N> or int<N>"
                )
            below = found
        members: dict[str, int] = {}
        for pos, name, value in node.members:
            if name in members:
                raise SourceError(pos, f"enum {node.name}: member {name} declared twice")
            if value is None:
                members[name] = len(members)
                continue
            assert below is not None
            checked = self.expressions.constant(value, below, f"enum {node.name}: member {name}")
            assert isinstance(checked.const, int)
            members[name] = checked.const
        return EnumType(node.name, below, members)

    def _prototype(self, node: ast.ExternFunction, outer: dict[str, TypeVariable]) -> None:
        """Types of an extern function, method or constructor."""
        node.variables = self.context.type_variables(node.type_params, node.pos)
        with self.context.scopes.nested():
            for name, variable in (outer | node.variables).items():
                self.context.scopes.tables[-1][name] = variable
            node.result = self.type_refs.resolve(node.result_ref)
            self.statements.params(node.params, declare=False)

    def _extern(self, node: ast.ExternDecl) -> None:
        variables = self.context.type_variables(node.type_params, node.pos)
        node.type = ExternType(node.name, tuple(variables.values()), node)
        # Known from here on: its methods may speak of it.
        self.context.scopes.declare(node.name, node, node.pos)
        self.context.types[node.name] = node.type
        seen: dict[tuple[str, int, tuple[str, ...]], ast.ExternFunction] = {}
        for one in (*node.methods, *node.constructors):
            one.extern = node
            self._prototype(one, variables)
            # Calls tell overloads apart by number and names of arguments, so these must differ.
            key = (one.name, len(one.type_params), tuple(param.name for param in one.params))
            if key in seen:
                raise SourceError(
                    one.pos, f"extern {node.name}: {one.name} declared twice, first at {seen[key].pos}"
                )
            seen[key] = one

    def _architecture(self, node: ast.ControlTypeDecl | ast.ParserTypeDecl | ast.PackageDecl) -> None:
        variables = self.context.type_variables(node.type_params, node.pos)
        args = tuple(variables.values())
        with self.context.scopes.nested():
            for name, variable in variables.items():
                self.context.scopes.declare(name, variable, node.pos)
            self.statements.params(node.params)
        params = parameters(node.params)
        if isinstance(node, ast.ControlTypeDecl):
            node.type = ControlType(node.name, params, node, args)
        elif isinstance(node, ast.ParserTypeDecl):
            node.type = ParserType(node.name, params, node, args)
        else:
            node.type = PackageType(node.name, args, node)

    # -- controls and parsers

    def _enter(self, node: ast.ControlDecl | ast.ParserDecl) -> None:
        """Parameters into scope; then the type is known to the inside."""
        self.statements.params(node.params)
        self.statements.params(node.constructor_params)
        for param in node.constructor_params:
            if param.direction:
                raise SourceError(
                    param.pos,
                    f"{node.name}: constructor parameter {param.name} is {param.direction}, expected no direction",
                )
        self.context.constructor_params.update(node.constructor_params)
        for param in node.params:
            if isinstance(param.type, ControlType | ParserType | PackageType):
                raise SourceError(
                    param.pos,
                    f"{node.name}: parameter {param.name} is {param.type}, expected it among the constructor's "
                    "parameters",
                )
            if not param.direction and not isinstance(param.type, ExternType):
                raise UnsupportedError(
                    param.pos,
                    f"{node.name}: parameter {param.name} ({param.type}) without direction",
                )
        if isinstance(node, ast.ControlDecl):
            node.type = ControlType(node.name, parameters(node.params), node)
        else:
            node.type = ParserType(node.name, parameters(node.params), node)

    def _locals(self, node: ast.ControlDecl | ast.ParserDecl) -> None:
        for one in node.locals:
            with self.context.collecting(one.name):
                self._local(one)

    def _synthesized(self, node: ast.ControlDecl | ast.ParserDecl) -> None:
        """The instances of direct calls `C.apply(…)` become locals."""
        made, self.context.synthesized = self.context.synthesized, []
        node.locals.extend(cast("list[ast.Declaration]", made))

    def _control(self, node: ast.ControlDecl) -> None:
        with self.context.scopes.nested():
            self._enter(node)
            with self.context.at(Place.CONTROL):
                self._locals(node)
                self.statements.block(node.body)
        self._synthesized(node)

    def _parser(self, node: ast.ParserDecl) -> None:
        with self.context.scopes.nested():
            self._enter(node)
            with self.context.at(Place.PARSER):
                self._locals(node)
            with self.context.collecting():
                self.parsers.states(node)
        self._synthesized(node)

    def _local(self, node: ast.Declaration) -> None:
        """A declaration of a value: of the top level, a control or a parser."""
        scopes = self.context.scopes
        match node:
            case ast.ConstDecl():
                self.statements.constant(node)
                return
            case ast.VarDecl():
                self.statements.variable(node)
                return
            case ast.ActionDecl():
                scopes.in_progress.add(node.name)
                self.statements.action(node)
                scopes.in_progress.discard(node.name)
            case ast.FunctionDecl():
                self.statements.function(node)
            case ast.TableDecl():
                self.tables.check(node)
            case ast.Instantiation():
                self.instantiations.named(node)
                if self.context.place is Place.TOP and not isinstance(node.type, ExternType | PackageType):
                    raise SourceError(
                        node.pos,
                        f"{node.name}: instance of {node.type} at the top level, expected an extern or package",
                    )
            case _:
                raise AssertionError(node)
        scopes.declare(node.name, node, node.pos)
