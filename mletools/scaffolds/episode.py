"""An episode: one trajectory of a policy on a task, from the first question to what it hands in.

A scaffold asks, acts and observes through an Episode, which keeps the messages, the turns with what came of each, the
usage, and the budgets. Covered: the exact tokens of every message of the policy, budgets, dropped context, which submission
is handed in, the record. Not covered: what is said and which actions there are (the scaffolds); models, sandboxes and
graders, which stand behind a Environment.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Generic

from ..records.ids import derive_seed
from .interface import Ended, Environment, Job, S, Usage, usage_of
from .messages import CHARACTERS_A_TOKEN, score_message, tokens_of, visible
from .reading import Action, Fault, Tool, as_functions, sendable

IDS = ("token_ids", "prompt_token_ids")
NOT_CARRIED_OUT = "Not carried out: only the first action of a message is."

# Shell commands that may change files; others only look.
_WRITES = re.compile(r"(?<![0-9&<])>|\b(?:tee|cp|mv|rm|python3?|pip|patch|unzip|tar)\b|\bsed\b.*\s-i")
NOTHING_RAN: dict[str, Any] = {
    "by": "mle-rollout",
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


class Episode(Generic[S]):
    """See the module. `messages` begin with what the scaffold tells the policy."""

    def __init__(self, job: Job[S], environment: Environment, messages: Sequence[dict[str, Any]]):
        self.job, self.settings, self._environment = job, job.settings, environment
        self.messages: list[dict[str, Any]] = [dict(message) for message in messages]
        self.turns: list[dict[str, Any]] = []
        self.spent = Usage()
        self.spent_by_role: dict[str, Usage] = {}  # of asking alone
        self.sampled = 0  # tokens of the policy, estimated where nobody counts
        self.best_submission_turn: dict[str, Any] | None = None  # the turn whose submission would be handed in now
        self.latest: dict[str, Any] | None = None  # the turn that left the latest submission
        self._latest_valid: dict[str, Any] | None = None
        self.well_formed: list[bool] = []
        self._failed: list[int] = []
        self._from = 0
        self._held: list[int] = []  # the places of the messages that the policy saw last, and of its answer
        self._seen: list[int] | None = None  # the tokens of those
        self._cells: list[tuple[str, str]] = []
        self._box: dict[str, Any] = {}
        self._last_submission_digest: str | None = None  # digest of the submission that lies in the session
        self.scores_shown: set[int] = (
            set()
        )  # the turns, by their messages, whose scores the policy was shown; -1: the start's

    # --- asking ---------------------------------------------------------------------------------------------------

    def ask(self, tools: Sequence[Tool] = ()) -> dict[str, Any]:
        """The policy's next message, which begins a turn. Ended: a budget is used up, or the context is full."""
        self._check_budget()
        shown = self._shown()
        most = self.settings.max_answer_tokens
        if self.settings.max_tokens is not None:
            most = min(most, self.settings.max_tokens - self.sampled)
        goes_on = shown[: len(self._held)] == self._held
        sent = [_wire(self.messages[place], goes_on) for place in shown]
        functions = as_functions(tools) if self.settings.tool_calls == "openai" and tools else None
        reply = self.consult("policy", self.job.scaffold, sent, functions, most)
        if "refused" in reply:
            raise Ended("context")
        # servers draw ids at random; ours are the same in every run, and of a form that all templates take (9 letters)
        calls = [
            {**call, "id": f"call{len(self.turns):04}{at}"} for at, call in enumerate(reply.get("tool_calls") or ())
        ]
        reply = {**reply, "tool_calls": calls}
        self._spend("policy", reply)
        self.sampled += _counted(reply)
        self.turns.append(
            {
                "action": "none",
                "duration_s": round(reply["seconds"], 4),
                "message": len(self.messages),
                "problem": None,
                "usage": usage_of(reply),
            }
        )
        self.turn.update(declined(reply))
        dropped = sorted(set(range(len(self.messages))) - set(shown))
        if dropped:
            self.turn["dropped"] = dropped
        self._append(reply)
        self._held = [*shown, len(self.messages) - 1]
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
            if bounds.context_tokens is not None and sum(map(tokens_of, messages)) > bounds.context_tokens:
                raise Ended("context")
            return list(range(begin, len(self.messages)))
        failed = [place - begin for place in self._failed if place >= begin]
        return [begin + place for place in visible(messages, failed, bounds.context_tokens)]

    def charge(self, who: str, reply: Mapping[str, Any]) -> None:
        """Count what the reply of another model, in the role `who`, used to the turn at hand."""
        self._spend(who, reply)
        self.turn["duration_s"] = round(self.turn["duration_s"] + reply["seconds"], 4)

    def _spend(self, who: str, reply: Mapping[str, Any]) -> None:
        self.spent.add(reply)
        self.spent_by_role.setdefault(who, Usage()).add(reply)

    def _append(self, reply: Mapping[str, Any]) -> None:
        """Keep the policy's message, with the tokens that it was really made of."""
        message: dict[str, Any] = {"role": "assistant", "content": reply["text"], "loss": True}
        if "policy_version" in reply:
            message["policy_version"] = reply["policy_version"]
        if reply.get("reasoning"):
            message["reasoning"] = reply["reasoning"]
        if reply.get("tool_calls"):
            message["tool_calls"] = [_as_call(call) for call in reply["tool_calls"]]
        prompt, ids = reply.get("prompt_token_ids"), reply.get("token_ids")
        if ids is not None and prompt is not None:
            seen = self._seen
            if len(self.turns) == 1:
                self.messages[-1]["token_ids"] = prompt
            elif seen is not None and prompt[: len(seen)] == seen:
                self.messages[-1]["token_ids"] = prompt[len(seen) :]
            else:
                message["prompt_token_ids"] = prompt
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
            raise Ended("length")
        # what cannot be counted cannot be kept to: an answer without counts of its tokens is the last
        if bounds.max_usd is not None and (spent.usd is None or spent.usd >= bounds.max_usd):
            raise Ended("budget")

    # --- acting ---------------------------------------------------------------------------------------------------

    @property
    def turn(self) -> dict[str, Any]:
        """The turn at hand."""
        return self.turns[-1]

    def note_format(self, form: Mapping[str, str | None], well_formed: bool | None = None) -> None:
        """Keep how the turn's message was read, and whether that counts as well-formed (default: by `form`)."""
        self.turn["format"] = dict(form)
        self.well_formed.append(self.settings.accepts(form) if well_formed is None else well_formed)

    def observe(self, text: str, action: Action | None = None, role: str = "user") -> None:
        """Tell the policy what came of its message; where it was a tool call, in the tool's name."""
        message: dict[str, Any] = {"role": role, "content": text}
        if action is not None and action.id is not None:
            message.update(role="tool", tool_call_id=action.id)
        calls = self.messages[-1].get("tool_calls", ()) if action is not None else ()
        self.messages.append(message)
        for call in calls:  # the protocol wants an answer to each
            if call["id"] != action.id:  # type: ignore[union-attr]
                self.messages.append({"role": "tool", "content": NOT_CARRIED_OUT, "tool_call_id": call["id"]})

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
        if _is_valid(self.turn):
            self._latest_valid = self.turn
        if (
            self.settings.hand_in == "best"
            and self.best_submission_turn is not None
            and not self._better(self.turn, self.best_submission_turn)
        ):
            return
        self.best_submission_turn = self.turn

    def score_message(self, turn: Mapping[str, Any]) -> str:
        """What the policy is told of a turn's submission, in the turn at hand, which keeps a new score as it is shown.

        A score that was shown before is shown again for nothing. See messages.score_message.
        """
        settings, score, most = self.settings, self.shown_score(turn), self.settings.max_scores
        told, shown = None, self.scores_shown
        if score is not None and (most is None or turn["message"] in shown or len(shown) < most):
            told = settings.told(score)
            if turn["message"] not in shown:
                shown.add(turn["message"])
                self.turn["shown_score"] = told
        left = None if most is None else most - len(shown)
        return score_message(turn, self.job.task, settings.reveal_test, told, left)

    def shown_score(self, turn: Mapping[str, Any]) -> float | None:
        """The score of a turn's submission on the rows that the policy may know scores of, in full: what is handed in is
        chosen by it, also where it is shown rounded or not at all. None without a valid submission.
        """
        return (turn.get("grade" if self.settings.reveal_test else "validation") or {}).get("score")

    def _better(self, turn: Mapping[str, Any], than: Mapping[str, Any]) -> bool:
        new, old = (self.shown_score(each) for each in (turn, than))
        if new is None or old is None:
            return old is None and bool((turn["grade"] or {}).get("valid"))
        return new < old if self.job.task["metric"]["lower_is_better"] else new > old

    # --- the record -----------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Score, validation score and code of the solution at hand: what improvement is measured from.

        After an invalid submission that is the last valid one: repairing what one has broken is no improvement.
        """
        turn = self.best_submission_turn
        if turn is not None and not _is_valid(turn):
            turn = self._latest_valid or turn
        return {
            "score": ((turn or {}).get("grade") or {}).get("score"),
            "validation": ((turn or {}).get("validation") or {}).get("score"),
            "code": code_of(self.turns, turn),
        }

    def record(self, stop_reason: str, **more: Any) -> dict[str, Any]:
        """The rollout record; lineage is left empty."""
        job, turn = self.job, self.best_submission_turn
        execution = execution_of(self.turns, turn, self._box)
        if self.settings.refit and stop_reason != "asked":
            execution, more = self._refit(execution, more)
        rollout: dict[str, Any] = {
            **job.as_record(),
            "settings": job.settings.as_record(),
            "messages": self.messages,
            "turns": self.turns,
            "usage": self.spent.as_record(),
            "usage_by_role": {role: spent.as_record() for role, spent in self.spent_by_role.items()},
            "stop_reason": stop_reason,
            "code": code_of(self.turns, self.best_submission_turn),
            "validation": turn.get("validation") if turn else None,
            **more,
        }
        if self.well_formed:
            rollout["format_rate"] = sum(self.well_formed) / len(self.well_formed)
        if self.settings.reveal_test:
            rollout["reveal_test"] = True
        return {**rollout, "execution": execution}

    def _refit(self, execution: dict[str, Any], more: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run the program that is handed in on all training rows; a valid submission of it takes the other's place.

        Returns the execution that counts, and `more` fields of the record with `refit`.
        """
        code, rows_held_out = code_of(self.turns, self.best_submission_turn), self.settings.validation > 0
        if self.best_submission_turn is None or code is None or not rows_held_out or self.settings.reveal_test:
            return execution, more
        seed = derive_seed(self.job.seed, "refit")
        outcome = self._environment.run(code, self.settings.execution_seconds, seed, rows="all")
        self.spent.seconds += outcome["execution"]["duration_s"]
        if (outcome["grade"] or {}).get("valid"):
            return outcome["execution"], {**more, "refit": {"used": True}}
        return execution, {**more, "refit": {"used": False, "execution": outcome["execution"]}}


def _wire(message: Mapping[str, Any], goes_on: bool) -> dict[str, Any]:
    """A message as it is sent; with its ids, from which an engine may go on exactly, where nothing before was dropped."""
    names = ("role", "content", "reasoning", "tool_calls", "tool_call_id", *(IDS if goes_on else ()))
    sent = {name: message[name] for name in names if name in message}
    if "tool_calls" in sent:
        calls = [(call, call["function"]) for call in sent["tool_calls"]]
        sent["tool_calls"] = [
            {**call, "function": {**function, "arguments": sendable(function["arguments"])}} for call, function in calls
        ]
    return sent


def declined(reply: Mapping[str, Any]) -> dict[str, str]:
    """`finish_reason` of a turn whose message holds no answer: the server's filter, or the model declined."""
    reason = reply.get("finish_reason")
    return {"finish_reason": reason} if reason in ("content_filter", "refusal") else {}


def _as_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """A reply's tool call as the chat protocol has it, with what its server wants back."""
    function = {name: call[name] for name in ("name", "arguments")}
    extra = {"extra_content": call["extra_content"]} if call.get("extra_content") else {}
    return {"id": call["id"], "type": "function", "function": function, **extra}


def _is_valid(turn: Mapping[str, Any]) -> bool:
    return bool((turn.get("grade") or {}).get("valid"))


def _counted(reply: Mapping[str, Any]) -> int:
    if reply["completion_tokens"] is not None:
        return int(reply["completion_tokens"])
    return len(reply["text"]) // CHARACTERS_A_TOKEN + 1


def code_of(turns: Sequence[Mapping[str, Any]], submission_turn: Mapping[str, Any] | None) -> str | None:
    """The program of `submission_turn`; in a session, its cells up to there as one program.

    Without a submission the last program that ran, None where none did.
    """
    if submission_turn is None:
        return next((each["code"] for each in reversed(turns) if each.get("execution")), None)
    if "cell" not in submission_turn:
        return str(submission_turn["code"])
    upto = list(turns)[: list(turns).index(submission_turn) + 1]
    ends = [at for at, each in enumerate(upto[:-1]) if "cell" in each and not each["cell"]["alive"]]
    own = upto[ends[-1] + 1 :] if ends else upto
    cells = [each for each in own if "cell" in each and (each["action"] == "python" or _WRITES.search(each["code"]))]
    return (
        "\n\n".join(each["code"] if each["action"] == "python" else _in_python(each["code"]) for each in cells) or None
    )


def _in_python(command: str) -> str:
    """A shell command as a statement of Python: agents write programs with `cat > train.py` and run them."""
    fits = "'''" not in command and not command.endswith(("\\", "'"))
    text = f"r'''{command}'''" if fits else repr(command)
    return f'import subprocess\n\nsubprocess.run(["bash", "-c", {text}], check=False)'


def execution_of(
    turns: Sequence[Mapping[str, Any]], submission_turn: Mapping[str, Any] | None, box: Mapping[str, Any]
) -> dict[str, Any]:
    """`execution` of what is handed in; without that, of the last program that ran. `box`: what a session ran in."""
    turn = submission_turn or next((each for each in reversed(turns) if "execution" in each or "cell" in each), None)
    if turn is None:
        return dict(NOTHING_RAN)
    if "execution" in turn:
        execution = dict(turn["execution"])
        if turn is not submission_turn and execution["submission"] is not None:  # of a program that was only tried
            execution.update(submission=None, submission_problem="nothing was handed in")
        return execution
    cell = turn["cell"]
    return {
        "status": cell["status"],
        "exit_code": None,
        "duration_s": round(sum(each["cell"]["duration_s"] for each in turns if "cell" in each), 4),
        "cpu_s": None,
        "peak_memory_mb": None,
        "stdout": cell["output"],
        "stderr": {"head": "", "tail": "", "bytes": 0},
        "markers": [],
        "submission": turn.get("submission"),
        "submission_problem": turn.get("submission_problem"),
        **box,
    }
