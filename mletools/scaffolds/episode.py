"""An episode: one trajectory of a policy on a task, from the first question to what it hands in.

A scaffold asks, acts and observes through an Episode, which keeps the messages, the turns with what came of each, the
usage, and the budgets. Covered: the exact tokens of every message of the policy, budgets, dropped context, which submission
is handed in, the record. Not covered: what is said and which actions there are (the scaffolds); models, sandboxes and
graders, which stand behind a Environment.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Generic, Literal, NamedTuple, TypedDict, Unpack, cast

from ..base.ids import derive_seed
from ..models import OfferedTool
from ..records.rollout import (
    CalledFunction,
    Cell,
    Execution,
    Implementer,
    Message,
    MessageCall,
    Refit,
    Rollout,
    StartState,
    StopReason,
    Turn,
    TurnFormat,
)
from .interface import (
    CellResult,
    Ended,
    Environment,
    Job,
    Refusal,
    Reply,
    ReplyCall,
    RunResult,
    S,
    SessionFacts,
    UsageSum,
    usage_of,
)
from .messages import (
    CHARACTERS_A_TOKEN,
    characters_a_token,
    characters_of,
    score_message,
    shortened,
    tokens_of,
    visible,
)
from .printed import printed_score
from .reading import Action, Fault, Tool, as_functions, sendable

NOT_CARRIED_OUT = "Not carried out: only the first action of a message is."

LEAST_CHARACTERS = 2.0  # a token, where nobody has counted: code and tables have 2.3 to 3.2
MARGIN = 0.9  # of another model's characters a token
# Shell commands that may change files; others only look.
_WRITES = re.compile(r"(?<![0-9&<])>|\b(?:tee|cp|mv|rm|python3?|pip|patch|unzip|tar)\b|\bsed\b.*\s-i")
NOTHING_RAN: Execution = {
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
    "machine": None,
    "limits": {},
}


class _Refitted(NamedTuple):
    """The run of the final program on all training rows, and whether its submission counts."""

    execution: Execution
    used: bool


class Extras(TypedDict, total=False):
    """What a record has by the scaffold; see Rollout."""

    state: StartState
    trace: Literal["reset", "memory"]
    idea: dict[str, str] | None
    implementer: Implementer | None
    refit: Refit


def opening(system: str, question: str) -> list[Message]:
    """The messages that an episode begins with."""
    return [{"role": "system", "content": system}, {"role": "user", "content": question}]


class Episode(Generic[S]):
    """See the module. `messages` begin with what the scaffold tells the policy."""

    def __init__(self, job: Job[S], environment: Environment, messages: Sequence[Message]):
        self.job, self.settings, self._environment = job, job.settings, environment
        self.messages: list[Message] = [message.copy() for message in messages]
        self.turns: list[Turn] = []
        self.spent = UsageSum()
        self.spent_by_role: dict[str, UsageSum] = {}  # of asking alone
        self.sampled = 0  # tokens of the policy, estimated where nobody counts
        self.best_submission_turn: Turn | None = None  # the turn whose submission would be handed in now
        self.latest: Turn | None = None  # the turn that left the latest submission
        self._latest_valid: Turn | None = None
        self.well_formed: list[bool] = []
        self._failed: list[int] = []
        self._from = 0
        self._context = self.settings.context_tokens  # fewer where the policy has refused as many
        self._held: list[int] = []  # the places of the messages that the policy saw last, and of its answer
        self._seen: list[int] | None = None  # the tokens of those
        self._cells: list[tuple[str, str]] = []
        self._characters: dict[str, float] = {}  # by model, the fewest of a token in a question
        self._characters_last = float(CHARACTERS_A_TOKEN)  # of a token in the policy's last question
        self._box: SessionFacts | None = None
        self._last_submission_digest: str | None = None  # digest of the submission that lies in the session
        # the turns, by their messages, whose scores the policy was shown; -1: the start's
        self.scores_shown: set[int] = set()
        self.own_scores = False  # programs report scores themselves, by which solutions are chosen

    # --- asking ---------------------------------------------------------------------------------------------------

    def ask(self, tools: Sequence[Tool] = ()) -> Reply:
        """The policy's next message, which begins a turn. Ended: a budget is used up, or the context is full."""
        functions = as_functions(tools) if self.settings.tool_calls == "openai" and tools else None
        return self.ask_with(functions, self.settings.max_answer_tokens)

    def ask_with(self, functions: list[OfferedTool] | None, most: int) -> Reply:
        """As `ask`, with tools of any kind as the chat protocol has them, and of at most `most` tokens."""
        self._check_budget()
        if self.settings.max_tokens is not None:
            most = min(most, self.settings.max_tokens - self.sampled)
        shown, reply = self._reply_to_shown(functions, most)
        # servers draw ids at random; ours are the same in every run, and of a form that all templates take (9 letters)
        calls: list[ReplyCall] = [
            {**call, "id": f"call{len(self.turns):04}{index}"}
            for index, call in enumerate(reply.get("tool_calls") or ())
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
        if (reason := declined(reply)) is not None:
            self.turn["finish_reason"] = reason
        dropped = sorted(set(range(len(self.messages))) - set(shown))
        if dropped:
            self.turn["dropped"] = dropped
        self._append(reply)
        self._held = [*shown, len(self.messages) - 1]
        return reply

    def _reply_to_shown(self, functions: list[OfferedTool] | None, most: int) -> tuple[list[int], Reply]:
        """The places of the messages that the policy saw, and its reply. Ended: it refuses them, and no more can go.

        Where it refuses those that fit `context_tokens`, the answer has to fit, too; then only the ends are shown. What
        was dropped so stays out of the later questions.
        """
        bounds, shown = [self._context], list[int]()
        if self._context is not None and self.settings.when_full == "drop":
            bounds += [min(self._context, max(0, (self.settings.context_tokens or 0) - most)), 0]
        for self._context in bounds:
            places = self._shown()
            if places == shown:
                continue
            shown = places
            reply = self.consult("policy", self.job.scaffold, self._sent(shown), functions, most)
            if "refused" not in reply:
                return shown, reply
        raise Ended("context")

    def consult(
        self,
        who: str,
        role: str,
        messages: list[Message],
        tools: list[OfferedTool] | None = None,
        most: int | None = None,
    ) -> Reply | Refusal:
        """A model's reply to messages; see Environment.ask. Nothing is kept of it here."""
        most = most or self.settings.max_answer_tokens
        seed = derive_seed(self.job.seed, who, len(self.turns))
        reply = self._environment.ask(who, role, messages, seed, tools, most)
        if "refused" not in reply and reply["prompt_tokens"]:
            characters = sum(map(characters_of, messages)) / reply["prompt_tokens"]
            self._characters[who] = min(characters, self._characters.get(who, characters))
            if who == "policy" and characters:
                self._characters_last = characters
        return reply

    def shorten(self, who: str, text: str, tokens: int) -> str:
        """The text, cut to `tokens` tokens of the model `who`; see messages.shortened.

        They are counted by its tokenizer, where that is in this process. Else a token is as many characters as one of its
        questions in this episode had at least, by its server's counts; before the first, a tenth less than one of the
        policy's (of the state's, where the episode begins from one); where nobody has counted, LEAST_CHARACTERS.
        """

        def count(cut: str) -> int | None:
            return self._environment.count_tokens(who, [{"role": "user", "content": cut}])

        if count("?") is not None:
            return shortened(text, tokens, lambda cut: count(cut) or 0)
        start = self.job.record if self.job.record is not None and self.job.record["kind"] == "rollout" else None
        of_state = characters_a_token(start["messages"], start["turns"]) if start else None
        others = self._characters.get("policy", of_state or LEAST_CHARACTERS / MARGIN) * MARGIN
        return shortened(text, tokens, None, self._characters.get(who, others))

    def _sent(self, places: Sequence[int]) -> list[Message]:
        """The messages at these places as they are sent."""
        goes_on = list(places[: len(self._held)]) == self._held
        return [_wire(self.messages[place], goes_on) for place in places]

    def begin_anew(self, question: str) -> None:
        """Ask as if nothing had been said before: the messages stay in the record, the policy sees them no more."""
        self._from, self._context = len(self.messages), self.settings.context_tokens
        self.messages.append({"role": "user", "content": question})

    def _shown(self) -> list[int]:
        """The places of the messages that the policy sees. Ended: they are too many, and none is to be dropped.

        Tokens are the tokenizer's, where that is in this process and none is dropped, else an estimate (tokens_of): of 4
        characters each, or as many as its last question in this episode had, by its server's count, if they were fewer.
        """
        bounds, begin = self.settings, self._from
        a_token = min(CHARACTERS_A_TOKEN, self._characters_last)
        messages = self.messages[begin:]
        if bounds.when_full == "end":
            places = list(range(begin, len(self.messages)))
            if bounds.context_tokens is not None:
                counted = self._environment.count_tokens("policy", self._sent(places))
                if (
                    sum(tokens_of(each, a_token) for each in messages) if counted is None else counted
                ) > bounds.context_tokens:
                    raise Ended("context")
            return places
        failed = [place - begin for place in self._failed if place >= begin]
        return [begin + place for place in visible(messages, failed, self._context, a_token)]

    def charge(self, who: str, reply: Reply) -> None:
        """Count what the reply of another model, in the role `who`, used to the turn at hand."""
        self._spend(who, reply)
        self.turn["duration_s"] = round(self.turn["duration_s"] + reply["seconds"], 4)

    def _spend(self, who: str, reply: Reply) -> None:
        self.spent.add(reply)
        self.spent_by_role.setdefault(who, UsageSum()).add(reply)

    def _append(self, reply: Reply) -> None:
        """Keep the policy's message, with the tokens that it was really made of."""
        message: Message = {"role": "assistant", "content": reply["text"], "loss": True}
        if "policy_version" in reply:
            message["policy_version"] = reply["policy_version"]
        if reasoning := reply.get("reasoning"):
            message["reasoning"] = reasoning
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
            if (logprobs := reply.get("logprobs")) is not None:
                message["logprobs"] = logprobs
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
    def turn(self) -> Turn:
        """The turn at hand."""
        return self.turns[-1]

    def note_format(self, form: TurnFormat, well_formed: bool | None = None) -> None:
        """Keep how the turn's message was read, and whether that counts as well-formed (default: by `form`)."""
        self.turn["format"] = form.copy()
        self.well_formed.append(self.settings.accepts(form) if well_formed is None else well_formed)

    def observe(self, text: str, action: Action | None = None) -> None:
        """Tell the policy what came of its message; where it was a tool call, in the tool's name."""
        id = None if action is None else action.id
        calls = self.messages[-1].get("tool_calls", ()) if action is not None else ()
        others: list[Message] = [  # the protocol wants an answer to each, ahead of a user's message
            {"role": "tool", "content": NOT_CARRIED_OUT, "tool_call_id": call["id"]}
            for call in calls
            if call["id"] != id
        ]
        if id is None:
            self.messages += [*others, {"role": "user", "content": text}]
        else:
            self.messages += [{"role": "tool", "content": text, "tool_call_id": id}, *others]

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

    def run(self, code: str, judged: bool = True) -> RunResult:
        """Run a program for the turn at hand: what Environment.run tells, kept in the turn."""
        wall_s = min(self.settings.execution_seconds, self.seconds_left)
        seed = derive_seed(self.job.seed, "run", len(self.turns))
        outcome = self._environment.run(code, wall_s, seed, judged)
        turn = self.turn
        turn["execution"] = outcome["execution"]
        if "validation" in outcome:
            turn["validation"] = outcome["validation"]
        if outcome.get("grade") is not None:
            turn["grade"] = outcome["grade"]
        turn["code"] = code
        if self.own_scores and judged and (reported := printed_score(outcome["execution"]["stdout"])) is not None:
            turn["reported_score"] = reported
        self._count(outcome["execution"])
        if outcome["execution"]["submission"] is not None and judged:
            self._hand_in()
        return outcome

    def cell(self, kind: str, text: str) -> CellResult:
        """Run a cell in the episode's session for the turn at hand: what Environment.cell tells, kept in the turn."""
        wall_s = min(self.settings.execution_seconds, self.seconds_left)
        seed = derive_seed(self.job.seed, "session")
        before, known = list(self._cells), self._last_submission_digest
        outcome = self._environment.cell(kind, text, wall_s, before=before, seed=seed, known=known)
        self._box, turn = outcome["box"], self.turn
        turn["cell"] = outcome["cell"]
        turn["submission_problem"] = outcome["submission_problem"]
        turn["submission"] = outcome["submission"]
        if "validation" in outcome and "grade" in outcome:
            turn["validation"], turn["grade"] = outcome["validation"], outcome["grade"]
        turn["code"] = text
        self._cells = [*self._cells, (kind, text)] if outcome["cell"]["alive"] else []
        if outcome["digest"] != self._last_submission_digest:
            self._last_submission_digest = outcome["digest"]
            if outcome["submission"] is not None:
                self._hand_in()
        self._count(outcome["cell"])
        return outcome

    def _count(self, ran: Execution | Cell) -> None:
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

    def score_message(self, turn: Turn | None) -> str:
        """What the policy is told of a turn's submission, in the turn at hand, which keeps a new score as it is shown.

        A score that was shown before is shown again for nothing. See messages.score_message.
        """
        settings, score, most = self.settings, self.shown_score(turn), self.settings.max_scores
        shown_score, shown = None, self.scores_shown
        if turn is not None and score is not None and (most is None or turn["message"] in shown or len(shown) < most):
            shown_score = settings.rounded(score)
            if turn["message"] not in shown:
                shown.add(turn["message"])
                self.turn["shown_score"] = shown_score
        left = None if most is None else most - len(shown)
        return score_message(turn, self.job.task, settings.reveal_test, shown_score, left)

    def shown_score(self, turn: Turn | None) -> float | None:
        """The score of a turn's submission on the rows that the policy may know scores of, in full: what is handed in is
        chosen by it, also where it is shown rounded or not at all. None without a valid submission.
        """
        if turn is None:
            return None
        verdict = turn.get("grade") if self.settings.reveal_test else turn.get("validation")
        return verdict.get("score") if verdict else None

    def known_score(self, turn: Turn) -> float | None:
        """The score by which solutions are chosen: shown_score, or where no rows are held out the reported one."""
        shown = self.shown_score(turn)
        return turn.get("reported_score") if shown is None and _is_valid(turn) else shown

    def _better(self, turn: Turn, than: Turn) -> bool:
        new, old = self.known_score(turn), self.known_score(than)
        if new is None or old is None:
            return old is None and _is_valid(turn)
        return new < old if self.job.task["metric"]["lower_is_better"] else new > old

    # --- the record -----------------------------------------------------------------------------------------------

    def state(self) -> StartState:
        """Score, validation score and code of the solution at hand: what improvement is measured from.

        After an invalid submission that is the last valid one: repairing what one has broken is no improvement.
        """
        turn = self.best_submission_turn
        if turn is not None and not _is_valid(turn):
            turn = self._latest_valid or turn
        grade, validation = (turn.get("grade"), turn.get("validation")) if turn else (None, None)
        return {
            "score": grade.get("score") if grade else None,
            "validation": validation["score"] if validation else None,
            "code": code_of(self.turns, turn),
        }

    def record(self, stop_reason: StopReason, **extras: Unpack[Extras]) -> Rollout:
        """The rollout record; lineage is left empty."""
        job, turn = self.job, self.best_submission_turn
        execution = execution_of(self.turns, turn, self._box or {})
        refitted = self._refit() if self.settings.refit and stop_reason != "asked" else None
        if refitted is not None:
            extras["refit"] = {"used": True} if refitted.used else {"used": False, "execution": refitted.execution}
            execution = refitted.execution if refitted.used else execution
        rollout = job.rollout(
            settings=job.settings.as_record(),
            messages=self.messages,
            turns=self.turns,
            usage=self.spent.as_record(),
            usage_by_role={role: spent.as_record() for role, spent in self.spent_by_role.items()},
            stop_reason=stop_reason,
            code=code_of(self.turns, turn),
            validation=turn.get("validation") if turn else None,
            **extras,
        )
        if self.well_formed:
            rollout["format_rate"] = sum(self.well_formed) / len(self.well_formed)
        if self.settings.reveal_test:
            rollout["reveal_test"] = True
        if turn is not None and "reported_score" in turn and _is_valid(turn):
            rollout["reported_score"] = turn["reported_score"]
        rollout["execution"] = execution
        return rollout

    def _refit(self) -> _Refitted | None:
        """Run the program that is handed in on all training rows; a valid submission of it takes the other's place."""
        code, rows_held_out = code_of(self.turns, self.best_submission_turn), self.settings.validation > 0
        if self.best_submission_turn is None or code is None or not rows_held_out or self.settings.reveal_test:
            return None
        self._environment.close()  # a session holds the device, or the place, that the program waits for
        seed = derive_seed(self.job.seed, "refit")
        outcome = self._environment.run(code, self.settings.execution_seconds, seed, rows="all")
        self.spent.seconds += outcome["execution"]["duration_s"]
        return _Refitted(outcome["execution"], bool(outcome["grade"] and outcome["grade"]["valid"]))


def _wire(message: Message, goes_on: bool) -> Message:
    """A message as it is sent; with its ids, from which an engine may go on exactly, where nothing before was dropped."""
    sent = message.copy()
    sent.pop("loss", None)
    sent.pop("logprobs", None)
    sent.pop("policy_version", None)
    if "tool_calls" in sent:
        calls = [(call, call["function"]) for call in sent["tool_calls"]]
        sent["tool_calls"] = [
            {**call, "function": {**function, "arguments": sendable(function["arguments"])}} for call, function in calls
        ]
    if not goes_on:
        sent.pop("token_ids", None)
        sent.pop("prompt_token_ids", None)
    return sent


def declined(reply: Reply) -> Literal["content_filter", "refusal"] | None:
    """Why a message holds no answer: the server's filter, or the model declined."""
    match reply["finish_reason"]:
        case "content_filter":
            return "content_filter"
        case "refusal":
            return "refusal"
    return None


def _as_call(call: ReplyCall) -> MessageCall:
    """A reply's tool call as the chat protocol has it, with what its server wants back."""
    function: CalledFunction = {"name": call["name"], "arguments": call["arguments"]}
    made: MessageCall = {"id": call["id"], "type": "function", "function": function}
    if call.get("extra_content"):
        made["extra_content"] = call["extra_content"]
    return made


def _is_valid(turn: Turn) -> bool:
    grade = turn.get("grade")
    return bool(grade and grade["valid"])


def _counted(reply: Reply) -> int:
    if reply["completion_tokens"] is not None:
        return int(reply["completion_tokens"])
    texts = [
        reply["text"],
        reply.get("reasoning") or "",
        *(call["arguments"] for call in reply.get("tool_calls") or []),
    ]
    return sum(map(len, texts)) // CHARACTERS_A_TOKEN + 1


def code_of(turns: Sequence[Turn], submission_turn: Turn | None) -> str | None:
    """The program of `submission_turn`; in a session, its cells up to there as one program.

    Without a submission the last program that ran, None where none did.
    """
    if submission_turn is None:
        return next((each["code"] for each in reversed(turns) if each.get("execution")), None)
    if "cell" not in submission_turn:
        return str(submission_turn["code"])
    upto = list(turns)[: list(turns).index(submission_turn) + 1]
    ends = [index for index, each in enumerate(upto[:-1]) if "cell" in each and not each["cell"]["alive"]]
    own = upto[ends[-1] + 1 :] if ends else upto
    cells = [(each["action"] == "python", each["code"] or "") for each in own if "cell" in each]
    programs = [text if python else _in_python(text) for python, text in cells if python or _WRITES.search(text)]
    return "\n\n".join(programs) or None


def _in_python(command: str) -> str:
    """A shell command as a statement of Python: agents write programs with `cat > train.py` and run them."""
    fits = "'''" not in command and not command.endswith(("\\", "'"))
    text = f"r'''{command}'''" if fits else repr(command)
    return f'import subprocess\n\nsubprocess.run(["bash", "-c", {text}], check=False)'


def execution_of(turns: Sequence[Turn], submission_turn: Turn | None, box: Mapping[str, object]) -> Execution:
    """`execution` of what is handed in; without that, of the last program that ran. `box`: what a session ran in."""
    turn = submission_turn or next((each for each in reversed(turns) if "execution" in each or "cell" in each), None)
    if turn is None:
        return NOTHING_RAN.copy()
    if "execution" in turn:
        execution = turn["execution"].copy()
        if turn is not submission_turn and execution["submission"] is not None:  # of a program that was only tried
            execution["submission"], execution["submission_problem"] = None, "nothing was handed in"
        return execution
    cell = turn["cell"]
    execution_in_session = {
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
    return cast(Execution, execution_in_session)
