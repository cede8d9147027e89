"""Scaffold `react`: reason, call one tool, observe, until an answer (SandMLE, sections 4.3 and D.1).

Covered: the tools PythonInterpreter and Score as tags or tool calls, the format rate, its limits in training and in
evaluation, episodes that count as timed out, states (states). Not covered: state between programs; each runs from the beginning.
"""

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import prompts
from ..records.rollout import Rollout, StopReason
from ..records.task import Task
from . import messages
from .episode import Episode, opening
from .interface import Ended, Environment, Job, Needs, Played, Scaffold, Settings, State
from .messages import task_prompt
from .reading import Action, Fault, Tool, named_call, read_action, thinks, without_fence
from .states import (
    AT_SUBMISSIONS,
    begun_from,
    earlier_solution,
    score_shown,
    stands,
    start_state,
    state_of,
    states_option,
)


@dataclass(frozen=True)
class ReactSettings(Settings):
    """The bounds of SandMLE, in training and in evaluation."""

    EVALUATION: ClassVar[Mapping[str, object]] = {**Settings.EVALUATION, "max_turns": 20, "max_tokens": None}

    max_seconds: float | None = 1200.0
    max_tokens: int | None = 32768
    max_answer_tokens: int = 8192
    context_tokens: int | None = 32768
    states: str | None = states_option(AT_SUBMISSIONS)


# An episode in which more than this share of the programs ran out of time counts as timed out (SandMLE's code).
TIMED_OUT = 0.2

PYTHON, SCORE, ANSWER = "PythonInterpreter", "Score", "answer"
ALIASES = ("python", "python_interpreter", "code_interpreter", "ipython")
TOOLS = (
    Tool(PYTHON, "Run a complete Python program in an empty folder.", {"code": "the program"}, ALIASES),
    Tool(SCORE, "Score the submission.csv that the last successful run left."),
    Tool(ANSWER, "End the work; the latest submission.csv is final."),
)
HOW = (
    "Reason between <think> and </think>, then take exactly one action: <tool_call> with a program or with Score, or "
    "<answer>submission</answer> to end. Stop after its closing tag."
)


class React(Scaffold[ReactSettings]):
    """See the module."""

    settings = ReactSettings
    prompts = ("react-system", "task")
    resumes = True

    def start(self, record: Task | Rollout, settings: ReactSettings, seed: int) -> tuple[list[Any], Any]:
        """See Scaffold.start."""
        identity, start = super().start(record, settings, seed)
        return (identity if record["kind"] == "task" else [*identity, prompts.text("memory-start")]), start

    def needs(self, settings: ReactSettings) -> Needs:
        return Needs(states=settings.states)

    def play(self, job: Job[ReactSettings], environment: Environment) -> Iterator[Played]:
        """The states of an episode (--write-states), then its rollout. RecordError: it cannot begin from its state."""
        settings = job.settings
        limits = {"execution_seconds": f"{settings.execution_seconds:g}", "max_turns": str(settings.max_turns)}
        name = json.dumps(job.task["name"], ensure_ascii=False)[1:-1]  # it stands in the example of a call
        system = task_prompt("react-system", job, environment, name=name, **limits)
        question, start = task_prompt("task", job, environment), begun_from(job)
        if start is not None:
            question += "\n\n" + earlier_solution(start, settings)
        episode = Episode(job, environment, opening(system, question))
        if start is not None and score_shown(start, settings) is not None:
            episode.scores_shown.add(-1)
        try:
            reason = yield from _turns(episode)
        except Ended as ended:
            reason = ended.reason
        runs = [turn["execution"]["status"] for turn in episode.turns if "execution" in turn]
        if runs and runs.count("timeout") > TIMED_OUT * len(runs):
            reason = "timeout"
        yield episode.record(reason) if start is None else episode.record(reason, state=start_state(start))


def _turns(episode: Episode[ReactSettings]) -> Generator[State, None, StopReason]:
    too_early = ANSWER  # who has nothing to hand in is told so, and not once more at once
    while True:
        reply = episode.ask(TOOLS)
        action = read_action(reply, TOOLS, _body, ("tool_call", "answer"), "" if episode.latest else too_early)
        # SandMLE's format is the reasoning part, whatever the action is
        episode.note_format(action.format, thinks(reply, lenient=episode.settings.format == "lenient"))
        too_early = "" if isinstance(action, Fault) and action.kind == "early" else ANSWER
        if isinstance(action, Fault):
            episode.correct(action, HOW)
        elif action.name == ANSWER:
            episode.turn["action"] = "answer"
            return "finished"
        elif action.name == PYTHON:
            episode.turn["action"] = "python"
            execution = episode.run(action.fields["code"])["execution"]
            observation = f"{messages.execution_message(execution)}\n\n{messages.submission_message(execution)}"
            episode.observe(_response(observation, action), action)
            if episode.settings.states is not None and stands(episode):
                yield state_of(episode)
        else:
            episode.turn["action"] = "score"
            latest = episode.latest
            observation = episode.score_message(latest)
            if latest and episode.settings.reveal_test and "grade" in latest:
                episode.turn["grade"] = latest["grade"]
            if latest and not episode.settings.reveal_test and "validation" in latest:
                episode.turn["validation"] = latest["validation"]
            episode.observe(_response(observation, action), action)


def _response(text: str, action: Action) -> str:
    return text if action.id is not None else f"<tool_response>\n{text}\n</tool_response>"


def _body(tool: Tool, text: str) -> tuple[str, dict[str, str]]:
    """What stands in <tool_call>: `python` and <code>, or JSON with a name and arguments."""
    if tool.name == ANSWER:
        return ANSWER, {}
    text = text.strip()
    if text.startswith("python"):
        code = text.removeprefix("python").strip()
        if not (code.startswith("<code>") and code.endswith("</code>")):
            raise ValueError("a program stands between <code> and </code>")
        return PYTHON, {"code": without_fence(code[len("<code>") : -len("</code>")])}
    name, fields = named_call(text)
    return (PYTHON if name in ("python", "python_interpreter") else name), fields
