"""Make a solution report its progress, and read the report back (RL for MLE agents, section 3.2).

Seven reports: imported packages, loaded data, defined model, training loss, trained model, testing loss, predicted test
labels. Each is a line on the program's standard output that begins with a nonce of that record, printed the first time
the operation has succeeded. Where they stand is found by a table of operations (`operations`, `insert`) or was said by a
frozen language model (`answer`); either way they are put into the program's own text, which is otherwise the same:
lines keep their numbers but where one has to be added, nothing is reformatted.

Covered: a program that prints the texts, or the texts with a guessed nonce; one that redirects or closes its standard
output; a language model that changes, drops or adds code.
Not covered: a program that looks for the nonce finds it, for it stands in the text that runs: in the file
(`open(__file__)`), in the report function among its globals, on descriptor 1. A descriptor of its own would be no better
kept, because the program shares the process that holds it. So the nonce keeps reports from being learnt or guessed; it
is no proof of work. Reports earn partial credit only, and a valid score never depends on them. A program that lists its
own globals or source sees one name and the reports more, and so does a traceback that shows a line.
"""

from .answer import instrument_as
from .insert import Instrumented, instrument, make_nonce
from .operations import MARKERS
from .read import read_report

__all__ = ["MARKERS", "Instrumented", "instrument", "instrument_as", "make_nonce", "read_report"]
