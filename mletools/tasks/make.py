"""From a source, an index and a seed to a task's folder and record: draw, build, train baselines, check, write.

An index does not depend on any other index, so the work can be cut among processes and taken up again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from ..base.errors import ToolError
from ..base.ids import derive_seed
from ..grading import check_task, score_bytes
from ..records.task import Baseline, Grading, MedalStability, Task
from .baselines import libraries, make_board
from .describe import describe
from .draft import TaskDraft, draft_table, draft_world
from .folder import ANSWERS, size
from .procedural.dna import MUTATIONS, SAMPLES
from .procedural.draw import draw_world
from .real import SOURCES as TABLES
from .record import Origin, Parts, finish
from .soundness import CHECKS, Case, Trial, Trials, examine, require
from .sources import SOURCES
from .table import Rejected, generator
from .thresholds import leaderboard_thresholds, medal_stability, pick_thresholds

LEADERBOARD = "private/leaderboard.csv"
MOST_ATTEMPTS = 40
COSTLY = ("runs_in_time",)
# A real table cannot be drawn again: how noisy its medals are is recorded.
NOT_REQUIRED = ("medals_stable",)
# How far a draft came, in this order.
STAGES = ("drawn", "generated", "evaluated", "checked")


@dataclass(frozen=True)
class Shape:
    """What every procedural task is asked to be like: `samples` from least to most in total, `mutations` of the data."""

    samples: tuple[int, int] = SAMPLES
    mutations: int = MUTATIONS


@dataclass(frozen=True)
class Dropped:
    """A draft that did not become a task: how far it came (one of STAGES), why it went no further, what was drawn."""

    attempt: int
    stage: str
    reason: str
    drawn: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """A task's record with an empty lineage, and what the record does not tell.

    `dropped` are the drafts before it, `trial` is how its standard solution went, `samples` are the rows of train.csv and
    test.csv, `size` the bytes of all public files.
    """

    record: Task
    dropped: list[Dropped]
    trial: Trial | None
    samples: int
    size: int


class NoTask(Exception):
    """Every attempt of an index was dropped."""

    def __init__(self, dropped: list[Dropped]):
        super().__init__(dropped)
        self.dropped = dropped


def make_task(
    source: str,
    index: int,
    seed: int,
    data: Path,
    trials: Trials | None = None,
    shape: Shape = Shape(),
    first: int = 0,
    most_attempts: int = MOST_ATTEMPTS,
) -> Made:
    """Task `index` of a source, its folder under `data`: of the attempts from `first` on, the first sound draft.

    With `trials` a standard solution is tried on each draft that passes the other checks.
    NoTask when there is none in `most_attempts`, ToolError when the source is unknown or the folder is in the way or cannot be written.
    """
    if source not in SOURCES:
        raise ToolError(f"unknown source {source!r}: see tasks.sources")
    dropped: list[Dropped] = []
    for attempt in range(first, first + most_attempts):
        draft = _Attempt(source, index, seed, attempt, data, trials, shape)
        try:
            record = draft.record()
        except Rejected as rejected:
            dropped.append(Dropped(attempt, draft.stage, rejected.reason, draft.drawn))
        else:
            check_task(record)
            return Made(record, dropped, draft.trial, draft.samples, draft.size)
    raise NoTask(dropped)


@dataclass(frozen=True)
class Maker:
    """Makes procedural tasks and tasks of real tables; see make_task. Picklable."""

    seed: int
    data: Path
    shape: Shape
    trials: Trials | None

    def __call__(self, place: tuple[str, int], first: int = 0) -> Made:
        """The task of a source and an index: that of the first attempt from `first` on that passes the checks."""
        source, index = place
        return make_task(source, index, self.seed, self.data, self.trials, self.shape, first)


class _Attempt:
    """One draft on its way to a task; `stage`, `drawn` and `trial` tell how far it came. Rejected where it ends early."""

    def __init__(
        self, source: str, index: int, seed: int, attempt: int, data: Path, trials: Trials | None, shape: Shape
    ) -> None:
        self.source, self.index, self.seed, self.attempt = source, index, seed, attempt
        self.data, self.trials, self.shape = data, trials, shape
        self.derived = derive_seed(seed, source, index, attempt)
        self.stage = STAGES[0]
        self.trial: Trial | None = None
        self.drawn: Mapping[str, object] = {}
        self.samples = self.size = 0

    def record(self) -> Task:
        """The task's record; its folder is written. Rejected."""
        rng = generator(self.derived)
        draft = self._draft(rng)
        self.stage, self.samples = "generated", sum(draft.rows)
        lower, score = draft.metric["lower_is_better"], partial(score_bytes, draft.grading, draft.answers)
        grading: Grading = {"submission": draft.submission, "metric": draft.metric, "answers": ANSWERS}
        private: dict[str, bytes] = {ANSWERS: draft.answers}
        board = make_board(draft, score, self.derived)
        scores = [team[1] for team in board.teams]
        if draft.views:
            private[LEADERBOARD], grading["leaderboard"] = board.csv, LEADERBOARD
            baselines, thresholds = board.ladder, leaderboard_thresholds(scores, lower)
        else:
            baselines, thresholds = board.baselines, pick_thresholds(board.ladder[0]["score"], scores, lower)
        grading["thresholds"] = thresholds
        medals = [board.nearest(thresholds[medal]) for medal in ("gold", "bronze")]
        stability = medal_stability(draft.grading, draft.answers, medals, thresholds)
        self.stage = "evaluated"
        parts = Parts(
            name=draft.name,
            description=describe(draft),
            modality=draft.modality,
            problem=draft.problem,
            public=draft.public,
            private=private,
            grading=grading,
            provenance=self._provenance(baselines, stability, draft.origin),
        )
        return self._finish(parts, draft)

    def _draft(self, rng: Any) -> TaskDraft:
        if self.source in TABLES:
            return draft_table(TABLES[self.source](rng), rng)
        world = draw_world(self.source, rng, self.shape.samples, self.shape.mutations)
        self.drawn = world.origin
        return draft_world(world, rng)

    def _provenance(self, baselines: list[Baseline], stability: MedalStability, origin: Mapping[str, object]) -> Origin:
        place = {"source": self.source, "seed": self.seed, "index": self.index, "attempt": self.attempt}
        made = {"baselines": baselines, "medal_stability": stability, "trained_with": libraries()}
        return cast(Origin, {**place, **made, **origin})

    def _finish(self, parts: Parts, draft: TaskDraft) -> Task:
        def check(record: Task) -> None:
            def tried() -> Trial:
                assert self.trials is not None
                self.trial = self.trials(record, draft.public, draft.answers)
                return self.trial

            case = Case(
                record, parts.files, partial(score_bytes, record, draft.answers), tried if self.trials else None
            )
            found: dict[str, str | float] = {}
            recorded_only = NOT_REQUIRED if self.source in TABLES else ()
            # A draft that fails a cheap check is not worth a run in a sandbox.
            for names in (tuple(name for name in CHECKS if name not in (*COSTLY, *recorded_only)), COSTLY):
                found |= require(case, names)
            for name, outcome in examine(case, recorded_only).items() if recorded_only else ():
                found[name] = outcome.replace("failed:", "skipped: of a real table,")
            self.stage = "checked"
            record["provenance"]["sanity"] = found

        self.size = sum(size(content) for content in parts.public.values())
        return finish(parts, self.data, (self.source, self.index, self.seed, self.attempt), check)
