"""The R&D loop: plan, select parents, recall, reason, develop, evaluate, add, until the budget is used up (algorithm 1).

It goes in rounds. The paths say which nodes a round makes; their ideas are thought of one after the other, each told of
those before it, and then all are developed at once. A round is added to the graph as a whole, so which of them ends
first, and how many run at a time, changes nothing. Covered: budgets, a killed search. Not covered: what the components do.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...records.ids import derive_seed
from ..interface import Environment, Job
from . import knowledge
from .components import COMPONENTS, load
from .graph import Graph, Node, added
from .interfaces import (
    Brief,
    Choice,
    Developed,
    Expansion,
    Hypothesis,
    Idea,
    Plan,
    Question,
    Unanswered,
)
from .memory import experiment_line
from .node_context import NOTHING, PHASES, NodeContext
from .settings import SearchSettings
from .stages import stage_of

RESERVED = 0.25  # of a search's seconds are kept for the choice at most
BEGIN, CHOICE = "begin", "choice"  # what is asked ahead of the first node, and after the last


@dataclass(frozen=True)
class _Begun:
    """A node that has its idea and is to be developed."""

    number: int
    context: NodeContext
    plan: Plan
    expansion: Expansion
    idea: Idea | None  # None: nothing that can be read was answered,
    why: str  # and why not
    lessons: tuple[str, ...]
    clock: float  # of the context, when the idea was there


class Search:
    """One search, from its beginning or from where a killed one stopped."""

    def __init__(self, job: Job[SearchSettings], environment: Environment):
        self.job, self._environment = job, environment
        settings = job.settings
        components = {kind: load(kind, getattr(settings, kind), settings.constants[kind]) for kind in COMPONENTS}
        self.planning, self.paths, self.memory = components["planning"], components["paths"], components["memory"]
        self.reasoning, self.coding, self.evaluation = (
            components["reasoning"],
            components["coding"],
            components["evaluation"],
        )
        self._passages = knowledge.passages(Path(settings.knowledge)) if settings.knowledge else []
        path, go_on = environment.graph()
        if not go_on:
            path.unlink(missing_ok=True)
        self.graph = Graph(path, job.task["metric"]["lower_is_better"])
        self._outside = {phase: dict(NOTHING) for phase in PHASES}  # used by what is asked beside the nodes
        self._beside: list[NodeContext] = []
        self._begun = self._chosen = 0.0  # seconds of the clock that the beginning and the choice took
        begin = self._desk(BEGIN)
        self._system = self.planning.begin(begin)
        self._count(begin)
        self._begun = begin.clock

    # --- the loop -------------------------------------------------------------------------------------------------

    def explore(self) -> Choice:
        """Add to the graph until the budget is used up, and choose what is handed in."""
        settings = self.job.settings
        while (share := self.share()) < 1:
            plan = self.planning.plan(self.graph, share, stage_of(share), settings.execution_seconds)
            plan = replace(plan, repairs=self.coding.repairs)
            dice = random.Random(derive_seed(self.job.seed, "paths", self.graph.rounds))
            expansions = self.paths.select(self.graph, plan, dice)[: self._fitting()]
            if not expansions:
                break
            self._round(plan, expansions)
        context = self._desk(CHOICE)
        choice: Choice = self.evaluation.choose(self.graph, context)
        self._count(context)
        self._chosen = context.clock
        return choice

    def _fitting(self) -> int:
        """How many nodes a round may have: those that are left; none where there is less time than nodes took so far, by
        their mean, for what would hardly be done is not begun.
        """
        left, took = self._left(), [node.seconds for node in self.graph.nodes]
        if left is not None and took and left < sum(took) / len(took):
            return 0
        return self.job.settings.max_turns - len(self.graph)

    def share(self) -> float:
        """How much of the budget is used, of 1: of what there is least left."""
        bounds, spent = self.job.settings, self.usage()
        total = added(spent["research"], spent["develop"])
        shares = [len(self.graph) / bounds.max_turns]
        if bounds.max_seconds is not None:
            shares.append(self.clock / (bounds.max_seconds - self._reserve()))
        for most, name in ((bounds.max_tokens, "completion_tokens"), (bounds.max_usd, "usd")):
            if most is not None:  # what cannot be counted cannot be kept to: a budget of it ends with the first round
                shares.append(
                    float(len(self.graph) > 0) if total[name] is None else total[name] / most if most else 1.0
                )
        return float(min(1.0, max(shares)))

    @property
    def clock(self) -> float:
        """Seconds so far, as a clock would show them: the programs of a round run at once."""
        return (self.graph.elapsed or self._begun) + self._chosen

    def usage(self) -> dict[str, dict[str, Any]]:
        """{phase: {prompt_tokens, completion_tokens, seconds, usd}} of the whole search so far."""
        return {
            phase: added(self._outside[phase], self.graph.spent.get(phase, dict.fromkeys(used, 0)))
            for phase, used in self._outside.items()
        }

    def done(self) -> None:
        """The search's records are written: what was asked beside the nodes need not be kept."""
        for context in self._beside:
            context.done()

    def _round(self, plan: Plan, expansions: list[Expansion]) -> None:
        begun: list[_Begun] = []
        beside: list[str] = []
        left = self._left()
        for at, expansion in enumerate(expansions):
            node = self._begin(len(self.graph) + at, plan, expansion, tuple(beside), left)
            begun.append(node)
            left = None if left is None else left - node.clock
            if node.idea is not None:
                beside.append(node.idea.hypothesis.text)
        nodes = self._environment.at_once(self._develop, begun)
        elapsed = (
            self.clock + sum(node.clock for node in begun) + max(node.context.clock - node.clock for node in begun)
        )
        self.graph.add([{**each, "elapsed": round(elapsed, 4)} for each in nodes])
        self._environment.progress(len(nodes))
        for node in begun:
            node.context.done()

    def _begin(
        self, number: int, plan: Plan, expansion: Expansion, beside: tuple[str, ...], left: float | None
    ) -> _Begun:
        """The research phase of a node, which may use `left` seconds."""
        environment = self._environment.part(str(number))
        context = NodeContext(self.job, environment, f"node {number}", self._system, left)
        parents = self._parents(expansion)
        recalled: dict[int, Node] = {}

        def recall(hypotheses: Any) -> list[Node]:
            nodes: list[Node] = self.memory.recall(self.graph, expansion, hypotheses, context.similar, context.dice)
            recalled.update({node.number: node for node in nodes})
            return nodes

        def know(query: str) -> list[str]:
            return knowledge.best(query, self._passages, context.similar)

        idea: Idea | None
        why = ""
        if expansion.operation == "debug":
            tried = self.graph[expansion.parents[0]]
            idea = Idea(Hypothesis(tried.hypothesis, tried.component))
        else:
            question = Question(self.graph, expansion, plan, parents, recall, beside, know)
            try:
                idea = self.reasoning.reason(context, question)
            except Unanswered as error:
                idea, why = None, str(error)
        lessons = tuple(experiment_line(node) for _, node in sorted(recalled.items()))
        return _Begun(number, context, plan, expansion, idea, why, lessons, context.clock)

    def _develop(self, begun: _Begun) -> dict[str, Any]:
        """The development phase of a node: all that the graph keeps of it, but for what the round took."""
        context, idea = begun.context, begun.idea
        if idea is None:
            developed = Developed(None, None, "unanswered", why=begun.why)
            idea = Idea(Hypothesis("none"))
        else:
            brief = Brief(
                begun.expansion,
                idea,
                begun.plan,
                self._parents(begun.expansion),
                begun.lessons,
                self.evaluation.reports,
            )
            developed = self.coding.develop(context, brief)
        score = self.evaluation.score(developed) if developed.problem is None else None
        problem = developed.problem or (None if score is not None else "no_score")
        node = {
            **self._place_in_graph(begun),
            "hypothesis": idea.hypothesis.text,
            "component": idea.hypothesis.component,
            "problem": problem,
            "why": developed.why,
            "score": score,
            "lesson": "",
            "stage": begun.plan.stage,
            "guidance": begun.plan.guidance,
            "idea": _idea_record(idea),
            "code": developed.code,
            **_told(developed.result),
            "trials": [dict(trial) for trial in developed.trials],
        }
        node["lesson"] = self.memory.lesson(context, self.graph, node)
        return {**node, "usage": context.usage, "seconds": round(context.seconds, 4), "asked": context.asked}

    # --- what it rests on -----------------------------------------------------------------------------------------

    def _place_in_graph(self, begun: _Begun) -> dict[str, Any]:
        """number, parents, operation, branch, depth, repairs and round of a new node."""
        number, expansion = begun.number, begun.expansion
        main = self.graph[expansion.parents[0]] if expansion.parents else None
        repairs = main.repairs + 1 if main and expansion.operation == "debug" else 0
        return {
            "number": number,
            "parents": list(expansion.parents),
            "operation": expansion.operation,
            "branch": main.branch if main else number,
            "depth": main.depth + 1 if main else 0,
            "repairs": repairs,
            "round": self.graph.rounds,
        }

    def _parents(self, expansion: Expansion) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.graph.details(number) for number in expansion.parents)

    def _desk(self, name: str) -> NodeContext:
        system = "" if name == BEGIN else self._system
        context = NodeContext(self.job, self._environment.part(name), name, system, self._left(choosing=True))
        self._beside.append(context)
        return context

    def _count(self, context: NodeContext) -> None:
        for phase, used in context.usage.items():
            self._outside[phase] = added(self._outside[phase], used)

    def _left(self, choosing: bool = False) -> float | None:
        """Seconds of the budget that are left: for nodes, or for the choice, for which some are kept."""
        most = self.job.settings.max_seconds
        return None if most is None else most - self.clock - (0.0 if choosing else self._reserve())

    def _reserve(self) -> float:
        most = self.job.settings.max_seconds
        return 0.0 if most is None else min(RESERVED * most, float(self.evaluation.reserve(self.graph)))


def _idea_record(idea: Idea) -> dict[str, Any]:
    main = idea.hypothesis
    return {
        "challenge": main.challenge,
        "origin": main.origin,
        "scores": dict(main.scores),
        "action": idea.action,
        "considered": [
            {"text": each.text, "component": each.component, "scores": dict(each.scores)} for each in idea.considered
        ],
        "recalled": list(idea.recalled),
        "challenges": list(idea.challenges),
    }


def _told(outcome: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: None if outcome is None else outcome[name] for name in ("execution", "validation", "grade")}
