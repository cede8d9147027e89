"""The R&D loop (algorithm 1): plan, select parents, recall, reason, develop, evaluate, add, until the budget is used
up.

It works in rounds, whose nodes the paths select. Their ideas are made one by one, each with the earlier ones of the
round in view; then all are developed concurrently. A round is added to the graph as a whole, so neither the order in
which nodes end nor the number of workers changes the result. Without rounds: see `free`.
"""

import copy
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from pathlib import Path

from ...base.ids import derive_seed
from ...base.tape import NothingKept
from ...records.rollout import Hypothesis as RecordedHypothesis
from ...records.rollout import Phase, Rollout, SearchEnd, Usage
from ..interface import STOP, RunResult, SearchEnvironment
from .clock import WallClock
from .components import Components
from .data import Brief, Budget, Choice, Developed, Expansion, Hypothesis, Idea, Plan, Question, Start, Unanswered
from .evaluation import MARGIN
from .free import FreeWorkers
from .graph import Details, Graph, Node, add_by_role, added
from .node_context import GivenUp, NodeContext, Researched
from .record import search_record
from .sections import experiment_line, failed_attempts
from .settings import PHASES, SearchJob
from .similarity import best_passages, bm25, read_passages

RESERVED = 0.25  # maximum share of a search's seconds that is reserved for the choice and the refit


class Search:
    """One search, from its beginning or from where a killed one stopped."""

    def __init__(self, job: SearchJob, environment: SearchEnvironment):
        self.job, self.environment = job, environment
        settings = job.settings
        self._components = Components.load(settings)
        self._passages = read_passages(Path(settings.knowledge)) if settings.knowledge else []
        path, self._resumes = environment.graph()
        lower = job.task["metric"]["lower_is_better"]
        self.graph = Graph(path, lower, settings.rounded, settings.max_scores, anew=not self._resumes)
        self._stop_file = path.parent / STOP
        self.ended: SearchEnd | None = None
        self._wall: WallClock | None = None
        self._outside: list[NodeContext] = []  # of nodes: the contexts of the beginning and the choice
        self._system = ""
        try:
            self._begin()
        except BaseException:
            self.graph.close()
            raise

    def _begin(self) -> None:
        settings, task = self.job.settings, self.job.task
        if settings.from_graph is not None and not len(self.graph):
            file, last = named_graph(settings.from_graph)
            self.graph.take_over(file, task, last, settings.as_record())
        if settings.clock == "wall":
            self._wall = WallClock(self.graph.elapsed)
        about = self.graph.about()
        self._budget_before = about[0]["search"]["budget"] if self._resumes and about is not None else None
        beginning = self._context_outside("begin", 0.0)
        self.graph.tell(self.record(Choice(None, "nothing is chosen yet"), task["description"]))
        self._system = self._components.planning.begin(beginning)

    def explore(self) -> Choice:
        """Add to the graph until the budget is used up or the user stops it, then choose the node to hand in."""
        if self.job.settings.rounds == "free":
            FreeWorkers(self).explore()
        else:
            self._explore_in_rounds()
        choice: Choice = self._components.evaluation.choose(self.graph, self._context_outside("choice", self.clock))
        return choice

    def _explore_in_rounds(self) -> None:
        while not self.is_stopped() and not self.is_used_up():
            plan, expansions, left = self._next_round()
            rounds = self.graph.rounds
            too_late = left is not None and rounds and left < self.graph.elapsed / rounds
            if not expansions or too_late:
                self.ended = "too_late" if too_late else "paths"
                break
            self._round(plan, expansions)
        if self._budget_before is not None:
            self._leave_round(self._budget_before)

    def _next_round(self) -> tuple[Plan, list[Expansion], float | None]:
        """The plan and the nodes of the next round, and the time that is left for it; None: no limit."""
        settings, deadline = self.job.settings, self.deadline()
        left = None if deadline is None else deadline - self.clock
        plan = self.plan(Budget(self.share(), settings.execution_seconds, left))
        return plan, self.select(plan, self.graph.rounds)[: settings.max_turns - len(self.graph)], left

    def _leave_round(self, budget: Mapping[str, float | None]) -> None:
        """Count what a killed search, with its budget, has paid for a round that is not gone on with."""
        before = copy.copy(self)
        settings = replace(self.job.settings, max_seconds=budget["seconds"], max_usd=budget["usd"])
        before.job = replace(self.job, settings=settings)
        plan, expansions, _ = before._next_round()
        for node in before._research_round(plan, expansions, kept_only=True):
            with suppress(NothingKept):
                before.develop(node)

    def is_stopped(self) -> bool:
        """Whether the user wants the best so far: there is a file STOP beside the graphs."""
        if self._stop_file.exists():
            self.ended = "user"
        return self.ended == "user"

    def is_used_up(self, under_way: Sequence[NodeContext] = ()) -> bool:
        """Whether a bound of the budget is reached."""
        name, share = max(self._shares(under_way).items(), key=lambda entry: entry[1])
        if share >= 1:
            self.ended = name
        return share >= 1

    def select(self, plan: Plan, round: int) -> list[Expansion]:
        """The nodes that the paths select."""
        rng = random.Random(derive_seed(self.job.seed, "paths", round))
        expansions: list[Expansion] = self._components.paths.select(self.graph, plan, rng)
        return expansions

    def refit(self, choice: Choice) -> RunResult | None:
        """The run of the chosen node's program on all training rows; None: there is none."""
        code = None if choice.number is None else self.graph.details(choice.number)["code"]
        if code is None:
            return None
        context = self._context_outside("refit", self.clock)
        return context.run(code, self.job.settings.execution_seconds, rows="all")

    def plan(self, budget: Budget) -> Plan:
        """The plan of the next round, whose runs end with the search."""
        plan = self._components.planning.plan(self.graph, budget)
        most = float("inf") if budget.seconds_left is None else max(1.0, budget.seconds_left)
        seconds, debug_seconds = min(plan.full_seconds, most), min(plan.debug_seconds, most)
        repairs = self._components.coding.repairs
        return replace(plan, full_seconds=seconds, debug_seconds=debug_seconds, repairs=repairs)

    def _research_round(self, plan: Plan, expansions: list[Expansion], kept_only: bool = False) -> list[Researched]:
        """The nodes of a round after their research. kept_only: as far as a killed search had come; see `leave`."""
        researched: list[Researched] = []
        hypotheses: list[str] = []
        clock, seen = self.clock, len(self.graph)
        for at, expansion in enumerate(expansions, seen):
            start = Start(at, seen, plan, expansion, tuple(hypotheses), clock, self.deadline())
            context = self._context_of(start, self.environment.part(str(at), kept_only))
            if kept_only:
                self._outside.append(context)
            try:
                node = self._researched(start, context, self.graph)
            except NothingKept:
                break
            researched.append(node)
            clock = node.context.clock
            if node.idea is not None:
                hypotheses.append(node.idea.hypothesis.text)
        for node in researched:
            node.context.wait_until(clock)
        return researched

    def _round(self, plan: Plan, expansions: list[Expansion]) -> None:
        researched = self._research_round(plan, expansions)
        nodes = self._developed(researched)
        elapsed = round(max(node.context.clock for node in researched), 4)
        for details in nodes:
            details["elapsed"] = elapsed
        self.graph.add(nodes)
        self.environment.progress(len(nodes))
        for node in researched:
            node.context.done()

    def _developed(self, researched: Sequence[Researched]) -> list[Details]:
        """The nodes of a round, developed concurrently. After an error the others must not go on and cost money."""
        errors: list[BaseException] = []

        def develop(node: Researched) -> Details:
            try:
                return self.develop(node)
            except BaseException as error:
                errors.append(error)
                self.give_up([other.context for other in researched])
                raise

        try:
            return self.environment.at_once(develop, researched)
        except GivenUp:
            raise errors[0] from None

    def research(self, start: Start, environment: SearchEnvironment, graph: Graph) -> Researched:
        """The research phase of a node, in its own part of the environment. graph: as far as the node knows it."""
        return self._researched(start, self._context_of(start, environment), graph)

    def leave(self, start: Start, environment: SearchEnvironment, graph: Graph) -> None:
        """Count what a killed search has paid for a node that is not gone on with. environment: of kept answers only."""
        context = self._context_of(start, environment)
        self._outside.append(context)
        with suppress(NothingKept):
            self.develop(self._researched(start, context, graph))

    def _context_of(self, start: Start, environment: SearchEnvironment) -> NodeContext:
        """The context of a node; one that a killed search had begun ends with this one, which may have less time."""
        clock = start.clock, start.deadline, self._wall
        context = NodeContext(self.job, environment, f"node {start.number}", self._system, *clock)
        most = self.job.settings.max_seconds
        if most is not None and (start.deadline is None or start.deadline > most):
            context.latest = self.deadline()
        return context

    def _researched(self, start: Start, context: NodeContext, graph: Graph) -> Researched:
        expansion = start.expansion
        recalled: dict[int, Node] = {}

        def recall(hypotheses: Sequence[str]) -> list[Node]:
            nodes: list[Node] = self._components.memory.recall(
                graph, expansion, hypotheses, context.similar, context.rng
            )
            recalled.update({node.number: node for node in nodes})
            return nodes

        def know(query: str) -> list[str]:
            by_words = self.job.settings.embedding_model is None
            return best_passages(query, self._passages, bm25 if by_words else context.similar)

        idea: Idea | None = None
        why = ""
        if expansion.operation == "debug":
            failed = graph[expansion.parents[0]]
            idea = Idea(Hypothesis(failed.hypothesis, failed.component))
        else:
            question = Question(graph, expansion, start.plan, self._parents(expansion), recall, start.beside, know)
            try:
                idea = self._components.reasoning.reason(context, question)
            except Unanswered as error:
                why = str(error)
        lessons = tuple(experiment_line(node, graph) for _, node in sorted(recalled.items()))
        return Researched(start, graph, context, idea, why, lessons)

    def develop(self, node: Researched) -> Details:
        """The development phase of a node: its details, without `elapsed`."""
        context, expansion, idea, graph, plan = (
            node.context,
            node.start.expansion,
            node.idea,
            node.graph,
            node.start.plan,
        )
        if idea is None:
            developed = Developed(None, None, "unanswered", why=node.why)
            idea = Idea(Hypothesis("none"))
        else:
            parents, reports = self._parents(expansion), self._components.evaluation.reports
            attempts = failed_attempts(graph, expansion.parents[0]) if expansion.operation == "debug" else ()
            brief = Brief(graph, expansion, idea, plan, parents, node.lessons, reports, attempts)
            developed = self._components.coding.develop(context, brief)
        score = self._components.evaluation.score(developed) if developed.problem is None else None
        result, hypothesis = developed.result, idea.hypothesis
        parent = graph[expansion.parents[0]] if expansion.parents else None
        considered: list[RecordedHypothesis] = [
            {"text": other.text, "component": other.component, "scores": dict(other.scores)}
            for other in idea.considered
        ]
        details: Details = {
            "number": node.start.number,
            "parents": list(expansion.parents),
            "operation": expansion.operation,
            "branch": parent.branch if parent else node.start.number,
            "depth": parent.depth + 1 if parent else 0,
            "repairs": parent.repairs + 1 if parent and expansion.operation == "debug" else 0,
            "round": graph.rounds,
            "hypothesis": hypothesis.text,
            "component": hypothesis.component,
            "problem": developed.problem or (None if score is not None else "no_score"),
            "why": developed.why,
            "score": score,
            "lesson": "",
            "supported": None,
            "stage": plan.stage,
            "guidance": plan.guidance,
            "idea": {
                "challenge": hypothesis.challenge,
                "origin": hypothesis.origin,
                "scores": dict(hypothesis.scores),
                "action": idea.action,
                "considered": considered,
                "recalled": list(idea.recalled),
                "challenges": list(idea.challenges),
            },
            "code": developed.code,
            "execution": result["execution"] if result else None,
            "validation": result.get("validation") if result else None,
            "grade": result.get("grade") if result else None,
            "trials": list(developed.trials),
            "usage": context.usage,
            "seconds": 0.0,
            "asked": context.asked,
        }
        if result is not None and "selection" in result:
            details["selection"] = result["selection"]
        lesson = self._components.memory.lesson(context, graph, details)
        seconds = round(context.seconds, 4)
        details["lesson"], details["supported"] = lesson.text, lesson.supported
        return {**details, "usage": context.usage, "seconds": seconds, **context.notes}

    def _parents(self, expansion: Expansion) -> tuple[Details, ...]:
        return tuple(self.graph.details(number) for number in expansion.parents)

    def _context_outside(self, name: str, began: float) -> NodeContext:
        """A context for requests outside of nodes."""
        clock = began, self.job.settings.max_seconds, self._wall
        self._outside.append(NodeContext(self.job, self.environment.part(name), name, self._system, *clock))
        return self._outside[-1]

    def give_up(self, contexts: Sequence[NodeContext]) -> None:
        """Leave nodes unfinished: they ask and run nothing more. What they used counts."""
        for context in contexts:
            context.given_up = True
        self._outside += contexts

    def share(self, under_way: Sequence[NodeContext] = ()) -> float:
        """The used share of the budget, 0 to 1: the largest of its bounds. An unknown cost allows one round.

        under_way: the contexts of nodes that are not in the graph yet.
        """
        return min(1.0, max(self._shares(under_way).values()))

    def _shares(self, under_way: Sequence[NodeContext]) -> dict[SearchEnd, float]:
        """The used share of each bound."""
        settings, spent = self.job.settings, self.usage()
        total = reduce(added, [used for each in (spent, *(node.usage for node in under_way)) for used in each.values()])
        bounds: dict[SearchEnd, tuple[float | None, float | None]] = {
            "nodes": (len(self.graph) + len(under_way), settings.max_turns),
            "seconds": (self.clock, self.deadline()),
            "tokens": (total["completion_tokens"], settings.max_tokens),
            "usd": (total["usd"], settings.max_usd),
        }
        return {
            name: float(len(self.graph) + len(under_way) > 0) if used is None else used / most if most else 1.0
            for name, (used, most) in bounds.items()
            if most is not None
        }

    @property
    def clock(self) -> float:
        """Seconds so far: of the wall clock, or of models and runs, of concurrent work the longest."""
        return max([self.graph.elapsed, *(context.clock for context in self._outside)])

    def usage(self) -> dict[Phase, Usage]:
        """Of the whole search so far, by phase."""
        parts = [*(context.usage for context in self._outside), self.graph.spent]
        return {phase: reduce(added, [part[phase] for part in parts if phase in part]) for phase in PHASES}

    def usage_by_role(self) -> dict[str, Usage]:
        """{role of a model: what its answers used in the whole search so far}; seconds of asking alone."""
        spent = dict(self.graph.spent_by_role)
        for context in self._outside:
            add_by_role(spent, context.asked)
        return spent

    def record(self, choice: Choice, message: str) -> Rollout:
        """The search's rollout with this choice, and a text as its message."""
        notes = [context.notes for context in self._outside]
        usage, by_role = self.usage(), self.usage_by_role()
        return search_record(self.job, message, self.graph, choice, usage, by_role, self.clock, notes, self.ended)

    def done(self) -> None:
        """Drop the tapes of requests outside of nodes: the records are written."""
        for context in self._outside:
            context.done()

    def deadline(self) -> float | None:
        """When nodes have to end, with a reserve for the choice and the refit; None: no limit."""
        most, refit = self.job.settings.max_seconds, self.job.settings.refit
        if most is None:
            return None
        reserve = self._components.evaluation.reserve(self.graph, self._wall is not None)
        return most - min(RESERVED * most, reserve + (MARGIN * self.graph.longest_run if refit else 0.0))


def named_graph(text: str) -> tuple[Path, int | None]:
    """The file of FILE[:NODE], and the node; None: the last."""
    file, colon, number = text.rpartition(":")
    return (Path(file), int(number)) if colon and number.isdecimal() and not Path(text).exists() else (Path(text), None)
