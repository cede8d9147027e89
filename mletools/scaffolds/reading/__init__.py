"""Reading replies: reasoning, text, actions and programs out of what a model wrote, for all scaffolds.

A reply is read as a person would who has no doubt what is meant, and never repaired. Every reading says how it was
done: exact (the form that the prompt asks for), lenient (by a rule with a name), or none (for a reason with a name).
`actions` reads messages that act, `programs` answers with a program, `sections` answers under headings; `text` has the
parts that they share, `tool` what a policy may do.
"""

from .actions import Body, named_call, plain, read_action
from .disguise import undisguised
from .programs import Answer, read_answer, split_answer
from .sections import read_sections, sections
from .text import (
    TOO_DEEP,
    after_thinking,
    json_at,
    other_reasoning,
    read_json,
    sendable,
    thinks,
    valid_text,
    without_fence,
)
from .tool import Action, Fault, Tool, as_functions

__all__ = [
    "TOO_DEEP",
    "Action",
    "Answer",
    "Body",
    "Fault",
    "Tool",
    "after_thinking",
    "as_functions",
    "json_at",
    "named_call",
    "other_reasoning",
    "plain",
    "read_action",
    "read_answer",
    "read_json",
    "read_sections",
    "sections",
    "sendable",
    "split_answer",
    "thinks",
    "undisguised",
    "valid_text",
    "without_fence",
]
