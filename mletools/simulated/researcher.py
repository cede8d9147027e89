"""What the researcher of a search reads in a prompt and thinks of: changes of a recipe, drawn with weak taste, judged by
experience.

A change is drawn from all that the present recipe allows; what is worth more in general is drawn a little more often.
Asked to weigh several, the researcher does better: the prior of each (recipes) and what the experiments that a prompt
reports say of it, with noise anew in each answer. Covered: the marks that the prompts of a search share (headings
outside fences, lines of experiments, sentences of a score); drafts, changes, what is avoided, what is taken over from
others. Not covered: what other sentences say, looking at the data, learning the worth of a change from one task for
another.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..records.task import Task
from ..solutions.bank import SeededRng
from . import conversation
from .answers import better
from .recipes import CHEAP, MERGE, MODELS, Change, Recipe, changed, drawn, read, recipe_of, usable

TASTE = 1.0  # a change of prior p is drawn exp(TASTE * p) times as often as one of 0; no taste is used for a draft
FOLLOWS = 0.5  # takes over a step from an experiment with a better score, where one is reported
SETTINGS = 0.4  # a model with one setting is drawn so many times as often as a step
HEEDS = 0.85  # of what is drawn where the guidance says "no ensembles" is a single cheap model
LATE_TIMES = 4.0  # what costs time is drawn so many times as often where the guidance says that it is worth it
DRAFT_STEPS = 0.5  # of the drafts have a step
DRAFT_COSTLY = 0.4  # of the drafts have a blend, several seeds or cross-validation
EVIDENCE = 0.3  # what an experiment with the change adds to its worth, or takes from it
FAILED = 0.1  # what a failure takes from it
NOTHING = -9.0  # the worth of doing again what is done
NOISE = 0.25  # of one judgement, a deviation
WHY = {
    "DataLoadSpec": "what is read as it stands hides part of the data",
    "FeatureEng": "the target may depend on the columns in this way",
    "Model": "this kind of model may suit so small a table better",
    "Ensemble": "several models err in different ways",
    "Workflow": "the training then fits the metric better",
}

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_NUMBER = r"(-?\d+\.?\d*(?:[eE][+-]?\d+)?)"
_EXPERIMENT = re.compile(rf"^- experiment (\d+): (.*?) -> (?:score {_NUMBER}|failed: (\w+))")
_SCORE = re.compile(rf"Its score: {_NUMBER}")
SHOWN = ("What it printed", "The present program", "Earlier experiments", "Earlier attempts", "The idea")
_LISTED = re.compile(r"^\s*\d+[.)] (.*)$")


@dataclass(frozen=True)
class Experiment:
    """A line of the earlier experiments; score None: it failed."""

    number: int
    hypothesis: str
    score: float | None


@dataclass(frozen=True)
class SearchPrompt:
    """A prompt taken apart: (heading, what stands under it), in order; what stands outside of fences, on one line."""

    sections: tuple[tuple[str, str], ...]
    said: str

    def under(self, heading: str) -> str:
        """What stands under the last heading of that name; nothing where there is none."""
        return next((body for name, body in reversed(self.sections) if name == heading), "")

    def lines(self, heading: str, start: str) -> list[str]:
        """The lines under a heading that begin with `start`, without it."""
        return [line[len(start) :].strip() for line in self.under(heading).split("\n") if line.startswith(start)]

    def listed(self, heading: str) -> list[str]:
        """The items of a numbered list."""
        return [match.group(1) for line in self.under(heading).split("\n") if (match := _LISTED.match(line))]

    @property
    def programs(self) -> list[str]:
        """The programs that are shown: the present one, or those that are to be joined."""
        bodies = [body for name, body in self.sections if name == "The present program" or name.startswith("Program ")]
        return [code for body in bodies for code in conversation.fenced(body)[:1]]

    @property
    def recipes(self) -> list[Recipe]:
        """Of the programs that are this model's own."""
        return [recipe for code in self.programs if (recipe := recipe_of(code))]

    @property
    def asks_for_a_score(self) -> bool:
        """Whether a program is to print its own; what a program printed is not meant."""
        return any(
            "Validation score:" in body
            for name, body in self.sections
            if name not in SHOWN and not name.startswith("Program ")
        )

    @property
    def scores(self) -> list[float]:
        """Of the programs, in order."""
        return [float(match.group(1)) for match in _SCORE.finditer(self.said)]

    @property
    def experiments(self) -> list[Experiment]:
        """The earlier ones, in order."""
        experiments = []
        for line in self.under("Earlier experiments").split("\n"):
            if match := _EXPERIMENT.match(line):
                number, hypothesis, score, _ = match.groups()
                experiments.append(Experiment(int(number), hypothesis, None if score is None else float(score)))
        return experiments


def taken_apart(text: str) -> SearchPrompt:
    """What a request says, its own answers left out."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    outside: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or (mark.group(1).startswith(fence) and not line.strip().strip(fence[0]))):
            fence = "" if fence else mark.group(1)
        elif not fence:
            outside.append(line)
            if line.startswith("# "):
                parts.append((line[2:].strip(), []))
                continue
        parts[-1][1].append(line)
    sections = tuple((name, "\n".join(lines).strip("\n")) for name, lines in parts)
    return SearchPrompt(sections, " ".join(" ".join(outside).split()))


@dataclass(frozen=True)
class Mind:
    """What the researcher knows at a question. recipe: the present one, None for a draft."""

    task: Task
    prompt: SearchPrompt
    rng: SeededRng
    recipe: Recipe | None

    @property
    def early(self) -> bool:
        return "no ensembles" in self.prompt.said.lower()

    @property
    def late(self) -> bool:
        return "ensembles and cross-validation are worth their cost now" in self.prompt.said.lower()

    @property
    def tried(self) -> list[tuple[float | None, list[Change]]]:
        """(score, changes) of the earlier experiments."""
        return [(each.score, read(each.hypothesis)) for each in self.prompt.experiments]


def hypothesis(
    mind: Mind, name: str, component: str = "", beside: Sequence[str] = (), share: float = 1.0
) -> tuple[str, list[Change]]:
    """(text, changes): a hypothesis for the program that is shown, those that are to be joined, or a draft.

    `name` tells throws apart. share: how often programs that are joined are changed, too.
    """
    joins = len(mind.prompt.programs) > 1
    changes = [] if joins and mind.rng(f"{name} more") >= share else changes_for(mind, name, component, beside)
    sentences = [*([MERGE] if joins else []), *(change.sentence for change in changes)]
    why = WHY["Ensemble" if joins else changes[-1].component]
    return f"{' '.join(sentences)} It may help: {why}.", changes


def changes_for(mind: Mind, name: str, component: str = "", beside: Sequence[str] = ()) -> list[Change]:
    """One change of the present recipe, or all of a draft.

    component: the part that it should be about. beside: hypotheses that it should differ from.
    """
    others = {change for text in [*mind.prompt.lines("Other branches", "- "), *beside] for change in read(text)}
    others |= {change for _, changes in mind.tried for change in changes}
    if mind.recipe is None:
        return _draft(mind, name, others)
    better_ones = _to_follow(mind, mind.recipe)
    if better_ones and not component and mind.rng(f"{name} follow") < FOLLOWS:
        return [mind.rng.pick(f"{name} whose", better_ones)]
    menu = [change for change in usable(mind.task, mind.recipe) if change not in others]
    menu = _heeding(mind, name, menu) or usable(mind.task, mind.recipe)
    return [_pick(mind, name, [each for each in menu if each.component == component] or menu, TASTE)]


def worth(mind: Mind, changes: Sequence[Change], name: str) -> float:
    """A judgement of a hypothesis: about 0 for what helps as often as it harms, noisy; NOTHING for what is there already.

    What others made of it counts against the present program's score, or that of the middle experiment.
    """
    recipe, tried = mind.recipe, mind.tried
    if recipe is not None:
        new = [change for change in changes if changed(recipe, change) != recipe]
    else:
        new = [] if any(set(changes) <= set(others) for _, others in tried) else list(changes)
    if changes and not new:
        return NOTHING
    value = sum(change.prior for change in new) / math.sqrt(max(1, len(new)))
    scores = sorted(score for score, _ in tried if score is not None)
    own = mind.prompt.scores[0] if mind.prompt.scores else scores[len(scores) // 2] if scores else None
    for score, others in tried:
        if set(new) & set(others):
            known = score is not None and own is not None
            gains = known and better(score or 0.0, own or 0.0, mind.task)
            value += EVIDENCE if gains else -EVIDENCE if known else -FAILED
    noise = sum(mind.rng(f"{name} noise {at}") for at in range(12)) - 6  # of deviation 1 and nearly normal
    return value + NOISE * noise


def _draft(mind: Mind, name: str, others: set[Change]) -> list[Change]:
    taken = {change.value.split()[0] for change in others if change.what == "model"}
    costly = int(mind.rng(f"{name} costly") < DRAFT_COSTLY)
    if mind.early and mind.rng(f"{name} heed") < HEEDS:
        costly = 0
        taken |= {kind for kind in MODELS if MODELS[kind].seconds > CHEAP}
    throws = iter(range(100))

    def pick(menu: Sequence[Change]) -> Change:
        left = [change for change in menu if change.what != "model" or change.value.split()[0] not in taken]
        return _pick(mind, f"{name} {next(throws)}", left or menu, 0.0)

    return drawn(mind.task, pick, int(mind.rng(f"{name} steps") < DRAFT_STEPS), costly)


def _to_follow(mind: Mind, recipe: Recipe) -> list[Change]:
    """What experiments with a better score than the present program's name and it has not."""
    own = mind.prompt.scores[0] if mind.prompt.scores else None
    better_ones = [
        change
        for score, changes in mind.tried
        if score is not None and own is not None and better(score, own, mind.task)
        for change in changes
        if change.what != "without" and changed(recipe, change) != recipe
    ]
    return _heeding(mind, "follow", list(dict.fromkeys(better_ones)))


def _heeding(mind: Mind, name: str, menu: list[Change]) -> list[Change]:
    """What the guidance leaves of a menu, mostly."""
    if not mind.early or mind.rng(f"{name} heed") >= HEEDS:
        return menu
    dear = {name for name, kind in MODELS.items() if kind.seconds > CHEAP}
    return [each for each in menu if not each.costly and not (each.what == "model" and each.value.split()[0] in dear)]


def _pick(mind: Mind, name: str, menu: Sequence[Change], taste: float) -> Change:
    weights = {}
    for at, change in enumerate(menu):
        times = SETTINGS if change.what == "model" else LATE_TIMES if mind.late and change.costly else 1.0
        weights[str(at)] = math.exp(taste * change.prior) * times
    return menu[int(mind.rng.weighted(f"{name} pick", list(weights), weights))]
