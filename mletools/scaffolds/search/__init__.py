"""Scaffold `search`: R&D-Agent's loop over an exploration graph, with six components that can be exchanged.

    settings     its options
    interfaces   what passes between the parts, and the six protocols
    components   the components by name, and the presets: rd-agent and its rivals
    loop         the loop itself (algorithm 1)
    graph        the exploration graph, on disk
    node_context one node's models and programs, counted by phase
    record       the rollout of a search, and those of its steps
    planning, paths/, reasoning, memory, coding, evaluation   the components

Covered: searches that end with their budget, of seconds, nodes, tokens or USD. Not covered: what a model is asked in
order to be trained on whole searches; their steps are rollouts of their own.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...records.errors import ToolError
from ..interface import Environment, Job, Scaffold
from .components import COMPONENTS, PRESETS, constants_of, load, read_constants
from .settings import SearchSettings

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


class SearchScaffold(Scaffold[SearchSettings]):
    """See the module."""

    settings = SearchSettings
    prompts = PROMPTS

    def check(self, settings: SearchSettings) -> SearchSettings:
        """The settings with every component by its name, and its constants. ToolError: they do not make a search."""
        if settings.preset not in PRESETS:
            raise ToolError(f"--preset {settings.preset}: known are {', '.join(PRESETS)}")
        names: dict[str, str] = {kind: getattr(settings, kind) or PRESETS[settings.preset][kind] for kind in COMPONENTS}
        constants_by_kind = read_constants(settings.set, names)
        components = {kind: load(kind, name, constants_by_kind.get(kind, {})) for kind, name in names.items()}
        if settings.validation == 0 and not components["evaluation"].reports:
            raise ToolError(
                f"--evaluation {names['evaluation']} goes by the score on held-out rows: give --validation a share "
                "above 0, or --evaluation agent"
            )
        constants = {kind: constants_of(component) for kind, component in components.items()}
        changes: dict[str, Any] = {**names, "constants": constants}
        return replace(settings, **changes)

    def describe(self, settings: SearchSettings) -> str:
        """The components and their constants, a line each."""
        lines = []
        for kind in COMPONENTS:
            constants = " ".join(f"{name}={value}" for name, value in settings.constants[kind].items())
            lines.append(f"  {kind:10} {getattr(settings, kind)}" + (f"  ({constants})" if constants else ""))
        return "\n".join(lines)

    def play(self, job: Job[SearchSettings], environment: Environment) -> Iterator[dict[str, Any]]:
        """The rollouts of the search's steps, then its own."""
        from .loop import Search
        from .record import search_record, step_records

        search = Search(job, environment)
        try:
            choice = search.explore()
            yield from step_records(job, search.graph)
            yield search_record(job, search.graph, choice, search.usage(), search.clock)
            search.done()
        finally:
            search.graph.close()
