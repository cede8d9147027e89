"""The calls of a program that are watched at run time, and the source of the observer.

A call is watched if its name could earn a report or is uninformative (a variable, an expression); `observer` then
judges the real objects. Words in names still distinguish losses on held-out rows from losses on training rows, and
training rows from a test file with as many rows.
"""

import ast
import builtins
import functools
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from ..base.sources import joined
from . import evidence, judging, observer, operations, weaving
from .calls import Around, Place, calls_of, is_of_training_rows, is_watched
from .compilers import compiled
from .facts import DataFacts, ObserverSettings, Sites
from .names import Names, dotted, words
from .operations import MARKERS

_MOST_SITES = 4000  # of one program; further calls are not watched
_NOT_WATCHED = frozenset(dir(builtins)) - {"map", "filter"} | {"super"}
# So that a program that changes a module changes nothing for the observer.
_COPIES = """
globals().update({
    name: types.SimpleNamespace(**vars(module)) for name, module in globals().items() if type(module) is types.ModuleType
})
"""


def sites_of(tree: ast.Module, places: Sequence[tuple[Place, str]]) -> Sites:
    """Where a program is watched, by numbers in ast.walk's order; nothing in annotations and in compiled functions.

    calls: [number of the call, flags, positions of functions passed on]. loops: [number of the statement] of each that
    contains such a call or one of the program's functions. places: [number of the statement, whether after it, marker].
    """
    names, own = Names.of(tree), _functions(tree)
    left_out = compiled(tree, names) | _annotations(tree)
    numbers = {node: at for at, node in enumerate(n for n in ast.walk(tree) if isinstance(n, ast.Call))}
    found: dict[ast.AST, list[Any]] = {}
    for call, _, around in calls_of(tree, names, strings=True):
        passed_on = _passed_on(call, names)
        if call not in left_out and (passed_on or _could_earn(call, names, own)):
            found[call] = [numbers[call], _flags(call, around, names), passed_on]
    calls = sorted(found.values())[:_MOST_SITES]
    statements = {node: at for at, node in enumerate(n for n in ast.walk(tree) if isinstance(n, ast.stmt))}
    loops = [
        [at]
        for node, at in statements.items()
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and node not in left_out
        if any(each in found or _last_name(each) in own for each in ast.walk(node) if isinstance(each, ast.Call))
    ]
    place_sites = []
    for place, marker in places:
        statement = place.body[place.at - 1] if place.at else place.body[0]
        if statement not in left_out:
            place_sites.append([statements[statement], bool(place.at), MARKERS.index(marker)])
    return {"calls": calls, "loops": loops, "places": place_sites}


def _annotations(tree: ast.Module) -> set[ast.AST]:
    """All nodes of annotations, which may be read as text."""
    values = (getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns"))
    return {node for value in values if isinstance(value, ast.expr) for node in ast.walk(value)}


def _last_name(call: ast.Call) -> str:
    return (dotted(call.func) or "").rpartition(".")[2] or getattr(call.func, "attr", "")


def tokens_of(nonce: str) -> list[str]:
    """The token of each marker; one token does not reveal the others."""
    return [f"[mle:{hashlib.sha256((nonce + marker).encode()).hexdigest()[:16]}]" for marker in MARKERS]


def observer_text(nonce: str, sites: Sites, data: DataFacts, *, waits: bool = False) -> str:
    """The module that compiles and watches a program in the sandbox; `waits` for the places, which a model has put."""
    config: ObserverSettings = {
        "tokens": tokens_of(nonce),
        "calls": sites["calls"],
        "loops": sites["loops"],
        "places": sites["places"],
        "waits": waits,
        "data": data,
        "table": _table(),
    }
    return f"{_source()}{_COPIES}\nload = loader({json.dumps(config)!r})\n"


@functools.cache
def _source() -> str:
    """The modules that run in the sandbox."""
    return "from __future__ import annotations\n" + joined(evidence, judging, weaving, observer)


@functools.cache
def _table() -> list[tuple[int, str, str]]:
    rows = []
    for row in operations.TABLE:
        calls = " ".join(each for each in row.calls.split() if "{" not in each)
        if calls and row.marker != operations.DEFINED:  # models are recognised by their classes
            rows.append((MARKERS.index(row.marker), row.when, operations.pattern(calls, apart=True)))
    return rows


def _functions(tree: ast.Module) -> set[str]:
    """The names of the program's own functions and plain classes, which are not sites: the calls in them are."""
    defined = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.bases:
            defined.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            defined.update(name for name in map(dotted, node.targets) if name)
    return defined


def _could_earn(call: ast.Call, names: Names, own: set[str]) -> bool:
    func = call.func
    if isinstance(func, ast.Name):
        if func.id in names.imports:
            return _in_table(call, names)
        return func.id not in own and func.id not in _NOT_WATCHED
    if not isinstance(func, ast.Attribute):
        return True
    if func.attr in operations.last_names() or any(operations.matches([func.attr], each) for each in _loads()):
        return True
    root = dotted(func.value)
    if root == "self":
        return func.attr not in own
    return func.attr[:1].isupper() or _in_table(call, names)


def _in_table(call: ast.Call, names: Names) -> bool:
    called = names.of_call(call)
    return any(operations.matches(called, row.calls) for row in operations.TABLE)


@functools.cache
def _loads() -> list[str]:
    """The names of functions that load data, without their libraries."""
    rows = [row for row in operations.TABLE if row.marker == operations.LOADED]
    last = {call.rpartition(".")[2] for row in rows for call in row.calls.split()}
    return [" ".join(sorted(last - {"*"}))]


def _passed_on(call: ast.Call, names: Names) -> list[int]:
    """The positions of arguments that name a function of the table, which the callee may call."""
    positions = []
    for at, value in enumerate([*call.args, *(keyword.value for keyword in call.keywords)]):
        if isinstance(value, (ast.Name, ast.Attribute)):
            attr = value.attr if isinstance(value, ast.Attribute) else ""
            in_table = _in_table(ast.Call(value, [], []), names) and dotted(value) not in names.results
            if attr in operations.last_names() or in_table:
                positions.append(at)
    return positions


def _flags(call: ast.Call, around: Around, names: Names) -> int:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    argument_words = words(*values)
    flags = observer.HELD_OUT if around.no_gradient or argument_words & operations.HELD_OUT_WORDS else 0
    if is_of_training_rows(values, argument_words, names, around.loops | around.function):
        flags |= observer.NOT_TEST
    if is_watched(call):
        flags |= observer.WATCHED
    if operations.matches(names.of_call(call), operations.LOSSES):
        flags |= observer.LOSS
    return flags
