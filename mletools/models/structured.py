"""Answers in JSON by a server's `response_format`: when they are asked for, in which form, and what the model is told.

A server that keeps a model to JSON keeps it from writing anything before. A model that reasons apart from its answer
has reasoned by then; any other would have to answer without. So the JSON begins with a field for the reasoning, and by
default only models whose replies have reasoning apart are kept to it. Some servers apply the format to the reasoning
too, or answer nothing; that is noticed, and the answers are free again. Not covered: reading answers (scaffolds, tasks),
which does not trust that a server kept to the format.
"""

from collections.abc import Mapping, Sequence

from . import Reply

CHOICES = ("auto", "on", "off")
FIELD = "response_format"
FORMATS = ("json_schema", "json_object")  # the second once a server has refused the first
REASONING = "reasoning"
# What errors call it that do not name the field: DeepSeek and vLLM name the type or the grammar.
ALIASES = r"json[_ ]?(?:schema|object|mode)|structured[ _]output|guided[ _](?:json|decoding)|\bgrammar\b"


def response_format(form: str, schema: Mapping[str, object]) -> dict[str, object]:
    """The value of the field; an empty schema, of any object, is a json_object."""
    if form == "json_object" or not _is_whole(schema):
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": reasoned(schema)}}


def reasoned(schema: Mapping[str, object]) -> dict[str, object]:
    """The schema with a field for the reasoning before the others; an empty one, of any object, has no others."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, Sequence):
        return {"type": "object"}
    return {
        **schema,
        "properties": {REASONING: {"type": "string"}, **properties},
        "required": [REASONING, *required],
    }


def _is_whole(schema: Mapping[str, object]) -> bool:
    return isinstance(schema.get("properties"), Mapping) and isinstance(schema.get("required"), Sequence)


def told(content: str, schema: Mapping[str, object]) -> str:
    """A question with what the model has to know of the format. Servers of json_object want the word JSON in it."""
    properties = schema.get("properties")
    names = ", ".join(f'"{name}"' for name in (properties if isinstance(properties, Mapping) else ()))
    rest = f"The other fields are {names}, as described above." if names else "The fields asked for above follow it."
    return (
        f'{content}\n\nWrite the whole answer as one JSON object. Its first field is "{REASONING}", a string with all the'
        f" reasoning that comes before the answer. {rest}"
    )


def reasons_apart(reply: Reply) -> bool:
    """Whether the model reasoned outside its answer."""
    return bool(reply.reasoning or reply.reasoning_tokens)


def is_empty(reply: Reply) -> bool:
    """Whether the answer is nothing or blanks, as of servers that apply the format to the reasoning; not one whose
    reasoning took all its tokens."""
    if reply.text.strip() or reply.tool_calls or reply.finish_reason not in ("stop", "length"):
        return False
    return reply.finish_reason == "stop" or not reasons_apart(reply)
