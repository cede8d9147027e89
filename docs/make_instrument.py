"""Write docs/instrument.md: which calls mle-instrument counts as which operation, read from its table.

python docs/make_instrument.py           write it
python docs/make_instrument.py --check   exit 1 if it is not up to date
"""

import sys
from pathlib import Path

from mletools.instrument.operations import as_markdown

PAGE = Path(__file__).parent / "instrument.md"
INTRO = """# Reports of progress

<!-- made by docs/make_instrument.py -->

`mle-instrument` makes a program report seven operations, each the first time that it has succeeded (RL for MLE agents, section 3.2);
`mle-grade --reward partial-credit` pays 0.1 for each that arrived. "imported packages" comes after the first run of imports; the
others after a call that this table names.

`mle-instrument` finds the calls that could earn a report, by what a name was imported as, without importing or running anything:
`instrument.markers` is what it expects. `mle-sandbox` watches these calls while the program runs, which keeps its text and its line
numbers, and decides by the objects themselves:

- A function or class counts if it is an installed library's, not if it is called like one. Aliases, calls within f-strings, and
  functions that are handed on (`run_in_executor`, `map`, `partial`, `Thread`, `delayed`) count; dead code, strings, comments and
  classes of the program's own under a library's name do not.
- Nothing but the imports counts before a file of `./input` was opened.
- A model is an estimator with `predict` (a pipeline by its last step, a search by what it searches) or a torch module with
  parameters. Fitting anything else trains no model. An optimizer's step counts if its parameters have gradients.
- A prediction counts if it has as many rows as a table (or files, of a folder) in `./input` whose name speaks of test or submission,
  at once or batch by batch through a loop. Names that speak of training or validation rows, or the parts of
  `train_test_split`, rule it out, for a hold-out may have as many rows. Where nothing tells how many, the names decide alone.
- Losses are told apart by names: "held-out" is an argument that speaks of test or validation rows. With torch, by gradients that are off.

Not covered: losses written out in numpy, library functions that are handed to other processes, predictions that a generator expression
puts together, models that are the program's own from the ground up. The table's `{...}` names count where a program runs with plain
markers (`--plain-markers`) only: there the reports stand in its text, which is `instrument.code`, and nothing is checked.

"""


def main() -> None:
    text = INTRO + as_markdown().rstrip("\n") + "\n"
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit(f"{PAGE} is not up to date: run python docs/make_instrument.py")
        return
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
