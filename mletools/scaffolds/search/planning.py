"""The planning components: limits of runs and guidance by the used share of the budget (R&D-Agent, 3.3 and E.1)."""

from dataclasses import dataclass

from ... import prompts
from ...records.rollout import Stage
from ..messages import task_prompt
from .data import Plan, Unanswered
from .graph import Graph
from .node_context import NodeContext
from .replies import Reading, fields_in

DEBUG_SECONDS = 600.0  # of R&D-Agent's debug runs
MODEL_FIRST = (
    "Most of the budget is left: think first about the architecture of the model, that is which family of models suits "
    "this data and how to build it, and leave fine-tuning for later."
)
ANALYSIS = {"task_type": 100, "data_type": 100, "summary": 1000, "data": 2000, "submission": 1000, "metric": 1000}


def stage_of(share: float, draft: float = 0.1, ensemble: float = 0.7, merge: float = 0.8) -> Stage:
    """The stage for a share of the budget. Constants are the shares where the next stage begins.

    R&D-Agent drafts in the first tenth, and may ensemble or merge from 70 % on; the time of its final merge is in
    hours.
    """
    if share >= merge:
        return "merge"
    if share >= ensemble:
        return "ensemble"
    return "draft" if share < draft else "improvement"


@dataclass(frozen=True)
class NoPlanning:
    """The same plan in each round: the user's limit of a run, a debug run of at most 600 s, no guidance and no role."""

    def begin(self, context: NodeContext) -> str:
        return ""

    def plan(self, graph: Graph, share: float, stage: Stage, full_seconds: float) -> Plan:
        return Plan(share, stage, "", full_seconds, min(DEBUG_SECONDS, full_seconds))


@dataclass(frozen=True)
class DynamicPlanning:
    """First short runs and novelty; later long runs and refinement, with ensembles and cross-validation.

    early, middle: shares of the user's limit of a run in drafts and improvements; later stages get all of it. The paper
    gives no numbers. debug_share: share of a run's limit for debug runs (R&D-Agent: 600 s of 3600 s). least_debug:
    their minimum in seconds, since imports take time. model_until: share of the budget during which the model's
    architecture comes first (R&D-Agent: while more than 75 % of the time remains). role: analyse the task first, and
    give all prompts an expert's role.
    """

    early: float = 0.25
    middle: float = 0.5
    debug_share: float = 1 / 6
    least_debug: float = 10.0
    model_until: float = 0.25
    role: bool = True

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
        most = context.job.settings.execution_seconds
        advised = most if longer_limit else self.middle * most
        return prompts.render("search-role", **analysis, most=f"{most:.0f}", advised=f"{advised:.0f}")

    def plan(self, graph: Graph, share: float, stage: Stage, full_seconds: float) -> Plan:
        seconds = full_seconds * {"draft": self.early, "improvement": self.middle}.get(stage, 1.0)
        guidance = prompts.render(f"search-guidance-{stage}", seconds=f"{seconds:.0f}")
        if share < self.model_until:
            guidance += f"\n\n{MODEL_FIRST}"
        debug_seconds = max(seconds * self.debug_share, min(self.least_debug, seconds))
        return Plan(share, stage, guidance, seconds, debug_seconds)


def read_analysis(text: str, notes: Reading | None = None) -> tuple[dict[str, str], bool]:
    """(the texts of an answer to search-analysis, whether runs need a longer limit). ValueError, worded for the model."""
    answer = fields_in(text, ("longer_limit", *ANALYSIS), notes)
    longer_limit = answer.flag("longer_limit")
    # One line each: a heading in an answer would look like one of the prompt's own.
    return {name: " ".join(answer.text(name, most).split()) for name, most in ANALYSIS.items()}, longer_limit
