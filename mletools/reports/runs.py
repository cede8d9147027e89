"""Graded rollouts as runs of tasks, aligned by repeat, with a policy for missing runs.

A repeat (the "seed" of the papers) is the pair of mle-rollout's --seed and the sample's index in its group. A set
should hold every repeat of every task. The others are missing, and the policy says what a missing run counts as. Traces
of a run and rollouts from states are as many as a task happens to have.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ..base.errors import RecordError, ToolError
from ..base.visible import visible_line
from ..grading.options import OF_RULES
from ..records.rollout import RewardRule, Rollout, Usage
from ..records.task import Thresholds
from .disclosure import Facts, facts_of, own_settings, sampled_with
from .feedback import Gap, gap_of
from .search import Search, searched
from .show.facts import task_name
from .traces import Trace, traced
from .turns import Verdict, by_turn, turns
from .usage import by_role

MIXED = "mixed"
KEPT = "kept"
RankedAgainst = Literal["people", "baselines", "both"]
RANKS: dict[RankedAgainst | None, str] = {  # what a human rank is called, by whom it is against
    None: "human rank",
    "people": "human rank",
    "baselines": "rank vs baselines",
    "both": "rank",
}
Missing = Literal["invalid", "ignore", "error"]
POLICIES: tuple[Missing, ...] = get_args(Missing)
QUANTITIES = (
    "valid", "above_median", "bronze", "silver", "gold", "medal", "reward", "score", "human_rank", "normalised",
)  # fmt: skip
ROLES = ("policy", "ideator", "implementer")
THRESHOLDS: tuple[Literal["median", "bronze", "silver", "gold"], ...] = ("median", "bronze", "silver", "gold")
COMPLEXITIES = ("low", "medium", "high")  # MLE-bench's, as mle-import records them
# Stages of a rollout, each a subset of the one before.
STAGES = ("rollouts", "with a program", "ran without error", "submission", "valid", "above median", "medal")
Readings = Counter[tuple[str, str | None]]  # answers by how they were read, and the rule or the reason
Values = Mapping[str, float | None]  # one run's QUANTITIES; None: no such value
Grid = dict[str, list[Values | None]]  # by task, one entry per repeat; None: missing and ignored


@dataclass(frozen=True, slots=True)
class GradedRun:
    """The fields of a graded rollout that reports use."""

    id: str
    task: str
    name: str  # of the task
    modality: str
    problem: str
    split: str | None  # difficulty in a benchmark (MLE-bench: one of COMPLEXITIES)
    mutations: str | None  # `2 mutations`
    repeat: tuple[bool, int, int]  # whether mle-rollout's seed is known, the seed, the sample
    group: str
    group_size: int
    uneven: bool  # a trace, or from a state: tasks differ in their number of these
    scaffold: str
    version: int | None  # of the policy, if it is a number
    stop_reason: str
    status: str | None  # of the graded program
    execution_s: float | None
    submitted: bool
    coded: bool
    decision: str | None  # of the filter: KEPT, or the reason; None: not filtered
    valid: bool
    above_median: bool
    medal: str | None
    metric: str
    lower_is_better: bool
    score: float | None
    reward: float | None
    reward_rule: str
    failure_reward: float | None
    human_rank: float | None
    human_rank_rule: str | None
    normalised: float | None
    ranked: bool  # the task has a leaderboard, from which normalised scores are taken
    against_baselines: bool  # which holds the scores of baselines, not people's
    thresholds: Mapping[str, float]  # of the task, or its leaderboard
    baselines: Mapping[str, float]  # scores of reference solutions
    usage: Usage  # of its own models, and the seconds of its programs
    revealed: bool
    reported: bool | None  # chosen by the score that its program printed; None: rows were held out
    length: int  # in turns
    search: Search | None  # if it is a search
    turns: tuple[tuple[bool, Verdict], ...] | None  # if its agent works in turns
    trace: Trace | None  # if it is a trace of a run
    gap: Gap | None  # if it has a validation and a test score
    readings: Readings
    models: Mapping[str, str]  # by role
    usage_by_role: Mapping[str, Usage]
    rests_on: Facts

    @property
    def ways(self) -> list[str]:
        """How its answers were read, each way once: `exact`, `lenient: first_action`, `not read: missing`."""
        words = {"none": "not read"}
        ways = {": ".join(filter(None, (words.get(read, read), rule))) for read, rule in self.readings}
        return sorted(map(visible_line, ways))

    @property
    def outcomes(self) -> list[str]:
        """What a share of rollouts can be counted of: how it stopped, ran, was read, and was judged."""
        program = "no program" if not self.coded else f"program: {self.status or 'not run'}"
        above = ["above the median"] if self.above_median else []
        answers = (f"answers {way}" for way in self.ways)
        return [*map(visible_line, (f"stopped: {self.stop_reason}", program)), *answers, *above]

    @property
    def stage(self) -> int:
        """The number of STAGES that it reached."""
        ran = self.status == "ok"
        reached = (True, self.coded, ran, self.submitted, self.valid, self.above_median, self.medal is not None)
        # a program may fail after its submission, and a medal may need less than the median: the last stage counts
        return max(at + 1 for at, passed in enumerate(reached) if passed)

    @property
    def values(self) -> Values:
        """Its QUANTITIES. Medals are exclusive (MLE-bench): gold is no silver; `medal` is any of the three."""
        medals = {name: float(self.medal == name) for name in ("bronze", "silver", "gold")}
        medals |= {"medal": float(self.medal is not None), "above_median": float(self.above_median)}
        ranks = {"human_rank": self.human_rank, "normalised": self.normalised}
        return {"valid": float(self.valid), **medals, "reward": self.reward, "score": self.score, **ranks}


@dataclass
class RunSet:
    """The runs of one input, by task, tasks in order of appearance."""

    label: str
    tasks: dict[str, list[GradedRun]] = field(default_factory=dict)
    unscored: int = 0  # runs of several traces that showed no score to choose one by

    def add(self, run: GradedRun) -> None:
        self.tasks.setdefault(run.task, []).append(run)

    @property
    def runs(self) -> list[GradedRun]:
        return [run for runs in self.tasks.values() for run in runs]


def graded_run(rollout: Rollout) -> GradedRun:
    """The GradedRun of a rollout; fields that older graders did not write are None. RecordError: it is not graded."""
    for name in ("grade", "reward"):
        if name not in rollout:
            raise RecordError(f'no "{name}": was this written by mle-grade?')
    task, policy, grade, usage = rollout["task"], rollout["policy"], rollout["grade"], rollout["usage"]
    execution, decision = rollout.get("execution"), rollout.get("filter")
    mutations, split = task["provenance"].get("mutations"), task["provenance"].get("split")
    execution_s = execution.get("duration_s") if execution else None
    seed = sampled_with(rollout)
    in_turns = "settings" in rollout  # usage of an agent in turns includes its programs
    better = "lower" if grade["lower_is_better"] else "higher"
    own = own_settings(rollout)
    acts = ("policy", "ideator") if rollout["scaffold"] == "idea" else ("policy",)
    acted = dict.fromkeys(acts, str(policy["model"]))
    of = turns(rollout)
    version = policy["version"]
    return GradedRun(
        id=rollout["id"],
        group=rollout["group"],
        group_size=rollout["group_size"],
        uneven="trace" in rollout or "state" in rollout or rollout["scaffold"] == "idea",
        scaffold=rollout["scaffold"],
        stop_reason=rollout["stop_reason"],
        reward=rollout["reward"],
        valid=grade["valid"],
        above_median=grade["above_median"],
        medal=grade["medal"],
        lower_is_better=grade["lower_is_better"],
        human_rank=grade.get("human_rank"),
        human_rank_rule=grade.get("human_rank_rule"),
        task=task["id"],
        name=visible_line(task_name(rollout)),
        modality=visible_line(task["modality"] or "unknown"),
        problem=visible_line(task["problem"] or "unknown").replace("_", " "),
        split=visible_line(split) if split is not None else None,
        mutations=f"{len(mutations)} mutations" if mutations is not None else None,
        repeat=(seed is not None, seed or 0, rollout["sample"]),
        version=version if isinstance(version, int) else None,
        status=execution.get("status") if execution else None,
        execution_s=execution_s,
        submitted=bool(execution and execution.get("submission")),
        coded=rollout["code"] is not None,
        decision=None if decision is None else KEPT if decision["kept"] else decision.get("reason") or "dropped",
        metric=f"{grade['metric']}, {better} is better",
        score=grade["score"] if grade["valid"] else None,
        reward_rule=reward_rule(rollout),
        failure_reward=failure_reward(grade["reward"]),
        normalised=grade.get("normalised_score"),
        ranked=grade.get("teams") is not None,
        against_baselines=bool(task["provenance"].get("baselines")),
        thresholds=_scores(grade.get("thresholds") or task.get("thresholds")),
        baselines={each["name"]: each["score"] for each in task["provenance"].get("baselines", ())},
        usage={**usage, "seconds": usage["seconds"] + (0.0 if in_turns else execution_s or 0.0)},
        revealed=bool(rollout.get("reveal_test")),
        reported="reported_score" in rollout if "no_validation" in rollout else None,
        length=len(rollout["turns"]),
        search=searched(rollout, of),
        turns=by_turn(rollout, of),
        trace=traced(rollout, of),
        gap=gap_of(rollout),
        readings=Counter((way["read"], way["rule"]) for turn in rollout["turns"] if (way := turn.get("format"))),
        models={**{role: str(own[role]) for role in ROLES if own.get(role)}, **acted},
        usage_by_role=by_role(rollout),
        rests_on=facts_of(rollout),
    )


def _scores(thresholds: Thresholds | None) -> dict[str, float]:
    """By name, the median first and gold last."""
    return {name: thresholds[name] for name in THRESHOLDS} if thresholds else {}


def reward_rule(rollout: Rollout) -> str:
    """The rule of its reward, with mle-grade's options of the rule: with others it is another quantity."""
    rule, scale = rollout["grade"]["reward"].get("rule", ""), rollout["grade"]["reward"].get("scale")
    graded = (entry["options"] for entry in reversed(rollout["lineage"]) if entry["tool"] == "mle-grade")
    options: dict[str, Any] = next(graded, {})
    own = [name for name, rules in OF_RULES.items() if rule in rules and name in options and name != "scale_score"]
    told = [f"--{name.replace('_', '-')} {options[name]}" for name in own]
    return visible_line(", ".join([rule, *([f"scores scaled by {scale}"] if scale else ()), *told]))


def failure_reward(how: RewardRule) -> float | None:
    """The reward of a run without a submission by the rule in `how` (grade.reward); None if it gets no reward."""
    return {"milestone": 0.0, "partial-credit": how.get("failure"), "improvement": 0.0}.get(how.get("rule", ""))


def divided(run_set: RunSet, role: str) -> list[RunSet]:
    """The set divided by the model that played a role, in order of appearance; "none" where nobody did."""
    parts: dict[str, RunSet] = {}
    for run in run_set.runs:
        model = run.models.get(role, "none")
        parts.setdefault(model, RunSet(f"{run_set.label}: {model}")).add(run)
    return list(parts.values()) or [run_set]


def common(values: Iterable[Any], none: Any = None) -> Any:
    """The common value of `values`; MIXED if they differ, `none` if there are none."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else MIXED if distinct else none


def ranked_against(runs: Iterable[GradedRun]) -> RankedAgainst | None:
    """Whose scores the leaderboards of the runs' tasks hold; None without leaderboards."""
    kinds = {run.against_baselines for run in runs if run.ranked}
    if not kinds:
        return None
    return "both" if len(kinds) > 1 else "baselines" if kinds == {True} else "people"


def human_rank_rule(run_set: RunSet) -> str | None:
    """The rule of the set's human ranks; ToolError if there are two, because ranks by different rules have no mean."""
    rules = sorted({run.human_rank_rule for run in run_set.runs if run.human_rank_rule is not None})
    if len(rules) > 1:
        raise ToolError(f"{run_set.label}: human ranks by {' and '.join(rules)}: grade again with one --human-rank")
    return rules[0] if rules else None


def expected_runs(run_set: RunSet, tasks: Iterable[str], at_least: int | None = None) -> dict[str, int]:
    """The number of runs that each of `tasks` should have; 0 in an empty set.

    It is the largest number that a task of the set has, or should have by the group sizes in its records, and at least
    `at_least`. The group_size reveals a group that a filter has reduced. A run of several traces counts once there, as
    does a group for each state: a task is not to have as many traces or states as another, but as many repeats.
    """
    if not run_set.tasks:
        return dict.fromkeys(tasks, 0)
    own = {task: _own_and_repeats(runs) for task, runs in run_set.tasks.items()}
    most = max(repeats for _, repeats in own.values())
    numbers = {task: number + most - repeats for task, (number, repeats) in own.items()}
    return {task: max(at_least or 0, numbers.get(task, most)) for task in tasks}


def _own_and_repeats(runs: Sequence[GradedRun]) -> tuple[int, int]:
    """The number of runs that a task should have by its own records, and of these that every task should have."""
    even = [run for run in runs if not run.uneven]
    sizes: dict[Any, int] = {}
    for run in even:
        key = (run.repeat[:2], run.group)
        sizes[key] = max(run.group_size, sizes.get(key, 0))
    number = max(len(even), sum(sizes.values()))
    samples: dict[Any, Counter[int]] = {}  # the records of each, by group
    for run in runs:
        if run.uneven:
            of = (run.repeat[:2], run.scaffold, run.models["policy"], run.group, run.group_size)
            samples.setdefault(of, Counter())[run.repeat[2]] += 1
    own, repeats = number, dict[Any, int]()
    for (*source, _, size), records in samples.items():
        whole = max(size, len(records))
        own += whole + records.total() - len(records)
        repeats[tuple(source)] = max(whole, repeats.get(tuple(source), 0))
    return own, number + sum(repeats.values())


def aligned(tasks: Mapping[str, Sequence[GradedRun]], count: int) -> dict[str, list[GradedRun | None]]:
    """The runs of each task as a list of `count` repeats, None for missing runs.

    Index i is the same repeat (seed and sample) in every task, if there are at most `count` distinct repeats. Otherwise
    (tasks that were run with different seeds) it is each task's i-th run. Runs of one task with the same seed and
    sample, from different groups, are separate repeats, in order of group and id.
    """
    keyed: dict[str, dict[Any, GradedRun]] = {}
    for task, runs in tasks.items():
        seen: Counter[Any] = Counter()
        keyed[task] = {}
        for run in sorted(runs, key=lambda run: (run.repeat, run.group, run.id)):
            keyed[task][run.repeat, seen[run.repeat]] = run
            seen[run.repeat] += 1
    places = sorted({key for by_key in keyed.values() for key in by_key})
    rows: dict[str, list[GradedRun | None]] = {}
    for task, by_key in keyed.items():
        row = [by_key.get(key) for key in places] if len(places) <= count else list(by_key.values())
        rows[task] = [*row, *[None] * (count - len(row))]
    return rows


def missing_runs(run_set: RunSet, expected: Mapping[str, int]) -> dict[str, int]:
    """The number of runs missing from those that are `expected` of each task, for tasks that lack any."""
    lacking = {task: count - len(run_set.tasks.get(task, ())) for task, count in expected.items()}
    return {task: number for task, number in lacking.items() if number}


def all_tasks(sets: Sequence[RunSet]) -> list[str]:
    """The tasks of all sets, in order of appearance."""
    return list(dict.fromkeys(task for run_set in sets for task in run_set.tasks))


def _refuse_missing(run_set: RunSet, expected: Mapping[str, int]) -> None:
    lacking = missing_runs(run_set, expected)
    if expected and not run_set.tasks:
        raise ToolError(f"{run_set.label}: no rollouts (--missing invalid or ignore continues without them)")
    if lacking:
        task, number = next(iter(lacking.items()))
        more = f" and {len(lacking) - 1} more tasks" if len(lacking) > 1 else ""
        raise ToolError(
            f"{run_set.label}: {sum(lacking.values())} of {sum(expected.values())} runs are missing: "
            f"{number} of {task}{more} (--missing invalid or ignore continues without them)"
        )


def normalised_tasks(sets: Sequence[RunSet]) -> set[str]:
    """The tasks with normalised scores: a run has one, or the task has a leaderboard and no valid run."""
    runs = [run for run_set in sets for run in run_set.runs]
    ranked, scored = ({run.task for run in runs if run.ranked}, {run.task for run in runs if run.valid})
    return {run.task for run in runs if run.normalised is not None} | (ranked - scored)


def grids(sets: Sequence[RunSet], policy: str, at_least: int | None = None) -> list[Grid]:
    """For each set the values of every repeat of every task of any set; `policy` decides about missing runs.

    "invalid": a missing run counts as one without a submission, with the reward of the set's rule for such runs (None
    if the rule gives none). "ignore": None in its place. "error": ToolError. The human rank and the normalised score of
    an invalid run are 0 where its task has them. All rows are as long as the longest: None, too, where none is expected.
    """
    tasks, boards = all_tasks(sets), normalised_tasks(sets)
    # a public leaderboard alone gives a rule, too
    ranked = {run.task for run_set in sets for run in run_set.runs if run.ranked or run.human_rank_rule is not None}
    by_set: list[Grid] = []
    for run_set in sets:
        expected = expected_runs(run_set, tasks, at_least)
        lacking, count = missing_runs(run_set, expected), max(expected.values(), default=0)
        if policy == "error":
            _refuse_missing(run_set, expected)
        failed = common(run.failure_reward for run in run_set.runs)
        missing = {**dict.fromkeys(QUANTITIES, 0.0), "reward": None if failed == MIXED else failed, "score": None}
        grid: Grid = {}
        for task, row in aligned({task: run_set.tasks.get(task, []) for task in tasks}, count).items():
            zeros = {name: 0.0 if task in of else None for name, of in (("human_rank", ranked), ("normalised", boards))}
            grid[task] = []
            absent = iter(range(lacking.get(task, 0) if policy == "invalid" else 0))
            for run in row:
                values = run.values if run else {**missing, **zeros} if next(absent, None) is not None else None
                if run and values and not run.valid:
                    values = {name: zeros.get(name) if value is None else value for name, value in values.items()}
                grid[task].append(values)
        by_set.append(grid)
    return by_set
