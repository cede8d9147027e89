"""The technical writer: the page of a task, checked for what it must name and for what it must not.

The writer is shown neither the rule nor the script nor the thresholds. Not covered: style.
"""

import re
from collections import Counter

from ... import prompts
from ...base.jsonl import dumps
from ...records.task import Task
from .asking import Faulty, Talk
from .environment import FOLDERS, SAMPLE, TEST, TRAIN, Environment
from .replies import page_of
from .specification import WORDS, Specification
from .strategist import description_of

ATTEMPTS = 3
LEAST, MOST = 400, 20_000  # characters of a page
MOST_EXAMPLE = 3000
FORBIDDEN = (
    "answer.csv",
    "answers.csv",
    "ceiling_submission.csv",
    "leaderboard.csv",
    "private/",
    "threshold.json",
    "evaluator.py",
    "generate_task_env",
    "hidden rule",
    "hidden_rule",
    "hidden answers",
)
RULE_WORDS = 6  # so many words of the rule in a row are the rule


def write_page(talk: Talk, wanted: Specification, environment: Environment, seed_task: Task) -> str:
    """The Markdown of description.md."""
    direction = wanted.direction.capitalize()
    prompt = prompts.render(
        "task-description",
        title=wanted.title,
        context=str(wanted.told["context"]),
        modality=wanted.modality,
        problem=wanted.problem,
        features=dumps(
            {name: {key: each[key] for key in ("meaning", "unit")} for name, each in wanted.features.items()}
        ),
        targets=dumps(wanted.told["target"]),
        files="\n".join(_files(environment)),
        tables="\n".join(_tables(environment)),
        key=wanted.key,
        columns=", ".join([wanted.key, *wanted.columns]),
        cells=WORDS[wanted.form],
        sample="\n".join(environment.files[SAMPLE].decode().split("\n")[:4]),
        metric=wanted.metric_title,
        definition=f"{wanted.metric_definition} {direction}.",
        example=description_of(seed_task, MOST_EXAMPLE),
    )

    def read(reply: str) -> str:
        page = page_of(reply)
        problem = problem_of(page, wanted, environment)
        if problem:
            raise Faulty(problem)
        return page

    return talk.until("writer", prompt, read, ATTEMPTS)


def problem_of(page: str, wanted: Specification, environment: Environment) -> str:
    """What is wrong with a page, in words; "" where nothing is."""
    if not LEAST <= len(page) <= MOST:
        return f"the page has {len(page)} characters; {LEAST} to {MOST} are asked for"
    lower = page.lower()
    told = [word for word in FORBIDDEN if word in lower]
    if told:
        return f"the page must not mention {', '.join(told)}"
    if _tells_rule(page, wanted.rule):
        return "the page tells how the target came about: leave the rule out"
    names = [*environment.sheets[TRAIN].header, wanted.key, *wanted.columns]
    lacking = sorted({name for name in names if not _names(page, name)})
    if lacking:
        return (
            f"the page does not name the column(s) {', '.join(lacking[:20])}: write each name as it stands in the files"
        )
    files = [TRAIN, TEST, SAMPLE, *_folders(environment)]
    lost = [name for name in files if name not in page]
    if lost:
        return f"the page does not name the file(s) {', '.join(lost)}"
    if _plain(wanted.metric_title) not in _plain(page):
        return f"the page does not name the metric, {wanted.metric_title}"
    if wanted.direction.partition(" ")[0] not in lower:
        return f"the page does not say that {wanted.direction}"
    if "submission.csv" not in page.replace("sample_submission.csv", ""):
        return "the page does not say that predictions are written to submission.csv"
    return ""


def _names(page: str, column: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(column)}(?![A-Za-z0-9_])", page) is not None


def _plain(text: str) -> str:
    """Words of letters and digits, in small letters, with one space between them."""
    return " ".join(re.findall(r"[a-z0-9.]+", text.lower().replace("_", " ")))


def _tells_rule(page: str, rule: str) -> bool:
    words, there = _plain(rule).split(), f" {_plain(page)} "
    length = min(RULE_WORDS, len(words))
    runs = (" ".join(words[at : at + length]) for at in range(len(words) - length + 1))
    return any(f" {run} " in there for run in runs)


def _folders(environment: Environment) -> list[str]:
    return [folder for folder in FOLDERS if any(name.startswith(folder) for name in environment.public)]


def _files(environment: Environment) -> list[str]:
    lines = [
        f"- train.csv: {environment.sheets[TRAIN].rows} rows, to learn from",
        f"- test.csv: {environment.sheets[TEST].rows} rows, to be predicted",
        "- sample_submission.csv: a submission in the right format with dummy predictions",
        "- description.md: this page",
    ]
    for folder in _folders(environment):
        endings = Counter(name.rpartition(".")[2] for name in environment.public if name.startswith(folder))
        told = ", ".join(f"{count} .{ending}" for ending, count in sorted(endings.items()))
        lines.append(f"- {folder}: {told}")
    return lines


def _tables(environment: Environment) -> list[str]:
    """The columns of the tables, each with some of its values."""
    lines = [
        f"- test.csv: {', '.join(environment.sheets[TEST].header)}",
        f"- train.csv: {', '.join(environment.sheets[TRAIN].header)}; for example",
    ]
    for name in environment.sheets[TRAIN].header:
        examples = [cell[:60] for cell in environment.sheets[TRAIN].cells[name][:3]]
        lines.append(f"  - {name}: {' | '.join(examples)}")
    return lines
