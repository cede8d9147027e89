"""Runs inside a sandbox session: loads a metric that is code once, and applies it to each submission.

Reads ./input: judge.json {"file", "style", "answers"}, the metric's file and those beside it, the answers. `judge` is
called for each submission. It writes JSON to ./verdict.json, which the sandbox hands out: {"score": number},
{"invalid": reason} or {"error": trace, "by": who failed, "type": the exception's, "said": its text}. Who failed is the
metric on this submission ("metric"), the metric whatever it judges ("loading") or the machine ("machine"). It runs in a
fork of the process that loaded the metric, so submissions share no memory. A submission that pandas cannot read is invalid. Styles:

    function   grade(submission, answers) -> score, data frames, as MLE-bench's graders
    class      a subclass of CompetitionMetrics with evaluate(y_true, y_pred) and validate_submission, as MLE-Dojo's
    script     `--submission_path FILE` prints JSON with "score" or "error", as SandMLE's evaluators

mletools is not available here. Names that such files import from their benchmark (an exception, a base class) are
replaced by stand-ins unless the benchmark is installed.
"""

import base64
import contextlib
import errno
import importlib.abc
import importlib.util
import io
import json
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypedDict

HOME = os.getcwd()
INPUT, SUBMISSION, RESULT = (os.path.join(HOME, name) for name in ("input", "judged.csv", "verdict.json"))
LOADED: dict[str, Any] = {}  # the metric's module; empty for a script, which runs each time
# What a machine lacks, or somebody outside does; no submission is to blame for it.
SHORTAGES = {
    errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN,
}  # fmt: skip
OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGSTOP}
UNWRITTEN = 74  # the exit code of a judging process that cannot write its files


class InvalidSubmissionError(Exception):
    """Raised by a benchmark's metric to reject a submission."""


class Unreadable(InvalidSubmissionError):
    """The submission is not a CSV file."""


class CompetitionMetrics:
    """The base of MLE-Dojo's metric classes."""

    def __init__(self, higher_is_better: bool = True) -> None:
        self.higher_is_better = higher_is_better


class _Beside(importlib.abc.MetaPathFinder):
    """Finds mlebench.competitions.NAME.module among the files beside the metric; its packages are empty."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("mlebench.competitions"):
            return None
        file = os.path.join(INPUT, name.rpartition(".")[2] + ".py")
        if name.count(".") >= 2 and os.path.exists(file):
            return importlib.util.spec_from_file_location(name, file)
        return importlib.util.spec_from_loader(name, loader=_Empty(), is_package=True)


class _Empty(importlib.abc.Loader):
    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        pass


def _stand_in(name: str, **contents: Any) -> None:
    module = ModuleType(name)
    module.__path__ = []
    module.__dict__.update(contents)
    sys.modules[name] = module


def _logger(name: str = "metric", *_: Any) -> Any:
    import logging

    return logging.getLogger(name)


def stand_in() -> None:
    """Define the names that metrics import from benchmarks that are not installed."""
    if importlib.util.find_spec("mlebench") is None:
        _stand_in("mlebench")
        _stand_in("mlebench.grade_helpers", InvalidSubmissionError=InvalidSubmissionError)
        _stand_in("mlebench.utils", get_logger=_logger)
    sys.meta_path.append(_Beside())
    if importlib.util.find_spec("mledojo") is None:
        _stand_in("mledojo")
        _stand_in("mledojo.metrics")
        _stand_in(
            "mledojo.metrics.base", CompetitionMetrics=CompetitionMetrics, InvalidSubmissionError=InvalidSubmissionError
        )


def read(path: str) -> Any:
    """A data frame, or a list of objects for JSON Lines, as in MLE-bench."""
    import pandas

    if path.endswith(".jsonl"):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.strip()]
    return pandas.read_csv(path)


def read_submission() -> Any:
    """The submission as a data frame; Unreadable where pandas cannot read it."""
    import pandas

    try:
        return pandas.read_csv(SUBMISSION)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise Unreadable(f"the file cannot be read as CSV: {' '.join(str(error).split())}") from None


class Verdict(TypedDict, total=False):
    """The score; or why the submission is invalid; or an error, by whom, of which type, in its own words."""

    score: float
    invalid: str
    error: str
    by: str
    type: str
    said: str


def load(path: str) -> ModuleType:
    """Import the metric's file as a module of a benchmark's package, so that it can import the files beside it."""
    spec = importlib.util.spec_from_file_location("mlebench.competitions.judged.metric", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def by_function(path: str, answers: str) -> Any:
    return LOADED["grade"](read_submission(), read(answers))


def by_class(path: str, answers: str) -> Any:
    kinds = [kind for kind in LOADED.values() if isinstance(kind, type) and hasattr(kind, "evaluate")]
    metric = kinds[-1]()
    metric.validate_submission(read_submission(), read(answers))
    return metric.evaluate(read(answers), read_submission())


def by_script(path: str, answers: str) -> Any:
    out = io.StringIO()
    sys.argv = [path, "--submission_path", SUBMISSION]
    os.chdir(INPUT)
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        runpy.run_path(path, run_name="__main__")
    result = json.loads(out.getvalue().strip().rpartition("\n")[2] if out.getvalue().strip() else "null")
    if isinstance(result, dict) and result.get("error"):
        raise InvalidSubmissionError(str(result["error"]))
    return result["score"]


BY = {"function": by_function, "class": by_class, "script": by_script}


def read_request() -> dict[str, str]:
    with open(os.path.join(INPUT, "judge.json"), encoding="utf-8") as file:
        request: dict[str, str] = json.load(file)
    return request


def prepare() -> None:
    """Load the metric, unless it is a script. An exception becomes the error of each verdict."""
    sys.path.insert(0, INPUT)
    stand_in()
    request = read_request()
    if request["style"] == "script":
        return
    try:
        LOADED.update(vars(load(os.path.join(INPUT, request["file"]))))
    except Exception:
        LOADED["mletools error"] = traceback.format_exc()


def verdict(content: bytes) -> Verdict:
    """The metric's verdict on a submission, as JSON values."""
    if "mletools error" in LOADED:
        return {"error": LOADED["mletools error"][-4000:], "by": "loading"}
    with open(SUBMISSION, "wb") as file:
        file.write(content)
    request = read_request()
    try:
        score = BY[request["style"]](os.path.join(INPUT, request["file"]), os.path.join(INPUT, request["answers"]))
        return {"score": float(score)}
    except Exception as error:
        if type(error).__name__ in ("InvalidSubmissionError", "Unreadable"):
            return {"invalid": str(error)[:2000] or "rejected without a reason"}
        by = "machine" if of_machine(error) else "metric"
        said = " ".join(str(error).split())[:500]
        return {"error": traceback.format_exc()[-4000:], "by": by, "type": type(error).__name__[:100], "said": said}


def of_machine(error: BaseException | None) -> bool:
    """Whether an exception, or one that it came from, is a shortage of the machine's."""
    for _ in range(100):  # a chain may be a circle
        if error is None or (isinstance(error, OSError) and error.errno in SHORTAGES):
            break
        error = error.__cause__ or error.__context__
    return isinstance(error, OSError) and error.errno in SHORTAGES


def write_result(result: Verdict) -> None:
    with open(RESULT, "w", encoding="utf-8") as file:
        file.write(json.dumps(result))


def judge(encoded: str) -> None:
    """Write the verdict on a base64 submission from a fork of this process.

    RuntimeError or OSError where this machine does not let it: the fork fails, is killed, or cannot write.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(RESULT)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            write_result(verdict(base64.b64decode(encoded)))
            code = 0
        except OSError:
            code = UNWRITTEN
        finally:
            os._exit(code)
    try:
        status = os.waitpid(child, 0)[1]
    finally:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                kill(child, signal.SIGKILL)
    if not status:
        return
    code = os.waitstatus_to_exitcode(status)
    if code == UNWRITTEN or -code in OUTSIDE:
        raise RuntimeError(f"the metric's process {'cannot write its files' if code > 0 else 'was killed'} ({code})")
    ended = f"exit code {code}" if code > 0 else f"signal {-code}"
    write_result({"error": f"its process ended with {ended}", "by": "metric", "type": f"it ends with {ended}"})
