"""Calls of tools that stand in a reply's text, in the forms of the model families, where no server has parsed them.

Covered: Hermes and Qwen (JSON in <tool_call>), Qwen3-Coder, GLM, DeepSeek V3 to V3.2, Kimi K2, Mistral, Llama 3 and 4,
gpt-oss, Claude, ReAct's "Action:", Python calls, JSON in a fence or bare. Not covered: the scaffolds' own tags and
whether there is such a tool (actions).
"""

# ruff: noqa: RUF001 - DeepSeek writes a full-width bar in its markers

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .text import json_at, parsed, read_json

Arguments = dict[str, object] | str  # by name, or text: JSON, or a tool's only field


@dataclass(frozen=True)
class Call:
    """A call in a text, from `begin` to `end`. `form`: the family's; `closed`: it ends before the text does."""

    name: str
    arguments: Arguments
    begin: int
    end: int
    form: str
    closed: bool = True
    more: bool = False  # the same list holds further calls


_NAME = r"[\w.:/-]{1,80}"
_OPENERS: dict[str, str] = {
    "hermes": r"<tool_call>",
    "claude": rf'<(?:\w{{1,20}}:)?invoke\s{{1,9}}name="({_NAME})"\s{{0,9}}>',
    "deepseek_dsml": rf'<[｜|]DSML[｜|]invoke\s{{1,9}}name="({_NAME})"\s{{0,9}}>',
    "qwen3_coder": rf"<function=({_NAME})>",
    "deepseek": r"<｜tool▁call▁begin｜>",
    "kimi": r"<\|tool_call_begin\|>",
    "mistral": r"\[TOOL_CALLS\]",
    "llama": r"<\|python_tag\|>|<\|python_start\|>",
    "harmony": rf"\bto=(?:functions\.)?({_NAME})(?![\w.:-])[^\n]{{0,80}}?<\|message\|>",
    "react_brackets": rf"(?:^|\n)[ \t]{{0,9}}Action:[ \t]{{0,9}}({_NAME})\[(?=[^\[\]\n]{{0,500}}\][ \t]{{0,9}}(?:\n|$))",
    "react_text": rf"(?:^|\n)[ \t]{{0,9}}Action:[ \t]{{0,9}}({_NAME})[ \t]{{0,9}}\n[ \t]{{0,9}}Action Input:",
}
_OPENING = re.compile("|".join(f"(?P<{form}>{pattern})" for form, pattern in _OPENERS.items()))
# How each of them begins inside a text: a search for one of a few characters is far faster than one for all forms.
_HEAD = re.compile(r"<(?:[|｜]|tool_call>|function=|(?:\w{1,20}:)?invoke\s)|\[TOOL_CALLS\]|to=|\n[ \t]{0,9}Action:")
_PARAMETER = {
    "qwen3_coder": (re.compile(rf"<parameter=({_NAME})>"), "</parameter>"),
    "claude": (re.compile(rf'<(?:\w{{1,20}}:)?parameter\s{{1,9}}name="({_NAME})"[^<>\n]{{0,40}}>'), "parameter>"),
    "deepseek_dsml": (re.compile(rf'<[｜|]DSML[｜|]parameter\s{{1,9}}name="({_NAME})"[^<>\n]{{0,40}}>'), "DSML"),
    "glm": (re.compile(r"<arg_key>([^<>]{1,80})</arg_key>\s{0,9}<arg_value>"), "</arg_value>"),
}
_KEYS = ("name", "tool", "tool_name", "function", "action", "recipient_name")
_LISTS = ("tool_calls", "tool_uses", "function_calls", "calls", "actions")  # of an object that holds calls
_INNER = ("function", "function_call", "tool_call", "tool_use", "tool", "action", "call")  # of an object around a call
_VALUES = ("arguments", "parameters", "args", "input", "tool_input", "action_input", "params", "kwargs", "inputs")
_BESIDE = {"id", "type", "call_id", "index", "thought", "thoughts", "reasoning", "rationale", "explanation", "plan"}
_JSON_FENCE = re.compile(
    r"(?:^|\n)(?:Action:)?[ \t]{0,9}```(?:json|tool_call|tool_code)?[ \t]*\n(?=\s{0,9}[{\[])", re.IGNORECASE
)
_JSON_LINE = re.compile(r"(?:^|\n|>)[ \t]{0,9}(?=[{\[])")  # a line, or what follows a family's marker
_NAME_LINE = re.compile(
    rf"(?:^|\n|>)[ \t]{{0,9}}({_NAME})[ \t]{{0,9}}\n\s{{0,9}}(?:```(?:json)?[ \t]{{0,9}}\n)?(?=\{{)"
)
_PYTHON_CALL = re.compile(
    r"(?:^|\n|>)[ \t]{0,18}(?=(?:\[\s{0,9})?(?:print\()?(?:default_api\.|functions\.)?(\w{1,80})\()"
)
_PYTHON_END = ("\n```", "</", "<|")  # what may follow a Python call
_MOST_TRIED = 20  # places at which a call is tried
_TRIED = 40_000  # characters that are tried for a call in a text of any length


def first_call(text: str, known: Callable[[str], bool]) -> tuple[Call | None, int | None]:
    """(the first call of a text, where a second one begins). `known`: whether a tool has such a name.

    Bare JSON and Python calls count only where they name a known tool.
    """
    call = next(_marked(text), None) or _bare(text, known)
    if call is None:
        return None, None
    return call, call.end if call.more else next_call(text, call.end, known)


def next_call(text: str, at: int, known: Callable[[str], bool]) -> int | None:
    """Where the next call begins from a place on; None without one."""
    following = next(_openings(text, at), None)
    if following:
        return following.start()
    call = _bare(text[at:], known)
    return at + call.begin if call else None


def _openings(text: str, at: int = 0) -> Iterator["re.Match[str]"]:
    """The matches of _OPENING from a place on, in order."""
    match = _OPENING.match(text) if at == 0 else None
    while True:
        if match is not None:
            yield match
            at = match.end()
        head = _HEAD.search(text, at)
        if head is None:
            return
        match, at = _OPENING.match(text, head.start()), head.start() + 1


def _marked(text: str) -> Iterator[Call]:
    """Calls that begin with a family's marker, in order; what looks like one but cannot be read is passed over.

    What is never closed is tried up to the end: of a long text no more than twice its length is tried.
    """
    left = max(2 * len(text), _TRIED)
    for at, match in enumerate(_openings(text)):
        if at == _MOST_TRIED or left < 0:
            return
        name = next((group for group in match.groups() if group and group != match[0]), "")
        call = _READERS[str(match.lastgroup)](text, match, name)
        if call is not None:
            yield call
        else:
            left -= _until(text, match.end(), "</tool_call>")[1] - match.end()


def _until(text: str, at: int, closing: str) -> tuple[str, int, bool]:
    """(text up to `closing`, where that ends, whether it is there)."""
    end = text.find(closing, at)
    return (text[at:], len(text), False) if end < 0 else (text[at:end], end + len(closing), True)


def _parameters(body: str, form: str) -> dict[str, object]:
    """The values of XML-like parameters; the last may be unclosed."""
    opening, closing = _PARAMETER[form]
    values: dict[str, object] = {}
    at = 0
    while match := opening.search(body, at):
        value, at, closed = _until(body, match.end(), closing)
        if form in ("claude", "deepseek_dsml") and closed:
            value = value.rpartition("</")[0]
        if form == "deepseek_dsml":
            at = body.find(">", at) + 1 or len(body)
        values[match[1].strip()] = _value(value)
    return values


def _value(text: str) -> str:
    """A parameter's text without the line ends after its opening and before its closing tag."""
    return text.removeprefix("\n").removesuffix("\n")


# --- forms ------------------------------------------------------------------------------------------------------------


def _hermes(text: str, match: "re.Match[str]", name: str) -> Call | None:
    """<tool_call> with JSON, with <function=...> (Qwen3-Coder), or with <arg_key> (GLM)."""
    begin = match.start()
    decoded = _decoded(text, match.end())
    if decoded is not None:
        value, at = decoded
        _, end, closed = _until(text, at, "</tool_call>")
        return _named(value, begin, end if closed else at, "hermes")
    body, end, closed = _until(text, match.end(), "</tool_call>")
    inner = re.compile(_OPENERS["qwen3_coder"]).match(text, match.end() + len(body) - len(body.lstrip()))
    if inner:
        call = _function(text, inner, inner[1])
        return call and replace(call, begin=begin, end=max(call.end, end))
    head = body.partition("<arg_key>")[0].strip()
    if re.fullmatch(_NAME, head):
        return Call(head, _parameters(body, "glm"), begin, end, "glm", closed)
    try:
        value, rule = read_json(body)
    except ValueError:
        return None
    return _named(value, begin, end, rule or "hermes", closed)


def _function(text: str, match: "re.Match[str]", name: str) -> Call | None:
    body, end, closed = _until(text, match.end(), "</function>")
    if body.lstrip().startswith("{") and "<parameter=" not in body:
        return Call(name, body, match.start(), end, "llama", closed)
    return Call(name, _parameters(body, "qwen3_coder"), match.start(), end, "qwen3_coder", closed)


def _invoke(text: str, match: "re.Match[str]", name: str) -> Call | None:
    body, end, closed = _until(text, match.end(), "invoke>")
    return Call(name, _parameters(body, "claude"), match.start(), end, "claude", closed)


def _dsml(text: str, match: "re.Match[str]", name: str) -> Call | None:
    body, end, closed = text[match.end() :], len(text), False
    closing = re.compile(r"</[｜|]DSML[｜|]invoke>").search(text, match.end())
    if closing:
        body, end, closed = text[match.end() : closing.start()], closing.end(), True
    return Call(name, _parameters(body, "deepseek_dsml"), match.start(), end, "deepseek", closed)


def _deepseek(text: str, match: "re.Match[str]", name: str) -> Call | None:
    body, end, closed = _until(text, match.end(), "<｜tool▁call▁end｜>")
    head, separator, rest = body.partition("<｜tool▁sep｜>")
    if not separator:
        return None
    if not rest.lstrip().startswith("{"):  # V3: type, separator, name, and the arguments in a fence
        head, _, rest = rest.partition("\n")
    return Call(head.strip(), rest, match.start(), end, "deepseek", closed)


def _kimi(text: str, match: "re.Match[str]", name: str) -> Call | None:
    body, end, closed = _until(text, match.end(), "<|tool_call_end|>")
    head, separator, rest = body.partition("<|tool_call_argument_begin|>")
    return Call(re.sub(r":\d+$", "", head.strip()), rest, match.start(), end, "kimi", closed) if separator else None


def _mistral(text: str, match: "re.Match[str]", name: str) -> Call | None:
    decoded = _decoded(text, match.end())
    if decoded is not None and isinstance(decoded[0], list):
        return _named(decoded[0], match.start(), decoded[1], "mistral")
    head = re.compile(rf"\s{{0,9}}({_NAME})(?:\[CALL_ID\]\w{{0,40}})?(?:\[ARGS\])?\s{{0,9}}(?=\{{)").match(
        text, match.end()
    )
    if not head:
        return None
    decoded = _decoded(text, head.end())
    end = decoded[1] if decoded else len(text)
    return Call(head[1], text[head.end() : end], match.start(), end, "mistral", decoded is not None)


def _llama(text: str, match: "re.Match[str]", name: str) -> Call | None:
    decoded = _decoded(text, match.end())
    if decoded is not None:
        return _named(decoded[0], match.start(), decoded[1], "llama")
    body, end, closed = _until(text, match.end(), "<|python_end|>")
    body, _, _ = body.partition("<|eom_id|>")
    python = _python_call(body.strip(), match.start(), end)
    return python or Call("python", body, match.start(), end, "llama", closed)


def _harmony(text: str, match: "re.Match[str]", name: str) -> Call | None:
    end = re.compile(r"<\|(?:call|end|start|channel|return)\|>").search(text, match.end())
    at = end.start() if end else len(text)
    return Call(name, text[match.end() : at], match.start(), at, "harmony", end is not None)


def _react_text(text: str, match: "re.Match[str]", name: str) -> Call | None:
    end = re.compile(r"\n[ \t]{0,9}(?:Observation|Thought|Action):").search(text, match.end())
    at = end.start() if end else len(text)
    return Call(name, text[match.end() : at].strip(), match.start(), at, "react_text", True)


def _react_brackets(text: str, match: "re.Match[str]", name: str) -> Call | None:
    body, end, _ = _until(text, match.end(), "]")
    return Call(name, body, match.start(), end, "react_text")


_READERS: Mapping[str, Callable[[str, "re.Match[str]", str], Call | None]] = {
    "hermes": _hermes,
    "claude": _invoke,
    "deepseek_dsml": _dsml,
    "qwen3_coder": _function,
    "deepseek": _deepseek,
    "kimi": _kimi,
    "mistral": _mistral,
    "llama": _llama,
    "harmony": _harmony,
    "react_brackets": _react_brackets,
    "react_text": _react_text,
}


# --- JSON and Python without a marker ---------------------------------------------------------------------------------


def _bare(text: str, known: Callable[[str], bool]) -> Call | None:
    """The first call in a JSON fence, in JSON that begins a line or follows a marker or a name, or as Python."""
    left = 3 * len(text)
    for form, pattern in (("fenced_json", _JSON_FENCE), ("bare_json", _JSON_LINE), ("bare_json", _NAME_LINE)):
        at = 0
        for _ in range(_MOST_TRIED):
            match = pattern.search(text, at)
            if match is None or left < 0:
                break
            decoded = _decoded(text, match.end())
            if decoded is None:
                left -= len(text) - match.end()
                at = match.end() + 1
                continue
            value, end = decoded
            closing = re.compile(r"\s{0,9}```").match(text, end)
            at = closing.end() if closing and form == "fenced_json" else end
            call = _named({"name": match[1], "arguments": value} if match.groups() else value, match.start(), at, form)
            if call and known(call.name):
                return call
    return _python(text, known)


def _python(text: str, known: Callable[[str], bool]) -> Call | None:
    """The first Python call of a known tool that begins a line or follows a marker, and ends the text or a frame."""
    left = 3 * len(text)
    for _, match in zip(range(_MOST_TRIED), _PYTHON_CALL.finditer(text), strict=False):
        if not known(match[1]):
            continue
        for end in (len(text), *(text.rfind(mark, match.end()) for mark in _PYTHON_END)):
            if end < 0 or (left := left - (end - match.end())) < 0:
                continue
            call = _python_call(text[match.end() : end].strip(), match.start(), end)
            if call is not None and known(call.name):
                return call
    return None


def _python_call(text: str, begin: int, end: int) -> Call | None:
    """`f(a="...")` or `f("...")`, also printed, or a list whose first item is such a call; arguments are constants."""
    tree = parsed(text)
    statement = tree.body[0] if tree and len(tree.body) == 1 else None
    node = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(node, ast.List) and node.elts:
        node = node.elts[0]
    if isinstance(node, ast.Call) and _function_name(node) == "print" and len(node.args) == 1 and not node.keywords:
        node = node.args[0]
    name = _function_name(node) if isinstance(node, ast.Call) else None
    if name is None or not isinstance(node, ast.Call):
        return None
    words = [(word.arg, word.value) for word in node.keywords] or [(None, value) for value in node.args]
    constants = {word: value.value for word, value in words if isinstance(value, ast.Constant)}
    if len(constants) != len(node.keywords) + len(node.args):
        return None
    if list(constants) == [None]:
        only = constants[None]
        return Call(name, only, begin, end, "pythonic") if isinstance(only, str) and node.args else None
    return Call(name, {str(word): value for word, value in constants.items()}, begin, end, "pythonic")


def _function_name(call: ast.Call) -> str | None:
    """f of f(...), and of default_api.f(...) and functions.f(...)."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.attr if function.value.id in ("default_api", "functions") else None
    return function.id if isinstance(function, ast.Name) else None


def _decoded(text: str, at: int) -> tuple[Any, int] | None:
    """(value, end) of the JSON object or list at a place, blanks before it passed over; None where there is none."""
    start = re.compile(r"\s*").match(text, at).end()  # type: ignore[union-attr]
    if not text.startswith(("{", "["), start):
        return None
    try:
        return json_at(text, start)
    except ValueError:
        return None


def _named(value: Any, begin: int, end: int, form: str, closed: bool = True) -> Call | None:
    """The call that a JSON object is: {"name": ..., "arguments": ...}, or by one of the other usual keys.

    Of a list of calls, which an object may hold, the first.
    """
    if isinstance(value, dict):
        value = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), value)
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        call = _named(value[0], begin, end, form, closed) if not any(key in value[0] for key in _LISTS) else None
        return call and replace(call, more=len(value) > 1)
    if not isinstance(value, dict):
        return None
    inner = next((value[key] for key in _INNER if isinstance(value.get(key), dict)), None)
    if inner is not None:
        value = inner
    name = next((value[key] for key in _KEYS if isinstance(value.get(key), str)), None)
    arguments: Any
    if name is None:  # {name: arguments}
        named = [(key, item) for key, item in value.items() if key not in _BESIDE]
        if len(named) != 1 or inner is not None:
            return None
        name, arguments = named[0]
    else:
        beside = {key: item for key, item in value.items() if key not in (*_KEYS, *_BESIDE)}
        arguments = next((value[key] for key in _VALUES if value.get(key) is not None), beside)
    if isinstance(arguments, list) and len(arguments) == 1:
        arguments = arguments[0]
    return Call(name, arguments, begin, end, form, closed) if isinstance(arguments, (dict, str)) else None
