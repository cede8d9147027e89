"""What of a long conversation the policy still sees.

Covered: SandMLE's rule (exchanges whose program failed are dropped, oldest first; where that is not enough, the first two
and the last two messages stay), cutting one text for a reader with a limit. Not covered: summaries.
"""

from collections.abc import Mapping, Sequence
from typing import Any

CHARACTERS_A_TOKEN = 4
KEPT_AT_EACH_END = 2


def tokens_of(message: Mapping[str, Any]) -> int:
    """Tokens of a message, estimated at 4 characters each where nobody has counted."""
    calls = "".join(call["function"]["arguments"] for call in message.get("tool_calls", ()))
    return (len(message["content"]) + len(calls)) // CHARACTERS_A_TOKEN + 1


def shown(messages: Sequence[Mapping[str, Any]], failed: Sequence[int], most: int | None) -> list[int]:
    """The places of the messages that the policy is shown, in order, of about `most` tokens (None: all).

    failed: places of the policy's messages whose program failed; each is dropped with the observations that follow it,
    oldest first and only as far as needed, but never the last exchange. Where that is not enough: the first two
    messages and the last two.
    """
    places = list(range(len(messages)))
    if most is None:
        return places
    total = sum(map(tokens_of, messages))
    last = max((place for place in places if messages[place]["role"] == "assistant"), default=-1)
    for place in failed:
        if total <= most:
            break
        if place == last:
            continue
        gone = [place]
        while (following := gone[-1] + 1) < len(messages) and messages[following]["role"] != "assistant":
            gone.append(following)
        total -= sum(tokens_of(messages[each]) for each in gone)
        places = [each for each in places if each not in gone]
    if total <= most or len(places) <= 2 * KEPT_AT_EACH_END:
        return places
    end = len(places) - KEPT_AT_EACH_END
    while messages[places[end]]["role"] == "tool":  # servers refuse an answer to a call without the call before it
        end -= 1
    return places[:KEPT_AT_EACH_END] + places[end:]


def cut(text: str, tokens: int) -> str:
    """The text, or its beginning and its end with a note between them, of about `tokens` tokens."""
    most = tokens * CHARACTERS_A_TOKEN
    if len(text) <= most:
        return text
    head = most // 4
    note = f"\n[... {len(text) - most} characters left out ...]\n"
    return text[:head] + note + text[len(text) - (most - head) :]
