"""Which part of a reply is its answer: without reasoning, and without what a model writes in another's name.

Covered: <think>, <thinking>, [THINK] and gpt-oss channels; markers that end a turn; invented observations.
Not covered: reasoning that a server set apart (it is a field of the reply).
"""

# ruff: noqa: RUF001 - DeepSeek writes a full-width bar in its markers

import re
from collections.abc import Mapping
from typing import Any

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


def after_first_thought(text: str) -> str:
    """The text after the reasoning part that it begins with; nothing where that never ended.

    All that follows counts, later reasoning too, so that a second action is seen as one.
    """
    head, end, rest = text.partition("</think>")
    if head.lstrip().startswith("<think>"):
        return rest
    return rest if end and "<think>" not in head else text


def only_reasoning(reply: Mapping[str, Any]) -> str:
    """The reasoning of a reply that is nothing else and did not end it by itself; otherwise nothing.

    A server set it apart; or a model that was put into reasoning by its template acts before it has closed it.
    """
    text: str = reply["text"]
    apart: str = (reply.get("reasoning") or "").strip()
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


def thinks(reply: Mapping[str, Any], lenient: bool = False) -> bool:
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
