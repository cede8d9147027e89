"""Read the places of the reports from a language model's answer (RL for MLE agents, section 3.2 and appendix C.3).

The answer is the program with added statements `print("loaded data")`: a bare call of print with one of the seven texts
only. Only the places are used; the model's code never runs. Apart from reports, the answer must equal the program,
statement by statement, compared as trees. Such statements of the program itself are matched first.

A place is accepted if it follows a call that earns the report by the table of operations, or any call if the program
has none that earns it. Order is that of the text: an earlier call need not have run earlier, or done what the report
says. A report in dead code never arrives; one in a loop arrives once.
"""

import ast
from collections.abc import Iterator
from typing import Any

from ..base.programs import parse_program
from .calls import Place, earned
from .insert import Instrumented, first_free, instrument_at, is_docstring, parsed
from .operations import MARKERS

MOST_REPORTS = 40  # in an answer; a report may be in several branches
_ROOM = 10_000  # characters of an answer beyond twice the program's length
_WITH_DOCSTRING = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Refused(Exception):
    pass


def instrument_as(code: str, answer: str) -> Instrumented:
    """`code` with its reports where `answer` has them; `problem` says why the answer is rejected."""
    tree = parsed(code)
    if isinstance(tree, str):
        return Instrumented(None, [], tree)
    try:
        reports = _places(tree, _answer_tree(code, answer))
        _check_places(tree, reports)
    except _Refused as refused:
        return Instrumented(None, [], str(refused))
    except (RecursionError, MemoryError):
        return Instrumented(None, [], "is nested too deeply")
    return instrument_at(code, tree, reports)


def _answer_tree(code: str, answer: str) -> ast.Module:
    if len(answer) > 2 * len(code) + _ROOM:
        raise _Refused("is too long to be the program with reports")
    try:
        return parse_program(answer)
    except (SyntaxError, ValueError) as error:
        raise _Refused(f"does not parse: {type(error).__name__}") from None


def _places(tree: ast.Module, answer: ast.Module) -> list[tuple[Place, str]]:
    """The places of reports between the statements of `tree`; _Refused where the rest is a different program."""
    insertions: list[tuple[Place, str]] = []
    todo: list[tuple[ast.AST, ast.AST, int]] = [(tree, answer, 0)]
    while todo:
        mine, theirs, depth = todo.pop()
        for name, value in ast.iter_fields(mine):
            other: Any = getattr(theirs, name, None)
            if _holds_statements(value) and _holds_statements(other):
                for inserted in _between(mine, value, other, todo, depth + 1):
                    insertions.append(inserted)
                    if len(insertions) > MOST_REPORTS:
                        raise _Refused(f"has more than {MOST_REPORTS} reports")
            elif _holds(value, _parts()) and _holds(other, _parts()) and len(value) == len(other):
                todo += [(one, its, depth + 1) for one, its in zip(value, other, strict=True)]
            elif _dumped(value) != _dumped(other):
                raise _Refused(f"changes the program{_at(theirs)}")
    if not insertions:
        raise _Refused("has no reports")
    return insertions


def _between(
    holder: ast.AST, mine: list[ast.stmt], theirs: list[ast.stmt], todo: list[tuple[ast.AST, ast.AST, int]], depth: int
) -> Iterator[tuple[Place, str]]:
    """The reports in one block; compound statements to compare are added to `todo`."""
    first = 0
    if isinstance(holder, ast.Module):
        first = first_free(mine)
    elif isinstance(holder, _WITH_DOCSTRING) and is_docstring(mine[0]):
        first = 1
    at = 0
    for statement in theirs:
        marker = _report(statement)
        own = mine[at] if at < len(mine) else None
        if own is not None and type(own) is type(statement) and _matches(own, statement):
            todo.append((own, statement, depth))
            at += 1
        elif marker is None:
            raise _Refused(f"changes the program{_at(statement)}")
        elif at < first:
            raise _Refused(f"has a report before a docstring or a __future__ import{_at(statement)}")
        else:
            yield Place(mine, at, depth), marker
    if at < len(mine):
        raise _Refused(f"leaves out line {mine[at].lineno} of the program")


def _matches(own: ast.stmt, statement: ast.stmt) -> bool:
    """Whether simple statements are equal; the contents of compound ones are compared later."""
    return hasattr(own, "body") or isinstance(own, ast.Match) or ast.dump(own) == ast.dump(statement)


def _report(statement: ast.stmt) -> str | None:
    """The marker of a statement that is exactly a report, else None."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"):
        return None
    if len(call.args) != 1 or call.keywords or not isinstance(call.args[0], ast.Constant):
        return None
    return next((marker for marker in MARKERS if marker == call.args[0].value), None)


def _check_places(tree: ast.Module, reports: list[tuple[Place, str]]) -> None:
    """_Refused where a report precedes everything that could earn it."""
    ends: dict[str, list[tuple[int, int]]] = {marker: [] for marker in MARKERS}
    for each in earned(tree):
        ends[each.marker].append(_end(each.call))
    ends[MARKERS[0]] = [_end(node) for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    calls = [_end(node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for place, marker in reports:
        earning = ends[marker] or (calls if marker != MARKERS[0] else [])
        if not any(end <= place.position for end in earning):
            raise _Refused(f"reports {marker!r} before anything that earns it")


def _end(node: "ast.stmt | ast.expr") -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _parts() -> tuple[type[ast.AST], ...]:
    return (ast.ExceptHandler, ast.match_case)


def _holds(value: Any, kinds: tuple[type[ast.AST], ...]) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, kinds) for each in value)


def _holds_statements(value: Any) -> bool:
    return _holds(value, (ast.stmt,))


def _dumped(value: Any) -> Any:
    if isinstance(value, list):
        return [_dumped(each) for each in value]
    return ast.dump(value) if isinstance(value, ast.AST) else repr(value)


def _at(node: ast.AST) -> str:
    line = getattr(node, "lineno", None)
    return "" if line is None else f": line {line} of the answer"
