"""Every remedy that a message of the package names, found in the source.

A remedy is what is passed as ``fix`` to an error, to a result of ``check`` or to a detection, the text of a refused
command line, and what a warning says behind its first colon or semicolon. It is a template: ``…`` is what is filled in.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from support.paths import PACKAGE

HOLE: Final = "…"
_DEEPEST: Final = 8
#: Functions that take a remedy, or a text that has one, as this argument. More are found: those that pass one on.
_TAKE_ONE: Final = {"UsageError": 0, "BadParameter": 0, "fail": 0}
_WARNINGS: Final = ("log.warning", "log.error")
_Texts: TypeAlias = list[str]
#: A call, the name that it has in the source, and the function around it.
_Call: TypeAlias = tuple[ast.Call, str, ast.FunctionDef | None]


@dataclass(frozen=True, slots=True, order=True)
class SourceRemedy:
    """A remedy: the module that uses it, such as ``streaming.kafka.rights``, its template, and the lines."""

    module: str
    text: str
    lines: tuple[int, ...] = field(compare=False)

    def in_(self, printed: str) -> list[str] | None:
        """What is filled into the template where it stands in a printed text; None: it does not stand there."""
        first, *rest = self.text.split(HOLE)
        begin = printed.find(first)
        if begin < 0:
            return None
        at, filled = begin + len(first), []
        for part in rest:
            end = printed.find(part, at) if part else len(printed)
            if end < 0:
                return None
            filled.append(printed[at:end])
            at = end + len(part)
        return filled


@cache
def remedies(root: Path = PACKAGE) -> tuple[SourceRemedy, ...]:
    """All of them, in the order of the modules."""
    trees = {path.relative_to(root): ast.parse(path.read_text()) for path in sorted(root.rglob("*.py"))}
    modules = {
        ".".join(path.with_suffix("").parts): (_Scope.of(tree.body), _calls(tree))
        for path, tree in trees.items()
    }
    package = _Scope.of_all(own for own, _ in modules.values())
    takers = dict(_TAKE_ONE)
    while True:
        size, lines = len(takers), dict[tuple[str, str], list[int]]()
        for module, (own, calls) in modules.items():
            for line, text in _of_module([own, package], calls, takers):
                lines.setdefault((module, text), []).append(line)
        if len(takers) == size:
            return tuple(SourceRemedy(*key, tuple(numbers)) for key, numbers in lines.items())


def _of_module(scopes: list[_Scope], calls: list[_Call], takers: dict[str, int]) -> Iterator[tuple[int, str]]:
    """Line and template of each remedy; ``takers`` gets the functions that pass on an argument as a remedy."""
    for call, name, function in calls:
        argument = _argument(call, name, takers)
        if argument is None:
            continue
        parameters = [] if function is None else [one.arg for one in function.args.args if one.arg != "self"]
        if isinstance(argument, ast.Name) and function is not None and argument.id in parameters:
            takers.setdefault(function.name, parameters.index(argument.id))
            continue
        inner = [] if function is None else [_inside(function)]
        for text in _Reader([*inner, *scopes]).texts(argument):
            if name in _WARNINGS:
                text = "".join(re.split("[;:] ", text, maxsplit=1)[1:])  # noqa: PLW2901
            if re.search(r"[a-z]{3}", text):
                text = re.sub(f"%[.0-9]*[a-z]|{HOLE}{HOLE}+", HOLE, text)  # noqa: PLW2901
                yield call.lineno, " ".join(text.split()).removeprefix("; ")


def _calls(node: ast.AST, function: ast.FunctionDef | None = None) -> list[_Call]:
    """Every call with the name that it has in the source, if that is short, and the function around it."""
    calls: list[_Call] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            calls.append((child, _name(child.func), function))
        calls += _calls(child, child if isinstance(child, ast.FunctionDef) else function)
    return calls


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return f"{name}.{attribute}"
    return ""


def _argument(call: ast.Call, name: str, takers: dict[str, int]) -> ast.expr | None:
    """The argument of a call that has a remedy."""
    for keyword in call.keywords:
        if keyword.arg == "fix":
            return keyword.value
    if name in _WARNINGS:
        return call.args[0]
    place = takers.get(call.func.attr if isinstance(call.func, ast.Attribute) else name)
    return call.args[place] if place is not None and place < len(call.args) else None


@dataclass(frozen=True, slots=True)
class _Scope:
    """What names stand for: what is assigned to them, the rows that they run over, what a function returns."""

    values: dict[str, list[ast.expr]] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[ast.AST]) -> _Scope:
        scope = cls()
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    scope._bind(target, node.value)
            elif isinstance(node, ast.AnnAssign | ast.AugAssign) and node.value is not None:
                scope._bind(node.target, node.value)
            elif isinstance(node, ast.For | ast.comprehension):
                scope._bind(node.target, node.iter)
            elif isinstance(node, ast.FunctionDef):
                results = [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value]
                scope.values.setdefault(node.name, []).extend(results)
        return scope

    @classmethod
    def of_all(cls, scopes: Iterable[_Scope]) -> _Scope:
        """One scope with what all of these have."""
        joined = cls()
        for scope in scopes:
            for name, values in scope.values.items():
                joined.values.setdefault(name, []).extend(values)
        return joined

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.values.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple):
            is_row = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
            for place, part in enumerate(target.elts):
                self._bind(part, value.elts[place] if is_row else value)  # type: ignore[attr-defined]


@cache
def _inside(function: ast.FunctionDef) -> _Scope:
    return _Scope.of(ast.walk(function))


@dataclass(frozen=True, slots=True)
class _Reader:
    """The templates that an expression may be."""

    scopes: list[_Scope]
    depth: int = 0

    def texts(self, node: ast.expr) -> _Texts:  # noqa: C901, PLR0911, PLR0912 - a case a kind of expression
        if self.depth > _DEEPEST:
            return []
        inner = _Reader(self.scopes, self.depth + 1)
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=parts):
                return inner.joined(parts)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return inner.joined([left, right])
            case ast.FormattedValue(value=ast.Name(id=name)) if not all(
                isinstance(value, ast.Constant | ast.JoinedStr | ast.IfExp | ast.BinOp)
                or (isinstance(value, ast.Call) and self.bound(ast.unparse(value.func)))
                for value in self.bound(name)
            ):
                return []
            case ast.Name(id=name):
                return inner.each(self.bound(name))
            case ast.Dict(values=values):
                return inner.each(values)
            case ast.Tuple(elts=parts) if parts and all(
                isinstance(one, ast.Tuple | ast.Call) for one in parts
            ):
                return inner.each(parts)
            case ast.Tuple(elts=parts) | ast.Call(func=ast.Name(id="_Fault"), args=parts):
                # A row of a table has its remedy last, but for an exit code.
                return next((texts for part in reversed(parts) if (texts := inner.texts(part))), [])
            case ast.Call():
                return inner.called(node)
            case ast.Subscript(value=ast.Dict() | ast.Name() as table, slice=ast.Constant(value=key)):
                chosen = [one for one in inner.tables(table) if key in one]
                return inner.texts(chosen[0][key]) if chosen else []
            case ast.IfExp(body=body, orelse=orelse):
                return inner.each([body, orelse])
            case ast.GeneratorExp(elt=part) | ast.ListComp(elt=part):
                return inner.texts(part)
            case ast.FormattedValue(value=part) | ast.Starred(value=part) | ast.Attribute(value=part):
                return inner.texts(part)
        return []

    def each(self, nodes: Iterable[ast.expr]) -> _Texts:
        """The templates of all of them."""
        return list(dict.fromkeys(text for node in nodes for text in self.texts(node)))

    def joined(self, parts: list[ast.expr]) -> _Texts:
        """Each choice of each part."""
        texts = [""]
        for part in parts:
            texts = [text + more for text in texts for more in self.texts(part) or [HOLE]]
        return texts

    def bound(self, name: str) -> list[ast.expr]:
        """What the name stands for in the nearest scope."""
        return next((scope.values[name] for scope in self.scopes if name in scope.values), [])

    def tables(self, node: ast.expr) -> list[dict[object, ast.expr]]:
        """The tables, by key."""
        tables = self.bound(node.id) if isinstance(node, ast.Name) else [node]
        return [
            {getattr(key, "value", None): value for key, value in zip(table.keys, table.values, strict=True)}
            for table in tables
            if isinstance(table, ast.Dict)
        ]

    def called(self, call: ast.Call) -> _Texts:
        """What a call returns: of a function of the package what it returns, of another what it is called with."""
        match call:
            case ast.Call(func=ast.Attribute(attr="join", value=ast.Constant(value=separator))) if (
                separator != "\n"
            ):
                return []
            case ast.Call(func=ast.Attribute(attr="get", value=table)):
                return self.texts(table)
            case ast.Call(func=ast.Name(id=name)) if results := self.bound(name):
                return self.each(results)
        return self.each([keyword.value for keyword in call.keywords if keyword.arg == "fix"] or call.args)
