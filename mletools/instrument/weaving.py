"""Compiles a program with hooks around its calls; its file and line numbers are unchanged.

Part of `observer`, and like it standard library only. A hook is a method of an object among the constants of the code,
which no name refers to; it takes a number and a value, and returns the value.
"""

from __future__ import annotations

import ast
import os
import sys
import types
from typing import Any


class _Weaver(ast.NodeTransformer):
    """Adds hooks around `calls`, at `places`, after `after` and after comprehensions that contain such calls."""

    def __init__(
        self,
        sentinel: bytes,
        calls: dict[ast.AST, tuple[int, list[int]]],
        after: set[ast.AST],
        places: dict[ast.AST, list[Any]],
    ):
        self.sentinel, self.calls, self.after, self.places = sentinel, calls, after, places
        self.loops = self.woven = 0

    def _hook(self, name: str, number: int, value: ast.expr, where: ast.AST) -> ast.expr:
        hook = ast.Attribute(ast.Constant(self.sentinel), name, ast.Load())
        call = ast.Call(hook, [ast.Constant(number), value], [])
        for node in (call, hook, hook.value, call.args[0]):
            ast.copy_location(node, where)
            node.end_lineno, node.col_offset, node.end_col_offset = node.lineno, 0, 0  # as nothing of the program has
        return call

    def _noted(self, value: ast.expr, site: int, is_passed_on: bool, hook: str = "note") -> ast.expr:
        """An argument, with hooks."""
        value = self._hook("refer", site, value, value) if is_passed_on else value
        return self._hook(hook, site, value, value)

    def _statement(self, name: str, number: int, where: ast.AST) -> ast.stmt:
        value = ast.copy_location(ast.Constant(None), where)
        statement: ast.stmt = ast.Expr(self._hook(name, number, value, where))
        return ast.copy_location(statement, where)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        entry = self.calls.get(node)
        self.generic_visit(node)
        if entry is None:
            return node
        self.woven += 1
        site, passed_on = entry
        node.func = self._hook("before", site, node.func, node.func)
        for at, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred):
                argument.value = self._noted(argument.value, site, at in passed_on, "spread")
            else:
                node.args[at] = self._noted(argument, site, at in passed_on)
        for at, keyword in enumerate(node.keywords, len(node.args)):
            hook = "note" if keyword.arg else "spread"
            keyword.value = self._noted(keyword.value, site, at in passed_on, hook)
        return self._hook("after", site, node, node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        outer = self.loops
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            self.loops = 0
        loop = isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp))
        self.loops += loop
        before = self.woven
        super().generic_visit(node)
        self.loops -= loop
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp)) and self.woven > before:
            node = self._hook("loop", int(self.loops == 0), node, node)
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                setattr(node, name, self._block(statements))
        self.loops = outer
        return node

    def _block(self, statements: list[Any]) -> list[Any]:
        done: list[Any] = []
        for each in statements:
            places = self.places.get(each, [])
            done += [self._statement("place", number, each) for after, number in places if not after]
            done.append(each)
            if each in self.after:
                done.append(self._statement("loop", int(self.loops == 0), each))
            done += [self._statement("place", number, each) for after, number in places if after]
        return done


def _with_hooks(code: types.CodeType, sentinel: bytes, hooks: Any) -> types.CodeType:
    """The code with `sentinel` replaced by `hooks`."""
    constants = tuple(
        hooks if each == sentinel and isinstance(each, bytes)
        else _with_hooks(each, sentinel, hooks) if isinstance(each, types.CodeType)
        else each
        for each in code.co_consts
    )  # fmt: skip
    return code.replace(co_consts=constants)


def hook_calls(code: types.CodeType) -> dict[int, tuple[types.CodeType, frozenset[int]]]:
    """The id of each code object to it and the offsets at which it calls hooks; before Python 3.11, all offsets."""
    offsets: Any = range(len(code.co_code))
    if sys.version_info >= (3, 11):  # noqa: UP036 - an image may have 3.10
        positions = enumerate(code.co_positions())
        offsets = [2 * at for at, (_, _, column, end_column) in positions if column == 0 == end_column]
    calls = {id(code): (code, frozenset(offsets))}
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            calls |= hook_calls(each)
    return calls


def weave(
    text: bytes, script: str, calls: list[Any], loops: list[Any], places: list[Any], hooks: Any
) -> types.CodeType:
    """The program `text`, with `hooks` at its calls, loops and places (see sites.py)."""
    tree = ast.parse(text, script)
    nodes = list(ast.walk(tree))
    call_nodes = [node for node in nodes if isinstance(node, ast.Call)]
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    woven: dict[ast.AST, tuple[int, list[int]]] = {call_nodes[at]: (at, noted) for at, _, noted in calls}
    reported: dict[ast.AST, list[Any]] = {}
    for at, after, number in places:
        reported.setdefault(statements[at], []).append((after, number))
    followed: set[ast.AST] = {statements[at] for (at,) in loops}
    sentinel = b"\0hooks" + os.urandom(16)
    code = compile(_Weaver(sentinel, woven, followed, reported).visit(tree), script, "exec", dont_inherit=True)
    return _with_hooks(code, sentinel, hooks)
