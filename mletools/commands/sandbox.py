"""mle-sandbox: run each solution where it can do no harm."""

import click

from .. import cli
from ..base.errors import OptionError, ToolError
from ..cli_options import options
from ..records.rollout import Rollout
from ..sandbox import Sandbox
from ..sandbox.options import SandboxOptions, check_protections
from ..sandbox.programs import ProgramRunner, ran_before


def attack(run: cli.Run, sandbox: Sandbox, slots: int) -> None:
    """Print what hostile programs achieve in `sandbox`. ToolError: something that matters is open."""
    from ..sandbox.selftest import failed, selftest, table

    run.open()
    findings = selftest(sandbox, slots, None if run.quiet else run.say)
    run.emit_text(table(findings, sandbox.protections, run.terminal_columns or 100) + "\n")
    if failed(findings):
        raise ToolError("this sandbox does not hold: see what is OPEN above")


USUAL = ("--backend", "--timeout", "--memory-size", "--threads", "--gpus", "--image", "--weights", "--on", "--selftest")


@cli.command("mle-sandbox", jobs=True, seed=True, data=True, usual=USUAL)
@options(SandboxOptions, "box", "Sandbox", timeout={"default": 300.0, "help": "Time limit of one program."})
@click.option(
    "--selftest",
    cls=cli.Option,
    heading="Sandbox",
    is_flag=True,
    help="Attack the sandbox instead, and print what is sealed and what is open. Exit code 1 if anything that "
    "matters is open.",
)
def main(run: cli.Run, selftest: bool, box: SandboxOptions) -> None:
    """Run the programs of FILES (rollouts), each in a fresh folder, and collect their submissions.

    \b
    Examples:
      mle-instrument rollouts.jsonl \\
        | mle-sandbox -j 8 --timeout 60 -o executed.jsonl
      mle-sandbox --backend docker --on ray://head:10001 -j 64 \\
        rollouts.jsonl -o executed.jsonl
      mle-sandbox --backend auto --selftest

    A program sees its task's public files, read-only, in ./input: no answers, no network, no environment variables, no
    other files of yours. It writes ./submission.csv, which is stored under its digest below --data. A failure of the
    program is a status in the record (error, timeout, memory, disk, output, killed); a failure of the sandbox is an
    error. `execution.protections` lists the protections that were active. Programs that an agent in turns has run
    already are not run again.

    Reads and writes one record at a time.
    """
    if selftest and box.on is not None:
        raise OptionError("--selftest attacks the machine that it runs on: run it on a node of the cluster")
    box.check()
    run.end_dry_run(*(() if selftest else ("rollout",)))
    slots = max(2, run.jobs) if selftest else run.jobs  # a selftest has one run attack another

    with box.open(slots, run.say) as sandbox:
        if selftest:
            attack(run, sandbox, slots)
            return
        check_protections(sandbox, run.say)

        limits = box.limits(300.0)
        actual = limits.text(box.gpus is not None)
        known: set[str | None] = {None, actual}

        def count(rollout: Rollout) -> None:
            execution = rollout["execution"]
            run.counts[f"ran in {execution['by']}" if ran_before(rollout) else execution["status"]] += 1
            stated = rollout.get("prompt_limits")
            if stated not in known:
                known.add(stated)
                run.say(f"prompts state {stated}; programs have {actual}: give mle-rollout the options of mle-sandbox")

        run.each(ProgramRunner(sandbox, limits, run.data, run.seed), "rollout", watch=count)
