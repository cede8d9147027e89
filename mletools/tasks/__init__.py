"""Where tasks come from: the real tables inside scikit-learn, and procedural tables with a hidden rule.

`sources` reads a --source option, `make_task` makes one task, `data_digest` checks a task's folder. Importing this
loads no heavy library. Not covered: the metric itself, which reaches `make_task` as an argument.
"""

from .baselines import Score
from .folder import data_digest
from .make import make_task, sources
from .table import Rejected

__all__ = ["Rejected", "Score", "data_digest", "make_task", "sources"]
