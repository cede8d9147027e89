"""What the package knows of public competitions: how each benchmark grades them, one line of competitions.jsonl each.

Not covered: data, descriptions and leaderboards, which lie in the benchmarks' own folders.
"""

import functools
import json
from pathlib import Path
from typing import Literal, NotRequired

from ...records.task import AnswersFormat, MetricSpec, WrittenSubmission

FILE = Path(__file__).parent / "competitions.jsonl"


class Competition(AnswersFormat):
    """How a benchmark grades a competition: by the record's metric, by its own code, or in a way that is not supported."""

    benchmark: str
    competition: str
    support: Literal["record", "code", "no"]
    metric: MetricSpec
    submission: WrittenSubmission
    answers: str
    sample_submission: NotRequired[str]
    split: NotRequired[str]
    note: NotRequired[str]


@functools.cache
def _known(path: Path) -> dict[tuple[str, str], Competition]:
    if not path.exists():
        return {}
    lines: list[Competition] = [
        json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()
    ]
    return {(line["benchmark"], line["competition"]): line for line in lines}


def competition(benchmark: str, name: str) -> Competition | None:
    """The entry of that competition in that benchmark, None where there is none."""
    return _known(FILE).get((benchmark, name))


def benchmarks_of(name: str) -> list[str]:
    """The benchmarks that have a competition of that name."""
    return [benchmark for benchmark, competition in _known(FILE) if competition == name]
