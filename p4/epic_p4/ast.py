"""The syntax tree of P4-16, and the checked `Program`.

The parser makes the nodes, `check` fills the slots that are not constructor arguments (`type`, `decl`, …)
and rewrites expressions in place. How to walk a checked program:

* `Program.main` is the package instance. Its `args` hold the architecture's parsers and controls as
  `Instance`s by parameter name (`main.args["ig"]`). Lower each `Instance` of a control or parser: its
  `decl` is the ControlDecl or ParserDecl, its `args` bind the constructor parameters, and its `members`
  map every `Instantiation` node declared inside (extern objects, sub-controls, sub-parsers) to the
  Instance made for it. `tables` and `actions` map the declarations inside to their control-plane view
  (`TableInstance`, `ActionInstance`). One declaration may have several instances: key state by Instance.
* `Program.instances`, `.tables` and `.actions` are the same things by their control-plane name.
* Dispatch on the class of a node (`match node: case ast.Binary(): …`); `expression.type` is always set.
* Every expression whose value is known has it in `expression.const` (int for bit/int/serializable enum,
  bool, str, `EnumValue` for plain enum and error members, tuple for lists); look there first. What only constructor
  parameters make known has `const is None` and is had from `check.fold.evaluate(expression, instance)`.
* There are no implicit conversions left: the checker wraps them in `Cast(implicit=True)` and gives literals
  their width. Operands of arithmetic have equal types (the right one of a shift may differ).
  A list expression that initializes a struct or header has that type and becomes a `StructExpr`.
* `Name.decl` is the declaration: Param, VarDecl, ConstDecl, Instantiation, TableDecl, ActionDecl,
  ParserState, FunctionDecl, or an ExternFunction.
* `Call.kind` says what is called and `Call.decl` the declaration; `Call.args` are in the order of its
  parameters, one each (None for an omitted @optional one; defaults are filled in). For METHOD, TABLE_APPLY,
  HEADER and STACK the object is `call.callee.base`.
* `type_ref`s are syntax; read the resolved `type` of the node that has them instead.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

from epic_p4.errors import NOWHERE, Pos
from epic_p4.types import DONT_CARE, VOID, Parameter, Type, TypeVariable


@dataclass(slots=True, eq=False)
class Node:
    """Base of all nodes; nodes compare and hash by identity."""

    pos: Pos


# -- compile-time values ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EnumValue:
    """A member of an enum without representation, or of `error` (type name "error"); `index` counts from 0."""

    type_name: str
    member: str
    index: int

    def __str__(self) -> str:
        return f"{self.type_name}.{self.member}"


Value: TypeAlias = "int | bool | str | EnumValue | tuple[Value, ...] | Instance"
"""A compile-time value; structs and lists are tuples in the order of their fields."""


# -- annotations and types as written --------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Annotation(Node):
    """`@name`, `@name(body)` or `@name[body]`.

    `args` are the values when the body is a list of constant expressions (names count as strings), else
    empty; `pairs` those of a key-value body; `text` is the body's source text.
    """

    name: str
    text: str = ""
    args: tuple[int | bool | str, ...] = ()
    pairs: Mapping[str, int | bool | str] = field(default_factory=dict)
    structured: bool = False  # written with brackets


Annotations: TypeAlias = "tuple[Annotation, ...]"


@dataclass(slots=True, eq=False)
class TypeRef(Node):
    """A type as written; `type` is filled by the checker."""

    type: Type = field(default=DONT_CARE, init=False)


@dataclass(slots=True, eq=False)
class BaseTypeRef(TypeRef):
    """`bool`, `error`, `string`, `void`, `match_kind`, `int` without width, or `_`."""

    name: str


@dataclass(slots=True, eq=False)
class BitsTypeRef(TypeRef):
    """`bit<…>`, `int<…>`, `varbit<…>`."""

    name: str
    width: Expression


@dataclass(slots=True, eq=False)
class NamedTypeRef(TypeRef):
    """A type's name, with a leading dot when `dotted`."""

    name: str
    dotted: bool = False


@dataclass(slots=True, eq=False)
class SpecializedTypeRef(TypeRef):
    """`base<args>`."""

    base: NamedTypeRef
    args: list[TypeRef]


@dataclass(slots=True, eq=False)
class StackTypeRef(TypeRef):
    """`element[size]`."""

    element: TypeRef
    size: Expression


@dataclass(slots=True, eq=False)
class TupleTypeRef(TypeRef):
    """`tuple<items>`."""

    items: list[TypeRef]


# -- expressions -----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Expression(Node):
    """Base of expressions. `type` and `const` are filled by the checker."""

    type: Type = field(default=DONT_CARE, init=False)
    const: Value | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class IntLiteral(Expression):
    """An integer; `width` is None for one without, `signed` says `s` rather than `w`."""

    value: int
    width: int | None = None
    signed: bool = False


@dataclass(slots=True, eq=False)
class BoolLiteral(Expression):
    """`true` or `false`."""

    value: bool


@dataclass(slots=True, eq=False)
class StringLiteral(Expression):
    """`"…"`."""

    value: str


@dataclass(slots=True, eq=False)
class Name(Expression):
    """A name that denotes a value, function, table, … (`.name` when `dotted`)."""

    name: str
    dotted: bool = False
    decl: Node | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class TypeName(Expression):
    """A type where an expression may stand: `error` in `error.X`, an enum's name, a control's in `C.apply()`."""

    type_ref: TypeRef


class MemberKind(enum.Enum):
    """What `base.name` is."""

    FIELD = "field"  # of a header or struct
    ENUM = "enum"  # member of an enum or error: const is set
    STACK_NEXT = "next"  # stack.next: parser only
    STACK_LAST = "last"  # stack.last: parser only
    STACK_LAST_INDEX = "lastIndex"
    STACK_SIZE = "size"  # const is set
    METHOD = "method"  # only as the callee of a Call
    HIT = "hit"  # of table.apply()
    MISS = "miss"
    ACTION_RUN = "action_run"


@dataclass(slots=True, eq=False)
class Member(Expression):
    """`base.name`."""

    base: Expression
    name: str
    name_pos: Pos = NOWHERE  # of the name; `pos` is that of the base
    kind: MemberKind = field(default=MemberKind.FIELD, init=False)


@dataclass(slots=True, eq=False)
class Index(Expression):
    """`base[index]`: an element of a header stack or tuple."""

    base: Expression
    index: Expression


@dataclass(slots=True, eq=False)
class Slice(Expression):
    """`base[high:low]`; after the check `hi` and `lo` hold the bit numbers."""

    base: Expression
    high: Expression
    low: Expression
    hi: int = field(default=0, init=False)
    lo: int = field(default=0, init=False)


@dataclass(slots=True, eq=False)
class Unary(Expression):
    """`op operand`; op is one of `! ~ - +` (`+` is dropped by the checker)."""

    op: str
    operand: Expression


@dataclass(slots=True, eq=False)
class Binary(Expression):
    """`left op right`: `* / % + - |+| |-| << >> < > <= >= == != & ^ | ++ && ||`."""

    op: str
    left: Expression
    right: Expression


@dataclass(slots=True, eq=False)
class Ternary(Expression):
    """`condition ? yes : no`."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(slots=True, eq=False)
class Cast(Expression):
    """`(type_ref) operand`; the target is `type`. `implicit` ones are made by the checker."""

    type_ref: TypeRef | None
    operand: Expression
    implicit: bool = False


class CallKind(enum.Enum):
    """What a Call calls."""

    ACTION = "action"
    FUNCTION = "function"  # FunctionDecl
    EXTERN_FUNCTION = "extern function"  # ExternFunction without object
    METHOD = "method"  # ExternFunction of the extern object callee.base
    TABLE_APPLY = "table apply"
    CONTROL_APPLY = "control apply"  # callee.base names an Instantiation or constructor Param
    PARSER_APPLY = "parser apply"
    HEADER = "header"  # isValid, setValid, setInvalid
    STACK = "stack"  # push_front, pop_front: args[0].const is the count
    SIZE = "size"  # minSizeInBits, …: const is set
    CONSTRUCTOR = "constructor"  # compile time: a nameless instance


@dataclass(slots=True, eq=False)
class Call(Expression):
    """`callee<type_args>(args)`.

    `arg_names` are the names of `name = value` arguments as written. After the check: `kind`, `decl`,
    `args` in the order of the parameters; `params` the parameters with type arguments put in;
    `bound` the type arguments by name, given or inferred; `type` the result's.
    """

    callee: Expression
    type_args: list[TypeRef]
    args: list[Expression | None]
    arg_names: list[str | None]
    kind: CallKind = field(default=CallKind.FUNCTION, init=False)
    decl: Node | None = field(default=None, init=False)
    params: tuple[Parameter, ...] = field(default=(), init=False)
    bound: Mapping[str, Type] = field(default_factory=dict, init=False)


@dataclass(slots=True, eq=False)
class Construct(Expression):
    """`Type(args)`, a nameless instance: an argument of a constructor or the value of a table property."""

    type_ref: TypeRef
    args: list[Expression | None]
    arg_names: list[str | None]
    decl: Node | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class ListExpr(Expression):
    """`{a, b}`: a tuple. `dots`: it ends with `...`, the defaults of what is left; none after the check has `dots`."""

    items: list[Expression]
    dots: bool = False


@dataclass(slots=True, eq=False)
class StructExpr(Expression):
    """`{a = 1, b = 2}`; after the check `type` is a struct, header or record, one entry a field, in order.

    `dots` as in ListExpr.
    """

    items: list[tuple[str, Expression]]
    type_ref: TypeRef | None = None
    dots: bool = False


@dataclass(slots=True, eq=False)
class DefaultValue(Expression):
    """What `...` stands for (section 8.26): 0, false, the first name of an enum, `error.NoError`, an invalid header.

    Only the check makes it.
    """


@dataclass(slots=True, eq=False)
class MaskExpr(Expression):
    """`value &&& mask`: a set."""

    value: Expression
    mask: Expression


@dataclass(slots=True, eq=False)
class RangeExpr(Expression):
    """`low .. high`, both included: a set."""

    low: Expression
    high: Expression


@dataclass(slots=True, eq=False)
class DefaultExpr(Expression):
    """`default` or `_`: the set of everything."""


# -- statements ------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Statement(Node):
    """Base of statements and of declarations among them."""


@dataclass(slots=True, eq=False)
class Block(Statement):
    """`{ … }`; declarations inside end with it."""

    statements: list[Statement]
    annotations: Annotations = ()


@dataclass(slots=True, eq=False)
class Assign(Statement):
    """`target = value;` — target is a Name, Member, Index or Slice of such."""

    target: Expression
    value: Expression


@dataclass(slots=True, eq=False)
class CallStatement(Statement):
    """A call whose result is not used."""

    call: Call


@dataclass(slots=True, eq=False)
class If(Statement):
    """`if (condition) yes else no`."""

    condition: Expression
    yes: Statement
    no: Statement | None = None


@dataclass(slots=True, eq=False)
class SwitchCase(Node):
    """Labels of one body; `body` None falls through to the next case.

    Of a switch over `action_run` the labels are Names whose `decl` is the ActionDecl; otherwise
    constants of the subject's type. DefaultExpr is the default.
    """

    labels: list[Expression]
    body: Block | None


@dataclass(slots=True, eq=False)
class Switch(Statement):
    """`switch (subject) { … }`; over actions when `subject.type` is an ActionRunType."""

    subject: Expression
    cases: list[SwitchCase]


@dataclass(slots=True, eq=False)
class Exit(Statement):
    """`exit;`"""


@dataclass(slots=True, eq=False)
class Return(Statement):
    """`return;` or `return value;`"""

    value: Expression | None = None


@dataclass(slots=True, eq=False)
class Empty(Statement):
    """`;`"""


# -- declarations ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Declaration(Statement):
    """Base of declarations; `name` is the name in the source."""

    name: str
    annotations: Annotations = field(default=(), kw_only=True)

    def annotation(self, name: str) -> Annotation | None:
        """The first annotation of this name, or None."""
        return next((one for one in self.annotations if one.name == name), None)


@dataclass(slots=True, eq=False)
class Param(Declaration):
    """A parameter of anything; `direction` is "in", "out", "inout" or "" (none)."""

    direction: str
    type_ref: TypeRef
    default: Expression | None = None
    type: Type = field(default=DONT_CARE, init=False)

    @property
    def optional(self) -> bool:
        """Whether it is @optional."""
        return self.annotation("optional") is not None


@dataclass(slots=True, eq=False)
class ConstDecl(Declaration):
    """`const type name = value;`; `value.const` is the value, None if it depends on constructor parameters."""

    type_ref: TypeRef
    value: Expression
    type: Type = field(default=DONT_CARE, init=False)


@dataclass(slots=True, eq=False)
class VarDecl(Declaration):
    """`type name = value;`; without value the variable is undefined, headers are invalid."""

    type_ref: TypeRef
    value: Expression | None = None
    type: Type = field(default=DONT_CARE, init=False)


@dataclass(slots=True, eq=False)
class Instantiation(Declaration):
    """`type(args) name = { methods };` — of an extern, control, parser or package.

    `methods` are the implementations of abstract methods, by name.
    """

    type_ref: TypeRef
    args: list[Expression | None]
    arg_names: list[str | None]
    methods: dict[str, FunctionDecl] = field(default_factory=dict)
    type: Type = field(default=DONT_CARE, init=False)
    params: tuple[Parameter, ...] = field(default=(), init=False)


@dataclass(slots=True, eq=False)
class FieldDecl(Declaration):
    """A field of a header or struct."""

    type_ref: TypeRef


@dataclass(slots=True, eq=False)
class TypeDeclaration(Declaration):
    """Base of what declares a type; `type` is filled by the checker."""

    type: Type = field(default=DONT_CARE, init=False)


@dataclass(slots=True, eq=False)
class HeaderDecl(TypeDeclaration):
    """`header name { … }`."""

    fields: list[FieldDecl]


@dataclass(slots=True, eq=False)
class StructDecl(TypeDeclaration):
    """`struct name { … }`."""

    fields: list[FieldDecl]


@dataclass(slots=True, eq=False)
class EnumDecl(TypeDeclaration):
    """`enum name {a, b}` or `enum bit<8> name {a = 1, b = 2}`."""

    underlying: TypeRef | None
    members: list[tuple[Pos, str, Expression | None]]


@dataclass(slots=True, eq=False)
class TypedefDecl(TypeDeclaration):
    """`typedef type name;`"""

    type_ref: TypeRef


@dataclass(slots=True, eq=False)
class NewTypeDecl(TypeDeclaration):
    """`type type_ref name;`"""

    type_ref: TypeRef


@dataclass(slots=True, eq=False)
class ErrorDecl(Declaration):
    """`error { a, b }`; name is "error"."""

    members: list[tuple[Pos, str]]


@dataclass(slots=True, eq=False)
class MatchKindDecl(Declaration):
    """`match_kind { a, b }`; name is "match_kind"."""

    members: list[tuple[Pos, str]]


@dataclass(slots=True, eq=False)
class ExternFunction(Declaration):
    """An extern function, or a method or constructor (name of the extern) of an ExternDecl."""

    type_params: list[str]
    params: list[Param]
    result_ref: TypeRef
    abstract: bool = False
    result: Type = field(default=VOID, init=False)
    extern: ExternDecl | None = field(default=None, init=False)
    variables: dict[str, TypeVariable] = field(default_factory=dict, init=False)  # by type parameter


@dataclass(slots=True, eq=False)
class ExternDecl(TypeDeclaration):
    """`extern name<type_params> { … }`."""

    type_params: list[str]
    methods: list[ExternFunction]
    constructors: list[ExternFunction]


@dataclass(slots=True, eq=False)
class FunctionDecl(Declaration):
    """A function with body; also the implementation of an abstract method."""

    type_params: list[str]
    params: list[Param]
    result_ref: TypeRef
    body: Block
    result: Type = field(default=VOID, init=False)


@dataclass(slots=True, eq=False)
class ActionDecl(Declaration):
    """An action: directionless parameters come from the control plane and stand last."""

    params: list[Param]
    body: Block

    @property
    def data_params(self) -> list[Param]:
        """The parameters that the control plane gives."""
        return [param for param in self.params if not param.direction]


@dataclass(slots=True, eq=False)
class ControlTypeDecl(TypeDeclaration):
    """`control name<type_params>(params);`"""

    type_params: list[str]
    params: list[Param]


@dataclass(slots=True, eq=False)
class ParserTypeDecl(TypeDeclaration):
    """`parser name<type_params>(params);`"""

    type_params: list[str]
    params: list[Param]


@dataclass(slots=True, eq=False)
class PackageDecl(TypeDeclaration):
    """`package name<type_params>(params);`"""

    type_params: list[str]
    params: list[Param]


@dataclass(slots=True, eq=False)
class ControlDecl(TypeDeclaration):
    """A control. `locals` are ConstDecl, VarDecl, Instantiation, ActionDecl, TableDecl in order.

    VarDecls are initialized at each apply, in order.
    """

    params: list[Param]
    constructor_params: list[Param]
    locals: list[Declaration]
    body: Block


@dataclass(slots=True, eq=False)
class ParserDecl(TypeDeclaration):
    """A parser. `states` by name; execution starts at "start"; "accept" and "reject" are not in it."""

    params: list[Param]
    constructor_params: list[Param]
    locals: list[Declaration]
    states: dict[str, ParserState]


@dataclass(slots=True, eq=False)
class StateRef(Node):
    """A transition's target; `state` is None for accept and reject (then `name` says which)."""

    name: str
    state: ParserState | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class SelectCase(Node):
    """One case of a select: as many key sets as the select has expressions.

    A key set is a constant, MaskExpr, RangeExpr, DefaultExpr, or another expression to compare with.
    """

    keys: list[Expression]
    target: StateRef


@dataclass(slots=True, eq=False)
class Select(Node):
    """`select (subjects) { cases }`: first match wins; none is error.NoMatch and reject."""

    subjects: list[Expression]
    cases: list[SelectCase]


@dataclass(slots=True, eq=False)
class ParserState(Declaration):
    """A state; `transition` is StateRef (reject when the source has none) or Select."""

    statements: list[Statement]
    transition: StateRef | Select


@dataclass(slots=True, eq=False)
class KeyElement(Node):
    """`expression : match_kind` in a table's key; `name` is its control-plane name, filled by the checker."""

    expression: Expression
    match_kind: str
    annotations: Annotations = ()
    name: str = field(default="", init=False)


@dataclass(slots=True, eq=False)
class ActionRef(Node):
    """An action as named by a table.

    `args` are the arguments given in the source: of the list of actions those of the directional
    parameters; of an entry or default action all (filled by the checker: one a parameter of the action).
    """

    name: str
    args: list[Expression]
    annotations: Annotations = ()
    dotted: bool = False
    called: bool = False
    decl: ActionDecl | None = field(default=None, init=False)

    @property
    def default_only(self) -> bool:
        """@defaultonly: no entry may use it."""
        return any(one.name == "defaultonly" for one in self.annotations)

    @property
    def table_only(self) -> bool:
        """@tableonly: the default action may not use it."""
        return any(one.name == "tableonly" for one in self.annotations)


@dataclass(slots=True, eq=False)
class TableEntry(Node):
    """An entry in the source: one key set per key element; `priority` as written, or None."""

    keys: list[Expression]
    action: ActionRef
    annotations: Annotations = ()
    priority: Expression | None = None
    const: bool = False


@dataclass(slots=True, eq=False)
class TableProperty(Node):
    """Another property (`implementation`, `counters`, `registers`, …); `value` may be a Construct."""

    name: str
    value: Expression
    const: bool = False
    annotations: Annotations = ()


@dataclass(slots=True, eq=False)
class TableDecl(Declaration):
    """A table. `actions` holds every action of the list; `default_action` is NoAction() when not given.

    `entries` come from `const entries` (then `const_entries`) or `entries`; the first that matches wins in
    const entries without priorities. `size` is None when not given.
    """

    key: list[KeyElement]
    actions: list[ActionRef]
    default_action: ActionRef | None
    const_default: bool
    entries: list[TableEntry]
    const_entries: bool
    size_ref: Expression | None
    properties: dict[str, TableProperty]
    size: int | None = field(default=None, init=False)

    def action(self, decl: ActionDecl) -> ActionRef | None:
        """The reference of this table's list that names the action, or None."""
        return next((one for one in self.actions if one.decl is decl), None)


# -- the checked program ---------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class ActionInstance:
    """An action of one control instance (`control` None: declared at the top level)."""

    name: str
    decl: ActionDecl
    control: Instance | None


@dataclass(slots=True, eq=False)
class TableInstance:
    """A table of one control instance.

    `actions` are the actions of its list, in order. `properties` are the evaluated properties: Instances
    for `counters`, `implementation`, …
    """

    name: str
    decl: TableDecl
    control: Instance
    actions: list[ActionInstance] = field(default_factory=list)
    properties: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Instance:
    """An object made at compile time: extern, control, parser or package.

    `name` is its control-plane name; `decl` is the ExternDecl, ControlDecl, ParserDecl or PackageDecl;
    `type` the type with its arguments (`ExternType.args`). `node` is the Instantiation or Construct that
    made it. `args` are by parameter name. `methods` implement abstract methods; names free in them belong
    to `owner`, the instance (or None: top level) in which this one was declared.
    """

    name: str
    decl: ExternDecl | ControlDecl | ParserDecl | PackageDecl
    type: Type
    node: Instantiation | Construct | None
    owner: Instance | None
    args: dict[str, Value] = field(default_factory=dict)
    members: dict[Node, Instance] = field(default_factory=dict)
    tables: dict[TableDecl, TableInstance] = field(default_factory=dict)
    actions: dict[ActionDecl, ActionInstance] = field(default_factory=dict)
    methods: dict[str, FunctionDecl] = field(default_factory=dict)
    annotations: Annotations = ()

    def __repr__(self) -> str:
        return f"<Instance {self.name}: {self.type}>"


@dataclass(slots=True, eq=False)
class Program:
    """A checked program.

    `arch` is "v1model", "tna" or "" (another), told by the package of `main`. `errors` are the members
    of `error` in order. `top` holds the instances declared at the top level. `sources` are the files
    read, the main one first.
    """

    file: str
    arch: str
    declarations: list[Declaration]
    errors: tuple[str, ...]
    match_kinds: tuple[str, ...]
    types: dict[str, Type]
    main: Instance | None = None
    top: dict[Node, Instance] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    tables: dict[str, TableInstance] = field(default_factory=dict)
    actions: dict[str, ActionInstance] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    annotations: Annotations = ()  # of the main package's declaration

    def declaration(self, name: str) -> Declaration | None:
        """The top-level declaration of this name, or None."""
        return next((one for one in self.declarations if one.name == name), None)


def walk(node: object) -> list[Node]:
    """All syntax nodes below and including `node` (or a list of nodes), in source order, not through `decl`s."""
    found: list[Node] = []
    pending: list[object] = [node]
    while pending:
        one = pending.pop()
        below = _BELOW.get(type(one)) or _learned(type(one))
        pending.extend(below(one))
        if isinstance(one, Node):
            found.append(one)
    return found


_NOT_CHILDREN = frozenset(
    {"pos", "name_pos", "decl", "const", "type", "bound", "state", "extern", "result", "variables"}
)


def _learned(kind: type) -> Callable[[Any], Iterable[object]]:
    """What gives the contents of an object of this type, the last first; programs are walked often."""
    below: Callable[[Any], Iterable[object]] = _nothing
    if issubclass(kind, Node):
        names = [name for name in kind.__dataclass_fields__ if name not in _NOT_CHILDREN]
        if len(names) == 1:
            below = partial(_only, names[0])
        elif names:
            below = attrgetter(*reversed(names))
    elif issubclass(kind, list | tuple) and not issubclass(kind, Pos):
        below = reversed
    elif issubclass(kind, dict):
        below = _values
    _BELOW[kind] = below
    return below


def _nothing(one: object) -> Iterable[object]:
    return ()


def _only(name: str, one: object) -> Iterable[object]:
    return (getattr(one, name),)


def _values(one: dict[object, object]) -> Iterable[object]:
    return reversed(one.values())


_BELOW: dict[type, Callable[[Any], Iterable[object]]] = {}
