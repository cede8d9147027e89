"""A task as a folder in Harbor's format (task.toml, schema 1.4): what an agent gets, how its work is graded, a solution.

    task.toml         image, limits, no network; the verifier in a box of its own
    instruction.md    the task's description, and where to work
    environment/      input/: the public files, and nothing else
    tests/            test.sh grades with mle-grade; the record and the files that grading reads
    solution/         solve.sh runs the strongest standard program, or hands in the sample

Covered: every task that mle-grade can grade. The bytes are those of the record, its files and the settings alone. Not
covered: building or pushing the image.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..base.errors import RecordError
from ..base.options import option
from ..grading.private_data import check_data, task_folder
from ..records.places import private_files
from ..records.sample import is_sample
from ..records.task import Task
from ..solutions import solves
from ..solutions.bank import choices, program
from ..solutions.programs import sample_file
from ..tasks.folder import Content, data_digest, same
from ..tasks.tree import spelled_out

WORKDIR = "/workdir"
SUBMISSION = f"{WORKDIR}/submission.csv"
DATA = "task"  # of tests/: the folder that the record there names
_BLOCK = 1 << 20

TEST = """\
#!/bin/bash
# Grades {submission} by the files beside this script. The verdict, as numbers: /logs/verifier/reward.json
mkdir -p /logs/verifier
rm -rf /logs/verifier/reward.json /logs/verifier/reward.txt
cd "$(dirname "$0")" || exit 1
mle-grade --submission {submission} --task task.jsonl --data . {options} \\
  --reward-json /logs/verifier/reward.json > /logs/verifier/verdict.jsonl
"""
SOLVE = """\
#!/bin/bash
cd {workdir} || exit 1
python3 "$(dirname "$0")/solution.py"
"""
DOCKERFILE = """\
FROM {image}
WORKDIR {workdir}
COPY input {workdir}/input
"""
WORK = """\
Work in `{workdir}`; the data lie in `{workdir}/input/`. When you have finished, `{submission}` must be
there: that file is graded, once, and nothing else. You have {minutes} and no access to the network.

"""


@dataclass(frozen=True)
class HarborOptions:
    """What stands in task.toml beside the task. `agent_timeout` in seconds; `memory`, `storage` in MB."""

    image: str | None = option(
        "The image that agents work in and mle-grade runs in (default: mletools-tasks:VERSION, as `make image KIND=tasks` "
        "names it).",
        metavar="IMAGE",
    )
    dockerfile: bool = option(
        "Write one Dockerfile per task, to be built, instead of naming one image for all tasks.",
        default=False,
    )
    verifier: str = option(
        "separate: the agent's container never holds the answers. shared: for readers that know no other form; the "
        "answers are copied into the container that the agent has worked in, where a process that it left running "
        "could read them.",
        default="separate",
        choices=("separate", "shared"),
    )
    agent_timeout: float = option("Time limit of an agent.", default=3600.0, above=0, kind="seconds")
    cpus: int = option("Processors per container.", default=2, at_least=1)
    memory: int = option("Memory per container.", default=8192, at_least=256, metavar="MB")
    storage: int = option("Disk per container.", default=10240, at_least=256, metavar="MB")
    gpus: int = option("GPUs per container.", default=0, at_least=0)
    org: str = option("Organisation: the part of a task's name before the slash.", default="mletools", metavar="NAME")

    def named(self, version: str) -> "HarborOptions":
        """The options with the image of this version of mletools, where none is given."""
        return replace(self, image=self.image or f"mletools-tasks:{version}")


def files(task: Task, data: Path, options: HarborOptions, grading: list[str]) -> dict[str, Content]:
    """The files of a task's folder by their names in it; `grading`: the options of mle-grade in the box.

    RecordError: the files below `data` are not those of the record, or the public ones hold the answers.
    """
    folder = task_folder(data, task)
    check_data(folder, task)
    public = list(spelled_out(folder / "public", task["data"]["public"]))
    if data_digest(folder, task["data"]["public"], task["answers"]) != task["data"]["digest"]:
        raise RecordError(f"{folder}: the files are not those of the task record (digest differs)")
    check_apart(task, folder, public)
    made: dict[str, Content] = {
        "task.toml": _toml(task, options).encode(),
        "instruction.md": _instruction(task, options).encode(),
        "tests/test.sh": TEST.format(submission=SUBMISSION, options=" ".join(grading)).encode(),
        "tests/task.jsonl": _record(task),
        "solution/solve.sh": SOLVE.format(workdir=WORKDIR).encode(),
        "solution/solution.py": solution(task).encode(),
    }
    if options.dockerfile:
        made["environment/Dockerfile"] = DOCKERFILE.format(image=options.image, workdir=WORKDIR).encode()
    for name in public:
        made[f"environment/input/{name}"] = folder / "public" / name
        if is_sample(name):  # its size bounds a submission's
            made[f"tests/{DATA}/public/{name}"] = folder / "public" / name
    for name in private_files(task):
        made[f"tests/{DATA}/{name}"] = folder / name
    return made


def check_apart(task: Task, folder: Path, public: list[str]) -> None:
    """RecordError: a public file is one that grading reads, or has every line of the answers. Reads every file."""
    private = {name: (folder / name).read_bytes() for name in private_files(task)}
    lines = _lines(private[task["answers"]])
    for name in public:
        if any(content and same(folder / "public" / name, content) for content in private.values()):
            raise RecordError(f"public/{name} is a file that grading reads: an agent would have the answers")
        if lines and _holds(folder / "public" / name, set(lines)):
            raise RecordError(f"public/{name} has every line of the answers")


def _lines(content: bytes) -> set[bytes]:
    return {line for line in content.splitlines()[1:] if line.strip()}


def _holds(path: Path, missing: set[bytes]) -> bool:
    if os.path.getsize(path) < sum(map(len, missing)):
        return False
    with path.open("rb") as file:
        for line in file:
            missing.discard(line.rstrip(b"\r\n"))
            if not missing:
                return True
    return False


def _record(task: Task) -> bytes:
    """The record for the verifier's box, a line: its data lie beside it."""
    return json.dumps({**task, "data": {**task["data"], "dir": DATA}}, ensure_ascii=False).encode() + b"\n"


def _instruction(task: Task, options: HarborOptions) -> str:
    minutes = f"{options.agent_timeout / 60:g} minutes"
    return WORK.format(workdir=WORKDIR, submission=SUBMISSION, minutes=minutes) + task["description"].strip() + "\n"


def solution(task: Task) -> str:
    """The strongest standard program that fits the task; for a task that no program reads, one that hands in the sample.

    RecordError: there is neither.
    """
    if not solves(task) and not sample_file(task):
        raise RecordError(f"task {task['id']} has no sample submission, and no standard program reads it")
    return program(task, choices(task)[-1])


def _toml(task: Task, options: HarborOptions) -> str:
    metric = task["metric"]
    separate = options.verifier == "separate"
    environment: dict[str, object] = {
        **({} if options.dockerfile else {"docker_image": options.image}),
        "workdir": WORKDIR,
        "network_mode": "no-network",
        "cpus": options.cpus,
        "memory_mb": options.memory,
        "storage_mb": options.storage,
        "gpus": options.gpus,
    }
    sections: list[tuple[str, dict[str, object]]] = [
        ("", {"schema_version": "1.4", "artifacts": [SUBMISSION]}),
        (
            "task",
            {
                "name": f"{options.org}/{task['id']}",
                "description": task["name"],
                "keywords": sorted({"machine-learning", task["modality"], task["problem"]}),
            },
        ),
        (
            "metadata",
            {
                "category": "machine-learning",
                "tags": sorted({task["modality"], task["problem"]}),
                "metric": metric.get("name") or metric["file"],
                "lower_is_better": metric["lower_is_better"],
                "task_id": task["id"],
            },
        ),
        ("agent", {"timeout_sec": float(options.agent_timeout)}),
        ("verifier", {"timeout_sec": 900.0, **({"environment_mode": "separate"} if separate else {})}),
        ("environment", environment),
    ]
    return "\n".join("\n".join(_section(name, values)) for name, values in sections)


def _section(name: str, values: dict[str, object]) -> Iterator[str]:
    if name:
        yield f"[{name}]"
    for key, value in values.items():
        yield f"{key} = {_value(value)}"
    yield ""


def _value(value: object) -> str:
    """A TOML value: JSON's, but for the one character that TOML wants spelled out."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
