"""What a scaffold is, and what passes between it and the runner: settings, jobs, the environment, usage, how a rollout ends.

A scaffold of one's own is a subclass of `Scaffold` in a file (docs/agents.md). Covered: the interfaces and the data. Not
covered: the work of a trajectory (episode), who stands behind an Environment (the room `rollout`).
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NotRequired, Protocol, TypedDict, TypeVar, Unpack, final

from .. import prompts
from ..base.ids import content_id
from ..base.options import option
from ..models import OfferedTool
from ..models.prices import Price
from ..records.rollout import (
    Cell,
    Execution,
    Feedback,
    Machine,
    Message,
    Policy,
    Rollout,
    RolloutBody,
    RolloutHead,
    StopReason,
    SubmissionFile,
    TurnFormat,
    TurnGrade,
    Usage,
)
from ..records.task import Task

STOP = "stop"  # the file beside the graphs by which a user ends searches early
Item = TypeVar("Item")
Result = TypeVar("Result")
Answer = TypeVar("Answer")


class ReplyCall(TypedDict):
    """A tool call of a reply. extra_content: what its server wants back."""

    id: str
    name: str
    arguments: str
    extra_content: NotRequired[dict[str, object]]


@final
class Reply(TypedDict):
    """A model's reply. `sampling`: what its server was really sent; `policy_version`: of a policy that is followed."""

    text: str
    finish_reason: str
    reasoning: str | None
    tool_calls: list[ReplyCall]
    prompt_token_ids: list[int] | None
    token_ids: list[int] | None
    logprobs: list[float] | None
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    usd: float | None
    sampling: NotRequired[dict[str, object]]
    policy_version: NotRequired[int]


@final
class Refusal(TypedDict):
    """In place of a reply: why messages are too long for the model."""

    refused: str


class Selection(TypedDict):
    """A submission's part on the selection rows, which nobody is told about, and its verdict."""

    file: SubmissionFile
    verdict: Feedback


class Ensemble(TypedDict):
    """A submission that was made of several, and its verdict on the selection rows."""

    submission: SubmissionFile
    verdict: Feedback


class Verdicts(TypedDict, total=False):
    """Of a submission; None: there is none, or no rows are held out; absent: nobody has looked.

    selection: where selection rows are held out, too (Needs.selection).
    """

    validation: Feedback | None
    grade: TurnGrade | None
    selection: Selection


class RunResult(Verdicts):
    """What came of a program in a fresh sandbox."""

    execution: Execution


class SessionFacts(TypedDict):
    """What a session ran in; as in an Execution."""

    by: Literal["mle-rollout"]
    backend: str | None
    start: Literal["warm", "cold"] | None
    gpu: str | None
    protections: dict[str, bool]
    machine: Machine | None
    limits: dict[str, float | None]


class CellResult(Verdicts):
    """What came of a cell. digest: of the submission that lies there; `submission`: that, where it is a new one.

    outputs: the texts by name of the other files that were asked for and are there.
    """

    cell: Cell
    box: SessionFacts
    digest: str | None
    submission_problem: str | None
    submission: SubmissionFile | None
    outputs: NotRequired[dict[str, str]]


class Environment(Protocol):
    """What an episode reaches the world through. Answers are JSON. What is an agent's failure is in the answer; ToolError
    is the tool's own trouble, and RecordError (one of those) says that this task or request cannot be served.

    The answers of `ask`, `run`, `cell` and `remember` (and of a search's `similar`) are kept on the job's tape: an episode
    that was killed gets them again, in the same order, for nothing.
    """

    def ask(
        self,
        who: str,
        role: str,
        messages: list[Message],
        seed: int,
        tools: list[OfferedTool] | None,
        most: int,
        refusable: bool = False,
    ) -> Reply | Refusal:
        """The reply of model `who` (policy, or a role of Settings.MODELS) in `role`, of at most `most` tokens.

        A Refusal: the messages are too long; with `refusable` also what else the server has against this request, once
        it has answered others of this episode, and a RecordError before.
        """

    def count_tokens(self, who: str, messages: list[Message]) -> int | None:
        """How many tokens the messages are as a prompt of model `who`, by its tokenizer; None: that is at a server."""

    def run(
        self,
        code: str,
        wall_s: float,
        seed: int,
        judged: bool = True,
        *,
        arguments: Sequence[str] = (),
        rows: str = "validation",
    ) -> RunResult:
        """Run a program in a fresh sandbox.

        judged: with the verdicts on its submission. rows: which training rows are held out and scored as `validation`: the agent's own, none (`all`), or others by
        another name.
        """

    def cell(
        self,
        kind: str,
        text: str,
        wall_s: float,
        *,
        before: Sequence[tuple[str, str]],
        seed: int,
        known: str | None,
        outputs: Sequence[str] = (),
    ) -> CellResult:
        """Run `text` (kind python or bash) in this episode's session; with the verdicts where there is a new submission.

        A session that is not there is opened, and what it ran `before` is run again. The submission is scored where its
        digest is not `known`. outputs: other files to take out, the same for all cells of an episode.
        """

    def fact(self, name: str) -> str:
        """For a prompt, the same text in all episodes of a run (and of a run that resumes it): `libraries`, the Python
        and the machine-learning libraries of programs; `limits`, the limits of one; `sizes`, those but its time;
        `data_preview`, the public files.

        RecordError: the data are not there. ToolError: the interpreter of programs cannot be asked.
        """

    def look(self, name: str | None) -> str:
        """The beginning of a public file as text; of all of them, with their sizes, where `name` is None."""

    def remember(self, what: str, about: object, make: Callable[[], Answer]) -> Answer:
        """The answer of `make()`, which is JSON and depends on `about`; `what` names its kind."""

    def close(self) -> None:
        """End the session, if there is one."""


class SearchEnvironment(Environment, Protocol):
    """What a search needs besides."""

    def submission(self, execution: Execution) -> tuple[bytes, bytes | None]:
        """What a program handed in, and the sample submission that it saw; None: there is none."""

    def similar(self, texts: Sequence[str]) -> list[float]:
        """The cosines of the first text's embedding with the others', in [-1, 1]."""

    def ensemble(self, members: Sequence[tuple[SubmissionFile, SubmissionFile]]) -> Ensemble | None:
        """A submission of several, the best first: of each what it hands in, and its part on the selection rows.

        None: they cannot be joined.
        """

    def part(self, name: str, kept_only: bool = False) -> "SearchEnvironment":
        """The environment of a part of this job, with a tape of its own: for work in another thread.

        kept_only: it gives the answers that a killed run has left, and beyond them NothingKept.
        """

    @property
    def replays(self) -> bool:
        """Whether answers that a killed run has left are still to come."""

    def done(self) -> None:
        """Drop the tape of this part: its result is stored elsewhere."""

    def at_once(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The results of `work` on each item, in order; as many at a time as the user allows."""

    def graph(self) -> tuple[Path, bool]:
        """The file of this episode's exploration graph, and whether to continue with its content."""

    def progress(self, nodes: int) -> None:
        """Report that a search has so many more nodes."""


@dataclass(frozen=True)
class Settings:
    """The bounds and options of an episode; None: no bound. A scaffold's own are the fields of a subclass.

    Fields without a declared option cannot be set on the command line.
    """

    EVALUATION: ClassVar[Mapping[str, object]] = {"format": "lenient"}  # defaults that differ in the papers' evaluation
    WITHOUT: ClassVar[tuple[str, ...]] = ()  # options below that the scaffold has no use for
    MODELS: ClassVar[Mapping[str, tuple[str, str]]] = {}  # {role: (field with the model, field with its server's URL)}
    EMBEDS: ClassVar[bool] = False  # it has options for a model that embeds texts

    max_turns: int = option("Maximum messages of the policy per rollout.", default=15, at_least=1, metavar="N")
    max_seconds: float | None = option(
        "Time limit per rollout, for answers and programs. Waiting for a free sandbox does not count.",
        above=0,
        kind="seconds",
    )
    max_tokens: int | None = option("Maximum sampled tokens per rollout, over all messages.", at_least=1, metavar="N")
    max_answer_tokens: int = option("Maximum tokens per message.", default=4096, at_least=1, metavar="N")
    max_usd: float | None = option("Maximum cost per rollout. Needs a price.", at_least=0, metavar="USD")
    execution_seconds: float = 300.0
    context_tokens: int | None = option(
        "Context length. Beyond it messages are dropped, failed programs first.", at_least=1, metavar="N"
    )
    when_full: str = "drop"  # failed programs leave the context; or end: the episode is over
    hand_in: str = option(
        "Which submission counts: the last one, or the best one by the shown score.",
        default="last",
        choices=("last", "best"),
    )
    tool_calls: str = option(
        "How actions are requested: by the papers' tags, or as the server's tool calls. Both are read.",
        default="tags",
        choices=("tags", "openai"),
    )
    validation: float = option(
        "Share of training rows to hold out for validation. 0: no score is shown.",
        default=0.2,
        at_least=0,
        below=1,
        metavar="SHARE",
    )
    reveal_test: bool = option("Show scores on the test rows instead. The record says so.", default=False)
    max_scores: int | None = option(
        "Maximum scores shown per rollout. After that a submission is only called valid or invalid (default: all).",
        at_least=0,
        metavar="N",
    )
    score_digits: int = option("Significant digits of the shown scores.", default=6, at_least=1, at_most=6, metavar="N")
    refit: bool = option(
        "At the end, run the submitted program once more on all training rows, including those held out for "
        "validation.",
        default=False,
    )
    instrument: bool = option(
        "Watch each program as mle-instrument does, and tell the agent how far it got.", default=False
    )
    format: str = option(
        "Which messages count as well-formed: those in the exact form that the prompt asks for, or all that can be "
        "read. Both are carried out.",
        default="strict",
        choices=("strict", "lenient"),
    )

    @classmethod
    def prefixes(cls) -> dict[str, str]:
        """What the options of each other model's server begin with, by role."""
        return {role: url.removesuffix("_url") for role, (_, url) in cls.MODELS.items()}

    def models(self) -> dict[str, tuple[str | None, str | None]]:
        """(name, URL) of each other model, by role."""
        return {role: (getattr(self, name), getattr(self, url)) for role, (name, url) in self.MODELS.items()}

    def embedding(self) -> tuple[str | None, str | None]:
        """(name, URL) of the model that embeds texts; without a name there is none."""
        return None, None

    def as_record(self) -> dict[str, object]:
        """`settings` of a record: the fields of every scaffold, and the scaffold's own under "own"."""
        values = {each.name: getattr(self, each.name) for each in fields(Settings)}
        return {**values, "own": self.own()}

    def accepts(self, form: TurnFormat) -> bool:
        """Whether a message that was read so (`format` of a turn) counts as well-formed."""
        return form["read"] == "exact" or (form["read"] == "lenient" and self.format == "lenient")

    def identity(self) -> dict[str, object]:
        """The settings that decide what happens in an episode; record ids depend on them."""
        values = {name: value for name, value in self.as_record().items() if name != "format"}
        later = ("refit", "instrument", "max_scores", "score_digits")  # ids are older than these
        return {name: value for name, value in values.items() if name not in later or value != getattr(Settings, name)}

    def rounded(self, score: float) -> float:
        """A score as it is shown: of `score_digits` significant digits."""
        return float(f"{score:.{self.score_digits}g}")

    def shown_at_start(self, score: float | None) -> float | None:
        """The score of what an episode begins with, as it is shown: one of the `max_scores`. None: it is not shown."""
        return None if score is None or self.max_scores == 0 else self.rounded(score)

    def own(self) -> dict[str, object]:
        """The scaffold's own settings, without those that only say how to work."""
        shared = {each.name for each in fields(Settings)}
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in shared and not getattr(each.metadata.get("option"), "machine", False)
        }


S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Job(Generic[S]):
    """One episode to work on: its record's id is known before anything is asked."""

    id: str
    group: str
    group_size: int
    sample: int
    seed: int
    task: Task
    policy: Policy
    scaffold: str
    settings: S
    record: Task | Rollout | None = None  # the input record: the task, or the state that it begins from
    start: Any = None  # what the scaffold drew for the group; see Scaffold.start

    def rollout(self, **body: Unpack[RolloutBody]) -> Rollout:
        """The record; lineage is left empty."""
        head: RolloutHead = {
            "kind": "rollout",
            "version": 1,
            "id": self.id,
            "lineage": [],
            "task": self.task,
            "group": self.group,
            "group_size": self.group_size,
            "sample": self.sample,
            "seed": self.seed,
            "scaffold": self.scaffold,
            "policy": self.policy,
        }
        return {**head, **body}


@dataclass(frozen=True)
class Needs:
    """What a scaffold with its settings wants of a run.

    one_answer: jobs ask one question each, so that they lose nothing by waiting for one another. states, steps: the
    files for State and Step; None: they are dropped. graphs: each episode keeps an exploration graph, in the folder
    `graph_folder` where the user has named one. note: to be said before the first episode. selection: selection rows are
    held out besides the validation rows. workers: of one episode, that want to work at once. shown, loopback: of the
    sandbox; see Setup there. rollouts: of a job; None: as many as a budget allows.
    """

    one_answer: bool = False
    states: str | None = None
    steps: str | None = None
    graphs: bool = False
    graph_folder: str | None = None
    note: str | None = None
    selection: bool = False
    workers: int = 1
    shown: tuple[str, ...] = ()
    loopback: bool = False
    rollouts: int | None = 1


@dataclass(frozen=True)
class State:
    """A rollout up to a request for help, or up to a valid submission, from which other work may begin (states)."""

    record: Rollout


def state_id(rollout: str, turn: int) -> str:
    """The id of the state after a turn of a rollout."""
    return content_id("state", rollout, turn)


@dataclass(frozen=True)
class Step:
    """One answer of the policy within a job, as a rollout of its own."""

    record: Rollout


Played = Rollout | State | Step


class Scaffold(ABC, Generic[S]):
    """How an agent works on a task. Subclasses say `settings`, and write `play`."""

    settings: type[S]
    input: str = "task"  # the kind of record that it works on: task or rollout
    resumes: bool = False  # it also begins from states, which are rollouts (states)
    prompts: tuple[str, ...] = ()  # names of prompt files; record ids depend on their text
    sessions: bool = False  # each episode has a session in the sandbox
    executes: bool = True  # episodes run programs and see validation scores

    @property
    def inputs(self) -> tuple[str, ...]:
        """The kinds of records that it works on."""
        return (self.input, "rollout") if self.resumes else (self.input,)

    def check(self, settings: S) -> S:
        """The settings as they are to be. ToolError for some that this scaffold cannot work with."""
        return settings

    def without_validation(self, settings: S) -> S:
        """The settings for a task of which no rows can be held out. ToolError: this scaffold cannot do without scores."""
        return replace(settings, validation=0.0)

    def without_rows(self, settings: S) -> str:
        """What agents learn, and how solutions are chosen, where no rows can be held out; for the user."""
        return "its agents learn whether a submission is valid, but no score"

    def needs(self, settings: S) -> Needs:
        """What a run with these settings is to provide."""
        return Needs()

    def describe(self, settings: S) -> str:
        """How long a rollout is at most, for a dry run."""
        return f"{settings.max_turns} messages"

    def costs(self, settings: S, prices: Mapping[str, Price | None]) -> str | None:
        """What a rollout takes at most, in a line, for a dry run; None: nobody has counted. prices: of the models, by role."""
        return None

    def start(self, record: Task | Rollout, settings: S, seed: int) -> tuple[list[Any], Any]:
        """What the rollouts of one input record begin from: what their ids depend on (JSON), and Job.start."""
        texts = [prompts.text(name) for name in self.prompts]
        if type(self).__module__.rpartition(".")[0] != __package__:
            texts.append(_source_of(type(self)))
        return [settings.identity(), texts, seed], None

    @abstractmethod
    def play(self, job: Job[S], environment: SearchEnvironment) -> Iterator[Played]:
        """The rollout records of one job, and states and steps of them. RecordError: the input record cannot be worked on.

        environment: for a scaffold that `needs` no graphs an Environment, which is what it should ask for.
        """


class Ended(Exception):
    """The episode is over, for a stop reason of the record."""

    def __init__(self, reason: StopReason):
        super().__init__(reason)
        self.reason = reason


@dataclass
class UsageSum:
    """Tokens, seconds and USD used so far; a sum is None once one of its parts is not known."""

    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    seconds: float = 0.0
    usd: float | None = field(default=0.0)

    def add(self, used: Usage | Reply) -> None:
        self.prompt_tokens = _sum(self.prompt_tokens, used["prompt_tokens"])
        self.completion_tokens = _sum(self.completion_tokens, used["completion_tokens"])
        self.seconds += used["seconds"]
        self.usd = _sum(self.usd, used["usd"])

    def as_record(self) -> Usage:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "seconds": round(self.seconds, 4),
            "usd": None if self.usd is None else round(self.usd, 9),
        }


Number = TypeVar("Number", int, float)


def _sum(one: Number | None, other: Number | None) -> Number | None:
    return None if one is None or other is None else one + other


def usage_of(reply: Reply) -> Usage:
    """What a reply used."""
    return {
        "prompt_tokens": reply["prompt_tokens"],
        "completion_tokens": reply["completion_tokens"],
        "seconds": reply["seconds"],
        "usd": reply["usd"],
    }


def _source_of(kind: type) -> str:
    """The source text of the module that defines a class; "" where there is none."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return Path(file).read_text(encoding="utf-8") if file else ""
