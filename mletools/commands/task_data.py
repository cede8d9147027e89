"""Whether a task's folder is the one that its record was made with; for the commands that grade."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..records.errors import RecordError, ToolError
from ..records.jsonl import dumps
from ..tasks.folder import private_digest

_checked: set[tuple[Path, str, str]] = set()


def check_data(folder: Path, task: Mapping[str, Any]) -> None:
    """RecordError unless the files that grading reads are those that the record was made with."""
    digest = task["data"]["private_digest"]
    read = dumps([task.get(name) for name in ("answers", "leaderboard", "public_leaderboard", "metric")])
    if (folder, read, digest) in _checked:
        return
    try:
        found = private_digest(folder, task)
    except ToolError as error:
        raise RecordError(f"{error}; is --data the folder that the task was written to?") from None
    if found != digest:
        raise RecordError(f"{folder}: the files are not those of the task record (digest differs)")
    _checked.add((folder, read, digest))
