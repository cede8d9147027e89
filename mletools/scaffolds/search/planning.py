"""The planning components: stages, limits of runs and guidance, by the budget and the graph (R&D-Agent, 3.3 and E.1)."""

from dataclasses import dataclass

from ... import prompts
from ...records.rollout import Stage
from ..messages import task_prompt
from .data import Budget, Plan, Unanswered, later
from .graph import Graph
from .node_context import NodeContext
from .replies import Reading, fields_in

DEBUG_SECONDS = 600.0  # of R&D-Agent's debug runs
MODEL_FIRST = (
    "Most of the budget is left: think first about the architecture of the model, that is which family of models suits "
    "this data and how to build it, and leave fine-tuning for later."
)
STAGNANT = (
    "The last {nodes} experiments brought no new best score. What they have in common does not help: try something else, "
    "also if it costs more."
)
GROWN = (
    "The last {nodes} ran out of time, so runs have longer limits for now, as told below. Programs that fit into the usual "
    "ones are still better."
)
EFFORT = {
    True: "Good solutions of this task have to train for long: use most of the time that a run may take.",
    False: "Aim for programs that need about half of the time that a run may take.",
}
ANALYSIS = {"task_type": 100, "data_type": 100, "summary": 1000, "data": 2000, "submission": 1000, "metric": 1000}


def stage_of(share: float, draft: float = 0.1, ensemble: float = 1 / 3, merge: float = 0.8) -> Stage:
    """The stage for a share of the budget. Constants are the shares where a stage ends (draft) or begins.

    R&D-Agent drafts in the first tenth, and may ensemble from 4 of 12 hours on (3.3); in the release from 70 % on. The
    time of its final merge is in hours.
    """
    if share >= merge:
        return "merge"
    if share < draft:
        return "draft"
    return "ensemble" if share >= ensemble else "improvement"


@dataclass(frozen=True)
class NoPlanning:
    """The same plan in each round: the user's limit of a run, a debug run of at most 600 s, no guidance and no role."""

    def begin(self, context: NodeContext) -> str:
        return ""

    def plan(self, graph: Graph, budget: Budget) -> Plan:
        seconds = budget.run_seconds
        return Plan(budget.share, stage_of(budget.share), "", seconds, min(DEBUG_SECONDS, seconds))


@dataclass(frozen=True)
class DynamicPlanning:
    """First short runs and novelty; later long runs and refinement, with ensembles and cross-validation.

    draft_until, ensemble_from, merge_from: see `stage_of`; ensemble_from=0.7 is the release's. early, middle: shares of
    the user's limit of a run in drafts and improvements; later stages get all of it. The paper gives no numbers.
    stagnant: after so many nodes without a new best score, an improvement is planned like an ensemble, with guidance to
    try something else. late: after so many nodes in a row that ran out of time, drafts have the limit of improvements,
    and improvements all of it (the release raises limits after failures). The paper's plan looks at the graph and at
    the time left, and gives no rule. debug_share: share
    of a run's limit for debug runs (R&D-Agent: 600 s of 3600 s). least_debug: their minimum in seconds, since imports
    take time. model_until: share of the budget during which the model's architecture comes first (R&D-Agent: while more
    than 75 % of the time remains). growth: the factor by which the limits of runs and debug runs grow at most, up to the
    user's limit of a run: one more for each of the newest nodes in a row that ran out of time. role: analyse the task first, and give all prompts an expert's role.
    """

    draft_until: float = 0.1
    ensemble_from: float = 1 / 3
    merge_from: float = 0.8
    early: float = 0.25
    middle: float = 0.5
    stagnant: int = 9
    late: int = 2
    debug_share: float = 1 / 6
    least_debug: float = 10.0
    model_until: float = 0.25
    role: bool = True
    growth: float = later(1.0)

    def begin(self, context: NodeContext) -> str:
        """The expert's role, from one question about the task; "" if the answer cannot be read."""
        if not self.role:
            return ""
        try:
            analysis, longer_limit = context.read(
                "research", "search-analysis", task_prompt("search-analysis", context.job, context), read_analysis
            )
        except Unanswered:
            return ""
        return prompts.render("search-role", **analysis, effort=EFFORT[longer_limit])

    def plan(self, graph: Graph, budget: Budget) -> Plan:
        stage = stage_of(budget.share, self.draft_until, self.ensemble_from, self.merge_from)
        is_stagnant = _nodes_since_best(graph) >= max(1, self.stagnant)
        if is_stagnant and stage == "improvement":
            stage = "ensemble"
        parts = [prompts.render(f"search-guidance-{stage}"), _budget_text(graph, budget)]
        if budget.share < self.model_until:
            parts.append(MODEL_FIRST)
        if is_stagnant:
            parts.append(STAGNANT.format(nodes=_nodes_since_best(graph)))
        newest = graph.nodes[-max(1, self.late) :]
        is_late = len(newest) == max(1, self.late) and graph.out_of_time.issuperset(node.number for node in newest)
        shares = {"draft": self.middle if is_late else self.early, "improvement": 1.0 if is_late else self.middle}
        seconds = budget.run_seconds * shares.get(stage, 1.0)
        debug_seconds = max(seconds * self.debug_share, min(self.least_debug, seconds))
        overrun = _newest_out_of_time(graph)
        factor = max(1.0, min(self.growth, 1.0 + overrun))
        if factor > 1.0:
            seconds, debug_seconds = (min(budget.run_seconds, factor * limit) for limit in (seconds, debug_seconds))
            parts.append(GROWN.format(nodes=f"{overrun} experiments" if overrun > 1 else "experiment"))
        return Plan(budget.share, stage, "\n\n".join(parts), seconds, debug_seconds)


def _newest_out_of_time(graph: Graph) -> int:
    """Number of the newest nodes in a row that ran out of time."""
    return next(
        (at for at, node in enumerate(reversed(graph.nodes)) if node.number not in graph.out_of_time), len(graph)
    )


def _nodes_since_best(graph: Graph) -> int:
    """Number of nodes after the best one; 0 without a score."""
    best = graph.best()
    return 0 if best is None else len(graph) - 1 - best.number


def _budget_text(graph: Graph, budget: Budget) -> str:
    """The used share of the budget, the time left and the longest run so far (the release's planner is told the same).

    Rounded: prompts must not depend on small differences of measured times.
    """
    left = "" if budget.seconds_left is None else f"; time left: {_time(budget.seconds_left)}"
    longest = f" The longest run so far took {_time(graph.longest_run)}." if graph.longest_run else ""
    return f"About {10 * round(10 * budget.share)} % of the search's budget is used{left}.{longest}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return "less than two minutes"
    minutes = round(seconds / 60)
    return f"about {minutes} minutes" if minutes < 120 else f"about {round(minutes / 60)} hours"


def read_analysis(text: str, notes: Reading | None = None) -> tuple[dict[str, str], bool]:
    """(the texts of an answer to search-analysis, whether runs need a longer limit). ValueError, worded for the model."""
    answer = fields_in(text, ("longer_limit", *ANALYSIS), notes)
    longer_limit = answer.flag("longer_limit")
    # One line each: a heading in an answer would look like one of the prompt's own.
    return {name: " ".join(answer.text(name, most).split()) for name, most in ANALYSIS.items()}, longer_limit
