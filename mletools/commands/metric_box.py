"""Where metrics that are code run, for the commands that score submissions; no command by itself."""

import functools
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..grading import code
from ..records.errors import ToolError
from ..sandbox import Limits, Sandbox, Setup, open_sandbox

# Entered by the command: sandboxes that this process opened end with it.
opened = ExitStack()


@dataclass(frozen=True)
class CodeBox:
    """Where metrics that are code run: a sandbox with one slot, opened in each process that first meets such a task."""

    backend: str
    limits: Limits

    def __call__(self, task: Mapping[str, Any], folder: Path, content: bytes) -> float:
        with code.box() as place:
            code.lay_out(task, folder, content, place)
            outcome = _sandbox(self.backend).run(code.program(), place, self.limits, 0)
        return code.read_score(task, outcome.status, outcome.submission, outcome.stderr)


@functools.cache
def _sandbox(backend: str) -> Sandbox:
    """ToolError where a metric, which may be anybody's, could read what it should not."""
    sandbox = opened.enter_context(open_sandbox(backend, Setup(1)))
    if not sandbox.protections["private_files"]:
        raise ToolError(
            "this machine grants neither namespaces nor Landlock: a metric that is code could read any file"
        )
    return sandbox
