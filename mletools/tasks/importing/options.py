"""The options of an import, and what it imports."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from ...base.errors import OptionError
from ...base.options import option
from ...records.task import WrittenMetric, WrittenSubmission, WrittenTask
from .sheet import Dialect, encoding, separator

FORMATS = ("mle-bench", "mle-dojo", "sandmle", "kaggle", "table")
HARBOR = "harbor"  # the one format that holds no tasks: results of jobs
AUTHOR = "author"  # in the place of a format: the task's author describes the folder


def read_object(text: str) -> dict[str, object]:
    """The JSON object in a text. ValueError: it holds none."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


@dataclass(frozen=True)
class ImportOptions:
    """How folders and tables are read, and how their tasks are graded. `seed` is the run's."""

    format: str = option(
        "Format of the folders; auto detects it. harbor: results of jobs, which become rollouts.",
        default="auto",
        choices=("auto", *FORMATS, HARBOR),
    )
    repo: str | None = option(
        "A checkout of MLE-bench or MLE-Dojo, for descriptions, leaderboards and graders.",
        kind="existing folder",
        metavar="DIR",
        machine=True,
    )
    record: WrittenTask | None = option(  # noqa: RUF009
        "JSON object with fields of the task record, which override what would be detected. With answers, the folder "
        "may have any layout.",
        kind="existing file",
        metavar="FILE",
    )
    seal: str | None = option(
        "Check the hand-made tasks that FILE describes, and complete their records.",
        kind="file",
        metavar="FILE",
        machine=True,
    )
    metric: str | None = option("Grade with this metric (mle-grade --list-metrics).", metavar="NAME")
    metric_params: Mapping[str, object] | None = option(
        "Parameters of the metric, as a JSON object.", metavar="JSON", read=read_object
    )
    target: tuple[str, ...] = option(
        "Column to predict. Repeatable. [default: the other columns of the sample submission]",
        default=(),
        metavar="COLUMN",
    )
    id: str | None = option(
        "Column with the id. [default: the first column of the sample submission]", metavar="COLUMN"
    )
    answers: str | None = option("The answers for test.csv of a plain folder.", kind="existing file", metavar="FILE")
    description: str | None = option("The task's description, in Markdown.", kind="existing file", metavar="FILE")
    test_share: float = option(
        "Share of rows to hold out where the answers are not known.", default=0.2, above=0, below=1
    )
    separator: str | None = option(
        "Separator of a table's cells: comma, semicolon, tab, bar, space, or another character. [default: detected]",
        metavar="NAME",
        read=separator,
    )
    encoding: str | None = option(
        "Encoding of a table. [default: UTF-8, or another one that is certain]", metavar="NAME", read=encoding
    )
    decimal: str | None = option(
        "Decimal mark of a table. [default: a comma where all numbers fit and another character separates cells]",
        choices=(".", ","),
    )
    missing: tuple[str, ...] = option(
        "Text of a missing value, such as ?, in addition to empty cells, NA and the like. Repeatable.",
        default=(),
        metavar="TEXT",
    )
    keep_label: tuple[str, ...] = option(
        "A label of the target, such as None or NA, that would otherwise count as missing. Repeatable.",
        default=(),
        metavar="TEXT",
    )
    thresholds: str = option(
        "Where there is no leaderboard: medal thresholds from trained baselines, or no medals.",
        default="baselines",
        choices=("baselines", "none"),
    )
    lower_is_better: bool | None = option(
        "Direction of a grader that is code, where nothing else says it.",
        flags=("--lower-is-better/--higher-is-better",),
        switch=True,
    )
    seed: int = 0

    @property
    def dialect(self) -> Dialect:
        """How tables are read."""
        return Dialect(self.separator, self.encoding, self.decimal, self.missing)

    def with_record(self) -> "ImportOptions":
        """These options with what the record says of metric, parameters, id and targets."""
        record: WrittenTask = self.record or {}
        metric, submission = record.get("metric", WrittenMetric()), record.get("submission", WrittenSubmission())
        return replace(
            self,
            metric=self.metric or metric.get("name"),
            metric_params=self.metric_params or metric.get("params"),
            id=self.id or next(iter(submission.get("id", [])), None),
            target=self.target or tuple(submission.get("target", ())),
        )

    def check(self) -> None:
        """OptionError for options that contradict each other."""
        if self.format == HARBOR:
            self._check_alone("--format harbor", ("format", "seed"), "--tasks")
        elif self.seal is not None:
            self._check_alone("--seal", ("seal", "thresholds", "seed"))
        elif self.record is not None and "answers" in self.record:
            self._check_alone("--record with answers", ("record", "description", "thresholds", "seed"))
        else:
            self.with_record()._check_format()
            if self.record is not None and "file" in self.record.get("metric", WrittenMetric()):
                raise OptionError('--record: "metric.file" needs "answers", the file that the code compares with')
            record: WrittenTask = self.record or {}
            for name, said in (
                ("metric", "name" in record.get("metric", WrittenMetric())),
                ("id", "id" in record.get("submission", WrittenSubmission())),
            ):
                if getattr(self, name) and said:
                    raise OptionError(f"--{name} and --record both say it: leave one out")

    def _check_alone(self, what: str, beside: Sequence[str], source: str = "the record") -> None:
        """OptionError for any other option than those `beside`: `source` says it."""
        for field in fields(self):
            if field.name not in beside and getattr(self, field.name) != field.default:
                flag = field.name.replace("_", "-")
                raise OptionError(f"{what} takes the task from {source}: leave --{flag} out")

    def _check_format(self) -> None:
        if self.format == "kaggle" and not self.metric:
            raise OptionError("--format kaggle needs --metric: a plain folder does not say how it is graded")
        if self.format == "table" and not self.target:
            raise OptionError("--format table needs --target: a table does not say what is to be predicted")
        if self.metric_params is not None and not self.metric:
            raise OptionError("--metric-params goes with --metric")
        if self.metric and self.lower_is_better is not None:
            raise OptionError("--metric has its direction: leave --lower-is-better and --higher-is-better out")
        if self.format in ("kaggle", "table") and self.repo:
            raise OptionError(f"--repo goes with mle-bench and mle-dojo, not with --format {self.format}")


@dataclass(frozen=True)
class TrialOptions:
    """What is about the trials of Harbor's jobs alone; the run reads the other two."""

    tasks: str | None = option("The tasks that the jobs worked on.", kind="existing file", metavar="FILE", machine=True)
    max_rejects: int = option("Continue after up to N broken trials.", default=0, at_least=0, machine=True)
    rejects: str | None = option(
        "Write the broken trials and the reasons to FILE.", kind="output file", metavar="FILE", machine=True
    )

    def check(self, format: str) -> None:
        """OptionError: Harbor's jobs without tasks, or one of these for another `format`."""
        if format == HARBOR and self.tasks is None:
            raise OptionError("--format harbor needs --tasks FILE, the tasks that the jobs worked on")
        if format != HARBOR and self != TrialOptions():
            raise OptionError("--tasks, --rejects and --max-rejects are about --format harbor")


@dataclass(frozen=True)
class Candidate:
    """A folder (or a table's file) that holds a task of one of FORMATS, or one that its AUTHOR describes."""

    format: str
    name: str
    path: Path

    @property
    def source(self) -> str:
        return f"{self.format}:{self.name}"

    @property
    def task_name(self) -> str:
        """The name without characters that a task's name may not have."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.name)


@dataclass(frozen=True)
class Unprepared:
    """A folder that holds no task, and why."""

    name: str
    reason: str
