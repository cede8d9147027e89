"""Checked reading of a response in OpenAI's chat protocol: a chat completion, or an error.

Covered: text, tool calls, reasoning, exact token ids and logprobs, token counts; recognising context overflow by the
error messages of vLLM, SGLang, llama.cpp, OpenAI and compatible providers.
Not covered: requests (http), parsing the arguments of a call (scaffolds), more than the first choice, streams.
"""

import json
import re
from typing import Any

from ..records import jsonl
from . import Reply, ToolCall

NO_COMPLETION = "the body is no chat completion"
CODES = {"context_length_exceeded", "exceed_context_size_error"}  # OpenAI-compatible servers; llama.cpp
MOST_ID, MOST_COUNT = 2**31, 10**12  # exclusive bounds of a token id and of a token count
LEAST_LOGPROB, MOST_LOGPROB = -1e30, 0.01  # rounding may lift a logprob above 0
MESSAGE_CHARACTERS = 500  # read of an error message: what comes later may repeat the prompt

_LIMIT = r"context[ _](?:length|size|window|limit)|max(?:imum)?[ _]model[ _]len(?:gth)?"
_OVER = r"exceed|longer than|too (?:long|large)|maximum context length is"
_WHOLE = (
    r"prompt is too long|too long to fit|input length .*exceeds the maximum|input token count .*exceeds the maximum"
    r"|inputs?`? tokens \+ `?max_new_tokens`? must be|max_tokens must be at least 1, got (?:0|-)"
)


def read_reply(body: bytes, exact: bool = True) -> Reply:
    """The reply in a chat completion; ValueError with a readable reason when the body is none or holds invalid values.

    A value that the server omits is None. `logprobs` are kept only if `exact`: by default servers (vLLM) report them
    before temperature and top_p, so at another temperature than 1 they are not those of the sampling distribution, and
    the response does not say which they are (`HttpModel.processed_logprobs`).
    """
    try:
        answer = jsonl.loads(body)
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
    if finish in ("abort", "error"):  # vLLM while it shuts down
        raise ValueError(f"the server ended the answer with {finish!r}")
    token_ids = _ids(choice.get("token_ids"))
    prompt_ids = _ids(answer.get("prompt_token_ids") or choice.get("prompt_token_ids"))
    usage = _of(answer, "usage", dict) or {}
    for ids, name in ((prompt_ids, "prompt_tokens"), (token_ids, "completion_tokens")):
        count = _count(usage, name)
        if ids is not None and count is not None and count != len(ids):
            raise ValueError(f"the answer has {len(ids)} token ids and says {count} {name}")
    return Reply(
        text=_of(message, "content", str) or "",
        finish_reason="length" if finish == "length" else "stop",
        prompt_token_ids=prompt_ids,
        token_ids=token_ids,
        logprobs=_logprobs(choice.get("logprobs"), token_ids) if exact else None,
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        cached_tokens=_count(_of(usage, "prompt_tokens_details", dict) or {}, "cached_tokens"),
        reasoning_tokens=_count(_of(usage, "completion_tokens_details", dict) or {}, "reasoning_tokens"),
        tool_calls=_calls(_of(message, "tool_calls", list) or []),
        reasoning=_of(message, "reasoning_content", str) or _of(message, "reasoning", str) or None,
    )


def error_message(body: bytes) -> str:
    """The server's error message on one line, however long."""
    value = _read(body)
    error = _error(value)
    text = body.decode("utf-8", "replace")
    if isinstance(value, dict):
        text = error if isinstance(error, str) else str(error.get("message") or error.get("detail") or text)
    return " ".join(text.split())


def error_status(body: bytes) -> int | None:
    """The status of an error in a body with status 200 (OpenRouter, some of llama.cpp's); 500 if it has none."""
    value = _read(body)
    if not isinstance(value, dict) or not value.get("error") or value.get("choices"):
        return None
    code = value["error"].get("code") if isinstance(value["error"], dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def exceeds_context(status: int, body: bytes) -> bool:
    """Whether the error is that the prompt, alone or with `max_tokens`, exceeds the model's context."""
    error = _error(_read(body))
    if isinstance(error, dict) and any(error.get(key) in CODES for key in ("code", "type") if _is_text(error, key)):
        return True
    if status not in (400, 413, 422):
        return False
    message = error_message(body)[:MESSAGE_CHARACTERS]
    over = re.search(_LIMIT, message, re.I) and re.search(_OVER, message, re.I)
    return bool(over or re.search(_WHOLE, message, re.I))


def _read(body: bytes) -> Any:
    try:
        return jsonl.loads(body)
    except ValueError:
        return None


def _error(value: Any) -> Any:
    """The text or object under "error", else the whole object."""
    inner = value.get("error", value) if isinstance(value, dict) else None
    return inner if isinstance(inner, (str, dict)) else value if isinstance(value, dict) else {}


def _is_text(value: dict[str, Any], key: str) -> bool:
    return isinstance(value.get(key), str)


def _of(holder: dict[str, Any], key: str, kind: type) -> Any:
    """The value, or None where there is none; ValueError if it is not of `kind`."""
    value = holder.get(key)
    if value is None or isinstance(value, kind):
        return value
    raise ValueError(f"{key!r} in the answer is {_kind(value)}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}
    return names.get(type(value), "a number")


def _count(holder: dict[str, Any], key: str) -> int | None:
    value = holder.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_COUNT):
        return value
    raise ValueError(f"{key!r} in the answer is not a count")


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
        calls.append(ToolCall(_of(value, "id", str) or f"call_{index}", function["name"], arguments))
    return tuple(calls)
