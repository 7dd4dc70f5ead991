"""What a statement reads, writes and touches, for the data dependencies and for the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from epic_p4 import ast
from epic_p4.errors import Pos
from epic_p4.rules.fields import NO_FIELDS, VALID, Fields, Place, Scope, resolve, union
from epic_p4.rules.text import start

REGISTERS = frozenset({"Register", "DirectRegister"})
REGISTER_ACTIONS = frozenset({"RegisterAction", "DirectRegisterAction", "MinMaxAction", "LearnAction"})
COUNTERS = frozenset({"Counter", "DirectCounter"})
METERS = frozenset({"Meter", "DirectMeter", "Lpf", "DirectLpf", "Wred", "DirectWred"})
STATEFUL = REGISTERS | COUNTERS | METERS


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A touch of a register, counter or meter. `index` is None for a direct one."""

    object: ast.Instance
    pos: Pos
    index: ast.Expression | None
    scope: Scope
    action: ast.Instance | None = None  # the RegisterAction


@dataclass(slots=True)
class Effect:
    """What one statement does. `inputs` go through the match crossbar, `operands` to the action ALUs."""

    pos: Pos
    inputs: Fields = NO_FIELDS
    operands: Fields = NO_FIELDS
    writes: Fields = NO_FIELDS
    uses: tuple[Use, ...] = ()
    hashes: tuple[ast.Call, ...] = ()
    statement: ast.Statement | None = None
    scope: Scope | None = field(default=None, repr=False)

    @property
    def reads(self) -> Fields:
        return self.inputs | self.operands


def reads(expression: ast.Expression | None, scope: Scope) -> Fields:
    """The bits whose value an expression depends on."""
    if expression is None or is_known(expression):
        return NO_FIELDS
    place = resolve(expression, scope)
    if place is not None:
        return place.fields()
    match expression:
        case ast.Call(kind=ast.CallKind.HEADER):
            return _validity(expression, scope)
        case ast.Call():
            return union(reads(argument, scope) for argument in _inputs(expression))
        case ast.Unary() | ast.Cast():
            return reads(expression.operand, scope)
        case ast.Binary():
            return reads(expression.left, scope) | reads(expression.right, scope)
        case ast.Ternary():
            return union(reads(one, scope) for one in (expression.condition, expression.yes, expression.no))
        case ast.ListExpr():
            return union(reads(one, scope) for one in expression.items)
        case ast.StructExpr():
            return union(reads(one, scope) for _, one in expression.items)
        case ast.Slice() | ast.Member() | ast.Index():
            return reads(expression.base, scope)
        case _:
            return NO_FIELDS


def is_known(expression: ast.Expression) -> bool:
    """Whether a compiler knows the value: constants, sizes of headers, and what is computed of them."""
    if expression.const is not None:
        return True
    match expression:
        case ast.Cast() | ast.Unary():
            return is_known(expression.operand)
        case ast.Binary():
            return is_known(expression.left) and is_known(expression.right)
        case ast.Call(kind=ast.CallKind.EXTERN_FUNCTION, decl=ast.ExternFunction(name=name)):
            return name in ("sizeInBits", "sizeInBytes")
        case _:
            return False


def calls(node: object) -> list[ast.Call]:
    """The calls below a node."""
    return [one for one in ast.walk(node) if isinstance(one, ast.Call)]


def effects(statement: ast.Statement | ast.Block, scope: Scope) -> Iterator[Effect]:
    """The effects of a statement without table or control applications, conditions taken both ways."""
    match statement:
        case ast.Block():
            for one in statement.statements:
                yield from effects(one, scope)
        case ast.If():
            yield Effect(
                start(statement.condition),
                operands=reads(statement.condition, scope),
                statement=statement,
                scope=scope,
            )
            yield from effects(statement.yes, scope)
            if statement.no is not None:
                yield from effects(statement.no, scope)
        case ast.Assign():
            yield _assignment(statement, statement.target, statement.value, scope)
        case ast.VarDecl(value=value) if value is not None:
            target = Place(f"{scope.instance.name}.{statement.name}", statement.type)
            effect = _value(value, scope, statement.pos)
            effect.writes = effect.writes | target.fields()
            effect.statement = statement
            yield effect
        case ast.CallStatement():
            yield from _call(statement, scope)
        case _:
            return


def action_scope(decl: ast.ActionDecl, given: Iterable[ast.Expression | None], scope: Scope) -> Scope:
    """The scope inside an action; `given` are its directional arguments, first ones first."""
    arguments = iter(given)
    places: dict[ast.Node, Place] = {}
    for param in decl.params:
        argument = next(arguments, None) if param.direction else None
        place = resolve(argument, scope) if argument is not None else None
        places[param] = place or Place(f"{decl.name}({param.name})", param.type, data=not param.direction)
    return scope.inner(places)


def _call(statement: ast.CallStatement, scope: Scope) -> Iterator[Effect]:
    call = statement.call
    if call.kind is ast.CallKind.ACTION and isinstance(call.decl, ast.ActionDecl):
        inner = action_scope(call.decl, call.args, scope)
        # Called from the source, an action's data are its arguments: constants or places.
        for param, argument in zip(call.decl.params, call.args, strict=False):
            place = resolve(argument, scope) if argument is not None else None
            if place is not None:
                inner = inner.inner({param: place})
        yield from effects(call.decl.body, inner)
        return
    effect = _value(call, scope, start(statement))
    effect.statement = statement
    if call.kind is ast.CallKind.HEADER and isinstance(call.callee, ast.Member):
        effect.operands = NO_FIELDS
        effect.writes = _validity(call, scope)
    elif call.kind is ast.CallKind.STACK and isinstance(call.callee, ast.Member):
        effect.writes = reads(call.callee.base, scope)
    yield effect


def _assignment(
    statement: ast.Statement, target: ast.Expression, value: ast.Expression, scope: Scope
) -> Effect:
    effect = _value(value, scope, start(statement))
    effect.writes = effect.writes | reads(target, scope)
    effect.statement = statement
    return effect


def _value(value: ast.Expression, scope: Scope, pos: Pos) -> Effect:
    """The effect of computing a value: what calls need goes through the crossbar, the rest to the ALUs."""
    effect = Effect(pos, operands=_operands(value, scope), scope=scope)
    for call in calls(value):
        effect.writes = effect.writes | union(reads(one, scope) for one in _outputs(call))
        instance = _called(call, scope)
        if instance is None:
            continue
        kind = instance.decl.name
        effect.inputs = effect.inputs | reads(call, scope)
        if kind in REGISTER_ACTIONS:
            register = register_of(instance)
            if register is not None:
                effect.inputs = effect.inputs | register_inputs(instance, scope)
                effect.uses += (Use(register, start(call), _index(call), scope, instance),)
        elif kind in STATEFUL:
            effect.uses += (Use(instance, start(call), _index(call), scope),)
        elif kind == "Hash":
            effect.hashes += (call,)
    return effect


def _operands(value: ast.Expression, scope: Scope) -> Fields:
    """The bits an ALU takes: those below no call of an extern object."""
    if isinstance(value, ast.Call) and value.kind is ast.CallKind.METHOD:
        return NO_FIELDS
    match value:
        case ast.Unary() | ast.Cast() if resolve(value, scope) is None:
            return _operands(value.operand, scope)
        case ast.Binary():
            return _operands(value.left, scope) | _operands(value.right, scope)
        case ast.Slice() if resolve(value, scope) is None:
            return _operands(value.base, scope)
        case _:
            return reads(value, scope)


def register_of(action: ast.Instance) -> ast.Instance | None:
    """The register that a RegisterAction works on."""
    for value in action.args.values():
        if isinstance(value, ast.Instance) and value.decl.name in REGISTERS:
            return value
    return None


def register_inputs(action: ast.Instance, scope: Scope) -> Fields:
    """The fields that the body of a RegisterAction reads, seen from where it is declared."""
    owner = scope.of(action.owner)
    if owner is None:
        return NO_FIELDS
    return union(
        place.fields() for method in action.methods.values() for _, place in free_places(method, owner)
    )


def free_places(method: ast.FunctionDecl, scope: Scope) -> list[tuple[ast.Expression, Place]]:
    """The outermost expressions in a method that name something declared outside it."""
    own: set[ast.Node] = set(method.params)
    own.update(one for one in ast.walk(method.body) if isinstance(one, ast.VarDecl))
    found: list[tuple[ast.Expression, Place]] = []

    def visit(node: object) -> None:
        for child in _parts(node):
            if isinstance(child, ast.Expression) and child.const is None:
                root = _root(child)
                if isinstance(root, ast.Name) and root.decl is not None:
                    place = resolve(child, scope) if root.decl not in own else None
                    if place is not None:
                        found.append((child, place))
                        continue
                    if root is child or root.decl in own:
                        continue
            visit(child)

    visit(method.body)
    return found


def _parts(node: object) -> Iterator[object]:
    if isinstance(node, list | tuple):
        yield from node
    elif isinstance(node, ast.Node):
        for name in type(node).__dataclass_fields__:
            if name in ("pos", "decl", "const", "type", "bound", "type_ref", "annotations", "params"):
                continue
            value = getattr(node, name)
            if isinstance(value, ast.Node | list | tuple):
                yield value


def _root(expression: ast.Expression) -> ast.Expression:
    while isinstance(expression, ast.Member | ast.Index | ast.Slice):
        expression = expression.base
    return expression


def _called(call: ast.Call, scope: Scope) -> ast.Instance | None:
    if call.kind is not ast.CallKind.METHOD or not isinstance(call.callee, ast.Member):
        return None
    return scope.object(call.callee.base)


def _index(call: ast.Call) -> ast.Expression | None:
    for param, argument in zip(call.params, call.args, strict=False):
        if param.name == "index":
            return argument
    return None


def _inputs(call: ast.Call) -> Iterator[ast.Expression]:
    for position, argument in enumerate(call.args):
        direction = call.params[position].direction if position < len(call.params) else "in"
        if argument is not None and direction != "out":
            yield argument


def _outputs(call: ast.Call) -> Iterator[ast.Expression]:
    if call.kind is ast.CallKind.ACTION:
        return
    for position, argument in enumerate(call.args):
        direction = call.params[position].direction if position < len(call.params) else "in"
        if argument is not None and direction in ("out", "inout"):
            yield argument


def _validity(call: ast.Call, scope: Scope) -> Fields:
    if not isinstance(call.callee, ast.Member):
        return NO_FIELDS
    header = resolve(call.callee.base, scope)
    if header is None or header.data:
        return NO_FIELDS
    return Fields({f"{header.path}.{VALID}": 1})
