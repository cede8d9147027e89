"""What the answers to prompts hold that ask for JSON: a JSON Schema by the role of the question.

An empty schema is any object: its fields are too free for a schema, or a server's grammar would have to know their
names. A list is the only list of an object, because servers take no list at the top. Not covered: sending a schema
(models.dialect), reading answers, which never trust that a server kept to it.
"""

from collections.abc import Mapping
from typing import Any, get_args

from ..records.rollout import Choosing, Component, IdeaCategory, Origin

Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
INDEX: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {}


def fields(**schemas: Schema) -> Schema:
    """An object with exactly these fields, in this order."""
    return {
        "type": "object",
        "properties": dict(schemas),
        "required": list(schemas),
        "additionalProperties": False,
    }


def or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def label(*names: str) -> Schema:
    return {"type": "string", "enum": list(names)}


def each(item: Schema) -> Schema:
    """A list. Its length is left to the prompt: not all servers know bounds."""
    return {"type": "array", "items": item}


PART = label(*get_args(Component))
AXES = ("alignment", "impact", "novelty", "feasibility", "risk_reward")
SCHEMAS: Mapping[str, Schema] = {
    "idea-type": fields(rationale=TEXT, type=label(*get_args(IdeaCategory))),
    "search-analysis": fields(
        task_type=TEXT, data_type=TEXT, summary=TEXT, data=TEXT, submission=TEXT, metric=TEXT, longer_limit=FLAG
    ),
    "search-challenges": fields(challenges=each(fields(challenge=TEXT, reason=TEXT, origin=label(*get_args(Origin))))),
    "search-check": fields(why=TEXT, acceptable=FLAG),
    "search-choose": fields(why=TEXT, experiment=INDEX),
    "search-diagnosis": fields(diagnosis=TEXT, direction=TEXT),
    "search-hypotheses": fields(
        hypotheses=each(
            fields(hypothesis=TEXT, component=PART, challenge=INDEX, scores=fields(**dict.fromkeys(AXES, NUMBER)))
        )
    ),
    "search-idea": fields(hypothesis=TEXT, component=PART),
    "search-lesson": fields(supported=FLAG, lesson=TEXT),
    "search-select": fields(
        action=label(*get_args(Choosing)),
        candidate=or_null(INDEX),
        hypothesis=or_null(TEXT),
        component=or_null(PART),
    ),
    "strategist.dna": fields(
        modality=TEXT,
        problem=TEXT,
        inputs=each(fields(name=TEXT, nature=TEXT, count=NUMBER)),
        target=fields(kind=TEXT, cardinality=TEXT, distribution=TEXT),
        imbalance={"anyOf": [TEXT, FLAG]},
        metric_family=TEXT,
        size=fields(rows=NUMBER, files=NUMBER, meaning=TEXT),
    ),
    "strategist.mutations": ANY,
    "strategist.scenarios": fields(scenarios=each(fields(domain=TEXT, scenario=TEXT, justification=TEXT))),
    "strategist.specification": ANY,
}


def schema(role: str) -> Schema | None:
    """The schema of the answers in a role; None: they are text, or the role is somebody's own."""
    return SCHEMAS.get(role)
