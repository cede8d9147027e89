"""Where tasks come from: real tables inside scikit-learn, procedural tables with a hidden rule, and folders of others.

`sources` reads a --source option and `make_task` makes one task; `candidates` finds what a folder holds and
`import_task` makes a task of it. `data_digest` and `private_digest` check a task's folder. Importing this loads no heavy
library. Not covered: metrics, which reach these functions as arguments.
"""

from .baselines import Score
from .folder import data_digest, private_digest
from .importing.asked import FORMATS, Asked, Candidate, Grading, Unprepared
from .importing.layouts import candidates
from .importing.task import import_task
from .make import make_task, sources
from .table import Rejected

__all__ = [
    "FORMATS",
    "Asked",
    "Candidate",
    "Grading",
    "Rejected",
    "Score",
    "Unprepared",
    "candidates",
    "data_digest",
    "import_task",
    "make_task",
    "private_digest",
    "sources",
]
