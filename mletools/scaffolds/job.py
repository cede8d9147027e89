"""A job of an agent in turns: what bounds it, what it reaches the world through, what it has used, and how it ends.

Covered: the data and the interface. Not covered: the work (episode), who stands behind a Place (the command).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


class Place(Protocol):
    """What an episode reaches the world through. Answers are JSON. What is an agent's failure is in the answer; ToolError
    is the tool's own trouble, and RecordError (one of those) says that this task or request cannot be served.
    """

    def ask(
        self,
        who: str,
        role: str,
        messages: list[dict[str, Any]],
        seed: int,
        tools: list[dict[str, Any]] | None,
        most: int,
    ) -> dict[str, Any]:
        """The reply of model `who` (policy, ideator, implementer) in `role`, of at most `most` tokens.

        {text, finish_reason, reasoning, tool_calls, prompt_token_ids, token_ids, logprobs, prompt_tokens,
        completion_tokens, seconds, usd}, or {"refused": why} where the messages are too long for the model.
        """

    def run(
        self,
        code: str,
        wall_s: float,
        seed: int,
        judged: bool = True,
        *,
        arguments: Sequence[str] = (),
        rows: str = "validation",
    ) -> dict[str, Any]:
        """Run a program in a fresh box: {execution, validation, grade}, the latter two None without a submission.

        rows: which training rows are held out and judged as `validation`: the agent's own, or others by another name.
        """

    def cell(
        self, kind: str, text: str, wall_s: float, *, before: Sequence[tuple[str, str]], seed: int, known: str | None
    ) -> dict[str, Any]:
        """Run `text` (kind python or bash) in this episode's session: {cell, box, digest, submission, submission_problem},
        and {validation, grade} where there is a new submission. `box` says what it ran in: backend, protections, limits.

        A session that is not there is opened, and what it ran `before` is run again. The submission is judged where its
        digest is not `known`.
        """

    def look(self, name: str | None) -> str:
        """How a public file begins, as text; of all of them, with their sizes, where `name` is None."""

    def inauthentic(self, code: str, execution: Mapping[str, Any]) -> str | None:
        """Why what a program handed in is no model's prediction, in words; None where nothing speaks against it."""

    def similar(self, texts: Sequence[str]) -> list[float]:
        """The cosines of the first text's embedding with the others', in [-1, 1]."""

    def at_once(self, work: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
        """What `work` makes of each item, in order; as many at a time as the user allows."""

    def graph(self) -> tuple[Path, bool]:
        """Where this episode's exploration graph is kept, and whether what is there already is to be gone on with."""

    def progress(self, nodes: int) -> None:
        """So many more nodes of a search are there, for those who watch."""

    def close(self) -> None:
        """End the session, if there is one."""


@dataclass(frozen=True)
class Settings:
    """What bounds an episode; None: nothing does. A scaffold's own settings stand in `own`."""

    max_turns: int = 15
    max_seconds: float | None = None  # of asking and running, without waiting for a free sandbox
    max_tokens: int | None = None  # sampled by the policy, all turns together
    max_answer_tokens: int = 4096
    max_usd: float | None = None
    execution_seconds: float = 300.0
    context_tokens: int | None = None
    when_full: str = "drop"  # what failed is dropped from the context; or end: the episode is over
    hand_in: str = "last"  # or best: by the validation score
    tool_calls: str = "tags"  # or openai
    validation: float = 0.2  # share of the training rows that scores are told on; 0: no score is told
    reveal_test: bool = False  # scores are told on the test rows
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """One episode to work on: its record's id is known before anything is asked."""

    id: str
    group: str
    group_size: int
    sample: int
    seed: int
    task: dict[str, Any]
    policy: dict[str, Any]
    scaffold: str
    settings: Settings
    record: dict[str, Any] | None = None  # the state that it takes up


class Ended(Exception):
    """The episode is over, for a stop reason of the record."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


@dataclass
class Spent:
    """What was used so far; a sum is None once one of its parts is not known."""

    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    seconds: float = 0.0
    usd: float | None = 0.0

    def add(self, used: Mapping[str, Any]) -> None:
        for name in ("prompt_tokens", "completion_tokens", "usd"):
            before, more = getattr(self, name), used[name]
            setattr(self, name, None if before is None or more is None else before + more)
        self.seconds += used["seconds"]

    def as_record(self) -> dict[str, Any]:
        usd = None if self.usd is None else round(self.usd, 9)
        return {**asdict(self), "seconds": round(self.seconds, 4), "usd": usd}
