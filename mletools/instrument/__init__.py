"""Make a solution report its progress, and read the report back (RL for MLE agents, section 3.2).

Seven reports: imported packages, loaded data, defined model, training loss, trained model, testing loss, predicted test
labels. Which calls may earn them is found by a table of operations (`operations`, `calls`, `sites`); where a frozen
language model would put them can be said by its answer (`answer`). While the program runs in the sandbox, `observer`
watches those calls and prints a token for each report that was earned; `read` takes the tokens out of the output again.
With plain markers the program prints the texts itself, put into its own text (`insert`).

Covered: a program that prints the texts, reads its own source, calls its functions like a library's, or looks for the
observer by name, frames, gc, tracing or ctypes; a language model that changes, drops or adds code.
Not covered: a program that reads its own memory, for it shares the process that holds the tokens; see docs/security.md.
Reports earn partial credit only, and a valid score never depends on them.
"""

from .answer import instrument_as
from .insert import Instrumented, instrument, make_nonce
from .operations import MARKERS
from .read import read_report
from .sites import observer_text, rows_of_test

__all__ = [
    "MARKERS",
    "Instrumented",
    "instrument",
    "instrument_as",
    "make_nonce",
    "observer_text",
    "read_report",
    "rows_of_test",
]
