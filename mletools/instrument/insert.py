"""Insert the seven progress reports into a program's text, as the plain lines of RL for MLE agents.

mle-sandbox runs the result for plain markers only; otherwise it watches the original program at the `sites` determined
here.

A call that does one of the operations is wrapped in place: `f(x)` becomes `_report('loaded data', f(x))`, which returns
the value of `f(x)` and reports after the call. A separate report (after the imports or a loop, or where a model put it)
shares a line with a statement or takes an empty one, so that tracebacks keep their line numbers; a line is added only
before a compound statement that begins a program or block, and after one without an empty line after it. Every result
is parsed and must equal the original program once the reports are removed.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..base.programs import BYTE_ORDER_MARK, parse_program
from .calls import Place, earned
from .facts import Sites
from .operations import MARKERS
from .removal import same_program, without_reports
from .sites import sites_of

# Reports go to descriptor 1 in one write, because the program may redirect or close sys.stdout; each is printed once,
# because a fit in a loop would flood the output.
_HELPER = "exec({source!r})"
_HELPER_SOURCE = """\
def {name}(what, value=None, _seen=set(), _write=__import__('os').write):
    if what not in _seen:
        _seen.add(what)
        try:
            _write(1, (what + '\\n').encode())
        except OSError:
            pass
    return value
"""
# The order of edits at one position: the helper, reports before a statement, wrappers of calls, reports after.
_HELPER_ORDER, _BEFORE, _AFTER, _NEW_LINE = -3_000_000, -2_000_000, 1_000_000, 2_000_000
_TOO_DEEP = "is nested too deeply"


@dataclass(frozen=True)
class Instrumented:
    """code: the program with its reports, or None; markers: the reports inserted; problem: why there is none.

    sites: `calls` to watch and `places` of reports (see sites.py); None without code.
    """

    code: str | None
    markers: list[str]
    problem: str | None
    sites: Sites | None = None


@dataclass(frozen=True)
class _Edit:
    line: int  # from 0
    column: int  # in bytes
    order: int
    text: bytes
    adds_line: bool = False  # after `line`


def make_nonce(seed: int) -> str:
    """The nonce of a record, from its derived seed (base.ids.derive_seed)."""
    return f"[mle:{seed:016x}]"


def instrument(code: str) -> Instrumented:
    """`code` with the reports of the table of operations; `problem` where it cannot be parsed."""
    tree = parsed(code)
    if isinstance(tree, str):
        return Instrumented(None, [], tree)
    try:
        reports = earned(tree)
    except RecursionError:
        return Instrumented(None, [], _TOO_DEEP)
    if not _room_for_helper(tree):
        return Instrumented(code, [], None, {"calls": [], "loops": [], "places": []})
    name = _free_name(code)
    edits: list[_Edit] = []
    behind: dict[tuple[int, int, str], Place] = {}
    for each in reports:
        if each.behind is not None:
            behind[id(each.behind.body), each.behind.at, each.marker] = each.behind
        else:
            edits += _wrap(each.call, each.depth, each.marker, name)
    marker_names = {each.marker for each in reports}
    placed = [(place, marker) for (_, _, marker), place in behind.items()]
    imports = _end_of_imports(tree)
    if imports is not None:
        marker_names.add(MARKERS[0])
        placed.append((imports, MARKERS[0]))
    at_imports = [] if imports is None else [(imports, MARKERS[0])]
    return replace(_assembled(code, tree, name, edits, placed, marker_names), sites=sites_of(tree, at_imports))


def instrument_at(code: str, tree: ast.Module, reports: Sequence[tuple[Place, str]]) -> Instrumented:
    """`code` with reports at the given places of its `tree`."""
    if not _room_for_helper(tree):
        return Instrumented(None, [], "does nothing")
    assembled = _assembled(code, tree, _free_name(code), [], reports, {m for _, m in reports})
    return replace(assembled, sites=sites_of(tree, reports))


def parsed(code: str) -> ast.Module | str:
    """The tree of a program, or why reports cannot be inserted into it."""
    try:
        tree = parse_program(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"does not parse: {type(error).__name__}: {error}"
    if "\f" in code or "\r" in code.replace("\r\n", "\n"):  # the parser treats these as line ends or spaces
        return "has form feeds or lone carriage returns"
    return tree


def first_free(body: list[ast.stmt]) -> int:
    """The first index for a report in a module: after its docstring and __future__ imports."""
    first = 1 if body and is_docstring(body[0]) else 0
    while first < len(body):
        statement = body[first]
        if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        first += 1
    return first


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement is a string literal."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _room_for_helper(tree: ast.Module) -> bool:
    return first_free(tree.body) < len(tree.body)


def _free_name(code: str) -> str:
    name = "_report"
    while name in code:
        name += "_"
    return name


def _assembled(
    code: str,
    tree: ast.Module,
    name: str,
    edits: list[_Edit],
    placed: Sequence[tuple[Place, str]],
    marker_names: set[str],
) -> Instrumented:
    """The text with the helper, the edits and the placed reports; `problem` where the program would change."""
    helper = _HELPER.format(source=_HELPER_SOURCE.format(name=name)).encode()
    lines = code.removeprefix(BYTE_ORDER_MARK).encode().split(b"\n")
    edits = [_helper_edit(tree.body[first_free(tree.body)], helper), *edits]
    for number, (place, marker) in enumerate(placed):
        edits.append(_report_edit(place, f"{name}({marker!r})".encode(), number, lines))
    text = _applied(lines, edits).decode()
    try:
        stripped = without_reports(parse_program(text), MARKERS)
        if stripped is None or not same_program(stripped, tree):
            return Instrumented(None, [], "its lines leave no room for reports")
    except (SyntaxError, ValueError):
        return Instrumented(None, [], "its lines leave no room for reports")
    except (RecursionError, MemoryError):
        return Instrumented(None, [], _TOO_DEEP)
    return Instrumented(text, [marker for marker in MARKERS if marker in marker_names], None)


def _wrap(call: ast.Call, depth: int, marker: str, name: str) -> list[_Edit]:
    assert call.end_lineno is not None and call.end_col_offset is not None
    return [
        _Edit(call.lineno - 1, call.col_offset, depth, f"{name}({marker!r}, ".encode()),
        _Edit(call.end_lineno - 1, call.end_col_offset, -depth, b")"),
    ]


def _helper_edit(statement: ast.stmt, helper: bytes) -> _Edit:
    """The helper before a statement, on its line, or on a new line before a compound statement."""
    line, column = _start(statement)
    return _Edit(line, column, _HELPER_ORDER, helper + (b"\n" if _is_compound(statement) else b"; "))


def _report_edit(place: Place, report: bytes, number: int, lines: list[bytes]) -> _Edit:
    """A report after the statement before its place, or before the one after it, or on a new line."""
    body, at = place.body, place.at
    if at and not _is_compound(body[at - 1]):
        line, column = _end(body[at - 1])
        return _Edit(line, column, _AFTER + number, b"; " + report)
    if at < len(body) and not _is_compound(body[at]):
        line, column = _start(body[at])
        return _Edit(line, column, _BEFORE + number, report + b"; ")
    if at:
        line, column = _start(body[at - 1])
        indent = lines[line][:column]
        line, _ = _end(body[at - 1])
        column = len(lines[line].rstrip(b"\r"))
        # of statements that end together, the inner one reports first
        return _Edit(line, column, _NEW_LINE - 1000 * place.depth + number, b"\n" + indent + report, True)
    line, column = _start(body[0])
    return _Edit(line, column, _BEFORE + number, report + b"\n" + lines[line][:column])


def _applied(lines: list[bytes], edits: list[_Edit]) -> bytes:
    """The lines with the edits; an added line replaces an empty one after it."""
    lines = list(lines)
    for edit in sorted(edits, key=lambda edit: (edit.line, edit.column, edit.order), reverse=True):
        line = lines[edit.line]
        lines[edit.line] = line[: edit.column] + edit.text + line[edit.column :]
        if edit.adds_line and edit.line + 2 < len(lines) and not lines[edit.line + 1].strip():
            del lines[edit.line + 1]
    return b"\n".join(lines)


def _end_of_imports(tree: ast.Module) -> Place | None:
    """The place after the first run of imports, __future__ imports excluded."""
    body, last = tree.body, None
    for at in range(first_free(body), len(body)):
        if isinstance(body[at], (ast.Import, ast.ImportFrom)):
            last = at
        elif last is not None:
            break
    return None if last is None else Place(body, last + 1, 1)


def _is_compound(statement: ast.stmt) -> bool:
    """Whether a statement contains others, and so cannot share its line."""
    return hasattr(statement, "body") or isinstance(statement, ast.Match)


def _start(statement: ast.stmt) -> tuple[int, int]:
    """Line (from 0) and column of a statement's start, decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    # a decorator's position is after the @
    return (decorators[0].lineno - 1 if decorators else statement.lineno - 1), statement.col_offset


def _end(statement: ast.stmt) -> tuple[int, int]:
    assert statement.end_lineno is not None and statement.end_col_offset is not None
    return statement.end_lineno - 1, statement.end_col_offset
