"""The attack on what the libraries' folders hold: a search for the tables that tasks are made of, by their values.

Covered: every file of the packages that can be imported, and files of data below the interpreter's other folders. Not
covered: what `contents` does not read.
"""

import pkgutil

from ...base.sources import joined
from .. import contents, hidden, sketches
from ..interface import Limits
from .attack import PARTS, Attack


def _program() -> str:
    """The search with the modules it needs, which the sandbox does not have."""
    known = (pkgutil.get_data("mletools.sandbox", "tables.json") or b"").decode()
    data = sorted(hidden.DATA), sorted(hidden.PACKED)
    return f"{joined(sketches, contents)}\nTABLES = {known!r}\nDATA, PACKED = {data!r}\n{PARTS['search for tables']}"


ATTACKS = (Attack("tables of the tasks", "libraries", _program(), limits=Limits(wall_s=300.0)),)
