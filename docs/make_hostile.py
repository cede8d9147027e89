"""Write the tables of hostile submissions in security.md from tests/support/dear_submissions.py; with --check, compare them.

python docs/make_hostile.py [--check]
"""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests" / "support"))

from dear_submissions import FILES, TASKS, fillings  # noqa: E402

from mletools.grading.metrics import METRICS  # noqa: E402
from mletools.grading.parsing import LIMITS, NO_LIMIT  # noqa: E402

BEGIN, END = "<!-- hostile submissions -->\n", "<!-- end of hostile submissions -->\n"
PAIRS = {
    "text": "; too many comparisons: invalid (levenshtein)",
    "tokens": "; too many comparisons: invalid",
    "boxes": "; too many pairs: invalid",
}


def table() -> str:
    """The tables as Markdown. SystemExit: a metric has no task in them."""
    if without := sorted(METRICS.keys() - TASKS.keys()):
        sys.exit(f"{', '.join(without)}: to be added to TASKS of tests/support/dear_submissions.py")
    lines = ["| cells | metrics | filled with | verdict |", "|---|---|---|---|"]
    for kind, limit in LIMITS.items():
        of_kind = {name: task for name, task in TASKS.items() if task.kind == kind}
        filled = list(dict.fromkeys(name for task in of_kind.values() for name in fillings(task)))
        verdict = f"cells above {limit.cell:,} characters: invalid"
        if limit.total != NO_LIMIT:
            verdict += f"; above {limit.total:,} in all: invalid"
        names = ", ".join(f"`{name}`" for name in sorted(of_kind))
        lines.append(
            f"| `{kind}` | {names} | {', '.join(filled)} | {verdict}{PAIRS.get(kind, '')}; shorter: scored, or refused by the metric |"
        )
    lines += ["", "| file | verdict |", "|---|---|", *(f"| {name} | invalid |" for name in FILES)]
    return "\n".join([*lines, ""])


def main() -> None:
    page = DOCS / "security.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    written = before + BEGIN + table() + END + rest.split(END)[1]
    if "--check" not in sys.argv:
        page.write_text(written, encoding="utf-8")
    elif written != page.read_text(encoding="utf-8"):
        sys.exit("docs/security.md: the tables differ from docs/make_hostile.py's output: run `make docs`")


if __name__ == "__main__":
    main()
