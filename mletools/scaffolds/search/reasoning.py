"""The reasoning components: one question, or challenges, scored hypotheses and a virtual evaluation.

R&D-Agent, section 3.3, appendices D.3.2 and E.3. Not covered: which earlier nodes are relevant (memory).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, get_args

from ... import prompts
from ...base.errors import ToolError
from ...records.rollout import Choosing, Component, Origin
from ..messages import fenced
from .data import AXES, PARTS, Hypothesis, Idea, Question, Unanswered
from .graph import Node
from .memory import draw
from .node_context import NodeContext
from .replies import Fields, Reader, Reading, fields_in, json_in, wrong
from .sections import MOST_TEXT, experiment_line, listed, own_branch, parent_sections, plain, printed_by

OPERATION_TEXTS = {
    "draft": "The program will be written from scratch, with another kind of approach than any above.",
    "improve": "The program will be the present program with one change that improves its score.",
    "crossover": "The program will combine the two programs above. Decide what it takes from each to be better than both.",
    "merge": "The program will combine the programs above, each the best of its branch. Decide what it takes from each to be "
    "better than all of them.",
}
STAGE_PROMPTS = {"draft": "draft", "improvement": "improvement", "ensemble": "improvement", "merge": "merge"}
CHOICES = ("model", "draw")  # of Scientific
T = TypeVar("T")
ORIGINS: tuple[Origin, ...] = get_args(Origin)
ACTIONS: tuple[Choosing, ...] = get_args(Choosing)
PART_SYNONYMS: Mapping[str, Component] = {  # other names of PARTS that leave no doubt
    **dict.fromkeys(("data loading", "data loader", "load data", "data cleaning", "data splitting"), "DataLoadSpec"),
    **dict.fromkeys(("data load", "data load specification", "data loading specification"), "DataLoadSpec"),
    **dict.fromkeys(("feature", "features", "feature engineering", "feature extraction"), "FeatureEng"),
    **dict.fromkeys(("models", "modeling", "modelling", "model training", "model architecture"), "Model"),
    **dict.fromkeys(("ensembles", "ensembling", "ensemble of models", "blending", "stacking"), "Ensemble"),
    **dict.fromkeys(("workflows", "pipeline"), "Workflow"),
}
ACTION_SYNONYMS: Mapping[str, Choosing] = {"selected": "select", "modified": "modify", "created": "create"}
ORIGIN_SYNONYMS: Mapping[str, Origin] = {
    "scenarios": "scenario",
    "the scenario": "scenario",
    "the feedback": "feedback",
}


@dataclass(frozen=True)
class Challenge:
    """An obstacle to a better score. origin: one of ORIGINS."""

    text: str
    reason: str
    origin: Origin


@dataclass(frozen=True)
class OneStep:
    """One question, with the parents and the recalled nodes."""

    def reason(self, context: NodeContext, question: Question) -> Idea:
        recalled = question.recall(())
        hypothesis = _ask("search-idea", read_idea, context, question, recalled)
        return Idea(hypothesis, recalled=tuple(node.number for node in recalled))


@dataclass(frozen=True)
class Scientific:
    """Challenges, hypotheses on them with scores, and a reasoned choice among all of them and the recalled ones.

    challenges: their maximum number. each: hypotheses for each challenge. told: maximum number of earlier experiments of
    the branch in prompts, the newest; for a draft, earlier drafts. choice: `model`, the paper's virtual evaluation; or
    `draw`, the release's other way, without a model: one of the `top` hypotheses by weighted scores, drawn by the
    origins of their challenges (scen_prob_multiplier). If challenges or hypotheses cannot be read, OneStep takes over;
    if the choice cannot, the hypothesis with the best scores is used.
    """

    challenges: int = 3
    each: int = 2
    choice: str = "model"
    top: int = 5
    told: int = 10

    def __post_init__(self) -> None:
        if self.choice not in CHOICES:
            raise ToolError(f"reasoning scientific: choice is {' or '.join(CHOICES)}, not {self.choice}")

    def reason(self, context: NodeContext, question: Question) -> Idea:
        history = self._history(question)
        try:
            number, read_some = str(self.challenges), partial(read_challenges, most=max(1, self.challenges))
            challenges = _ask("search-challenges", read_some, context, question, history, None, number=number)
            lines = "\n".join(f"{at}. {item.text} ({item.origin}: {item.reason})" for at, item in enumerate(challenges))
            more = {"challenges": lines, "each": str(self.each)}
            query = " ".join(challenge.text for challenge in challenges)
            reader = partial(read_hypotheses, challenges=challenges, most=max(1, self.each * len(challenges)))
            hypotheses = _ask("search-hypotheses", reader, context, question, history, query, **more)
        except Unanswered:
            return OneStep().reason(context, question)
        ranked = sorted(hypotheses, key=lambda hypothesis: -weighted(hypothesis.scores))
        candidates = ranked
        if self.choice == "draw":
            best = ranked[: max(1, self.top)]
            candidates = [best[at] for at in draw(_weights(question, best), 1, context.rng)]
        recalled = question.recall([hypothesis.text for hypothesis in candidates])
        action, chosen = (
            (None, candidates[0]) if self.choice == "draw" else self._select(context, question, candidates, recalled)
        )
        return Idea(
            chosen,
            action,
            considered=tuple(hypothesis for hypothesis in ranked if hypothesis is not chosen),
            recalled=tuple(node.number for node in recalled),
            challenges=tuple(challenge.text for challenge in challenges),
        )

    def _select(
        self, context: NodeContext, question: Question, hypotheses: Sequence[Hypothesis], recalled: Sequence[Node]
    ) -> tuple[Choosing | None, Hypothesis]:
        """The virtual evaluation (algorithm 2). hypotheses: best first. A single candidate needs no question."""
        candidates = list(hypotheses)
        for node in recalled:
            text = plain(node.hypothesis, MOST_TEXT)
            if text and all(text != candidate.text for candidate in candidates):
                candidates.append(Hypothesis(text, node.component))
        if len(candidates) == 1:
            return None, candidates[0]
        lines = [f"{at}. [{item.component or 'Workflow'}] {item.text}" for at, item in enumerate(candidates)]
        merging = len(question.expansion.parents) > 1  # at whatever stage
        more = {
            "candidates": "\n".join(lines),
            "stage": prompts.render(f"search-stage-{'merge' if merging else STAGE_PROMPTS[question.plan.stage]}"),
            "sources": _sources(question, len(hypotheses), len(candidates)),
        }
        earlier = {node.number: node for node in [*self._history(question), *recalled]}
        nodes = [earlier[number] for number in sorted(earlier)]
        reader = partial(read_choice, candidates=candidates)
        try:
            return _ask("search-select", reader, context, question, nodes, None, **more)
        except Unanswered:
            return None, candidates[0]

    def _history(self, question: Question) -> list[Node]:
        nodes = question.graph.nodes
        branches = {nodes[parent].branch for parent in question.expansion.parents}
        own = [node for node in nodes if (node.branch in branches if branches else not node.parents)]
        return own[max(0, len(own) - self.told) :]


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of the last run decides the direction of the next step, as a gradient does (GOME, arXiv 2603.01692).

    Two questions: what the last run of the branch shows, and where its score is lost; then a hypothesis in that
    direction, with what has succeeded so far (see memory `success`) in the place of momentum. A draft has no run, and is
    OneStep's; so is an idea without a diagnosis that can be read. Written after the paper's summary alone: prompts, the form
    of the diagnosis and what counts as a success are ours.
    """

    def reason(self, context: NodeContext, question: Question) -> Idea:
        if not question.parents:
            return OneStep().reason(context, question)
        recalled = question.recall(())
        last = own_branch(question.graph, question.expansion)[-1]
        run = question.graph.details(last.number)
        sections = [f"# The last run\n\n{experiment_line(last, question.graph)}", *printed_by(run)]
        if last.number in question.expansion.parents:
            sections = [f"# The last run\n\nIt was that of experiment {last.number}, shown above."]
        try:
            found = _ask("search-diagnosis", read_diagnosis, context, question, recalled, None, sections)
        except Unanswered:
            return OneStep().reason(context, question)
        sections = [f"# Diagnosis of the last run\n\n{found[0]}\n\nThe direction of the next step: {found[1]}"]
        hypothesis = _ask("search-idea", read_idea, context, question, recalled, "", sections)
        numbers = tuple(node.number for node in recalled)
        return Idea(replace(hypothesis, challenge=found[0], origin="feedback"), recalled=numbers, challenges=found)


def read_diagnosis(text: str, notes: Reading | None = None) -> tuple[str, str]:
    """(diagnosis, direction) of an answer to search-diagnosis. ValueError, worded for the model."""
    answer = fields_in(text, ("diagnosis", "direction"), notes)
    return plain(answer.text("diagnosis"), MOST_TEXT), plain(answer.text("direction"), MOST_TEXT)


def weighted(scores: Mapping[str, float]) -> float:
    """The weighted mean of a hypothesis's scores on AXES, from 1 to 10."""
    return sum(weight * scores[axis] for axis, weight in AXES.items())


def scen_prob_multiplier(sota: int, fail: int) -> int:
    """Weight of a scenario challenge, from 3 down to 0; a feedback challenge has 3 minus that.

    max(0, 3 - ((3 * sota + 2 * fail) // 2) // 4), as in the released code (DSProposalV2ExpGen.identify_problem): a
    longer branch relies more on its own results. sota: its experiments that were better than all before them; fail: the
    others.
    """
    return max(0, 3 - ((3 * sota + 2 * fail) // 2) // 4)


def _weights(question: Question, hypotheses: Sequence[Hypothesis]) -> list[float]:
    """Weights in the draw, by the origin of each challenge and the results of the branch."""
    graph, branch = question.graph, own_branch(question.graph, question.expansion)
    sota, best = 0, -math.inf
    for node in graph.good(branch):
        merit = graph.gain(node.score or 0.0, 0.0)
        sota, best = sota + (merit > best), max(merit, best)
    scenario = scen_prob_multiplier(sota, len(branch) - sota)
    by_origin = {"scenario": scenario, "feedback": 3 - scenario}
    return [float(by_origin.get(hypothesis.origin or "", 1)) for hypothesis in hypotheses]


def _sources(question: Question, new: int, candidates: int) -> str:
    """The origins of the candidates, and which are preferred (algorithm 2).

    The printed algorithm compares the best of the branch with the best of all branches, which it never exceeds. Here it
    is compared with the best of the others. A draft has no branch, and no preference.
    """
    if candidates == new:
        return "All candidates are new."
    graph, branch = question.graph, own_branch(question.graph, question.expansion)
    instructions = (
        f"{'Candidate 0 is' if new == 1 else f'Candidates 0 to {new - 1} are'} new; those from {new} on are ideas of "
        "earlier experiments, whose results are listed above. What worked elsewhere still has to fit here."
    )
    if not branch:
        return instructions
    own, other = graph.best(branch), graph.best(node for node in graph.nodes if node.branch != branch[0].branch)
    if own is not None and (other is None or graph.gain(own.score or 0.0, other.score or 0.0) > 0):
        return f"{instructions} This branch is ahead of all others: prefer the new ones."
    return f"{instructions} Another branch is as good as this one or better: prefer those of earlier experiments."


def _ask(
    prompt: str,
    reader: Reader[T],
    context: NodeContext,
    question: Question,
    experiments: Sequence[Node],
    query: str | None = "",
    sections: Sequence[str] = (),
    **more: str,
) -> T:
    """Ask the researcher. sections: further ones. query: for the knowledge; "": the task and the parents' hypotheses; None: no knowledge."""
    plan = question.plan
    if query == "":
        parents = " ".join(plain(parent["hypothesis"], 300) for parent in question.parents)
        query = f"{context.task['name']} {context.task['description'][:600]} {parents}"
    passages = [] if query is None else question.know(query)
    parts = [
        *([f"# Guidance\n\n{plan.guidance}"] if plan.guidance else []),
        *parent_sections(question),
        *listed("Earlier experiments", [experiment_line(node, question.graph) for node in experiments]),
        *listed("Other branches", [f"- {plain(text, MOST_TEXT)}" for text in question.beside]),
        *sections,
        *(["\n\n".join(["# Knowledge", *(fenced(passage, "text") for passage in passages)])] if passages else []),
    ]
    values = {
        "task": context.task_text,
        "context": "\n\n".join(parts) or "Nothing has been tried yet.",
        "operation": OPERATION_TEXTS[question.expansion.operation],
        "seconds": f"{plan.full_seconds:.0f}",
    }
    return context.read("research", prompt, prompts.render(prompt, **values, **more), reader)


def read_idea(text: str, notes: Reading | None = None) -> Hypothesis:
    """The hypothesis of an answer to search-idea. ValueError, worded for the model, here and below."""
    return _hypothesis(fields_in(text, ("hypothesis", "component"), notes))


def read_challenges(text: str, most: int, notes: Reading | None = None) -> list[Challenge]:
    """The first `most` challenges of an answer."""

    def read(item: Fields) -> Challenge:
        origin = item.label("origin", ORIGINS, ORIGIN_SYNONYMS)
        challenge, reason = (plain(item.text(name), MOST_TEXT) for name in ("challenge", "reason"))
        return Challenge(challenge, reason, origin)

    return _read_each(_objects(text, ("challenge", "reason", "origin"), notes)[:most], read)


def read_hypotheses(
    text: str, challenges: Sequence[Challenge], most: int, notes: Reading | None = None
) -> list[Hypothesis]:
    """The first `most` hypotheses of an answer, with scores clipped to 1 to 10."""

    items = _objects(text, ("hypothesis", "component", "challenge", "scores"), notes)[:most]
    texts = [challenge.text for challenge in challenges]
    numbers = [int(number) for item in items if (number := str(item.values.get("challenge")).lstrip(" #")).isdecimal()]
    first = int(bool(numbers) and min(numbers) >= 1 and max(numbers) == len(challenges))  # counted from 1

    def read(item: Fields) -> Hypothesis:
        challenge = challenges[item.index("challenge", len(challenges), texts, first)]
        by_axis = _scores(item)
        clipped = {axis: max(1.0, min(10.0, by_axis.number(axis, (1, 10)))) for axis in AXES}
        return replace(_hypothesis(item), challenge=challenge.text, origin=challenge.origin, scores=clipped)

    return _read_each(items, read)


def _scores(item: Fields) -> Fields:
    """The scores of a hypothesis by their axes: an object, a list in the axes' order, or beside the hypothesis."""
    scores = item.get("scores")
    found: object = scores
    if scores is None and all(item.get(axis) is not None for axis in AXES):
        found = item.values
    elif isinstance(scores, list) and len(scores) == len(AXES) and not any(isinstance(each, dict) for each in scores):
        found = dict(zip(AXES, scores, strict=True))
    elif isinstance(scores, list) and all(isinstance(each, dict) for each in scores):
        named = ((_first(each, ("axis", "name", "criterion", "dimension")), each) for each in scores)
        found = {str(name): each for name, each in named} or scores
    if not isinstance(found, dict):
        raise wrong("scores", f"an object with {', '.join(AXES)}", scores)
    plain_scores = {
        name: _first(each, ("score", "value", "rating")) if isinstance(each, dict) else each
        for name, each in found.items()
    }
    if plain_scores != scores:
        item.notes.note('"scores"')
    return Fields(plain_scores, item.notes)


def _first(value: Mapping[str, object], names: Sequence[str]) -> object:
    """The first of the fields that is there."""
    return next((value[name] for name in names if name in value), None)


def read_choice(
    text: str, candidates: Sequence[Hypothesis], notes: Reading | None = None
) -> tuple[Choosing, Hypothesis]:
    """(action, hypothesis) of an answer; a selected candidate is not changed."""
    answer = fields_in(text, ("action",), notes)
    action = answer.label("action", ACTIONS, ACTION_SYNONYMS)
    if action == "create":
        return action, _hypothesis(answer)
    base = candidates[answer.index("candidate", len(candidates), [each.text for each in candidates])]
    if action == "select":
        return action, base
    return action, replace(_hypothesis(answer), challenge=base.challenge, origin=base.origin)


def _hypothesis(answer: Fields) -> Hypothesis:
    """The hypothesis of an object. A component that stays in doubt in the last answer is left out, and that is noted."""
    text = plain(answer.text("hypothesis"), MOST_TEXT)
    try:
        return Hypothesis(text, answer.label("component", PARTS, PART_SYNONYMS))
    except ValueError as error:
        if not answer.notes.fall_back(f"no component: {error}"):
            raise
        return Hypothesis(text)


def _read_each(items: Sequence[Fields], read: Callable[[Fields], T]) -> list[T]:
    """The results for all items. In the last answer, items that cannot be read are left out, and that is noted."""
    results, first = list[T](), None
    for number, item in enumerate(items, 1):
        try:
            results.append(read(item))
        except ValueError as error:
            first = first or ValueError(f"item {number} of the list: {error}")
            if not item.notes.fall_back(f"item {number} was left out: {error}"):
                raise first from None
    if first is not None and not results:
        raise first
    return results


def _objects(text: str, fields: Sequence[str], notes: Reading | None) -> list[Fields]:
    notes = notes or Reading()
    answer = json_in(text, list, fields, notes)
    if not answer or not all(isinstance(item, dict) for item in answer):
        raise ValueError(f'the list has to hold objects, each with a "{fields[0]}"')
    return [Fields(item, notes) for item in answer]
