"""The interface of a sandbox: settings, limits, outcomes, and the protocols of sandboxes and sessions.

Not covered: opening a backend by name (`backends`, `opening`), isolation.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from ..base.errors import ToolError, data_advice
from .outputs import SUBMISSION

if TYPE_CHECKING:
    from ..records.rollout import Machine

_SKLEARN = (
    "calibration", "cluster", "compose", "decomposition", "dummy", "ensemble", "feature_extraction.text",
    "feature_selection", "impute", "linear_model", "metrics", "model_selection", "multioutput", "naive_bayes",
    "neighbors", "neural_network", "pipeline", "preprocessing", "svm", "tree",
)  # fmt: skip
DEFAULT_PREIMPORT: tuple[str, ...] = (
    *("PIL.Image", "PIL.PngImagePlugin", "numpy", "pandas", "scipy.sparse", "scipy.stats", "sklearn"),
    *(f"sklearn.{name}" for name in _SKLEARN),
)
DEFAULT_IMAGE = "mletools-sandbox"
STARTS = ("auto", "warm", "cold")
Status = Literal["ok", "error", "timeout", "memory", "disk", "output", "killed"]
OUTPUTS = (SUBMISSION,)  # those of a run that declares none
_ARGUMENT_BYTES = 32 << 10  # in JSON


@dataclass(frozen=True)
class Setup:
    """Settings of a sandbox; they do not change what a solution computes."""

    slots: int  # concurrent runs
    preimport: tuple[str, ...] = DEFAULT_PREIMPORT  # modules imported once before all runs; absent ones are skipped
    start: str = "auto"  # warm: fork a process that has them; cold: a fresh interpreter; auto: as the imports need
    gpus: tuple[str, ...] = ()  # devices, see gpus.parse; each run has one to itself; (): none
    image: str = DEFAULT_IMAGE  # of containers
    weights: str | None = None  # a folder of pretrained weights that every run sees, read-only, at ./weights
    shared_mb: int | None = None  # MB of /dev/shm, in addition to Limits.disk_mb; None: a part of that
    shown: tuple[str, ...] = ()  # folders that every run sees, read-only, at their own places; local only
    loopback: bool = False  # the processes of a run can connect to each other by TCP; local, with namespaces, only


@dataclass(frozen=True)
class Limits:
    """Limits of one run. MB is 2**20 bytes, KB is 2**10 bytes."""

    wall_s: float = 60.0  # seconds of wall time of the solution, without the set-up of the sandbox
    cpu_s: float | None = None  # seconds of CPU time of any single process (whole seconds, rounded up); None: no limit
    memory_mb: int = 2048  # MB of all processes together; with a cgroup including their files in memory
    processes: int = 64  # concurrent processes and threads, including the solution itself
    file_mb: int = 64  # MB of the largest single file
    disk_mb: int = 256  # MB of all files: work folder, home, temporary files, shared memory
    output_kb: int = 1024  # KB of stdout, and the same for stderr
    submission_mb: int = 32  # MB of one output, be it submission.csv or all files of a folder
    threads: int = 1  # threads of OpenMP and BLAS

    def text(self, gpu: bool, time: bool = True) -> str:
        """What a prompt states of them; gpu: whether the program has one. Without `time` all but the seconds."""
        seconds = f"{self.wall_s:g} seconds, " if time else ""
        threads = f"{self.threads} thread{'s' * (self.threads > 1)}"
        return (
            f"{seconds}{_size(self.memory_mb)} of memory, {_size(self.disk_mb)} of files, "
            f"{threads} for numerical libraries, {'one GPU' if gpu else 'no GPU'}"
        )


def _size(megabytes: int) -> str:
    return f"{megabytes / 1024:g} GB" if megabytes % 512 == 0 else f"{megabytes} MB"


class HandedOut:
    """The declared outputs that a run or a cell has left."""

    outputs: dict[str, bytes]
    problems: dict[str, str]

    @property
    def submission(self) -> bytes | None:
        """The content of submission.csv; None: there is none, or it was not asked for."""
        return self.outputs.get(SUBMISSION)

    @property
    def submission_problem(self) -> str | None:
        """Why there is no submission.csv; None: there is one, or it was not asked for."""
        return self.problems.get(SUBMISSION)


@dataclass(frozen=True)
class Outcome(HandedOut):
    """The result of one run. Only stdout and stderr come from the solution; the sandbox measures the rest."""

    status: Status | Literal["no_code"]  # no_code: nothing ran
    exit_code: int | None  # None if a signal ended the solution
    duration_s: float  # seconds of wall time from the first line of the solution to its end
    cpu_s: float  # seconds of CPU time, user and system, of all processes
    peak_memory_mb: float  # peak MB of all processes with a cgroup, else of the largest process
    stdout: bytes  # at most Limits.output_kb
    stderr: bytes  # at most Limits.output_kb
    outputs: dict[str, bytes]  # contents by name; the files of a folder by its declared name and theirs, env/train.csv
    problems: dict[str, str]  # why there is no such output, e.g. "no submission.csv", by its declared name
    backend: str | None = None  # None if nothing ran
    start: Literal["warm", "cold"] | None = None
    gpu: str | None = None  # the device of the run
    protections: dict[str, bool] = field(default_factory=dict)  # by name, whether active during the run
    machine: "Machine | None" = None  # None if nothing ran


@dataclass(frozen=True)
class Cell(HandedOut):
    """The result of one cell of a session. The session's process claims output, ok and error; the rest is measured."""

    status: Status  # error: an exception, or an exit code not 0
    output: bytes  # stdout and stderr in order, including tracebacks, at most Limits.output_kb
    duration_s: float  # seconds of wall time, measured outside the sandbox
    alive: bool  # False: the session has ended, and its state is lost
    outputs: dict[str, bytes]  # as after a run; processes of the session may still write them
    problems: dict[str, str]


class Session(Protocol):
    """A Python interpreter in a sandbox of its own, from `Sandbox.session` to `close`.

    Cells run one at a time. `close` may be called from any thread; a cell that is running then raises ToolError, for what
    ends with its session is no failure of the cell.
    """

    protections: dict[str, bool]
    backend: str
    machine: "Machine | None"
    gpu: str | None  # the device of the session

    def python(self, code: str, wall_s: float) -> Cell:
        """Run `code` in the namespace of the session, and interrupt it after `wall_s` seconds.

        A cell that still runs 5 seconds after the interrupt ends the session. ToolError: the session is over, or the
        sandbox failed.
        """

    def bash(self, command: str, wall_s: float) -> Cell:
        """Run `command` with bash (or sh) in the same sandbox and folder; otherwise like `python`."""

    def close(self) -> None:
        """End the session with all its processes and files, and free its slot. May be called twice."""


class Sandbox(Protocol):
    """Runs solutions. `run` may be called from as many threads as the sandbox has slots."""

    name: str

    @property
    def notes(self) -> list[str]:
        """Messages for the user about this sandbox on this machine; may start a server."""

    @property
    def protections(self) -> dict[str, bool]:
        """By name, whether a probe inside a run found it active; may start a server. ToolError: no server starts."""

    def run(
        self,
        code: str,
        public: Path,
        limits: Limits,
        seed: int,
        arguments: Sequence[str] = (),
        observer: str = "",
        outputs: Sequence[str] = OUTPUTS,
    ) -> Outcome:
        """Run `code` as a script with the folder `public` read-only at ./input and random states seeded by `seed`.

        Its sys.argv is ["solution.py", *arguments]. `observer` is the source of a module whose `load(text, path)`
        compiles the script; if that fails, the script is compiled as usual. `outputs` are the files that leave the
        sandbox, by names below the work folder; one that ends with / is a folder, with all its files. Failures of the
        solution are outcomes. ToolError: the sandbox failed (no such folder, no server, no disk space), arguments above
        32 KB, or a name of an output that leads elsewhere.
        """

    def session(self, public: Path, limits: Limits, seed: int, outputs: Sequence[str] = OUTPUTS) -> Session:
        """Open a session, which holds one slot until it is closed; waits while all slots are taken.

        `limits.wall_s` is for the whole session, `output_kb` and `outputs` for each cell. ToolError as for `run`.
        """

    def close(self) -> None:
        """End every run, session and server; later calls of `run` and `session` raise ToolError."""


def check_arguments(arguments: Sequence[str]) -> None:
    """ToolError: an argument with a zero byte, or too many bytes to send."""
    if any("\0" in text for text in arguments) or sum(len(json.dumps(text)) for text in arguments) > _ARGUMENT_BYTES:
        raise ToolError(f"program arguments may have no zero byte and at most {_ARGUMENT_BYTES >> 10} KB")


def check_public(public: Path) -> None:
    """ToolError: no such folder."""
    if not os.path.isdir(public):
        raise ToolError(f"{public}: no such folder; {data_advice()}")
