"""From declarations to instances: which objects exist, with which arguments, under which control-plane names.

A name in the control plane's view is the path of instances to the declaration; `@name("x")` replaces the last
part, `@name(".x")` the whole. A control or parser that an architecture's package gets is called by
its type's name; an @name of that type has no effect (as with p4c).
"""

from __future__ import annotations

from collections.abc import Iterable

from epic_p4 import ast
from epic_p4.check.fold import evaluate
from epic_p4.errors import SourceError
from epic_p4.types import ControlType, ExternType, PackageType, ParserType


class Elaborator:
    """Makes the instances of a checked program."""

    def __init__(self, program: ast.Program) -> None:
        self.program = program

    def run(self) -> None:
        """Everything declared at the top level, `main` included."""
        for node in self.program.declarations:
            if isinstance(node, ast.ActionDecl):
                name = top_name(node)
                self.program.actions[name] = ast.ActionInstance(name, node, None)
            elif isinstance(node, ast.Instantiation):
                made = self._instance(node, node.type, node.args, top_name(node), None)
                made.annotations = tuple(node.annotations)
                made.methods = node.methods
                self.program.top[node] = made
                self._note(made)
                if node.name == "main":
                    self.program.main = made
                    self.program.annotations = tuple(getattr(made.decl, "annotations", ()))

    def _evaluate(self, expression: ast.Expression, owner: ast.Instance | None) -> ast.Value:
        """A constructor argument: a constant, an instance by name, or a new nameless instance."""
        if isinstance(expression, ast.Construct):
            return self._nameless(expression, owner, None)
        if isinstance(expression, ast.Name) and isinstance(expression.decl, ast.Instantiation):
            found = self._find(expression.decl, owner)
            if found is not None:
                return found
        return evaluate(expression, owner)

    def _find(self, node: ast.Instantiation, owner: ast.Instance | None) -> ast.Instance | None:
        while owner is not None:
            if node in owner.members:
                return owner.members[node]
            owner = owner.owner
        return self.program.top.get(node)

    def _nameless(self, node: ast.Construct, owner: ast.Instance | None, name: str | None) -> ast.Instance:
        if name is None:
            decl = getattr(node.type, "decl", None)
            name = local_name(decl) if isinstance(decl, ast.Declaration) else str(node.type)
        return self._instance(node, node.type, node.args, name, owner)

    def _instance(
        self,
        node: ast.Instantiation | ast.Construct,
        type_: object,
        args: Iterable[ast.Expression | None],
        name: str,
        owner: ast.Instance | None,
    ) -> ast.Instance:
        assert isinstance(type_, ExternType | ControlType | ParserType | PackageType)
        decl = type_.decl
        assert isinstance(decl, ast.ExternDecl | ast.ControlDecl | ast.ParserDecl | ast.PackageDecl)
        made = ast.Instance(name, decl, type_, node, owner)
        for param, value in zip(_constructor_params(node, decl), args, strict=True):
            if value is not None:
                made.args[param] = self._evaluate(value, owner)
        if isinstance(decl, ast.PackageDecl):
            for one in made.args.values():
                # An architecture knows a control under its type's name, whatever the instance is called.
                if isinstance(one, ast.Instance) and isinstance(one.decl, ast.ControlDecl | ast.ParserDecl):
                    one.name = one.decl.name
                    self._inside(one)
        elif owner is not None or isinstance(decl, ast.ExternDecl):
            self._inside(made)
        return made

    def _inside(self, instance: ast.Instance) -> None:
        """What the declaration of a control or parser makes when it is instantiated."""
        decl = instance.decl
        if not isinstance(decl, ast.ControlDecl | ast.ParserDecl) or instance.members or instance.tables:
            return
        for node in decl.locals:
            name = _join(instance.name, local_name(node))
            match node:
                case ast.Instantiation():
                    made = self._instance(node, node.type, node.args, name, instance)
                    made.methods = node.methods
                    made.annotations = tuple(node.annotations)
                    instance.members[node] = made
                    self._note(made)
                case ast.ActionDecl():
                    action = ast.ActionInstance(name, node, instance)
                    instance.actions[node] = action
                    self._unique(self.program.actions, name, action, node)
                case ast.TableDecl():
                    self._table(node, name, instance)
                case _:
                    pass

    def _table(self, node: ast.TableDecl, name: str, instance: ast.Instance) -> None:
        table = ast.TableInstance(name, node, instance)
        for ref in node.actions:
            assert ref.decl is not None
            action = instance.actions.get(ref.decl) or self.program.actions[top_name(ref.decl)]
            table.actions.append(action)
        for key, found in node.properties.items():
            if isinstance(found.value, ast.Construct):
                label = next(
                    (str(one.args[0]) for one in found.annotations if one.name == "name" and one.args), None
                )
                # Such an object has no declaration whose place could prefix the name.
                own = label.removeprefix(".") if label else f"{name}.{key}"
                made = self._nameless(found.value, instance, own)
                made.annotations = tuple(found.annotations)
                table.properties[key] = made
                self._note(made)
            else:
                table.properties[key] = self._evaluate(found.value, instance)
        instance.tables[node] = table
        self._unique(self.program.tables, name, table, node)

    def _note(self, instance: ast.Instance) -> None:
        if isinstance(instance.decl, ast.ExternDecl):
            known = self.program.instances.get(instance.name)
            if known is not None and known.node is not None and instance.node is not None:
                raise SourceError(
                    instance.node.pos,
                    f"control-plane name {instance.name}: given twice, first at {known.node.pos}",
                )
        self.program.instances.setdefault(instance.name, instance)

    def _unique(
        self,
        names: dict[str, ast.ActionInstance] | dict[str, ast.TableInstance],
        name: str,
        one: object,
        node: ast.Node,
    ) -> None:
        known = names.get(name)
        if known is not None:
            raise SourceError(node.pos, f"control-plane name {name}: given twice, first at {known.decl.pos}")
        names[name] = one  # type: ignore[assignment]  # both maps are of the class of `one`


def _constructor_params(node: ast.Instantiation | ast.Construct, decl: ast.Node) -> list[str]:
    if isinstance(node, ast.Instantiation):
        return [param.name for param in node.params]
    chosen = node.decl
    if isinstance(chosen, ast.ControlDecl | ast.ParserDecl):
        return [param.name for param in chosen.constructor_params]
    assert isinstance(chosen, ast.ExternFunction | ast.PackageDecl)
    del decl
    return [param.name for param in chosen.params]


def local_name(node: ast.Declaration) -> str:
    """The declaration's own part of its control-plane name: its @name, or its name."""
    annotation = node.annotation("name")
    if annotation is None:
        return node.name
    if len(annotation.args) != 1 or not isinstance(annotation.args[0], str) or not annotation.args[0]:
        raise SourceError(annotation.pos, f"@name of {node.name}: expected one string")
    return annotation.args[0]


def top_name(node: ast.Declaration) -> str:
    """The control-plane name of something declared at the top level."""
    return local_name(node).removeprefix(".")


def _join(prefix: str, name: str) -> str:
    return name[1:] if name.startswith(".") else f"{prefix}.{name}"
