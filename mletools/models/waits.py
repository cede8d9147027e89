"""How long to wait before a request is sent again: as the server says, else a backoff.

Covered: Retry-After in seconds and as a date, retry-after-ms, x-ratelimit-reset and Anthropic's form of it as a
duration ("6m0s", "12ms"), as seconds and as a time, Google's retryDelay, "try again in 1.2s". Not covered: waiting.
"""

import re
import time
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from ..base.ids import derive_seed

LONGEST_BACKOFF_S = 60.0
LONGEST_STATED_S = 86400.0  # a server that asks for a longer wait is not believed
A_MINUTE = 60.0
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = r"(?:\d+(?:\.\d+)?(?:ms|[dhms]))+"
_IN_BODY = re.compile(rf'"retryDelay"\s*:\s*"({_DURATION})"|(?:try again|retry) in ({_DURATION})')
_RESET = re.compile(r"x-ratelimit-reset(-[\w-]+)?|anthropic-ratelimit(-[\w-]+)-reset", re.I)
MOST_BODY = 20_000  # bytes of a body that are searched


def wait_s(attempt: int, seed: int, backoff: float, stated: float | None = None) -> float:
    """Seconds between try `attempt` (from 0) and the next: those that the server stated, else backoff * 2^attempt.

    Adds a jitter of up to half the backoff, which depends only on `seed` and `attempt`.
    """
    step = min(backoff * 2.0 ** min(attempt, 60), LONGEST_BACKOFF_S)
    jitter = step / 2 * derive_seed(seed, "retry", attempt) / 2**62
    return stated + jitter if stated else min(LONGEST_BACKOFF_S, step + jitter)


def stated_wait_s(headers: Mapping[str, str], body: bytes = b"", busy: bool = True) -> float | None:
    """Seconds that a server asks to wait, from 0 to a day; None where it states none, or nothing sensible.

    busy: its status says that it has too much to do. Else limits and what the body says are about other requests.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _sensible(milliseconds / 1000)
    after = headers.get("Retry-After")
    if after is not None:
        return _sensible(_number(after) if _number(after) is not None else _until(after))
    if not busy:
        return None
    if resets := _resets(headers)[0]:
        return max(resets)
    if found := _IN_BODY.search(body[:MOST_BODY].decode("utf-8", "replace")):
        return _sensible(_duration(found[1] or found[2]))
    return None


def tokens_wait_s(headers: Mapping[str, str]) -> float:
    """Seconds until a limit on tokens is reset of which some are left, perhaps too few for the request; at most a minute.

    Servers tell that of every answer, so it says nothing of why this one was refused.
    """
    return min(A_MINUTE, max(_resets(headers)[1], default=0.0))


def _resets(headers: Mapping[str, str]) -> tuple[list[float], list[float]]:
    """The waits until limits are reset: of those that are used up, or where none is, of those that do not say what is left; and of
    tokens of which some are left, which may be too few for a request.
    """
    unsaid, used_up, tokens = [], [], []
    for name, value in headers.items():
        match = _RESET.fullmatch(name)
        wait = _sensible(_reset(value.strip())) if match else None
        if match is None or wait is None:
            continue
        if match[2]:
            left = headers.get(f"anthropic-ratelimit{match[2]}-remaining")
        else:
            left = headers.get(f"x-ratelimit-remaining{match[1] or ''}")
        if left is None:
            unsaid.append(wait)
        elif left.strip() == "0":
            used_up.append(wait)
        elif "token" in name.lower():
            tokens.append(wait)
    return used_up or unsaid, tokens


def _reset(value: str) -> float | None:
    """Seconds from now to a reset, given as a duration, in seconds, or as a time (seconds or milliseconds of Unix)."""
    number = _number(value)
    if number is None:
        return _duration(value) if re.fullmatch(_DURATION, value[:100]) else _until(value)
    if number > 1e11:
        return number / 1000 - time.time()
    return number - time.time() if number > 1e9 else number


def _duration(text: str) -> float:
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|[dhms])", text))


def _until(text: str) -> float | None:
    """Seconds from now to a date of HTTP or of RFC 3339."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            return max(0.0, read(text[:100].strip().replace("Z", "+00:00")).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _number(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"\s*\d{1,15}(?:\.\d{1,9})?\s*", text):
        return None
    return float(text)


def _sensible(seconds: float | None) -> float | None:
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_STATED_S else None
