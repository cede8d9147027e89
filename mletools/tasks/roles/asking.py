"""A question to a model in one of the roles, and the same question again until the reply can be used.

Covered: what the caller hands in (Ask, RunScript), attempts with the fault of each fed back, what they cost. Not covered:
servers, the journal and the sandbox, which stand behind those callables.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from ... import prompts
from ...records.rollout import Message
from ..record import AttemptNote, Cost
from ..table import Rejected

Found = TypeVar("Found")
MOST_FED_BACK = 3000  # characters of a fault that the model is shown
MOST_RECORDED = 500  # and of the same in the record
MOST_REPEATED = 40_000  # characters of its own reply that it is shown again


class Faulty(Exception):
    """A reply that cannot be used, for a reason that is worth telling the one who wrote it."""


class Answer(str):
    """What a model said, and what is known of it: whether it was cut off, its tokens, its price in USD (None: not told)."""

    cut: bool
    prompt_tokens: int | None
    completion_tokens: int | None
    usd: float | None
    role: str = ""  # what comes before the dot of "strategist.dna"

    def __new__(
        cls,
        text: str,
        *,
        cut: bool = False,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        usd: float | None = None,
    ) -> "Answer":
        made = super().__new__(cls, text)
        made.cut, made.prompt_tokens, made.completion_tokens, made.usd = cut, prompt_tokens, completion_tokens, usd
        return made


class Ask(Protocol):
    """One paid question. The reply may be an Answer; a plain str is one whose cost nobody knows.

    ToolError where no reply can be had, Rejected where the server refuses this very question.
    """

    def __call__(self, role: str, task: str, attempt: int, messages: list[Message]) -> str: ...


@dataclass(frozen=True)
class ScriptRun:
    """What a script came to: the sandbox's status (ok, error, timeout, memory, ...), its words, the files it left."""

    status: str
    stdout: bytes
    stderr: bytes
    files: dict[str, bytes]


class RunScript(Protocol):
    """Runs a script in a sandbox, in an empty folder, with `inputs` (bytes by plain file name) read-only in ../input.

    `seed` seeds the random states of the interpreter. Whatever the script does is a ScriptRun; ToolError is the
    sandbox's own trouble.
    """

    def __call__(self, code: str, inputs: Mapping[str, bytes], seed: int) -> ScriptRun: ...


@dataclass
class Talk:
    """The questions about one thing: `task` names it, the rest is what came of them so far."""

    ask: Ask
    task: str
    attempts: list[AttemptNote] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def until(self, role: str, prompt: str, read: Callable[[str], Found], most: int) -> Found:
        """What `read` makes of the first reply that it does not find Faulty. Rejected after `most` attempts."""
        question: Message = {"role": "user", "content": prompt}
        messages = [question]
        recorded = ""
        for attempt in range(1, most + 1):
            said = self.ask(role, self.task, attempt, messages)
            answer = said if isinstance(said, Answer) else Answer(said)
            answer.role = role.partition(".")[0]
            self.answers.append(answer)
            try:
                if answer.cut:
                    raise Faulty("the reply was cut off before its end, at the limit of its length: write less")
                found = read(answer)
            except Faulty as error:
                fault = str(error)
            else:
                self.attempts.append({"role": role, "attempt": attempt, "error": None})
                return found
            recorded = shortened(" ".join(fault.split()), MOST_RECORDED)
            self.attempts.append({"role": role, "attempt": attempt, "error": recorded})
            repair = prompts.render("task-repair", problem=shortened(fault, MOST_FED_BACK))
            # the last reply alone: with all of them a long script would fill the context by the fourth attempt
            messages = [
                question,
                {"role": "assistant", "content": shortened(answer.strip(), MOST_REPEATED) or "(an empty reply)"},
                {"role": "user", "content": repair},
            ]
        raise Rejected(f"{role}: {most} attempts used up, the last one because {recorded}")


def shortened(text: str, most: int) -> str:
    """`text`, or its beginning and its end where it has more than `most` characters: a traceback tells most at its end."""
    if len(text) <= most:
        return text
    return f"{text[: most // 4].rstrip()} [...] {text[-(most - most // 4) :].lstrip()}"


def costs_by_role(answers: Sequence[Answer]) -> dict[str, Cost]:
    """cost_of by the role of the answers, in the order in which the roles were first asked."""
    roles = dict.fromkeys(answer.role for answer in answers)
    return {role: cost_of([answer for answer in answers if answer.role == role]) for role in roles}


def cost_of(answers: Sequence[Answer]) -> Cost:
    """The sums over the answers."""

    def total(values: list[Any]) -> Any:
        return None if None in values else sum(values)

    usd = total([answer.usd for answer in answers])
    return {
        "calls": len(answers),
        "prompt_tokens": total([answer.prompt_tokens for answer in answers]),
        "completion_tokens": total([answer.completion_tokens for answer in answers]),
        "usd": None if usd is None else round(usd, 6),
    }
