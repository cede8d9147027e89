"""Runs inside a sandbox, as a program of its own: computes a metric that is code, and writes what it says.

Reads ./input: judge.json {"file", "style", "answers", "packages"}, the metric's file and those beside it, the answers
and submission.csv. Writes JSON to ./submission.csv, the one file that leaves a sandbox: {"score": number},
{"invalid": reason} or {"error": trace}. Styles:

    function   grade(submission, answers) -> score, data frames, as MLE-bench's graders
    class      a subclass of CompetitionMetrics with evaluate(y_true, y_pred) and validate_submission, as MLE-Dojo's
    script     `--submission_path FILE` prints JSON with "score" or "error", as SandMLE's evaluators

It knows nothing of mletools, which is not there. What such files import of their own benchmark (an exception, a base
class) stands in for it unless the benchmark itself is installed.
"""

import contextlib
import importlib.abc
import importlib.util
import io
import json
import os
import runpy
import sys
import traceback
import types

INPUT = os.path.abspath("input")


class InvalidSubmissionError(Exception):
    """What a benchmark's metric raises to refuse a submission."""


class CompetitionMetrics:
    """The base of MLE-Dojo's metric classes."""

    def __init__(self, higher_is_better=True):
        self.higher_is_better = higher_is_better


class _Beside(importlib.abc.MetaPathFinder):
    """Finds mlebench.competitions.NAME.module among the files beside the metric; its packages are empty."""

    def find_spec(self, name, path=None, target=None):
        if not name.startswith("mlebench.competitions"):
            return None
        file = os.path.join(INPUT, name.rpartition(".")[2] + ".py")
        if name.count(".") >= 2 and os.path.exists(file):
            return importlib.util.spec_from_file_location(name, file)
        return importlib.util.spec_from_loader(name, loader=_Empty(), is_package=True)


class _Empty(importlib.abc.Loader):
    def create_module(self, spec):
        return None

    def exec_module(self, module):
        pass


def _stand_in(name, **contents):
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__.update(contents)
    sys.modules[name] = module


def _logger(name="metric", *_):
    import logging

    return logging.getLogger(name)


def stand_in():
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


def read(path):
    """A data frame, or of JSON Lines a list of objects, as MLE-bench hands them over."""
    import pandas

    if path.endswith(".jsonl"):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.strip()]
    return pandas.read_csv(path)


def load(path):
    """The metric's file as a module of a benchmark's package, so that it finds what lies beside it."""
    spec = importlib.util.spec_from_file_location("mlebench.competitions.judged.metric", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return vars(module)


def by_function(path, answers):
    return load(path)["grade"](read(os.path.join(INPUT, "submission.csv")), read(answers))


def by_class(path, answers):
    kinds = [kind for kind in load(path).values() if isinstance(kind, type) and hasattr(kind, "evaluate")]
    judge = kinds[-1]()
    submission = os.path.join(INPUT, "submission.csv")
    judge.validate_submission(read(submission), read(answers))
    return judge.evaluate(read(answers), read(submission))


def by_script(path, answers):
    out = io.StringIO()
    sys.argv = [path, "--submission_path", os.path.join(INPUT, "submission.csv")]
    os.chdir(INPUT)
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        runpy.run_path(path, run_name="__main__")
    said = json.loads(out.getvalue().strip().rpartition("\n")[2] if out.getvalue().strip() else "null")
    if isinstance(said, dict) and said.get("error"):
        raise InvalidSubmissionError(str(said["error"]))
    return said["score"]


def main():
    with open(os.path.join(INPUT, "judge.json"), encoding="utf-8") as file:
        asked = json.load(file)
    home = os.getcwd()
    sys.path.insert(0, INPUT)
    stand_in()
    judge = {"function": by_function, "class": by_class, "script": by_script}[asked["style"]]
    try:
        score = judge(os.path.join(INPUT, asked["file"]), os.path.join(INPUT, asked["answers"]))
        said: dict[str, object] = {"score": float(score)}
    except Exception as error:
        if type(error).__name__ == "InvalidSubmissionError":
            said = {"invalid": str(error)[:2000] or "refused without a reason"}
        else:
            said = {"error": traceback.format_exc()[-4000:]}
    os.chdir(home)
    with open("submission.csv", "w", encoding="utf-8") as file:
        json.dump(said, file)


if __name__ == "__main__":
    main()
