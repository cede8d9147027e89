"""An optimiser step: its loss rows, their rollouts, and the settings that compose steps."""

from dataclasses import dataclass

from .samples import Sample, TokenSequence


@dataclass(frozen=True)
class Row:
    """A sequence, and what its tokens' log-probabilities are multiplied with: one number for all of them.

    advantage: the rollout's times its weight.
    """

    tokens: TokenSequence
    advantage: float
    sample: Sample


@dataclass(frozen=True)
class OptimiserStep:
    """One optimiser step. rows: of the loss; lost: rollouts that no step takes, for they never come or come too late (of a group
    that several steps share its part of them); in_flight: rollouts of its groups that may still come.

    weights: of the samples, None where the step was not weighted by duration.
    """

    rows: list[Row]
    samples: list[Sample]
    groups: int
    lost: float = 0
    in_flight: int = 0
    weights: list[float] | None = None

    @property
    def rollouts(self) -> int:
        """Number of rollouts with rows: the divisor of a mean over rollouts."""
        return len({row.sample.id for row in self.rows})


@dataclass(frozen=True)
class StepRecipe:
    """How an optimiser step is composed of rollouts. batch: rollouts a step, in place of groups_per_step; mask: of samples.TROUBLES.

    duration_of: of durations.PARTS. context: tokens of the longest sequence that the model takes. max_staleness: updates of the
    policy between sampling and training, at most. oversample: rollouts that are begun for each of a `batch`; only the first
    that come are trained on. equal_groups: groups whose rewards are all equal count, too.
    """

    groups_per_step: int = 16
    batch: int | None = None
    baseline: str = "group"
    scale_rewards: str = "group"
    mask: tuple[str, ...] = ()
    duration_weight: str = "off"
    duration_of: str = "rollout"
    duration_clip: float | None = None
    max_staleness: int | None = None
    oversample: float | None = None
    context: int | None = None
    equal_groups: bool = False

    @property
    def begun(self) -> int | None:
        """Rollouts that are begun for a step, None where nothing is oversampled."""
        return None if self.oversample is None or self.batch is None else round(self.oversample * self.batch)

    @property
    def within_groups(self) -> bool:
        return self.baseline in ("group", "leave-one-out")
