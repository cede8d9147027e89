"""Make a solution report its progress, and read the reports (RL for MLE agents, section 3.2).

Seven reports: imported packages, loaded data, defined model, training loss, trained model, testing loss, predicted test
labels. A table of operations defines the calls that may earn them (`operations`, `calls`, `sites`); optionally a frozen
language model places them (`answer`). While the program runs in the sandbox, `observer` watches these calls and prints
a token for each report earned; `read` extracts the tokens from the output. With plain markers, print statements are
inserted into the program (`insert`).

A report needs a library's function (`judging`) on rows of the task's data (`evidence`, `tables`).

Covered: a program that prints the texts, reads its own source, calls its functions like a library's, or looks for the
observer by name, frames, gc, tracing or ctypes; a language model that changes, drops or adds code.
Not covered: a program that reads its own memory, because its process holds the tokens; see docs/security.md.
Reports earn partial credit only; valid scores do not depend on them.
"""

from .answer import instrument_as
from .insert import Instrumented, instrument, make_nonce
from .operations import MARKERS
from .read import read_report
from .sites import observer_text
from .tables import describe

__all__ = [
    "MARKERS",
    "Instrumented",
    "describe",
    "instrument",
    "instrument_as",
    "make_nonce",
    "observer_text",
    "read_report",
]
