"""Python and JSON in a reply: whether a text is a program, and JSON with small faults of form.

Covered: texts of any length and depth in linear time. Not covered: repairing programs; JSON that was cut off.
"""

import ast
import json
import re
from typing import Any

from ...records.programs import parse_expression, parse_program

LARGEST = 50_000  # characters that are parsed as Python: the densest take a second
_FENCED = re.compile(r"(`{3,}|~{3,})[^`]*")
_JSON_PIECE = re.compile(r'\\.|"|,\s*(?=[}\]])', re.DOTALL)


def parsed(code: str) -> ast.Module | None:
    """The syntax tree of a program; None for an empty text, no Python, or more than LARGEST characters."""
    if len(code) > LARGEST or not code.strip():
        return None
    try:
        return parse_program(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def acts(tree: ast.Module) -> bool:
    """Whether Python would do something: a printed number or name is no program."""
    return any(isinstance(node, (ast.Call, ast.Import, ast.ImportFrom)) for node in ast.walk(tree))


def read_json(text: str) -> tuple[Any, str | None]:
    """(value, rule) of a text that is JSON; the rule is None where no leniency was needed. ValueError: it is no JSON.

    Tried in this order: as it stands (raw line ends in strings included), without a fence around it ("fence"), without
    commas before a closing bracket ("trailing_comma"), as a Python literal with JSON's types ("python_literal").
    """
    try:
        return _loads(text), None
    except ValueError as error:
        problem = error
    bare = without_fence(text)
    steps = ((bare, "fence"), (_without_trailing_commas(bare), "trailing_comma"))
    for candidate, rule in steps:
        try:
            return _loads(candidate), rule
        except ValueError:
            continue
    try:
        return _literal(bare), "python_literal"
    except ValueError:
        raise problem from None


def without_fence(text: str) -> str:
    """The text, or the content of the one fence around all of it, which may close in the code's last line."""
    opening, _, rest = text.strip().partition("\n")
    begun = _FENCED.fullmatch(opening)
    if begun and rest.endswith(begun[1]):
        inside = rest.removesuffix(begun[1])
        line = inside.rpartition("\n")[2]
        inside = inside[: len(inside) - min(3, len(line) - len(line.rstrip(" ")))]
        return inside.removesuffix("\n") + "\n"
    return text.strip("\n") + "\n"


def valid_text(value: str) -> str:
    """The value with U+FFFD for halves of surrogate pairs: JSON can escape them, but no program holds them."""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _loads(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _without_trailing_commas(text: str) -> str:
    pieces, at, in_string = [], 0, False
    for match in _JSON_PIECE.finditer(text):
        if match[0] == '"':
            in_string = not in_string
        elif match[0][0] == "," and not in_string:
            pieces.append(text[at : match.start()])
            at = match.end()
    return "".join([*pieces, text[at:]])


def _literal(text: str) -> Any:
    """The dict or list that a Python literal is."""
    if len(text) > LARGEST:
        raise ValueError("too long for a literal")
    try:
        value = ast.literal_eval(parse_expression(text.strip()))
        if not isinstance(value, (dict, list)):
            raise ValueError("neither an object nor a list")
        return json.loads(json.dumps(value, allow_nan=False))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None
