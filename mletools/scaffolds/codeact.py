"""Scaffold `codeact`: a Python session and a shell in the sandbox, and an ideator to ask (MLE-Ideator, section 3.1).

Covered: the actions as tags or tool calls, a session that dies and is begun anew, the ideator or what stands in its
place, the state at every request. Not covered: ideas carried out by another model (idea), the session itself (the sandbox).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import prompts
from ..records.errors import ToolError
from ..records.ids import content_id
from ..records.options import option
from . import ideas, observations
from .calls import Fault, Tool, as_functions, read_action
from .episode import Episode
from .facts import split_told, tell
from .interface import Ended, Environment, Job, Scaffold, Settings
from .quoting import fenced


@dataclass(frozen=True)
class CodeactSettings(Settings):
    """The bounds of MLE-Ideator, and the ideator."""

    MODELS: ClassVar[Mapping[str, tuple[str, str]]] = {"ideator": ("ideator", "ideator_url")}

    max_turns: int = 50
    max_seconds: float | None = 3600.0
    execution_seconds: float = 1200.0
    ideator: str | None = option(
        "Answers <seek_help>: a model, or null or vague, which say nothing useful (default: nobody, and it is not "
        "offered).",
        metavar="MODEL",
    )
    ideator_url: str | None = option("The ideator's server (default: --model-url).", kind="url", machine=True)
    states: str | None = option(
        "Write the state at each request for help here, for --scaffold idea.",
        flags=("--write-states",),
        kind="file",
        metavar="FILE",
        machine=True,
    )
    trajectory_tokens: int = option(
        "Tokens of the trajectory that the ideator sees.", default=32000, at_least=1, metavar="N"
    )


PYTHON, BASH, HELP, FINISH = "execute_ipython", "execute_bash", "seek_help", "finish"
TOOLS = (
    Tool(PYTHON, "Run Python in the session.", {"code": "the code"}),
    Tool(BASH, "Run a shell command in the working folder.", {"command": "the command"}),
    Tool(FINISH, "End the work; the submission.csv that lies there is final."),
)
ASKING = Tool(
    HELP,
    "Ask a colleague for an idea.",
    {
        "problem_statement": "one sentence: what is in the way",
        "attempts_so_far": "a short list of what was tried",
        "goal": "one sentence: what success would be in this step",
    },
)
KINDS = {PYTHON: "python", BASH: "bash"}


class Codeact(Scaffold[CodeactSettings]):
    """See the module."""

    settings = CodeactSettings
    prompts = ("codeact-system", "codeact-help", "task", "ideator")
    sessions = True

    def check(self, settings: CodeactSettings) -> CodeactSettings:
        """The settings as they are to be. ToolError for some that this scaffold cannot work with."""
        if settings.ideator == "":
            raise ToolError("--ideator: name a model, or null or vague")
        return settings

    def play(self, job: Job[CodeactSettings], environment: Environment) -> Iterator[dict[str, Any]]:
        """The rollout of one episode; before it, where there is an ideator, a state for each request (stop_reason asked)."""
        settings = job.settings
        help_told = prompts.render("codeact-help") + "\n\n" if settings.ideator else ""
        system = prompts.render(
            "codeact-system",
            help=help_told,
            max_turns=str(settings.max_turns),
            max_minutes=f"{(settings.max_seconds or 86400.0) / 60:g}",
            execution_seconds=f"{settings.execution_seconds:g}",
        )
        question = tell("task", job.task, split=split_told(settings.validation > 0, settings.reveal_test))
        episode = Episode(
            job, environment, [{"role": "system", "content": system}, {"role": "user", "content": question}]
        )
        try:
            yield from _turns(episode)
            reason = "finished"
        except Ended as ended:
            reason = ended.reason
        yield episode.record(reason)


def _turns(episode: Episode[CodeactSettings]) -> Iterator[dict[str, Any]]:
    tools = (*TOOLS[:2], ASKING, TOOLS[2]) if episode.settings.ideator else TOOLS
    names = ", ".join(f"<{tool.name}>" for tool in tools)
    functions = as_functions(tools) if episode.settings.tool_calls == "openai" else None
    while True:
        action = read_action(episode.ask(functions), tools)
        episode.well_formed.append(not isinstance(action, Fault))
        if isinstance(action, Fault):
            episode.correct(action, f"Take exactly one action a message: {names}.")
        elif action.name == FINISH:
            episode.turn["action"] = "finish"
            return
        elif action.name == HELP:
            episode.turn["action"] = "seek_help"
            yield _state(episode, action.fields)
            episode.observe(_ask_ideator(episode, action.fields), action)
        else:
            kind = KINDS[action.name]
            episode.turn["action"] = kind
            episode.observe(_ran(episode, kind, *action.fields.values()), action)


def _ran(episode: Episode[CodeactSettings], kind: str, text: str) -> str:
    """Run a cell, and what the policy is told of it."""
    step = episode.cell(kind, text)
    cell = step["cell"]
    text = observations.text_of(cell["output"])
    paragraphs = [fenced(text) if text else "(no output)"]
    if cell["status"] != "ok":
        words = observations.WORDS[cell["status"]].replace("program", "step")
        paragraphs.append(f"[{words} {observations.after(cell['duration_s'])}.]")
    if not cell["alive"]:
        paragraphs.append("[The session ended with it. The next step begins a new one: variables and files are gone.]")
    if step["submission"] is not None:
        judged = observations.judged(episode.turn, episode.job.task, episode.settings.reveal_test)
        paragraphs.append(f"[{judged}]")
    return "\n\n".join(paragraphs)


def _ask_ideator(episode: Episode[CodeactSettings], query: Mapping[str, str]) -> str:
    who = str(episode.settings.ideator)
    if who in ideas.FIXED:
        answer, idea = ideas.FIXED[who], None
    else:
        messages = ideas.question(episode.messages, query, episode.settings.trajectory_tokens)
        reply = episode.consult("ideator", "ideator", messages)
        refused = reply.get("refused")
        if refused is not None:
            reply = {"text": "", "prompt_tokens": None, "completion_tokens": None, "seconds": 0.0, "usd": None}
        idea = ideas.read_idea(reply["text"])
        # an answer in another form is of no use to anybody, and not the implementer's fault
        answer = ideas.as_text(idea) if idea else ideas.FIXED["null"]
        episode.charge(reply)
        episode.turn["help"] = {"said": reply["text"], **({} if refused is None else {"refused": refused})}
    episode.turn["help"] = {
        **episode.turn.get("help", {}),
        "query": dict(query),
        "answer": answer,
        "idea": idea,
        "model": who,
    }
    return answer


def _state(episode: Episode[CodeactSettings], query: Mapping[str, str]) -> dict[str, Any]:
    """The rollout so far as a state of its own: where an ideator takes up the work."""
    turn = len(episode.turns) - 1
    state = {**episode.state(), "query": dict(query), "rollout": episode.job.id, "turn": turn}
    so_far = episode.record("asked", state=state)
    copied = {**so_far, "id": content_id("state", episode.job.id, turn)}
    return {**copied, "messages": list(episode.messages), "turns": [dict(each) for each in episode.turns]}
