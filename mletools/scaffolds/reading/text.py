"""The parts of a reply's text: its answer, what is written in another's name, tools' tags, Python, JSON, arguments.

Covered: <think>, <thinking>, [THINK] and gpt-oss channels; markers that end a turn; invented observations; tags in any
case or by a tool's other names, with attributes, never closed, only spoken of, in a program's strings; JSON with small
faults of form; texts of any length and depth in linear time. Not covered: reasoning that a server set apart (it is a
field of the reply); what stands between tags (actions) and in calls (calls); repairing programs; JSON that was cut off.
"""

# ruff: noqa: RUF001 - DeepSeek writes a full-width bar in its markers

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ...base.programs import BYTE_ORDER_MARK, parse_expression, parse_program
from ..interface import Reply
from .tool import Tool

# Names of an argument that models use for ours, and of a JSON field that holds a program.
OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "code": (
        "code", "program", "script", "source", "source_code", "python", "python_code", "cell", "solution", "snippet",
        "implementation", "input", "content",
    ),
    "command": ("command", "cmd", "bash", "shell", "script", "code", "input", "commands"),
}  # fmt: skip
LARGEST = 50_000  # characters that are parsed as Python: the densest take a second
_FENCED = re.compile(r"(`{3,}|~{3,})[^`]*")
_JSON_PIECE = re.compile(r'\\.|"|,\s*(?=[}\]])', re.DOTALL)
_MOST_CLOSINGS = 4  # closing tags in a program's strings
_THOUGHT = re.compile(r"\s*<think>(.*?)</think>", re.DOTALL)
_OTHER_THOUGHT = re.compile(r"\s*(?:<thinking>(.*?)</thinking>|\[THINK\](.*?)\[/THINK\])", re.DOTALL)
_CHANNEL = re.compile(
    r"<\|channel\|>\s*(analysis|commentary|final)\b[^\n<]{0,80}(?:<\|constrain\|>[^\n<]{0,20})?<\|message\|>"
)
_CHANNEL_END = re.compile(r"<\|(?:end|call|return|start|channel)\|>")
# A chat template's markers: after one of them the turn is over.
END_OF_TURN = re.compile(
    r"<\|(?:im_end|im_start|eot_id|eom_id|end_of_text|endoftext|start_header_id|end|return|user|observation|system)\|>"
    r"|</s>|<end_of_turn>|<start_of_turn>|<｜end▁of▁sentence｜>|<｜User｜>"
)
_OBSERVATION = re.compile(
    r"<(?:tool_response|tool_result|tool_results|function_results|observation)>|<｜tool▁output"
    r"|(?:^|\n)[ \t]{0,9}(?:\*\*)?(?:Observation|OBSERVATION|Tool output|Human|User)(?:\*\*)?:"
)
_STRONG = re.compile(f"<tool_response>|{END_OF_TURN.pattern}")


def after_thinking(text: str) -> str:
    """The text after its last reasoning part; nothing where that never ended."""
    rest = text.rpartition("</think>")[2]
    # Thinking that never ended holds drafts, no answer.
    return "" if rest.lstrip().startswith("<think>") else rest


def after_first_thought(text: str, tags: Sequence[str] = ()) -> str:
    """The text after the reasoning part that it begins with; nothing where that never ended.

    All that follows counts, later reasoning too, so that a second action is seen as one. A </think> that stands in one of
    the `tags`, in a program's string, ends no reasoning unless <think> began it.
    """
    head, end, rest = text.partition("</think>")
    if head.lstrip().startswith("<think>"):
        return rest
    return rest if end and "<think>" not in head and not _within_tag(head, rest, tags) else text


def _within_tag(head: str, rest: str, tags: Sequence[str]) -> bool:
    """Whether a tag is open at the end of `head`, and closed in `rest` before another is opened: drafts are not."""
    opened = [tag for tag in tags if head.rfind(f"<{tag}>") > head.rfind(f"</{tag}>")]
    ends = [end for tag in opened if (end := rest.find(f"</{tag}>")) >= 0]
    return bool(ends) and not any(f"<{tag}>" in rest[: min(ends)] for tag in tags)


def only_reasoning(reply: Reply) -> str:
    """The reasoning of a reply that is nothing else and did not end it by itself; otherwise nothing.

    A server set it apart; or a model that was put into reasoning by its template acts before it has closed it.
    """
    text = reply["text"]
    apart = (reply.get("reasoning") or "").strip()
    if apart or not text.strip():
        return "" if text.strip() else apart
    opened = text.lstrip().startswith("<think>")
    head, closed, rest = text.rpartition("</think>")
    if closed:
        return "" if rest.strip() or opened else head
    return text.lstrip().removeprefix("<think>") if opened else ""


def other_reasoning(text: str) -> tuple[str, str, str | None]:
    """(reasoning, answer, rule) of a text that marks its reasoning in another way than <think>; rule None without.

    Of gpt-oss channels the answer is the final one and the calls, with their headers.
    """
    if "<|channel|>" in text:
        return _of_channels(text)
    if text.startswith("analysis") and "assistantfinal" in text:  # channels whose markers a server has removed
        head, _, answer = text.rpartition("assistantfinal")
        return head, answer, "harmony"
    match = _OTHER_THOUGHT.match(text)
    if match:
        return match[1] or match[2] or "", text[match.end() :], "reasoning_tags"
    if text.lstrip().startswith(("<thinking>", "[THINK]")):
        return text, "", "reasoning_tags"
    return "", text, None


def _of_channels(text: str) -> tuple[str, str, str]:
    reasoning, answer, at = [], [], 0
    while match := _CHANNEL.search(text, at):
        header = max(at, match.start() - 80)  # the call's name may stand ahead of its channel
        end = _CHANNEL_END.search(text, match.end())
        at = end.start() if end else len(text)
        if " to=" in text[header : match.end()]:
            answer.append(text[header : end.end() if end else at])
        elif match[1] == "final":
            answer.append(text[match.end() : at])
        elif match[1] == "analysis":
            reasoning.append(text[match.end() : at])
    return "".join(reasoning), "\n".join(answer), "harmony"


def foreign_part(text: str, at: int) -> tuple[int, str] | None:
    """(where, rule): a text goes on in another's name from there; a template's marker or an invented observation."""
    end, observation = END_OF_TURN.search(text, at), _OBSERVATION.search(text, at)
    if observation and not (end and text[at : end.start()].isspace() and end.start() < observation.start()):
        return min(observation.start(), end.start() if end else len(text)), "invented_observation"
    return (end.start(), "end_of_turn") if end else None


def own_length(text: str) -> int:
    """Where the first marker of a template or <tool_response> stands; the text's length without one."""
    match = _STRONG.search(text)
    return match.start() if match else len(text)


def thinks(reply: Reply, lenient: bool = False) -> bool:
    """Whether a reply begins with a reasoning part that is not empty: SandMLE's format. `lenient`: in any form.

    A template may have opened the part ahead of the reply; a server may have set it apart.
    """
    if (reply.get("reasoning") or "").strip():
        return True
    text = reply["text"]
    match = _THOUGHT.match(text)
    if match:
        return bool(match.group(1).strip())
    head, end, _ = text.partition("</think>")
    if end and "<think>" not in head and head.strip():
        return True
    return lenient and bool(other_reasoning(text)[0].strip())


# --- tools' tags ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tagged:
    """What stands in a tag, from `begin` to `end`; `rule` is the leniency that it takes to see the tag."""

    tag: str
    body: str
    begin: int
    end: int
    rule: str | None = None


def all_tags(text: str, names: Sequence[str]) -> list[Tagged]:
    """Each tag in turn; what looks like a tag inside a body is part of the body."""
    opening = re.compile(rf"<({'|'.join(map(re.escape, names))})>")
    found, at = [], 0
    while match := opening.search(text, at):
        end = text.find(f"</{match.group(1)}>", match.end())
        if end < 0:
            raise ValueError(f"<{match.group(1)}> is opened and never closed.")
        at = end + len(match.group(1)) + 3
        found.append(Tagged(match.group(1), text[match.end() : end], match.start(), at))
    return found


def first_tag(text: str, tools: Sequence[Tool], tags: Sequence[str]) -> Tagged | None:
    """The first tag of a tool, by any of its names; <finish/> is empty, one that is never closed runs to the end.

    A tag that is only spoken of, in words ahead of one that begins a line, is passed over.
    """
    known = {tool.name: tool for tool in tools}
    names = {alias: tool.name for tool in tools for alias in tool.aliases}
    names |= {name.lower(): name for name in (*tags, *known)}
    opening = re.compile(rf"<({'|'.join(map(re.escape, names))})(?:\s[^<>/\n]{{0,80}})?(/?)>", re.IGNORECASE)
    match = opening.search(text)
    if match is None:
        return None
    mentioned = _begins_line(text, opening, match)
    match, rule = mentioned or match, "mentioned_tag" if mentioned else None
    tag, begin = names[match[1].lower()], match.start()
    if match[2]:
        return Tagged(tag, "", begin, match.end(), "self_closing")
    if match[0] != f"<{tag}>":
        rule = "tag_case" if match[1].lower() == tag.lower() else "tool_tag"
    elif tag not in tags:
        rule = "tool_tag"
    closing = re.compile(rf"</{re.escape(match[1])}\s{{0,9}}>", re.IGNORECASE)
    closings = list(islice(closing.finditer(text, match.end()), _MOST_CLOSINGS))
    if closings:
        takes_code = tag in known and "code" in known[tag].fields
        programs = (each for each in closings if takes_code and parsed(text[match.end() : each.start()]) is not None)
        closed = next(programs, closings[0])
        if closed is not closings[0]:
            rule = "tag_in_string"
        elif rule is None and closed[0] != f"</{tag}>":
            rule = "tag_case"
        return Tagged(tag, text[match.end() : closed.start()], begin, closed.end(), rule)
    foreign = foreign_part(text, match.end())
    end = foreign[0] if foreign else len(text)
    return Tagged(tag, text[match.end() : end], begin, end, "unclosed_tag")


def _begins_line(text: str, opening: "re.Pattern[str]", first: "re.Match[str]") -> "re.Match[str] | None":
    """The tag that begins a line, where the first one stands among words and is not closed ahead of it."""
    line = text[text.rfind("\n", 0, first.start()) + 1 : text.find("\n", first.end()) % (len(text) + 1)]
    if not line.partition(first[0])[0].strip() or not line.partition(first[0])[2].strip():
        return None
    following = next((m for m in opening.finditer(text, first.end()) if text[m.start() - 1] == "\n"), None)
    if following is None:
        return None
    closing = f"</{first[1]}>"
    if line.partition(first[0])[2].startswith(closing):  # empty, as the end of the work is: words have to follow
        return following if line.partition(closing)[2].strip() else None
    if closing in text[first.end() : following.start()]:
        return None
    return following


# --- Python and JSON --------------------------------------------------------------------------------------------------


def parsed(code: str) -> ast.Module | None:
    """The syntax tree of a program; None for an empty text, no Python, or more than LARGEST characters.

    Of a reply a byte order mark is no part of the program, as other invisible characters are not.
    """
    if len(code) > LARGEST or not code.strip() or code.startswith(BYTE_ORDER_MARK):
        return None
    try:
        return parse_program(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def acts(tree: ast.Module) -> bool:
    """Whether Python would do something: a printed number or name is no program."""
    return any(isinstance(node, (ast.Call, ast.Import, ast.ImportFrom)) for node in ast.walk(tree))


TOO_DEEP = "too many brackets within brackets"


def json_at(text: str, start: int) -> tuple[Any, int]:
    """(value, end) of the JSON value that begins at `start`, raw line ends in strings included.

    json.JSONDecodeError: there is none.
    """
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start)
    except RecursionError:
        raise json.JSONDecodeError(TOO_DEEP, text, len(text)) from None


def read_json(text: str) -> tuple[Any, str | None]:
    """(value, rule) of a text that is JSON; the rule is None where no leniency was needed. ValueError: it is no JSON.

    Tried in this order: as it stands (raw line ends in strings included), without a fence around it ("fence"), without
    commas before a closing bracket ("trailing_comma"), as a Python literal with JSON's types ("python_literal").
    """
    try:
        return _loads(text), None
    except ValueError as error:
        problem = error
    bare = without_fence(text)
    steps = ((bare, "fence"), (_without_trailing_commas(bare), "trailing_comma"))
    for candidate, rule in steps:
        try:
            return _loads(candidate), rule
        except ValueError:
            continue
    try:
        return _literal(bare), "python_literal"
    except ValueError:
        raise problem from None


def without_fence(text: str) -> str:
    """The text, or the content of the one fence around all of it, which may close in the code's last line."""
    opening, _, rest = text.strip().partition("\n")
    begun = _FENCED.fullmatch(opening)
    if begun and rest.endswith(begun[1]):
        inside = rest.removesuffix(begun[1])
        line = inside.rpartition("\n")[2]
        inside = inside[: len(inside) - min(3, len(line) - len(line.rstrip(" ")))]
        return inside.removesuffix("\n") + "\n"
    return text.strip("\n") + "\n"


def valid_text(value: str) -> str:
    """The value with U+FFFD for halves of surrogate pairs: JSON can escape them, but no program holds them."""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _loads(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _without_trailing_commas(text: str) -> str:
    pieces, at, in_string = [], 0, False
    for match in _JSON_PIECE.finditer(text):
        if match[0] == '"':
            in_string = not in_string
        elif match[0][0] == "," and not in_string:
            pieces.append(text[at : match.start()])
            at = match.end()
    return "".join([*pieces, text[at:]])


def _literal(text: str) -> Any:
    """The dict or list that a Python literal is."""
    if len(text) > LARGEST:
        raise ValueError("too long for a literal")
    try:
        value = ast.literal_eval(parse_expression(text.strip()))
        if not isinstance(value, (dict, list)):
            raise ValueError("neither an object nor a list")
        return json.loads(json.dumps(value, allow_nan=False))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None


# --- a call's arguments -----------------------------------------------------------------------------------------------


def read_arguments(tool: Tool, arguments: dict[str, object] | str) -> tuple[dict[str, str] | None, str | None]:
    """(fields, rule) of a call's arguments: JSON with small faults, or the text of a tool's only field."""
    rule: str | None = None
    value: Any = arguments
    if isinstance(arguments, str):
        try:
            value, rule = read_json(arguments or "{}")
        except ValueError:
            value, rule = _raw(tool, arguments), "raw_argument"
        if isinstance(value, str):  # JSON in JSON
            try:
                value, rule = read_json(value)[0], "raw_argument"
            except ValueError:
                value = _raw(tool, value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        value, rule = _raw(tool, value[0]), "raw_argument"
    if isinstance(value, dict) and len(value) == 1 and not value.keys() & tool.fields.keys():
        [inner] = value.values()
        value = inner if isinstance(inner, dict) else value
    if not isinstance(value, dict):
        return None, None
    whole = {name: _in_lines(item) if name in tool.fields else item for name, item in value.items()}
    rule = "raw_argument" if whole != value else rule
    fields = texts(whole)
    if len(tool.fields) == 1 and not fields.keys() & tool.fields.keys():
        [only] = tool.fields
        meant = [name for name in fields if len(fields) == 1 or name.lower() in OTHER_NAMES.get(only, ())]
        if len(meant) == 1:
            return {only: texts({only: _in_lines(value[meant[0]])})[only]}, "argument_name"
    return fields, rule


def _in_lines(value: object) -> object:
    """A text, of a list of texts with a line each."""
    if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        return "\n".join(line.rstrip("\n") for line in value) + "\n"
    return value


def _raw(tool: Tool, text: str) -> dict[str, str] | None:
    """A text as the only field of a tool: a program if Python can read it, anything else if it is not broken JSON."""
    if len(tool.fields) != 1:
        return {} if not tool.fields else None
    name = next(iter(tool.fields))
    inside = without_fence(text)
    if name == "code":
        return {name: inside} if parsed(inside) is not None else None
    return {name: inside} if not inside.lstrip().startswith(("{", "[")) else None


def strict_arguments(text: str) -> dict[str, str]:
    """A call's arguments, in JSON; what is not text is kept as JSON."""
    try:
        arguments = json.loads(text or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments are no JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise ValueError("the arguments are no JSON object")
    for name, value in arguments.items():
        if _in_lines(value) is not value:
            raise ValueError(f"{name} is a list of lines")
    return texts(arguments)


def texts(arguments: Mapping[str, object]) -> dict[str, str]:
    return {
        str(name): valid_text(value) if isinstance(value, str) else json.dumps(value)
        for name, value in arguments.items()
    }


def sendable(arguments: str) -> str:
    """A call's arguments as servers take them, who refuse a conversation with any that are no JSON object."""
    for strict in (True, False):
        try:
            value = json.loads(arguments, strict=strict)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return arguments if strict else json.dumps(value)
    return "{}"
