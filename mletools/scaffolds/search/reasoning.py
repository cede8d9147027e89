"""How a search comes to its next idea: in one step, or through challenges, scored hypotheses and a virtual evaluation.

R&D-Agent (section 3.3, appendices D.3.2 and E.3). Covered: prompts, reading the answers, the draw of candidates, the
choice among them and what other branches found. Not covered: which earlier nodes matter (memory), what the loop does where
nothing can be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ... import prompts
from ..facts import split_told, tell
from ..quoting import fenced
from . import kernel
from .interfaces import AXES, PARTS, Hypothesis, Idea, Question, Unanswered
from .memory import (
    MOST_TEXT,
    experiment_line,
    own_branch,
    parents_told,
    plain,
)
from .replies import json_in, number_of, text_of

if TYPE_CHECKING:
    from mletools.scaffolds.search.graph import Node
    from mletools.scaffolds.search.node_context import NodeContext

OPERATIONS_TOLD = {
    "draft": "The program will be written from nothing. It has to take another kind of approach than any that is told above.",
    "improve": "The program will be the present program with one change that makes its score better.",
    "crossover": "The program will join the two programs above: what of each goes into it, so that it is better than both?",
    "merge": "The program will join the programs above, the best of lines of work that went apart: what of each goes into it, "
    "so that it is better than all of them?",
}
STAGES_TOLD = {"draft": "draft", "improvement": "improvement", "ensemble": "merge", "merge": "merge"}
ORIGINS = ("scenario", "feedback")
ACTIONS = ("select", "modify", "create")


@dataclass(frozen=True)
class Challenge:
    """What stands in the way of a better score. origin: one of ORIGINS."""

    text: str
    reason: str
    origin: str


@dataclass(frozen=True)
class OneStep:
    """One question: the parents, what memory recalls, then a hypothesis."""

    def reason(self, context: "NodeContext", question: Question) -> Idea:
        recalled = question.recall(())
        prompt = prompts.render("search-idea", **_asked(context, question, recalled, ""))
        hypothesis = context.read("research", "search-idea", prompt, read_idea)
        return Idea(hypothesis, recalled=tuple(node.number for node in recalled))


@dataclass(frozen=True)
class Scientific:
    """Challenges, hypotheses on them with scores, a weighted draw among the best, and a choice that is thought through.

    challenges: asked for, at most. each: hypotheses asked for on each of them. top: how many with the best weighted scores
    stay. candidates: how many of those are drawn (kernel.scen_prob_multiplier weighs them by where their challenge was
    seen). told: earlier experiments of the branch that prompts tell, the newest; for a draft, earlier drafts.
    Where challenges or hypotheses cannot be read, it is one step; where the choice cannot, the best candidate drawn.
    """

    challenges: int = 3
    candidates: int = 3
    top: int = 5
    each: int = 2
    told: int = 10

    def reason(self, context: "NodeContext", question: Question) -> Idea:
        try:
            challenges = self._challenges(context, question)
            ranked = self._hypotheses(context, question, challenges)
        except Unanswered:
            return OneStep().reason(context, question)
        best = ranked[: max(1, self.top)]
        places = kernel.draw(_weights(question, best), max(1, self.candidates), context.dice)
        drawn = [best[place] for place in sorted(places)]
        recalled = question.recall([each.text for each in drawn])
        action, chosen = self._select(context, question, drawn, recalled)
        return Idea(
            chosen,
            action,
            considered=tuple(each for each in ranked if each is not chosen),
            recalled=tuple(node.number for node in recalled),
            challenges=tuple(each.text for each in challenges),
        )

    def _challenges(self, context: "NodeContext", question: Question) -> list[Challenge]:
        values = _asked(context, question, self._history(question), "")
        prompt = prompts.render("search-challenges", number=str(self.challenges), **values)
        return context.read(
            "research", "search-challenges", prompt, lambda text: read_challenges(text, max(1, self.challenges))
        )

    def _hypotheses(
        self, context: "NodeContext", question: Question, challenges: Sequence[Challenge]
    ) -> list[Hypothesis]:
        """Best first; of equals the one named first."""
        query = " ".join(each.text for each in challenges)
        lines = [f"{at}. {each.text} ({each.origin}: {each.reason})" for at, each in enumerate(challenges)]
        values = _asked(context, question, self._history(question), query)
        prompt = prompts.render("search-hypotheses", challenges="\n".join(lines), each=str(self.each), **values)
        most = max(1, self.each * len(challenges))
        candidate = context.read(
            "research", "search-hypotheses", prompt, lambda text: read_hypotheses(text, challenges, most)
        )
        return sorted(candidate, key=lambda each: -kernel.weighted(each.scores))

    def _select(
        self, context: "NodeContext", question: Question, drawn: Sequence[Hypothesis], recalled: Sequence["Node"]
    ) -> tuple[str | None, Hypothesis]:
        """The virtual evaluation (algorithm 2). Nothing is asked where there is nothing to choose from."""
        known = {each.text for each in drawn}
        candidates = list(drawn)
        for node in recalled:
            text = plain(node.hypothesis, MOST_TEXT)
            if text and text not in known:
                known.add(text)
                candidates.append(Hypothesis(text, node.component))
        if len(candidates) == 1:
            return None, drawn[0]
        earlier = {node.number: node for node in [*self._history(question), *recalled]}
        prompt = prompts.render(
            "search-select",
            candidates="\n".join(
                f"{at}. [{each.component or 'Workflow'}] {each.text}" for at, each in enumerate(candidates)
            ),
            stage=prompts.render(f"search-stage-{_stage(question)}"),
            sources=_sources(question, len(drawn), len(candidates)),
            **_asked(context, question, [earlier[number] for number in sorted(earlier)], None),
        )
        try:
            return context.read("research", "search-select", prompt, lambda text: read_choice(text, candidates))
        except Unanswered:
            return None, drawn[0]

    def _history(self, question: Question) -> list["Node"]:
        nodes = question.graph.nodes
        branches = {nodes[parent].branch for parent in question.expansion.parents}
        own = [node for node in nodes if (node.branch in branches if branches else not node.parents)]
        return own[max(0, len(own) - self.told) :]


# --- what decides -------------------------------------------------------------------------------------------------


def _weights(question: Question, hypotheses: Sequence[Hypothesis]) -> list[float]:
    """How often each counts in the draw, by the origin of its challenge and what the branch has been through."""
    graph, branch = question.graph, own_branch(question.graph, question.expansion)
    best: float | None = None
    sota = 0
    for node in branch:
        if node.score is not None and (best is None or graph.gain(node.score, best) > 0):
            best, sota = node.score, sota + 1
    scenario = kernel.scen_prob_multiplier(sota, len(branch) - sota)
    counts = {"scenario": scenario, "feedback": 3 - scenario}
    return [float(counts.get(each.origin or "", 1)) for each in hypotheses]


def _stage(question: Question) -> str:
    """Which of the stage prompts fits; a node of several parents joins them at whatever time."""
    return "merge" if len(question.expansion.parents) > 1 else STAGES_TOLD[question.plan.stage]


def _sources(question: Question, drawn: int, candidates: int) -> str:
    """Where the candidates come from, and which of them go first (algorithm 2).

    As printed the algorithm asks whether the best of the branch is above the best of all branches, which it never is; here
    it is whether it is above the best of all the others. A draft has no branch yet, and nothing goes first.
    """
    if candidates == drawn:
        return "All candidates are new."
    graph, branch = question.graph, own_branch(question.graph, question.expansion)
    instructions = (
        f"{'Candidate 0 is' if drawn == 1 else f'Candidates 0 to {drawn - 1} are'} new, and from {drawn} on they are what "
        "earlier experiments tried: see there what came of them. What worked elsewhere still has to fit here."
    )
    if not branch:
        return instructions
    mine = {node.number for node in branch}
    own, other = graph.best(branch), graph.best(node for node in graph.nodes if node.number not in mine)
    ahead = own is not None and (other is None or graph.gain(own.score or 0.0, other.score or 0.0) > 0)
    first = (
        "This line of work is ahead of all others: prefer the new ones."
        if ahead
        else "Another line of work is as good as this one or ahead of it: prefer those of earlier experiments."
    )
    return f"{instructions} {first}"


# --- what is asked ------------------------------------------------------------------------------------------------


def _asked(
    context: "NodeContext", question: Question, experiments: Sequence["Node"], query: str | None
) -> dict[str, str]:
    """The values that all prompts of the research ask for.

    query: what to look up in the user's knowledge; "": the task and the parents' hypotheses; None: nothing.
    """
    settings, plan = context.job.settings, question.plan
    if query == "":
        parents = " ".join(plain(each["hypothesis"], 300) for each in question.parents)
        query = f"{context.task['name']} {context.task['description'][:600]} {parents}"
    parts = [f"# Guidance\n\n{plan.guidance}"] if plan.guidance else []
    parts += parents_told(question)
    if experiments:
        parts.append("\n".join(["# Earlier experiments\n", *map(experiment_line, experiments)]))
    if question.beside:
        parts.append("\n".join(["# Other branches\n", *(f"- {plain(text, MOST_TEXT)}" for text in question.beside)]))
    if passages := [] if query is None else question.know(query):
        parts.append("\n\n".join(["# Knowledge", *(fenced(passage, "text") for passage in passages)]))
    return {
        "task": tell("task", context.task, split=split_told(settings.validation > 0, settings.reveal_test)),
        "context": "\n\n".join(parts) or "Nothing has been tried yet.",
        "operation": OPERATIONS_TOLD[question.expansion.operation],
        "seconds": f"{plan.full_seconds:.0f}",
    }


# --- what is answered ---------------------------------------------------------------------------------------------


def read_idea(text: str) -> Hypothesis:
    """ValueError, in words for the model, for anything that is not what was asked for; so do the readers below."""
    return _hypothesis(json_in(text, dict))


def read_challenges(text: str, most: int) -> list[Challenge]:
    """The first `most` challenges of an answer."""
    items = []
    for each in _objects(text, "challenge")[:most]:
        if each.get("origin") not in ORIGINS:
            raise ValueError(f'"origin" has to be {" or ".join(ORIGINS)}')
        challenge, reason = (plain(text_of(each, name), MOST_TEXT) for name in ("challenge", "reason"))
        items.append(Challenge(challenge, reason, each["origin"]))
    return items


def read_hypotheses(text: str, challenges: Sequence[Challenge], most: int) -> list[Hypothesis]:
    """The first `most` hypotheses of an answer, with their scores; those outside 1 to 10 are moved to the nearer end."""
    items = []
    for each in _objects(text, "hypothesis")[:most]:
        challenge = challenges[_index(each, "challenge", len(challenges))]
        scores = each.get("scores")
        if not isinstance(scores, dict):
            raise ValueError(f'"scores" has to be an object with {", ".join(AXES)}')
        clipped = {axis: max(1.0, min(10.0, number_of(scores, axis))) for axis in AXES}
        items.append(_hypothesis(each, challenge.text, challenge.origin, clipped))
    return items


def read_choice(text: str, candidates: Sequence[Hypothesis]) -> tuple[str, Hypothesis]:
    """(action, hypothesis) of an answer; a candidate that is selected stays as it is, whatever else is said."""
    answer = json_in(text, dict)
    action = answer.get("action")
    if action not in ACTIONS:
        raise ValueError(f'"action" has to be {", ".join(ACTIONS[:-1])} or {ACTIONS[-1]}')
    if action == "create":
        return action, _hypothesis(answer)
    base = candidates[_index(answer, "candidate", len(candidates))]
    return action, base if action == "select" else _hypothesis(answer, base.challenge, base.origin)


def _hypothesis(
    answer: dict[str, Any],
    challenge: str | None = None,
    origin: str | None = None,
    scores: Mapping[str, float] | None = None,
) -> Hypothesis:
    if answer.get("component") not in PARTS:
        raise ValueError(f'"component" has to be one of {", ".join(PARTS)}')
    text = plain(text_of(answer, "hypothesis"), MOST_TEXT)
    return Hypothesis(text, answer["component"], challenge, origin, dict(scores or {}))


def _objects(text: str, name: str) -> list[dict[str, Any]]:
    answer = json_in(text, list)
    if not answer or not all(isinstance(each, dict) for each in answer):
        raise ValueError(f'the list has to hold objects, each with a "{name}"')
    return list(answer)


def _index(answer: dict[str, Any], name: str, number: int) -> int:
    value = answer.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < number:
        raise ValueError(f'"{name}" has to be a number from 0 to {number - 1}')
    return value
