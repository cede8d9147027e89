"""Scaffold `search`: R&D-Agent's loop over an exploration graph, with six components that can be exchanged.

    interfaces   what passes between the parts, and the six protocols
    components   the components by name, and the presets: rd-agent and its rivals
    loop         the loop itself (algorithm 1)
    graph        the exploration graph, on disk
    desk         where one node is worked on: models and programs, counted by phase
    record       the rollout of a search, and those of its steps
    planning, paths/, reasoning, memory, coding, evaluation   the components

Covered: searches that end with their budget, of seconds, nodes, tokens or USD. Not covered: what a model is asked in
order to be trained on whole searches; their steps are rollouts of their own.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mletools.records.errors import ToolError
from mletools.records.tape import Tape
from mletools.scaffolds.job import Job, Place, Settings
from mletools.scaffolds.search.components import COMPONENTS, PRESETS, constants_of, load, read_constants

SETTINGS = Settings(
    max_turns=500,
    max_seconds=43200.0,
    max_answer_tokens=16384,
    execution_seconds=3600.0,
    own={
        "preset": "rd-agent",
        **dict.fromkeys(COMPONENTS),
        "set": (),  # constants as they were given; the settled ones stand in "constants"
        "research_model": None,
        "develop_model": None,
        "knowledge": None,
        "embedding_model": None,
    },
)
EVALUATION: dict[str, Any] = {}
INPUT = "task"
SESSIONS = False
PROMPTS = (
    "task",
    "search-analysis",
    "search-challenges",
    "search-check",
    "search-choose",
    "search-crossover",
    "search-debug",
    "search-debug-mode",
    "search-draft",
    "search-fix",
    "search-guidance-draft",
    "search-guidance-ensemble",
    "search-guidance-improvement",
    "search-guidance-merge",
    "search-hypotheses",
    "search-idea",
    "search-improve",
    "search-lesson",
    "search-merge",
    "search-reports",
    "search-role",
    "search-select",
    "search-stage-draft",
    "search-stage-improvement",
    "search-stage-merge",
)


def check(settings: Settings) -> Settings:
    """The settings with every component by its name, and its constants. ToolError: they do not make a search."""
    own = dict(settings.own)
    texts = own.pop("set")
    if own["preset"] not in PRESETS:
        raise ToolError(f"--preset {own['preset']}: known are {', '.join(PRESETS)}")
    names = {kind: own[kind] or PRESETS[own["preset"]][kind] for kind in COMPONENTS}
    given = read_constants(texts, names)
    made = {kind: load(kind, name, given.get(kind, {})) for kind, name in names.items()}
    if settings.validation == 0 and not made["evaluation"].reports:
        raise ToolError(
            f"--evaluation {names['evaluation']} goes by the score on held-out rows: give --validation a share above 0, "
            "or --evaluation agent"
        )
    if settings.reveal_test:
        raise ToolError("--reveal-test: a search never goes by test scores")
    constants = {kind: constants_of(component) for kind, component in made.items()}
    return replace(settings, own={**own, **names, "constants": constants})


def in_words(settings: Settings) -> str:
    """The components and their constants, for a dry run."""
    told = []
    for kind in COMPONENTS:
        constants = " ".join(f"{name}={value}" for name, value in settings.own["constants"][kind].items())
        told.append(f"  {kind:10} {settings.own[kind]}" + (f"  ({constants})" if constants else ""))
    return "\n".join(told)


def work(job: Job, place: Place, tape: Tape) -> Iterator[dict[str, Any]]:
    """The rollouts of the search's steps, then its own."""
    from mletools.scaffolds.search.loop import Search
    from mletools.scaffolds.search.record import search_record, step_records

    search = Search(job, place, tape)
    try:
        choice = search.explore()
        yield from step_records(job, search.graph)
        yield search_record(job, search.graph, choice, search.usage(), search.clock)
        search.done()
    finally:
        search.graph.close()
