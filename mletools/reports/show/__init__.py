"""Records for a human in a terminal: a rollout with what it came to and its turns, a task, the steps of a training run.

Of a search the graph of its nodes as well. Lines of styled text, made one by one; all that an agent wrote is made
harmless first. Not covered: choosing rollouts and writing (the command does).
"""

from .console import Printer, html_printer, page, printer
from .header import row, table
from .lines import View, left_out, styled
from .rollout import lines, sections
from .steps import step_lines
from .task import task_lines, task_row
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
    "step_lines",
    "styled",
    "table",
    "task_lines",
    "task_row",
]
