"""Whether a submission is a model's prediction: not one value throughout, no copy of the sample, not typed into the program.

R&D-Agent, appendix E.5 (submission authenticity). A wrong accusation costs a good program, so every rule asks for plain
signs. Covered: predictions that are all alike, also those of an honest best constant; those of the sample submission;
those that stand in the program as lists, dicts or text, with their ids, in their order, or as fractions in any order; a
program that reads nothing but training data. Not covered: random predictions; a constant with some noise, or one of
several target columns; a copy of the sample that was changed a little; typed-in values that are encoded, computed or
rounded; labels typed in without ids where some of the rows are held out; test files that are opened and not used;
answers that are known from elsewhere. Files that cannot be read are the grader's to refuse.
"""

import ast
import csv
import io
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

ALIKE = 1e-12  # numbers that differ by no more are the same
FEW = 20  # rows or values below which nothing is called typed in
CHANGES = 8  # from one value to another that a run of typed-in values needs: a row of zeros says nothing
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
    """Why a submission is no model's prediction, in words; None where nothing speaks against it, or it cannot be read.

    code: the program that wrote it. sample: the sample submission, of at least its rows; None where there is none.
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
            if _typed_in(tree, rows):
                return TYPED_IN
            return BLIND if _blind(tree) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# --- files --------------------------------------------------------------------------------------------------------


def _rows(content: bytes, ids: Sequence[str], targets: Sequence[str]) -> list[Row] | None:
    """The rows of a CSV file; None where it cannot be read, lacks a column or is too long."""
    rows: list[Row] = []
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        header = [name.strip() for name in next(lines, [])]
        places = [[header.index(name) for name in names] for names in (ids, targets)]
        for line in lines:
            if line:
                key, values = (tuple(line[at].strip() for at in each) for each in places)
                rows.append((key, values))
            if len(rows) > MOST_ROWS:
                return None
    except (UnicodeDecodeError, csv.Error, ValueError, IndexError):
        return None
    return rows


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    a, b = _number(one), _number(other)
    return a is not None and b is not None and abs(a - b) <= ALIKE


def _plain(text: str) -> str:
    """A value as it is compared with one that was typed in: 0.50 and 0.5 are the same."""
    value = _number(text)
    return text.strip() if value is None else f"{value + 0.0:.10g}"


# --- the rules ----------------------------------------------------------------------------------------------------


def _constant(rows: Sequence[Row]) -> bool:
    """Whether every target column has one value throughout."""
    first = rows[0][1]
    return all(_same(value, other) for _, values in rows for value, other in zip(values, first, strict=True))


def _copied(rows: Sequence[Row], sample_rows: Sequence[Row]) -> bool:
    """Whether each row has the targets that the sample has for its id; of equal ids, in their order."""
    known: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for key, values in reversed(sample_rows):
        known.setdefault(key, []).append(values)
    for key, values in rows:
        left = known.get(key)
        if not left or not all(map(_same, values, left.pop())):
            return False
    return True


def _typed_in(tree: ast.AST, rows: Sequence[Row]) -> bool:
    """Whether a literal of the program holds a quarter of the rows with their ids, a run of the predictions, or more than
    half of the fractions among them.
    """
    literals = [tokens for tokens in _literals(tree) if len(tokens) >= max(FEW, len(rows) // 8)]
    if len(rows) < FEW or not literals:
        return False
    ids = len(rows[0][0])
    plain = [tuple(_plain(value) for value in (*key, *values)) for key, values in rows]
    values = [value for row in plain for value in row[ids:]]
    fractions = Counter(value for value in values if "." in value and _number(value) is not None)
    runs = [values, *([row[at] for row in plain] for at in range(ids, len(plain[0])))]
    joined = [f"\0{chr(0).join(run)}\0" for run in dict.fromkeys(map(tuple, runs))]
    whole = set(plain)
    for tokens in literals:
        windows = zip(*(tokens[at:] for at in range(len(plain[0]))), strict=False)
        if ids and len(whole.intersection(windows)) >= max(FEW, len(rows) / 4):
            return True
        if sum((fractions & Counter(tokens)).values()) > max(FEW - 1, len(values) / 2):
            return True
        if any(_has_a_run(each, tokens, max(FEW, -(-len(rows) // 8))) for each in joined):
            return True
    return False


def _has_a_run(joined: str, tokens: Sequence[str], size: int) -> bool:
    """Whether `size` typed-in values stand one after another among the predictions: surely found if twice as many do."""
    for at in range(0, len(tokens) - size + 1, size):
        block = tokens[at : at + size]
        changes = sum(one != other for one, other in pairwise(block))
        if changes >= CHANGES and not _counts_up(block) and f"\0{chr(0).join(block)}\0" in joined:
            return True
    return False


def _counts_up(block: Sequence[str]) -> bool:
    numbers = [_number(each) for each in block]
    steps = [b - a for a, b in pairwise(numbers) if a is not None and b is not None]
    return len(steps) == len(block) - 1 and max(steps) - min(steps) <= 1e-9


def _literals(tree: ast.AST) -> Iterator[list[str]]:
    """The values in each literal list, tuple, set, dict (key before value) or text of a program, in their order."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        tokens = None
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
            tokens = _leaves(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            tokens = [_plain(each) for each in _GAPS.split(node.value) if each]
        if tokens is None:
            todo.extend(ast.iter_child_nodes(node))
        else:
            yield tokens


def _leaves(node: ast.AST) -> list[str] | None:
    """The constants in a literal from left to right; None where it holds anything else."""
    names: list[str] = []
    todo: list[ast.AST | None] = [node]
    while todo:
        each = todo.pop()
        if isinstance(each, ast.Constant) and isinstance(each.value, (str, int, float)):
            names.append(_plain(str(each.value)))
        elif isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.USub) and isinstance(each.operand, ast.Constant):
            names.append(_plain(f"-{each.operand.value!r}"))
        elif isinstance(each, (ast.List, ast.Tuple, ast.Set)):
            todo.extend(reversed(each.elts))
        elif isinstance(each, ast.Dict):
            pairs = zip(each.keys, each.values, strict=True)
            todo.extend(reversed([part for pair in pairs for part in pair]))
        else:
            return None
    return names


def _blind(tree: ast.AST) -> bool:
    """Whether a program names no file but training data, lists no folder, and runs nothing that could do so unseen."""
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
