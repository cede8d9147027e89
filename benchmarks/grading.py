"""How fast submissions are graded: one large file of each kind of metric, and a stream of small ones on one core.

    python benchmarks/grading.py

Prints a table, what a metric that is code costs in a box of its own each time and in one that is kept, and how many
rollouts a second the command itself takes; both sides of a claim run in the same process, one after the other, best of
`ROUNDS`. "pandas" is what a grader written by hand does: read_csv of both files, merge on the id, the metric of scikit-learn; it checks nothing.
"""

import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import metrics as sk
from tabulate import tabulate

from mletools.grading import grade
from mletools.grading.metrics import METRICS
from mletools.tasks import code_metrics
from mletools.tasks.code_metrics import CodeMetricOptions

ROUNDS = 5
LARGE = (100_000, 10)
SMALL = (100, 1)
STREAM = 500
COMMAND = 5000
# metric, the cells of its answers, the cells of a prediction, the same metric by hand
SIDES: dict[str, tuple[str, Callable[..., Any]]] = {
    "rmse": ("number", lambda t, p: np.mean([sk.root_mean_squared_error(t[:, at], p[:, at]) for at in range(t.shape[1])])),
    "mae": ("number", lambda t, p: sk.mean_absolute_error(t, p)),
    "auroc": ("binary", lambda t, p: np.mean([sk.roc_auc_score(t[:, at], p[:, at]) for at in range(t.shape[1])])),
    "accuracy": ("label", lambda t, p: np.mean([sk.accuracy_score(t[:, at], p[:, at]) for at in range(t.shape[1])])),
    "f1_macro": ("label", lambda t, p: np.mean([sk.f1_score(t[:, at], p[:, at], average="macro") for at in range(t.shape[1])])),
}  # fmt: skip


def made(kind: str, rows: int, columns: int) -> tuple[bytes, bytes]:
    """(answers, submission in another row order) as CSV."""
    draws = np.random.RandomState(0)
    names = [f"y{at}" for at in range(columns)]
    if kind == "number":
        truth, guess = draws.normal(size=(rows, columns)).round(6), draws.normal(size=(rows, columns)).round(6)
    elif kind == "binary":
        truth, guess = draws.randint(0, 2, (rows, columns)), draws.uniform(size=(rows, columns)).round(6)
    else:
        words = np.array(["cat", "dog", "eel", "fox", "gnu"])
        truth, guess = words[draws.randint(0, 5, (rows, columns))], words[draws.randint(0, 5, (rows, columns))]
    files = []
    for values, order in ((truth, np.arange(rows)), (guess, draws.permutation(rows))):
        frame = pd.DataFrame(values[order], columns=names)
        frame.insert(0, "id", order)
        files.append(frame.to_csv(index=False).encode())
    return files[0], files[1]


def by_hand(folder: Path, content: bytes, metric: Callable[..., Any]) -> float:
    both = pd.read_csv(folder / "answers.csv").merge(pd.read_csv(io.BytesIO(content)), on="id", suffixes=("", "_p"))
    names = [name for name in both.columns if name.startswith("y") and not name.endswith("_p")]
    return float(metric(both[names].to_numpy(), both[[f"{name}_p" for name in names]].to_numpy()))


def best(work: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def prepare(name: str, folder: Path, shape: tuple[int, int]) -> tuple[dict[str, Any], bytes]:
    """A task whose answers lie in `folder`, and a submission to it; ours and the grader by hand agree on the score."""
    kind, hand = SIDES[name]
    rows, columns = shape
    answers, content = made(kind, rows, columns)
    (folder / "answers.csv").write_bytes(answers)
    parse = "label" if kind == "label" else "number"
    submission = {"id": ["id"], "target": [f"y{at}" for at in range(columns)], "parse": parse, "rows": rows}
    metric = {"name": name, "params": {}, "lower_is_better": METRICS[name].lower_is_better}
    task = {"answers": "answers.csv", "submission": submission, "metric": metric}
    verdict = grade(task, folder, content)
    assert verdict.score is not None and abs(verdict.score - by_hand(folder, content, hand)) < 1e-5
    return task, content


def measure(name: str, folder: Path) -> list[str]:
    """Seconds for one large file, and small ones a second; ours and by hand."""
    hand = SIDES[name][1]
    task, content = prepare(name, folder, LARGE)
    row = [name, f"{best(lambda: grade(task, folder, content)):.2f}"]
    row.append(f"{best(lambda: by_hand(folder, content, hand)):.2f}")
    small, little = prepare(name, folder, SMALL)
    row.append(f"{STREAM / best(lambda: [grade(small, folder, little) for _ in range(STREAM)]):.0f}")
    few = STREAM // 10
    row.append(f"{few / best(lambda: [by_hand(folder, little, hand) for _ in range(few)]):.0f}")
    return row


def command(folder: Path) -> tuple[int, int, float, float]:
    """(rollouts, bytes of one, seconds, of which for one rollout alone) of mle-grade on one core, records in and out."""
    tool = Path(sys.executable).parent

    def run(name: str, *arguments: str) -> None:
        subprocess.run([str(tool / name), "-q", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    run("mle-gen-task", "--source", "sklearn:wine", "-o", "tasks.jsonl")
    run("mle-rollout", "tasks.jsonl", "-o", "rollouts.jsonl")
    run("mle-sandbox", "rollouts.jsonl", "-o", "one.jsonl")
    line = (folder / "one.jsonl").read_text()
    record = json.loads(line)
    with open(folder / "many.jsonl", "w") as file:
        for at in range(COMMAND):
            file.write(json.dumps({**record, "id": f"r{at}"}) + "\n")
    many, one = best(lambda: run("mle-grade", "many.jsonl")), best(lambda: run("mle-grade", "one.jsonl"))
    return COMMAND, len(line), many, one


CODE = """
from sklearn.metrics import accuracy_score
def grade(submission, answers):
    both = answers.merge(submission, on="id", suffixes=("", "_p"))
    return accuracy_score(both["y0"], both["y0_p"])
"""
GRADES = 30


def coded(folder: Path) -> tuple[float, float]:
    """Seconds for a grade by code: in a box that is made anew for each, and in one that is kept."""
    answers, content = made("label", *SMALL)
    (folder / "answers.csv").write_bytes(answers)
    (folder / "metric.py").write_text(CODE)
    submission = {"id": ["id"], "target": ["y0"], "parse": "label", "rows": SMALL[0]}
    task = {"answers": "answers.csv", "submission": submission, "metric": {"file": "metric.py"}, "data": {}}

    def grades() -> None:
        for _ in range(GRADES):
            metrics(task, folder, content)

    with CodeMetricOptions().open() as metrics:
        metrics(task, folder, content)  # the warm process has started
        kept = best(grades)
        code_metrics.MAX_SUBMISSIONS = 1
        return best(grades) / GRADES, kept / GRADES


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, Path(folder)) for name in SIDES]
    heads = ["metric", "100,000 x 10, s", "pandas, s", "100 x 1, a second", "pandas, a second"]
    print(tabulate(rows, headers=heads, disable_numparse=True))
    with tempfile.TemporaryDirectory() as folder:
        count, size, many, one = command(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        anew, kept = coded(Path(folder))
    print(
        f"\na metric that is code, {SMALL[0]} rows: {anew:.3f} s a grade in a box made anew, {kept:.3f} s in one that is kept"
    )
    rate = (count - 1) / (many - one)
    print(
        f"\nmle-grade, {count} rollouts of {size} bytes: {many:.1f} s, of which {one:.1f} s to start; {rate:.0f} a second"
    )


if __name__ == "__main__":
    main()
