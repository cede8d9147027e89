"""Make a solution report its progress, and read the report back (RL for MLE agents, section 3.2).

Seven reports: imported packages, loaded data, defined model, training loss, trained model, testing loss, predicted test
labels. Each is a line on the program's standard output that begins with a nonce of that record, printed the first time
the operation has succeeded. The program is otherwise the same text: lines keep their numbers, nothing is reformatted.

Not covered: a program that reads its own source can print the reports itself; the nonce keeps them from being learnt
or guessed, it is no proof of work. Reports earn partial credit only; a valid score never depends on them.
"""

from .insert import MARKERS, instrument, make_nonce
from .read import read_report

__all__ = ["MARKERS", "instrument", "make_nonce", "read_report"]
