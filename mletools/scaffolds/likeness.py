"""How alike two programs are, by their syntax trees: the AST similarity of the memory module of MLE-RL (section 4.2).

A program becomes the sequence of its tree's nodes, depth first: the kind of each node, with the names that say what is
done (modules, attributes, keyword arguments, whatever the program did not name itself) and, of a constant, its type.
Two programs are as alike as the multisets of their runs of RUN neighbouring nodes (Dice's coefficient), which takes
time in proportion to their length; the paper names no measure.

Covered: formatting, comments, docstrings, other names for a program's own variables and functions, `import x as y`:
none of them counts. Programs that differ in numbers and texts only are equal, too. Not covered: statements in another
order that mean the same, code in strings, what a program does.
"""

import ast
import functools
from collections import Counter
from collections.abc import Hashable, Iterator

RUN = 3  # nodes; of longer runs one changed node spoils more
LARGEST = 50_000  # characters that are parsed; the densest of them take a second, a tree hundreds of times their room


def similarity(one: str, other: str) -> float:
    """From 0 (nothing in common) to 1 (equal, as far as is looked at); symmetric. Raises nothing, whatever the texts.

    Where one of them is no Python, or has more than LARGEST characters, both are compared by their lines, without
    indents and empty lines.
    """
    if one == other:
        return 1.0
    first, second = _runs(one), _runs(other)
    if first is None or second is None:
        return _dice(_lines(one), _lines(other))
    return _dice(first, second)


def _dice(one: Counter[Hashable], other: Counter[Hashable]) -> float:
    """2 |A and B| / (|A| + |B|) of multisets, counted with repeats; two empty ones are equal."""
    size = sum(one.values()) + sum(other.values())
    return 2 * sum((one & other).values()) / size if size else 1.0


def _lines(text: str) -> Counter[Hashable]:
    return Counter(line for line in map(str.strip, text.split("\n")) if line)


@functools.lru_cache(maxsize=16)  # the members of a pool are compared with one candidate after the other
def _runs(code: str) -> Counter[Hashable] | None:
    nodes = _nodes(code)
    if not nodes:
        return None if nodes is None else Counter()
    # A program of fewer nodes than a run still has runs, and each node stands in as many of them.
    padded = [""] * (RUN - 1) + nodes + [""] * (RUN - 1)
    return Counter(zip(*(padded[at:] for at in range(RUN)), strict=False))


def _nodes(code: str) -> list[str] | None:
    """The program's nodes in words, depth first; None when it cannot be parsed."""
    if len(code) > LARGEST:
        return None
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    real, own = _names(tree)
    return [_word(node, real, own) for node in _depth_first(tree)]


def _depth_first(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes without docstrings (no statement that is only a constant does anything); no recursion."""
    stack = list(ast.iter_child_nodes(tree))[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr_context) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        yield node
        stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _names(tree: ast.AST) -> tuple[dict[str, str], set[str]]:
    """(what an imported name stands for, where the program gave it another one; the names that the program made up)."""
    real: dict[str, str] = {}
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.alias):
            if node.asname:
                real[node.asname] = node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            own.add(node.name)
    return real, own


def _word(node: ast.AST, real: dict[str, str], own: set[str]) -> str:
    kind = type(node).__name__
    if isinstance(node, ast.Name):
        return kind if node.id in own else f"{kind} {real.get(node.id, node.id)}"
    if isinstance(node, ast.Attribute):
        return kind if node.attr in own else f"{kind} {node.attr}"
    if isinstance(node, ast.keyword):
        return kind if node.arg in own else f"{kind} {node.arg}"
    if isinstance(node, ast.alias):
        return f"{kind} {node.name}"
    if isinstance(node, ast.ImportFrom):
        return f"{kind} {node.module}"
    if isinstance(node, ast.Constant):
        return f"{kind} {type(node.value).__name__}"
    return kind
