"""The scripted model in a search: researcher and developer of moderate skill that err, in every role "search-...".

It knows nothing of the search's components and constants and reacts to what a prompt tells, as a language model would.
How it behaves, with the shares as constants here and in search_ideas:

    programs   from recipes (search_recipes), which the first line of each program states, so that it is read back from a
               prompt; they train for real and wait as long as the recipe costs, 0.3 to 6 s (search_programs)
    faults     FAULTY of the new programs have one: an exception early or after the training, a wrong submission, a
               forgotten loop, no debug run, predictions that are none, no code. Joining programs goes wrong more often.
               Asked to repair, it does so REPAIRS of the time, else there is a new fault; told that it takes too long it
               drops the loop or makes the recipe cheaper
    scores     where a prompt asks for the program's own, OVERFITS of the programs report one that is too good
    ideas      one change drawn with weak taste, often costly or of no use; several at once are weighed with noise by
               rough experience and by what other experiments came to
    reviews    a missing debug block and a copied sample are mostly found, and little else is refused

Covered: made tables in full; other tasks that the bank solves, with its models for recipes. Not covered: what the data
would tell; personas that are of no use (search_unruly).
"""

import json
from collections.abc import Callable
from typing import Any

from ..models import Reply, Request
from . import search_develop, search_prompts
from .bank import choices
from .search_ideas import Mind, joined, thought_of, worded, worth
from .search_recipes import Change, fits, read, together
from .solutions import SeededRng

PREFIX = "search-"
SELECTS, MODIFIES = 0.8, 0.12  # of the choices among candidates; the others make up something new
ADDS = 0.5  # a change of its own to the joining of several programs
FINDS, ALARMS = 0.8, 0.03  # a reviewer: of what is wrong, and of what is right
CHOOSES_BEST = 0.9  # at the end; else one of the first three
REASONING = "The scores and the data are all that counts here."  # ahead of each answer in JSON
CHALLENGES = {
    "DataLoadSpec": "The cells are not clean: what is read as it stands loses or bends values",
    "FeatureEng": "The plain columns do not show how they act together on the target",
    "Model": "The model does not suit so few rows of mixed columns",
    "Ensemble": "One model alone varies with its seed and its mistakes are not made up for",
    "Workflow": "Training and setting do not look at what the metric counts",
}


def play(request: Request) -> Reply:
    """The reply in a role of the search."""
    assert request.task is not None
    told = search_prompts.taken_apart(request.messages)
    rng = SeededRng(request.seed, f"{request.task['id']}/{request.role}")
    mind = Mind(request.task, told, rng, together(told.recipes) if told.recipes else None)
    if request.role in _ANSWERS:
        return Reply(f"{REASONING}\n\n```json\n{json.dumps(_ANSWERS[request.role](mind), indent=1)}\n```")
    return Reply(search_develop.answer(request.role.removeprefix(PREFIX), request.task, told, rng))


def _analysis(mind: Mind) -> dict[str, Any]:
    task = mind.task
    metric = task["metric"]
    way = "lower" if metric["lower_is_better"] else "higher"
    return {
        "task_type": task["problem"].replace("_", " "),
        "data_type": task.get("modality", "tabular"),
        "summary": f"Predict {', '.join(task['submission']['target'])} for the rows of test.csv.",
        "data": f"The files are {', '.join(task['data']['public'])}.",
        "submission": f"submission.csv has the columns {', '.join(task['submission']['id'] + task['submission']['target'])}.",
        "metric": f"{metric.get('name', 'a score')}; {way} is better.",
        "longer_limit": task.get("modality", "tabular") in ("image", "audio", "multimodal"),
    }


def _hypothesis(mind: Mind, name: str, component: str = "", beside: tuple[str, ...] = ()) -> tuple[str, list[Change]]:
    """(text, changes): a hypothesis for the program that is shown, those that are, or a draft."""
    if not fits(mind.task):
        menu = choices(mind.task)
        return f"Train {mind.rng.pick(name, menu).words} as the model.", []
    if len(mind.told.programs) > 1:
        changes = thought_of(mind, name, component, beside) if mind.rng(f"{name} more") < ADDS else []
        return joined(changes), changes
    changes = thought_of(mind, name, component, beside)
    return worded(changes), changes


def _component(changes: list[Change], text: str = "") -> str:
    if changes:
        return changes[-1].component if len(changes) == 1 else "Model"
    return "Ensemble" if "blend" in text else "Model"


def _idea(mind: Mind) -> dict[str, Any]:
    text, changes = _hypothesis(mind, "idea")
    return {"hypothesis": text, "component": _component(changes, text)}


def _challenges(mind: Mind) -> list[dict[str, Any]]:
    parts = sorted(CHALLENGES, key=lambda part: mind.rng(f"challenge {part}"))[: 2 + int(mind.rng("how many") < 0.7)]
    return [
        {
            "challenge": f"{CHALLENGES[part]}.",
            "reason": "The score cannot rise beyond that.",
            "origin": "feedback" if mind.told.programs and mind.rng(f"origin {part}") < 0.5 else "scenario",
        }
        for part in parts
    ]


def _hypotheses(mind: Mind) -> list[dict[str, Any]]:
    """Two on each challenge; for a program, about what the challenge is about."""
    found: list[dict[str, Any]] = []
    texts: tuple[str, ...] = ()
    for at, challenge in enumerate(mind.told.listed("Challenges") or [""]):
        part = next((part for part, words in CHALLENGES.items() if words in challenge), "")
        for number in range(2):
            name = f"hypothesis {at} {number}"
            text, changes = _hypothesis(mind, name, part, texts)
            texts += (text,)
            found.append(
                {
                    "hypothesis": text,
                    "component": _component(changes, text),
                    "challenge": at,
                    "scores": _scores(mind, changes, name),
                }
            )
    return found


def _scores(mind: Mind, changes: list[Change], name: str) -> dict[str, int]:
    value = worth(mind, changes, name)
    dear = any(change.costly for change in changes)

    def axis(about: str, middle: float) -> int:
        return max(1, min(10, round(middle + 2 * mind.rng(f"{name} {about}") - 1)))

    return {
        "alignment": axis("alignment", 7),
        "impact": max(1, min(10, round(5 + 5 * value))),
        "novelty": axis("novelty", 6),
        "feasibility": axis("feasibility", 5 if dear else 8),
        "risk_reward": axis("risk", 5 + 3 * value),
    }


def _select(mind: Mind) -> dict[str, Any]:
    """The candidate with the best judgement, mostly as it stands."""
    candidates = mind.told.listed("Candidates")
    texts = [text.partition("] ")[2] or text for text in candidates]
    way = mind.rng("action")
    if not candidates or way >= SELECTS + MODIFIES:
        text, changes = _hypothesis(mind, "created")
        return {"action": "create", "candidate": None, "hypothesis": text, "component": _component(changes, text)}
    best = max(range(len(texts)), key=lambda at: worth(mind, read(texts[at]), f"candidate {at}"))
    changes = read(texts[best])
    if way < SELECTS or not changes or mind.recipe is None:
        component = _component(changes, texts[best])
        return {"action": "select", "candidate": best, "hypothesis": texts[best], "component": component}
    _, more = _hypothesis(mind, "modified", beside=tuple(texts))
    both = [*changes, *more]
    return {"action": "modify", "candidate": best, "hypothesis": worded(both), "component": _component(changes)}


def _lesson(mind: Mind) -> dict[str, Any]:
    """From the scores that are told: the new program's first, then its parent's."""
    done = " ".join(each.sentence for each in read(mind.told.under("The idea"))) or "What was tried"
    scores = mind.told.scores
    if not scores or "It failed: " in mind.told.under("The present program"):
        return {"supported": False, "lesson": f"{done} This did not come to a score."}
    if len(scores) < 2:
        return {"supported": True, "lesson": f"{done} This is a start, with a score of {scores[0]:g}."}
    gained = search_prompts.better(scores[0], scores[1], mind.task)
    way = "better" if gained else "no better"
    return {"supported": gained, "lesson": f"{done} This was {way}: {scores[0]:g} after {scores[1]:g}."}


def _check(mind: Mind) -> dict[str, Any]:
    """A program without the debug block that was asked for, or one that hands in the sample, is mostly found."""
    code = next(iter(mind.told.programs), "")
    wrong = ""
    if "estimated_time" not in code:
        wrong = "It does not print the debug information."
    if code and "predict" not in code:
        wrong = "Its predictions do not come from a model."
    if wrong and mind.rng("finds") < FINDS:
        return {"acceptable": False, "why": wrong}
    if mind.rng("alarm") < ALARMS:
        return {"acceptable": False, "why": "It may leave the idea aside."}
    return {"acceptable": True, "why": "It does what was asked for."}


def _choose(mind: Mind) -> dict[str, Any]:
    """The best score, mostly."""
    sign = 1 if mind.task["metric"]["lower_is_better"] else -1
    ranked = sorted(
        (each for each in mind.experiments if each.score is not None), key=lambda each: sign * (each.score or 0.0)
    )
    if not ranked:
        return {"experiment": 0, "why": "No scores are told."}
    some = ranked[:1] if mind.rng("best") < CHOOSES_BEST else ranked[:3]
    chosen = mind.rng.pick("which", some)
    return {"experiment": chosen.number, "why": f"Its score of {chosen.score:g} is among the best."}


_ANSWERS: dict[str, Callable[[Mind], Any]] = {
    "search-analysis": _analysis,
    "search-idea": _idea,
    "search-challenges": _challenges,
    "search-hypotheses": _hypotheses,
    "search-select": _select,
    "search-lesson": _lesson,
    "search-check": _check,
    "search-choose": _choose,
}
JSON_ROLES = tuple(_ANSWERS)
