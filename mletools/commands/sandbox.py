"""mle-sandbox: run each solution where it can do no harm."""

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from .. import cli
from ..instrument import read_report
from ..records.errors import RecordError, ToolError
from ..records.ids import bytes_digest, derive_seed
from ..sandbox import (
    BACKENDS,
    DEFAULT_IMAGE,
    STARTS,
    Limits,
    Outcome,
    Sandbox,
    Setup,
    choose,
    open_sandbox,
)
from ..sandbox.gpus import ANY, parse

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
                raise RecordError(f"{public}: no such folder; is --data the folder that the task was written to?")
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


def devices(names: str | None, on: str | None) -> tuple[str, ...]:
    """What --gpus names. UsageError: devices of this machine for a cluster, or a cluster's choice for this machine."""
    if names is None:
        return ()
    if (names == ANY) != (on is not None):
        fault = "a cluster chooses the devices itself: give --gpus any" if on else "name the devices, e.g. --gpus 0,1"
        raise click.UsageError(fault)
    return parse(names)


def attack(run: cli.Run, sandbox: Sandbox, slots: int) -> None:
    """Print what hostile programs achieve in `sandbox`. ToolError: something that matters is open."""
    from ..sandbox.selftest import failed, selftest, table

    run.open()
    findings = selftest(sandbox, slots, None if run.quiet else run.say)
    run.emit_text(table(findings, sandbox.protections) + "\n")
    if failed(findings):
        raise ToolError("this sandbox does not hold: see what is OPEN above")


@cli.command("mle-sandbox", jobs=True, seed=True, data=True)
@click.option(
    "--backend",
    type=click.Choice([*BACKENDS, "auto"]),
    default="local",
    envvar="MLE_SANDBOX",
    show_default=True,
    show_envvar=True,
    cls=cli.MachineOption,
    help="What isolates the programs; auto takes the strongest that works here, and says which.",
)
@click.option(
    "--on",
    metavar="CLUSTER",
    cls=cli.MachineOption,
    help="Run on a Ray cluster: ray://HOST:PORT, or ray for the one that RAY_ADDRESS names (else this machine's cores).",
)
@click.option(
    "--gpus",
    metavar="LIST",
    cls=cli.MachineOption,
    help="Lend each program one of these devices to itself, e.g. 0,1; with --on: any.",
)
@click.option(
    "--preimport",
    metavar="MODULES",
    cls=cli.MachineOption,
    help="Load these once, ahead of every program (default: numpy, pandas, scipy and scikit-learn's usual parts).",
)
@click.option(
    "--start",
    type=click.Choice(STARTS),
    default="auto",
    show_default=True,
    cls=cli.MachineOption,
    help="Fork programs from a warm process, or give each a fresh interpreter; auto: as its imports need.",
)
@click.option(
    "--image",
    default=DEFAULT_IMAGE,
    envvar="MLE_SANDBOX_IMAGE",
    show_default=True,
    show_envvar=True,
    help="Of containers: any with Python 3.10 or newer and the libraries that programs use.",
)
@click.option(
    "--selftest",
    is_flag=True,
    help="Attack the sandbox instead, and print what is sealed and what is not; exit 1 if not.",
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
    on: str | None,
    gpus: str | None,
    preimport: str | None,
    start: str,
    image: str,
    selftest: bool,
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
      mle-sandbox --backend docker --on ray://head:10001 -j 64 rollouts.jsonl -o executed.jsonl
      mle-sandbox --backend auto --selftest
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

    if selftest and on is not None:
        raise click.UsageError("--selftest attacks the machine that it runs on: run it on a node of the cluster")
    slots = max(2, run.jobs) if selftest else run.jobs  # a selftest has one run attack another
    setup = Setup(slots, start=start, gpus=devices(gpus, on), image=image)
    if preimport is not None:
        setup = replace(setup, preimport=tuple(filter(None, preimport.split(","))))
    if backend == "auto" and on is None:
        backend, told = choose(setup)
        run.say(f"--backend auto takes {backend} ({'; '.join(told)})")

    def count(rollout: dict[str, Any]) -> None:
        run.counts[rollout["execution"]["status"]] += 1

    with open_sandbox(backend, setup, on, run.say) as sandbox:
        if selftest:
            attack(run, sandbox, slots)
            return
        for note in sandbox.notes:
            run.say(note)
        check_protections(run, sandbox.protections)
        run.each(Runner(sandbox, limits, run.data, run.seed), "rollout", watch=count)
