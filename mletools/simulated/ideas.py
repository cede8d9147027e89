"""Ideas: what one advises, who has them (the ideator), who carries one out in one step (the implementer), and its type.

To somebody who knows the bank an idea comes to a family of models, another setting, praise, or nothing. The ideator finds
in what it is shown which families were tried and how they scored, and names the one that an expert would try next. A share
of its ideas is wrong, useless or badly written. Covered: ideas in three items or in plain words; the roles idea and
ideator, implementer, improve (without an earlier solution a single question) and idea-type, each one question. Not
covered: ideas about data, features or training, which nothing in the bank carries out; what only the data would tell.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..models import Reply, Request
from ..records.task import Task
from ..solutions import FAULTS, VALID, Choice, choices
from ..solutions.bank import SeededRng
from . import conversation
from .answers import answer, answer_with, better, choice_of, choices_in, draw_level, rng_of

POOR = ("dummy", "stump", "shrunk")
EXPERT = tuple(level for level in reversed(VALID) if level not in POOR)  # what an expert tries, and in which order
WRONG, BADLY_WRITTEN = 0.15, 0.05
FAILS = 0.1  # the implementer, in one way or another
UPWARDS, SIDEWAYS = 0.6, 0.2  # of the moves from an earlier solution; the others go down
VAGUE = "Keep improving the performance of your solution."
NULL = "I have no suggestions for improving the solution. Please proceed using your best judgment."
USELESS = (
    "Shuffle the rows of train.csv before the model is fitted.",
    "Write the program's comments in more detail.",
    "Set the random seed to 42.",
)
ITEMS = "ANALYSIS_ON_CURRENT_PROGRESS:\n{}\nACTION:\n{}\nRATIONALE:\n{}"

# How families are spoken of, by level; of two at one place the first.
FAMILIES = {
    "tuned": r"mean of|average|ensembl|blend|stack|voting|combin",
    "boosted": r"boost|xgb|lightgbm|catboost",
    "forest": r"forest|extra trees|bagg",
    "knn": r"nearest|\bk-?nn\b",
    "dummy": r"\bdummy\b|constant|most frequent",
    "stump": r"\bstump",
    "shrunk": r"shrunk|shrink|strong(?:ly)? regulari",
    "linear": r"\blinear|logistic|\bridge\b",
    "tree": r"decision tree|single tree",
}
_REPLACED = re.compile(
    r"\b(?:replace|swap|drop|abandon|leave)\b.*?\b(?:with|by|for)\b|\b(?:instead of|rather than)\b.*"
)
_SETTING = r"hyper-?\s?parameter|\btun(?:e|ing)\b|another setting|grid search"
# Of types of ideas, by how often their words occur; of equals the first.
TYPES = {
    "Data Preparation": r"missing|outlier|clean|duplicat|impute|encod|normali[sz]|scale|shuffle|rows of",
    "Feature Engineering": r"feature|interaction|tf-?idf|embedding|\bratio|bins?\b|lag",
    "Hyperparameter Tuning": rf"{_SETTING}|learning rate",
    "Model Training": r"epoch|early stop|cross-valid|\bfolds?\b|augment|\bloss\b|batch|\bseed\b",
    "Model Architecture": "|".join(FAMILIES.values()) + r"|\bmodel|network|architecture|layers?",
}


@dataclass(frozen=True)
class Advice:
    """`kind`: family (of `level`), setting, praise ("keep improving"), other (something to do, of another kind) or none."""

    kind: str
    level: str = ""


def read(text: str) -> Advice:
    """What a text that holds an idea advises."""
    action = conversation.item(text, "ACTION", before="RATIONALE")
    said = " ".join((text if action is None else action).lower().split())
    if "no suggestion" in said:
        return Advice("none")
    wanted = _REPLACED.sub(" ", said)
    places = {level: match.start() for level, words in FAMILIES.items() if (match := re.search(words, wanted))}
    if places:
        return Advice("family", min(places, key=lambda level: places[level]))
    if re.search(_SETTING, said):
        return Advice("setting")
    if "improv" in said:
        return Advice("praise")
    return Advice("none" if action is None else "other")


def play(request: Request, levels: list[str], persona: str = "") -> Reply:
    """The answer in one of the roles; the personas vague and null say as an ideator what the paper's controls say."""
    text = conversation.asked(request)
    rng = rng_of(request)
    if request.role == "idea-type":
        return Reply(classified(text))
    assert request.task is not None
    if request.role == "implementer":
        return Reply(_implemented(request.task, text, rng))
    if request.role == "improve":
        return Reply(_improved(request.task, text, levels, rng))
    if request.role != "ideator":
        return Reply(answer(request.task, draw_level(rng, levels), request.seed))
    if persona in ("vague", "null"):
        said = VAGUE if persona == "vague" else NULL
        return Reply(ITEMS.format("There is a solution.", said, "It may help."))
    return Reply(_idea(request.task, text, levels, rng))


def classified(text: str) -> str:
    """The answer with the type of the idea in a text."""
    said = conversation.item(text, "ACTION", before="RATIONALE")
    said = (text.strip().split("\n\n")[-1] if said is None else said).lower()
    found = {name: re.findall(words, said) for name, words in TYPES.items()}
    name = max(found, key=lambda each: len(found[each]))
    if not found[name]:
        name, rationale = "Others", "It speaks of nothing that the other types are about."
    else:
        rationale = f'It speaks of "{found[name][0]}".'
    return json.dumps({"rationale": rationale, "type": name})


def _idea(task: Task, text: str, levels: Sequence[str], rng: SeededRng) -> str:
    tried = _tried(task, text)
    known = [level for level in EXPERT if level in levels] or list(EXPERT)
    left = [level for level in known if level not in tried]
    what = "; ".join(
        f"{level} scored {score:g}" if score is not None else f"{level} was tried" for level, score in tried.items()
    )
    analysis = f"So far: {what}." if what else "Nothing that I know was tried yet."
    level = left[0] if left else ""
    why = "Models of this kind do better on such data."
    if rng("wrong") < WRONG:
        level = rng.pick("poor", [*POOR, *tried, ""])
        why = "It costs little."
        if not level:
            return _written(analysis, rng.pick("useless", USELESS), why, rng)
    if not level:
        return _written(
            analysis, "Try another setting of the best model's hyper-parameters.", "The kind is right.", rng
        )
    choice = rng.pick("choice", [each for each in choices(task) if each.level == level])
    return _written(analysis, f"Train {choice.words} in place of the present model.", why, rng)


def _tried(task: Task, text: str) -> dict[str, float | None]:
    """{level: best score} of the programs in a text; a score belongs to the program that stands before it."""
    programs, tried = choices_in(task, text), dict[str, float | None]()
    for _, choice in programs:
        tried.setdefault(choice.level, None)
    for place, score in conversation.scores_in(text):
        before = [choice for at, choice in programs if at < place]
        if before:
            best = tried[before[-1].level]
            tried[before[-1].level] = score if best is None or better(score, best, task) else best
    return tried


def _written(analysis: str, action: str, why: str, rng: SeededRng) -> str:
    idea = ITEMS.format(analysis, action, why)
    if rng("badly") >= BADLY_WRITTEN:
        return idea
    ways = [
        action,
        idea.partition("RATIONALE:")[0].strip(),
        f"{idea}\nACTION:\n{USELESS[0]}",
        f"Here you are.\n\n{idea}",
    ]
    return rng.pick("how", ways)


def _implemented(task: Task, text: str, rng: SeededRng) -> str:
    present = _present(task, text)
    said = read(text)
    wanted = said.level if said.kind == "family" else present.level
    if said.kind == "praise":
        wanted = _moved(present.level, rng, 0.3, 0.4)
    level = rng.pick("kind", [*FAULTS, "nocode"]) if rng("fails") < FAILS else wanted
    if said.kind in ("other", "none"):
        return answer_with(task, present, level, rng)
    return answer_with(task, _another(task, wanted, present, rng, text), level, rng)


def _improved(task: Task, text: str, levels: Sequence[str], rng: SeededRng) -> str:
    blocks = conversation.fenced(text)
    if not blocks:
        return answer(task, draw_level(rng, levels), rng.seed)
    present = _present(task, text)
    if conversation.BROKE.search(text, text.rindex(blocks[-1]) + len(blocks[-1])):
        return answer_with(task, present, present.level, rng)
    known = [level for level in VALID if level in levels] or list(VALID)
    wanted = _moved(present.level, rng, UPWARDS, SIDEWAYS, known)
    return answer_with(task, _another(task, wanted, present, rng), draw_level(rng, levels), rng)


def _present(task: Task, text: str) -> Choice:
    """The model of the solution in a text; one that the bank does not hold is taken for a tree."""
    found = [choice for code in conversation.fenced(text) if (choice := choice_of(task, code))]
    return found[-1] if found else next(choice for choice in choices(task) if choice.level == "tree")


def _moved(level: str, rng: SeededRng, up: float, same: float, known: Sequence[str] = VALID) -> str:
    throw = rng("move")
    way = 1 if throw < up else 0 if throw < up + same else -1
    place = VALID.index(level) + way
    return min(known, key=lambda each: abs(VALID.index(each) - place))


def _another(task: Task, level: str, present: Choice, rng: SeededRng, text: str = "") -> Choice:
    """A model of the level: the one that the text names, else any but the present one."""
    menu = [choice for choice in choices(task) if choice.level == level]
    said = conversation.item(text, "ACTION", before="RATIONALE") or ""
    named = [choice for choice in menu if choice.words in said]
    if named:
        return max(named, key=lambda choice: len(choice.words))  # alpha=100 names alpha=10 too
    return rng.pick("choice", [each for each in menu if each != present] or menu)
