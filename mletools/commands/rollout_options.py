"""The options of agents in turns, and of the models beside the policy. Importing this loads nothing heavy."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from .. import cli
from ..scaffolds.job import Settings
from ..scaffolds.search.components import COMPONENTS, PRESETS
from .llm_options import read_price

WHICH = ("training", "evaluation")
HAND_IN = ("last", "best")
TOOL_CALLS = ("tags", "openai")
MEMORY_BY = ("validation", "test")
# The options that only some scaffolds know; the others refuse them rather than pass over them.
OWN = {
    "improve_ratio": ("single",),
    "pool": ("single",),
    "ideator": ("codeact",),
    "ideator_url": ("codeact",),
    "states": ("codeact",),
    "trajectory_tokens": ("codeact", "idea"),
    "implementer": ("idea",),
    "implementer_url": ("idea",),
    "max_traces": ("memory",),
    "pool_size": ("memory",),
    "pool_dir": ("memory",),
    "reset_ratio": ("memory",),
    "similarity": ("memory",),
    "memory_by": ("memory",),
    **dict.fromkeys(
        (
            "preset",
            *COMPONENTS,
            "set",
            "research_model",
            "research_url",
            "develop_model",
            "develop_url",
            "knowledge",
            "embedding_model",
            "embedding_url",
            "graph",
            "steps",
        ),
        ("search",),
    ),
}
# What single, which asks once and runs nothing, has no use for.
NOT_SINGLE = (
    "max_turns", "max_seconds", "max_usd", "max_answer_tokens", "context_tokens", "hand_in", "tool_calls", "reveal_test",
    "price",
)  # fmt: skip
# What a search does without: it asks each question anew, goes by its own components, and hands in what they choose.
NOT_SEARCH = ("context_tokens", "hand_in", "reveal_test", "tool_calls")


@dataclass(frozen=True)
class TurnOptions:
    """What the options of `turn_options` say; None: the scaffold's default."""

    defaults: str
    max_turns: int | None
    max_seconds: float | None
    max_usd: float | None
    max_answer_tokens: int | None
    context_tokens: int | None
    validation: float
    reveal_test: bool
    hand_in: str | None
    tool_calls: str
    sandbox_jobs: int | None
    price: tuple[float, float] | None
    policy_version: str | None
    improve_ratio: float | None
    pool: tuple[str, ...]
    ideator: str | None
    ideator_url: str | None
    states: str | None
    trajectory_tokens: int | None
    implementer: str | None
    implementer_url: str | None
    max_traces: int | None
    pool_size: int | None
    pool_dir: str | None
    reset_ratio: float | None
    similarity: float | None
    memory_by: str | None
    preset: str | None
    planning: str | None
    paths: str | None
    reasoning: str | None
    memory: str | None
    coding: str | None
    evaluation: str | None
    set: tuple[str, ...]
    research_model: str | None
    research_url: str | None
    develop_model: str | None
    develop_url: str | None
    knowledge: str | None
    embedding_model: str | None
    embedding_url: str | None
    graph: str | None
    steps: str | None

    def refuse_strangers(self, scaffold: str) -> None:
        """UsageError for an option that `scaffold` does not know."""
        given = {name: value for name, value in asdict(self).items() if value not in (None, (), False)}
        for name, scaffolds in OWN.items():
            if name in given and scaffold not in scaffolds:
                raise click.UsageError(f"--{name.replace('_', '-')} is about --scaffold {' or '.join(scaffolds)}")
        if self.states and not self.ideator:
            raise click.UsageError("--states are written where help is asked for: --ideator MODEL (or null, or vague)")
        unused = {"single": NOT_SINGLE, "search": NOT_SEARCH}.get(scaffold, ())
        for name in unused:
            if name in given and (name, given[name]) != ("tool_calls", "tags"):
                about = (
                    "agents in turns, not --scaffold single" if scaffold == "single" else "other agents than searches"
                )
                raise click.UsageError(f"--{name.replace('_', '-')} is about {about}")

    def settings(self, room: Any, timeout: float | None, max_tokens: int | None) -> Settings:
        """The settings of a scaffold's module with what the user gave."""
        found: Settings = room.SETTINGS
        if self.defaults == "evaluation":
            found = with_own(found, room.EVALUATION)
        given = {
            "max_turns": self.max_turns,
            "max_seconds": self.max_seconds,
            "max_usd": self.max_usd,
            "max_tokens": max_tokens,
            "max_answer_tokens": self.max_answer_tokens,
            "context_tokens": self.context_tokens,
            "execution_seconds": timeout,
            "hand_in": self.hand_in,
            "tool_calls": self.tool_calls,
            "validation": self.validation,
            "reveal_test": self.reveal_test,
            **{name: getattr(self, name) for name in found.own},
        }
        return with_own(found, {name: value for name, value in given.items() if value is not None})


def with_own(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with `changes`, of which those that are the scaffold's own go there."""
    own = {name: changes.get(name, value) for name, value in settings.own.items()}
    rest = {name: value for name, value in changes.items() if name not in own}
    return replace(settings, own=own, **rest)


_MACHINE: dict[str, Any] = {"cls": cli.MachineOption}
_SHARE, _WHOLE = click.FloatRange(0, 1), click.IntRange(1)
_OPTIONS = [
    click.option("--defaults", type=click.Choice(WHICH), default="training", show_default=True, help="The papers' settings for training, or for evaluation."),
    click.option("--max-turns", type=_WHOLE, metavar="N", help="Messages of the policy in a rollout (react 15, in evaluation 20; codeact 50; memory 15 a trace). search: nodes of the graph (500)."),
    click.option("--max-seconds", type=click.FloatRange(0, min_open=True), metavar="S", help="Of asking and running in a rollout (react 1200; codeact 3600; memory 43200, all traces together; search 43200, where what runs at once counts once)."),
    click.option("--max-usd", type=click.FloatRange(0), metavar="USD", help="Spent on a rollout; needs a price."),
    click.option("--max-answer-tokens", type=_WHOLE, metavar="N", help="Of one message (react, idea 8192; codeact 4096; memory 16384)."),
    click.option("--context-tokens", type=_WHOLE, metavar="N", help="Messages beyond this are dropped, failed programs first (react 32768; memory 65536)."),
    click.option("--validation", type=click.FloatRange(0, 1, max_open=True), default=0.2, show_default=True, metavar="SHARE", help="Training rows that scores are told on; 0: no score is told."),
    click.option("--reveal-test", is_flag=True, help="Tell scores on the test rows instead. Stamped on the record."),
    click.option("--hand-in", type=click.Choice(HAND_IN), help="Which submission counts (memory, improve: best by the told score; else last)."),
    click.option("--tool-calls", type=click.Choice(TOOL_CALLS), default="tags", show_default=True, help="How actions are asked for: the papers' tags, or the server's tools. Both are read."),
    click.option("--sandbox-jobs", type=_WHOLE, metavar="N", help="Programs that run at once (default: the cores).", **_MACHINE),
    click.option("--price", callback=read_price, metavar="PROMPT,COMPLETION", help="USD per million tokens of the policy (default: list price, where known)."),
    click.option("--policy-version", metavar="V", help="Stamped on the records, where the engine does not know it itself."),
    click.option("--improve-ratio", type=_SHARE, metavar="SHARE", help="single: share of rollouts that improve on a solution from --pool (the paper: 0.5)."),
    click.option("--pool", type=click.Path(exists=True, dir_okay=False), multiple=True, metavar="FILE", help="single: executed rollouts to improve on. Repeatable."),
    click.option("--ideator", metavar="MODEL", help="codeact: who answers <seek_help>: a model, or null or vague, which say nothing useful (default: nobody, and it is not offered)."),
    click.option("--ideator-url", type=cli.URL, help="codeact: its server (default: --model-url).", **_MACHINE),
    click.option("--states", type=click.Path(), metavar="FILE", help="codeact: write the state at each request for help here, for --scaffold idea.", **_MACHINE),
    click.option("--trajectory-tokens", type=_WHOLE, metavar="N", help="codeact, idea: the ideator sees so much of the trajectory (32000)."),
    click.option("--implementer", metavar="MODEL", help="idea: the frozen model that carries each idea out."),
    click.option("--implementer-url", type=cli.URL, help="idea: its server (default: --model-url).", **_MACHINE),
    click.option("--max-traces", type=_WHOLE, metavar="N", help="memory: traces of a run (default: as many as the time allows)."),
    click.option("--pool-size", type=_WHOLE, metavar="N", help="memory: solutions kept (5; evaluation 3)."),
    click.option("--pool-dir", type=click.Path(file_okay=False), metavar="DIR", help="memory: keep the pools here, shared with other runs (default: each run its own)."),
    click.option("--reset-ratio", type=_SHARE, metavar="P", help="memory: probability of a trace from scratch (0.7; evaluation 0.5)."),
    click.option("--similarity", type=_SHARE, metavar="T", help="memory: solutions more alike than this compete."),
    click.option("--preset", type=click.Choice(list(PRESETS)), help="search: the agent whose components are taken (rd-agent)."),
    *(
        click.option(f"--{kind}", metavar="NAME", help=f"search: exchange the component: {', '.join(known)}, or module:Name.")
        for kind, known in COMPONENTS.items()
    ),
    click.option("--set", multiple=True, metavar="NAME=VALUE", help="search: a component's constant, e.g. paths.branches=4; --dry-run lists them. Repeatable."),
    click.option("--research-model", metavar="MODEL", help="search: who has the ideas (default: -m)."),
    click.option("--research-url", type=cli.URL, help="search: its server (default: --model-url).", **_MACHINE),
    click.option("--develop-model", metavar="MODEL", help="search: who writes the programs (default: -m)."),
    click.option("--develop-url", type=cli.URL, help="search: its server (default: --model-url).", **_MACHINE),
    click.option("--knowledge", type=click.Path(exists=True, file_okay=False), metavar="DIR", help="search: texts (.md, .txt) of which fitting passages are shown to the researcher."),
    click.option("--embedding-model", metavar="MODEL", help="search: whose embeddings say how alike hypotheses are (default: TF-IDF)."),
    click.option("--embedding-url", type=cli.URL, help="search: its server (default: --model-url).", **_MACHINE),
    click.option("--graph", type=click.Path(file_okay=False), metavar="DIR", help="search: keep the exploration graphs here (default: OUTPUT.graph until the run is complete).", **_MACHINE),
    click.option("--steps", type=click.Path(), metavar="FILE", help="search: write each of the policy's answers as a rollout of its own here, to train on.", **_MACHINE),
    click.option("--memory-by", type=click.Choice(MEMORY_BY), help="memory: the score solutions are kept by (test in training, never told; evaluation: validation)."),
]  # fmt: skip


def turn_options(body: Callable[..., None]) -> Callable[..., None]:
    """Adds these options to a command's body, which gets them as one argument `turns`, a TurnOptions."""

    @functools.wraps(body)
    def with_options(*args: Any, **given: Any) -> None:
        names = TurnOptions.__dataclass_fields__
        body(*args, turns=TurnOptions(**{name: given.pop(name) for name in names}), **given)

    decorated: Any = with_options
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
