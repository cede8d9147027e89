"""One rollout for a human in a terminal: what it came to, then its turns with code, differences, output and cost.

Of a search the graph of its nodes as well. Lines of styled text, made one by one; all that an agent wrote is made
harmless first. Not covered: choosing rollouts and writing (the command does).
"""

from .console import Printer, html_printer, page, printer
from .header import row, table
from .lines import View, left_out, styled
from .rollout import lines, sections
from .tree import graph

__all__ = [
    "Printer",
    "View",
    "graph",
    "html_printer",
    "left_out",
    "lines",
    "page",
    "printer",
    "row",
    "sections",
    "styled",
    "table",
]
