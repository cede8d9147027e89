"""The data strategist: structural DNA of a seed, scenarios for it, mutations, and the specification of one task.

SandMLE, section 4.1. Of the seed only its record and public files are looked at, and cells of text stay unseen. Not
covered: data, which the ML developer's script makes.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import PurePosixPath

from ... import prompts
from ...base.csv_files import CsvError, read_rows
from ...base.jsonl import dumps
from ...records.task import Task
from ..folder import Content, read, size
from .asking import Faulty, Talk
from .replies import json_of
from .specification import MODALITIES, Specification, object_at, offered, read_specification, text_at

ATTEMPTS = 3
SCENARIOS = 5
MUTATIONS = 3
DNA_KEYS = ("modality", "problem", "inputs", "target", "imbalance", "metric_family", "size")
MOST_DNA = 8000  # characters
# What the model is shown of a seed.
MOST_DESCRIPTION = 6000  # characters
MOST_READ = 2 << 20  # bytes of a table
MOST_ROWS = 5000
MOST_TABLES = 6
MOST_COLUMNS = 40


def structural_dna(talk: Talk, seed_task: Task, seed_files: Mapping[str, Content]) -> dict[str, object]:
    """The seed's structure without its story."""
    prompt = prompts.render("task-dna", seed=outline(seed_task, seed_files), modalities=", ".join(MODALITIES))
    story = _story(seed_task)

    def read(reply: str) -> dict[str, object]:
        value: dict[str, object] = json_of(reply, dict)
        lacking = [key for key in DNA_KEYS if value.get(key) in (None, "", [], {})]  # false is an answer
        if lacking:
            raise Faulty(f"the DNA says nothing of {', '.join(lacking)}")
        if value["modality"] not in MODALITIES:
            raise Faulty(f"modality must be one of {', '.join(MODALITIES)}")
        object_at(value, "target")
        text = dumps(value)
        if len(text) > MOST_DNA:
            raise Faulty(f"the DNA has {len(text)} characters; at most {MOST_DNA} are accepted")
        words = set(re.findall(r"[a-z0-9_]+", text.lower()))
        told = sorted(word for word in story if word in words)
        if told:
            raise Faulty(
                f"the DNA tells the story: {', '.join(told[:5])} stand(s) in it; write feature_1, feature_2, ..."
            )
        return value

    return talk.until("strategist.dna", prompt, read, ATTEMPTS)


def _story(seed_task: Task) -> set[str]:
    """Words that belong to the seed's story without doubt: its name and targets, where they join several words."""
    names = {str(seed_task["name"]).lower(), *(name.lower() for name in seed_task["submission"]["target"])}
    return {name for name in names if re.fullmatch(r"[a-z]+(_[a-z]+)+", name)}


def scenarios(talk: Talk, dna: Mapping[str, object]) -> list[dict[str, str]]:
    """SCENARIOS different industries that could give data of this structure: {"domain", "scenario", "justification"}."""
    prompt = prompts.render("task-scenarios", dna=dumps(dna), number=str(SCENARIOS))

    def read(reply: str) -> list[dict[str, str]]:
        value = json_of(reply, list)
        if len(value) < SCENARIOS or not all(isinstance(entry, Mapping) for entry in value):
            raise Faulty(f"the list must hold {SCENARIOS} objects with domain, scenario and justification")
        keys = ("domain", "scenario", "justification")
        found = [{key: text_at(entry, key, 1000) for key in keys} for entry in value[:SCENARIOS]]
        if len({entry["domain"].casefold() for entry in found}) < SCENARIOS:
            raise Faulty("the domains must differ from one another")
        return found

    return talk.until("strategist.scenarios", prompt, read, ATTEMPTS)


def mutations(talk: Talk, dna: Mapping[str, object], scenario: Mapping[str, str]) -> list[dict[str, object]]:
    """MUTATIONS that make the task harder: objects with a "type" each."""
    prompt = prompts.render("task-mutations", dna=dumps(dna), scenario=dumps(scenario), number=str(MUTATIONS))

    def read(reply: str) -> list[dict[str, object]]:
        value = json_of(reply, list)
        if len(value) != MUTATIONS or not all(isinstance(entry, Mapping) for entry in value):
            raise Faulty(f"the list must hold {MUTATIONS} objects with a type and its settings")
        if len({text_at(entry, "type", 80).casefold() for entry in value}) < MUTATIONS:
            raise Faulty("the types must differ from one another")
        if len(dumps(value)) > 4000:
            raise Faulty("the list is too long: a type and a few settings each are enough")
        return [dict(entry) for entry in value]

    return talk.until("strategist.mutations", prompt, read, ATTEMPTS)


def specification(
    talk: Talk,
    dna: Mapping[str, object],
    scenario: Mapping[str, str],
    mutated: list[dict[str, object]],
    rows: int,
) -> Specification:
    """What is to be made, concretely, of `rows` samples."""
    prompt = prompts.render(
        "task-specification",
        dna=dumps(dna),
        scenario=dumps(scenario),
        mutations=dumps(mutated),
        rows=str(rows),
        modalities=", ".join(MODALITIES),
        metrics=offered(),
    )
    return talk.until(
        "strategist.specification",
        prompt,
        lambda reply: read_specification(json_of(reply, dict), rows),
        ATTEMPTS,
    )


def outline(seed_task: Task, seed_files: Mapping[str, Content]) -> str:
    """Markdown about a seed task; `seed_files` are its public files by their name below public/."""
    metric, submission = seed_task["metric"], seed_task["submission"]
    better = "lower" if metric["lower_is_better"] else "higher"
    lines = [
        f"- modality: {seed_task['modality']}; problem: {seed_task['problem']}",
        f"- metric: {metric.get('name', 'a program of its own')}; {better} is better",
        f"- to be predicted: {submission['rows']} rows, columns {', '.join(submission['target'][:MOST_COLUMNS])},"
        f" cells read as {submission['parse']}",
        "",
        "## Files",
        "",
        *_files(seed_files),
        "",
        "## Tables",
        "",
        *_tables(seed_files),
        "",
        "## Its page",
        "",
        description_of(seed_task, MOST_DESCRIPTION),
    ]
    return "\n".join(lines)


def description_of(seed_task: Task, most: int) -> str:
    """The first `most` characters of a task's description."""
    text = str(seed_task["description"])
    return text if len(text) <= most else text[:most].rstrip() + "\n[...]"


def _files(files: Mapping[str, Content]) -> list[str]:
    """A line for each file at the top, and one for each folder and ending below it."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for name in sorted(files):
        path = PurePosixPath(name)
        what = name if len(path.parts) == 1 else f"{path.parts[0]}/*{path.suffix}"
        counts[what] += 1
        sizes[what] += size(files[name])
    return [f"- {what}: {counts[what]} file(s), {sizes[what]} bytes" for what in list(counts)[:100]]


def _tables(files: Mapping[str, Content]) -> list[str]:
    lines: list[str] = []
    tables = [name for name in sorted(files) if name.endswith(".csv") and "/" not in name]
    for name in tables[:MOST_TABLES]:
        rows = _rows(files[name])
        if not rows or not rows[0]:
            continue
        header, *body = rows
        columns = list(zip(*(row for row in body if len(row) == len(header)), strict=True)) or [()] * len(header)
        lines.append(f"{name}: {len(body)} rows read, {len(header)} columns")
        for column, cells in list(zip(header, columns, strict=True))[:MOST_COLUMNS]:
            lines.append(f"- {column}: {_figures(cells)}")
    return lines or ["(none)"]


def _rows(content: Content) -> list[list[str]]:
    """The first rows of a CSV file; none where it is no such thing."""
    head = read(content, MOST_READ)
    if len(head) == MOST_READ:
        head = head[: head.rfind(b"\n") + 1]
    try:
        return list(islice(read_rows(head, strict=False), MOST_ROWS + 1))
    except CsvError:
        return []


def _figures(cells: tuple[str, ...]) -> str:
    """A column in figures: gaps, different values, and range and skew of numbers or the length of texts."""
    there = [cell for cell in cells if cell]
    if not there:
        return "empty"
    different = Counter(there)
    told = [f"{len(different)} different values", f"{100 * (len(cells) - len(there)) / len(cells):.0f} % empty"]
    try:
        values = sorted(float(cell) for cell in there)
        if not all(math.isfinite(value) for value in values):
            raise ValueError
        middle, mean = values[len(values) // 2], sum(values) / len(values)
        told.append(f"numbers from {values[0]:.4g} to {values[-1]:.4g}, median {middle:.4g}, mean {mean:.4g}")
    except ValueError:
        lengths = [len(cell) for cell in there]
        told.append(f"texts of {min(lengths)} to {max(lengths)} characters")
    if len(different) <= 20:
        shares = [f"{100 * count / len(there):.0f}" for _, count in different.most_common()]
        told.append(f"shares {'/'.join(shares)} %")
    return ", ".join(told)
