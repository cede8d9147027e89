"""Whether a submission is a model's prediction: not constant, not copied from the sample, not typed into the program.

R&D-Agent, appendix E.5 (submission authenticity). A wrong accusation costs a good program, so every rule needs clear
signs. Covered: equal predictions, also those of an honest best constant; predictions of the sample submission;
predictions in the program as lists, dicts or text, with their ids, in their order, or as fractions in any order; a
program that reads only training data. Not covered: random predictions; a constant with noise, or in one of several
target columns; a slightly changed copy of the sample; literals that are encoded, computed or rounded; labels without
ids if some of the rows are held out; test files that are opened and not used; answers from elsewhere. Files that cannot
be read are the grader's to reject.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...base.csv_files import read_rows
from ...base.programs import parse_program
from .replies import finite

ALIKE = 1e-12  # largest difference of equal numbers
FEW = 20  # minimum of rows and values for a typed-in finding
CHANGES = 8  # minimum of changes between neighbours in a run of typed-in values: a row of zeros proves nothing
MOST_ROWS = 2_000_000

CONSTANT = "all its predictions are the same"
SAMPLE = "its predictions are those of the sample submission"
TYPED_IN = "its predictions stand in the program"
BLIND = "the program reads nothing but training data, so it cannot know what to predict"

Row = tuple[tuple[str, ...], tuple[str, ...]]  # ids and targets, as text
_LISTING = {"glob", "iglob", "rglob", "listdir", "scandir", "iterdir", "walk", "fwalk", "system", "popen"}
_HIDING = {"exec", "eval", "__import__", "importlib", "runpy", "subprocess"}
_FILE = re.compile(r"[^\n]{0,250}\.[A-Za-z][A-Za-z0-9]{0,8}|[^\n]{0,250}[/*?][^\n]{0,250}")
_GAPS = re.compile(r"[\s,;|]+")


def inauthentic(
    code: str, submission: bytes, sample: bytes | None, id_columns: Sequence[str], target_columns: Sequence[str]
) -> str | None:
    """Why a submission is no model's prediction, in words; None: no sign of that, or it cannot be read.

    code: the program that wrote it. sample: the sample submission, with at least its rows; None: there is none.
    """
    rows = _rows(submission, id_columns, target_columns)
    if rows is None or len(rows) < 2:
        return None
    if _constant(rows):
        return CONSTANT
    sample_rows = None if sample is None else _rows(sample, id_columns, target_columns)
    if sample_rows is not None and _copied(rows, sample_rows):
        return SAMPLE
    try:
        tree = parse_program(code)
        if _typed_in(tree, rows):
            return TYPED_IN
        return BLIND if _blind(tree) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _rows(content: bytes, ids: Sequence[str], targets: Sequence[str]) -> list[Row] | None:
    """The rows of a CSV file; None if it cannot be read, lacks a column or is too long."""
    rows: list[Row] = []
    try:
        lines = read_rows(content)
        header = [name.strip() for name in next(lines, [])]
        id_columns, target_columns = ([header.index(name) for name in names] for names in (ids, targets))
        for line in lines:
            if line:
                rows.append(
                    (tuple(line[at].strip() for at in id_columns), tuple(line[at].strip() for at in target_columns))
                )
            if len(rows) > MOST_ROWS:
                return None
    except (ValueError, IndexError):
        return None
    return rows


def _same(value: str, other: str) -> bool:
    if value == other:
        return True
    a, b = finite(value), finite(other)
    return a is not None and b is not None and abs(a - b) <= ALIKE


def _normal(text: str) -> str:
    """A value for comparison with literals: 0.50 and 0.5 are equal."""
    value = finite(text)
    return text.strip() if value is None else f"{value + 0.0:.10g}"


def _constant(rows: Sequence[Row]) -> bool:
    """Whether every target column has a single value."""
    first = rows[0][1]
    return all(_same(value, other) for _, values in rows for value, other in zip(values, first, strict=True))


def _copied(rows: Sequence[Row], sample_rows: Sequence[Row]) -> bool:
    """Whether each row has the targets that the sample has for its id; equal ids in their order."""
    unused: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for key, values in reversed(sample_rows):
        unused.setdefault(key, []).append(values)
    return all(unused.get(key) and all(map(_same, values, unused[key].pop())) for key, values in rows)


def _typed_in(tree: ast.AST, rows: Sequence[Row]) -> bool:
    """Whether a literal of the program holds a quarter of the rows with their ids, a run of the predictions, or more
    than half of the fractions among them.
    """
    literals = [tokens for tokens in _literals(tree) if len(tokens) >= max(FEW, len(rows) // 8)]
    if len(rows) < FEW or not literals:
        return False
    ids = len(rows[0][0])
    normal = [tuple(_normal(value) for value in (*key, *values)) for key, values in rows]
    values = [value for row in normal for value in row[ids:]]
    fractions = Counter(value for value in values if "." in value and finite(value) is not None)
    columns = [values, *([row[at] for row in normal] for at in range(ids, len(normal[0])))]
    joined = [f"\0{chr(0).join(column)}\0" for column in dict.fromkeys(map(tuple, columns))]
    whole_rows = set(normal)
    for tokens in literals:
        windows = zip(*(tokens[at:] for at in range(len(normal[0]))), strict=False)
        if ids and len(whole_rows.intersection(windows)) >= max(FEW, len(rows) / 4):
            return True
        if sum((fractions & Counter(tokens)).values()) > max(FEW - 1, len(values) / 2):
            return True
        if any(_has_a_run(column, tokens, max(FEW, -(-len(rows) // 8))) for column in joined):
            return True
    return False


def _has_a_run(joined: str, tokens: Sequence[str], size: int) -> bool:
    """Whether `size` consecutive tokens are consecutive predictions; certain to find runs of twice that size."""
    for at in range(0, len(tokens) - size + 1, size):
        block = tokens[at : at + size]
        changes = sum(value != following for value, following in pairwise(block))
        if changes >= CHANGES and not _counts_up(block) and f"\0{chr(0).join(block)}\0" in joined:
            return True
    return False


def _counts_up(block: Sequence[str]) -> bool:
    numbers = [finite(token) for token in block]
    steps = [b - a for a, b in pairwise(numbers) if a is not None and b is not None]
    return len(steps) == len(block) - 1 and max(steps) - min(steps) <= 1e-9


def _literals(tree: ast.AST) -> Iterator[list[str]]:
    """The values in each literal list, tuple, set, dict (key before value) or text of a program, in their order."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        tokens = None
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
            tokens = _constants(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            tokens = [_normal(token) for token in _GAPS.split(node.value) if token]
        if tokens is None:
            todo.extend(ast.iter_child_nodes(node))
        else:
            yield tokens


def _constants(literal: ast.AST) -> list[str] | None:
    """The constants in a literal from left to right; None if it holds anything else."""
    constants: list[str] = []
    todo: list[ast.AST | None] = [literal]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float)):
            constants.append(_normal(str(node.value)))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            constants.append(_normal(f"-{node.operand.value!r}"))
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            todo.extend(reversed(node.elts))
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            todo.extend(reversed([part for pair in pairs for part in pair]))
        else:
            return None
    return constants


def _blind(tree: ast.AST) -> bool:
    """Whether a program names only training files, lists no folder, and runs nothing that could do so unseen."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _LISTING:
            return False
        names = [node.id] if isinstance(node, ast.Name) else [node.name] if isinstance(node, ast.alias) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
        if any(name.partition(".")[0] in _LISTING | _HIDING for name in names):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            low = text.strip().lower()
            if "test" in low or "sample" in low:
                return False
            if _FILE.fullmatch(low) is not None and "train" not in low and not low.endswith("submission.csv"):
                return False
    return True
