"""When two programs are the same program."""

import ast

from ..base.programs import parse_program


def normal_form(code: str) -> str:
    """The program without formatting and comments, so that equal programs have equal text.

    Names, constants, docstrings and the order of statements count. What does not parse is compared without white space.
    """
    try:
        return ast.unparse(parse_program(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "".join(code.split())
