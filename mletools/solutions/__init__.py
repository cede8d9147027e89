"""Standard solutions: real programs of graded strength for a task, from a constant to a mean of boosted trees and a forest.

    bank       the models of each level, and short programs of one plain table
    programs   composes longer programs: reading, features, a model, a form of submission
    measures   the functions that programs measure files with: text of programs, never imported

Covered: any table with train.csv, test.csv and sample_submission.csv, and the procedural tasks of every modality; faults
that a program can have. A program is plain Python, which needs a sandbox to run in. Not covered: replies of a language
model, which hold a program (see simulated).
"""

from .bank import FAULTS, VALID, Choice, choices, program, solution
from .programs import NEEDED, solves

__all__ = ["FAULTS", "NEEDED", "VALID", "Choice", "choices", "program", "solution", "solves"]
