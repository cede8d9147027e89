"""What a server of OpenAI's chat protocol says, read with distrust: a chat completion, or why there is none.

Covered: text, calls of tools, reasoning, exact token ids and logprobs, counts of tokens; telling a prompt that is too
long for the model's context from other complaints, by the words of vLLM, SGLang, llama.cpp, OpenAI and its like.
Not covered: asking (http), parsing the arguments of a call (scaffolds), more than the first choice, streams.
"""

import json
import re
from typing import Any

from ..records import jsonl
from . import Reply, ToolCall

NO_COMPLETION = "the body is no chat completion"
CODES = {"context_length_exceeded", "exceed_context_size_error"}  # OpenAI and its like; llama.cpp
MOST_ID, MOST_COUNT = 2**31, 10**12  # of a token's id, of a count of tokens
LEAST, ROUNDING = -1e30, 0.01  # of a logprob; by how much it may be above 0
WORDS = 500  # characters of a complaint that are looked at: what comes later may be the prompt, repeated

_LIMIT = r"context[ _](?:length|size|window|limit)|max(?:imum)?[ _]model[ _]len(?:gth)?"
_OVER = r"exceed|longer than|too (?:long|large)|maximum context length is"
_WHOLE = (
    r"prompt is too long|too long to fit|input length .*exceeds the maximum|input token count .*exceeds the maximum"
    r"|inputs?`? tokens \+ `?max_new_tokens`? must be|max_tokens must be at least 1, got (?:0|-)"
)


def read_reply(body: bytes, exact: bool = True) -> Reply:
    """The reply in a chat completion; ValueError in words when it is none, or when a value in it makes no sense.

    What a server leaves out is None. `logprobs` are kept only if `exact`: servers report them before temperature and
    top_p are applied (vLLM's default), so those of a sample at another temperature than 1 are not of the distribution
    sampled from, and nothing in the answer tells (`HttpModel.processed_logprobs`).
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
    if finish in ("abort", "error"):  # vLLM ends a request so when it is shutting down
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


def complaint(body: bytes) -> str:
    """The server's own words on one line, however long."""
    found = _read(body)
    error = _error(found)
    text = body.decode("utf-8", "replace")
    if isinstance(found, dict):
        text = error if isinstance(error, str) else str(error.get("message") or error.get("detail") or text)
    return " ".join(text.split())


def error_status(body: bytes) -> int | None:
    """The status of an error that came as a body with status 200 (OpenRouter, some of llama.cpp's); 500 if untold."""
    found = _read(body)
    if not isinstance(found, dict) or not found.get("error") or found.get("choices"):
        return None
    code = found["error"].get("code") if isinstance(found["error"], dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def exceeds_context(status: int, body: bytes) -> bool:
    """Whether the complaint is that the prompt, alone or with `max_tokens`, is too long for the model's context."""
    error = _error(_read(body))
    if isinstance(error, dict) and any(error.get(key) in CODES for key in ("code", "type") if _is_text(error, key)):
        return True
    if status not in (400, 413, 422):
        return False
    words = complaint(body)[:WORDS]
    over = re.search(_LIMIT, words, re.I) and re.search(_OVER, words, re.I)
    return bool(over or re.search(_WHOLE, words, re.I))


def _read(body: bytes) -> Any:
    try:
        return jsonl.loads(body)
    except ValueError:
        return None


def _error(found: Any) -> Any:
    """What stands under "error", else the whole; a text or an object."""
    inner = found.get("error", found) if isinstance(found, dict) else None
    return inner if isinstance(inner, (str, dict)) else found if isinstance(found, dict) else {}


def _is_text(value: dict[str, Any], key: str) -> bool:
    return isinstance(value.get(key), str)


def _of(holder: dict[str, Any], key: str, kind: type) -> Any:
    """The value, or None where there is none; ValueError where it is of another kind."""
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
    raise ValueError(f"{key!r} in the answer is no count")


def _ids(value: Any) -> list[int] | None:
    if value is None or value == []:
        return None
    if isinstance(value, list) and all(type(one) is int and 0 <= one < MOST_ID for one in value):
        return value
    raise ValueError("the answer's token ids are none")


def _logprobs(value: Any, token_ids: list[int] | None) -> list[float] | None:
    """As many as `token_ids`, because a trainer pairs them up; None without ids, or where one is not told."""
    content = value.get("content") if isinstance(value, dict) else value
    if token_ids is None or content is None or content == []:
        return None
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise ValueError("the answer's logprobs are none")
    if len(content) != len(token_ids):
        raise ValueError(f"the answer has {len(token_ids)} token ids and {len(content)} logprobs")
    values = [one.get("logprob") for one in content]
    if any(one is None for one in values):
        return None
    if not all(type(one) in (int, float) and LEAST <= one <= ROUNDING for one in values):
        raise ValueError("the answer's logprobs are none")
    return [min(0.0, float(one)) for one in values]


def _calls(values: list[Any]) -> tuple[ToolCall, ...]:
    calls = []
    for index, value in enumerate(values):
        function = value.get("function") if isinstance(value, dict) else None
        if not isinstance(function, dict) or not _is_text(function, "name"):
            raise ValueError("a call of a tool in the answer names no function")
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # some servers parse them, or give none for a tool that takes none
            arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
        calls.append(ToolCall(_of(value, "id", str) or f"call_{index}", function["name"], arguments))
    return tuple(calls)
