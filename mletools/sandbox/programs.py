"""The programs of agents in a sandbox: how one is run, watched, and recorded.

Covered: the runs of mle-sandbox, the records of all runs, submissions on disk, tables whose answers a program could look
up. Not covered: the sandbox (`interface`), the progress reports (mletools.instrument).
"""

import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal, NotRequired, TypedDict, cast

from ..base.errors import RecordError, ToolError, data_advice, filling
from ..base.ids import bytes_digest, derive_seed
from ..base.output import replace_file
from ..instrument import describe, instrument, make_nonce, observer_text, read_report
from ..records.common import LongText
from ..records.rollout import Execution, Rollout, SubmissionFile
from ..records.sample import submission_mb
from ..records.task import Task
from .interface import Limits, Outcome, Sandbox
from .outputs import SUBMISSION

HEAD = TAIL = 4000
Command = Literal["mle-rollout", "mle-sandbox", "harbor"]  # who runs programs
ROLLOUT: Literal["mle-rollout"] = "mle-rollout"
SANDBOX: Literal["mle-sandbox"] = "mle-sandbox"
HARBOR: Literal["harbor"] = "harbor"


@dataclass
class ProgramRunner:
    """Runs the programs of rollouts and adds `execution`; what an agent in turns has run passes."""

    sandbox: Sandbox
    limits: Limits
    data: Path
    seed: int

    def __call__(self, rollout: Rollout) -> Rollout:
        if ran_before(rollout):
            return rollout
        entry = rollout.get("instrument")
        nonce, code = entry["nonce"] if entry else None, rollout["code"]
        limits = self.limits
        watched: list[str] | None = None
        if entry and nonce == "":
            code = entry["code"] or code  # plain markers: the program prints them itself
        if code is None:
            outcome = Outcome("no_code", None, 0.0, 0.0, 0.0, b"", b"", {}, {SUBMISSION: "no code"})
        else:
            public = self.data / rollout["task"]["data"]["dir"] / "public"
            if not public.is_dir():
                raise RecordError(f"{public}: no such folder; {data_advice()}")
            observer = ""
            if entry and nonce and entry["code"] is not None:
                if "sites" not in entry:
                    raise RecordError("an older mle-instrument wrote this: run mle-instrument again")
                waits, watched = entry.get("mode") == "lm", entry["markers"]
                observer = observer_text(nonce, entry["sites"] or {}, describe(public), waits=waits)
            seed = derive_seed(self.seed, rollout["id"])
            refuse_known_answers(rollout["task"], self.sandbox.protections)
            limits = limits_for(public, limits)
            outcome = self.sandbox.run(code, public, limits, seed, observer=observer)
            refuse_known_answers(rollout["task"], outcome.protections)  # of a cluster's other node
        return {**rollout, "execution": execution_record(outcome, limits, self.data, SANDBOX, nonce, watched)}


def limits_for(public: Path, limits: Limits) -> Limits:
    """`limits` with room for a submission to the task with this public folder."""
    return replace(limits, submission_mb=submission_mb(public, limits.submission_mb))


def refuse_known_answers(task: Task, protections: Mapping[str, bool]) -> None:
    """ToolError: the task is made of a table that programs can look up where these protections are active."""
    if task["provenance"].get("answers_public") and protections.get("no_bundled_answers") is False:
        raise ToolError(
            f"{task['id']}: programs can read tables such as this one here, with the answers (no_bundled_answers in "
            "docs/security.md): run it on another machine, or with --backend docker"
        )


@dataclass(frozen=True)
class Watch:
    """How one program's progress is watched: the observer's source, the nonce of its tokens, the reports to expect."""

    observer: str = ""
    nonce: str | None = None
    markers: list[str] | None = None  # None: the program is not watched

    @classmethod
    def of(cls, code: str, public: Path) -> "Watch":
        """Watch `code` by the table of operations; a program that cannot be parsed is not watched.

        The nonce is drawn here and recorded nowhere, so no seed that a program sees leads to it.
        """
        result = instrument(code)
        if result.sites is None:
            return cls()
        nonce = make_nonce(secrets.randbits(64))
        return cls(observer_text(nonce, result.sites, describe(public)), nonce, result.markers)


class _Reports(TypedDict):
    watched: NotRequired[list[str]]


def text_record(output: bytes) -> LongText:
    """The beginning and the end of an output, at most HEAD + TAIL bytes of it."""
    if len(output) <= HEAD + TAIL:
        return {"head": output.decode("utf-8", errors="replace"), "tail": "", "bytes": len(output)}
    head, tail = output[:HEAD], output[-TAIL:]
    return {
        "head": head.decode("utf-8", errors="replace"),
        "tail": tail.decode("utf-8", errors="replace"),
        "bytes": len(output),
    }


def execution_record(
    outcome: Outcome,
    limits: Limits,
    data: Path,
    by: Command,
    nonce: str | None = None,
    watched: list[str] | None = None,
) -> Execution:
    """`execution` of a rollout, which the command `by` ran: the outcome, its submission kept under `data`.

    nonce: of the reports, which are taken out of the outputs. watched: the reports that could arrive, where the sandbox
    watched the program's calls.
    """
    markers: list[str] = []
    stdout, stderr = outcome.stdout, outcome.stderr
    if nonce is not None:
        markers, stdout, stderr = read_report(stdout, stderr, nonce)
        if watched is not None:
            markers = [marker for marker in markers if marker in watched]
    reports: _Reports = {} if watched is None else {"watched": watched}
    return {
        "by": by,
        "status": outcome.status,
        "exit_code": outcome.exit_code,
        "duration_s": round(outcome.duration_s, 4),
        "cpu_s": round(outcome.cpu_s, 4),
        "peak_memory_mb": round(outcome.peak_memory_mb, 1),
        "stdout": text_record(stdout),
        "stderr": text_record(stderr),
        "markers": markers,
        **reports,
        "submission": None if outcome.submission is None else keep(outcome.submission, data),
        "submission_problem": outcome.submission_problem,
        "backend": outcome.backend,
        "start": outcome.start,
        "gpu": outcome.gpu,
        "protections": outcome.protections,
        "machine": outcome.machine,
        "limits": asdict(limits),
    }


def ran_before(rollout: Rollout) -> bool:
    """Whether a rollout's program was run by its scaffold, in turns, or elsewhere: what it handed in then stands."""
    execution = rollout.get("execution")
    return execution is not None and execution.get("by") in (ROLLOUT, HARBOR)


def keep(content: bytes, data: Path) -> SubmissionFile:
    """Keep a submission under its digest, so that equal ones are kept once and none can be swapped.

    A file of another size, as a machine that failed may have left it, is written again. OSError that names the folder: the
    disk is full.
    """
    digest = bytes_digest(content)
    name = digest.split(":")[1]
    path = Path("submissions") / name[:2] / f"{name}.csv"
    target = data / path
    if not target.exists() or target.stat().st_size != len(content):
        with filling(target.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".partial", delete=False) as file:
                try:
                    file.write(content)
                    file.flush()
                    replace_file(cast(BinaryIO, file), target)
                except BaseException:
                    with suppress(FileNotFoundError):
                        os.unlink(file.name)
                    raise
    return {"file": str(path), "digest": digest, "bytes": len(content)}
