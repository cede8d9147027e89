"""Scaffold `codeact`: a Python session and a shell in the sandbox, and an ideator to ask (MLE-Ideator, section 3.1).

Covered: actions as tags or tool calls, a session that dies and is restarted, the ideator or a fixed answer, the state at
every request. Not covered: ideas implemented by another model (idea), the session itself (the sandbox).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from .. import prompts
from ..base.errors import OptionError, ToolError
from ..base.options import option
from ..records.rollout import Help, StopReason
from . import ideas, messages
from .episode import Episode, opening
from .interface import Ended, Environment, Job, Needs, Played, Scaffold, Settings, State
from .messages import escaped, fenced, task_prompt
from .reading import Fault, Tool, read_action
from .states import state_of, states_option


@dataclass(frozen=True)
class CodeactSettings(Settings):
    """The bounds of MLE-Ideator, and the ideator."""

    WITHOUT: ClassVar[tuple[str, ...]] = ("instrument",)  # cells of a session are not watched
    MODELS: ClassVar[Mapping[str, tuple[str, str]]] = {"ideator": ("ideator", "ideator_url")}

    max_turns: int = 50
    max_seconds: float | None = 3600.0
    execution_seconds: float = 1200.0
    ideator: str | None = option(
        "Model that answers <seek_help>; null and vague give a fixed, useless answer (default: the action is not "
        "offered).",
        metavar="MODEL",
    )
    ideator_url: str | None = option("URL of the ideator's server (default: --model-url).", kind="url", machine=True)
    states: str | None = states_option("Write the state at each request for help to FILE, for --scaffold idea.")
    trajectory_tokens: int = option(
        "Maximum tokens of the trajectory in the ideator's question.", default=32000, at_least=1, metavar="N"
    )


PYTHON, BASH, HELP, FINISH = "execute_ipython", "execute_bash", "seek_help", "finish"
TOOLS = (
    Tool(
        PYTHON,
        "Run Python in the session.",
        {"code": "the code"},
        ("python", "ipython", "code_interpreter", "execute_python", "run_python"),
    ),
    Tool(
        BASH,
        "Run a shell command in the working folder.",
        {"command": "the command"},
        ("bash", "shell", "terminal", "execute_shell", "run_bash"),
    ),
    Tool(FINISH, "End the work; the submission.csv that lies there is final."),
)
ASKING = Tool(HELP, "Ask a colleague for an idea.", ideas.QUERY)
KINDS = {PYTHON: "python", BASH: "bash"}


class Codeact(Scaffold[CodeactSettings]):
    """See the module."""

    settings = CodeactSettings
    prompts = ("codeact-system", "codeact-help", "task", "ideator")
    sessions = True

    def check(self, settings: CodeactSettings) -> CodeactSettings:
        """The settings. ToolError for an empty ideator, or for states without one."""
        if settings.ideator == "":
            raise ToolError("--ideator needs the name of a model, or null or vague")
        if settings.states is not None and settings.ideator is None:
            raise OptionError("--write-states are written where help is asked for: --ideator MODEL (or null, or vague)")
        return settings

    def needs(self, settings: CodeactSettings) -> Needs:
        return Needs(states=settings.states)

    def play(self, job: Job[CodeactSettings], environment: Environment) -> Iterator[Played]:
        """The state at each request for help (stop_reason asked), then the rollout of the episode."""
        settings = job.settings
        system = task_prompt(
            "codeact-system",
            job,
            environment,
            help=prompts.render("codeact-help") + "\n\n" if settings.ideator else "",
            max_turns=str(settings.max_turns),
            max_minutes=f"{(settings.max_seconds or 86400.0) / 60:g}",
            execution_seconds=f"{settings.execution_seconds:g}",
        )
        question = task_prompt("task", job, environment)
        episode = Episode(job, environment, opening(system, question))
        reason: StopReason = "finished"
        try:
            yield from _turns(episode)
        except Ended as ended:
            reason = ended.reason
        yield episode.record(reason)


def _turns(episode: Episode[CodeactSettings]) -> Iterator[State]:
    tools = (*TOOLS[:2], ASKING, TOOLS[2]) if episode.settings.ideator else TOOLS
    names = ", ".join(f"<{tool.name}>" for tool in tools)
    too_early = FINISH  # who has nothing to hand in is told so once
    while True:
        action = read_action(episode.ask(tools), tools, too_early="" if episode.latest else too_early)
        episode.note_format(action.format)
        if isinstance(action, Fault):
            too_early = "" if action.kind == "early" else too_early
            episode.correct(action, f"Take exactly one action per message: {names}. Stop after its closing tag.")
            continue
        episode.turn["action"] = KINDS.get(action.name, action.name)
        if action.name == FINISH:
            return
        if action.name == HELP:
            yield state_of(episode, dict(action.fields))
            observation = _ask_ideator(episode, action.fields)
        else:
            observation = _run_cell(episode, KINDS[action.name], *action.fields.values())
        episode.observe(observation, action)


def _run_cell(episode: Episode[CodeactSettings], kind: str, text: str) -> str:
    """Run a cell; returns the observation."""
    result = episode.cell(kind, text)
    cell = result["cell"]
    text = messages.output_text(cell["output"])
    paragraphs = [fenced(text) if text else "(no output)"]
    if cell["status"] != "ok":
        words = messages.STATUS_WORDS[cell["status"]].replace("program", "step")
        paragraphs.append(f"[{words} {messages.duration_text(cell['duration_s'])}.]")
    if not cell["alive"]:
        paragraphs.append("[The session ended with it. The next step begins a new one: variables and files are gone.]")
    if result["submission"] is not None:
        paragraphs.append(f"[{episode.score_message(episode.turn)}]")
    return "\n\n".join(paragraphs)


def _ask_ideator(episode: Episode[CodeactSettings], query: Mapping[str, str]) -> str:
    """Ask the ideator, or take a fixed answer; returns the observation."""
    ideator = str(episode.settings.ideator)
    entry: Help = {}
    if ideator in ideas.FIXED:
        answer, idea = ideas.FIXED[ideator], None
    else:
        shorten, tokens = partial(episode.shorten, "ideator"), episode.settings.trajectory_tokens
        for share in ideas.SHARES:
            messages = ideas.question(episode.messages, query, int(tokens * share), shorten)
            reply = episode.consult("ideator", "ideator", messages)
            if "refused" not in reply:
                break
        if "refused" in reply:
            idea, entry = None, {"said": "", "refused": reply["refused"]}
        else:
            episode.charge("ideator", reply)
            # An answer that is cut off or in another format helps nobody, and is no fault of the implementer.
            idea, _ = ideas.idea_and_format(reply["text"], reply["finish_reason"])
            entry = {"said": reply["text"]}
        answer = ideas.as_text(idea) if idea else ideas.UNANSWERED if "refused" in entry else ideas.FIXED["null"]
    episode.turn["help"] = {**entry, "query": dict(query), "answer": answer, "idea": idea, "model": ideator}
    return escaped(answer)
