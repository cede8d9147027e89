"""States: rollouts so far, from which other work begins. --write-states writes them; idea, react and memory begin from them.

Covered: how a state is written, the solution at hand in one and how an agent is told of it. Not covered: which states are
begun from (mle-filter, mle-rollout --draw), a session's variables and files: a solution is a program that runs by itself.
"""

from typing import Any

from .. import prompts
from ..base.errors import RecordError
from ..base.options import option
from ..records.rollout import Rollout, StartState
from . import messages
from .episode import Episode
from .interface import Job, Settings, State, state_id
from .messages import fenced
from .pool import Entry, entry_id

OUTPUT = 2000  # characters of an earlier solution's output in a question


def states_option(help: str) -> Any:
    """The option that names the file of states."""
    return option(help, flags=("--write-states",), kind="output file", metavar="FILE", machine=True)


AT_SUBMISSIONS = (
    "Write the state after each program whose submission is valid, and counts so far, to FILE: an input to begin from."
)


def state_of(episode: Episode[Any], query: dict[str, str] | None = None) -> State:
    """The rollout so far as a record of its own, whose stop_reason is asked. query: what its policy asks for."""
    turn = len(episode.turns) - 1
    state = episode.state()
    if query is not None:
        state["query"] = query
    if "reported_score" in episode.turn:
        state["reported_score"] = episode.turn["reported_score"]
    state["rollout"], state["turn"] = episode.job.id, turn
    so_far = episode.record("asked", state=state)
    so_far["id"] = state_id(episode.job.id, turn)
    # copies, for the episode goes on: the ids of what was told last come with the next answer
    so_far["messages"] = [message.copy() for message in episode.messages]
    so_far["turns"] = [turn.copy() for turn in episode.turns]
    return State(so_far)


def stands(episode: Episode[Any]) -> bool:
    """Whether the turn at hand has made the solution that would be handed in now, and it is valid."""
    grade = episode.turn.get("grade")
    return episode.best_submission_turn is episode.turn and bool(grade and grade["valid"])


def begun_from(job: Job[Any], ranked_by: str | None = None) -> Entry | None:
    """The solution at hand in the state that a job begins from; None: it begins from the task.

    ranked_by: what the entry's score is, validation (with --reveal-test: test) or test; None: nobody looks at it.
    RecordError: the record is no such state, has no such score, or has one on other validation rows.
    """
    record, settings = job.record, job.settings
    if record is None or record["kind"] == "task":
        return None
    state = record.get("state", {})
    turn, code, test = state.get("turn"), state.get("code"), state.get("score")
    if record["stop_reason"] != "asked" or turn is None or code is None or test is None:
        raise RecordError("not a state with a valid solution: use what --scaffold react or memory --write-states wrote")
    if turn >= len(record["turns"]) or "execution" not in record["turns"][turn]:
        raise RecordError("its solution is of a session: use what --scaffold react or memory --write-states wrote")
    check_rows(record, settings)
    validation, reported = state.get("validation"), state.get("reported_score")
    score = test if ranked_by == "test" or settings.reveal_test else reported if validation is None else validation
    if score is None and ranked_by is not None:
        raise RecordError("it has no validation score, by which solutions are ranked")
    return Entry(
        id=entry_id(job.task["id"], code),
        task=job.task["id"],
        code=code,
        score=test if score is None else score,
        step=turn,
        trace=state["rollout"],
        output=messages.output_text(record["turns"][turn]["execution"]["stdout"], OUTPUT),
        validation=validation,
        test=test,
    )


def check_rows(state: Rollout, settings: Settings) -> None:
    """RecordError: the score of a state is on other validation rows than this run's."""
    share = state.get("settings", {}).get("validation", 0.0)
    if share != settings.validation:
        raise RecordError(f"its score is on other validation rows: it was made with --validation {share:g}")


def score_shown(start: Entry, settings: Settings) -> float | None:
    """The score of what an episode begins from, as its agent is told it; None: it is not told."""
    return settings.shown_at_start(start.test if settings.reveal_test else start.validation)


def earlier_solution(start: Entry, settings: Settings, own_scores: bool = False) -> str:
    """The part of a question that shows what is begun from. own_scores: the score is the one that the program printed."""
    shown, rows = score_shown(start, settings), "test" if settings.reveal_test else "validation"
    standing = "its score is not told." if shown is None else f"its score on the {rows} rows was {shown:g}."
    if own_scores:
        standing = f"its own validation score was {start.score:g}."
    output = f"What it printed:\n\n{fenced(start.output)}" if start.output else "It printed nothing."
    code = fenced(start.code.strip(), "python")
    return prompts.render("memory-start", standing=standing, code=code, output=output)


def start_state(start: Entry, own_scores: bool = False) -> StartState:
    """What the record of an episode says of what it began from."""
    state: StartState = {
        "score": start.test,
        "validation": start.validation,
        "code": start.code,
        "rollout": start.trace,
        "turn": start.step,
    }
    if own_scores:
        state["reported_score"] = start.score
    return state
