"""mle-sandbox: run each solution where it can do no harm."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from .. import cli
from ..cli_options import options
from ..instrument import observer_text, rows_of_test
from ..records.errors import RecordError, ToolError
from ..records.ids import derive_seed
from ..rollout.execution import SANDBOX, execution_record, ran_before
from ..sandbox import Limits, Outcome, Sandbox
from ..sandbox.options import SandboxOptions, check_protections


@dataclass
class Runner:
    """Runs a rollout's program and adds `execution`."""

    sandbox: Sandbox
    limits: Limits
    data: Path
    seed: int
    passed: set[str] = field(default_factory=set)  # ids of those that an agent in turns has run

    def __call__(self, rollout: dict[str, Any]) -> dict[str, Any]:
        if ran_before(rollout):
            self.passed.add(rollout["id"])
            return rollout
        instrument = rollout.get("instrument") or {}
        nonce, code = instrument.get("nonce"), rollout["code"]
        if nonce == "":
            code = instrument["code"] or code  # plain markers: the program prints them itself
        if code is None:
            outcome = Outcome("no_code", None, 0.0, 0.0, 0.0, b"", b"", None, "no code")
        else:
            public = self.data / rollout["task"]["data"]["dir"] / "public"
            if not public.is_dir():
                raise RecordError(f"{public}: no such folder; is --data the folder that the task was written to?")
            seed = derive_seed(self.seed, rollout["id"])
            if nonce and instrument["code"] is not None:
                if "sites" not in instrument:
                    raise RecordError("an older mle-instrument wrote this: run mle-instrument again")
                text = observer_text(instrument, rows_of_test(public))
                outcome = self.sandbox.run(code, public, self.limits, seed, observer=text)
            else:
                outcome = self.sandbox.run(code, public, self.limits, seed)
        execution = execution_record(outcome, self.limits, self.data, SANDBOX, nonce)
        return {**rollout, "execution": execution}


def attack(run: cli.Run, sandbox: Sandbox, slots: int) -> None:
    """Print what hostile programs achieve in `sandbox`. ToolError: something that matters is open."""
    from ..sandbox.selftest import failed, selftest, table

    run.open()
    findings = selftest(sandbox, slots, None if run.quiet else run.say)
    run.emit_text(table(findings, sandbox.protections) + "\n")
    if failed(findings):
        raise ToolError("this sandbox does not hold: see what is OPEN above")


@cli.command("mle-sandbox", jobs=True, seed=True, data=True)
@options(SandboxOptions, "box", "Sandbox", timeout={"default": 300.0, "help": "Wall seconds for one program."})
@click.option(
    "--selftest",
    is_flag=True,
    help="Attack the sandbox instead, and print what is sealed and what is not; exit 1 if not.",
)
def main(run: cli.Run, selftest: bool, box: SandboxOptions) -> None:
    """Run the programs of FILES (rollouts), each in a fresh folder, and take out what they submit.

    A program sees its task's public files, read-only, under ./input, and nothing else of this machine that is ours: no
    answers, no network, no environment. It writes ./submission.csv, which is kept under its digest in --data. What it
    does wrong is a status in the record (error, timeout, memory, disk, output, killed); what we do wrong is an error.
    Which protections were really active is in `execution.protections`. What an agent in turns has run already passes.
    Streams.

    \b
    Examples:
      mle-instrument rollouts.jsonl | mle-sandbox -j 8 --timeout 60 -o executed.jsonl
      mle-sandbox --backend docker --on ray://head:10001 -j 64 rollouts.jsonl -o executed.jsonl
      mle-sandbox --backend auto --selftest
    """
    if selftest and box.on is not None:
        raise click.UsageError("--selftest attacks the machine that it runs on: run it on a node of the cluster")
    slots = max(2, run.jobs) if selftest else run.jobs  # a selftest has one run attack another

    with box.open(slots, run.say) as sandbox:
        if selftest:
            attack(run, sandbox, slots)
            return
        check_protections(sandbox, run.say)
        runner = Runner(sandbox, box.limits(300.0), run.data, run.seed)

        def count(rollout: dict[str, Any]) -> None:
            passed = rollout["id"] in runner.passed
            run.counts["ran in mle-rollout" if passed else rollout["execution"]["status"]] += 1

        run.each(runner, "rollout", watch=count)
