"""An ideator's question and answer, and the two ablations with a fixed answer.

MLE-Ideator, section 3.1 and appendix D. Covered: the query, the trajectory as text cut to a number of tokens, the three
items of an idea. Not covered: asking for an idea (codeact), implementing it (idea).
"""

from collections.abc import Callable, Mapping, Sequence

from .. import prompts
from ..records.rollout import Message, TurnFormat
from .messages import escaped, shortened
from .reading import after_thinking, other_reasoning, read_sections

QUERY = {  # the fields of a request for help
    "problem_statement": "one sentence: what is in the way",
    "attempts_so_far": "a short list of what was tried",
    "goal": "one sentence: what success would be in this step",
}
ITEMS = ("analysis_on_current_progress", "action", "rationale")
CALLED = {  # by models, beside their names
    "analysis_on_current_progress": (
        "analysis of current progress", "analysis of the current progress", "analysis", "current progress",
    ),
    "action": ("proposed action", "recommended action", "suggested action", "next action", "concrete action"),
    "rationale": ("reasoning", "reason", "justification"),
}  # fmt: skip
# The ablations of MLE-Ideator's table 2: fixed answers in place of an ideator's.
FIXED = {
    "null": "I have no suggestions for improving the solution. Please proceed using your best judgment.",
    "vague": "Keep improving the performance of your solution.",
}
UNANSWERED = "Nobody can answer: your work so far is too long for the colleague to read. Go on by yourself."
# Shares of the trajectory's tokens that are tried in turn, where an ideator's context is shorter than was thought.
SHARES = (1, 0.75, 0.5, 0.25)
Shorten = Callable[[str, int], str]
ROLES = {"assistant": "Agent", "system": "Instructions"}


def idea_and_format(text: str, finish_reason: str = "stop") -> tuple[dict[str, str] | None, TurnFormat]:
    """(the three items of an answer or None, `format` of a turn)."""
    if finish_reason == "length":
        return None, {"read": "none", "rule": "length"}
    try:
        _, visible, reasoning_rule = other_reasoning(after_thinking(text))
        idea, rule = read_sections(visible, ITEMS, CALLED)
    except ValueError:
        return None, {"read": "none", "rule": "malformed"}
    rule = rule or reasoning_rule
    return idea, {"read": "lenient" if rule else "exact", "rule": rule}


def as_text(parts: Mapping[str, str]) -> str:
    """A query or an idea as text, the inverse of `sections`."""
    return "\n\n".join(f"{name.upper()}:\n{text}" for name, text in parts.items())


def trajectory(messages: Sequence[Message], tokens: int, shorten: Shorten = shortened) -> str:
    """The messages as one text of at most `tokens` tokens: the beginning, which has the task, and the end.

    shorten(text, tokens): as the tokens are counted.
    """
    parts = []
    for message in messages:
        calls = [call["function"] for call in message.get("tool_calls", ())]
        lines = [message["content"], *(f"{call['name']}({call['arguments']})" for call in calls)]
        parts.append(f"## {ROLES.get(message['role'], 'Observation')}\n\n" + escaped("\n".join(lines)).strip())
    return shorten("\n\n".join(parts), tokens)


def question(
    messages: Sequence[Message], query: Mapping[str, str] | None, tokens: int, shorten: Shorten = shortened
) -> list[Message]:
    """The messages for an ideator, from the agent's messages so far, of which it sees `tokens` tokens, and its query."""
    request = (
        f"# What the agent asks\n\n{escaped(as_text(query))}" if query else "The agent has asked nothing in particular."
    )
    content = prompts.render("ideator", query=request, trajectory=trajectory(messages, tokens, shorten))
    return [{"role": "user", "content": content}]
