"""mle-sandbox: run each solution where it can do no harm."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from .. import cli
from ..instrument import read_report
from ..records.errors import RecordError, ToolError
from ..records.ids import bytes_digest, derive_seed
from ..sandbox import BACKENDS, Limits, Outcome, Sandbox, Setup, open_sandbox

HEAD = TAIL = 4000


def _text(output: bytes) -> dict[str, Any]:
    """The beginning and the end of an output, at most HEAD + TAIL bytes of it."""
    if len(output) <= HEAD + TAIL:
        return {"head": output.decode("utf-8", errors="replace"), "tail": "", "bytes": len(output)}
    head, tail = output[:HEAD], output[-TAIL:]
    return {
        "head": head.decode("utf-8", errors="replace"),
        "tail": tail.decode("utf-8", errors="replace"),
        "bytes": len(output),
    }


@dataclass
class Runner:
    """Runs a rollout's program and adds `execution`."""

    sandbox: Sandbox
    limits: Limits
    data: Path
    seed: int

    def __call__(self, rollout: dict[str, Any]) -> dict[str, Any]:
        instrument = rollout.get("instrument") or {}
        code = instrument.get("code") or rollout["code"]
        if code is None:
            outcome = Outcome("no_code", None, 0.0, 0.0, 0.0, b"", b"", None, "no code")
        else:
            public = self.data / rollout["task"]["data"]["dir"] / "public"
            if not public.is_dir():
                raise RecordError(f"{public}: no such folder; is --data the folder that mle-gen-task wrote to?")
            outcome = self.sandbox.run(code, public, self.limits, derive_seed(self.seed, rollout["id"]))
        return {**rollout, "execution": self._record(outcome, instrument.get("nonce"))}

    def _record(self, outcome: Outcome, nonce: str | None) -> dict[str, Any]:
        markers: list[str] = []
        stdout, stderr = outcome.stdout, outcome.stderr
        if nonce is not None:
            markers, stdout, stderr = read_report(stdout, stderr, nonce)
        return {
            "status": outcome.status,
            "exit_code": outcome.exit_code,
            "duration_s": round(outcome.duration_s, 4),
            "cpu_s": round(outcome.cpu_s, 4),
            "peak_memory_mb": round(outcome.peak_memory_mb, 1),
            "stdout": _text(stdout),
            "stderr": _text(stderr),
            "markers": markers,
            "submission": None if outcome.submission is None else keep(outcome.submission, self.data),
            "submission_problem": outcome.submission_problem,
            "backend": outcome.backend,
            "start": outcome.start,
            "gpu": outcome.gpu,
            "protections": outcome.protections,
            "limits": self.limits.__dict__,
        }


def keep(content: bytes, data: Path) -> dict[str, Any]:
    """Keep a submission under its digest, so that equal ones are kept once and none can be swapped."""
    digest = bytes_digest(content)
    name = digest.split(":")[1]
    path = Path("submissions") / name[:2] / f"{name}.csv"
    target = data / path
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".partial", delete=False) as file:
            file.write(content)
        os.replace(file.name, target)
    return {"file": str(path), "digest": digest, "bytes": len(content)}


def check_protections(run: cli.Run, protections: dict[str, bool]) -> None:
    """ToolError where a program could read the answers; one line where something else is not held."""
    if not protections["private_files"]:
        raise ToolError("this machine grants neither namespaces nor Landlock: programs could read the answers")
    missing = [name.replace("_", " ") for name, active in protections.items() if not active]
    if missing:
        run.say(f"not active on this machine: {', '.join(missing)} (docs/security.md says what that means)")


@cli.command("mle-sandbox", jobs=True, seed=True, data=True)
@click.option(
    "--backend",
    type=click.Choice(list(BACKENDS)),
    default="local",
    envvar="MLE_SANDBOX",
    show_default=True,
    show_envvar=True,
    cls=cli.MachineOption,
    help="What isolates the programs.",
)
@click.option(
    "--timeout", type=float, default=300.0, show_default=True, metavar="S", help="Wall seconds for one program."
)
@click.option(
    "--memory",
    type=click.IntRange(64),
    default=2048,
    show_default=True,
    metavar="MB",
    help="Memory of all its processes.",
)
@click.option(
    "--processes", type=click.IntRange(1), default=64, show_default=True, help="Processes and threads at once."
)
@click.option(
    "--file-size",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    metavar="MB",
    help="Largest file it may write.",
)
@click.option(
    "--disk", type=click.IntRange(1), default=256, show_default=True, metavar="MB", help="All files it may write."
)
@click.option(
    "--output-size",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    metavar="KB",
    help="Standard output, and standard error.",
)
@click.option(
    "--submission-size",
    type=click.IntRange(1, 32),
    default=32,
    show_default=True,
    metavar="MB",
    help="Largest submission.csv.",
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of numeric libraries.")
def main(
    run: cli.Run,
    backend: str,
    timeout: float,
    memory: int,
    processes: int,
    file_size: int,
    disk: int,
    output_size: int,
    submission_size: int,
    threads: int,
) -> None:
    """Run the programs of FILES (rollouts), each in a fresh folder, and take out what they submit.

    A program sees its task's public files, read-only, under ./input, and nothing else of this machine that is ours: no
    answers, no network, no environment. It writes ./submission.csv, which is kept under its digest in --data. What it
    does wrong is a status in the record (error, timeout, memory, disk, output, killed); what we do wrong is an error.
    Which protections were really active is in `execution.protections`. Streams.

    \b
    Examples:
      mle-instrument rollouts.jsonl | mle-sandbox -j 8 --timeout 60 -o executed.jsonl
      mle-sandbox rollouts.jsonl | jq -r '[.id, .execution.status, .execution.duration_s] | @tsv'
    """
    limits = Limits(
        wall_s=timeout,
        memory_mb=memory,
        processes=processes,
        file_mb=file_size,
        disk_mb=disk,
        output_kb=output_size,
        submission_mb=submission_size,
        threads=threads,
    )

    def count(rollout: dict[str, Any]) -> None:
        run.counts[rollout["execution"]["status"]] += 1

    with open_sandbox(backend, Setup(run.jobs)) as sandbox:
        check_protections(run, sandbox.protections)
        run.each(Runner(sandbox, limits, run.data, run.seed), "rollout", watch=count)
