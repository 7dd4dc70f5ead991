"""Preprocessed text into the syntax tree: lark's LALR automaton with the callbacks that make the nodes."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedToken
from lark.exceptions import UnexpectedInput

from epic_p4 import ast
from epic_p4.errors import Pos, SourceError, UnsupportedError
from epic_p4.lexer import AnnotationText, P4Lexer, Scopes, Source
from epic_p4.preprocess import Preprocessed

_GRAMMAR = Path(__file__).with_name("grammar.lark")
_local = threading.local()  # a lark parser is bound to one builder, a builder to one parse at a time


def parse(text: Preprocessed) -> list[ast.Declaration]:
    """The declarations of a source text; SourceError when it is not P4, UnsupportedError outside the subset."""
    if not hasattr(_local, "builder"):
        _local.builder = _Builder()
        _local.lark = Lark(
            _GRAMMAR.read_text(encoding="utf-8"),
            parser="lalr",
            lexer=P4Lexer,
            transformer=_local.builder,
            maybe_placeholders=True,
        )
    builder: _Builder = _local.builder
    source = Source(text, Scopes())
    builder.source = source
    try:
        # lark's signature asks for a string; a custom lexer gets whatever it is.
        declarations: list[ast.Declaration] = _local.lark.parse(source)
    except UnexpectedToken as error:
        raise _syntax_error(error, source) from None
    except UnexpectedInput as error:
        raise SourceError(_end(text), f"syntax error: {type(error).__name__}") from None
    return declarations


def _end(text: Preprocessed) -> Pos:
    return text.pos(len(text.text.rstrip()))


_CLASSES = {
    "IDENTIFIER": "a name",
    "TYPE_ID": "a type's name",
    "INTEGER": "a number",
    "STRING_LITERAL": "a string",
    "ANNOTATION": "an annotation",
    "LANGLE_ARGS": "'<'",
    "RANGLE_SHIFT": "'>'",
    "$END": "the end of the file",
}
_EXPRESSION_START = {"INTEGER", "STRING_LITERAL", "TRUE", "FALSE", "TILDE", "BANG", "LPAR"}
_STATEMENT_START = {"IF", "EXIT", "RETURN", "SWITCH"}
_TYPE_START = {"BIT", "INT", "BOOL", "TUPLE", "VARBIT"}
_OPERATORS = {"*", "/", "%", "+", "-", "++", "|+|", "|-|", "<<", ">>", "<", ">", "<=", ">="}
_OPERATORS |= {"==", "!=", "&", "^", "|", "&&", "||", "?"}
_OPERATORS |= {f"{one}=" for one in _OPERATORS}
_LIKELY = {"';'", "','", "')'", "'}'", "']'", "'='"}
_SOFT = {"APPLY", "KEY", "ACTIONS", "STATE", "ENTRIES", "TYPE", "PRIORITY"}


def _syntax_error(error: UnexpectedToken, source: Source) -> SourceError:
    token = error.token
    wanted = _describe(set(error.accepts or error.expected))
    if token.type == "$END":
        return SourceError(_end(source.text), f"the text ends here, expected {wanted}")
    pos = source.text.pos(token.start_pos or 0)
    if isinstance(token.value, AnnotationText):
        return SourceError(pos, f"unexpected annotation @{token.value.name}, expected {wanted}")
    what = f"unexpected {str(token)!r}"
    if token.type == "IDENTIFIER":
        what = f"unexpected name {str(token)!r} (not a type)"
    elif token.type == "TYPE_ID":
        what = f"unexpected type name {str(token)!r}"
    return SourceError(pos, f"{what}, expected {wanted}")


def _describe(expected: set[str]) -> str:
    """What a set of terminals amounts to, in words."""
    words: list[str] = []
    for name, members in (
        ("a statement", _STATEMENT_START),
        ("an expression", _EXPRESSION_START),
        ("a type", _TYPE_START),
    ):
        if members <= expected:
            words.append(name)
            if name == "a statement":
                expected -= {"LBRACE", "SEMICOLON", "CONST", "ANNOTATION", "IDENTIFIER", "TYPE_ID", "DOT"}
                expected -= _STATEMENT_START | _TYPE_START | _SOFT | {"ERROR", "STRING", "MATCH_KIND"}
                continue
            expected -= members | {
                "LBRACE",
                "IDENTIFIER",
                "TYPE_ID",
                "DOT",
                "MINUS",
                "PLUS",
                "ERROR",
                "STRING",
            }
            expected -= _EXPRESSION_START | _TYPE_START | _SOFT | {"MATCH_KIND"}
    if "IDENTIFIER" in expected:
        expected -= _SOFT
        if "TYPE_ID" in expected:
            expected.discard("TYPE_ID")
    if {"PLUS", "STAR"} <= expected:
        expected -= {name for name in expected if _terminals().get(name) in _OPERATORS}
        expected -= {"RANGLE_SHIFT", "LANGLE_ARGS"}
        words.append("an operator")
    known = {_CLASSES.get(name) or repr(_terminals().get(name, name.lower())) for name in expected}
    words = [*sorted(known & _LIKELY), *words, *sorted(known - _LIKELY)]
    if len(words) > 8:
        words = [*words[:8], "…"]
    return " or ".join(words)


def _terminals() -> dict[str, str]:
    cached: dict[str, str] | None = getattr(_local, "terminals", None)
    if cached is None:
        cached = {
            one.name: str(one.pattern.value) for one in _local.lark.terminals if one.pattern is not None
        }
        _local.terminals = cached
    return cached


def _number(text: str) -> tuple[int, int | None, bool]:
    """Value, width and signedness of an integer literal."""
    width: int | None = None
    signed = False
    for mark in "ws":
        head, found, rest = text.partition(mark)
        if found:
            width, signed, text = int(head), mark == "s", rest
            break
    text = text.replace("_", "")
    prefix = text[:2].lower()
    base = {"0x": 16, "0b": 2, "0o": 8, "0d": 10}.get(prefix)
    return (int(text[2:], base) if base else int(text, 10)), width, signed


class _Builder(Transformer):  # type: ignore[type-arg]
    """One method a rule of grammar.lark; children as lark gives them, None for absent optional parts."""

    source: Source

    def pos(self, token: Any) -> Pos:
        """Where a token or node starts."""
        if isinstance(token, ast.Node):
            return token.pos
        return self.source.text.pos(token.start_pos)

    def start(self, c: list[Any]) -> list[ast.Declaration]:
        return c

    # -- names and annotations

    def annotations(self, c: list[Token]) -> ast.Annotations:
        return tuple(self._annotation(token) for token in c)

    def _annotation(self, token: Token) -> ast.Annotation:
        value = token.value
        assert isinstance(value, AnnotationText)
        node = ast.Annotation(self.pos(token), value.name, value.text, structured=value.structured)
        if not value.pragma:
            node.args, node.pairs = _annotation_values(value)
        return node

    def name(self, c: list[Token]) -> Token:
        return c[0]

    def new_value(self, c: list[Token]) -> Token:
        self.source.scopes.declare(str(c[0]), is_type=False)
        return c[0]

    def new_type(self, c: list[Token]) -> Token:
        self.source.scopes.declare(str(c[0]), is_type=True)
        return c[0]

    new_extern = new_type

    # -- types

    def named_type(self, c: list[Token]) -> ast.TypeRef:
        return ast.NamedTypeRef(self.pos(c[0]), str(c[0]))

    type_variable = named_type

    def dotted_type(self, c: list[Token]) -> ast.TypeRef:
        return ast.NamedTypeRef(self.pos(c[0]), str(c[0]), dotted=True)

    def specialized_type(self, c: list[Any]) -> ast.TypeRef:
        return ast.SpecializedTypeRef(c[0].pos, c[0], _only(c[1:])[0])

    def stack_type(self, c: list[Any]) -> ast.TypeRef:
        return ast.StackTypeRef(c[0].pos, c[0], c[1])

    def tuple_type(self, c: list[Any]) -> ast.TypeRef:
        return ast.TupleTypeRef(self.pos(c[0]), _only(c[1:])[0])

    def base_type(self, c: list[Token]) -> ast.TypeRef:
        if c[0] == "bit":
            return ast.BitsTypeRef(self.pos(c[0]), "bit", ast.IntLiteral(self.pos(c[0]), 1))
        return ast.BaseTypeRef(self.pos(c[0]), str(c[0]))

    void_type = base_type
    any_type = base_type

    def bits_type(self, c: list[Any]) -> ast.TypeRef:
        width = c[1]
        if isinstance(width, Token):
            width = self.integer([width])
        return ast.BitsTypeRef(self.pos(c[0]), str(c[0]), width)

    def type_args(self, c: list[Any]) -> list[ast.TypeRef]:
        return c

    def type_params(self, c: list[Any]) -> list[str]:
        return [str(token) for token in c if token.type in {"IDENTIFIER", "TYPE_ID"}]

    # -- declarations

    def const_decl(self, c: list[Any]) -> ast.Declaration:
        annotations, _, type_ref, name, value = _drop(c, "ASSIGN")
        return ast.ConstDecl(self.pos(name), str(name), type_ref, value, annotations=annotations or ())

    def variable_decl(self, c: list[Any]) -> ast.Declaration:
        annotations, type_ref, name, *value = _drop(c, "ASSIGN")
        first = value[0] if value else None
        return ast.VarDecl(self.pos(name), str(name), type_ref, first, annotations=annotations or ())

    def _member_list(self, tokens: list[Token]) -> list[tuple[Pos, str]]:
        return [(self.pos(token), str(token)) for token in tokens]

    def error_decl(self, c: list[Any]) -> ast.Declaration:
        annotations, keyword, *members = _drop(c, "LBRACE")
        return ast.ErrorDecl(
            self.pos(keyword), "error", self._member_list(members), annotations=annotations or ()
        )

    def match_kind_decl(self, c: list[Any]) -> ast.Declaration:
        annotations, keyword, *members = _drop(c, "LBRACE")
        return ast.MatchKindDecl(
            self.pos(keyword), "match_kind", self._member_list(members), annotations=annotations or ()
        )

    def _fielded(self, c: list[Any], kind: Any) -> Any:
        annotations, _, name, type_params, *fields = _drop(c, "LBRACE")
        if type_params:
            raise UnsupportedError(self.pos(name), f"type parameters of {kind} {name}")
        node = ast.HeaderDecl if kind == "header" else ast.StructDecl
        return node(self.pos(name), str(name), fields, annotations=annotations or ())

    def header_decl(self, c: list[Any]) -> Any:
        return self._fielded(c, "header")

    def struct_decl(self, c: list[Any]) -> Any:
        return self._fielded(c, "struct")

    def field(self, c: list[Any]) -> ast.FieldDecl:
        annotations, type_ref, name = _drop(c, "SEMICOLON")
        return ast.FieldDecl(self.pos(name), str(name), type_ref, annotations=annotations or ())

    def enum_decl(self, c: list[Any]) -> ast.Declaration:
        annotations, _, name, *members = _drop(c, "LBRACE")
        values: list[tuple[Pos, str, ast.Expression | None]] = [
            (self.pos(member), str(member), None) for member in members
        ]
        return ast.EnumDecl(self.pos(name), str(name), None, values, annotations=annotations or ())

    def ser_enum_decl(self, c: list[Any]) -> ast.Declaration:
        annotations, _, type_ref, name, *members = _drop(c, "LBRACE")
        return ast.EnumDecl(self.pos(name), str(name), type_ref, members, annotations=annotations or ())

    def ser_member(self, c: list[Any]) -> tuple[Pos, str, ast.Expression]:
        name, value = _drop(c, "ASSIGN")
        return self.pos(name), str(name), value

    def typedef_head(self, c: list[Any]) -> ast.TypedefDecl:
        annotations, _, type_ref, name = c
        return ast.TypedefDecl(self.pos(name), str(name), type_ref, annotations=annotations or ())

    def new_type_head(self, c: list[Any]) -> ast.NewTypeDecl:
        annotations, _, type_ref, name = c
        return ast.NewTypeDecl(self.pos(name), str(name), type_ref, annotations=annotations or ())

    def typedef_decl(self, c: list[Any]) -> Any:
        return c[0]

    new_type_decl = typedef_decl

    def params(self, c: list[Any]) -> list[ast.Param]:
        return [param for param in c if param is not None]

    def param(self, c: list[Any]) -> ast.Param:
        annotations, direction, type_ref, name, *default = _drop(c, "ASSIGN")
        return ast.Param(
            self.pos(name),
            str(name),
            direction or "",
            type_ref,
            default[0] if default else None,
            annotations=annotations or (),
        )

    def direction(self, c: list[Token]) -> str:
        return str(c[0])

    def function_head(self, c: list[Any]) -> tuple[ast.TypeRef, Token]:
        self.source.scopes.open_scope()
        return c[0], c[1]

    def function_decl(self, c: list[Any]) -> ast.Declaration:
        annotations, (result, name), type_params, params, body = _drop(c, "LPAR")
        return ast.FunctionDecl(
            self.pos(name),
            str(name),
            type_params or [],
            params,
            result,
            body,
            annotations=annotations or (),
        )

    def _prototype(self, c: list[Any], abstract: bool = False) -> ast.ExternFunction:
        annotations, (result, name), type_params, params = c
        return ast.ExternFunction(
            self.pos(name),
            str(name),
            type_params or [],
            params,
            result,
            abstract,
            annotations=annotations or (),
        )

    def extern_function(self, c: list[Any]) -> ast.Declaration:
        annotations, _, *rest = _drop(c, "LPAR", "SEMICOLON")
        return self._prototype([annotations, *rest])

    def method(self, c: list[Any]) -> ast.Declaration:
        return self._prototype(_drop(c, "LPAR", "SEMICOLON"))

    def abstract_method(self, c: list[Any]) -> ast.Declaration:
        annotations, _, *rest = _drop(c, "LPAR", "SEMICOLON")
        return self._prototype([annotations, *rest], abstract=True)

    def constructor_head(self, c: list[Token]) -> Token:
        self.source.scopes.open_scope()
        return c[0]

    def constructor(self, c: list[Any]) -> tuple[str, ast.ExternFunction]:
        annotations, name, params = _drop(c, "LPAR", "SEMICOLON")
        pos = self.pos(name)
        void = ast.BaseTypeRef(pos, "void")
        node = ast.ExternFunction(pos, str(name), [], params, void, annotations=annotations or ())
        return "constructor", node

    def extern_head(self, c: list[Any]) -> tuple[ast.Annotations, Token]:
        self.source.scopes.open_scope()
        return c[0] or (), c[2]

    def extern_decl(self, c: list[Any]) -> ast.Declaration:
        (annotations, name), type_params, *methods = _drop(c, "LBRACE")
        constructors = [one[1] for one in methods if isinstance(one, tuple)]
        for one in constructors:
            if one.name != name:
                raise SourceError(
                    one.pos, f"constructor {one.name}: expected the extern's name {name}, or a result type"
                )
        plain = [one for one in methods if not isinstance(one, tuple)]
        for one in plain:
            if one.name == name:
                raise SourceError(one.pos, f"constructor {name}: has a result type, expected none")
        pos = self.pos(name)
        return ast.ExternDecl(pos, str(name), type_params or [], plain, constructors, annotations=annotations)

    def action_head(self, c: list[Any]) -> tuple[ast.Annotations, Token]:
        self.source.scopes.open_scope()
        return c[0] or (), c[2]

    control_head = action_head
    parser_head = action_head
    package_head = action_head

    def action_decl(self, c: list[Any]) -> ast.Declaration:
        (annotations, name), params, body = _drop(c, "LPAR")
        return ast.ActionDecl(self.pos(name), str(name), params, body, annotations=annotations)

    def control_type(self, c: list[Any]) -> ast.Declaration:
        (annotations, name), type_params, params = _drop(c, "LPAR", "SEMICOLON")
        return ast.ControlTypeDecl(
            self.pos(name), str(name), type_params or [], params, annotations=annotations
        )

    def parser_type(self, c: list[Any]) -> ast.Declaration:
        (annotations, name), type_params, params = _drop(c, "LPAR", "SEMICOLON")
        return ast.ParserTypeDecl(
            self.pos(name), str(name), type_params or [], params, annotations=annotations
        )

    def control_decl(self, c: list[Any]) -> ast.Declaration:
        (annotations, name), type_params, params, ctor, *parts = _drop(c, "LPAR", "LBRACE", "APPLY")
        if type_params:
            raise UnsupportedError(self.pos(name), f"type parameters of control {name}")
        *local, body = parts
        return ast.ControlDecl(
            self.pos(name), str(name), params, ctor or [], local, body, annotations=annotations
        )

    def parser_decl(self, c: list[Any]) -> ast.Declaration:
        (annotations, name), type_params, params, ctor, *parts = _drop(c, "LPAR", "LBRACE")
        if type_params:
            raise UnsupportedError(self.pos(name), f"type parameters of parser {name}")
        local = [one for one in parts if not isinstance(one, ast.ParserState)]
        states: dict[str, ast.ParserState] = {}
        for one in parts:
            if isinstance(one, ast.ParserState):
                if one.name in states:
                    raise SourceError(
                        one.pos,
                        f"state {one.name}: declared twice in parser {name}, first at {states[one.name].pos}",
                    )
                states[one.name] = one
        return ast.ParserDecl(
            self.pos(name), str(name), params, ctor or [], local, states, annotations=annotations
        )

    def state(self, c: list[Any]) -> ast.Declaration:
        annotations, _, name, *parts = _drop(c, "LBRACE")
        *statements, transition = parts
        pos = self.pos(name)
        if transition is None:
            transition = ast.StateRef(pos, "reject")
        return ast.ParserState(pos, str(name), statements, transition, annotations=annotations or ())

    def transition(self, c: list[Any]) -> ast.StateRef:
        return ast.StateRef(self.pos(c[1]), str(c[1]))

    def select(self, c: list[Any]) -> ast.Select:
        parts = _drop(c, "LPAR", "LBRACE")[2:]
        cases = [one for one in parts if isinstance(one, ast.SelectCase)]
        return ast.Select(self.pos(c[1]), parts[: len(parts) - len(cases)], cases)

    def select_case(self, c: list[Any]) -> ast.SelectCase:
        keys, name = _drop(c, "SEMICOLON")
        return ast.SelectCase(keys[0].pos, keys, ast.StateRef(self.pos(name), str(name)))

    def package_decl(self, c: list[Any]) -> ast.Declaration:
        (annotations, name), type_params, params = _drop(c, "LPAR", "SEMICOLON")
        return ast.PackageDecl(self.pos(name), str(name), type_params or [], params, annotations=annotations)

    def instantiation(self, c: list[Any]) -> ast.Declaration:
        annotations, type_ref, (args, names), name, *body = _drop(c, "LPAR", "ASSIGN", "SEMICOLON")
        methods: dict[str, ast.FunctionDecl] = {}
        for method in body[0] if body and body[0] else []:
            if not isinstance(method, ast.FunctionDecl):
                raise UnsupportedError(method.pos, "instantiation inside an object initializer")
            if method.name in methods:
                raise SourceError(method.pos, f"method {method.name}: implemented twice in {name}")
            methods[method.name] = method
        return ast.Instantiation(
            self.pos(name), str(name), type_ref, args, names, methods, annotations=annotations or ()
        )

    def object_body(self, c: list[Any]) -> list[Any]:
        return _drop(c, "LBRACE")

    # -- tables

    def table_decl(self, c: list[Any]) -> ast.Declaration:
        annotations, _, name, *properties = _drop(c, "LBRACE")
        return _table(self.pos(name), str(name), annotations or (), properties)

    def key_property(self, c: list[Any]) -> tuple[Any, ...]:
        keyword, *elements = _drop(c, "ASSIGN", "LBRACE")
        return "key", self.pos(keyword), elements

    def key_element(self, c: list[Any]) -> ast.KeyElement:
        expression, kind, annotations = _drop(c, "SEMICOLON")
        return ast.KeyElement(expression.pos, expression, str(kind), annotations or ())

    def actions_property(self, c: list[Any]) -> tuple[Any, ...]:
        keyword, *refs = _drop(c, "ASSIGN", "LBRACE", "SEMICOLON")
        return "actions", self.pos(keyword), refs

    def action_ref(self, c: list[Any]) -> ast.ActionRef:
        annotations, path, *args = _drop(c, "LPAR")
        found = args[0][0] if args else []
        if args and any(args[0][1]):
            raise UnsupportedError(path.pos, "named arguments of an action in a table")
        return ast.ActionRef(path.pos, path.name, found, annotations or (), path.dotted, bool(args))

    def entries_property(self, c: list[Any]) -> tuple[Any, ...]:
        _, const, keyword, *entries = _drop(c, "ASSIGN", "LBRACE")
        return "entries", self.pos(keyword), entries, const is not None

    def entry(self, c: list[Any]) -> ast.TableEntry:
        const, *rest = [one for one in c if not _is_token(one, "PRIORITY", "ASSIGN", "SEMICOLON")]
        priority = rest.pop(0) if isinstance(rest[0], ast.Expression) else None
        keys, action, annotations = rest
        node = ast.TableEntry(keys[0].pos, keys, action, annotations or (), priority)
        node.const = const is not None
        return node

    def property(self, c: list[Any]) -> tuple[Any, ...]:
        annotations, const, name, value = _drop(c, "ASSIGN", "SEMICOLON")
        node = ast.TableProperty(self.pos(name), str(name), value, const is not None, annotations or ())
        return "property", node.pos, node

    def property_name(self, c: list[Token]) -> Token:
        return c[0]

    def keyset(self, c: list[Any]) -> list[ast.Expression]:
        return _drop(c, "LPAR")

    keysets = keyset

    def priority_value(self, c: list[Any]) -> Any:
        return _drop(c, "LPAR")[0]

    def mask_set(self, c: list[Any]) -> ast.Expression:
        return ast.MaskExpr(c[0].pos, c[0], c[1])

    def range_set(self, c: list[Any]) -> ast.Expression:
        return ast.RangeExpr(c[0].pos, c[0], c[1])

    def default_set(self, c: list[Token]) -> ast.Expression:
        return ast.DefaultExpr(self.pos(c[0]))

    default_label = default_set

    # -- statements

    def block(self, c: list[Any]) -> ast.Block:
        annotations, brace, *statements = c
        return ast.Block(self.pos(brace), statements, annotations or ())

    def assign(self, c: list[Any]) -> ast.Statement:
        target, value = _drop(c, "ASSIGN", "SEMICOLON")
        return ast.Assign(target.pos, target, value)

    def assign_op(self, c: list[Token]) -> Token:
        return c[0]

    def compound_assign(self, c: list[Any]) -> ast.Statement:
        target, op, value = _drop(c, "SEMICOLON")
        if any(isinstance(node, ast.Call) for node in ast.walk(target)):
            raise UnsupportedError(self.pos(op), f"{op} to an l-value with a call in it")
        reading = copy.deepcopy(target)
        return ast.Assign(target.pos, target, ast.Binary(target.pos, str(op)[:-1], reading, value))

    def call_statement(self, c: list[Any]) -> ast.Statement:
        call = c[0]
        if not isinstance(call, ast.Call):
            raise SourceError(call.pos, "expression without effect, expected a call or an assignment")
        return ast.CallStatement(call.pos, call)

    def if_statement(self, c: list[Any]) -> ast.Statement:
        parts = _drop(c, "LPAR", "ELSE")
        keyword, condition, yes, *no = parts
        return ast.If(self.pos(keyword), condition, yes, no[0] if no else None)

    def exit(self, c: list[Any]) -> ast.Statement:
        return ast.Exit(self.pos(c[0]))

    def return_(self, c: list[Any]) -> ast.Statement:
        keyword, value = _drop(c, "SEMICOLON")
        return ast.Return(self.pos(keyword), value)

    def empty(self, c: list[Any]) -> ast.Statement:
        return ast.Empty(self.pos(c[0]))

    def switch(self, c: list[Any]) -> ast.Statement:
        keyword, subject, *cases = _drop(c, "LPAR", "LBRACE")
        grouped: list[ast.SwitchCase] = []
        labels: list[ast.Expression] = []
        for label, body in cases:
            labels.append(label)
            if body is not None:
                grouped.append(ast.SwitchCase(labels[0].pos, labels, body))
                labels = []
        if labels:
            grouped.append(ast.SwitchCase(labels[0].pos, labels, None))
        return ast.Switch(self.pos(keyword), subject, grouped)

    def switch_case(self, c: list[Any]) -> tuple[ast.Expression, ast.Block | None]:
        return c[0], c[1]

    # -- expressions

    def integer(self, c: list[Token]) -> ast.Expression:
        value, width, signed = _number(str(c[0]))
        pos = self.pos(c[0])
        if width is not None:
            low, high = (
                (-(1 << width - 1), (1 << width - 1) - 1) if signed and width else (0, (1 << width) - 1)
            )
            # The value -2**(N-1) can only be written with a unary minus.
            if not low <= value <= high + signed:
                kind = "int" if signed else "bit"
                raise SourceError(
                    pos, f"number {c[0]}: does not fit in {kind}<{width}>, expected {low} to {high}"
                )
        return ast.IntLiteral(pos, value, width, signed)

    def string(self, c: list[Token]) -> ast.Expression:
        text = str(c[0])[1:-1]
        return ast.StringLiteral(self.pos(c[0]), _unescape(text))

    def boolean(self, c: list[Token]) -> ast.Expression:
        return ast.BoolLiteral(self.pos(c[0]), str(c[0]) == "true")

    def path(self, c: list[Token]) -> ast.Name:
        return ast.Name(self.pos(c[0]), str(c[0]))

    def dotted_path(self, c: list[Token]) -> ast.Name:
        return ast.Name(self.pos(c[0]), str(c[0]), dotted=True)

    def error_name(self, c: list[Token]) -> ast.TypeRef:
        return ast.BaseTypeRef(self.pos(c[0]), "error")

    def type_member(self, c: list[Any]) -> ast.Expression:
        return ast.Member(c[0].pos, ast.TypeName(c[0].pos, c[0]), str(c[1]), self.pos(c[1]))

    def member(self, c: list[Any]) -> ast.Expression:
        return ast.Member(c[0].pos, c[0], str(c[1]), self.pos(c[1]))

    def index(self, c: list[Any]) -> ast.Expression:
        return ast.Index(c[0].pos, c[0], c[1])

    def slice(self, c: list[Any]) -> ast.Expression:
        return ast.Slice(c[0].pos, c[0], c[1], c[2])

    def call(self, c: list[Any]) -> ast.Expression:
        callee, (args, names) = _drop(c, "LPAR")
        return ast.Call(callee.pos, callee, [], args, names)

    def generic_call(self, c: list[Any]) -> ast.Expression:
        callee, type_args, (args, names) = [
            one for one in c if not _is_token(one, "LANGLE_ARGS", "RANGLE_SHIFT", "LPAR")
        ]
        return ast.Call(callee.pos, callee, type_args, args, names)

    def construct(self, c: list[Any]) -> ast.Expression:
        type_ref, (args, names) = _drop(c, "LPAR")
        return ast.Construct(type_ref.pos, type_ref, args, names)

    def arguments(self, c: list[Any]) -> tuple[list[Any], list[str | None]]:
        given = [one for one in c if one is not None]
        return [value for value, _ in given], [name for _, name in given]

    def argument(self, c: list[Any]) -> tuple[Any, None]:
        return c[0], None

    def named_argument(self, c: list[Any]) -> tuple[Any, str]:
        name, value = _drop(c, "ASSIGN")
        return value, str(name)

    def skipped_argument(self, c: list[Any]) -> tuple[Any, None]:
        raise UnsupportedError(self.pos(c[0]), "argument '_'")

    def list_expr(self, c: list[Any]) -> ast.Expression:
        items = _drop(c[1:], "DOTS")
        return ast.ListExpr(self.pos(c[0]), items, dots=len(items) < len(c) - 1)

    def struct_expr(self, c: list[Any]) -> ast.Expression:
        items = _drop(c[1:], "DOTS")
        return ast.StructExpr(self.pos(c[0]), items, dots=len(items) < len(c) - 1)

    def named_value(self, c: list[Any]) -> tuple[str, ast.Expression]:
        name, value = _drop(c, "ASSIGN")
        return str(name), value

    def ternary(self, c: list[Any]) -> ast.Expression:
        return ast.Ternary(c[0].pos, c[0], c[1], c[2])

    def binary(self, c: list[Any]) -> ast.Expression:
        left, op, right = c
        text = ">>" if isinstance(op, Token) and op.type == "RANGLE_SHIFT" else str(op)
        return ast.Binary(left.pos, text, left, right)

    def _op(self, c: list[Token]) -> Token:
        return c[0]

    order_op = _op
    equal_op = _op
    add_op = _op
    mul_op = _op
    unary_op = _op

    def unary(self, c: list[Any]) -> ast.Expression:
        return ast.Unary(self.pos(c[0]), str(c[0]), c[1])

    def cast(self, c: list[Any]) -> ast.Expression:
        parenthesis, type_ref, operand = c
        return ast.Cast(self.pos(parenthesis), type_ref, operand)


setattr(_Builder, "return", _Builder.return_)  # the rule is called as the statement is


def _is_token(one: Any, *types: str) -> bool:
    return isinstance(one, Token) and one.type in types


def _drop(children: list[Any], *types: str) -> list[Any]:
    """Children without the marks of these types, which stand in the tree only for their position."""
    return [one for one in children if not _is_token(one, *types)]


def _only(children: list[Any]) -> list[Any]:
    return [one for one in children if not isinstance(one, Token)]


def _unescape(text: str) -> str:
    for escape, meaning in (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'), ("\\\\", "\\")):
        text = text.replace(escape, meaning)
    return text


def _annotation_values(
    value: AnnotationText,
) -> tuple[tuple[int | bool | str, ...], dict[str, int | bool | str]]:
    """Arguments and key-value pairs of a body that is a list of constants; else nothing."""
    groups: list[list[tuple[str, str]]] = [[]]
    for lexeme in value.lexemes:
        if lexeme[1] == ",":
            groups.append([])
        else:
            groups[-1].append(lexeme)
    args: list[int | bool | str] = []
    pairs: dict[str, int | bool | str] = {}
    for group in groups:
        key = None
        if len(group) > 2 and group[1][1] == "=":
            key, group = group[0][1], group[2:]
        constant = _annotation_constant(group)
        if constant is None:
            return (), {}
        if key is None:
            args.append(constant)
        else:
            pairs[key] = constant
    return tuple(args), pairs


def _annotation_constant(group: list[tuple[str, str]]) -> int | bool | str | None:
    sign = 1
    if len(group) == 2 and group[0][1] == "-":
        sign, group = -1, group[1:]
    if group and all(kind == "string" for kind, _ in group):
        return "".join(_unescape(text[1:-1]) for _, text in group)
    if len(group) != 1:
        return None
    kind, text = group[0]
    if kind == "integer":
        return sign * _number(text)[0]
    if kind == "word":
        return {"true": True, "false": False}.get(text, text)
    return None


def _table(pos: Pos, name: str, annotations: ast.Annotations, parts: list[Any]) -> ast.TableDecl:
    """A table from its properties, each of which may stand once."""
    table = ast.TableDecl(pos, name, [], [], None, False, [], False, None, {}, annotations=annotations)
    seen: dict[str, Pos] = {}
    for kind, where, *values in parts:
        label = values[0].name if kind == "property" else kind
        if label in seen:
            raise SourceError(where, f"table {name}: property {label} given twice, first at {seen[label]}")
        seen[label] = where
        if kind == "key":
            table.key = values[0]
        elif kind == "actions":
            table.actions = values[0]
        elif kind == "entries":
            table.entries, table.const_entries = values
        elif label == "default_action":
            table.default_action = _default_action(values[0])
            table.const_default = values[0].const
        elif label == "size":
            table.size_ref = values[0].value
        else:
            table.properties[label] = values[0]
    if "actions" not in seen:
        raise SourceError(pos, f"table {name}: no actions, expected actions = {{ … }}")
    return table


def _default_action(found: ast.TableProperty) -> ast.ActionRef:
    value = found.value
    name, args = (value.callee, value.args) if isinstance(value, ast.Call) else (value, [])
    if not isinstance(name, ast.Name):
        raise SourceError(value.pos, "default_action: expected an action's name or call")
    given = [one for one in args if one is not None]
    called = isinstance(value, ast.Call)
    return ast.ActionRef(value.pos, name.name, given, found.annotations, name.dotted, called)
