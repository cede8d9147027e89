"""Scaffold `search`: R&D-Agent's loop over an exploration graph, with six exchangeable components.

data, protocols: what passes between the components, and what they are; settings, components: by name; loop: algorithm 1; free: its workers without rounds; graph: nodes, on disk;
node_context: models and runs of one node; record: rollouts of searches and steps; sections, replies, similarity,
authenticity: what the components share; repair: answers with faults; planning, paths (with schedulers), reasoning,
memory, coding, evaluation: the components.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ... import prompts
from ...base.errors import ToolError
from ...models.prices import Price
from ...records.rollout import Phase, Rollout
from ...records.task import Task
from ..interface import Job, Needs, Played, Scaffold, SearchEnvironment, Step
from ..messages import task_prompt
from .components import constants_of, load, preset_constants, read_constants, stored_constants
from .costs import described
from .settings import PHASES, PRESET_ROUNDS, PRESETS, SearchSettings

REPORTED = "agent"  # the evaluation that needs no held-out rows
_PARTS = (
    "analysis challenges check check-debug check-full choose crossover debug debug-mode draft fix guidance-draft "
    "guidance-ensemble guidance-improvement guidance-merge hypotheses idea improve lesson merge program reports role select stage-draft "
    "stage-improvement stage-merge"
)
PROMPTS = ("task", *(f"search-{part}" for part in _PARTS.split()))
# Prompts of components that ids are older than: those of searches without these do not depend on them.
LATER_PROMPTS = {"search-edits": ("coding", "edits"), "search-diagnosis": ("reasoning", "diagnosis")}


class SearchScaffold(Scaffold[SearchSettings]):
    """See the module."""

    settings = SearchSettings
    prompts = PROMPTS

    def without_rows(self, settings: SearchSettings) -> str:
        return "a search goes by the scores that its programs print of themselves (--evaluation agent)"

    def check(self, settings: SearchSettings) -> SearchSettings:
        """The settings with the name and all constants of every component. ToolError: they do not make a search.

        If programs report their own scores, no rows are held out: nothing would read their scores.
        """
        if settings.preset not in PRESETS:
            raise ToolError(f"--preset {settings.preset}: known are {', '.join(PRESETS)}")
        names = {kind: name or PRESETS[settings.preset][kind] for kind, name in settings.components().items()}
        constants = preset_constants(settings.preset, names)
        for kind, changed in read_constants(settings.set, names).items():
            constants[kind] = {**constants.get(kind, {}), **changed}
        components = {kind: load(kind, name, constants.get(kind, {})) for kind, name in names.items()}
        if settings.validation == 0 and not components["evaluation"].reports:
            raise ToolError(
                f"--evaluation {names['evaluation']} needs scores on held-out rows: set --validation above 0, "
                "or use --evaluation agent"
            )
        rounds = settings.rounds or PRESET_ROUNDS.get(settings.preset, "whole")
        if rounds == "whole" and settings.workers is not None:
            raise ToolError("--workers is about --rounds free; in whole rounds the paths say how many nodes there are")
        if rounds == "free" and settings.max_scores is not None:
            raise ToolError("--max-scores counts nodes in their order, so it needs --rounds whole")
        workers = settings.workers or getattr(components["paths"], "at_once", 1)
        return replace(
            settings,
            rounds=rounds,
            workers=workers if rounds == "free" else None,
            validation=0.0 if components["evaluation"].reports else settings.validation,
            planning=names["planning"],
            paths=names["paths"],
            reasoning=names["reasoning"],
            memory=names["memory"],
            coding=names["coding"],
            evaluation=names["evaluation"],
            constants={kind: stored_constants(component) for kind, component in components.items()},
        )

    def without_validation(self, settings: SearchSettings) -> SearchSettings:
        """See Scaffold.without_validation: in place of scores on held-out rows those that programs print."""
        constants = {**settings.constants, "evaluation": stored_constants(load("evaluation", REPORTED, {}))}
        asked = settings.evaluation
        return replace(settings, validation=0.0, evaluation=REPORTED, constants=constants, evaluation_asked=asked)

    def start(self, record: Task | Rollout, settings: SearchSettings, seed: int) -> tuple[list[Any], Any]:
        """See Scaffold.start."""
        identity, start = super().start(record, settings, seed)
        later = [
            prompts.text(prompt)
            for prompt, (kind, value) in LATER_PROMPTS.items()
            if settings.components()[kind] == value or settings.constants.get(kind, {}).get(value)
        ]
        return identity + ([later] if later else []), start

    def describe(self, settings: SearchSettings) -> str:
        """The bounds of nodes and time; the components and their constants, a line each."""
        seconds = settings.max_seconds
        time = "" if seconds is None else f" and {seconds:g} s ({settings.clock} clock)"
        free = f", {settings.workers} under way at once" if settings.rounds == "free" else ""
        lines = [f"{settings.max_turns} nodes{time}{free}:"]
        for kind, name in settings.components().items():
            values = constants_of(load(kind, name or "", settings.constants[kind]))
            constants = " ".join(f"{constant}={value}" for constant, value in values.items())
            lines.append(f"  {kind:10} {name}" + (f"  ({constants})" if constants else ""))
        return "\n".join(lines)

    def costs(self, settings: SearchSettings, prices: Mapping[str, Price | None]) -> str:
        """See Scaffold.costs."""
        own: dict[Phase, str | None] = {"research": settings.research_model, "develop": settings.develop_model}
        of_phase = {phase: prices["policy" if own[phase] is None else role] for phase, role in PHASES.items()}
        return described(settings, of_phase)

    def needs(self, settings: SearchSettings) -> Needs:
        """See Scaffold.needs."""
        evaluation = load("evaluation", settings.evaluation or "", settings.constants["evaluation"])
        selection = bool(getattr(evaluation, "selection", False))
        folder, workers = settings.graph, settings.workers or 1
        return Needs(steps=settings.steps, graphs=True, graph_folder=folder, selection=selection, workers=workers)

    def play(self, job: Job[SearchSettings], environment: SearchEnvironment) -> Iterator[Played]:
        """The rollouts of the search's steps, then its own."""
        from .loop import Search
        from .record import step_records

        search = Search(job, environment)
        try:
            choice = search.explore()
            refits = job.settings.refit and job.settings.validation > 0 and choice.ensemble is None
            refitted = search.refit(choice) if refits else None
            yield from map(Step, step_records(job, search.graph))
            record = search.record(choice, task_prompt("task", job, environment))
            if choice.ensemble is not None:
                record["execution"] = {**record["execution"], "submission": choice.ensemble}
            if refitted is not None and (grade := refitted["grade"]) and grade["valid"]:
                record["refit"], record["execution"] = {"used": True}, refitted["execution"]
            elif refitted is not None:
                record["refit"] = {"used": False, "execution": refitted["execution"]}
            search.graph.tell(record, ended=True)
            yield record
            search.done()
        finally:
            search.graph.close()
