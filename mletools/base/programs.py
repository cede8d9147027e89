"""Parse programs of agents without Python's warnings about them on a command's stderr.

Works in any thread: `warnings.catch_warnings` swaps the filters of the whole process, so blocks in several threads undo
each other. Here one filter goes before all others and stays; it covers only what is parsed without a file name, and is
put there again where another block hides it. Not covered: warnings of programs that run, in the sandbox.
"""

import ast
import re
import threading
import warnings

BYTE_ORDER_MARK = "\ufeff"
NAMELESS = "<unknown>"  # the file name that ast.parse gives to a text
_SILENT = ("ignore", None, Warning, re.compile(NAMELESS), 0)
# Python 3.11 counts the depth of trees in one place for all threads, and a garbage collection inside the compiler lets
# another thread in: both then end with "SystemError: AST constructor recursion depth mismatch".
_one_at_a_time = threading.RLock()


def parse_program(code: str | bytes) -> ast.Module:
    """The syntax tree of a program. SyntaxError, ValueError, RecursionError or MemoryError: there is none.

    A byte order mark before it is not part of it, as in a file that Python runs; columns are counted behind it.
    """
    tree = _parsed(code.removeprefix(BYTE_ORDER_MARK) if isinstance(code, str) else code, "exec")
    assert isinstance(tree, ast.Module)
    return tree


def parse_expression(text: str) -> ast.Expression:
    """The syntax tree of an expression. Errors: see parse_program."""
    tree = _parsed(text, "eval")
    assert isinstance(tree, ast.Expression)
    return tree


def _parsed(text: str | bytes, mode: str) -> ast.AST:
    with _one_at_a_time:
        # From the last look at the filters to the beginning of the compiler no other thread gets the interpreter lock.
        while not warnings.filters or warnings.filters[0] != _SILENT:
            warnings.filterwarnings("ignore", module=NAMELESS)
        tree: ast.AST = compile(text, NAMELESS, mode, ast.PyCF_ONLY_AST, dont_inherit=True)
    return tree
