"""Write docs/competitions.md: the competitions of MLE-bench and MLE-Dojo, graded from a record or by code.

python docs/make_competitions.py           write it
python docs/make_competitions.py --check   exit 1 if it is not up to date
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from mletools.base.jsonl import dumps
from mletools.tasks.importing.competitions import FILE

PAGE = Path(__file__).parent / "competitions.md"
BENCHMARKS = {"mle-bench": "MLE-bench", "mle-dojo": "MLE-Dojo"}
SUPPORT = {"record": "by record", "code": "by code", "no": "not yet"}
INTRO = """# Competitions

<!-- made by docs/make_competitions.py from mletools/tasks/importing/competitions.jsonl -->

How `mle-import` grades the competitions of two benchmarks. *By record*: the task record describes the grading fully,
and none of the competition's own code runs. *By code*: the benchmark's own grader runs in a sandbox of the grader's
(`--repo` names a checkout that has it). The data file holds facts about graders: metric, columns, direction; no data of
any competition. Each record was written from the benchmark's grader, file by file (herbarium-2020 by analogy with
2021).

The tests grade synthetic answers and submissions with every record. For 70 of the more complex ones (30 of MLE-bench,
40 of MLE-Dojo), a hand-written copy of the grader's computation ran beside ours on synthetic data: 67 agreed within
1e-6; the notes of the other three explain the difference. The real data was not tested.

Where a benchmark's grader contradicts the competition's published metric, by which the leaderboard is ranked, the
record follows the published one, and the note says so. A record refuses input that a grader may let pass: values that
are no finite numbers, missing or foreign ids, and columns that do not belong where the grader refuses them too.
"""


def page() -> str:
    found = [json.loads(line) for line in FILE.read_text(encoding="utf-8").split("\n") if line]
    lines = [INTRO, "| benchmark | competitions | " + " | ".join(SUPPORT.values()) + " |", "|---|---|---|---|---|"]
    for key, name in BENCHMARKS.items():
        counts = Counter(each["support"] for each in found if each["benchmark"] == key)
        lines.append(f"| {name} | {counts.total()} | " + " | ".join(str(counts[kind]) for kind in SUPPORT) + " |")
    for key, name in BENCHMARKS.items():
        lines += ["", f"## {name}", "", "| competition | graded | metric | better | note |", "|---|---|---|---|---|"]
        lines += [_row(each) for each in found if each["benchmark"] == key]
    return "\n".join(lines) + "\n"


def _row(entry: dict[str, Any]) -> str:
    metric = entry["metric"]
    name = "its own grader" if "name" not in metric else f"`{metric['name']}`"
    params = " ".join(f"{key} {_short(value)}" for key, value in metric.get("params", {}).items())
    extras = " ".join(
        f"{key} {_short(metric[key])}" for key in ("columns", "where", "group", "weight") if key in metric
    )
    told = " ".join(part for part in (name, params, extras) if part)
    better = "lower" if metric["lower_is_better"] else "higher"
    cells = [entry["competition"], SUPPORT[entry["support"]], told, better, entry.get("note", "")]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def main() -> None:
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit(f"{PAGE} is not up to date: run python {Path(__file__).name}")
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
