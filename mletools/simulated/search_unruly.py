"""Personas that are of no use in a search: lazy, looping, hostile; the malformed one is that of the other roles.

Covered: every role "search-...". Not covered: attacks on the sandbox (hostile has them).
"""

import json
from dataclasses import replace
from typing import Any

from ..models import Reply, Request
from . import hostile, search, unruly
from .bank import choices, program

LEAVE = "Leave the program as it is."


def play(persona: str, request: Request, levels: list[str]) -> Reply:
    """The reply of malformed, lazy, looping or hostile in a role of the search."""
    assert request.task is not None
    if persona == "malformed":
        return unruly.play(persona, request, levels)
    if persona == "looping":
        return search.play(replace(request, seed=0, messages=[{"role": "user", "content": ""}]))
    text = LEAVE if persona == "lazy" else hostile.IDEA
    if request.role in search.JSON_ROLES:
        return Reply(json.dumps(_least(request.role, text)))
    if persona == "hostile":
        return hostile.play(request, levels)
    return Reply(f"A first model will do.\n\n```python\n{program(request.task, choices(request.task)[0])}```")


def _least(role: str, text: str) -> Any:
    """The least answer that has the form asked for, with `text` wherever there is text."""
    scores = dict.fromkeys(("alignment", "impact", "novelty", "feasibility", "risk_reward"), 10)
    idea = {"hypothesis": text, "component": "Workflow"}
    analysis = dict.fromkeys(("task_type", "data_type", "summary", "data", "submission", "metric"), text)
    return {
        "search-analysis": {**analysis, "longer_limit": True},
        "search-idea": idea,
        "search-challenges": [{"challenge": text, "reason": text, "origin": "scenario"}] * 2,
        "search-hypotheses": [{**idea, "challenge": 0, "scores": scores}],
        "search-select": {"action": "select", "candidate": 0, **idea},
        "search-lesson": {"supported": True, "lesson": text},
        "search-check": {"acceptable": True, "why": text},
        "search-choose": {"experiment": 0, "why": text},
    }[role]
