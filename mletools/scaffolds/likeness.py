"""The similarity of two programs by their syntax trees: the AST similarity of MLE-RL's memory module (section 4.2).

A program becomes the depth-first sequence of its tree's nodes: each node's type, with the names that the program did not
define itself (modules, attributes, keyword arguments) and the type of each constant. The similarity is Dice's coefficient
of the two multisets of RUN neighbouring nodes, in linear time; the paper names no measure.

Ignored: formatting, comments, docstrings, names of a program's own variables and functions, `import x as y`, values of
numbers and texts. Not covered: reordered statements with the same meaning, code in strings, program behaviour.
"""

import ast
import functools
from collections import Counter
from collections.abc import Hashable, Iterator

from ..base.programs import parse_program

RUN = 3  # nodes; one changed node affects more of longer runs
LARGEST = 50_000  # characters to parse: up to a second, and a tree hundreds of times as large


def similarity(one: str, other: str) -> float:
    """From 0 (nothing in common) to 1 (no difference seen); symmetric. Raises no exception.

    If one of them is no Python, or has more than LARGEST characters, both are compared by their lines, without indents
    and empty lines.
    """
    if one == other:
        return 1.0
    first, second = _runs(one), _runs(other)
    return _dice(_lines(one), _lines(other)) if first is None or second is None else _dice(first, second)


def _dice(one: Counter[Hashable], other: Counter[Hashable]) -> float:
    """2 |A and B| / (|A| + |B|) of multisets; 1 for two empty ones."""
    size = sum(one.values()) + sum(other.values())
    return 2 * sum((one & other).values()) / size if size else 1.0


def _lines(text: str) -> Counter[Hashable]:
    return Counter(line for line in map(str.strip, text.split("\n")) if line)


@functools.lru_cache(maxsize=16)  # a pool's entries are compared with one candidate after another
def _runs(code: str) -> Counter[Hashable] | None:
    nodes = _nodes(code)
    if not nodes:
        return None if nodes is None else Counter()
    # Padding puts every node into RUN runs, also in short programs.
    padded = [""] * (RUN - 1) + nodes + [""] * (RUN - 1)
    return Counter(zip(*(padded[at:] for at in range(RUN)), strict=False))


def _nodes(code: str) -> list[str] | None:
    """The program's nodes as words, depth first; None if it cannot be parsed."""
    if len(code) > LARGEST:
        return None
    try:
        tree = parse_program(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    real, own = _names(tree)
    return [_word(node, real, own) for node in _depth_first(tree)]


def _depth_first(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes without statements that are only a constant, such as docstrings. Not recursive."""
    stack = list(ast.iter_child_nodes(tree))[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr_context) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _names(tree: ast.AST) -> tuple[dict[str, str], set[str]]:
    """(the imported name of each alias, the names that the program defines)."""
    real: dict[str, str] = {}
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.alias) and node.asname:
            real[node.asname] = node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler) and node.name:
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    return real, own


def _word(node: ast.AST, real: dict[str, str], own: set[str]) -> str:
    kind = type(node).__name__
    match node:
        case ast.Name(id=name):
            return kind if name in own else f"{kind} {real.get(name, name)}"
        case ast.Attribute(attr=name) | ast.keyword(arg=name):
            return kind if name in own else f"{kind} {name}"
        case ast.alias(name=name) | ast.ImportFrom(module=name):
            return f"{kind} {name}"
        case ast.Constant(value=value):
            return f"{kind} {type(value).__name__}"
    return kind
