"""Scaffold `memory`: a series of traces, each from scratch or from one of the best solutions so far (MLE-RL, section 4).

Covered: the actions request_info, validate_code and execute_code as tags or tool calls, traces that end by turns or by a
full context, their shared pool, marks of reset and memory traces, scores that programs report themselves where no rows can be
held out, states in traces and from one of them. Not covered: steps cut out of traces, and which of them to train on (filters).
"""

import math
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, cast

from ..base.errors import ToolError
from ..base.ids import content_id, derive_seed
from ..base.options import option
from ..base.output import AnyRecord
from ..base.typed import convert
from ..records.rollout import Rollout, StopReason
from . import messages
from .episode import Episode, opening
from .interface import Ended, Environment, Job, Needs, Played, Scaffold, Settings, State
from .messages import one_line, task_facts, task_prompt
from .pool import ALIKE, Entry, Pool, entry_id
from .reading import Action, Fault, Tool, read_action
from .states import (
    AT_SUBMISSIONS,
    OUTPUT,
    begun_from,
    earlier_solution,
    score_shown,
    stands,
    start_state,
    state_of,
    states_option,
)


@dataclass(frozen=True)
class MemorySettings(Settings):
    """The bounds and pool of MLE-RL, in training and in evaluation."""

    EVALUATION: ClassVar[Mapping[str, object]] = {
        **Settings.EVALUATION,
        "pool_size": 3,
        "reset_ratio": 0.5,
        "memory_by": "validation",
    }

    max_turns: int = option("Maximum messages of the policy per trace.", default=15, at_least=1, metavar="N")
    max_seconds: float | None = 43200.0
    max_answer_tokens: int = 16384
    execution_seconds: float = 3600.0
    context_tokens: int | None = option(
        "Context length. A trace that fills it ends.", default=65536, at_least=1, metavar="N"
    )
    when_full: str = "end"
    hand_in: str = "best"
    max_submissions: int | None = option(
        "A trace ends after N submissions (MLE-RL's arm without an agent: 1).", at_least=1, metavar="N"
    )
    max_traces: int | None = option(
        "Maximum number of traces (default: until a budget is used up).", at_least=1, metavar="N"
    )
    pool_size: int = option("Number of solutions in the pool.", default=5, at_least=1, metavar="N")
    pool_dir: str | None = option(
        "Folder of pools, shared with other runs (default: each series of traces has its own pool).",
        kind="folder",
        metavar="DIR",
    )
    reset_ratio: float = option(
        "Probability that a trace starts from scratch.", default=0.7, at_least=0, at_most=1, metavar="P"
    )
    similarity: float = option(
        "Solutions that are more similar than T compete for one slot.",
        default=ALIKE,
        at_least=0,
        at_most=1,
        metavar="T",
    )
    states: str | None = states_option(AT_SUBMISSIONS)
    memory_by: str = option(
        "Score that ranks solutions in the pool; test is never shown.", default="test", choices=("validation", "test")
    )

    def own(self) -> dict[str, object]:
        """As in Settings; without a bound on submissions that is not set, so that ids do not depend on it."""
        return {name: value for name, value in super().own().items() if (name, value) != ("max_submissions", None)}


INFO, VALIDATE, EXECUTE = "request_info", "validate_code", "execute_code"
TOOLS = (
    Tool(INFO, "Ask for information.", {"what": "overview, files, metric or sample"}),
    Tool(VALIDATE, "Run a program without handing in what it writes.", {"code": "the program"}),
    Tool(EXECUTE, "Run a program and hand in the submission.csv that it writes.", {"code": "the program"}),
)
HOW = (
    f"Take exactly one action per message: {', '.join(f'<{tool.name}>' for tool in TOOLS)}. Stop after its closing tag."
)
# what an agent is asked where no rows can be held out: the pool has nothing else to choose by
OWN_SCORES = (
    "No rows are held out of this task, and no score is told. Hold some of the training rows out yourself. Each program that "
    "you submit should end by printing its score on them, by the task's metric, in a line such as\n\n"
    "validation score: 0.123\n\n"
    "Of your submissions the one with the best such score counts, and later work begins from the best ones."
)


class Memory(Scaffold[MemorySettings]):
    """See the module."""

    settings = MemorySettings
    prompts = ("memory-system", "memory-start", "task")
    resumes = True

    def check(self, settings: MemorySettings) -> MemorySettings:
        """The settings. ToolError for a pool ranked by validation scores that do not exist."""
        shows_scores = settings.validation > 0 or settings.reveal_test
        if not shows_scores and settings.memory_by == "validation":
            raise ToolError("--memory-by validation needs a validation score: give --validation a share above 0")
        return settings

    def without_rows(self, settings: MemorySettings) -> str:
        chosen = "; the memory goes by the validation scores that programs print" if _own_scores(settings) else ""
        return super().without_rows(settings) + chosen

    def needs(self, settings: MemorySettings) -> Needs:
        if settings.max_traces is not None:
            return Needs(states=settings.states, rollouts=settings.max_traces)
        return Needs(
            states=settings.states,
            rollouts=None,
            note=f"a run goes on for {settings.max_seconds:g} s of asking and running; --max-traces ends it sooner",
        )

    def play(self, job: Job[MemorySettings], environment: Environment) -> Iterator[Played]:
        """The rollouts of the traces, each as it ends, after the states in it (--write-states).

        From a state the first trace begins with its solution, and the pool has it. RecordError: it cannot be begun from.
        """
        bounds = job.settings
        folder = Path(bounds.pool_dir) if bounds.pool_dir else None
        lower = job.task["metric"]["lower_is_better"]
        pool = Pool(job.task["id"], lower, bounds.pool_size, bounds.similarity, folder)
        first = begun_from(job, bounds.memory_by)
        if first is not None:
            pool.push(first)
        seconds, usd, number = 0.0, 0.0, 0
        while number != bounds.max_traces:
            left = replace(
                bounds,
                max_seconds=None if bounds.max_seconds is None else bounds.max_seconds - seconds,
                max_usd=None if bounds.max_usd is None else bounds.max_usd - usd,
            )
            if number and any(rest is not None and rest <= 0 for rest in (left.max_seconds, left.max_usd)):
                break
            id = content_id(job.id, "trace", number) if number else job.id
            trace = replace(job, id=id, seed=derive_seed(job.seed, "trace", number), settings=left)
            for played in _trace(trace, environment, pool, None if number else first):
                rollout = played.record if isinstance(played, State) else played
                rollout["settings"] = bounds.as_record()
                if "trace" in rollout:
                    rollout["trace_number"] = number
                yield played
            seconds += rollout["usage"]["seconds"]
            usd += math.inf if rollout["usage"]["usd"] is None else rollout["usage"]["usd"]
            number += 1
            if not rollout["turns"]:
                break  # not even one message fits, and another trace would be no shorter


def _trace(
    job: Job[MemorySettings], environment: Environment, pool: Pool, first: Entry | None
) -> Iterator[State | Rollout]:
    """The states of a trace and its rollout; first: what it begins from, None: that is drawn."""
    start = first or _draw(job, environment, pool)
    settings = job.settings
    system = task_prompt(
        "memory-system",
        job,
        environment,
        execution_seconds=f"{settings.execution_seconds:g}",
        max_turns=str(settings.max_turns),
        until=_until(settings.max_submissions),
    )
    question = task_prompt("task", job, environment)
    own_scores = _own_scores(settings)
    if own_scores:
        question += "\n\n" + OWN_SCORES
    if start is not None:
        question += "\n\n" + earlier_solution(start, settings, own_scores)
    episode = Episode(job, environment, opening(system, question))
    episode.own_scores = own_scores
    if start is not None and score_shown(start, settings) is not None:
        episode.scores_shown.add(-1)
    try:
        reason = yield from _turns(episode, environment, pool)
    except Ended as ended:
        reason = ended.reason
    if start is None:
        yield episode.record(reason, trace="reset")
    else:
        yield episode.record(reason, trace="memory", state=start_state(start, own_scores))


def _own_scores(settings: MemorySettings) -> bool:
    """Whether the pool is ranked by validation, and no rows are held out: then programs report scores themselves."""
    return settings.memory_by == "validation" and settings.validation == 0 and not settings.reveal_test


def _until(submissions: int | None) -> str:
    """How long the agent is asked to go on, in words."""
    if submissions is None:
        return "keep improving your score until the last one"
    if submissions == 1:
        return "your work ends with the first submission, so try programs before it"
    return f"keep improving your score until the last one, or until you have made {submissions} submissions"


def _draw(job: Job[MemorySettings], environment: Environment, pool: Pool) -> Entry | None:
    """The pool entry that a trace starts from, or None: from scratch, by chance or with an empty pool."""

    def from_pool() -> dict[str, AnyRecord | None]:
        entry = pool.get(derive_seed(job.seed, "pool"))
        return {"entry": asdict(entry) if entry else None}

    if derive_seed(job.seed, "reset") / 2**62 < job.settings.reset_ratio:
        return None
    fields = environment.remember("pool", job.id, from_pool)["entry"]
    return None if fields is None else cast(Entry, convert(fields, Entry))


def _turns(
    episode: Episode[MemorySettings], environment: Environment, pool: Pool
) -> Generator[State, None, StopReason]:
    submissions = 0
    while True:
        action = read_action(episode.ask(TOOLS), TOOLS)
        episode.note_format(action.format)
        if isinstance(action, Fault):
            episode.correct(action, HOW)
            continue
        episode.turn["action"] = action.name
        if action.name == INFO:
            episode.observe(_info(episode, environment, action), action)
            continue
        judged = action.name == EXECUTE
        execution = episode.run(action.fields["code"], judged)["execution"]
        observation = messages.execution_message(execution)
        if not judged:
            observation += "\n\n" + messages.submission_message(execution)
        elif execution["submission"] is None:
            observation += f"\n\nNothing was handed in: {execution['submission_problem']}."
        else:
            observation += "\n\n" + episode.score_message(episode.turn)
            _push(episode, pool)
            submissions += 1
        episode.observe(observation, action)
        if episode.settings.states is not None and judged and stands(episode):
            yield state_of(episode)
        if submissions == episode.settings.max_submissions:
            return "finished"


def _push(episode: Episode[MemorySettings], pool: Pool) -> None:
    """Offer the turn's solution to the pool, if its submission is valid."""
    turn, settings, job = episode.turn, episode.settings, episode.job
    grade, feedback, code = turn["grade"], turn["validation"], turn["code"]
    test, validation = grade.get("score") if grade else None, feedback["score"] if feedback else None
    by_test = settings.reveal_test or settings.memory_by == "test"
    score = test if by_test else episode.known_score(turn)
    if score is None or code is None:
        return
    task, step = job.task["id"], len(episode.turns) - 1
    output = messages.output_text(turn["execution"]["stdout"], OUTPUT)
    pool.push(Entry(entry_id(task, code), task, code, score, step, job.id, "", output, validation, test))


def _info(episode: Episode[MemorySettings], environment: Environment, action: Action) -> str:
    task, what = episode.job.task, action.fields["what"].strip().lower()
    if what == "overview":
        return str(task["description"])
    if what == "metric":
        facts = task_facts(task)
        return f"The score is {facts['metric']}; {facts['direction']}."
    if what in ("files", "sample"):
        return environment.look("sample_submission.csv" if what == "sample" else None)
    episode.turn["problem"] = "unknown"
    return f"There is no information named {one_line(repr(what[:80]))}: ask for overview, files, metric or sample."
