"""Insert the seven progress reports into a program by its syntax tree.

A call that does one of the operations is wrapped where it stands: `f(x)` becomes `report("loaded data", f(x))`, whose
value is that of `f(x)` and which reports after the call returned. Characters are inserted on lines that exist, so
tracebacks keep their line numbers (one line is added where a program begins with a compound statement).
"""

import ast
from dataclasses import dataclass

from .operations import MARKERS, operation_of

# Reports go to descriptor 1 itself, in one write: sys.stdout may be redirected or closed by the program, and a report
# must neither fail nor repeat (a fit in a loop would flood the output).
_HELPER = "exec({source!r})"
_HELPER_SOURCE = """\
def {name}(what, value=None, _seen=set(), _write=__import__('os').write):
    if what not in _seen:
        _seen.add(what)
        try:
            _write(1, ('\\n{nonce} ' + what + '\\n').encode())
        except OSError:
            pass
    return value
"""


@dataclass(frozen=True)
class Instrumented:
    """code: the program with its reports, or None; markers: the reports inserted; problem: why there are none."""

    code: str | None
    markers: list[str]
    problem: str | None


def make_nonce(seed: int) -> str:
    """The nonce of a record from its own derived seed (records.ids.derive_seed)."""
    return f"[mle:{seed:016x}]"


def instrument(code: str, nonce: str) -> Instrumented:
    """`code` with its reports inserted; a program that does not parse is returned as a problem, unchanged."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Instrumented(None, [], f"does not parse: {type(error).__name__}: {error}")
    lines = code.encode().split(b"\n")
    if "\f" in code or "\r" in code.replace("\r\n", "\n"):  # the parser counts these as line ends or spaces
        return Instrumented(None, [], "has form feeds or lone carriage returns")
    name = "_report"
    while name in code:
        name += "_"
    edits: list[tuple[int, int, int, bytes]] = []  # line, column, order at the same place, text
    found: set[str] = set()
    for depth, call in _calls(tree):
        what = operation_of(call)
        if what is not None:
            found.add(what)
            assert call.end_lineno is not None and call.end_col_offset is not None
            edits.append((call.lineno - 1, call.col_offset, depth, f"{name}({what!r}, ".encode()))
            edits.append((call.end_lineno - 1, call.end_col_offset, -depth, b")"))
    helper = _HELPER.format(source=_HELPER_SOURCE.format(name=name, nonce=nonce))
    edits += _prologue(tree, name, helper, found)
    for line, column, _, text in sorted(edits, reverse=True):
        lines[line] = lines[line][:column] + text + lines[line][column:]
    return Instrumented(b"\n".join(lines).decode(), [m for m in MARKERS if m in found], None)


def _calls(tree: ast.AST) -> list[tuple[int, ast.Call]]:
    """Every call with its depth, f-strings left alone: positions inside them are not those of the file before 3.12."""
    found: list[tuple[int, ast.Call]] = []
    stack: list[tuple[int, ast.AST]] = [(0, tree)]
    while stack:
        depth, node = stack.pop()
        if isinstance(node, ast.JoinedStr):
            continue
        if isinstance(node, ast.Call):
            found.append((depth, node))
        stack.extend((depth + 1, child) for child in ast.iter_child_nodes(node))
    return found


def _prologue(tree: ast.Module, name: str, helper: str, found: set[str]) -> list[tuple[int, int, int, bytes]]:
    """Where the helper is defined, and the report of the imports.

    The helper stands before the first statement that may have something before it (docstring and __future__ imports
    may not), on the same line; before a compound statement, which cannot share one, it has a line of its own.
    """
    body = list(tree.body)
    first = 0
    if (
        body
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        first = 1
    while first < len(body) and isinstance(body[first], ast.ImportFrom) and body[first].module == "__future__":  # type: ignore[attr-defined]
        first += 1
    if first == len(body):
        return []
    edits: list[tuple[int, int, int, bytes]] = []
    statement = body[first]
    line, column = _start(statement)
    compound = isinstance(
        statement,
        (
            ast.FunctionDef,
            ast.AsyncFunctionDef,
            ast.ClassDef,
            ast.If,
            ast.For,
            ast.While,
            ast.With,
            ast.Try,
            ast.AsyncFor,
            ast.AsyncWith,
        ),
    ) or type(statement).__name__ in ("Match", "TryStar")
    separator = "\n" if compound else "; "
    edits.append((line, column, -1, f"{helper}{separator}".encode()))
    last = _end_of_imports(body[first:])
    if last is not None:
        assert last.end_lineno is not None and last.end_col_offset is not None
        found.add(MARKERS[0])
        edits.append((last.end_lineno - 1, last.end_col_offset, 0, f"; {name}({MARKERS[0]!r})".encode()))
    return edits


def _end_of_imports(body: list[ast.stmt]) -> ast.stmt | None:
    """The last statement of the first run of imports."""
    last = None
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            last = statement
        elif last is not None:
            break
    return last


def _start(statement: ast.stmt) -> tuple[int, int]:
    """Line and column where a statement begins, its decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    if decorators:
        return decorators[0].lineno - 1, 0
    return statement.lineno - 1, statement.col_offset
