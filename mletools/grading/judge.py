"""Runs inside a session of a sandbox: loads a metric that is code once, and says what it makes of each submission.

Reads ./input: judge.json {"file", "style", "answers"}, the metric's file and those beside it, the answers. `judge` is called
for each submission. It writes JSON to ./submission.csv, the one file that leaves a sandbox: {"score": number},
{"invalid": reason} or {"error": trace}. It works in a fork of the process that loaded the metric, so no submission meets
what an earlier one left in memory. A submission that pandas cannot read is invalid. Styles:

    function   grade(submission, answers) -> score, data frames, as MLE-bench's graders
    class      a subclass of CompetitionMetrics with evaluate(y_true, y_pred) and validate_submission, as MLE-Dojo's
    script     `--submission_path FILE` prints JSON with "score" or "error", as SandMLE's evaluators

It knows nothing of mletools, which is not there. What such files import of their own benchmark (an exception, a base
class) stands in for it unless the benchmark itself is installed.
"""

import base64
import contextlib
import importlib.abc
import importlib.util
import io
import json
import os
import runpy
import signal
import sys
import traceback
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from typing import Any

HOME = os.getcwd()
INPUT, SUBMISSION, SAID = (os.path.join(HOME, name) for name in ("input", "judged.csv", "submission.csv"))
LOADED: dict[str, Any] = {}  # the metric's module, "main": of a script it is run each time


class InvalidSubmissionError(Exception):
    """What a benchmark's metric raises to refuse a submission."""


class Unreadable(InvalidSubmissionError):
    """The submission is no CSV file."""


class CompetitionMetrics:
    """The base of MLE-Dojo's metric classes."""

    def __init__(self, higher_is_better: bool = True) -> None:
        self.higher_is_better = higher_is_better


class _Beside(importlib.abc.MetaPathFinder):
    """Finds mlebench.competitions.NAME.module among the files beside the metric; its packages are empty."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
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

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _stand_in(name: str, **contents: Any) -> None:
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__.update(contents)
    sys.modules[name] = module


def _logger(name: str = "metric", *_: Any) -> Any:
    import logging

    return logging.getLogger(name)


def stand_in() -> None:
    """Names that metrics import from benchmarks that are not installed here."""
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
    """A data frame, or of JSON Lines a list of objects, as MLE-bench hands them over."""
    import pandas

    if path.endswith(".jsonl"):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.strip()]
    return pandas.read_csv(path)


def read_submission() -> Any:
    """The submission as pandas reads it; Unreadable where it cannot, whose fault only the submission can be."""
    import pandas

    try:
        return pandas.read_csv(SUBMISSION)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise Unreadable(f"the file cannot be read as CSV: {' '.join(str(error).split())}") from None


def load(path: str) -> dict[str, Any]:
    """The metric's file as a module of a benchmark's package, so that it finds what lies beside it."""
    spec = importlib.util.spec_from_file_location("mlebench.competitions.judged.metric", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return vars(module)


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
    said = json.loads(out.getvalue().strip().rpartition("\n")[2] if out.getvalue().strip() else "null")
    if isinstance(said, dict) and said.get("error"):
        raise InvalidSubmissionError(str(said["error"]))
    return said["score"]


BY = {"function": by_function, "class": by_class, "script": by_script}


def asked() -> dict[str, str]:
    with open(os.path.join(INPUT, "judge.json"), encoding="utf-8") as file:
        request: dict[str, str] = json.load(file)
    return request


def prepare() -> None:
    """Load the metric, where it is no script; what it raises is an error of each judgement."""
    sys.path.insert(0, INPUT)
    stand_in()
    if asked()["style"] == "script":
        return
    try:
        LOADED.update(load(os.path.join(INPUT, asked()["file"])))
    except Exception:
        LOADED["mletools error"] = traceback.format_exc()


def verdict(content: bytes) -> dict[str, Any]:
    """What the metric says of a submission, as an object that can be written as JSON."""
    if "mletools error" in LOADED:
        return {"error": LOADED["mletools error"][-4000:]}
    with open(SUBMISSION, "wb") as file:
        file.write(content)
    wanted = asked()
    try:
        score = BY[wanted["style"]](os.path.join(INPUT, wanted["file"]), os.path.join(INPUT, wanted["answers"]))
        return {"score": float(score)}
    except Exception as error:
        if type(error).__name__ in ("InvalidSubmissionError", "Unreadable"):
            return {"invalid": str(error)[:2000] or "refused without a reason"}
        return {"error": traceback.format_exc()[-4000:]}


def judge(encoded: str) -> None:
    """Write the verdict on a submission, in base64, from a fork of this process; RuntimeError where the fork ends badly."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SAID)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            said = json.dumps(verdict(base64.b64decode(encoded)))
            os.chdir(HOME)
            with open(SAID, "w", encoding="utf-8") as file:
                file.write(said)
            code = 0
        finally:
            os._exit(code)
    try:
        ended = os.waitpid(child, 0)[1]
    finally:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                kill(child, signal.SIGKILL)
    if ended:
        raise RuntimeError(f"the metric's process ended with status {ended}")
