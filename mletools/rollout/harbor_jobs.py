"""Results of Harbor jobs as rollouts: what somebody else's agent did there, and the submission that it left.

A job's folder holds a folder a trial: config.json, result.json, agent/trajectory.json, verifier/reward.json or reward.txt,
artifacts/ with the submission. Covered: single trials, jobs, folders of jobs; the task by its id; several attempts as a
group; the job's reward, which is kept and never believed; agents that write no trajectory, such as Harbor's oracle, or ended
before: what they handed in, with the task's description as the only message. Not covered: grading, which is mle-grade's.
"""

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict

from ..base.errors import RecordError, ToolError, data_advice
from ..base.ids import bytes_digest, content_id
from ..base.jsonl import JsonObject, Line, loads, read_files
from ..base.output import AnyRecord
from ..records import schema
from ..records.common import LongText
from ..records.rollout import Execution, HarborTrial, Rollout, StopReason, SubmissionFile
from ..records.sample import submission_mb
from ..records.task import Task
from ..sandbox.outputs import SUBMISSION
from ..sandbox.programs import HARBOR, keep, text_record
from . import trajectories

TRAJECTORY = "agent/trajectory.json"
_HEADS = ("config.json", "result.json")
_PARTS = ("agent", "verifier", "artifacts")
_DEPTH = 3  # folders above a trial: jobs, job
_MOST_FILES = 1000  # of artifacts/
_MOST_PARTS = 100  # files of one trajectory
_MOST_MB = 256  # of one of them
_SUBMISSION_MB = 32  # as of a sandbox
_NOTHING: LongText = {"head": "", "tail": "", "bytes": 0}


@dataclass(frozen=True)
class TrialLine(Line[JsonObject]):
    """A trial in the place of a line of input."""

    @property
    def place(self) -> str:
        return self.source


class Head(TypedDict):
    """What a trial's files say of it, as its tool wrote them."""

    config: dict[str, object]
    result: dict[str, object]


@dataclass(frozen=True)
class Found:
    """A trial that is known: its folder, its task, what its agent is called, and its place in its group."""

    folder: Path
    task: Task
    head: Head
    group: str
    group_size: int = 1
    sample: int = 0

    @property
    def line(self) -> TrialLine:
        return line_of(self.folder)


def line_of(folder: Path) -> TrialLine:
    """What is rejected of a broken trial: its path."""
    return TrialLine(str(folder), 1, str(folder), {})


def read_tasks(path: str) -> dict[str, Task]:
    """The tasks of a file by id. ToolError: it holds something else."""
    found: dict[str, Task] = {}
    for line in read_files([path]):
        problem = line.problem
        try:
            if problem is None:
                schema.check(line.record, "task")
        except RecordError as error:
            problem = str(error)
        if problem is not None:
            raise ToolError(f"{line.place}: {problem}")
        found[line.record["id"]] = line.record  # type: ignore[assignment]
    return found


def trial_folders(paths: Iterable[str]) -> list[Path]:
    """The trials at or below the paths, each once, in order. ToolError: a path with none."""
    found: dict[str, Path] = {}
    for path in paths:
        own = list(_trials(Path(path), 0, False))
        if not own:
            raise ToolError(f"{path}: no trial of a Harbor job: name a folder of jobs, a job or a trial")
        found.update((os.path.realpath(each), each) for each in own)
    return list(found.values())


def _trials(folder: Path, depth: int, in_job: bool) -> Iterator[Path]:
    has_head = any((folder / name).is_file() for name in _HEADS)
    if has_head and (in_job or any((folder / name).is_dir() for name in _PARTS)):
        yield folder
    elif depth < _DEPTH and folder.is_dir():
        for child in sorted(folder.iterdir()):
            if child.is_dir() and not child.is_symlink():
                yield from _trials(child, depth + 1, has_head)


def grouped(folders: Sequence[Path], tasks: Mapping[str, Task]) -> tuple[list[Found], list[tuple[Path, str]]]:
    """The trials, with those of one task, agent and model as a group; and the broken ones, with what is wrong."""
    found, broken = list[Found](), list[tuple[Path, str]]()
    for folder in folders:
        try:
            head = _head(folder)
            task = _task(head, tasks)
            found.append(Found(folder, task, head, content_id("harbor", task["id"], *_agent(head))))
        except ValueError as error:
            broken.append((folder, str(error)))
    sizes, samples = Counter(each.group for each in found), defaultdict[str, int](int)
    placed = []
    for each in found:
        own = (each.folder, each.task, each.head, each.group, sizes[each.group], samples[each.group])
        placed.append(Found(*own))
        samples[each.group] += 1
    return placed, broken


def rollout_of(found: Found, data: Path) -> Rollout:
    """The rollout of a trial, its submission kept under `data`. ValueError: what is broken of it. ToolError: no data."""
    folder, task, head = found.folder, found.task, found.head
    failure = _of(head["result"], "exception_info")
    if not _of(head["result"], "agent_execution"):
        raise ValueError(f"its agent was not started: {_told(failure)}")
    contents, parts = _trajectory(folder)
    conversation = trajectories.read(parts)
    told = [bytes_digest(content) for content in contents] or [
        folder.name
    ]  # an oracle's trials are alike but for the name
    agent, version, model = _agent(head)
    submission, problem = _submission(folder, task, data)
    seconds = _seconds(_of(head["result"], "agent_execution"))
    usage = conversation.usage
    if seconds is not None:
        usage["seconds"] = seconds
    trial: HarborTrial = {
        "name": folder.name,
        "agent": agent or conversation.agent,
        "agent_version": version or conversation.version,
        "rewards": _rewards(folder, head["result"]),
        "exception": str(failure["exception_type"]) if failure.get("exception_type") else None,
    }
    timed_out = "Timeout" in (trial["exception"] or "")
    reason: StopReason = "timeout" if timed_out else "finished"
    execution: Execution = {
        "by": HARBOR,
        "status": "timeout" if timed_out else "error" if trial["exception"] else "ok",
        "exit_code": None,
        "duration_s": usage["seconds"],
        "cpu_s": None,
        "peak_memory_mb": None,
        "stdout": _NOTHING,
        "stderr": text_record(str(failure.get("exception_message") or "").encode("utf-8", "replace")),
        "markers": [],
        "submission": submission,
        "submission_problem": problem,
        "backend": f"harbor:{_of(_of(head['config'], 'environment'), 'type', str) or 'docker'}",
        "start": None,
        "gpu": None,
        "protections": {},
        "limits": {},
    }
    rollout: Rollout = {
        "kind": "rollout",
        "version": 1,
        "id": content_id("harbor", task["id"], *told, submission and submission["digest"]),
        "lineage": [],
        "task": task,
        "group": found.group,
        "group_size": found.group_size,
        "sample": found.sample,
        "seed": 0,
        "scaffold": f"harbor:{trial['agent'] or 'unknown'}",
        "policy": {"model": conversation.model or model or "unknown", "version": None, "sampling": {}},
        "messages": conversation.messages or [{"role": "user", "content": task["description"]}],
        "turns": conversation.turns,
        "usage": usage,
        "stop_reason": reason,
        "code": None,
        "execution": execution,
        "trial": trial,
    }
    try:
        schema.check(rollout, "rollout")
    except RecordError as error:
        raise ValueError(f"{TRAJECTORY}: {error}") from None
    return rollout


# --- files of a trial ---------------------------------------------------------------------------------------------------


def _content(path: Path, shown: str, most: int = _MOST_MB << 20) -> bytes:
    """ValueError: it is no plain file, is too large, or cannot be read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ValueError(f"{shown}: {error.strerror}") from None
    with open(number, "rb") as file:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError(f"{shown}: is no plain file")
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{shown}: is larger than {most >> 20} MB")
    return content


def _object(content: bytes, shown: str) -> dict[str, object]:
    try:
        value = loads(content)
    except ValueError as error:
        raise ValueError(f"{shown}: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{shown}: not a JSON object")
    return value


def _head(folder: Path) -> Head:
    if not (folder / "result.json").is_file():
        raise ValueError("no result.json: the trial has not come to its end")
    result = _object(_content(folder / "result.json", "result.json"), "result.json")
    config = _of(result, "config")
    if (folder / "config.json").is_file():
        config = _object(_content(folder / "config.json", "config.json"), "config.json")
    return {"config": config, "result": result}


def _of(holder: AnyRecord, key: str, kind: type = dict) -> Any:
    """The value if it is of `kind`, else an empty one."""
    value = holder.get(key)
    return value if isinstance(value, kind) else kind()


def _agent(head: Head) -> tuple[str, str | None, str | None]:
    """Name and version of the agent, and its model."""
    info = _of(head["result"], "agent_info")
    model = _of(info, "model_info")
    names = [name for name in (_of(model, "provider", str), _of(model, "name", str)) if name]
    asked = _of(_of(head["config"], "agent"), "model_name", str)
    name = _of(info, "name", str) or _of(_of(head["config"], "agent"), "name", str)
    return name, _of(info, "version", str) or None, asked or "/".join(names) or None


def _task(head: Head, tasks: Mapping[str, Task]) -> Task:
    """The task that the trial is about, by the names that the trial has for it."""
    result, config = head["result"], head["config"]
    places = [
        _of(result, "task_name", str),
        _of(_of(config, "task"), "path", str),
        _of(_of(config, "task"), "name", str),
    ]
    places += [_of(_of(result, "task_id"), key, str) for key in ("path", "name")]
    names = list(dict.fromkeys(place.rstrip("/").rpartition("/")[2] for place in places if place))
    for name in names:
        if name in tasks:
            return tasks[name]
    raise ValueError(f"its task is {' or '.join(map(repr, names)) or 'not named'}, the id of none of --tasks")


def _told(failure: Mapping[str, object]) -> str:
    """The first line of what an exception says."""
    kind, message = (str(failure.get(name) or "") for name in ("exception_type", "exception_message"))
    return f"{kind}: {(message.strip().splitlines() or [''])[0][:200]}" if kind else "result.json does not say why"


def _trajectory(folder: Path) -> tuple[list[bytes], list[dict[str, object]]]:
    """The contents of the trajectory's files, and what they hold; none where the agent wrote none."""
    contents, parts = list[bytes](), list[dict[str, object]]()
    name = TRAJECTORY if os.path.lexists(folder / TRAJECTORY) else ""
    while name:
        contents.append(_content(folder / name, name))
        parts.append(_object(contents[-1], name))
        following = parts[-1].get("continued_trajectory_ref")
        name = f"agent/{os.path.basename(following)}" if isinstance(following, str) and following else ""
        if len(parts) > _MOST_PARTS:
            raise ValueError(f"{TRAJECTORY}: goes on in more than {_MOST_PARTS} files")
    return contents, parts


def _submission(folder: Path, task: Task, data: Path) -> tuple[SubmissionFile | None, str | None]:
    """The submission among the artifacts, kept under `data`, or why there is none. ValueError: there are several."""
    public = data / task["data"]["dir"] / "public"
    if not public.is_dir():
        raise ToolError(f"{public}: no such folder; {data_advice()}")
    contents: dict[bytes, str] = {}
    problem = f"no {SUBMISSION}"
    for path in _named(folder / "artifacts", SUBMISSION):
        shown = str(path.relative_to(folder))
        try:
            contents.setdefault(_content(path, SUBMISSION, submission_mb(public, _SUBMISSION_MB) << 20), shown)
        except ValueError as error:
            problem = str(error)
    if len(contents) > 1:
        raise ValueError(f"{' and '.join(contents.values())} differ: which one was handed in?")
    for content in contents:
        return keep(content, data), None
    return None, problem


def _named(folder: Path, name: str) -> Iterator[Path]:
    count = 0
    for place, _, names in os.walk(folder):
        count += len(names)
        if count > _MOST_FILES:
            raise ValueError(f"{folder.name}: more than {_MOST_FILES} files")
        if name in names:
            yield Path(place) / name


def _rewards(folder: Path, result: AnyRecord) -> dict[str, float]:
    """The job's own rewards by name; what is no finite number is left out."""
    values: Any = _of(_of(result, "verifier_result"), "rewards")
    for name in ("reward.json", "reward.txt"):
        path = folder / "verifier" / name
        if path.is_file() and not path.is_symlink():
            try:
                values = loads(_content(path, name, 1 << 20))
            except ValueError:
                continue
            break
    if not isinstance(values, dict):
        values = {"reward": values}
    numbers = {str(name): value for name, value in values.items() if type(value) in (int, float, bool)}
    return {name: float(value) for name, value in numbers.items() if abs(value) < 1e300}


def _seconds(timing: Mapping[str, str]) -> float | None:
    """How long a phase of the trial took."""
    try:
        began, ended = (datetime.fromisoformat(timing[name]) for name in ("started_at", "finished_at"))
        return round(max(0.0, (ended - began).total_seconds()), 4)
    except (KeyError, ValueError, TypeError):
        return None
