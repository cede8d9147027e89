"""A metric that is code and fails: on one submission that is a verdict, on all an error, and by the machine one, too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_metric_builders import code_metric_task
from conftest import mostly_slow, records, run_command

from mletools.base.errors import RecordError
from mletools.grading import Invalid, code
from mletools.grading.form import check_form, form_of
from mletools.grading.judge import of_machine
from mletools.sandbox import Limits
from mletools.tasks.code_metrics import CodeMetrics

# As an MLE-bench grade.py: it trusts the submission's form, and fails on what it does not expect.
TRUSTING = """
from sklearn.metrics import mean_squared_error

def grade(submission, answers):
    both = submission.merge(answers, on="id", suffixes=("", "_true"))
    return mean_squared_error(both["y_true"], both["y"])
"""
# Files that no metric needs to see, and what is said of them.
FORMS = {
    "id,y\n1,NaN\n2,3\n": "column 'y' of row '1' is 'NaN', not a finite number",
    "id,y\n1,10\n2,\n": "column 'y' of row '2' is '', not a finite number",
    "id,y\n1,abc\n2,3\n": "column 'y' of row '1' is 'abc', not a finite number",
    "id,y\n1,inf\n2,3\n": "column 'y' of row '1' is 'inf', not a finite number",
    "id,z\n1,10\n2,20\n": "column 'y' is missing; the columns are 'id', 'z'",
    "key,y\n1,10\n2,20\n": "column 'id' is missing; the columns are 'key', 'y'",
    "": "the file is empty",
    "id,y\n1,10\n": "1 of 2 rows are missing, for example id '2'",
    "id,y\n1,10\n1,10\n2,20\n": "id '1' appears twice",
    "id,y\n1,10\n3,20\n": "id '3' is not in the test set (1 such rows)",
}
# The same where the record says nothing of the cells, as an imported competition's: only the metric knows them.
UNKNOWN = {"id,y\n1,NaN\n2,3\n": "ValueError", "id,y\n1,abc\n2,3\n": "ValueError", "id,y\n1,inf\n2,3\n": "ValueError"}
GOOD = b"id,y\n1,11\n2,22\n"
FAILS = "the metric fails on this file ({}), though it scores {}"


def graded(folder: Path, *options: str) -> tuple[list[dict[str, Any]], str]:
    done = run_command("mle-grade", "-k", *options, "in.jsonl", cwd=folder)
    return [each["grade"] for each in records(done.stdout)], done.stderr.decode()


def failed(folder: Path, *options: str) -> str:
    done = run_command("mle-grade", "-k", *options, "in.jsonl", cwd=folder, check=False)
    assert done.returncode == 1
    return done.stderr.decode()


@pytest.mark.slow
def test_what_the_record_says_of_the_form_is_checked_before_the_metric_is_asked(tmp_path: Path) -> None:
    folder = code_metric_task(tmp_path, TRUSTING, [GOOD, *(text.encode() for text in FORMS)])
    (good, *bad), said = graded(folder)
    assert good["valid"] and good["score"] == 2.5
    assert [(each["valid"], each["reason"]) for each in bad] == [(False, reason) for reason in FORMS.values()]
    assert not any("metric_error" in each for each in bad)
    assert f"11 records, 1 valid, {len(FORMS)} invalid" in said


@pytest.mark.parametrize("sample", mostly_slow(["id,y\n1,0\n2,0\n", None], 1))
def test_a_metric_that_fails_on_one_file_alone_makes_it_invalid(tmp_path: Path, sample: str | None) -> None:
    public = {} if sample is None else {"sample_submission.csv": sample}
    files = [GOOD, *(text.encode() for text in UNKNOWN), GOOD]
    folder = code_metric_task(tmp_path, TRUSTING, files, public=public, parse="text")
    (first, *bad, last), said = graded(folder, "--max-rejects", "5", "--rejects", "rejects.jsonl")
    assert first["valid"] and last["valid"]
    what = "the answers" if sample is None else "the sample submission"
    assert [each["reason"] for each in bad] == [FAILS.format(kind, what) for kind in UNKNOWN.values()]
    assert not any(each["valid"] or each["score"] is not None for each in bad)
    assert "NaN" in bad[0]["metric_error"] and "abc" in bad[1]["metric_error"]
    assert f"{len(files)} records, 2 valid, 3 invalid, 3 on which the metric fails" in said
    assert not (folder / "rejects.jsonl").read_bytes()


QUIRKS = """
import os, sys
import pandas as pd
from mlebench.grade_helpers import InvalidSubmissionError

def grade(submission, answers):
    if "quirk" not in submission:
        return 1.0
    quirk = submission["quirk"][0]
    exec(quirk)
    if quirk.startswith("value = "):
        return eval(quirk.removeprefix("value = "))
    return 2.0
"""
# {what the metric does on a file: the score, or how it fails}
ENDS = {
    "os._exit(3)": "it ends with exit code 3",
    "os._exit(0)": "it leaves no result",
    "sys.exit('no')": "it ends with exit code 1",
    "os.abort()": "it ends with signal 6",
    "raise KeyboardInterrupt": "it ends with exit code 1",
    "value = None": "TypeError",
    "value = 'much'": "ValueError",
    "value = 10 ** 400": "OverflowError",
    "value = 1e300": 1e300,
    "value = '0.5'": 0.5,
    "value = float('nan')": "not a finite number",
    "value = float('inf')": "not a finite number",
    "print('x' * 100)": 2.0,
    "raise InvalidSubmissionError('no')": "no",
    "raise MemoryError": "MemoryError",
    "answers['none']": "KeyError",
    "int(str(list(answers.y)))": "ValueError",
}

# The same, where it is the machine's doing.
OF_THE_MACHINE = {
    "os.kill(os.getpid(), 9)": "was killed",
    "raise OSError(28, 'No space left on device')": "No space left on device",
}


@pytest.mark.slow
def test_every_end_of_a_metric_on_a_file_that_asks_for_it_is_a_verdict(tmp_path: Path) -> None:
    files = [f'id,y,quirk\n1,1,"{quirk}"\n2,2,\n'.encode() for quirk in (*ENDS, *OF_THE_MACHINE)]
    folder = code_metric_task(tmp_path, QUIRKS, files)
    grades, _ = graded(folder, "--max-rejects", str(len(OF_THE_MACHINE)), "--rejects", "rejects.jsonl")
    assert len(grades) == len(ENDS)
    rejects = records((folder / "rejects.jsonl").read_bytes())
    assert [each["line_number"] - len(ENDS) for each in rejects] == [1, 2]  # whatever the sample scores
    for reject, reason in zip(rejects, OF_THE_MACHINE.values(), strict=True):
        assert "the metric private/grade.py" in reject["reason"] and reason in reject["reason"]
    for (quirk, expected), grade in zip(ENDS.items(), grades, strict=True):
        if isinstance(expected, float):
            assert grade["score"] == expected, quirk
        else:
            assert not grade["valid"] and expected in grade["reason"], quirk
    said = dict(zip(ENDS, grades, strict=True))["int(str(list(answers.y)))"]
    assert "10, 20" in said["metric_error"] and "10" not in said["reason"]  # which an agent reads


@pytest.mark.parametrize(
    ("quirk", "options", "reason"),
    [
        ("while True: pass", ("--metric-timeout", "3"), "it takes too long"),
        pytest.param(
            "a = bytearray(900 << 20)",
            ("--metric-memory", "500"),
            "MemoryError|too much memory",
            marks=pytest.mark.slow,
        ),
        pytest.param("print('x' * (64 << 20))", (), "it prints too much", marks=pytest.mark.slow),
    ],
)
def test_a_limit_that_one_file_makes_the_metric_hit_is_a_verdict(
    tmp_path: Path, quirk: str, options: tuple[str, ...], reason: str
) -> None:
    folder = code_metric_task(tmp_path, QUIRKS, [GOOD, f'id,y,quirk\n1,1,"{quirk}"\n2,2,\n'.encode(), GOOD])
    (first, bad, last), _ = graded(folder, *options)
    assert first["score"] == last["score"] == 1
    assert not bad["valid"] and bad["metric_error"] and any(each in bad["reason"] for each in reason.split("|"))


NOTHING_SCORED = {
    "def grade(submission, answers):\n    raise ValueError('a bug')": "failed: Traceback",
    "import nothing_of_that_name": "failed: Traceback",
    "import os\ndef grade(submission, answers):\n    os._exit(3)": "failed: its process ended with exit code 3",
    "while True: pass": "ended with status timeout",
    "import os; os._exit(3)": "ended with status error",
    "def grade(submission, answers):\n    while True: pass": "ended with status timeout",
}


@pytest.fixture(scope="module")
def metrics() -> Iterator[CodeMetrics]:
    with CodeMetrics("local", Limits()) as opened:
        yield opened


@pytest.mark.parametrize("source", mostly_slow(NOTHING_SCORED, 1))
def test_a_metric_that_scores_nothing_is_an_error(metrics: CodeMetrics, tmp_path: Path, source: str) -> None:
    folder = code_metric_task(tmp_path, source, public={"sample_submission.csv": "id,y\n1,0\n2,0\n"})
    (task,) = records((folder / "tasks.jsonl").read_bytes())
    metrics.limits = Limits(wall_s=3.0 if "True" in source else 60.0)
    with pytest.raises(RecordError, match=f"^the metric private/grade.py {NOTHING_SCORED[source]}"):
        metrics(task, folder / "tasks/fish", GOOD)


def test_the_command_names_the_record_on_which_a_metric_that_scores_nothing_fails(tmp_path: Path) -> None:
    source = "import nothing_of_that_name"
    message = failed(code_metric_task(tmp_path, source, [GOOD]), "--metric-timeout", "60")
    assert f"in.jsonl:1: the metric private/grade.py {NOTHING_SCORED[source]}" in message


# Fails on the submission, and also on what is known to be good: nobody can tell whose fault it is.
PICKY = """
def grade(submission, answers):
    assert submission["y"][0] == 5
    return 1
"""


@pytest.mark.slow
def test_without_a_submission_that_it_scores_a_failure_stays_an_error_and_others_go_on(tmp_path: Path) -> None:
    folder = code_metric_task(tmp_path, PICKY, [b"id,y\n1,5\n2,5\n", GOOD, b"id,y\n1,5\n2,6\n"])
    message = failed(folder)
    assert "in.jsonl:2: the metric private/grade.py failed: Traceback" in message
    assert "it scores no submission that is known to be good" in message
    done = run_command("mle-grade", "-j2", "-k", "--max-rejects", "1", "--rejects", "bad.jsonl", "in.jsonl", cwd=folder)
    assert [each["id"] for each in records(done.stdout)] == ["r0", "r2"]


def test_a_shortage_behind_another_exception_is_the_machines() -> None:
    try:
        try:
            raise OSError(28, "No space left on device")
        except OSError as error:
            raise ValueError("cannot write") from error
    except ValueError as error:
        assert of_machine(error)
    assert not of_machine(FileNotFoundError(2, "no such file")) and not of_machine(None)


def test_what_the_program_says_is_checked() -> None:
    name = "private/grade.py"
    assert code.read_score(name, "ok", b'{"score": 2}', b"") == 2
    for said in (b'{"score": NaN}', b'{"score": null}', b'{"score": "1"}', b'{"score": Infinity}'):
        with pytest.raises(Invalid, match=r"the metric grade\.py of these predictions is not a finite number"):
            code.read_score(name, "ok", said, b"")
    for said, reason in (
        (b"rubbish", "wrote no JSON"),
        (b"5", "wrote no JSON"),
        (b"[]", "wrote no JSON"),
        (b'{"error": "x"}', "failed: x"),
        (None, "ended with status ok"),
    ):
        with pytest.raises(code.MetricFailed, match=reason):
            code.read_score(name, "ok", said, b"")
    for status, output in (
        ("killed", None),
        ("disk", None),
        ("error", None),
        ("ok", b'{"error": "", "by": "machine"}'),
    ):
        with pytest.raises(RecordError) as caught:
            code.read_score(name, status, output, b"")
        assert not isinstance(caught.value, code.MetricFailed), status


def checked(submission: bytes, answers: bytes | None, sample: bytes | None, **spec: Any) -> str | None:
    """What check_form says, None where it says nothing."""
    told = {"id": ["id"], "target": ["y"], "parse": "number", "rows": 2, **spec}
    try:
        check_form(form_of({"submission": told}, answers, sample), submission)
    except Invalid as invalid:
        return str(invalid)
    return None


def test_a_rule_that_the_tasks_own_sample_breaks_does_not_apply() -> None:
    answers, two = b"id,y\n1,10\n2,20\n", b"id,y\n1,1\n2,1\n"
    assert checked(b"id,z\n1,1\n2,1\n", answers, b"id,z\n1,1\n2,1\n") is None
    assert checked(b"id,y\n1,a b\n2,c\n", answers, b"id,y\n1,a b\n2,b\n") is None
    assert "not a finite number" in str(checked(b"id,y\n1,\n2,1\n", answers, b"id,y\n1,\n2,\n"))  # to be filled in
    assert "rows are missing" in str(checked(b"id,y\n1,1\n", answers, two))
    assert checked(b"id,y\n1,1\n", answers, b"id,y\n1,1\n") is None  # the sample lacks an id, too
    # ids that the sample has and the answers do not, and the other way round
    assert checked(b"id,y\n1,1\n2,1\n3,1\n", answers, two + b"3,1\n") is None
    assert "not in the test set" in str(checked(b"id,y\n1,1\n2,1\n4,1\n", answers, two + b"3,1\n"))
    # several rows an id, in the answers or in the sample
    assert checked(b"id,y\n1,1\n1,2\n2,1\n", answers + b"2,30\n", None) is None
    assert checked(b"id,y\n1,1\n1,2\n2,1\n", answers, two + b"1,1\n") is None


def test_without_ids_in_the_answers_those_of_the_sample_count() -> None:
    two = b"id,y\n1,1\n2,1\n"
    assert "rows are missing" in str(checked(b"id,y\n1,1\n", b'{"id": 1}\n', two))
    assert checked(b"id,y\n1.0,1\n02,1\n", None, two) is None  # numbers, as pandas reads them
    assert checked(b"id,y\n1,1\n", None, two, rows=7) is None  # an example of some rows
    assert checked(b"id,y\n9,1\n", None, None) is None
    assert checked(b"id,y\n1,1\n2,2\n3,3\n", None, two, rows=2, extra_rows="ignore") is None
    assert "is not allowed" in str(checked(b"id,y,z\n1,1,1\n2,2,2\n", None, two, extra_columns="refuse"))
    assert checked(b"id,y\n1,True\n2,False\n", None, two) is None
    assert checked(b"id,y\n1,\n2,x\n", None, two, empty_ok=True) is None


ONCE = """
import os
def grade(submission, answers):
    if submission["y"][0] == 5 and not os.path.exists("seen"):
        open("seen", "w").close()
        raise RuntimeError("by chance")
    return 1
"""


@pytest.mark.slow
def test_a_metric_that_fails_by_chance_is_asked_again(tmp_path: Path) -> None:
    grades, _ = graded(code_metric_task(tmp_path, ONCE, [b"id,y\n1,5\n2,5\n"]))
    assert [each["score"] for each in grades] == [1]


def test_the_sample_is_scored_once_a_task(tmp_path: Path) -> None:
    """But again where a file hits a limit: a machine that is too busy for the sample, too, says nothing of the file."""
    task = records((code_metric_task(tmp_path, QUIRKS) / "tasks.jsonl").read_bytes())[0]
    asked: list[bytes] = []

    class Recorded(CodeMetrics):
        def _score(self, key: Any, task: Any, folder: Path, content: bytes) -> float:
            asked.append(content)
            if b"limit" in content:
                raise code.MetricFailed("", "it takes too long", limit=True)
            if b"fail" in content:
                raise code.MetricFailed("", "ValueError")
            return 1.0

    with Recorded("local", Limits()) as metrics:
        for name, times in (("fail", 3), ("fail", 2), ("limit", 2), ("limit", 2), ("good", 1)):
            asked.clear()
            submission = f"id,y,{name}\n1,1,\n2,2,\n".encode()
            if name == "good":
                assert metrics(task, tmp_path / "tasks/fish", submission) == 1
            else:
                with pytest.raises(code.FailsOnThisFile, match="though it scores the answers"):
                    metrics(task, tmp_path / "tasks/fish", submission)
            assert len(asked) == times, name
