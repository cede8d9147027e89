"""No submission of 32 MB takes 5 s of CPU or 512 MB to grade: it is scored within that, or it has a verdict without."""

import json
import subprocess
import sys

import pytest
from conftest import SUPPORT
from dear_submissions import FILES, ROWS, TASKS, cases, fillings

from mletools.grading import Invalid, score_bytes
from mletools.grading.metrics import METRICS
from mletools.grading.parsing import KINDS, LIMITS
from mletools.grading.submission import MAX_BYTES

CPU_S, MEMORY_MB = 5.0, 512.0
# One metric of each kind of cell, whose dearest submission is tried on every day.
QUICK = {
    "number": "rmse", "label": "f1_macro", "text": "levenshtein", "tokens": "levenshtein_per_token", "tagset": "jaccard_sets",
    "ranked": "map_at_k", "order": "kendall_tau_orders", "rle": "dice_mean", "spans": "f1_char_spans", "boxes": "map_voc",
}  # fmt: skip
# A process that has graded an honest submission, grades each of others in a fork, and says what that cost it.
GRADE = """
import json, os, resource, sys
sys.path.insert(0, sys.argv[1])
import dear_submissions as dear
from mletools.grading import Invalid, score_bytes

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

for metric, filling, form in json.loads(sys.argv[2]):
    if metric:
        task = dear.TASKS[metric]
        record, content = task.record(metric), dear.submission(task, dear.fillings(task)[filling], form)
    else:
        task, make = dear.FILES[filling]
        record, content = task.record("rmse"), make()
    answers = task.file()
    score_bytes(record, answers, task.honest())
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        before, began = peak(), os.times()
        try:
            verdict = f"score {score_bytes(record, answers, content)}"
        except Invalid as invalid:
            verdict = str(invalid)
        ended = os.times()
        used = ended.user + ended.system - began.user - began.system
        print(json.dumps([metric, filling, form, len(content), used, peak() - before, verdict]), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0, (metric, filling, form)
"""


def check(wanted: list[tuple[str, str, str]]) -> list[str]:
    """The verdicts on these submissions, none of which may have been dear."""
    asked = [sys.executable, "-c", GRADE, str(SUPPORT), json.dumps(wanted)]
    done = subprocess.run(asked, capture_output=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr.decode()
    verdicts = []
    for line in done.stdout.splitlines():
        *case, size, cpu_s, memory_mb, verdict = json.loads(line)
        assert size <= MAX_BYTES and verdict, case
        assert cpu_s < CPU_S and memory_mb < MEMORY_MB, (case, cpu_s, memory_mb, verdict)
        verdicts.append(verdict)
    assert len(verdicts) == len(wanted)
    return verdicts


@pytest.mark.slow
def test_every_kind_of_cell_and_every_metric_has_dear_submissions() -> None:
    assert sorted(TASKS) == sorted(METRICS)
    assert set(LIMITS) == set(KINDS) == set(QUICK) == {task.kind for task in TASKS.values()}
    for metric, task in TASKS.items():
        assert task.kind in METRICS[metric].parse and len(fillings(task)) >= 2
        score_bytes(task.record(metric), task.file(), task.honest())


@pytest.mark.slow
def test_cells_of_600_kb_are_refused_for_every_kind_of_cell() -> None:
    wanted = [(metric, next(iter(fillings(TASKS[metric]))), "every cell of 600 KB") for metric in QUICK.values()]
    files = [("", name, "") for name in ("a row of 11 million cells", "33 million empty lines")]
    *verdicts, wide, empty = check(wanted + files)
    assert all("characters" in verdict and "at most" in verdict for verdict in verdicts)
    assert wide == "line 2 belongs to a row of more than 1000000 commas" and "empty lines" in empty


# By `make test-slow` one of each kind of cell, the others at night: half a minute each.
OFTEN = {*QUICK.values(), "mask_fbeta_over_iou"}


@pytest.mark.parametrize(
    "metric",
    [pytest.param(each, marks=pytest.mark.slow if each in OFTEN else pytest.mark.nightly) for each in sorted(METRICS)],
)
def test_the_dearest_of_each_metric(metric: str) -> None:
    check([case for case in cases() if case[0] == metric])


@pytest.mark.slow
def test_files_that_are_dear_whatever_their_cells() -> None:
    assert not any(verdict.startswith("score") for verdict in check([("", name, "") for name in FILES]))


@pytest.mark.slow
def test_honest_submissions_that_are_longer_than_the_answers_are_scored() -> None:
    """Twice as many boxes, noisy masks, long texts, whole rankings where ten items count."""
    for metric, task in TASKS.items():
        if task.kind not in ("number", "label", "order") and metric not in (
            "nq_f1",
            "spearman_lists",
            "mask_fbeta_over_iou",
        ):
            cell = task.cell(0)
            glue = ";" if task.kind == "spans" else " "
            score_bytes(task.record(metric), task.file(), task.file(dict.fromkeys(range(ROWS), glue.join([cell] * 3))))
    ranked = TASKS["map_at_k"]
    whole = " ".join(str(1_000_000 + at) for at in range(5_000))
    assert score_bytes(ranked.record("map_at_k"), ranked.file(), ranked.file(dict.fromkeys(range(ROWS), whole))) == 0


def test_a_limit_grows_with_the_answers_and_tells_nothing_of_them() -> None:
    record = TASKS["levenshtein"].record("levenshtein")

    def grade(answer: int, said: int) -> float:
        return score_bytes(record, f"id,y\n1,{'a' * answer}\n".encode(), f"id,y\n1,{'a' * said}\n".encode())

    assert grade(10, 100_000) == 99_990
    with pytest.raises(Invalid, match=r"^column 'y' of row '1' has 100001 characters; at most 100000 are read$"):
        grade(10, 100_001)
    assert grade(20_000, 262_144) == 242_144  # 200,000 rounded up to a power of two
    with pytest.raises(Invalid, match=r"has 262145 characters; at most 262144 are read$"):
        grade(20_000, 262_145)
    with pytest.raises(Invalid, match=r"^column 'id' of row 1 of the file has 2000 characters; at most 1000 are read$"):
        score_bytes(record, b"id,y\n1,a\n", f"id,y\n{'0' * 1999}1,a\n".encode())
