"""Errors of servers with OpenAI's chat protocol: what they say, and which of a few kinds they are.

Covered: objects, lists, texts and HTML as bodies, errors in a body with status 200; a prompt that is too long, a content
filter, a used-up quota, a request above a rate limit, parameters that are refused. The messages are those of OpenAI,
Azure, Anthropic, Google, Mistral, DeepSeek, Kimi, Qwen, OpenRouter, vLLM, SGLang and llama.cpp.
Not covered: what follows from an error (http, dialect).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..base import jsonl

MESSAGE_CHARACTERS = 500  # read of an error message: what comes later may repeat the prompt
MOST_HTML = 20_000  # characters of a page that are searched
CONTEXT_CODES = {"context_length_exceeded", "exceed_context_size_error"}  # OpenAI-compatible servers; llama.cpp
FILTER_CODES = {
    "content_filter",
    "content_policy_violation",
    "data_inspection_failed",
    "invalid_prompt",
    "ResponsibleAIPolicyViolation",
}
QUOTA_CODES = {"insufficient_quota", "insufficient_balance", "billing_hard_limit_reached", "billing_not_active"}

_LIMIT = r"context[ _](?:length|size|window|limit)|max(?:imum)?[ _]model[ _]len(?:gth)?"
_OVER = r"exceed|longer than|too (?:long|large)|maximum context length is"
_WHOLE = (
    r"prompt is too long|too long to fit|input length .*exceeds the maximum|input token count .*exceeds the maximum"
    r"|inputs?`? tokens \+ `?max_new_tokens`? must be|max_tokens must be at least 1, got (?:0|-)"
    r"|exceeded model token limit"
)
_FILTERED = r"content management policy|input was flagged|been flagged|usage polic|inappropriate content|safety filter"
_SPENT = (
    r"insufficient[ _](?:quota|balance|credit|funds)|exceeded your current quota|credit balance is too low"
    r"|(?:spend|spending|usage|billing|credit)[ -]limits?\b|out of credits?"
)
_COMPLAINT = (
    r"support|parameter|argument|field|unrecognized|unknown|unexpected|permitted|invalid|allowed|deprecated|must be"
)
_ALTERNATIVES = r"(?:supported|allowed|valid|accepted) (?:parameters|params|fields|arguments)|[.;:,!]\s*(?:please )?use\b|\binstead\b(?! of)"


def error_message(body: bytes) -> str:
    """The server's error message on one line, however long."""
    value = _first(_read(body))
    error = _error(value)
    text = body.decode("utf-8", "replace")
    if isinstance(value, dict):
        text = error if isinstance(error, str) else str(error.get("message") or error.get("detail") or text)
    elif text.lstrip()[:1] == "<":  # a gateway's page: its title, else its text
        title = re.search(r"<title>([^<]{1,500})", text[:MOST_HTML], re.I)
        text = title[1] if title else re.sub(r"<[^<>]*>", " ", text[:MOST_HTML])
    return " ".join(text.split())


def error_status(body: bytes) -> int | None:
    """The status of an error in a body with status 200 (OpenRouter, some of llama.cpp's); 500 if it has none."""
    value = _first(_read(body))
    if not isinstance(value, dict) or not value.get("error") or value.get("choices"):
        return None
    code = value["error"].get("code") if isinstance(value["error"], dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500


def exceeds_context(status: int, body: bytes) -> bool:
    """Whether the error is that the prompt, alone or with `max_tokens`, exceeds the model's context."""
    if _codes(body) & CONTEXT_CODES:
        return True
    if status not in (400, 413, 422):
        return False
    message = error_message(body)[:MESSAGE_CHARACTERS]
    over = re.search(_LIMIT, message, re.I) and re.search(_OVER, message, re.I)
    return bool(over or re.search(_WHOLE, message, re.I))


def exceeds_rate(status: int, body: bytes) -> bool:
    """Whether one request alone is larger than the account's tokens per minute: no wait helps."""
    return status == 429 and "request too large" in error_message(body)[:MESSAGE_CHARACTERS].lower()


def is_filtered(status: int, body: bytes) -> bool:
    """Whether a content filter refused the prompt."""
    if status not in (400, 403, 422):
        return False
    return bool(_codes(body) & FILTER_CODES) or _says(_FILTERED, body)


def is_spent(status: int, body: bytes, stated_wait: float | None) -> bool:
    """Whether the account's quota or credit is used up. Google says so of a rate limit, too, and states a wait."""
    if status == 402 or _codes(body) & QUOTA_CODES:
        return True
    return status in (400, 403, 429) and stated_wait is None and _says(_SPENT, body)


def wants_stream(body: bytes) -> bool:
    """Whether the server answers this model only as a stream."""
    return _says(r"(?:only|must|enable|requir|need)\w*\b.{0,60}\bstream|non-stream", body)


def says(body: bytes, *words: str) -> bool:
    """Whether the error's message holds one of `words`."""
    message = error_message(body)
    return any(word in message for word in words)


def refused_parameters(body: bytes, sent: Iterable[str]) -> list[str]:
    """Those of the fields `sent` that the error names: in `param`, in `detail[].loc`, or in its message."""
    sent = list(sent)
    located = list(_located(_first(_read(body))))
    named = [name for name in located if name in sent]
    if not located:
        named = [name for name in sent if _mentions(error_message(body)[: 4 * MESSAGE_CHARACTERS], name)]
    return list(dict.fromkeys(named))


def _mentions(message: str, name: str) -> bool:
    complaint = re.search(_ALTERNATIVES, message[1:], re.I)
    message = message[: complaint.start() + 1] if complaint else message
    if re.search(rf"['\"`]{name}\\?['\"`]", message):
        return True
    # An English word such as stop is a parameter only beside words of a complaint about one.
    return bool(re.search(rf"(?<![\w.]){name}(?!\w)", message)) and ("_" in name or _complains(message))


def _complains(message: str) -> bool:
    return re.search(_COMPLAINT, message, re.I) is not None


def _located(value: Any) -> Iterator[str]:
    """The names in `error.param` and in `detail[].loc`, without "body"."""
    error = _error(value)
    if isinstance(error, dict) and isinstance(error.get("param"), str):
        yield re.split(r"[.\[]", error["param"].removeprefix("body."))[0]
    for holder in (value, error):
        details = holder.get("detail") if isinstance(holder, dict) else None
        for detail in details if isinstance(details, list) else ():
            place = detail.get("loc") if isinstance(detail, dict) else None
            names = [each for each in place if each != "body"] if isinstance(place, list) else []
            if names and isinstance(names[0], str):
                yield names[0]


def _says(pattern: str, body: bytes) -> bool:
    return re.search(pattern, error_message(body)[:MESSAGE_CHARACTERS], re.I) is not None


def _codes(body: bytes) -> set[str]:
    """The error's "code" and "type", its inner error's too."""
    error = _error(_first(_read(body)))
    inner = error.get("innererror") if isinstance(error, dict) else None
    holders = [each for each in (error, inner) if isinstance(each, dict)]
    return {each[key] for each in holders for key in ("code", "type") if isinstance(each.get(key), str)}


def _read(body: bytes) -> Any:
    try:
        return jsonl.loads(body)
    except ValueError:
        return None


def _first(value: Any) -> Any:
    """The first of a list of errors, as Google's server sends; else the value."""
    return value[0] if isinstance(value, list) and value else value


def _error(value: Any) -> Any:
    """The text or object under "error", else the whole object."""
    inner = value.get("error", value) if isinstance(value, dict) else None
    return inner if isinstance(inner, (str, dict)) else value if isinstance(value, dict) else {}
