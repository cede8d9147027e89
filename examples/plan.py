"""Print what an experiment needs of a machine, stage by stage: cards, memory, rollouts, hours, tokens, USD. Nothing is run.

    make -C examples/NAME SIZE=paper plan GPUS=8 CARD_GB=80    # and other variables: docs/plans.md

The Makefile's own commands run, with mle commands that pretend (processes.py), so counts of records, cards and words are
the experiment's. Sizes of models are those of their folders, else of models.json. PRICES: a file with {"MODEL": [USD a
million prompt tokens, of completions]}, before the list prices of genai-prices. Exit code 1 where a stage does not fit, with
what to change. What the numbers are: stages.py.
"""

import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import click
import processes
from stages import Machine, MissingError, Planner, Stage, Use

HEAD = ("stage", "times", "rollouts", "hours", "M tokens in", "out", "USD", "USD, paper")


def alike(stages: Iterable[Stage]) -> list[list[Stage]]:
    """Stages that differ by their names alone stand together."""
    found: dict[str, list[Stage]] = defaultdict(list)
    for stage in stages:
        found[repr({**vars(stage), "name": ""})].append(stage)
    return list(found.values())


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def row(name: str, several: Sequence[Stage]) -> tuple[str, ...]:
    total = Stage("")
    for stage in several:
        total.add(stage)
    tokens = [number(value / 1e6) if value or total.bounded else "-" for value in (total.prompt, total.completion)]
    usd = number(total.usd) if total.usd or total.bounded else "-"
    paper = number(total.paper_usd) if total.paper_usd else "-"
    rollouts = f"{total.rollouts:,}{'+' if any(stage.open for stage in several) else ''}"
    return (name, str(len(several)), rollouts, number(total.seconds / 3600), *tokens, usd, paper)


def named(names: Sequence[str]) -> str:
    return f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"


def described(use: Use) -> str:
    cards = f"card{'s' if len(use.cards) > 1 else ''} {', '.join(use.cards) or '?'}"
    return f"{use.what}: {cards}" + (f", {use.gb:.0f} of {use.room:.0f} GB" if use.gb else "")


def by_text(pairs: Iterable[tuple[str, str]], begin: str) -> Iterator[str]:
    """A line for each text, with the stages that it is about."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, text in pairs:
        found[text].append(name)
    yield from (f"{begin}{named(names)}: {text}" for text, names in found.items())


def page(stages: Sequence[Stage], machine: Machine) -> Iterator[str]:
    """Human-readable lines."""
    yield (
        f"{machine.cards} x {machine.card_gb:.0f} GB, {machine.host_gb:.0f} GB of memory, {machine.cores} cores; "
        f"prices of genai-prices {version('genai-prices')}; hours, tokens and USD at most"
    )
    rows = [HEAD, *(row(several[0].name, several) for several in alike(stages)), row("together", stages)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        first, *others = (
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()
    yield ""
    for server in machine.servers:
        yield f"always: the server at {server.replace('=', ': card ', 1)}"
    yield from by_text(((stage.name, "; ".join(map(described, stage.uses))) for stage in stages if stage.uses), "")
    yield ""
    yield from by_text(((stage.name, note) for stage in stages for note in stage.notes), "note: ")
    faults = list(by_text(((stage.name, fault) for stage in stages for fault in stage.faults), "does not fit: "))
    yield from faults or ["every stage fits"]


def main() -> None:
    given = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    if not given or len(given) != len(sys.argv) - 1:
        sys.exit(__doc__)
    prices = json.loads(Path(given["PRICES"]).read_text()) if given["PRICES"] else {}
    machine = Machine(
        int(given["GPUS"]), float(given["CARD_GB"]), float(given["HOST_GB"]), int(given["CORES"]),
        tuple(given["SERVERS"].split()), prices, float(given["PROGRAM_SECONDS"] or "inf"), float(given["USD"] or 0),
    )  # fmt: skip
    os.environ["HF_HUB_OFFLINE"] = "1"
    click.Path.convert = lambda self, value, param, ctx: value  # type: ignore[method-assign]  # not all files are there
    with tempfile.TemporaryDirectory(prefix="mle-plan-") as folder:
        out, log = Path(folder) / "out", Path(folder) / "log"
        processes.run(log, ["make", "-s", "-i", "results", f"OUT={out}"], True, quiet=True)
        try:
            stages = list(Planner(machine, out).stages(processes.read(log).values()))
        except MissingError as error:
            sys.exit(str(error))
    if not stages:
        sys.exit("the experiment has no commands: make -n results")
    print(*page(stages, machine), sep="\n")
    sys.exit(1 if any(stage.faults for stage in stages) else 0)


if __name__ == "__main__":
    main()
