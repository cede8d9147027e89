"""Checked reading of a chat completion in OpenAI's chat protocol.

Covered: text as a string or as a list of parts, tool calls, reasoning beside the text and in place of it, refusals,
exact token ids and logprobs, token counts, the cost that a server states, streams (joined by `streaming`).
Not covered: requests (http), errors (server_errors), parsing the arguments of a call (scaffolds), more than the first
choice.
"""

import json
import math
from typing import Any, TypeVar

from ..base import jsonl
from . import Reply, ToolCall
from .streaming import CUT, is_stream, joined

Kind = TypeVar("Kind")
NO_COMPLETION = "the body is no chat completion"
# vLLM while it shuts down; Gemini, whose model wrote a call that its server could not read; a stream that was cut.
BROKEN_OFF = ("abort", "error", "MALFORMED_FUNCTION_CALL", "malformed_function_call", CUT)
MOST_ID, MOST_COUNT = 2**31, 10**12  # exclusive bounds of a token id and of a token count
MOST_USD = 10**6  # of one request
FINISH_REASONS = {  # in a reply; every other is "stop"
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "refusal": "refusal",
    "SAFETY": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
}
LEAST_LOGPROB, MOST_LOGPROB = -1e30, 0.01  # rounding may lift a logprob above 0


def read_reply(body: bytes, exact: bool = True) -> Reply:
    """The reply in a chat completion; ValueError with a readable reason when the body is none or holds invalid values.

    A value that the server omits is None. `logprobs` are kept only if `exact`: by default servers (vLLM) report them
    before temperature and top_p, so at another temperature than 1 they are not those of the sampling distribution, and
    the response does not say which they are (`ServerOptions.processed_logprobs`).
    """
    try:
        answer = joined(body) if is_stream(body) else jsonl.loads(body)
    except ValueError as error:
        raise ValueError(NO_COMPLETION) from error
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if isinstance(choices, list) and len(choices) > 1:
        raise ValueError(f"the answer has {len(choices)} choices where 1 was asked for")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ValueError(NO_COMPLETION)
    finish = choice.get("finish_reason")
    if finish in BROKEN_OFF:
        raise ValueError(f"the server ended the answer with {finish!r}")
    token_ids = _ids(choice.get("token_ids"))
    prompt_ids = _ids(answer.get("prompt_token_ids") or choice.get("prompt_token_ids"))
    usage = _of(answer, "usage", dict) or {}
    for ids, name in ((prompt_ids, "prompt_tokens"), (token_ids, "completion_tokens")):
        count = _count(usage, name)
        if ids is not None and count is not None and count != len(ids):
            raise ValueError(f"the answer has {len(ids)} token ids and says {count} {name}")
    calls = _calls((message.get("tool_calls") and _of(message, "tool_calls", list)) or [])
    text, reasoning = _text_and_reasoning(message)
    refusal = _of(message, "refusal", str)
    finish_reason = "refusal" if refusal else FINISH_REASONS.get(str(finish), "stop")
    if not text and reasoning and not calls and finish_reason == "stop":
        text, reasoning = _answer_in_reasoning(reasoning)
    return Reply(
        text=text or refusal or "",
        finish_reason=finish_reason,
        prompt_token_ids=prompt_ids,
        token_ids=token_ids,
        logprobs=_logprobs(choice.get("logprobs"), token_ids) if exact else None,
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        cached_tokens=_detail(usage.get("prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=_detail(usage.get("completion_tokens_details"), "reasoning_tokens"),
        tool_calls=calls,
        reasoning=reasoning or None,
        usd=_usd(usage.get("cost")),
    )


def _text_and_reasoning(message: dict[str, object]) -> tuple[str, str]:
    """The text and the reasoning of a message, whose content is a text or a list of typed parts."""
    content = message.get("content")
    texts, thoughts = list[str](), list[str]()
    if isinstance(content, list) and all(isinstance(part, dict) and _is_text(part, "type") for part in content):
        for part in content:
            (thoughts if part["type"] in ("thinking", "reasoning") else texts).append(_part_text(part))
    else:
        texts.append(_of(message, "content", str) or "")
    apart = _of(message, "reasoning_content", str) or _of(message, "reasoning", str)
    return "".join(texts), apart or "".join(thoughts)


def _part_text(part: dict[str, object]) -> str:
    """The text of a part: {"type": "text", "text"}, Mistral's {"type": "thinking", "thinking": [parts]}, or a refusal."""
    value = next((part[key] for key in ("text", "thinking", "reasoning", "refusal") if part.get(key) is not None), "")
    if isinstance(value, list):
        return "".join(_part_text(each) for each in value if isinstance(each, dict))
    return value if isinstance(value, str) else ""


def _answer_in_reasoning(reasoning: str) -> tuple[str, str]:
    """(text, reasoning) of an answer that a server's parser took for reasoning as a whole, up to its closing mark."""
    thoughts, mark, text = reasoning.partition("</think>")
    return (text.strip("\n"), thoughts) if mark and text.strip() else ("", reasoning)


def _is_text(value: dict[str, object], key: str) -> bool:
    return isinstance(value.get(key), str)


def _of(holder: dict[str, object], key: str, kind: type[Kind]) -> Kind | None:
    """The value, or None where there is none; ValueError if it is not of `kind`."""
    value = holder.get(key)
    if value is None or isinstance(value, kind):
        return value
    raise ValueError(f"{key!r} in the answer is {_kind(value)}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}
    return names.get(type(value), "a number")


def _count(holder: dict[str, object], key: str) -> int | None:
    value = holder.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_COUNT):
        return value
    raise ValueError(f"{key!r} in the answer is not a count")


def _detail(details: Any, key: str) -> int | None:
    """A count that nothing rests on; None where there is none."""
    try:
        return _count(details, key) if isinstance(details, dict) else None
    except ValueError:
        return None


def _usd(value: Any) -> float | None:
    """The cost of the request in `usage.cost`, in USD (OpenRouter); None where it is no such number."""
    if type(value) not in (int, float) or not (math.isfinite(value) and 0 <= value < MOST_USD):
        return None
    return float(value)


def _ids(value: Any) -> list[int] | None:
    if value is None or value == []:
        return None
    if isinstance(value, list) and all(type(one) is int and 0 <= one < MOST_ID for one in value):
        return value
    raise ValueError("the answer's token ids are invalid")


def _logprobs(value: Any, token_ids: list[int] | None) -> list[float] | None:
    """One logprob per token id, as a trainer needs; None without ids, or where one is missing."""
    content = value.get("content") if isinstance(value, dict) else value
    if token_ids is None or content is None or content == []:
        return None
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise ValueError("the answer's logprobs are invalid")
    if len(content) != len(token_ids):
        raise ValueError(f"the answer has {len(token_ids)} token ids and {len(content)} logprobs")
    values = [one.get("logprob") for one in content]
    if any(one is None for one in values):
        return None
    if not all(type(one) in (int, float) and LEAST_LOGPROB <= one <= MOST_LOGPROB for one in values):
        raise ValueError("the answer's logprobs are invalid")
    return [min(0.0, float(one)) for one in values]


def _calls(values: list[Any]) -> tuple[ToolCall, ...]:
    calls = []
    for index, value in enumerate(values):
        function = value.get("function") if isinstance(value, dict) else None
        if not isinstance(function, dict) or not _is_text(function, "name"):
            raise ValueError("a tool call in the answer names no function")
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # some servers parse them, or omit empty ones
            arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
        extra = value.get("extra_content")
        id = _of(value, "id", str) or f"call_{index}"
        calls.append(ToolCall(id, function["name"], arguments, extra if isinstance(extra, dict) else None))
    return tuple(calls)
