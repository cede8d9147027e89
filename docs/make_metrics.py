"""Write metrics.md, a line for each metric, from the functions' docstrings; with --check, compare it.

python docs/make_metrics.py [--check]
"""

import inspect
import json
import sys
from pathlib import Path

from mletools.grading.metrics import METRICS
from mletools.grading.metrics.registry import REQUIRED, Metric

PAGE = Path(__file__).parent / "metrics.md"
BEGIN = """# Metrics

Written by `make docs` from the functions in `mletools/grading/metrics`; `mle-grade --list-metrics` prints the same in short.
Cells: how the cells of a submission are read, which a task's `submission.parse` says ([records](records.md)). A metric of your
own is a file that `metric.file` names ([importing](importing.md#a-task-made-by-hand)).

| metric | better | cells | what it is | parameters |
|---|---|---|---|---|
"""


def line(metric: Metric) -> str:
    """A row of the table."""
    text = " ".join((inspect.getdoc(metric.function) or "").split()).replace("|", "\\|")
    joint = " All target columns are taken together." if metric.columns == "joint" else ""
    params = [
        f"`{name}`" if default is REQUIRED else f"`{name}` ({json.dumps(default)})"
        for name, default in metric.params.items()
    ]
    params += [f"`metric.{name}`" for name in ("group", "weight") if name in metric.inputs]
    better = "lower" if metric.lower_is_better else "higher"
    return f"| `{metric.name}` | {better} | {', '.join(metric.parse)} | {text}{joint} | {', '.join(params)} |\n"


def main() -> None:
    text = BEGIN + "".join(line(METRICS[name]) for name in sorted(METRICS))
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit(f"{PAGE.name}: not what the functions say: make docs")


if __name__ == "__main__":
    main()
