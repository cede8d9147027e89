"""Forty files that packages of the index ship, as mle-import reads or refuses them: the table in docs/importing.md.

    python benchmarks/public_files.py            # the table
    python benchmarks/public_files.py --check    # 1 where docs/importing.md has another one (tests call this)

Each file is imported by its name and a target alone, as somebody would who has just found it; no baselines are trained.
The files lie in the packages of the extra `tables` and in scikit-learn, matplotlib and numpy.
"""

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path

from tabulate import tabulate

from mletools.tasks.importing.layouts import candidates
from mletools.tasks.importing.options import Candidate, ImportOptions
from mletools.tasks.importing.task import import_task
from mletools.tasks.table import Rejected

PAGE = Path(__file__).resolve().parent.parent / "docs" / "importing.md"
BEGINS, ENDS = "<!-- public files -->", "<!-- end of public files -->"
# package, file, target
FILES = (
    ("bokeh_sampledata", "_data/CGM.csv.gz", "glucose"),
    ("bokeh_sampledata", "_data/SampleSuperstore.csv.gz", "Profit"),
    ("bokeh_sampledata", "_data/antibiotics.csv", "gram"),
    ("bokeh_sampledata", "_data/auto-mpg.csv", "mpg"),
    ("bokeh_sampledata", "_data/auto-mpg2.csv", "class"),
    ("bokeh_sampledata", "_data/browsers_nov_2013.csv", "Market Share Perc. (Nov 2013)"),
    ("bokeh_sampledata", "_data/cows.csv", "butterfat"),
    ("bokeh_sampledata", "_data/elements.csv", "boiling point"),
    ("bokeh_sampledata", "_data/forensic_glass.csv", "type"),
    ("bokeh_sampledata", "_data/lincoln_weather.csv", "TMAX"),
    ("bokeh_sampledata", "_data/penguins.csv", "sex"),
    ("bokeh_sampledata", "_data/sprint.csv", "Medal"),
    ("bokeh_sampledata", "_data/titanic_all.csv", "survived"),
    ("bokeh_sampledata", "_data/us_marriages_divorces.csv", "Divorces"),
    ("matplotlib", "mpl-data/sample_data/Stocks.csv", "IBM"),
    ("matplotlib", "mpl-data/sample_data/msft.csv", "Close"),
    ("numpy", "_core/tests/data/umath-validation-set-cos.csv", "output"),
    ("palmerpenguins", "data/penguins-raw.csv", "Species"),
    ("plotnine", "data/meat.csv", "turkey"),
    ("plotnine", "data/midwest.csv", "percollege"),
    ("plotnine", "data/msleep.csv", "vore"),
    ("plotnine", "data/mtcars.csv", "mpg"),
    ("sklearn", "datasets/data/diabetes_data_raw.csv.gz", "9"),
    ("sklearn", "datasets/data/wine_data.csv", "class_2"),
    ("statsmodels", "datasets/anes96/anes96.csv", "vote"),
    ("statsmodels", "datasets/anes96/src/anes96.csv", "vote"),
    ("statsmodels", "datasets/cancer/cancer.csv", "cancer"),
    ("statsmodels", "datasets/ccard/src/ccard.csv", "MDR"),
    ("statsmodels", "datasets/elec_equip/elec_equip.csv", "STS.M.I7.W.TOVT.NS0016.4.000"),
    ("statsmodels", "datasets/fair/fair_pt.csv", "naffairs"),
    ("statsmodels", "datasets/fertility/fertility.csv", "2011"),
    ("statsmodels", "datasets/heart/heart.csv", "survival"),
    ("statsmodels", "datasets/interest_inflation/E6_jmulti.csv", "R"),
    ("statsmodels", "datasets/macrodata/src/unemp.csv", "Value"),
    ("statsmodels", "datasets/modechoice/src/TableF18-2.csv", "MODE"),
    ("statsmodels", "datasets/scotland/src/scotvote.csv", "CouncilTax"),
    ("statsmodels", "datasets/statecrime/statecrime.csv", "murder"),
    ("statsmodels", "duration/tests/results/survival_data_50_1.csv", "1"),
    ("statsmodels", "stats/tests/results/anova-rm-test-data.csv", "DV"),
    ("vega_datasets", "_data/airports.csv", "state"),
    ("vega_datasets", "_data/la-riots.csv", "type"),
    ("vega_datasets", "_data/seattle-weather.csv", "weather"),
)


def outcome(path: Path, target: str, data: Path) -> tuple[str, str]:
    """(the metric and the rows to predict of a file's task, or "refused"; what is told)."""
    (candidate,) = candidates(path, "auto")
    assert isinstance(candidate, Candidate), candidate
    try:
        task, notes = import_task(candidate, ImportOptions(target=(target,), thresholds="none"), data)
    except Rejected as rejected:
        return "refused", rejected.reason
    told = [note.removeprefix(f"{path.name}: ") for note in notes if "no thresholds" not in note]
    return f"{task['metric'].get('name')}, {task['submission']['rows']} rows", "; ".join(told)


def table() -> str:
    rows = []
    with tempfile.TemporaryDirectory() as data:
        for package, file, target in FILES:
            found = importlib.util.find_spec(package)
            assert found and found.origin, f"{package} is not installed"
            result, told = outcome(Path(found.origin).parent / file, target, Path(data))
            rows.append([f"{package}: {Path(file).name}", f"`{target}`", result, told.replace("|", "\\|")])
    return str(tabulate(rows, ["file", "target", "task", "what is told"], tablefmt="github"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true", help="into docs/importing.md")
    given = parser.parse_args()
    made = table()
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGINS)
    kept, _, after = rest.partition(ENDS)
    if given.write:
        PAGE.write_text(f"{before}{BEGINS}\n\n{made}\n\n{ENDS}{after}", encoding="utf-8")
    elif given.check and kept.strip() != made:
        sys.exit("docs/importing.md: its table of public files is not what benchmarks/public_files.py --write writes")
    elif not given.check:
        print(made)


if __name__ == "__main__":
    main()
