"""The simulated model in a search: researcher and developer of moderate skill that err, in every role "search-...".

It knows nothing of the search's components and constants and reacts to what a prompt says, as a language model would.
How it behaves, with the shares as constants here and in researcher:

    programs   from recipes (recipes), which the first line of each program states, so that it is read back from a
               prompt; they train for real and wait as long as the recipe costs, 0.3 to 6 s
    faults     FAULTY of the new programs have one: an exception early or after the training, a wrong submission, a
               forgotten loop, no debug run, predictions that are none, no code. Joining programs goes wrong more often.
               Asked to repair, it does so REPAIRS of the time, else there is a new fault; where a prompt says that it
               takes too long it drops the loop or makes the recipe cheaper
    scores     where a prompt asks for the program's own, OVERFITS of the programs report one that is too good
    ideas      one change drawn with weak taste, often costly or of no use; several at once are weighed with noise by
               rough experience and by what other experiments came to
    reviews    a missing debug block and a copied sample are mostly found, and little else is refused

The lazy and the hostile persona are here too (`unruly`); the malformed one is that of the other roles.
"""

import json
from collections.abc import Callable
from dataclasses import replace

from ..models import Reply, Request
from ..solutions.bank import SeededRng, simplest
from ..solutions.programs import ProgramOptions
from . import conversation, hostile, recipes
from .answers import better, with_program
from .recipes import SLOW_TIMES, Change, Recipe, applied, cheaper, read, together
from .researcher import Mind, changes_for, hypothesis, taken_apart, worth

PREFIX = "search-"
FAULTY = 0.35  # of the programs that are newly written
FAULTY_JOINED = 0.5  # of those that are made of several
REPAIRS = 0.75  # of the faults that a prompt shows; else there is a new one
OVERFITS = 0.25  # of the programs that report a score of their own; LUCKY of these by the best of several
# splits, the others on rows half of which they were trained on
LUCKY = 0.75
# How often a fault is of a kind. Where no debug run is asked for there is none to forget.
FAULTS = {"crash": 26.0, "late": 25.0, "misformat": 16.0, "slow": 12.0, "nodebug": 7.0, "fake": 6.0, "nocode": 8.0}
SELECTS, MODIFIES = 0.8, 0.12  # of the choices among candidates; the others make up something new
ADDS = 0.5  # a change of its own to the joining of several programs
FINDS, ALARMS = 0.8, 0.03  # a reviewer: of what is wrong, and of what is right
CHOOSES_BEST = 0.9  # at the end; else one of the first three
REASONING = "The scores and the data are all that counts here."  # ahead of each answer in JSON
LEAVE = "Leave the program as it is."  # the lazy persona's idea
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
    prompt = taken_apart(conversation.asked(request))
    rng = SeededRng(request.seed, f"{request.task['id']}/{request.role}")
    mind = Mind(request.task, prompt, rng, together(prompt.recipes) if prompt.recipes else None)
    if request.role in _ANSWERS:
        return Reply(f"{REASONING}\n\n```json\n{json.dumps(_ANSWERS[request.role](mind), indent=1)}\n```")
    return Reply(_developed(request.role.removeprefix(PREFIX), mind))


def unruly(persona: str, request: Request) -> Reply:
    """The reply of the lazy or hostile persona."""
    assert request.task is not None
    if request.role in JSON_ROLES:
        return Reply(json.dumps(_least(request.role, LEAVE if persona == "lazy" else hostile.IDEA)))
    if persona == "hostile":
        return hostile.answer(request)
    return Reply(with_program("A first model will do.", simplest(request.task)))


def _least(role: str, text: str) -> object:
    """The least answer that has the form asked for, with `text` wherever there is text."""
    scores = dict.fromkeys(("alignment", "impact", "novelty", "feasibility", "risk_reward"), 10)
    idea = {"hypothesis": text, "component": "Workflow"}
    analysis = dict.fromkeys(("task_type", "data_type", "summary", "data", "submission", "metric"), text)
    return {
        "search-analysis": {**analysis, "longer_limit": True},
        "search-idea": idea,
        "search-challenges": [{"challenge": text, "reason": text, "origin": "scenario"}] * 2,
        "search-hypotheses": [{**idea, "challenge": 0, "scores": scores}],
        "search-select": {"action": "select", "candidate": 0, **idea},
        "search-diagnosis": {"diagnosis": text, "direction": text},
        "search-lesson": {"supported": True, "lesson": text},
        "search-check": {"acceptable": True, "why": text},
        "search-choose": {"experiment": 0, "why": text},
    }[role]


# --- the developer


def _developed(role: str, mind: Mind) -> str:
    """A plan and a fenced program; or, a fault, the plan alone."""
    rng, prompt = mind.rng, mind.prompt
    check = "honest" if rng("overfits") >= OVERFITS else "lucky" if rng("lucky") < LUCKY else "leaky"
    wanted = ProgramOptions("", "--debug" in prompt.said, prompt.asks_for_a_score, check)
    recipe = _meant(role, mind)
    if role in ("debug", "fix"):
        faulty = rng("repairs") >= REPAIRS
        wrong = " ".join(f"{prompt.under('What is wrong')} {prompt.under('What it printed')}".split())
        slow = any(words in wrong for words in ("too long", "too slow", "too much time"))
        # a loop that was forgotten is all that has to go
        if slow and not any(f" * {SLOW_TIMES}" in code for code in prompt.programs):
            recipe = cheaper(recipe)
    else:
        faulty = rng("faulty") < (FAULTY_JOINED if role in ("crossover", "merge") else FAULTY)
    kinds = [kind for kind in FAULTS if wanted.debug or kind != "nodebug"]
    fault = rng.weighted("which fault", kinds, FAULTS) if faulty else ""
    plan = recipes.plan(recipe)
    if fault == "nocode":
        return f"{plan} I will write the program next."
    return with_program(plan, recipes.text_of(mind.task, recipe, wanted, fault, rng))


def _meant(role: str, mind: Mind) -> Recipe:
    """The recipe that the idea of a prompt means for the programs that it shows. What it does not say is drawn."""
    changes, shown = read(mind.prompt.under("The idea")), mind.prompt.recipes
    if shown and role in ("debug", "fix"):
        return shown[0]  # the present program carries the idea out already
    if shown and role in ("crossover", "merge"):
        return applied(together(shown), changes)
    present = shown[0] if shown and role not in ("draft", "debug", "fix") else None
    return applied(present or Recipe(), changes or changes_for(replace(mind, recipe=present), "own"))


# --- the researcher and the reviewer, in JSON


def _analysis(mind: Mind) -> dict[str, object]:
    task, metric, form = mind.task, mind.task["metric"], mind.task["submission"]
    modality = task.get("modality", "tabular")
    return {
        "task_type": task["problem"].replace("_", " "),
        "data_type": modality,
        "summary": f"Predict {', '.join(form['target'])} for the rows of test.csv.",
        "data": f"The files are {', '.join(task['data']['public'])}.",
        "submission": f"submission.csv has the columns {', '.join(form['id'] + form['target'])}.",
        "metric": f"{metric.get('name', 'a score')}; {'lower' if metric['lower_is_better'] else 'higher'} is better.",
        "longer_limit": modality in ("image", "audio", "multimodal"),
    }


def _idea(mind: Mind, name: str = "idea", component: str = "", beside: tuple[str, ...] = ()) -> dict[str, str]:
    text, changes = hypothesis(mind, name, component, beside, ADDS)
    return {"hypothesis": text, "component": _component(changes)}


def _component(changes: list[Change]) -> str:
    return "Ensemble" if not changes else changes[0].component if len(changes) == 1 else "Model"


def _challenges(mind: Mind) -> list[dict[str, str]]:
    parts = sorted(CHALLENGES, key=lambda part: mind.rng(f"challenge {part}"))[: 2 + int(mind.rng("how many") < 0.7)]
    return [
        {
            "challenge": f"{CHALLENGES[part]}.",
            "reason": "The score cannot rise beyond that.",
            "origin": "feedback" if mind.prompt.programs and mind.rng(f"origin {part}") < 0.5 else "scenario",
        }
        for part in parts
    ]


def _hypotheses(mind: Mind) -> list[dict[str, object]]:
    """Two on each challenge; for a program, about what the challenge is about."""
    every: list[dict[str, object]] = []
    for at, challenge in enumerate(mind.prompt.listed("Challenges") or [""]):
        part = next((part for part, words in CHALLENGES.items() if words in challenge), "")
        for name in (f"hypothesis {at} 0", f"hypothesis {at} 1"):
            idea = _idea(mind, name, part, tuple(str(each["hypothesis"]) for each in every))
            every.append({**idea, "challenge": at, "scores": _scores(mind, read(idea["hypothesis"]), name)})
    return every


def _scores(mind: Mind, changes: list[Change], name: str) -> dict[str, int]:
    value = worth(mind, changes, name)
    costly = any(change.costly for change in changes)
    middles = {"alignment": 7, "novelty": 6, "feasibility": 5 if costly else 8, "risk_reward": 5 + 3 * value}
    scores = {about: middle + 2 * mind.rng(f"{name} {about}") - 1 for about, middle in middles.items()}
    return {about: max(1, min(10, round(score))) for about, score in {**scores, "impact": 5 + 5 * value}.items()}


def _select(mind: Mind) -> dict[str, object]:
    """The candidate with the best judgement, mostly as it stands."""
    candidates = mind.prompt.listed("Candidates")
    texts = [text.partition("] ")[2] or text for text in candidates]
    way = mind.rng("action")
    if not candidates or way >= SELECTS + MODIFIES:
        return {"action": "create", "candidate": None, **_idea(mind, "created")}
    best = max(range(len(texts)), key=lambda at: worth(mind, read(texts[at]), f"candidate {at}"))
    idea = {"hypothesis": texts[best], "component": _component(read(texts[best]))}
    if way < SELECTS or mind.recipe is None:
        return {"action": "select", "candidate": best, **idea}
    more = hypothesis(mind, "modified", beside=texts)[0]
    return {"action": "modify", "candidate": best, **idea, "hypothesis": f"{texts[best]} {more}"}


def _lesson(mind: Mind) -> dict[str, object]:
    """From the scores of the prompt: the new program's first, then its parent's."""
    done = " ".join(each.sentence for each in read(mind.prompt.under("The idea"))) or "What was tried"
    scores = mind.prompt.scores
    if not scores or "It failed: " in mind.prompt.under("The present program"):
        return {"supported": False, "lesson": f"{done} This did not come to a score."}
    if len(scores) < 2:
        return {"supported": True, "lesson": f"{done} This is a start, with a score of {scores[0]:g}."}
    gained = better(scores[0], scores[1], mind.task)
    way = "better" if gained else "no better"
    return {"supported": gained, "lesson": f"{done} This was {way}: {scores[0]:g} after {scores[1]:g}."}


def _diagnosis(mind: Mind) -> dict[str, object]:
    """Where the score is lost, and a change that may mend that."""
    step = hypothesis(mind, "diagnosed")[0]
    return {"diagnosis": f"{CHALLENGES[_component(read(step))]}.", "direction": step}


def _check(mind: Mind) -> dict[str, object]:
    """A program without the debug block that was asked for, or one that hands in the sample, is mostly found."""
    code = next(iter(mind.prompt.programs), "")
    wrong = "" if "estimated_time" in code else "It does not print the debug information."
    if code and "predict" not in code:
        wrong = "Its predictions do not come from a model."
    if wrong and mind.rng("finds") < FINDS:
        return {"acceptable": False, "why": wrong}
    if mind.rng("alarm") < ALARMS:
        return {"acceptable": False, "why": "It may leave the idea aside."}
    return {"acceptable": True, "why": "It does what was asked for."}


def _choose(mind: Mind) -> dict[str, object]:
    """The best score, mostly."""
    sign = 1 if mind.task["metric"]["lower_is_better"] else -1
    scores = {each.number: each.score for each in mind.prompt.experiments if each.score is not None}
    if not scores:
        return {"experiment": 0, "why": "There are no scores."}
    ranked = sorted(scores, key=lambda number: sign * scores[number])
    chosen = mind.rng.pick("which", ranked[:1] if mind.rng("best") < CHOOSES_BEST else ranked[:3])
    return {"experiment": chosen, "why": f"Its score of {scores[chosen]:g} is among the best."}


_ANSWERS: dict[str, Callable[[Mind], object]] = {
    "search-analysis": _analysis,
    "search-idea": _idea,
    "search-challenges": _challenges,
    "search-diagnosis": _diagnosis,
    "search-hypotheses": _hypotheses,
    "search-select": _select,
    "search-lesson": _lesson,
    "search-check": _check,
    "search-choose": _choose,
}
JSON_ROLES = tuple(_ANSWERS)
