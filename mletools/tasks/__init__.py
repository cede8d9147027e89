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
from .likeness import likeness
from .make import STAGES, Dropped, Made, NoTask, Shape, make_task, sources
from .marking import Marking
from .procedural import MODALITIES, MUTATIONS, SAMPLES
from .show import show
from .soundness.case import Trial
from .table import Rejected

__all__ = [
    "FORMATS",
    "MODALITIES",
    "MUTATIONS",
    "SAMPLES",
    "STAGES",
    "Asked",
    "Candidate",
    "Dropped",
    "Grading",
    "Made",
    "Marking",
    "NoTask",
    "Rejected",
    "Score",
    "Shape",
    "Trial",
    "Unprepared",
    "candidates",
    "data_digest",
    "import_task",
    "likeness",
    "make_task",
    "private_digest",
    "show",
    "sources",
]
