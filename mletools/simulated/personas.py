"""The scripted model as an agent: what it says in each protocol, persona by persona.

    solutions     the bank's levels and faults, and recognising them in code
    conversation  reading what was done and seen so far out of messages
    forms         writing an action in a protocol's form
    solver        an agent of moderate skill that errs
    ideas         the ideator, the implementer, the classifier of ideas
    unruly        malformed, lazy and looping agents
    hostile       an agent that attacks
    search        the researcher and developer of a search (search_...)

Covered: every role of every scaffold; an answer depends on its request alone (seed, messages, task). Not covered: reading
words beyond marks (tags, fences, scores, the bank's model lines, names of families of models).
"""

from dataclasses import replace

from ..models import Reply, Request
from . import hostile, ideas, search, search_unruly, solver, unruly
from .conversation import POLICIES

# Who answers, by the name after `scripted:`. An ideator's persona plays the solver where it is asked to solve.
PERSONAS = ("solver", "ideator", "vague", "null", "malformed", "lazy", "looping", "hostile")
SINGLE = ("malformed", "lazy", "looping", "hostile")  # those that answer a single question in a way of their own


def play(persona: str, request: Request, levels: list[str]) -> Reply:
    """The reply of a persona (empty: whichever the role asks for) in `request.role`, with models of `levels` only."""
    if request.role == "idea":  # what the ideator is called where it is the policy
        request = replace(request, role="ideator")
    if request.role.startswith(search.PREFIX):
        return search_unruly.play(persona, request, levels) if persona in SINGLE else search.play(request)
    if persona in ("malformed", "lazy", "looping"):
        return unruly.play(persona, request, levels)
    if persona == "hostile":
        return hostile.play(request, levels)
    if request.role in POLICIES:
        return solver.play(request, levels)
    return ideas.play(request, levels, persona)
