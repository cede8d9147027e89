"""The settings of a search: its budget, the six components by name, the models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...records.options import option
from ..interface import Settings
from .components import COMPONENTS, PRESETS


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
        flags=("--write-steps",),
        kind="file",
        metavar="FILE",
        machine=True,
    )
    constants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # {component: {name: value}}, all of them

    def own(self) -> dict[str, Any]:
        """See Settings.own; the constants as they are, instead of what --set said of some."""
        return {name: value for name, value in super().own().items() if name != "set"}
