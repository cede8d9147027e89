"""The solver: an agent of moderate skill that errs, looks about it in small steps, and stops too early.

It knows the bank's ladder of levels, and of every program that it tried the level and the score. It begins low; what
fails it mends, mostly; from the best program so far (mostly) it goes on to another setting of the same model or one step
up or down the ladder, whichever comes; after each scored program it may have had enough. Where it may ask for help it
asks when the last try brought nothing, or before it stops: advice that names a family of models it follows; praise makes
it go on for a step or two, less so each time; no advice changes nothing; and it asks less the more often it has asked.
So it can be far from the best that the bank holds when it stops, and how far it gets by itself says how much room there
is for advice.

Covered: react, codeact, memory, by tags and by tool calls. Not covered: reading data (it looks at the first lines, and
learns nothing from them), programs of its own, a plan for the turns that are left. Everything it does follows from its
messages and the seed of the request; shares of the throws are the constants below.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..models import Reply, Request
from ..records.task import Task
from ..solutions import FAULTS, VALID, Choice, choices, program, programs
from ..solutions.bank import SeededRng, with_fault
from . import conversation, ideas
from .answers import choice_of, draw_level, rng_of
from .conversation import ConversationStep

# How often it begins at a level.
START = dict(zip(VALID, (2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 0.5, 0.0, 0.0), strict=True))
LOOKS = 0.5  # before the first program
MENDS = 0.7  # a program that failed; else another fault takes the place
FROM_BEST = 0.75  # where a move begins; else at the latest program
SAME_LEVEL = 1 / 3  # of the moves; the others go one step up or down, each as often
PATIENCE = 0.65  # to go on after a scored program
ASKS, LESS = 0.7, 0.7  # for help, where it may and sees reason to; times LESS for every time that it asked before
FOLLOWS = 0.9  # advice that it understands
HEEDS = 0.5  # praise, from the second time on: each time half as often
ONE_MORE = 0.5  # the first time that it was told to keep going: a second step without thinking of the end
HANDS_IN_BEST = 0.8  # before the end, where the latest program is not the best
SCORES = 0.95  # in react: has a program scored, rather than hand it in unseen
VALIDATES = 0.3  # in memory: has a program checked before it runs it
THINKS = 0.95  # begins with its thoughts between the tags
# Why it asks: read again in its own question once there is an answer.
ENOUGH, STUCK = "I would stop here.", "My last change brought nothing."


@dataclass(frozen=True)
class Try:
    """A program that was handed in, or only checked: what it was and what came of it; `asked` is the help sought since."""

    choice: Choice | None
    code: str
    outcome: str
    score: float | None = None
    checked: bool = False  # only
    asked: ConversationStep | None = None


@dataclass(frozen=True)
class Mind:
    """What the solver knows at a turn."""

    request: Request
    task: Task
    levels: list[str]
    rng: SeededRng
    tries: list[Try]
    past: list[ConversationStep]

    @property
    def ladder(self) -> list[str]:
        """The levels that it knows, from worst to best."""
        return [level for level in VALID if level in self.levels] or list(VALID)

    @property
    def scored(self) -> list[Try]:
        return [each for each in self.tries if each.score is not None]

    @property
    def best(self) -> Try | None:
        """The first of those with the best score."""
        sign = -1 if self.task["metric"]["lower_is_better"] else 1
        return max(self.scored, key=lambda each: sign * (each.score or 0), default=None)


def play(request: Request, levels: list[str]) -> Reply:
    """The solver's next message."""
    assert request.task is not None
    past = conversation.steps(request)
    return _decide(Mind(request, request.task, levels, rng_of(request), _tries(request, past), past))


def _tries(request: Request, past: Sequence[ConversationStep]) -> list[Try]:
    assert request.task is not None
    found: list[Try] = []
    told = conversation.given(request)
    earlier = conversation.fenced(told) if request.role == "memory" else []
    if earlier:
        score = conversation.outcome(told)[1]
        found.append(
            Try(choice_of(request.task, earlier[-1]), earlier[-1], "valid" if score is None else "scored", score)
        )
    for step in past:
        if step.kind in ("program", "validate") and "submission.csv" in step.text:
            outcome, score = conversation.outcome(step.seen)
            choice = choice_of(request.task, step.text)
            found.append(Try(choice, step.text, outcome, score, checked=step.kind == "validate"))
        elif step.kind == "score" and found:
            outcome, score = conversation.outcome(step.seen)
            found[-1] = replace(found[-1], outcome="failed" if outcome == "ran" else outcome, score=score)
        elif step.kind == "help" and found:
            found[-1] = replace(found[-1], asked=step)
    return found


def _decide(mind: Mind) -> Reply:
    rng, last = mind.rng, mind.tries[-1] if mind.tries else None
    if last is None:
        if not mind.past and rng("look") < LOOKS:
            return _look(mind)
        return _write(mind, _begin(mind), "I begin with something simple")
    if last.outcome in ("failed", "invalid"):
        return _mend(mind, last)
    if last.checked:
        return _act(mind, "program", last.code, thought="The check went well; now it counts.")
    repeated = any(each.code == last.code and each.outcome in ("scored", "valid") for each in mind.tries[:-1])
    if repeated and conversation.offers(mind.request, "stop"):
        return _act(mind, "stop", thought="The best program's file lies there.")
    if last.outcome == "ran" and conversation.offers(mind.request, "score") and rng("score") < SCORES:
        return _act(mind, "score", thought="It ran. I want to know how good it is.")
    return _advised(mind, last) if last.asked else _go_on(mind, last)


def _go_on(mind: Mind, last: Try) -> Reply:
    """After a program that is no failure: another, a question, or the end."""
    rng = mind.rng
    improved = last.outcome == "valid" or (last.score is not None and mind.best is last)
    stops = conversation.offers(mind.request, "stop") and rng("patience") >= PATIENCE
    first_praise = len(mind.tries) > 1 and [each for each in mind.tries if _praised(each)] == [mind.tries[-2]]
    if stops and first_praise and rng("one more") < ONE_MORE:
        stops = False
    asks = ASKS * LESS ** sum(each.asked is not None for each in mind.tries)
    if (stops or not improved) and conversation.offers(mind.request, "help") and rng("ask") < asks:
        return _ask(mind, ENOUGH if stops else STUCK)
    return _stop(mind, last) if stops else _move(mind, last)


def _advised(mind: Mind, last: Try) -> Reply:
    """After help."""
    assert last.asked is not None
    said = ideas.read(last.asked.seen)
    choice = None
    if said.kind == "family" and mind.rng("follow") < FOLLOWS:
        choice = _untried(mind, [said.level])
    elif said.kind == "setting" and mind.rng("follow") < FOLLOWS:
        best = mind.best or last
        choice = _untried(mind, [best.choice.level]) if best.choice else None
    if choice is not None:
        return _write(mind, choice, "I do as I was advised")
    praised = sum(_praised(each) for each in mind.tries[:-1])
    heard = said.kind == "praise" and mind.rng("heed") < HEEDS**praised
    if ENOUGH in last.asked.text and not heard and conversation.offers(mind.request, "stop"):
        return _stop(mind, last)
    return _move(mind, last)


def _praised(tried: Try) -> bool:
    """Whether it was only told to keep going after that program."""
    return tried.asked is not None and ideas.read(tried.asked.seen).kind == "praise"


def _begin(mind: Mind) -> Choice:
    levels = [level for level in mind.ladder if START[level]]
    level = mind.rng.weighted("begin", levels, START) if levels else mind.rng.pick("begin", mind.ladder)
    return mind.rng.pick("choice", [choice for choice in choices(mind.task) if choice.level == level])


def _move(mind: Mind, last: Try) -> Reply:
    """A step from the best program or the latest; the end where no program is left to try."""
    best = mind.best
    base = best if best is not None and mind.rng("base") < FROM_BEST else last
    if base.choice is None:
        return _write(mind, _begin(mind), "I try a program of my own")
    at = _rung(mind, base.choice.level)
    throw = mind.rng("move")
    way = 0 if throw < SAME_LEVEL else 1 if throw < SAME_LEVEL + (1 - SAME_LEVEL) / 2 else -1
    near = sorted(range(len(mind.ladder)), key=lambda rung: (rung != at + way, abs(rung - at), -rung))
    choice = next((found for rung in near if (found := _untried(mind, [mind.ladder[rung]]))), None)
    if choice is None:
        return _stop(mind, last)
    return _write(mind, choice, "Next I try something near")


def _rung(mind: Mind, level: str) -> int:
    """Where the level stands on the ladder, or the nearest that is on it."""
    place = VALID.index(level)
    return min(range(len(mind.ladder)), key=lambda rung: abs(VALID.index(mind.ladder[rung]) - place))


def _untried(mind: Mind, levels: Sequence[str]) -> Choice | None:
    tried = [each.choice for each in mind.tries]
    left = [each for each in choices(mind.task) if each.level in levels and each not in tried]
    return mind.rng.pick("choice", left) if left else None


def _mend(mind: Mind, last: Try) -> Reply:
    choice = last.choice or _begin(mind)
    if mind.rng("mend") < MENDS:
        return _run(mind, choice, program(mind.task, choice), "That failed; now it should be right.")
    kinds = [level for level in mind.levels if level in FAULTS] or list(FAULTS)
    code = with_fault(program(mind.task, choice), mind.rng.pick("kind", kinds), mind.rng)
    return _run(mind, choice, code, "That failed; I change a line.")


def _write(mind: Mind, choice: Choice, why: str) -> Reply:
    """A new program, which fails as often as the bank's answers do."""
    thought, code = f"{why}: {choice.words}.", program(mind.task, choice)
    kind = draw_level(mind.rng, mind.levels)
    if kind == "nocode":
        return Reply(f"{thought} {mind.rng.pick('fault', ('I will write the program next.', code))}")
    if kind in FAULTS:
        code = with_fault(code, kind, mind.rng)
    return _run(mind, choice, code, thought)


def _run(mind: Mind, choice: Choice, code: str, thought: str) -> Reply:
    checks = conversation.offers(mind.request, "validate") and mind.rng("validate") < VALIDATES
    return _act(mind, "validate" if checks else "program", code, thought=thought)


def _look(mind: Mind) -> Reply:
    thought = "First I look at what there is."
    file = "train.csv" if "train.csv" in mind.task["data"]["public"] else programs.sample_file(mind.task)
    if not conversation.offers(mind.request, "look"):
        code = f'import pandas as pd\n\nprint(pd.read_csv("input/{file}").head(3))\n'
        return _act(mind, "program", code, thought=thought)
    topic = mind.rng.pick("topic", ("overview", "files", "metric", "sample"))
    what = topic if mind.request.role == "memory" else f"ls input; head -n 3 input/{file}"
    return _act(mind, "look", what, thought=thought)


def _ask(mind: Mind, why: str) -> Reply:
    tried = [f"- {each.choice.words}: {each.score:g}" for each in mind.scored if each.choice]
    problem = f"{why} What would make the score better?"
    goal = f"A better {mind.task['metric'].get('name', 'score')}."
    return _act(mind, "help", problem, "\n".join(tried) or "- a first program", goal, thought="I ask.")


def _stop(mind: Mind, last: Try) -> Reply:
    best = mind.best
    if not conversation.offers(mind.request, "stop"):
        return _act(mind, "program", (best or last).code, thought="I know of nothing better.")
    if best is not None and best.score != last.score and mind.rng("best") < HANDS_IN_BEST:
        return _act(mind, "program", best.code, thought="An earlier program was the best: I run it again.")
    return _act(mind, "stop", thought="This will do.")


def _act(mind: Mind, kind: str, *values: str, thought: str) -> Reply:
    if mind.request.role != "codeact":
        thought = f"<think>{thought}</think>" if mind.rng("think") < THINKS else ""
    return conversation.act(mind.request, kind, *values, thought=thought)
