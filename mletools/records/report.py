"""What mle-report tells: a set of rollouts in numbers, two sets compared."""

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from .common import Count, Id, Lineage, NonNegative, Positive, Share

StandardError = Annotated[
    float | None,
    Meta(description="Standard error of the mean over repeats, sd / sqrt(n), ddof 1; null for fewer than two."),
]
Interval = Annotated[
    Annotated[list[float], Meta(min_length=2, max_length=2)] | None,
    Meta(
        description="Low and high end; of a rate Wilson's over runs, null without runs; else Student's t over repeats, "
        "cut off where the scale ends, null for fewer than two."
    ),
]


class RoleUsage(TypedDict):
    """Usage of the models in one role."""

    rollouts: Positive
    seconds: NonNegative
    prompt_tokens: int | None
    completion_tokens: int | None
    tokens_rollouts: Count
    usd: float | None
    usd_rollouts: Count


class FormatShares(TypedDict):
    """How answers were read: shares of all answers."""

    answers: Positive
    exact: Share
    """In the form that the prompt asks for."""

    lenient: dict[str, Share]
    """By rule."""

    none: dict[str, Share]
    """Not read, by reason."""


class ValidationGap(TypedDict):
    """Validation and test scores of what was handed in, for runs that were shown so many scores."""

    scores: str
    """How many: 0, 1, 2 to 3, 4 to 7, 8 to 15, 16 and more."""

    rollouts: Positive
    gap_mean: float | None
    """Validation less test score, positive where validation is better, as a share of the way from median to gold;
    null without thresholds."""

    gap_sem: float | None
    """Sd / sqrt(n) over these runs, ddof 1."""

    validation_better: Share
    """Share of the runs."""


class AfterTurn(TypedDict):
    """Means over tasks after one turn."""

    turn: Positive
    working: Share
    """Share of the rollouts that took this turn."""

    asked: Share | None
    """Of those, the share that asked an ideator for help."""

    valid: Share
    """Share with a valid submission so far."""

    medal: Share
    """Share whose best submission so far, by its test score, has a medal."""

    normalised: NonNegative | None
    """Of the best submission so far, 0 without one; null without leaderboards."""


class TurnsSummary(TypedDict):
    """Rollouts of agents in turns."""

    rollouts: Positive
    by_turn: list[AfterTurn]
    """After each turn, means over tasks of the rollouts that are there; one that is over keeps what it had."""


class TracesAtShare(TypedDict):
    """Best human rank so far at a share of the run's time."""

    share: Annotated[float, Meta(le=1, gt=0)]
    """Of the run's time: the seconds of its turns."""

    memory: Share | None
    reset: Share | None
    """Of the traces from scratch."""

    best: NotRequired[Share | None]
    """Of all traces, in all runs that showed scores; absent in older records."""


class NthSubmission(TypedDict):
    """Human ranks of the n-th valid submissions."""

    submission: Positive
    runs: Positive
    """That have so many."""

    this: Share
    """Human rank of these submissions."""

    best: Share | None
    """Of the best until then by the score that the run showed; a run that has fewer keeps its best, one without any has 0;
    runs that showed no score are left out, null without others."""


class TracesSummary(TypedDict):
    """Runs over several traces."""

    runs: Positive
    with_both: Count
    """Of them, those where traces from memory and traces from scratch have a valid submission."""

    without_scores: NotRequired[Count]
    """Runs with valid submissions that showed no score, which nobody can choose the best of; absent in older records."""

    over_time: list[TracesAtShare]
    """The best human rank so far by the score that the run showed, means over tasks: of each kind of traces, in the runs
    with both; null without such runs."""

    by_submission: list[NthSubmission]
    """A run's valid submissions in order, means over tasks."""


class SearchAtShare(TypedDict):
    """What a search would have handed in at a share of its budget."""

    share: Annotated[float, Meta(le=1, gt=0)]
    medal: Share | None
    normalised: NonNegative | None
    perfect_medal: Share | None
    perfect_normalised: NonNegative | None


class SearchSummary(TypedDict):
    """Searches in numbers."""

    searches: Positive
    loops_mean: NonNegative
    """Nodes, failed ones too."""

    loops_sem: float | None
    loops_ci: Interval

    improve_rate_mean: Share | None
    """Share of the nodes after the first with a score that beat the scores of all nodes before them; null where
    there are no such nodes."""

    improve_rate_sem: float | None
    improve_rate_ci: Interval

    first_medal_s_mean: NonNegative | None
    """Seconds on the search's clock until the first node with a medal on the test, of the searches that have one."""

    first_medal_s_sem: float | None
    first_medal_s_ci: Interval

    medalled: Count
    """Searches of which any node has a medal on the test."""

    fallbacks: NotRequired[Count]
    """Answers of the model in all these searches that could not be used, so that a default took their place."""

    by_printed_scores: NotRequired[Positive]
    """Of them, searches on tasks where no rows could be held out, so that they went by the scores that their programs
    print; absent: none."""

    cost: dict[str, dict[str, float | None]]
    """What a search used, by phase: means over the searches that tell."""

    over_time: list[SearchAtShare]
    """At shares of the budget: with a medal, and the normalised score of, what would have been handed in then, and
    of the best node there was (perfect selection)."""


class Disclosure(TypedDict):
    """What a set of results rests on: in words, each value with the number of rollouts that it holds for."""

    tasks: Count
    hardware: dict[str, Positive]
    """Of the sandbox: processor, cores, memory, GPU."""

    sandbox: dict[str, Positive]
    """Backend and limits of a run."""

    test_feedback: dict[str, Positive]
    """Whether agents were shown test scores."""

    agent: dict[str, Positive]
    """Scaffold; of a search its preset."""

    budget: dict[str, Positive]
    """Of a rollout."""

    models: dict[str, Positive]
    """By role; the policy with its sampling."""

    policy_version: dict[str, Positive]
    seed: dict[str, Positive]
    """Of mle-rollout."""

    mletools: dict[str, Positive]
    """Versions of the commands that worked on a record."""


class Summary(TypedDict):
    """A set of graded rollouts on one task, or on all, in numbers."""

    kind: Literal["summary"]
    version: Literal[1]
    id: Id
    lineage: Lineage
    task: str
    """A task's id, or "all": then a mean is over tasks, each with the same weight. The same of a part of the tasks: low,
    medium, high (--complexity), "trained on", "held out" (--trained)."""

    set: str
    trained: NotRequired[Count]
    """With --trained, of "all": how many of its tasks were trained on."""

    unscored: NotRequired[Count]
    """With --best-trace, of "all": runs that showed no score, whose first valid trace counts; absent where there are none."""

    sd: NotRequired[dict[str, float | None]]
    """With --spread sd: the standard deviation of the repeats' means, ddof 0, by quantity; null for fewer than
    two."""

    rollouts: Count
    """That are there."""

    missing: Count
    """Runs that should be there and are not."""

    missing_policy: Literal["invalid", "ignore", "error"]
    """What a missing run counts as."""

    revealed: Count
    """Rollouts whose agent was shown test scores."""

    no_validation: NotRequired[Positive]
    """Rollouts on tasks of which no rows could be held out, so that no score was shown; absent where there are none."""

    reported_scores: NotRequired[Count]
    """Of these, those that handed in the best by the validation scores that their programs printed."""

    k: Positive
    """Of Avg@k and Best@k."""

    confidence: Annotated[float, Meta(gt=0, lt=1)]
    """Of the intervals."""

    metric: str
    """"mixed" where metrics differ."""

    reward_rule: str | None
    """"mixed" where rules differ; null without rollouts."""

    human_rank_rule: str | None
    ranked_against: NotRequired[Literal["people", "baselines", "both"]]
    """Whose scores the leaderboards hold; absent without leaderboards, and in older records."""

    valid: Share
    """Share of runs with a valid submission."""

    above_median: Share
    """Share strictly above the median."""

    bronze: Share
    """Share with just this medal."""

    silver: Share
    """Share with just this medal."""

    gold: Share
    """Share with this medal."""

    medal: Share
    """Share with any medal."""

    reward_mean: float | None
    """Over the runs that have a reward."""

    score_mean: float | None
    """Over valid runs; null where metrics differ."""

    score_best: float | None
    """Over valid runs; null over all tasks."""

    score_best_at_k: float | None
    """Best of k runs, over choices of k with a valid one; null over all tasks."""

    human_rank_mean: float | None
    """An invalid run counts 0; null without a leaderboard."""

    normalised_mean: float | None
    """0 to 100 between the leaderboard's worst and best; an invalid run counts 0; null without a leaderboard."""

    normalised_avg_at_k: float | None
    """Mean of k runs without the invalid ones, 0 only if all k are invalid (MLE-Ideator)."""

    normalised_best_at_k: float | None
    """Best of k runs, 0 if all are invalid (MLE-Ideator)."""

    valid_sem: StandardError
    valid_ci: Interval
    above_median_sem: StandardError
    above_median_ci: Interval
    bronze_sem: StandardError
    bronze_ci: Interval
    silver_sem: StandardError
    silver_ci: Interval
    gold_sem: StandardError
    gold_ci: Interval
    medal_sem: StandardError
    medal_ci: Interval
    reward_sem: StandardError
    reward_ci: Interval
    score_sem: StandardError
    score_ci: Interval
    human_rank_sem: StandardError
    human_rank_ci: Interval
    normalised_sem: StandardError
    normalised_ci: Interval

    seconds: NonNegative
    """Sampling and execution, of all rollouts together."""

    prompt_tokens: int | None
    """Of the rollouts that tell; null where none does."""

    completion_tokens: int | None
    """Of the rollouts that tell; null where none does."""

    tokens_rollouts: Count
    """Rollouts that tell their tokens."""

    usd: float | None
    """Of the rollouts that tell; null where none does."""

    usd_rollouts: Count
    """Rollouts that tell their cost."""

    usage_by_role: NotRequired[dict[str, RoleUsage]]
    """The same by role of the model (policy, ideator ...), seconds of asking alone; judge and instrumenter are not
    in the sums above; absent where no rollout says."""

    format: NotRequired[FormatShares]
    """How answers were read, shares of all answers together; absent where no turn says."""

    validation_gap: NotRequired[list[ValidationGap]]
    """Validation and test scores of what was handed in, by how many validation scores the agent was shown, over
    runs; absent where no run has both."""

    turns: NotRequired[TurnsSummary]
    """Of the rollouts of agents in turns; absent where none is."""

    traces: NotRequired[TracesSummary]
    """Of the runs that go on over several traces (scaffold memory), on tasks with a leaderboard; absent where there
    is none."""

    search: NotRequired[SearchSummary]
    """Of the rollouts that are searches; absent where none is."""

    disclosure: NotRequired[Disclosure]
    """Of "all": what the results rest on; absent in older records."""


class TaskDifference(TypedDict):
    """One task in two sets."""

    task: str
    first: float
    """The first set's mean."""

    second: float
    difference: float
    """Second less first, turned so that positive is better."""

    result: Literal["win", "tie", "loss"]
    """Of the second set."""


class Comparison(TypedDict):
    """Two sets of graded rollouts, paired by task."""

    kind: Literal["comparison"]
    version: Literal[1]
    id: Id
    lineage: Lineage
    first: str
    second: str
    by: Literal["reward", "score", "normalised", "human-rank", "medal", "valid"]
    tasks: list[TaskDifference]
    """Those with a mean in both sets."""

    win: Count
    """Tasks where the second set is better."""

    tie: Count
    """Tasks where the means differ by at most 1e-9."""

    loss: Count
    """Tasks where it is worse."""

    difference_mean: float | None
    """Over tasks; null without tasks, and where scores have different metrics."""

    difference_ci: Annotated[list[float], Meta(min_length=2, max_length=2)] | None
    """Of difference_mean; null where the data allow none."""

    difference_method: NotRequired[Literal["newcombe", "t", "bootstrap"] | None]
    """Of the interval: Newcombe's over runs for shares; over tasks for all others, Student's t for fewer than 20,
    else a percentile bootstrap."""

    confidence: Annotated[float, Meta(gt=0, lt=1)]
    resamples: Positive
    """Of the bootstrap."""

    seed: int
    """Of the bootstrap."""

    only_first: list[str]
    """Tasks that the second set did not run, left out."""

    only_second: list[str]
    """Tasks that the first set did not run, left out."""

    without_value: list[str]
    """Tasks where a set has no mean to compare, left out."""

    rollouts: Annotated[list[Count], Meta(min_length=2, max_length=2)]
    """Of the first and the second set."""

    missing: Annotated[list[Count], Meta(min_length=2, max_length=2)]
    """Runs missing in tasks that the set did run."""

    missing_policy: Literal["invalid", "ignore", "error"]
    ranked_against: NotRequired[Literal["people", "baselines", "both"]]
    """By human-rank: whose scores the leaderboards hold."""

    revealed: Annotated[list[Count], Meta(min_length=2, max_length=2)]
    """Rollouts whose agent was shown test scores."""
