"""Tasks written by a language model in four roles, in the likeness of seed tasks (SandMLE, section 4.1).

`make_llm_task` makes one. What it needs is handed in: `Ask` puts a question to a model, `RunScript` runs a script in a
sandbox, for which `scripts` has the program; `Journal` keeps what was paid for. Importing
this loads no heavy library. Not covered: servers, sandboxes, metrics.
"""

from .asking import Answer, Ask, RunScript, ScriptRun
from .journal import Journal
from .make import Examine, make_llm_task
from .scripts import FOLDER, SCRIPT, program, script_run
from .seeds import Seed, read_seeds

__all__ = [
    "FOLDER",
    "SCRIPT",
    "Answer",
    "Ask",
    "Examine",
    "Journal",
    "RunScript",
    "ScriptRun",
    "Seed",
    "make_llm_task",
    "program",
    "read_seeds",
    "script_run",
]
