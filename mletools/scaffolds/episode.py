"""An episode: one trajectory of a policy on a task, from the first question to what it hands in.

A scaffold asks, acts and observes through an Episode, which keeps the messages, the turns with what came of each, the
usage, and the budgets. Covered: the exact tokens of every message of the policy, budgets, dropped context, which submission
is handed in, the record. Not covered: what is said and which actions there are (the scaffolds); models, sandboxes and
graders, which stand behind a Environment.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic

from ..records.ids import derive_seed
from . import context
from .calls import Action, Fault, sendable
from .handing_in import code_of, execution_of
from .interface import Ended, Environment, Job, S, Usage


class Episode(Generic[S]):
    """See the module. `messages` begin with what the scaffold tells the policy."""

    def __init__(self, job: Job[S], environment: Environment, messages: Sequence[dict[str, Any]]):
        self.job, self.settings, self._environment = job, job.settings, environment
        self.messages: list[dict[str, Any]] = [dict(message) for message in messages]
        self.turns: list[dict[str, Any]] = []
        self.spent = Usage()
        self.sampled = 0  # tokens of the policy, estimated where nobody counts
        self.best_submission_turn: dict[str, Any] | None = None  # the turn whose submission would be handed in now
        self.latest: dict[str, Any] | None = None  # the turn that left the latest submission
        self.well_formed: list[bool] = []
        self._failed: list[int] = []
        self._from = 0
        self._whole = True  # the ids of the messages are one sequence
        self._seen: list[int] | None = None
        self._cells: list[tuple[str, str]] = []
        self._box: dict[str, Any] = {}
        self._last_submission_digest: str | None = None  # digest of the submission that lies in the session

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
        """A model's reply to messages; see Environment.ask. Nothing is kept of it here."""
        most = most or self.settings.max_answer_tokens
        seed = derive_seed(self.job.seed, who, len(self.turns))
        return self._environment.ask(who, role, messages, seed, tools, most)

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
            self.messages.append({"role": "tool", "content": fault.explanation, "tool_call_id": call["id"]})
        self.observe(f"{fault.explanation}\n\n{how}")

    @property
    def seconds_left(self) -> float:
        """Of the episode; at least a second, for what is begun is not cut off at nothing."""
        if self.settings.max_seconds is None:
            return float("inf")
        return max(1.0, self.settings.max_seconds - self.spent.seconds)

    def run(self, code: str, judged: bool = True) -> dict[str, Any]:
        """Run a program for the turn at hand: what Environment.run tells, kept in the turn."""
        wall_s = min(self.settings.execution_seconds, self.seconds_left)
        seed = derive_seed(self.job.seed, "run", len(self.turns))
        outcome = self._environment.run(code, wall_s, seed, judged)
        self.turn.update(
            {name: value for name, value in outcome.items() if (name, value) != ("grade", None)}, code=code
        )
        self._count(outcome["execution"])
        if outcome["execution"]["submission"] is not None and judged:
            self._hand_in()
        return outcome

    def cell(self, kind: str, text: str) -> dict[str, Any]:
        """Run a cell in the episode's session for the turn at hand: what Environment.cell tells, kept in the turn."""
        wall_s = min(self.settings.execution_seconds, self.seconds_left)
        seed = derive_seed(self.job.seed, "session")
        before, known = list(self._cells), self._last_submission_digest
        outcome = self._environment.cell(kind, text, wall_s, before=before, seed=seed, known=known)
        self._box = outcome["box"]
        self.turn.update({name: value for name, value in outcome.items() if name not in ("digest", "box")}, code=text)
        self._cells = [*self._cells, (kind, text)] if outcome["cell"]["alive"] else []
        if outcome["digest"] != self._last_submission_digest:
            self._last_submission_digest = outcome["digest"]
            if outcome["submission"] is not None:
                self._hand_in()
        self._count(outcome["cell"])
        return outcome

    def _count(self, ran: Mapping[str, Any]) -> None:
        self.turn["duration_s"] = round(self.turn["duration_s"] + ran["duration_s"], 4)
        self.spent.seconds += ran["duration_s"]
        if ran["status"] != "ok":
            self._failed.append(self.turn["message"])

    def _hand_in(self) -> None:
        """Whether the turn at hand has what is to be handed in: the last, or the best by the score that is told."""
        self.latest = self.turn
        if (
            self.settings.hand_in == "best"
            and self.best_submission_turn is not None
            and not self._better(self.turn, self.best_submission_turn)
        ):
            return
        self.best_submission_turn = self.turn

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
        turn = self.best_submission_turn or {}
        return {
            "score": (turn.get("grade") or {}).get("score"),
            "validation": (turn.get("validation") or {}).get("score"),
            "code": code_of(self.turns, self.best_submission_turn),
        }

    def record(self, stop_reason: str, **more: Any) -> dict[str, Any]:
        """The rollout record; lineage is left empty."""
        job, turn = self.job, self.best_submission_turn
        rollout: dict[str, Any] = {
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
            "settings": job.settings.as_record(),
            "messages": self.messages,
            "turns": self.turns,
            "usage": self.spent.as_record(),
            "stop_reason": stop_reason,
            "code": code_of(self.turns, self.best_submission_turn),
            "validation": turn.get("validation") if turn else None,
            **more,
        }
        if self.well_formed:
            rollout["format_rate"] = sum(self.well_formed) / len(self.well_formed)
        if self.settings.reveal_test:
            rollout["reveal_test"] = True
        return {**rollout, "execution": execution_of(self.turns, self.best_submission_turn, self._box)}


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
