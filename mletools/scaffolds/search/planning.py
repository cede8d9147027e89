"""Planning: what a round may cost and what it is to look for, by how much of the budget is used (R&D-Agent, 3.3 and E.1).

Covered: limits of a run that grow by stage, guidance by stage, an expert role made of an analysis of the task. Not
covered: which stage it is (stages), which nodes are made (paths). A plan depends on the share of the budget alone, which
is counted in seconds of asking and running: no clock is read.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import prompts
from ..facts import tell
from .interfaces import Plan, Unanswered
from .replies import json_in, text_of

if TYPE_CHECKING:
    from mletools.scaffolds.search.graph import Graph
    from mletools.scaffolds.search.node_context import NodeContext

DEBUG_SECONDS = 600.0  # of R&D-Agent's debug runs
MODEL_FIRST = (
    "Most of the budget is still there: think first about the architecture of the model, that is which family of models "
    "suits this data and how it is built, and leave fine tuning for later."
)
ANALYSIS = {"task_type": 100, "data_type": 100, "summary": 1000, "data": 2000, "submission": 1000, "metric": 1000}


@dataclass(frozen=True)
class NoPlanning:
    """Every round alike: the user's limit of a run, a debug run of at most 600 s, no guidance and no role."""

    def begin(self, context: "NodeContext") -> str:
        """See interfaces.Planning."""
        return ""

    def plan(self, graph: "Graph", share: float, stage: str, full_seconds: float) -> Plan:
        """See interfaces.Planning."""
        return Plan(share, stage, "", full_seconds, min(DEBUG_SECONDS, full_seconds))


@dataclass(frozen=True)
class DynamicPlanning:
    """Little time a run and novelty early, more time and refinement late; ensembles and cross-validation only then.

    early, middle: shares of the user's limit of a run that a draft and an improvement get; ensembles and merges get all of
    it. The paper gives an early round a small budget and a late one more, without numbers. debug_share: of a run's limit
    that a debug run gets (600 s of 3600 s in R&D-Agent), but least_debug seconds where there are so many: libraries want
    to be loaded. model_until: up to this share of the search's budget ideas about
    the model's architecture are asked for first (R&D-Agent: while more than 75 % of the time remains). role: begin with
    an analysis of the task, of which all prompts get an expert's role.
    """

    early: float = 0.25
    middle: float = 0.5
    debug_share: float = 1 / 6
    least_debug: float = 10.0
    model_until: float = 0.25
    role: bool = True

    def begin(self, context: "NodeContext") -> str:
        """The expert's role, by one question about the task; "" where the answer cannot be read: a role is no must."""
        if not self.role:
            return ""
        try:
            analysis = context.read("research", "search-analysis", tell("search-analysis", context.task), analysis_in)
        except Unanswered:
            return ""
        most = context.job.settings.execution_seconds
        advised = most if analysis["longer_limit"] else self.middle * most
        told = {name: analysis[name] for name in ("task_type", "data_type", "summary", "data", "submission", "metric")}
        return prompts.render("search-role", **told, most=f"{most:.0f}", advised=f"{advised:.0f}")

    def plan(self, graph: "Graph", share: float, stage: str, full_seconds: float) -> Plan:
        """See interfaces.Planning."""
        seconds = full_seconds * {"draft": self.early, "improvement": self.middle}.get(stage, 1.0)
        guidance = prompts.render(f"search-guidance-{stage}", seconds=f"{seconds:.0f}")
        if share < self.model_until:
            guidance += f"\n\n{MODEL_FIRST}"
        debug_seconds = max(seconds * self.debug_share, min(self.least_debug, seconds))
        return Plan(share, stage, guidance, seconds, debug_seconds)


def analysis_in(text: str) -> dict[str, Any]:
    """The fields of an answer to search-analysis, each text on one line. ValueError, in words, where one is missing."""
    answer = json_in(text, dict)
    if not isinstance(answer.get("longer_limit"), bool):
        raise ValueError('"longer_limit" has to be true or false')
    # One line each: a heading in an answer would look like one of the prompts' own.
    told = {name: " ".join(text_of(answer, name, most).split()) for name, most in ANALYSIS.items()}
    return {**told, "longer_limit": answer["longer_limit"]}
