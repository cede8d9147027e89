"""Write docs/instrument.md: the calls that mle-instrument counts for each operation, read from its table.

python docs/make_instrument.py           write it
python docs/make_instrument.py --check   exit 1 if it is not up to date
"""

import sys
from pathlib import Path

from mletools.instrument.operations import as_markdown

PAGE = Path(__file__).parent / "instrument.md"
INTRO = """# Reports of progress

<!-- made by docs/make_instrument.py -->

`mle-instrument` makes a program report seven operations, each at its first success (RL for MLE agents, section 3.2);
`mle-grade --reward partial-credit` pays 0.1 for each report that arrived. "imported packages" comes after the first run
of imports; the others after a call that the table below names. Each is paid whether it leads to a submission or not: a small
policy whose samples had no valid submission learnt to compute held-out losses instead of one
([qwen](qwen.md#the-same-table-another-seed-credit-leads-into-a-dead-end)).

`mle-instrument` finds the calls that could earn a report by their imported names, without importing or running
anything: `instrument.markers` lists the expected reports. `mle-sandbox` watches these calls while the program runs,
leaves its text and line numbers unchanged, and decides by the objects themselves:

- A function counts if its code is that of an installed library's file, whatever its name. Aliases, calls within
  f-strings, and functions passed as arguments (`run_in_executor`, `map`, `partial`, `Thread`, `delayed`) count; dead
  code, strings, comments, the program's own classes under a library's name, and a library's classes and modules with
  functions of the program in them do not.
- Only imports count before an existing file of `./input` was opened. Data are loaded from a path, an open file or an
  archive there, or from a text that such a file contains.
- A model is a library's estimator with `predict` (a pipeline by its last step, any other by all estimators in it) or a
  torch module with parameters, which may be the program's own class. Fitting anything else trains no model; within the
  program's own estimators, the library's that they use count. An optimizer's step counts if its parameters have
  gradients.
- Training counts on rows of the data: at least a tenth of the largest table that is not a test table (between 2 and
  100), in one call or over batches, not constant. If all data to train on are tables of at most 8 MB, a column of
  the inputs or targets must also resemble one of theirs: by the shares of its values if it has few (renamed labels and
  subsets do), or by the values, also behind log, log1p and square root.
- A prediction counts after such training, if it has as many rows as a table (or a folder has files) in `./input` whose
  name refers to test or submission, at once or batch by batch through a loop. Names that refer to training or
  validation rows, or the parts of `train_test_split`, rule it out, because a hold-out may have as many rows. Where no
  row count is available, the names alone decide.
- A loss counts if a metric compares two values after such training, one of which resembles a column of the data, or if
  a network that is trained on such rows computed it. Names tell losses apart: "held-out" is an argument whose name
  refers to test or validation rows. With torch, disabled gradients do.
- With `--mode lm` a report needs both: the model's place is reached, and the sandbox saw the operation before.

Not covered: what functions do that TorchDynamo or Numba compiles, losses written out in numpy, library functions passed to other processes, predictions assembled by a
generator expression, models that the program implements itself, training on constant inputs, on few rows, or on values
that are all transformed in other ways. The table's `{...}` names count only where a program
runs with plain markers (`--plain-markers`): there the reports are in its text, `instrument.code`, and nothing is
checked.

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
