"""Statistics of one search, from its record: loops, improve rate, first medal, costs, and results over time.

R&D-Agent's table 3 (loops, improve rate, time to first medal) and figure 3 (medals over time, beside perfect
selection). Seconds are those of the search's clock at the end of a node's round. Not covered: means over searches
(summary), the validity of test scores (grading).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from ..records.rollout import Rollout, Usage
from .turns import Turn, Verdict, lower_is_better
from .usage import USED

SHARES = tuple(tenth / 10 for tenth in range(1, 11))  # of a budget
CLOSE = 1e-9  # shares closer than this are equal


class Standing(NamedTuple):
    """Verdicts at a share of the budget: on the submission of the search at that time, and on its best node by the
    test. None: no submission yet.
    """

    share: float
    handed_in: Verdict | None = None
    perfect: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """The statistics of one search."""

    loops: int  # nodes, including failed ones
    improve_rate: float | None
    first_medal_s: float | None
    cost: dict[str, dict[str, float | None]]  # by phase: USED
    over_time: tuple[Standing, ...]  # at SHARES
    fallbacks: int = 0  # answers of the model that could not be used
    by_printed_scores: bool = False  # in place of those on held-out rows


def is_search(rollout: Rollout) -> bool:
    """Whether the rollout is a search and every turn is a node."""
    return bool(rollout.get("search")) and all("node" in turn for turn in rollout["turns"])


def searched(rollout: Rollout, of: Sequence[Turn]) -> Search | None:
    """The Search of a rollout with these turns; None if it is no search."""
    if not is_search(rollout):
        return None
    fallbacks = sum((rollout["search"].get("fallbacks") or {}).values())
    times = tuple(over_time(rollout))
    printed = "evaluation_asked" in rollout["search"]
    return Search(len(of), improve_rate(of), first_medal_s(rollout), cost(rollout), times, fallbacks, printed)


def improve_rate(of: Sequence[Turn]) -> float | None:
    """Share of the nodes after the first scored node that beat the scores of all earlier nodes.

    Nodes without a score count as no gain. None: there are no such nodes. (R&D-Agent, table 3: "percentage of R&D loops
    yielding performance gains"; the paper does not say what a gain is measured against.)
    """
    better = [turn.improved for turn in of]
    after = better[better.index(True) + 1 :] if True in better else []
    return sum(after) / len(after) if after else None


def first_medal_s(rollout: Rollout) -> float | None:
    """Seconds until the first node whose submission wins a medal on the test; None if there is none."""
    grades = ((turn, turn.get("grade")) for turn in rollout["turns"])
    won = (turn["node"]["elapsed_s"] for turn, grade in grades if grade and grade.get("medal"))
    return next(map(float, won), None)


def cost(rollout: Rollout) -> dict[str, dict[str, float | None]]:
    """{phase: {seconds, prompt_tokens, completion_tokens, usd}} of the whole search; None: unknown."""
    phases = cast(dict[str, Usage], rollout["search"]["cost"])
    return {phase: {name: cast(float | None, used.get(name)) for name in USED} for phase, used in phases.items()}


def shares_used(rollout: Rollout) -> list[float]:
    """For each node, the share of the budget used at the end of its round: the largest of time, nodes and USD.

    Quantities without a limit do not count, nor does USD if the cost of a turn is unknown. Without any limit, it is the
    share of the search's total time.
    """
    nodes, budget = rollout["turns"], rollout["search"]["budget"]
    rounds = [turn["node"].get("round", at) for at, turn in enumerate(nodes)]
    ends = {number: at + 1 for at, number in enumerate(rounds)}
    used: dict[str, list[float]] = {
        "seconds": [turn["node"]["elapsed_s"] for turn in nodes],
        "nodes": [float(ends[number]) for number in rounds],
    }
    paid = [usd for turn in nodes if "usage" in turn and (usd := turn["usage"]["usd"]) is not None]
    if len(paid) == len(nodes):
        used["usd"] = [sum(paid[: ends[number]]) for number in rounds]
    bounds = {name: most for name, most in budget.items() if most and name in used}
    if not bounds:
        bounds = {"seconds": max(used["seconds"], default=0.0) or 1.0}
    return [max(used[name][at] / most for name, most in bounds.items()) for at in range(len(nodes))]


def over_time(rollout: Rollout, shares: Sequence[float] = SHARES) -> list[Standing]:
    """The search's Standing at each share of its budget, from the nodes whose rounds were finished by then.

    handed_in: the node with the best score so far, the first of equals; after the last node, and at 1, what the search
    handed in, which an ensemble or the refit may have made of the node that it chose. perfect: the valid node with the best test score (figure 3's bound).
    """
    nodes, when, lower = rollout["turns"], shares_used(rollout), lower_is_better(rollout)
    grades = [turn.get("grade") for turn in nodes]
    chosen = next(
        (at for at, turn in enumerate(nodes) if turn["node"]["number"] == rollout["search"].get("chosen")), None
    )
    standings = []
    for share in shares:
        over = share >= 1 or all(time <= share + CLOSE for time in when)
        done = [at for at, time in enumerate(when) if over or time <= share + CLOSE]
        best = chosen if over else _best(((at, nodes[at]["node"]["score"]) for at in done), lower)
        handed_in = None if best is None else rollout.get("grade", grades[best]) if over else grades[best]
        valid = ((at, grade.get("score")) for at in done if (grade := grades[at]) and grade["valid"])
        perfect = _best(valid, lower)
        verdicts = (handed_in, None if perfect is None else grades[perfect])
        standings.append(Standing(share, *(None if grade is None else Verdict.of(grade) for grade in verdicts)))
    return standings


def _best(scores: Iterable[tuple[int, float | None]], lower: bool) -> int | None:
    """The index of the best score, the first of equals."""
    known = {at: score for at, score in scores if score is not None}
    return (min if lower else max)(known, key=lambda at: known[at], default=None)
