"""Statements, and the bodies of actions, functions and methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from epic_p4 import ast, types
from epic_p4.check.context import Context, Place
from epic_p4.check.convert import coerce
from epic_p4.check.expressions import Expressions
from epic_p4.check.fold import is_constant_type
from epic_p4.check.typerefs import TypeRefs
from epic_p4.errors import SourceError, UnsupportedError
from epic_p4.types import ActionRunType, InfIntType, Type, VoidType


class Statements:
    """Checks statements in place; each one's errors are collected on their own."""

    def __init__(self, context: Context, type_refs: TypeRefs, expressions: Expressions) -> None:
        self.context = context
        self.type_refs = type_refs
        self.expressions = expressions

    def block(self, block: ast.Block) -> None:
        """A block, in a scope of its own."""
        with self.context.scopes.nested():
            self.statements(block.statements)

    def statements(self, statements: Sequence[ast.Statement]) -> None:
        """Statements of one scope."""
        for statement in statements:
            name = statement.name if isinstance(statement, ast.Declaration) else None
            with self.context.collecting(name):
                self.statement(statement)

    def statement(self, node: ast.Statement) -> None:
        """One statement or declaration among statements."""
        match node:
            case ast.Block():
                self.block(node)
            case ast.Assign():
                node.target = self.expressions.l_value(node.target, "assignment")
                node.value = self.expressions.value(node.value, node.target.type, "assignment")
            case ast.CallStatement():
                call = self.expressions.check(node.call)
                assert isinstance(call, ast.Call)
                node.call = call
            case ast.If():
                node.condition = self.expressions.value(node.condition, types.BOOL, "condition of if")
                for branch in (node.yes, node.no):
                    if branch is not None:
                        self.statements([branch])
            case ast.Switch():
                self._switch(node)
            case ast.Exit():
                self._allowed(node, "exit", {Place.CONTROL, Place.ACTION})
            case ast.Return():
                self._return(node)
            case ast.Empty():
                pass
            case ast.VarDecl():
                self.variable(node)
            case ast.ConstDecl():
                self.constant(node)
            case ast.Instantiation():
                raise UnsupportedError(node.pos, "instantiation among statements")
            case _:
                raise AssertionError(node)

    def _allowed(self, node: ast.Node, what: str, places: set[Place]) -> None:
        if self.context.place not in places:
            expected = " or ".join(sorted(place.value for place in places))
            raise SourceError(node.pos, f"{what} in {self.context.place.value}, expected only in {expected}")

    def _return(self, node: ast.Return) -> None:
        self._allowed(node, "return", {Place.CONTROL, Place.ACTION, Place.FUNCTION, Place.METHOD})
        if node.value is None:
            if not isinstance(self.context.result, VoidType):
                raise SourceError(node.pos, f"return without value, expected {self.context.result}")
            return
        if isinstance(self.context.result, VoidType):
            raise SourceError(
                node.value.pos, f"return with a value in {self.context.place.value} without result"
            )
        node.value = self.expressions.value(node.value, self.context.result, "return")

    # -- switch

    def _switch(self, node: ast.Switch) -> None:
        self._allowed(node, "switch", {Place.CONTROL, Place.ACTION, Place.FUNCTION, Place.METHOD})
        node.subject = self.expressions.check(node.subject)
        kind = node.subject.type
        seen: dict[object, ast.Node] = {}
        if not isinstance(kind, ActionRunType) and not is_constant_type(kind):
            raise SourceError(
                node.subject.pos,
                f"switch over {kind}, expected an action_run or a value of bits, bool or enum",
            )
        for case in node.cases:
            for index, label in enumerate(case.labels):
                with self.context.collecting():
                    if isinstance(label, ast.DefaultExpr):
                        key: object = "default"
                    elif isinstance(kind, ActionRunType):
                        key = self._action_label(label, kind)
                    else:
                        case.labels[index] = self.expressions.constant(label, kind, "label of switch")
                        key = case.labels[index].const
                    if "default" in seen:
                        raise SourceError(label.pos, "label of switch: after default, expected default last")
                    if key in seen:
                        raise SourceError(
                            label.pos, f"label of switch: given twice, first at {seen[key].pos}"
                        )
                    seen[key] = label
            if case.body is not None:
                self.block(case.body)

    def _action_label(self, label: ast.Expression, kind: ActionRunType) -> object:
        names = [one.name for one in kind.decl.actions]
        if not isinstance(label, ast.Name) or label.name not in names:
            what = label.name if isinstance(label, ast.Name) else "expression"
            raise SourceError(
                label.pos,
                f"label {what}: not an action of table {kind.decl.name}, expected one of {', '.join(names)}",
            )
        label.decl = next(one.decl for one in kind.decl.actions if one.name == label.name)
        assert isinstance(label.decl, ast.ActionDecl)
        label.type = types.ActionType(label.decl)
        return label.decl

    # -- declarations among statements

    def variable(self, node: ast.VarDecl) -> None:
        """A variable; its own name is not yet known in its initial value."""
        node.type = self.type_refs.resolve(node.type_ref)
        self.type_refs.element(node.type, f"variable {node.name}", node.type_ref, "struct")
        if node.value is not None:
            node.value = self.expressions.value(node.value, node.type, f"variable {node.name}")
        self.context.scopes.declare(node.name, node, node.pos)

    def constant(self, node: ast.ConstDecl) -> None:
        """A constant."""
        node.type = self.type_refs.resolve(node.type_ref)
        if isinstance(node.type, InfIntType):
            node.value = self.expressions.check(node.value)
            if not isinstance(node.value.type, InfIntType):
                raise SourceError(
                    node.value.pos, f"constant {node.name}: type is {node.value.type}, expected int"
                )
        else:
            node.value = self.expressions.value(node.value, node.type, f"constant {node.name}")
        if node.value.const is None and not self.expressions.from_constructor(node.value):
            raise SourceError(node.value.pos, f"constant {node.name}: value is not known at compile time")
        self.context.scopes.declare(node.name, node, node.pos)

    # -- parameters and bodies

    def params(self, params: Sequence[ast.Param], *, declare: bool = True) -> None:
        """Resolve parameters and, if `declare`, bring them into the current scope."""
        names: set[str] = set()
        for param in params:
            param.type = self.type_refs.resolve(param.type_ref)
            if param.name in names:
                raise SourceError(param.pos, f"parameter {param.name}: declared twice")
            names.add(param.name)
            if param.direction and isinstance(
                param.type,
                types.ExternType | types.ControlType | types.ParserType | types.StringType | InfIntType,
            ):
                raise SourceError(param.pos, f"parameter {param.name}: {param.type} cannot have a direction")
            if param.default is not None and param.direction in {"out", "inout"}:
                raise SourceError(
                    param.pos, f"parameter {param.name}: is {param.direction}, expected no default value"
                )
            if declare:
                self.context.scopes.declare(param.name, param, param.pos)

    def action(self, node: ast.ActionDecl) -> None:
        """An action; it is declared after its body, for it cannot call itself."""
        with self.context.scopes.nested():
            self.params(node.params)
            from_control_plane = False
            for param in node.params:
                if param.direction and from_control_plane:
                    raise SourceError(
                        param.pos,
                        f"action {node.name}: parameter {param.name} has a direction and stands after one "
                        "without, expected those without last",
                    )
                from_control_plane = from_control_plane or not param.direction
                if not param.direction and isinstance(param.type, InfIntType | types.ExternType):
                    raise SourceError(
                        param.pos,
                        f"action {node.name}: parameter {param.name} is {param.type}, "
                        "expected a type with values at run time",
                    )
            with self.context.at(Place.ACTION):
                self.block(node.body)

    def function(self, node: ast.FunctionDecl) -> None:
        """A function."""
        if node.type_params:
            raise UnsupportedError(node.pos, f"type parameters of function {node.name}")
        node.result = self.type_refs.resolve(node.result_ref)
        with self.context.scopes.nested():
            self.params(node.params)
            with self.context.at(Place.FUNCTION, node.result):
                self.block(node.body)
        self._returns(node)

    def method(self, node: ast.FunctionDecl, check_signature: Callable[[], None]) -> None:
        """The implementation of an abstract method."""
        if node.type_params:
            raise UnsupportedError(node.pos, f"type parameters of method {node.name}")
        node.result = self.type_refs.resolve(node.result_ref)
        with self.context.scopes.nested():
            self.params(node.params)
            check_signature()
            with self.context.at(Place.METHOD, node.result):
                self.block(node.body)
        self._returns(node)

    def _returns(self, node: ast.FunctionDecl) -> None:
        if not isinstance(node.result, VoidType) and not always_returns(node.body):
            raise SourceError(
                node.pos, f"function {node.name}: can end without return, expected {node.result}"
            )

    def match_type(self, kind: Type, node: ast.Expression, what: str) -> None:
        """An error unless values of `kind` can be matched (select, keys)."""
        if not is_constant_type(kind) and not isinstance(kind, types.ErrorType):
            raise SourceError(node.pos, f"{what}: type is {kind}, expected bits, bool, enum or error")

    def key_set(self, node: ast.Expression, target: Type, what: str) -> ast.Expression:
        """A set of values of type `target`: one value, a mask, a range, or everything."""
        match node:
            case ast.DefaultExpr():
                node.type = types.SetType(target)
                return node
            case ast.MaskExpr():
                shape = types.underlying(target)
                self._bits_only(target, node, what)
                node.value = coerce_key(self.expressions.check(node.value), target, what)
                node.mask = coerce_key(self.expressions.check(node.mask), shape, f"{what} (mask)")
            case ast.RangeExpr():
                self._bits_only(target, node, what)
                node.low = coerce_key(self.expressions.check(node.low), target, what)
                node.high = coerce_key(self.expressions.check(node.high), target, what)
                low, high = node.low.const, node.high.const
                if isinstance(low, int) and isinstance(high, int) and low > high:
                    raise SourceError(node.pos, f"{what}: range {low}..{high} is empty, expected low..high")
            case _:
                return coerce_key(self.expressions.check(node), target, what)
        node.type = types.SetType(target)
        return node

    def _bits_only(self, target: Type, node: ast.Expression, what: str) -> None:
        if not isinstance(types.underlying(target), types.BitType | types.IntType):
            raise SourceError(node.pos, f"{what}: mask or range of {target}, expected one value")


def key_parts(key: ast.Expression) -> list[ast.Expression]:
    """The values that make up a key set."""
    match key:
        case ast.MaskExpr():
            return [key.value, key.mask]
        case ast.RangeExpr():
            return [key.low, key.high]
        case ast.DefaultExpr():
            return []
        case _:
            return [key]


def coerce_key(node: ast.Expression, target: Type, what: str) -> ast.Expression:
    """As `coerce`; a serializable enum or `type` key may also be given by a number."""
    shape = types.underlying(target)
    if isinstance(node.type, InfIntType) and shape != target:
        return coerce(node, shape, what)
    if node.type == shape and shape != target:
        return node
    return coerce(node, target, what)


def always_returns(node: ast.Statement) -> bool:
    """Whether no path goes through the statement."""
    match node:
        case ast.Return() | ast.Exit():
            return True
        case ast.Block():
            return any(always_returns(one) for one in node.statements)
        case ast.If():
            return node.no is not None and always_returns(node.yes) and always_returns(node.no)
        case ast.Switch():
            has_default = any(
                isinstance(label, ast.DefaultExpr) for case in node.cases for label in case.labels
            )
            return has_default and all(
                case.body is not None and always_returns(case.body) for case in node.cases
            )
        case _:
            return False
