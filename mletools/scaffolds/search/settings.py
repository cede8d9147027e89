"""The settings of a search: the six components by name, the presets that combine them (R&D-Agent, table 1), the options."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from ...base.options import option
from ...records.rollout import Phase
from ..interface import Job, Settings

Constant = bool | int | float | str
PHASES: dict[Phase, str] = {"research": "researcher", "develop": "developer"}  # and the model role of each
SECONDS = 43200.0  # of a search, as in the paper
COMPONENTS: dict[str, dict[str, str]] = {
    "planning": {"none": "planning:NoPlanning", "dynamic": "planning:DynamicPlanning"},
    "paths": {
        "chain": "paths:Chain",
        "greedy": "paths:Greedy",
        "greedy-merge": "paths:GreedyMerge",
        "mcts": "paths:Mcts",
        "evolution": "paths:Evolution",
        "adaptive": "paths:Adaptive",
    },
    "reasoning": {
        "one-step": "reasoning:OneStep",
        "scientific": "reasoning:Scientific",
        "diagnosis": "reasoning:Diagnosis",
    },
    "memory": {
        "none": "memory:NoMemory",
        "siblings": "memory:Siblings",
        "chain": "memory:Chain",
        "kernel": "memory:Kernel",
        "retrieval": "memory:Retrieval",
        "success": "memory:Success",
    },
    "coding": {"once": "coding:Once", "node-debug": "coding:NodeDebug", "efficient": "coding:Efficient"},
    "evaluation": {
        "agent": "evaluation:AgentReported",
        "standard": "evaluation:Standard",
        "judged": "evaluation:Judged",
        "aggregated": "evaluation:Aggregated",
        "three-splits": "evaluation:ThreeSplits",
    },
}
# Table 1, in the order of COMPONENTS. AIRA's coding is not in it; its own paper has a debug operator. MLE-STAR's memory is
# "sibling" there; in its chain these are the earlier steps. gome and night are later than the table.
PRESETS: dict[str, dict[str, str]] = {
    preset: dict(zip(COMPONENTS, names.split(), strict=True))
    for preset, names in {
        "rd-agent": "dynamic adaptive scientific kernel efficient aggregated",
        "aide": "none greedy one-step none node-debug agent",
        "ml-master": "none mcts one-step siblings node-debug agent",
        "aira-greedy": "none greedy one-step siblings node-debug agent",
        "aira-mcts": "none mcts one-step siblings node-debug agent",
        "aira-evo": "none evolution one-step siblings node-debug agent",
        "mle-star": "none chain one-step chain node-debug agent",
        "kompete": "none greedy-merge one-step siblings node-debug agent",
        "gome": "dynamic adaptive diagnosis success efficient aggregated",
        "night": "dynamic adaptive scientific retrieval efficient aggregated",
    }.items()
}

# Other defaults of a preset's own components: AIRA's are those that AIRA-dojo ships (debug_depth, debug_prob, num_children,
# uct_c); `night` is rd-agent with what papers' presets leave out.
PRESET_CONSTANTS: dict[str, dict[str, dict[str, Constant]]] = {
    "aira-greedy": {"paths": {"debug_depth": 20, "debug_probability": 1.0}},
    "aira-mcts": {"paths": {"debug_depth": 20, "drafts": 5, "children": 5, "c": 0.25}},
    "aira-evo": {"paths": {"debug_depth": 20, "debug_probability": 1.0}},
    "gome": {"planning": {"merge_from": 1.0}},  # its traces are not merged
    "night": {"planning": {"growth": 3.0}, "coding": {"growth": 3.0, "edits": True}},
}


PRESET_ROUNDS = {"gome": "free", "night": "free"}  # of presets that do not work in whole rounds


def _component(kind: str) -> Any:
    names = ", ".join(COMPONENTS[kind])
    return option(f"Component for {kind}: {names}, or module:Name (default: the preset's).", metavar="NAME")


def _server(of: str) -> Any:
    return option(f"The {of} server (default: --model-url).", kind="url", machine=True)


@dataclasses.dataclass(frozen=True)
class SearchSettings(Settings):
    """The budget of R&D-Agent's evaluation, the six components by name, and the models."""

    WITHOUT: ClassVar[tuple[str, ...]] = ("context_tokens", "hand_in", "tool_calls", "reveal_test", "format")
    MODELS: ClassVar[Mapping[str, tuple[str, str]]] = {
        "researcher": ("research_model", "research_url"),
        "developer": ("develop_model", "develop_url"),
    }

    EMBEDS: ClassVar[bool] = True

    max_turns: int = option("Maximum nodes of the graph.", default=500, at_least=1, metavar="N")
    max_seconds: float | None = option(
        "Time limit of a search, by --clock. --resume may change it: with more time the search goes on, with less it "
        "submits the best node so far.",
        default=SECONDS,
        above=0,
        kind="seconds",
        machine=True,
    )
    max_usd: float | None = option(
        "Maximum cost of a search. Needs a price. --resume may change it.", at_least=0, metavar="USD", machine=True
    )
    max_answer_tokens: int = 16384
    execution_seconds: float = 3600.0
    clock: str = option(
        "How the time of a search is measured. wall: elapsed time, including all waiting. work: model calls and "
        "program runs only, where concurrent work counts as long as its longest part.",
        default="wall",
        choices=("wall", "work"),
    )
    rounds: str | None = option(
        "whole: nodes are made in rounds, and each round waits for its slowest node. free: a worker begins the next "
        "node as soon as it is free (default: the preset's).",
        choices=("whole", "free"),
    )
    workers: int | None = option(
        "Number of concurrent nodes, with --rounds free (default: as many as the paths begin at once).",
        at_least=1,
        metavar="N",
    )
    preset: str = option("Agent whose components are used.", default="rd-agent", choices=tuple(PRESETS), metavar="NAME")
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
    research_model: str | None = option("Model that proposes ideas (default: -m).", metavar="MODEL")
    research_url: str | None = _server("researcher's")
    develop_model: str | None = option("Model that writes programs (default: -m).", metavar="MODEL")
    develop_url: str | None = _server("developer's")
    knowledge: str | None = option(
        "Folder of texts (.md, .txt). Relevant passages, by BM25 or --embedding-model, are shown to the researcher.",
        kind="existing folder",
        metavar="DIR",
    )
    embedding_model: str | None = option(
        "Embedding model for the similarity of hypotheses (default: TF-IDF).", metavar="MODEL"
    )
    embedding_url: str | None = _server("embeddings'")
    from_graph: str | None = option(
        "Begin with the nodes of this graph, up to node NODE; their time and cost count. So a finished search goes "
        "on, or takes another way from there. For one task.",
        metavar="FILE[:NODE]",
    )
    graph: str | None = option(
        "Folder for the exploration graphs (default: OUTPUT.graph, until the run is complete).",
        kind="folder",
        metavar="DIR",
        machine=True,
    )
    steps: str | None = option(
        "Write each answer of the policy to FILE as a rollout of its own, for training.",
        flags=("--write-steps",),
        kind="output file",
        metavar="FILE",
        machine=True,
    )
    constants: Mapping[str, Mapping[str, Constant]] = dataclasses.field(
        default_factory=dict
    )  # {component: {name: value}}
    evaluation_asked: str | None = None  # in whose place is the evaluation `agent`, since no rows can be held out

    def components(self) -> dict[str, str | None]:
        """The name of each component, by kind; None: the preset's."""
        return {kind: getattr(self, kind) for kind in COMPONENTS}

    def embedding(self) -> tuple[str | None, str | None]:
        return self.embedding_model, self.embedding_url

    def own(self) -> dict[str, object]:
        """See Settings.own. `constants` has all values, so `set` is left out."""
        left_out = {"set", "evaluation_asked"}
        left_out |= {"rounds", "workers"} if self.rounds != "free" else set()
        left_out |= {"from_graph"} if self.from_graph is None else set()
        return {name: value for name, value in super().own().items() if name not in left_out}

    def identity(self) -> dict[str, object]:
        """See Settings.identity: time and money are not part of it, so a search can be stopped early or go on."""
        return {**super().identity(), "max_seconds": SECONDS, "max_usd": None}


SearchJob = Job[SearchSettings]
