"""Whether a task's folder is the one that its record was made with; for the commands that grade."""

import functools
import os
from pathlib import Path

from ..base.digests import files_digest
from ..base.errors import RecordError, ToolError, data_advice
from ..records.places import check_inside, private_files
from ..records.task import Task


def inside(folder: Path, name: str, what: str) -> Path:
    """The file or folder `name` below `folder`. RecordError where a record's path leads elsewhere.

    Folders may be links, as people lay them out over their disks; who writes a record cannot make one.
    """
    return folder / check_inside(name, what)


def task_folder(data: Path, task: Task) -> Path:
    """The folder of a task. RecordError where it, or a file that grading reads there, lies outside `data` or the folder.

    The files come with the folder, maybe from a stranger: a link among them that leads out of it is refused.
    """
    folder = inside(data, task["data"]["dir"], "task.data.dir")
    for name in private_files(task):
        path = inside(folder, name, "a file of the task")
        try:
            real, top = os.path.realpath(path), os.path.realpath(folder)
        except OSError as error:
            raise RecordError(f"{path}: {error.strerror}") from None
        if os.path.commonpath([real, top]) != top:
            raise RecordError(f"{path}: leads out of the task's folder")
        if os.path.exists(path) and not os.path.isfile(path):
            raise RecordError(f"{path}: is no file")
    return folder


def check_data(folder: Path, task: Task) -> None:
    """RecordError unless the files that grading reads are those that the record was made with. Read once a process."""
    _check_files(folder, tuple(private_files(task)), task["data"]["private_digest"])


@functools.cache
def _check_files(folder: Path, names: tuple[str, ...], digest: str) -> None:
    try:
        actual = files_digest(folder, names)
    except ToolError as error:
        raise RecordError(f"{error}; {data_advice()}") from None
    if actual != digest:
        raise RecordError(f"{folder}: the files are not those of the task record (digest differs)")
