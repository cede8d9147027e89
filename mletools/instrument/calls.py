"""Every call of a program with its context, and the reports that it earns by the table of operations.

Covered: loops, `with torch.no_grad()`, functions and their decorators around a call. Not covered: calls in f-strings
(before Python 3.12 their positions are not those of the file), whether functions are called.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from . import operations
from .names import Names, head, words, words_of

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


@dataclass(frozen=True)
class Place:
    """A place before `body[at]`, or at the end where `at` is the length; `depth` of the statements in the tree."""

    body: list[ast.stmt]
    at: int
    depth: int

    @property
    def position(self) -> tuple[int, int]:
        """(line, column) of the end of the previous statement, or of the start of the next where there is none."""
        if self.at:
            last = self.body[self.at - 1]
            assert last.end_lineno is not None and last.end_col_offset is not None
            return last.end_lineno, last.end_col_offset
        return self.body[0].lineno, self.body[0].col_offset


@dataclass(frozen=True)
class Around:
    """A call's context in its function: the place after its outermost loop, the words of loops and function."""

    behind_loop: Place | None = None
    loops: frozenset[str] = frozenset()
    function: frozenset[str] = frozenset()
    no_gradient: bool = False


@dataclass(frozen=True)
class Earned:
    """One report: after `call` returns, or at `behind`."""

    marker: str
    call: ast.Call
    depth: int
    behind: Place | None


def earned(tree: ast.Module) -> list[Earned]:
    """All reports that the calls of a program earn; RecursionError for deep nesting."""
    names = Names.of(tree)
    earned = []
    for call, depth, around in calls_of(tree, names):
        for marker, behind in _reports(call, around, names):
            earned.append(Earned(marker, call, depth, around.behind_loop if behind else None))
    return earned


def calls_of(tree: ast.Module, names: Names, strings: bool = False) -> Iterator[tuple[ast.Call, int, Around]]:
    """Every call, its depth and its context; with `strings`, those within f-strings too."""
    stack: list[tuple[ast.AST, int, Around]] = [(tree, 0, Around())]
    while stack:
        node, depth, around = stack.pop()
        if not strings and isinstance(node, (ast.JoinedStr, *_template())):
            continue
        if isinstance(node, ast.Call):
            yield node, depth, around
        inner = _around(node, around, names)
        for _, value in ast.iter_fields(node):
            for at, child in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(child, _LOOPS) and inner.behind_loop is None:
                    stack.append((child, depth + 1, replace(inner, behind_loop=Place(value, at + 1, depth + 1))))
                elif isinstance(child, ast.AST):
                    stack.append((child, depth + 1, inner))


def _template() -> tuple[type[ast.AST], ...]:
    template = getattr(ast, "TemplateStr", None)  # Python 3.14
    return (template,) if template else ()


def _around(node: ast.AST, around: Around, names: Names) -> Around:
    """The context of the children of `node`."""
    if isinstance(node, _FUNCTIONS):
        quiet = any(_stops_gradient(each, names) for each in node.decorator_list)
        return Around(function=frozenset(words_of(node.name)), no_gradient=quiet)
    if isinstance(node, (ast.ClassDef, ast.Lambda)):
        return Around()
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return replace(around, loops=around.loops | words(node.iter))
    if isinstance(node, _COMPREHENSIONS):
        return replace(around, loops=around.loops | words(*(each.iter for each in node.generators)))
    if isinstance(node, (ast.With, ast.AsyncWith)) and any(_stops_gradient(i.context_expr, names) for i in node.items):
        return replace(around, no_gradient=True)
    return around


def _stops_gradient(node: ast.expr, names: Names) -> bool:
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    return operations.matches(names.of_call(call), operations.NO_GRADIENT)


def _reports(call: ast.Call, around: Around, names: Names) -> list[tuple[str, bool]]:
    """(marker, whether it is placed after the loops), each marker once, in the table's order."""
    called = names.of_call(call)
    markers: dict[str, bool] = {}
    if _prepares(call, names):
        return []
    for row in operations.TABLE:
        if not operations.matches(called, row.calls):
            continue
        if _applies(row.when, call, around, names):
            markers.setdefault(row.marker, row.when == operations.LOOP)
            if row.marker == operations.TRAINED and is_watched(call):
                markers.setdefault(operations.TESTING, False)
    return list(markers.items())


def _prepares(call: ast.Call, names: Names) -> bool:
    """Whether the call fits a preprocessing step."""
    if not isinstance(call.func, ast.Attribute) or "fit" not in call.func.attr:
        return False
    receiver = call.func.value
    classes = names.classes(receiver)
    if classes:
        return operations.matches(classes, operations.PREPARATION)
    variable = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
    words = words_of(variable)
    return operations.matches(words, operations.PREPARATION_WORDS) and not operations.matches(
        words, operations.MODEL_WORDS
    )


def is_watched(call: ast.Call) -> bool:
    """Whether a training call computes a loss on held-out rows."""
    return any(keyword.arg in operations.WATCHED and not _is_empty(keyword.value) for keyword in call.keywords)


def _is_empty(node: ast.expr) -> bool:
    """Whether a value is a literal None, 0, [] or the like."""
    return not (node.value if isinstance(node, ast.Constant) else getattr(node, "elts", True))


def _applies(when: str, call: ast.Call, around: Around, names: Names) -> bool:
    if when in (operations.ALWAYS, operations.LOOP):
        return True
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    argument_words = words(*values)
    if when in (operations.SEEN, operations.HELD_OUT):
        held_out = around.no_gradient or bool(argument_words & operations.HELD_OUT_WORDS)
        return held_out == (when == operations.HELD_OUT)
    if when == operations.TEST:
        return not is_of_training_rows(values, argument_words, names)
    all_words = argument_words | around.loops
    test_words = (all_words | around.function) & operations.TEST_WORDS
    return around.no_gradient and bool(test_words) and not all_words & operations.TRAINING_WORDS


def is_of_training_rows(
    values: list[ast.expr], argument_words: set[str], names: Names, more: frozenset[str] | None = None
) -> bool:
    """Whether a prediction is of training or validation rows: by the first names, then by any word.

    `more`: of a call whose rows are counted when it runs, the words around it. Then X alone means no rows, and words
    of test rows count against words of training rows.
    """
    for name in head(values[0]) if values else []:
        is_x = more is None and name in ("X", "x")
        if is_x or name in names.split or words_of(name) & operations.TRAINING_WORDS:
            return True
        if words_of(name) & operations.TEST_WORDS:
            return False
    words = argument_words | (more or frozenset())
    return bool(words & operations.TRAINING_WORDS) and (more is None or not words & operations.TEST_WORDS)
