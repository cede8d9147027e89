"""One rollout for a human in a terminal: what it came to, then its turns with code, differences, output and cost.

Lines of styled text, made one by one; all that an agent wrote is made harmless first. Not covered: choosing rollouts and
writing (the command does).
"""

from .console import printer
from .lines import View
from .listing import HEADER, row, table
from .rollout import lines

__all__ = ["HEADER", "View", "lines", "printer", "row", "table"]
