"""The interface of a sandbox: limits in, an outcome out.

Covered: settings, limits, results and the protocols of sandboxes and sessions. Not covered: opening a backend by name
(backends, opening), how a backend isolates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..records.errors import ToolError

DEFAULT_PREIMPORT: tuple[str, ...] = (
    "PIL.Image",
    "PIL.PngImagePlugin",
    "numpy",
    "pandas",
    "scipy.sparse",
    "scipy.stats",
    "sklearn",
    "sklearn.calibration",
    "sklearn.cluster",
    "sklearn.compose",
    "sklearn.decomposition",
    "sklearn.dummy",
    "sklearn.ensemble",
    "sklearn.feature_extraction.text",
    "sklearn.feature_selection",
    "sklearn.impute",
    "sklearn.linear_model",
    "sklearn.metrics",
    "sklearn.model_selection",
    "sklearn.multioutput",
    "sklearn.naive_bayes",
    "sklearn.neighbors",
    "sklearn.neural_network",
    "sklearn.pipeline",
    "sklearn.preprocessing",
    "sklearn.svm",
    "sklearn.tree",
)


DEFAULT_IMAGE = "mletools-sandbox"
STARTS = ("auto", "warm", "cold")
_MOST_ARGUMENTS = 32 << 10  # bytes as they travel: a packet to a warm server holds little more


@dataclass(frozen=True)
class Setup:
    """What a sandbox is opened with; nothing in it changes what a solution computes."""

    slots: int  # runs at once
    preimport: tuple[str, ...] = DEFAULT_PREIMPORT  # modules loaded once, ahead of every run; absent ones are skipped
    start: str = "auto"  # warm: fork a process that has them; cold: a fresh interpreter; auto: as the solution needs
    gpus: tuple[str, ...] = ()  # devices, as CUDA_VISIBLE_DEVICES names them; each run has one to itself; (): none
    image: str = DEFAULT_IMAGE  # of containers, where the backend has any


@dataclass(frozen=True)
class Limits:
    """What one run may use. MB is 2**20 bytes, KB is 2**10 bytes."""

    wall_s: float = 60.0  # seconds of wall time of the solution; set-up of the box is not counted
    cpu_s: float | None = None  # seconds of CPU time of any single process (whole seconds, rounded up); None: no limit
    memory_mb: int = 2048  # MB of the whole process tree; where a cgroup counts, its files too
    processes: int = 64  # processes and threads alive at once, the solution's own among them
    file_mb: int = 64  # MB of the largest single file
    disk_mb: int = 256  # MB of all files together: work folder, home, temporary files, shared memory
    output_kb: int = 1024  # KB of stdout, and as much again of stderr
    submission_mb: int = 32  # MB of submission.csv
    threads: int = 1  # threads that OpenMP and BLAS start


@dataclass(frozen=True)
class Outcome:
    """What one run came to, as the kernel and the sandbox saw it; only the output is the solution's word."""

    status: str  # ok, error, timeout, memory, disk, output or killed
    exit_code: int | None  # the solution's exit code; None where a signal ended it
    duration_s: float  # seconds of wall time from the solution's first line to its end
    cpu_s: float  # seconds of CPU time, user and system, of the whole process tree
    peak_memory_mb: float  # MB at the highest point: of the tree where a cgroup counts, else of its largest process
    stdout: bytes  # at most Limits.output_kb
    stderr: bytes  # at most Limits.output_kb
    submission: bytes | None  # content of submission.csv, at most Limits.submission_mb
    submission_problem: str | None  # why there is no submission, e.g. "no submission.csv"; None where there is one
    backend: str | None = None  # the backend that ran it; None where nothing ran
    start: str | None = None  # warm or cold
    gpu: str | None = None  # the device that it had to itself
    protections: dict[str, bool] = field(default_factory=dict)  # what was active where it ran


@dataclass(frozen=True)
class Cell:
    """What one cell of a session came to; of an ok or error, and of the output, it is the session's word."""

    status: str  # ok; error (an exception, or an exit code not 0); timeout, output or memory; disk or killed at an end
    output: bytes  # stdout and stderr as they were written, tracebacks among them, at most Limits.output_kb
    duration_s: float  # seconds of wall time, measured outside the box
    alive: bool  # False: the session is over with this cell, and its state is lost
    submission: bytes | None  # content of submission.csv after the cell, at most Limits.submission_mb
    submission_problem: str | None  # why there is no submission; None where there is one


class Session(Protocol):
    """A Python interpreter in a box of its own, from `Sandbox.session` to `close`.

    Cells run one at a time, a second thread's after the first's; `close` may be called from any thread, also while a
    cell runs, which then ends as killed.
    """

    protections: dict[str, bool]
    backend: str

    def python(self, code: str, wall_s: float) -> Cell:
        """Run `code` in the session's one namespace for at most `wall_s` seconds, then interrupt it.

        A cell that goes on 5 seconds after the interrupt ends the session. ToolError: the session is over, or the
        sandbox has trouble of its own.
        """

    def bash(self, command: str, wall_s: float) -> Cell:
        """Run `command` by bash (sh where there is none) in the same box and folder; otherwise like `python`."""

    def close(self) -> None:
        """End the session with all its processes and files, and give its slot back. Safe to call twice."""


class Sandbox(Protocol):
    """A place where solutions run. `run` may be called from as many threads at once as the sandbox has slots."""

    name: str

    @property
    def notes(self) -> list[str]:
        """What a user should know about this sandbox on this machine, a line each; may start a server to find out."""

    @property
    def protections(self) -> dict[str, bool]:
        """What is really active, as probed inside a run; may start a server to find out. ToolError if none starts."""

    def run(
        self, code: str, public: Path, limits: Limits, seed: int, arguments: Sequence[str] = (), observer: str = ""
    ) -> Outcome:
        """Run `code` as a script with the folder `public` read-only at ./input and random states seeded by `seed`.

        Its sys.argv is ["solution.py", *arguments]. `observer` is the text of a module that runs ahead of it and whose
        `load(text, path)` compiles it; where that fails, it is compiled as it is. Whatever the solution does comes back as an Outcome. ToolError is the
        sandbox's own trouble: a missing public folder, a server that cannot be started, no room on this machine's disk,
        arguments of more than 32 KB in all.
        """

    def session(self, public: Path, limits: Limits, seed: int) -> Session:
        """Open a session; it holds one slot until it is closed, and waits for one while all are taken.

        `limits.wall_s` bounds the whole session, `output_kb` each cell; the others are those of a run. ToolError as for
        `run`.
        """

    def close(self) -> None:
        """End every run, session and server; later calls of `run` and `session` raise ToolError."""


def check_arguments(arguments: Sequence[str]) -> None:
    """ToolError: a program could not be given these arguments, or they are too large to be sent beside it."""
    if any("\0" in each for each in arguments) or sum(len(json.dumps(each)) for each in arguments) > _MOST_ARGUMENTS:
        raise ToolError(f"arguments of a program hold no zero byte and take at most {_MOST_ARGUMENTS >> 10} KB")
