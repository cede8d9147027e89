"""Scaffold `codeact`: a Python session and a shell in the sandbox, and an ideator to ask (MLE-Ideator, section 3.1).

Covered: the actions as tags or tool calls, a session that dies and is begun anew, the ideator or what stands in its
place, the state at every request. Not covered: ideas carried out by another model (idea), the session itself (the sandbox).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mletools import prompts
from mletools.records.errors import ToolError
from mletools.records.ids import content_id
from mletools.records.tape import Tape
from mletools.scaffolds import ideas, observations
from mletools.scaffolds.calls import Fault, Tool, as_functions, read_action
from mletools.scaffolds.episode import Episode
from mletools.scaffolds.facts import split_told, tell
from mletools.scaffolds.job import Ended, Job, Place, Settings
from mletools.scaffolds.quoting import fenced

SETTINGS = Settings(
    max_turns=50,
    max_seconds=3600.0,
    max_answer_tokens=4096,
    execution_seconds=1200.0,
    own={"ideator": None, "trajectory_tokens": 32000},
)
EVALUATION: dict[str, Any] = {}
INPUT = "task"
PROMPTS = ("codeact-system", "codeact-help", "task", "ideator")
SESSIONS = True

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


def check(settings: Settings) -> Settings:
    """The settings as they are to be. ToolError for some that this scaffold cannot work with."""
    if settings.own["ideator"] == "":
        raise ToolError("--ideator: name a model, or null or vague")
    return settings


def work(job: Job, place: Place, tape: Tape) -> Iterator[dict[str, Any]]:
    """The rollout of one episode; before it, where there is an ideator, a state for each request (stop_reason asked)."""
    settings = job.settings
    help_told = prompts.render("codeact-help") + "\n\n" if settings.own["ideator"] else ""
    system = prompts.render(
        "codeact-system",
        help=help_told,
        max_turns=str(settings.max_turns),
        max_minutes=f"{(settings.max_seconds or 86400.0) / 60:g}",
        execution_seconds=f"{settings.execution_seconds:g}",
    )
    question = tell("task", job.task, split=split_told(settings.validation > 0, settings.reveal_test))
    episode = Episode(job, place, tape, [{"role": "system", "content": system}, {"role": "user", "content": question}])
    try:
        yield from _turns(episode)
        reason = "finished"
    except Ended as ended:
        reason = ended.reason
    yield episode.record(reason)


def _turns(episode: Episode) -> Iterator[dict[str, Any]]:
    tools = (*TOOLS[:2], ASKING, TOOLS[2]) if episode.settings.own["ideator"] else TOOLS
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


def _ran(episode: Episode, kind: str, text: str) -> str:
    """Run a cell, and what the policy is told of it."""
    told = episode.cell(kind, text)
    cell = told["cell"]
    text = observations.text_of(cell["output"])
    said = [fenced(text) if text else "(no output)"]
    if cell["status"] != "ok":
        words = observations.WORDS[cell["status"]].replace("program", "step")
        said.append(f"[{words} {observations.after(cell['duration_s'])}.]")
    if not cell["alive"]:
        said.append("[The session ended with it. The next step begins a new one: variables and files are gone.]")
    if told["submission"] is not None:
        judged = observations.judged(episode.turn, episode.job.task, episode.settings.reveal_test)
        said.append(f"[{judged}]")
    return "\n\n".join(said)


def _ask_ideator(episode: Episode, query: Mapping[str, str]) -> str:
    own = episode.settings.own
    who = own["ideator"]
    if who in ideas.FIXED:
        answer, idea = ideas.FIXED[who], None
    else:
        asked = ideas.question(episode.messages, query, own["trajectory_tokens"])
        reply = episode.consult("ideator", "ideator", asked)
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


def _state(episode: Episode, query: Mapping[str, str]) -> dict[str, Any]:
    """The rollout so far as a state of its own: where an ideator takes up the work."""
    turn = len(episode.turns) - 1
    state = {**episode.state(), "query": dict(query), "rollout": episode.job.id, "turn": turn}
    so_far = episode.record("asked", state=state)
    copied = {**so_far, "id": content_id("state", episode.job.id, turn)}
    return {**copied, "messages": list(episode.messages), "turns": [dict(each) for each in episode.turns]}
