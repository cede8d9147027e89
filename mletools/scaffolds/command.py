"""Scaffold `command`: somebody else's agent, which is a command line, works in the sandbox on its own.

Its only way out of the box is the model: a server on the box's loopback (relay) whose questions leave it one by one and are
asked here, as every other scaffold asks, with all bounds, counts and exact tokens. Covered: messages and usage as the policy
saw them, conversations that an agent shortens or begins anew, the submission.csv that lies there at the end. Not covered:
agents that need another server than their model's, scores for the agent.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

from .. import prompts
from ..base import jsonl
from ..base.errors import RecordError, ToolError
from ..base.ids import derive_seed
from ..base.options import option
from ..base.sources import source_of
from ..models import OfferedTool
from ..records.common import LongText
from ..records.rollout import Cell, Execution, Message, Rollout, StopReason, SubmissionFile
from . import relay
from .episode import NOTHING_RAN, Episode
from .interface import CellResult, Ended, Environment, Job, Needs, Reply, Scaffold, SessionFacts, Settings
from .messages import task_prompt

_BEGIN = """import types
relay = types.ModuleType("relay")
exec(compile({source!r}, "<relay>", "exec"), relay.__dict__)
relay = relay.Relay({model!r})
relay.begin({command!r}, {instruction!r})
relay.serve()
"""
_KEPT = 4000  # characters at each end of the agent's output


@dataclass(frozen=True)
class CommandSettings(Settings):
    """The bounds of an agent, and how it is started. Its context, its actions and what it reads are its own."""

    WITHOUT: ClassVar[tuple[str, ...]] = (
        *("context_tokens", "hand_in", "tool_calls", "validation", "reveal_test", "max_scores", "score_digits"),
        *("refit", "instrument", "format"),
    )

    max_turns: int = 100
    max_seconds: float | None = 3600.0
    max_answer_tokens: int = 8192
    execution_seconds: float = 3600.0
    validation: float = 0.0  # an agent is shown no scores, so all training rows are its own
    agent: str | None = option(
        "The agent's command line, for bash. {instruction_file}, {base_url} and {model} are filled in. The "
        "instruction is also its standard input.",
        metavar="CMD",
    )
    agent_folder: tuple[str, ...] = option(
        "A folder with the agent's program, which the agent sees read-only under the same path. Repeatable.",
        default=(),
        metavar="DIR",
        kind="existing folder",
        machine=True,
    )


class Command(Scaffold[CommandSettings]):
    """See the module."""

    settings = CommandSettings
    prompts = ("command", "task")
    sessions = True

    def check(self, settings: CommandSettings) -> CommandSettings:
        """The settings. ToolError: no agent is named."""
        if not (settings.agent or "").strip():
            raise ToolError("--scaffold command needs --agent CMD, the command line of the agent")
        return settings

    def needs(self, settings: CommandSettings) -> Needs:
        return Needs(shown=settings.agent_folder, loopback=True)

    def play(self, job: Job[CommandSettings], environment: Environment) -> Iterator[Rollout]:
        """The rollout of the agent's work."""
        yield _Work(job, environment).play()


class _Work(Episode[CommandSettings]):
    """The agent's work: its messages are those that it has sent, and the replies."""

    def __init__(self, job: Job[CommandSettings], environment: Environment):
        super().__init__(job, environment, [])
        minutes = f"{(job.settings.max_seconds or 86400.0) / 60:g}"
        begin = prompts.render("command", max_turns=str(job.settings.max_turns), max_minutes=minutes)
        question = task_prompt("task", job, environment, split="No score is shown before the end.")
        self._instruction = f"{begin}\n\n{question}"
        self._asked: list[relay.ChatMessage] = []  # the messages of the last question
        self._tools: list[OfferedTool] | None = None
        self._places: list[int] = []  # of these among all messages
        self._ran: list[tuple[str, str]] = []
        self._results: list[Cell] = []
        self._box_facts: SessionFacts | None = None
        self._refused = 0  # questions that the model's server refused
        self._exit_code: int | None = None
        self._lying_there: SubmissionFile | None = None
        self._why_none: str | None = None

    def play(self) -> Rollout:
        """Let the agent work until it ends, or a bound is reached."""
        job = self.job
        model = job.policy["model"]
        text = _BEGIN.format(
            source=source_of(relay), model=model, command=job.settings.agent, instruction=self._instruction
        )
        reason: StopReason = "finished"
        try:
            while (asked := self._until_question(text)) is not None:
                text = f"relay.serve({json.dumps(self._answer(asked))!r})"
        except Ended as ended:
            reason = ended.reason
        return self._rollout(reason)

    # --- the box --------------------------------------------------------------------------------------------------

    def _until_question(self, text: str) -> relay.Question | None:
        """Run a cell; the agent's next question, None: it has ended. Ended: it ran out of time, or asks in no form."""
        wall_s = min(self.settings.execution_seconds, self.seconds_left)
        result = self._environment.cell(
            "python",
            text,
            wall_s,
            before=list(self._ran),
            seed=derive_seed(self.job.seed, "session"),
            known=self._last_submission_digest,
            outputs=(relay.REQUEST,),
        )
        self._ran.append(("python", text))
        self._keep(result)
        status = result["cell"]["status"]
        if status == "timeout":
            raise Ended("timeout")
        request = self._read(result)
        if status != "ok" or not result["cell"]["alive"] or not request:
            return None  # the agent has ended its box, or filled it
        return request

    def _keep(self, result: CellResult) -> None:
        cell = result["cell"]
        self._results.append(cell)
        self._box_facts = result["box"]
        self.spent.seconds += cell["duration_s"]
        self._why_none = result["submission_problem"]
        if self.turns:
            turn = self.turn
            turn["action"] = "agent"
            turn["cell"] = cell
            turn["duration_s"] = round(turn["duration_s"] + cell["duration_s"], 4)
            turn["submission"], turn["submission_problem"] = result["submission"], result["submission_problem"]
            if "grade" in result:  # no rows are held out, so there is no other verdict
                turn["grade"] = result["grade"]
        if result["digest"] != self._last_submission_digest:
            self._last_submission_digest = result["digest"]
            self._lying_there = result["submission"]

    def _read(self, result: CellResult) -> relay.Question | None:
        """The question that the relay handed out; None: it handed out the agent's end, nothing, or what an older cell left.

        Ended: it is not in the relay's form.
        """
        text = result.get("outputs", {}).get(relay.REQUEST, "{}")
        try:
            found = jsonl.loads(text)
            if not isinstance(found, dict) or found.get("number") != len(self._results):
                return None
            if "ended" in found:
                code = found["ended"]
                self._exit_code = code if type(code) is int and abs(code) < 1 << 31 else None
                return None
            same = found.get("same")
            if type(same) is not int or not 0 <= same <= len(self._asked) or not isinstance(found["messages"], list):
                raise ValueError
            messages = self._asked[:same] + found["messages"]
            asked = relay.question({**found, "messages": messages, "tools": found["tools"] or None})
        except (ValueError, KeyError):
            raise Ended("format") from None
        self._asked = asked["messages"]
        if found["tools"] is not False:
            self._tools = cast("list[OfferedTool] | None", asked["tools"])
        return asked

    # --- the model ------------------------------------------------------------------------------------------------

    def _answer(self, asked: relay.Question) -> relay.Answer:
        """The policy's reply as the relay takes it. Ended: a budget is used up."""
        held = [self.messages[place] for place in self._held]
        pairs = zip(held, asked["messages"], strict=False)
        same = next((at for at, (ours, theirs) in enumerate(pairs) if not _alike(ours, theirs)), None)
        if same is None:
            same = min(len(held), len(asked["messages"]))
        first = len(self.messages)
        self._check_budget()
        self.messages += [_as_message(each) for each in asked["messages"][same:]]
        self._places = [*self._held[:same], *range(first, len(self.messages))]
        most = min(self.settings.max_answer_tokens, asked["max_tokens"] or self.settings.max_answer_tokens)
        try:
            reply: Reply = self.ask_with(self._tools, most)
        except RecordError as error:  # the server refuses the agent's request, not the task
            del self.messages[first:]
            self._refused += 1
            if self._refused > self.settings.max_turns:
                raise Ended("format") from None
            return {"error": re.sub(r"^https?://\S+: ", "", str(error))}  # not the server's address
        return {
            "text": reply["text"],
            "reasoning": reply["reasoning"],
            "tool_calls": [
                {"id": call["id"], "name": call["name"], "arguments": call["arguments"]} for call in reply["tool_calls"]
            ],
            "finish_reason": reply["finish_reason"],
            "prompt_tokens": reply["prompt_tokens"],
            "completion_tokens": reply["completion_tokens"],
        }

    def _shown(self) -> list[int]:
        return self._places

    # --- the record -----------------------------------------------------------------------------------------------

    def _rollout(self, reason: StopReason) -> Rollout:
        rollout = self.job.rollout(
            settings=self.settings.as_record(),
            messages=self.messages or [{"role": "user", "content": self._instruction}],
            turns=self.turns,
            usage=self.spent.as_record(),
            usage_by_role={role: spent.as_record() for role, spent in self.spent_by_role.items()},
            stop_reason=reason,
            code=None,
        )
        rollout["execution"] = self._execution()
        return rollout

    def _execution(self) -> Execution:
        if not self._results or self._box_facts is None:
            return NOTHING_RAN.copy()
        found = {
            "status": self._results[-1]["status"],
            "exit_code": self._exit_code,
            "duration_s": round(sum(cell["duration_s"] for cell in self._results), 4),
            "cpu_s": None,
            "peak_memory_mb": None,
            "stdout": _joined([cell["output"] for cell in self._results]),
            "stderr": {"head": "", "tail": "", "bytes": 0},
            "markers": [],
            "submission": self._lying_there,
            "submission_problem": None if self._lying_there else self._why_none,
            **self._box_facts,
            # not what was left of the time when the last cell began
            "limits": {**self._box_facts["limits"], "wall_s": self.settings.max_seconds},
        }
        return cast(Execution, found)


def _alike(ours: Message, theirs: relay.ChatMessage) -> bool:
    """Whether an agent sends a message back as it was; white space around the policy's own may be gone."""
    return _likeness(relay.message(ours)) == _likeness(theirs)


def _likeness(message: relay.ChatMessage) -> tuple[object, ...]:
    content = message["content"].strip() if message["role"] == "assistant" else message["content"]
    functions = [(each["id"], each["function"]) for each in message.get("tool_calls", ())]
    calls = [(id, function["name"], _value(function["arguments"])) for id, function in functions]
    return message["role"], content, calls, message.get("tool_call_id")


def _value(arguments: str) -> object:
    """Arguments that are JSON by their value: clients write them anew."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _as_message(asked: relay.ChatMessage) -> Message:
    return asked.copy()  # type: ignore[return-value]


def _joined(outputs: list[LongText]) -> LongText:
    """The outputs of all cells as one: its beginning and its end."""
    text = "".join(output["head"] + output["tail"] for output in outputs)
    tail = text[max(_KEPT, len(text) - _KEPT) :]
    return {"head": text[:_KEPT], "tail": tail, "bytes": sum(output["bytes"] for output in outputs)}
