"""Agents that are of no use: one that breaks the protocol, one that does nothing.

The malformed one goes through every way there is to break its protocol, one a turn, and is the solver now and then and
once it is through. Covered: every role, tags and tool calls. Not covered: attacks (hostile).
"""

import json

from ..models import Reply, Request, ToolCall
from ..solutions.bank import simplest
from . import conversation, ideas, solver
from .answers import answer, rng_of
from .conversation import act, arguments, name_of, tagged

RIGHT = 0.15  # of the malformed agent's turns are the solver's
DONE = "I am done."


def malformed(request: Request, levels: list[str]) -> Reply:
    """The reply of the agent that breaks the protocol."""
    return _turn(request, levels) if request.role in conversation.POLICIES else _answer(request)


def lazy(request: Request) -> Reply:
    """The reply of the agent that does nothing."""
    spoken = len(conversation.steps(request))
    if request.role not in conversation.POLICIES or spoken % 3 == 1:
        return Reply(DONE)
    if request.role == "memory":
        return act(request, "look", "overview")
    return act(request, "stop", thought="This is enough.")


def _turn(request: Request, levels: list[str]) -> Reply:
    assert request.task is not None
    spoken = len(conversation.steps(request))
    ways = (_of_calls if request.tools else _of_tags)(request, simplest(request.task))
    if spoken >= len(ways) or rng_of(request)("right") < RIGHT:
        return solver.play(request, levels)
    return ways[spoken]


def _of_tags(request: Request, code: str) -> list[Reply]:
    """Ways to break a protocol of tags."""
    right = tagged(request, "program", code)
    tag = "tool_call" if request.role == "react" else name_of(request, "program")
    unknown = '<tool_call>\n{"name": "Shell", "arguments": {"command": "ls"}}\n</tool_call>'
    bad_body = {
        "react": '<tool_call>\n{"name": "Score", "arguments": {\n</tool_call>',
        "codeact": "<seek_help>\nWhat shall I do?\n</seek_help>",
        "memory": "<request_info>the answers</request_info>",
    }[request.role]
    texts = [
        "<think>What shall I do?</think>\nI will train a model.",
        f"{right}\n{right}",
        right.rpartition("</")[0],
        unknown if request.role == "react" else "<run_program>\nprint(1)\n</run_program>",
        bad_body,
        tagged(request, "program", " \n"),
        f"```python\n{code}```",
        "",
        f"<think>I will write\n{right}",
        right.replace(f"<{tag}>", f"<{tag.upper()}>").replace(f"</{tag}>", f"</{tag.upper()}>"),
        f'<{tag}>\n["Score", 1, null]\n</{tag}>' if request.role == "react" else f"<{tag}></{tag}>",
        f"</{tag}>{right[len(tag) + 2 :]}",
        f"{unknown}\n{right}",
    ]
    return [*map(Reply, texts), Reply(right[: len(right) // 2], "length")]


def _of_calls(request: Request, code: str) -> list[Reply]:
    """Ways to break a protocol of tool calls."""
    name = name_of(request, "program")
    given, number = arguments(request, "program", code), len(request.messages)

    def calls(*made: tuple[str, str], text: str = "", reason: str = "stop") -> Reply:
        numbered = (ToolCall(f"call_{number}_{at}", *call) for at, call in enumerate(made))
        return Reply(text, reason, tool_calls=tuple(numbered))

    return [
        calls(text="<think>What shall I do?</think>\nI will train a model."),
        calls((name, given), (name, given)),
        calls((name, given[: len(given) // 2])),
        calls(("Shell", '{"command": "ls"}')),
        calls((name, "{}")),
        calls((name, "[1, 2]")),
        calls((name, json.dumps(dict.fromkeys(json.loads(given), " ")))),
        calls((name, json.dumps(dict.fromkeys(json.loads(given), 7)))),
        calls((name, "")),
        calls(("", given)),
        calls((name, given), text=tagged(request, "program", "print(1)\n")),
        calls((name, given[: len(given) // 2]), reason="length"),
    ]


def _answer(request: Request) -> Reply:
    """To a role of one question: an idea or a program that is not in its form."""
    rng = rng_of(request)
    if request.role == "idea-type":
        return Reply(
            rng.pick("how", ("", '{"type": "All of them"}', "Data Preparation", '{"rationale": "none", "type": '))
        )
    assert request.task is not None
    if request.role == "ideator":
        idea = ideas.ITEMS.format("Nothing works.", "Train a random forest.", "It is better.")
        items = idea.split("\nACTION:")
        ways = [
            "",
            items[0],
            f"ACTION:{items[1]}",
            f"{idea}\n{idea}",
            f"Well.\n{idea}",
            '{"ACTION": "forest"}',
            idea[:40],
        ]
        return Reply(rng.pick("how", ways))
    right = answer(request.task, "tree", request.seed)
    block = right[right.index("```") :]
    ways = [
        "",
        right[: right.index("```")],
        right[:-3],
        f"{right}\n{block}",
        block.replace("python", "text"),
        block[10:],
    ]
    way = rng.pick("how", [*ways, right[: len(right) // 2]])
    return Reply(way, "length" if way == right[: len(right) // 2] else "stop")
