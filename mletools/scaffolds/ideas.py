"""An ideator's side: what it is asked, what its answer has to look like, and the two that answer without thinking.

MLE-Ideator, section 3.1 and appendix D. Covered: the query, the trajectory as text cut to a number of tokens, the three
items. Not covered: who asks (codeact) and who carries an idea out (idea).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .. import prompts
from .answers import after_thinking
from .calls import sections
from .context import cut

QUERY = ("problem_statement", "attempts_so_far", "goal")
ITEMS = ("analysis_on_current_progress", "action", "rationale")
# The ablations of MLE-Ideator's table 2: what is said in an ideator's place.
FIXED = {
    "null": "I have no suggestions for improving the solution. Please proceed using your best judgment.",
    "vague": "Keep improving the performance of your solution.",
}


def read_idea(text: str) -> dict[str, str] | None:
    """The three items of an answer; None where it is not exactly those."""
    try:
        return sections(after_thinking(text), ITEMS)
    except ValueError:
        return None


def as_text(parts: Mapping[str, str]) -> str:
    """A query or an idea as it is written."""
    return "\n\n".join(f"{name.upper()}:\n{text}" for name, text in parts.items())


def trajectory(messages: Sequence[Mapping[str, Any]], tokens: int) -> str:
    """The messages as one text of at most about `tokens` tokens: the beginning, which has the task, and the end."""
    names = {"assistant": "Agent", "system": "Instructions"}
    parts = []
    for message in messages:
        calls = [
            f"{call['function']['name']}({call['function']['arguments']})" for call in message.get("tool_calls", ())
        ]
        said = "\n".join([message["content"], *calls]).strip()
        parts.append(f"## {names.get(message['role'], 'Observation')}\n\n{said}")
    return cut("\n\n".join(parts), tokens)


def question(
    messages: Sequence[Mapping[str, Any]], query: Mapping[str, str] | None, tokens: int
) -> list[dict[str, Any]]:
    """What an ideator is asked at a state: the messages up to it, and the implementer's query."""
    request = f"# What the agent asks\n\n{as_text(query)}" if query else "The agent has asked nothing in particular."
    question = prompts.render("ideator", query=request, trajectory=trajectory(messages, tokens))
    return [{"role": "user", "content": question}]
