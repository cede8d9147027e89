"""A task whose metric is code, and executed rollouts that hand in given files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mletools.base.ids import bytes_digest
from mletools.tasks.folder import private_digest

ANSWERS = "id,y\n1,10\n2,20\n"


def code_metric_task(
    root: Path,
    source: str,
    submissions: Sequence[bytes] = (),
    *,
    style: str = "function",
    answers: str = ANSWERS,
    public: Mapping[str, str] | None = None,
    **submission: Any,
) -> Path:
    """Writes the task `fish` below root/tasks, tasks.jsonl and in.jsonl, rollouts r0, r1, ... of one group; `root`.

    public: files by name; submission: what differs in the record's `submission`.
    """
    folder = root / "tasks" / "fish"
    (folder / "private").mkdir(parents=True)
    (folder / "private/answers.csv").write_text(answers)
    (folder / "private/grade.py").write_text(source)
    (folder / "private/weights.py").write_text("WEIGHT = 2\n")
    for name, content in (public or {}).items():
        (folder / "public").mkdir(exist_ok=True)
        (folder / "public" / name).write_text(content)
    metric = {"file": "private/grade.py", "style": style, "files": ["private/weights.py"], "lower_is_better": True}
    task: dict[str, Any] = {
        "kind": "task", "version": 1, "id": "fish", "lineage": [], "name": "fish", "description": "", "modality": "tabular",
        "problem": "regression", "data": {"dir": "tasks/fish", "public": sorted(public or {}), "digest": "", "private_digest": ""},
        "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": answers.count("\n") - 1, **submission},
        "metric": metric, "answers": "private/answers.csv", "provenance": {"source": "test", "seed": 0},
    }  # fmt: skip
    task["data"]["private_digest"] = private_digest(folder, task)
    (root / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    lines = [json.dumps(executed(root, task, at, content)) for at, content in enumerate(submissions)]
    (root / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return root


def executed(root: Path, task: Mapping[str, Any], at: int, content: bytes) -> dict[str, Any]:
    """A rollout of one program, whose submission is written below `root`."""
    name = f"{at}.csv"
    (root / name).write_bytes(content)
    text = {"head": "", "tail": "", "bytes": 0}
    execution = {
        "status": "ok", "exit_code": 0, "duration_s": 0, "cpu_s": 0, "peak_memory_mb": 0, "stdout": text, "stderr": text,
        "markers": [], "submission": {"file": name, "digest": bytes_digest(content), "bytes": len(content)},
        "submission_problem": None, "backend": "local", "start": "warm", "gpu": None, "protections": {}, "limits": {},
    }  # fmt: skip
    return {
        "kind": "rollout", "version": 1, "id": f"r{at}", "lineage": [], "task": task, "group": "g", "group_size": 1,
        "sample": at, "seed": 0, "scaffold": "single", "policy": {"model": "m", "version": None, "sampling": {}},
        "messages": [{"role": "user", "content": ""}], "turns": [], "stop_reason": "finished", "code": "",
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "seconds": 0, "usd": None}, "execution": execution,
    }  # fmt: skip
