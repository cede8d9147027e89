"""Training steps for a human: what the run came to in a few lines, and a table with a line for each step."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...records.training import TrainStep
from . import facts
from .header import NAME, aligned, fact
from .lines import Section, View, count, folded, styled

if TYPE_CHECKING:
    from rich.text import Text

Cell = Callable[[TrainStep], str]
COLUMNS: dict[str, Cell] = {
    "step": lambda step: str(step["step"]),
    "loss": lambda step: facts.number(step["loss"], ".4g"),
    "reward": lambda step: facts.number(step["reward_mean"], ".4g"),
    "± sd": lambda step: facts.number(step["reward_std"], ".4g"),
    "validation": lambda step: facts.number(step.get("validation_reward"), ".4g"),
    "KL": lambda step: facts.number(step.get("sampler_kl"), ".4f"),
    "entropy": lambda step: facts.number(step.get("entropy"), ".4g"),
    "grad norm": lambda step: facts.number(step["grad_norm"], ".4g"),
    "rollouts": lambda step: str(step["rollouts"]),
    "left out": lambda step: facts.number(step.get("lost"), ".4g"),
    "masked": lambda step: facts.number(step.get("masked_share"), ".1%"),
    "staleness": lambda step: facts.number(step.get("staleness"), ".1f"),
    "tokens": lambda step: f"{step['tokens']:,}",
    "seconds": lambda step: f"{step['duration_s']:.1f}",
    "checkpoint": lambda step: "yes" if step.get("checkpoint") else "-",
}
NOTE = "KL: of the policy from its sampler, k3; left out: rollouts that were begun and that no step takes"


def step_lines(name: str, steps: Sequence[TrainStep], view: View) -> Iterator["Text"]:
    """The steps of one file, in its order, as lines without their ends; columns without a value are left out."""
    cells = {column: [cell(step) for step in steps] for column, cell in COLUMNS.items()}
    filled = {column: values for column, values in cells.items() if any(value != "-" for value in values)}
    table = aligned(list(filled), list(zip(*filled.values(), strict=True)), (), view.width)
    yield from Section(f"training steps of {name}", folded(_facts(steps), view, NAME), apart=False).text(view)
    yield styled("")
    yield from table
    if "KL" in filled or "left out" in filled:
        yield from folded([styled(NOTE)], view)
    yield styled("")


def _facts(steps: Sequence[TrainStep]) -> Iterator["Text"]:
    algorithms = ", ".join(dict.fromkeys(step["algorithm"] for step in steps))
    seconds = sum(step["duration_s"] for step in steps)
    tokens = sum(step["tokens"] for step in steps)
    total = f"{count(len(steps), 'step')}, {tokens:,} tokens, {seconds:.1f} s in total"
    yield fact("run", f"{algorithms}, {total}")
    for words, values in (
        ("loss", [step["loss"] for step in steps]),
        ("reward", [step["reward_mean"] for step in steps]),
        ("validation", [step.get("validation_reward") for step in steps]),
    ):
        known = [value for value in values if value is not None]
        if known:
            yield fact(
                words,
                f"{facts.number(known[0], '.4g')} in the first step, {facts.number(known[-1], '.4g')} in the last",
            )
    if lost := sum(step.get("lost") or 0 for step in steps):
        yield fact("left out", count(round(lost), "rollout"))
    if paths := [path for step in steps if (path := step.get("checkpoint"))]:
        yield fact("saved", f"{count(len(paths), 'checkpoint')}, the last {paths[-1]}")
