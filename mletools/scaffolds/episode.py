"""An episode: one trajectory of a policy on a task, from the first question to what it hands in.

A scaffold asks, acts and observes through an Episode, which keeps the messages, the turns with what came of each, the
usage, and the budgets; everything that comes from outside goes over a tape, so that an episode that was killed is played
again for nothing. Covered: the exact tokens of every message of the policy, budgets, dropped context, which submission
is handed in, the record. Not covered: what is said and which actions there are (the scaffolds); models, sandboxes and
graders, which stand behind a Place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from mletools.records.ids import derive_seed
from mletools.records.tape import Tape
from mletools.scaffolds import context
from mletools.scaffolds.calls import Action, Fault, sendable


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

    def run(self, code: str, wall_s: float, seed: int, judged: bool = True) -> dict[str, Any]:
        """Run a program in a fresh box: {execution, validation, grade}, the latter two None without a submission."""

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


NOTHING_RAN: dict[str, Any] = {
    "status": "no_code",
    "exit_code": None,
    "duration_s": 0.0,
    "cpu_s": 0.0,
    "peak_memory_mb": 0.0,
    "stdout": {"head": "", "tail": "", "bytes": 0},
    "stderr": {"head": "", "tail": "", "bytes": 0},
    "markers": [],
    "submission": None,
    "submission_problem": "no code",
    "backend": None,
    "start": None,
    "gpu": None,
    "protections": {},
    "limits": {},
}


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
    known_usd: float = 0.0  # of the models whose price is known: what a budget can count

    def add(self, used: Mapping[str, Any]) -> None:
        self.known_usd += used["usd"] or 0.0
        for name in ("prompt_tokens", "completion_tokens", "usd"):
            before, more = getattr(self, name), used[name]
            setattr(self, name, None if before is None or more is None else before + more)
        self.seconds += used["seconds"]

    def as_record(self) -> dict[str, Any]:
        usd = None if self.usd is None else round(self.usd, 9)
        tokens = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        return {**tokens, "seconds": round(self.seconds, 4), "usd": usd}


class Episode:
    """See the module. `messages` begin with what the scaffold tells the policy."""

    def __init__(self, job: Job, place: Place, tape: Tape, messages: Sequence[dict[str, Any]]):
        self.job, self.settings, self._place, self._tape = job, job.settings, place, tape
        self.messages: list[dict[str, Any]] = [dict(message) for message in messages]
        self.turns: list[dict[str, Any]] = []
        self.spent = Spent()
        self.sampled = 0  # tokens of the policy, estimated where nobody counts
        self.handed: dict[str, Any] | None = None  # the turn whose submission would be handed in now
        self.latest: dict[str, Any] | None = None  # the turn that left the latest submission
        self.well_formed: list[bool] = []
        self._failed: list[int] = []
        self._from = 0
        self._whole = True  # the ids of the messages are one sequence
        self._seen: list[int] | None = None
        self._cells: list[tuple[str, str]] = []
        self._box: dict[str, Any] = {}
        self._lying: str | None = None  # digest of the submission that lies in the session

    # --- asking ---------------------------------------------------------------------------------------------------

    def ask(self, tools: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        """The policy's next message, which begins a turn. Ended: a budget is used up, or the context is full."""
        self._check_budget()
        shown = self._shown()
        most = self.settings.max_answer_tokens
        if self.settings.max_tokens is not None:
            most = min(most, self.settings.max_tokens - self.sampled)
        sent = [_wire(self.messages[place], self._whole) for place in shown]
        reply = self.consult("policy", self.job.scaffold, sent, tools, most)
        if "refused" in reply:
            raise Ended("context")
        # servers draw ids at random; ours are the same in every run, and of a form that all templates take (9 letters)
        calls = [
            {**call, "id": f"call{len(self.turns):04}{at}"} for at, call in enumerate(reply.get("tool_calls") or ())
        ]
        reply = {**reply, "tool_calls": calls}
        self.spent.add(reply)
        self.sampled += _counted(reply)
        self.turns.append(
            {
                "action": "none",
                "duration_s": round(reply["seconds"], 4),
                "message": len(self.messages),
                "problem": None,
                "usage": {name: reply[name] for name in ("prompt_tokens", "completion_tokens", "seconds", "usd")},
            }
        )
        dropped = sorted(set(range(len(self.messages))) - set(shown))
        if dropped:
            self.turn["dropped"] = dropped
        self._append(reply)
        return reply

    def consult(
        self,
        who: str,
        role: str,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        most: int | None = None,
    ) -> dict[str, Any]:
        """A model's reply to messages, over the tape; see Place.ask. Nothing is kept of it here."""
        most = most or self.settings.max_answer_tokens
        seed = derive_seed(self.job.seed, who, len(self.turns))
        about = [who, role, messages, seed, tools, most]
        return self._tape.play("ask", about, lambda: self._place.ask(who, role, messages, seed, tools, most))

    def begin_anew(self, question: str) -> None:
        """Ask as if nothing had been said before: the messages stay in the record, the policy sees them no more."""
        self._from = len(self.messages)
        self.messages.append({"role": "user", "content": question})

    def _shown(self) -> list[int]:
        """The places of the messages that the policy sees. Ended: they are too many, and none is to be dropped."""
        bounds, begin = self.settings, self._from
        messages = self.messages[begin:]
        if bounds.when_full == "end":
            if bounds.context_tokens is not None and sum(map(context.tokens_of, messages)) > bounds.context_tokens:
                raise Ended("context")
            return list(range(begin, len(self.messages)))
        failed = [place - begin for place in self._failed if place >= begin]
        return [begin + place for place in context.shown(messages, failed, bounds.context_tokens)]

    def charge(self, reply: Mapping[str, Any]) -> None:
        """Count what another model's reply used to the turn at hand."""
        self.spent.add(reply)
        self.turn["duration_s"] = round(self.turn["duration_s"] + reply["seconds"], 4)

    def _append(self, reply: Mapping[str, Any]) -> None:
        """Keep the policy's message, with the tokens that it was really made of."""
        message: dict[str, Any] = {"role": "assistant", "content": reply["text"], "loss": True}
        if reply.get("reasoning"):
            message["reasoning"] = reply["reasoning"]
        if reply.get("tool_calls"):
            message["tool_calls"] = [
                {"id": call["id"], "type": "function", "function": {k: call[k] for k in ("name", "arguments")}}
                for call in reply["tool_calls"]
            ]
        prompt, ids = reply.get("prompt_token_ids"), reply.get("token_ids")
        if ids is not None and prompt is not None:
            seen = self._seen
            if len(self.turns) == 1:
                self.messages[-1]["token_ids"] = prompt
            elif seen is not None and prompt[: len(seen)] == seen:
                self.messages[-1]["token_ids"] = prompt[len(seen) :]
            else:
                message["prompt_token_ids"] = prompt
                self._whole = False
            self._seen = prompt + ids
            message["token_ids"] = ids
            if reply.get("logprobs") is not None:
                message["logprobs"] = reply["logprobs"]
        self.messages.append(message)

    def _check_budget(self) -> None:
        bounds, spent = self.settings, self.spent
        if len(self.turns) >= bounds.max_turns:
            raise Ended("max_turns")
        if bounds.max_seconds is not None and spent.seconds >= bounds.max_seconds:
            raise Ended("timeout")
        if bounds.max_tokens is not None and self.sampled >= bounds.max_tokens:
            raise Ended("budget")
        # what cannot be counted cannot be kept to: an answer without counts of its tokens is the last
        if bounds.max_usd is not None and (spent.usd is None or spent.usd >= bounds.max_usd):
            raise Ended("budget")

    # --- acting ---------------------------------------------------------------------------------------------------

    @property
    def turn(self) -> dict[str, Any]:
        """The turn at hand."""
        return self.turns[-1]

    def observe(self, text: str, action: Action | None = None, role: str = "user") -> None:
        """Tell the policy what came of its message; where it was a tool call, in the tool's name."""
        message: dict[str, Any] = {"role": role, "content": text}
        if action is not None and action.id is not None:
            message.update(role="tool", tool_call_id=action.id)
        self.messages.append(message)

    def correct(self, fault: Fault, how: str) -> None:
        """Answer a message that takes no action with what is wrong and how it is done, and mark the turn."""
        self.turn["problem"] = fault.kind
        for call in self.messages[-1].get("tool_calls", ()):  # the protocol wants an answer to each
            self.messages.append({"role": "tool", "content": fault.told, "tool_call_id": call["id"]})
        self.observe(f"{fault.told}\n\n{how}")

    @property
    def seconds_left(self) -> float:
        """Of the episode; at least a second, for what is begun is not cut off at nothing."""
        if self.settings.max_seconds is None:
            return float("inf")
        return max(1.0, self.settings.max_seconds - self.spent.seconds)

    def run(self, code: str, judged: bool = True, seconds: float | None = None) -> dict[str, Any]:
        """Run a program for the turn at hand: what Place.run tells, kept in the turn."""
        wall_s = min(seconds or self.settings.execution_seconds, self.seconds_left)
        seed = derive_seed(self.job.seed, "run", len(self.turns))
        # how much time was left is measured, and so no part of what an event is known by
        told = self._tape.play("run", [code, seed, judged], lambda: self._place.run(code, wall_s, seed, judged))
        self.turn.update({name: value for name, value in told.items() if (name, value) != ("grade", None)}, code=code)
        self._count(told["execution"])
        if told["execution"]["submission"] is not None and judged:
            self._hand_in()
        return told

    def cell(self, kind: str, text: str) -> dict[str, Any]:
        """Run a cell in the episode's session for the turn at hand: what Place.cell tells, kept in the turn."""
        wall_s = min(self.settings.execution_seconds, self.seconds_left)
        seed = derive_seed(self.job.seed, "session")
        before, known = list(self._cells), self._lying
        told = self._tape.play(
            "cell",
            [kind, text, len(self.turns)],
            lambda: self._place.cell(kind, text, wall_s, before=before, seed=seed, known=known),
        )
        self._box = told["box"]
        self.turn.update({name: value for name, value in told.items() if name not in ("digest", "box")}, code=text)
        self._cells = [*self._cells, (kind, text)] if told["cell"]["alive"] else []
        if told["digest"] != self._lying:
            self._lying = told["digest"]
            if told["submission"] is not None:
                self._hand_in()
        self._count(told["cell"])
        return told

    def draw(self, what: str, about: Any, make: Any) -> dict[str, Any]:
        """Anything else from outside, over the tape."""
        return self._tape.play(what, about, make)

    def _count(self, ran: Mapping[str, Any]) -> None:
        self.turn["duration_s"] = round(self.turn["duration_s"] + ran["duration_s"], 4)
        self.spent.seconds += ran["duration_s"]
        if ran["status"] != "ok":
            self._failed.append(self.turn["message"])

    def _hand_in(self) -> None:
        """Whether the turn at hand has what is to be handed in: the last, or the best by the score that is told."""
        self.latest = self.turn
        if self.settings.hand_in == "best" and self.handed is not None and not self._better(self.turn, self.handed):
            return
        self.handed = self.turn

    def shown_score(self, turn: Mapping[str, Any]) -> float | None:
        """The score of a turn's submission that the policy may know of; None without a valid one."""
        return (turn.get("grade" if self.settings.reveal_test else "validation") or {}).get("score")

    def _better(self, turn: Mapping[str, Any], than: Mapping[str, Any]) -> bool:
        new, old = (self.shown_score(each) for each in (turn, than))
        if new is None or old is None:
            return old is None and bool((turn["grade"] or {}).get("valid"))
        return new < old if self.job.task["metric"]["lower_is_better"] else new > old

    # --- the record -----------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Score, validation score and code of the solution at hand: what improvement is measured from."""
        turn = self.handed or {}
        return {
            "score": (turn.get("grade") or {}).get("score"),
            "validation": (turn.get("validation") or {}).get("score"),
            "code": self.code(),
        }

    def code(self) -> str | None:
        """The program whose submission is handed in; of a session all its Python cells up to there."""
        turn = self.handed
        if turn is None:
            return next((each["code"] for each in reversed(self.turns) if each.get("execution")), None)
        if "cell" not in turn:
            return str(turn["code"])
        upto = self.turns[: self.turns.index(turn) + 1]
        ends = [at for at, each in enumerate(upto[:-1]) if "cell" in each and not each["cell"]["alive"]]
        own = upto[ends[-1] + 1 :] if ends else upto
        cells = [each["code"] for each in own if each["action"] == "python" and "cell" in each]
        return "\n\n".join(cells) or None

    def record(self, stop_reason: str, **more: Any) -> dict[str, Any]:
        """The rollout record; lineage is left empty."""
        job, turn = self.job, self.handed
        made: dict[str, Any] = {
            "kind": "rollout",
            "version": 1,
            "id": job.id,
            "lineage": [],
            "task": job.task,
            "group": job.group,
            "group_size": job.group_size,
            "sample": job.sample,
            "seed": job.seed,
            "scaffold": job.scaffold,
            "policy": job.policy,
            "settings": asdict(job.settings),
            "messages": self.messages,
            "turns": self.turns,
            "usage": self.spent.as_record(),
            "stop_reason": stop_reason,
            "code": self.code(),
            "validation": turn.get("validation") if turn else None,
            **more,
        }
        if self.well_formed:
            made["format_rate"] = sum(self.well_formed) / len(self.well_formed)
        if self.settings.reveal_test:
            made["reveal_test"] = True
        return {**made, "execution": self._execution()}

    def _execution(self) -> dict[str, Any]:
        """Of what is handed in; without that, of the last program that ran."""
        turn = self.handed or next(
            (each for each in reversed(self.turns) if "execution" in each or "cell" in each), None
        )
        if turn is None:
            return dict(NOTHING_RAN)
        if "execution" in turn:
            found = dict(turn["execution"])
            if turn is not self.handed and found["submission"] is not None:  # of a program that was only tried
                found.update(submission=None, submission_problem="nothing was handed in")
            return found
        cell = turn["cell"]
        return {
            "status": cell["status"],
            "exit_code": None,
            "duration_s": round(sum(each["cell"]["duration_s"] for each in self.turns if "cell" in each), 4),
            "cpu_s": None,
            "peak_memory_mb": None,
            "stdout": cell["output"],
            "stderr": {"head": "", "tail": "", "bytes": 0},
            "markers": [],
            "submission": turn.get("submission"),
            "submission_problem": turn.get("submission_problem"),
            **self._box,
        }


def _wire(message: Mapping[str, Any], whole: bool) -> dict[str, Any]:
    """A message as it is sent; with its ids, from which an engine may go on exactly, where they are one sequence."""
    names = ("role", "content", "tool_calls", "tool_call_id", *(["token_ids"] if whole else []))
    sent = {name: message[name] for name in names if name in message}
    if "tool_calls" in sent:
        calls = [(call, call["function"]) for call in sent["tool_calls"]]
        sent["tool_calls"] = [
            {**call, "function": {**function, "arguments": sendable(function["arguments"])}} for call, function in calls
        ]
    return sent


def _counted(reply: Mapping[str, Any]) -> int:
    if reply["completion_tokens"] is not None:
        return int(reply["completion_tokens"])
    return len(reply["text"]) // context.CHARACTERS_A_TOKEN + 1
