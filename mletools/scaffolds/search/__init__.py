"""Scaffold `search`: R&D-Agent's loop over an exploration graph, with six components that can be exchanged.

    interfaces   what passes between the parts, and the six protocols
    components   the components by name, and the presets: rd-agent and its rivals
    loop         the loop itself (algorithm 1)
    graph        the exploration graph, on disk
    context         where one node is worked on: models and programs, counted by phase
    record       the rollout of a search, and those of its steps
    planning, paths/, reasoning, memory, coding, evaluation   the components

Covered: searches that end with their budget, of seconds, nodes, tokens or USD. Not covered: what a model is asked in
order to be trained on whole searches; their steps are rollouts of their own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ...records.errors import ToolError
from ...records.options import option
from ...records.tape import Tape
from ..interface import Environment, Job, Scaffold, Settings
from .components import COMPONENTS, PRESETS, constants_of, load, read_constants

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


def _component(kind: str) -> Any:
    return option(
        f"Component for {kind}: {', '.join(COMPONENTS[kind])}, or module:Name (default: the preset's).", metavar="NAME"
    )


@dataclass(frozen=True)
class SearchSettings(Settings):
    """The budget of R&D-Agent's evaluation, and the six components."""

    WITHOUT: ClassVar[tuple[str, ...]] = ("context_tokens", "hand_in", "tool_calls", "reveal_test")
    MODELS: ClassVar[Mapping[str, tuple[str, str]]] = {
        "researcher": ("research_model", "research_url"),
        "developer": ("develop_model", "develop_url"),
    }

    max_turns: int = option("Nodes of the graph.", default=500, at_least=1, metavar="N")
    max_seconds: float | None = option(
        "Asking and running in a search, by the clock: what runs at once counts once.",
        default=43200.0,
        above=0,
        metavar="S",
    )
    max_answer_tokens: int = 16384
    execution_seconds: float = 3600.0
    preset: str = option(
        "The agent whose components are taken.", default="rd-agent", choices=tuple(PRESETS), metavar="NAME"
    )
    planning: str | None = _component("planning")
    paths: str | None = _component("paths")
    reasoning: str | None = _component("reasoning")
    memory: str | None = _component("memory")
    coding: str | None = _component("coding")
    evaluation: str | None = _component("evaluation")
    set: tuple[str, ...] = option(
        "A constant of a component, e.g. paths.branches=4; --dry-run lists them. Repeatable.",
        default=(),
        metavar="NAME=VALUE",
    )
    research_model: str | None = option("Proposes the ideas (default: -m).", metavar="MODEL")
    research_url: str | None = option("The researcher's server (default: --model-url).", kind="url", machine=True)
    develop_model: str | None = option("Writes the programs (default: -m).", metavar="MODEL")
    develop_url: str | None = option("The developer's server (default: --model-url).", kind="url", machine=True)
    knowledge: str | None = option(
        "Texts (.md, .txt); fitting passages are shown to the researcher.", kind="existing folder", metavar="DIR"
    )
    embedding_model: str | None = option(
        "Embeddings for the similarity of hypotheses (default: TF-IDF).", metavar="MODEL"
    )
    embedding_url: str | None = option("The embeddings' server (default: --model-url).", kind="url", machine=True)
    graph: str | None = option(
        "Keep the exploration graphs here (default: OUTPUT.graph until the run is complete).",
        kind="folder",
        metavar="DIR",
        machine=True,
    )
    steps: str | None = option(
        "Write each of the policy's answers as a rollout of its own here, to train on.",
        kind="file",
        metavar="FILE",
        machine=True,
    )
    constants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # {component: {name: value}}, all of them

    def own(self) -> dict[str, Any]:
        """See Settings.own; the constants as they are, instead of what --set said of some."""
        return {name: value for name, value in super().own().items() if name != "set"}


class SearchScaffold(Scaffold[SearchSettings]):
    """See the module."""

    settings = SearchSettings
    prompts = PROMPTS

    def check(self, settings: SearchSettings) -> SearchSettings:
        """The settings with every component by its name, and its constants. ToolError: they do not make a search."""
        if settings.preset not in PRESETS:
            raise ToolError(f"--preset {settings.preset}: known are {', '.join(PRESETS)}")
        names: dict[str, str] = {kind: getattr(settings, kind) or PRESETS[settings.preset][kind] for kind in COMPONENTS}
        given = read_constants(settings.set, names)
        components = {kind: load(kind, name, given.get(kind, {})) for kind, name in names.items()}
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

    def play(self, job: Job[SearchSettings], environment: Environment, tape: Tape) -> Iterator[dict[str, Any]]:
        """The rollouts of the search's steps, then its own."""
        from .loop import Search
        from .record import search_record, step_records

        search = Search(job, environment, tape)
        try:
            choice = search.explore()
            yield from step_records(job, search.graph)
            yield search_record(job, search.graph, choice, search.usage(), search.clock)
            search.done()
        finally:
            search.graph.close()
