"""Summaries and comparisons as text: tables, in parts where a terminal is narrow, with explanatory notes."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..base.visible import visible_line
from ..records.report import Comparison
from .comparison import BY
from .disclosure import described
from .runs import RANKS, RankedAgainst
from .summary import ALL, RATES
from .table import Column, Record, Table, document, form_of, interval, number
from .usage import AFTERWARDS

OVERALL = {
    "valid": "valid",
    "above_median": "above median",
    "bronze": "bronze",
    "silver": "silver",
    "gold": "gold",
    "medal": "any medal",
    "reward": "reward",
    "score": "score",
    "human_rank": "human rank",
    "normalised": "normalised score",
}
HANDLING = {"invalid": "counted as invalid", "ignore": "left out", "error": "an error"}
AGAINST: dict[RankedAgainst | None, str] = {
    None: "tasks with a leaderboard",
    "people": "tasks with a leaderboard",
    "baselines": "tasks with a leaderboard, whose scores are those of baselines, not of people",
    "both": "tasks with a leaderboard, of people or of baselines",
}
TASK: tuple[Column, ...] = (("task", "task", ""), ("set", "set", ""))


def each(rows: Sequence[Record], words: Callable[[Record], str]) -> str:
    """`3 of 24 (before), 0 of 24 (after)`; set names only if there are several."""
    return ", ".join(f"{words(row)} ({visible_line(row['set'])})" if len(rows) > 1 else words(row) for row in rows)


def _mean(words: str, quantity: str, form: str, rows: Sequence[Record] = ()) -> tuple[Column, Column]:
    """A mean and its spread: the standard error, or the deviation where the rows have it (--spread sd)."""
    if _deviations(rows):
        return (words, f"{quantity}_mean", form), ("± SD", lambda row: row["sd"][quantity], form)
    return (words, f"{quantity}_mean", form), ("± SEM", f"{quantity}_sem", form)


def _deviations(rows: Sequence[Record]) -> bool:
    return any("sd" in row for row in rows)


def by_task(rows: Sequence[Record]) -> Table:
    """One line per task and set, and one per set over all tasks."""

    def runs(row: Record) -> str:
        return f"{row['rollouts']}/{row['rollouts'] + row['missing']}" if row["missing"] else str(row["rollouts"])

    def medals(row: Record) -> str:
        return "/".join(number(row[name], ".0%").rstrip("%") for name in ("bronze", "silver", "gold"))

    def metric(row: Record) -> str:
        """`mae, lower is better` as `mae ↓`."""
        return str(row["metric"]).replace(", higher is better", " ↑").replace(", lower is better", " ↓")

    columns: tuple[Column, ...] = (
        *TASK,
        ("runs", runs, ""),
        ("valid", "valid", ".0%"),
        ("> median", "above_median", ".0%"),
        ("b/s/g %", medals, ""),
        ("medal", "medal", ".0%"),
        *_mean("reward", "reward", ".3f", rows),
        ("score", "score_mean", ".4g"),
        (f"score best@{rows[0]['k']}", "score_best_at_k", ".4g"),
        ("metric", metric, ""),
    )
    return Table.of(rows, columns, ("task", "set", "metric"), "By task")


def leaderboards(rows: Sequence[Record]) -> Table:
    """One line per set and task with a leaderboard."""
    k = rows[0]["k"]
    columns: tuple[Column, ...] = (
        *TASK,
        *_mean(RANKS[_against(rows)], "human_rank", ".3f", rows),
        *_mean("normalised", "normalised", ".1f", rows),
        (f"norm. avg@{k}", "normalised_avg_at_k", ".1f"),
        (f"norm. best@{k}", "normalised_best_at_k", ".1f"),
    )
    ranked = [row for row in rows if row["human_rank_mean"] is not None or row["normalised_mean"] is not None]
    title = "Against baselines" if _against(rows) == "baselines" else "Leaderboards"
    return Table.of(ranked, columns, ("task", "set"), title)


def _against(rows: Sequence[Record]) -> RankedAgainst | None:
    """Whose scores the leaderboards of the rows hold: the same for all, or "both"."""
    found: set[RankedAgainst] = {row["ranked_against"] for row in rows if "ranked_against" in row}
    return "both" if len(found) > 1 else next(iter(found), None)


def over_tasks(rows: Sequence[Record]) -> Table:
    """The mean over tasks, its SEM and its interval, by quantity and set."""
    lines, deviations = [], _deviations(rows)
    for name, words in {**OVERALL, "human_rank": RANKS[_against(rows)]}.items():
        field, form = name if name in RATES else f"{name}_mean", form_of(name)
        for row in (row for row in rows if row[field] is not None):
            spread = row["sd"][name] if deviations else row[f"{name}_sem"]
            values = (number(row[field], form), number(spread, form), interval(row[f"{name}_ci"], form))
            lines.append([words, row["set"], *values])
    level = f"{100 * rows[0]['confidence']:.4g} % CI"
    return Table(
        ["over tasks", "set", "mean", "± SD" if deviations else "± SEM", level],
        lines,
        ("over tasks", "set"),
        "Means over tasks",
    )


def searches(rows: Sequence[Record]) -> Table:
    """One line per set and task with searches: loops, improve rate, first medal."""
    columns: tuple[Column, ...] = (
        *TASK,
        ("searches", "searches", "d"),
        *_mean("loops", "loops", ".1f"),
        *_mean("improve rate", "improve_rate", ".1%"),
        *_mean("first medal s", "first_medal_s", ".0f"),
        ("with medal", lambda row: f"{row['medalled']}/{row['searches']}", ""),
        ("fallbacks", "fallbacks", "d"),
    )
    return Table.of([{**row, **row["search"]} for row in rows if "search" in row], columns, ("task", "set"), "Searches")


def phases(rows: Sequence[Record]) -> Table:
    """Mean cost of one search by set and phase, over tasks."""
    costs = [
        {"phase": phase, "set": row["set"], **used}
        for row in rows
        for phase, used in row.get("search", {}).get("cost", {}).items()
    ]
    columns: tuple[Column, ...] = (
        ("cost per search", "phase", ""),
        ("set", "set", ""),
        ("seconds", "seconds", ".1f"),
        ("prompt tokens", "prompt_tokens", ".0f"),
        ("completion tokens", "completion_tokens", ".0f"),
        ("USD", "usd", ".4f"),
    )
    return Table.of(costs, columns, ("cost per search", "set"), "Cost per search")


def formats(rows: Sequence[Record]) -> Table:
    """For each set the shares of its answers by how they were read: exactly, leniently by which rule, or not and why."""
    lines = []
    for label, form in ((row["set"], row["format"]) for row in rows if "format" in row):
        lines.append(["exact", "", label, str(form["answers"]), number(form["exact"], ".1%")])
        for read, words in (("lenient", "lenient"), ("none", "not read")):
            lines += [[words, rule, label, "", number(share, ".1%")] for rule, share in form[read].items()]
    header = ["answers", "rule or reason", "set", "of", "share"]
    return Table(header, lines, header[:3], "How answers were read")


def validation_gaps(rows: Sequence[Record]) -> Table:
    """For each set, by the number of scores that an agent was shown, how much better validation scores are than tests'."""
    columns: tuple[Column, ...] = (
        ("scores shown", "scores", ""),
        ("set", "set", ""),
        ("runs", "rollouts", "d"),
        *_mean("validation - test", "gap", "+.3f"),
        ("validation better", "validation_better", ".0%"),
    )
    lines = [{"set": row["set"], **each} for row in rows for each in row.get("validation_gap", ())]
    return Table.of(lines, columns, ("scores shown", "set"), "Validation and test scores")


def costs(rows: Sequence[Record]) -> Table:
    """Total and mean costs of each set's rollouts, also by role if a set has several; (5/8): known for 5 of 8."""

    def known(field: str, counted: str, form: str, used: Record) -> str:
        some = f" ({used[counted]}/{used['rollouts']})" if 0 < used[counted] < used["rollouts"] else ""
        return number(used[field], form) + some

    def mean(field: str, count: str, used: Record) -> float | None:
        return used[field] / used[count] if used[count] else None

    columns: tuple[Column, ...] = (
        ("cost", "set", ""),
        *((("role", "role", ""),) if _several_roles(rows) else ()),
        ("rollouts", "rollouts", "d"),
        ("seconds", "seconds", ".1f"),
        ("per rollout", partial(mean, "seconds", "rollouts"), ".1f"),
        ("prompt tokens", partial(known, "prompt_tokens", "tokens_rollouts", "d"), ""),
        ("completion tokens", partial(known, "completion_tokens", "tokens_rollouts", "d"), ""),
        ("USD", partial(known, "usd", "usd_rollouts", ".2f"), ""),
        ("per rollout", partial(mean, "usd", "usd_rollouts"), ".4f"),
    )
    lines = []
    for row in rows:
        roles = row.get("usage_by_role", {}).items() if _several_roles(rows) else ()
        lines += [{"set": row["set"], "role": role, **used} for role, used in (("all", row), *roles)]
    return Table.of(lines, columns, ("cost", "role"), "Cost")


def _several_roles(rows: Sequence[Record]) -> bool:
    return any(len(row.get("usage_by_role", {})) > 1 for row in rows)


def tables(rows: Sequence[Record]) -> list[Table]:
    """The summaries as tables without empty columns; tables without data are left out."""
    if not rows:
        return []
    overall = [row for row in rows if row["task"] == ALL]
    parts = (by_task(rows), leaderboards(rows), over_tasks(overall), searches(rows), phases(overall), formats(overall))
    return [table.filled() for table in (*parts, validation_gaps(overall), costs(overall)) if table.rows]


def report(rows: Sequence[Record], form: str = "text", room: int | None = None) -> str:
    """The summaries as tables and notes, in one of table.FORMATS; `room`: columns of a terminal."""
    if not rows:
        return "no rollouts"
    overall = [row for row in rows if row["task"] == ALL]
    text = document(tables(rows), notes(overall), form, room)
    facts = [f"{name}: {words}" for name, words in described(overall)]
    return text if form == "csv" else f"{text}\n\nThese results rest on:\n{document((), facts, form, room)}"


# --- notes ----------------------------------------------------------------------------------------------------------


def notes(rows: Sequence[Record]) -> list[str]:
    """Notes on how to read the numbers; `rows` are the sets' lines over all tasks."""
    k = rows[0]["k"]
    fewer = " (- with fewer)" if rows[0]["missing_policy"] == "ignore" else ""
    missing, _ = _counts(rows)
    lines = [
        missing,
        f"reward ({_rule(rows, 'reward_rule')}): mean of the runs with a reward; b/s/g: bronze, silver, gold",
        f"score: mean of the valid runs; score best@{k}: the best score of {k} runs{fewer}",
        "± SD: standard deviation over repeats (ddof 0, --spread sd); a repeat is a seed and a sample"
        if _deviations(rows)
        else "± SEM: standard error of the mean over repeats (ddof 1); a repeat is a seed and a sample",
        "CI: Wilson's over runs for shares, Student's t over repeats for all others",
        "all, over tasks: tasks have equal weight",
    ]
    if "trained" in rows[0]:
        lines.append(f"trained on (--trained): {rows[0]['trained']} tasks, also part of all; held out: the other tasks")
    if any("no_validation" in row for row in rows):
        without = each(
            rows,
            lambda row: (
                f"{row.get('no_validation', 0)}, {row.get('reported_scores', 0)} of them chosen by a printed score"
            ),
        )
        lines.append(f"rollouts without validation rows, because none could be held out: {without}")
    if any("unscored" in row for row in rows):
        unscored = each(rows, lambda row: str(row.get("unscored", 0)))
        lines.append(f"runs without a shown score, of which the first valid trace counts (--best-trace): {unscored}")
    if any(row["human_rank_rule"] is not None for row in rows):
        rule = _rule(rows, "human_rank_rule")
        lines += [
            f"{RANKS[_against(rows)]} ({rule}), normalised: {AGAINST[_against(rows)]}; invalid runs count as 0",
            f"norm. avg@{k}, best@{k}: of the normalised score, without invalid runs, 0 only if all {k} are invalid",
        ]
    if any("search" in row for row in rows):
        lines += [
            "loops: nodes; improve rate: share of the nodes after the first score that beat all earlier nodes",
            "first medal: seconds to the first node with a medal by test score, mean of the searches with one",
            "cost per search: mean over tasks",
            "fallbacks: answers of the model that could not be used and were replaced by a default",
        ]
    if any("by_printed_scores" in row.get("search", {}) for row in rows):
        printed = each(rows, lambda row: str(row.get("search", {}).get("by_printed_scores", 0)))
        lines.append(
            f"searches that used the scores that their programs print, because no rows could be held out: {printed}"
        )
    if any("validation_gap" in row for row in rows):
        lines += [
            "validation - test: of the submission handed in, as a share of the distance from median to gold; "
            "positive: the validation score is better",
            "scores shown: validation scores that the agent saw per rollout; a gap that grows with them is overfitting to these rows",
        ]
    if _several_roles(rows):
        roles = {role for row in rows for role in row.get("usage_by_role", {})}
        others = [f"{role} ({command})" for role, command in AFTERWARDS.items() if role in roles]
        lines.append("cost by role: seconds of requests only; of the rollouts that record the usage of each role")
        if others:
            lines.append(f"cost of {' and '.join(others)}: spent after the rollouts, not part of all")
    return lines


def _counts(rows: Sequence[Record], more: str = "") -> tuple[str, str]:
    """The notes on missing runs and on revealed test scores."""
    policy = rows[0]["missing_policy"]
    missing = each(rows, lambda row: f"{row['missing']} of {row['rollouts'] + row['missing']}")
    revealed = each(rows, lambda row: f"{row['revealed']} of {row['rollouts']}")
    return (
        f"missing runs: {missing}; {HANDLING[policy]} (--missing {policy}){more}",
        f"test feedback: revealed in {revealed} rollouts",
    )


def _rule(rows: Sequence[Record], field: str) -> str:
    """The common rule of all sets, or each set's rule."""
    rules = {row[field] for row in rows if row[field] is not None}
    return str(rules.pop()) if len(rules) == 1 else each(rows, lambda row: row[field] or "none")


# --- the course of runs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Course:
    """A table of values over the budget, turns or submissions: a line for each quantity, set and selection.

    header: of the columns left of the values; points: the list of points in a summary's field, x: its column names;
    quantities: words, format, {selection: field of a point}; keeps: quantities that keep their last value.
    """

    header: tuple[str, ...]
    field: str
    points: str
    x: str
    quantities: tuple[tuple[str, str, dict[str, str]], ...]
    keeps: tuple[str, ...] = ()

    def table(self, rows: Sequence[Record]) -> Table:
        """rows: of the sets over all tasks, with the field."""
        courses = [(row["set"], row[self.field][self.points]) for row in rows]
        longest = max(courses, key=lambda course: len(course[1]))[1]
        shown = _columns(len(longest))
        names = [longest[at - 1][self.x] if longest else at for at in shown]
        lines = []
        for words, form, selections in self.quantities:
            for label, points in courses:
                for selection, name in selections.items():
                    values = [self._value(points, at, name) for at in shown]
                    if any(value is not None for value in values):
                        head = (words, label, *((selection,) if selection else ()))
                        lines.append([*head, *(number(value, form) for value in values)])
        return Table([*self.header, *(f"{x:.0%}" if self.x == "share" else str(x) for x in names)], lines, self.header)

    def _value(self, points: Sequence[Record], at: int, name: str) -> float | None:
        if at > len(points) and name not in self.keeps:
            return None
        value: float | None = points[min(at, len(points)) - 1][name] if points else 0.0
        return value


def _columns(longest: int) -> list[int]:
    """At most eleven whole numbers from 1 to `longest`, including both."""
    return sorted({1, *(math.ceil(longest * tenth / 10) for tenth in range(1, 11) if longest)})


OVER_TIME = Course(
    ("over time", "set", "selection"), "search", "over_time", "share",
    (
        ("any medal", ".1%", {"handed in": "medal", "perfect": "perfect_medal"}),
        ("normalised score", ".1f", {"handed in": "normalised", "perfect": "perfect_normalised"}),
    ),
)  # fmt: skip
OVER_TURNS = Course(
    ("after turn", "set"), "turns", "by_turn", "turn",
    (
        ("still working", ".0%", {"": "working"}),
        ("asks for help", ".1%", {"": "asked"}),
        ("valid so far", ".1%", {"": "valid"}),
        ("any medal so far", ".1%", {"": "medal"}),
        ("normalised score so far", ".1f", {"": "normalised"}),
    ),
    ("valid", "medal", "normalised"),
)  # fmt: skip
BY_TRACE = Course(
    ("human rank by", "set"), "traces", "over_time", "share",
    (
        ("traces from memory", ".3f", {"": "memory"}),
        ("traces from scratch", ".3f", {"": "reset"}),
        ("all traces", ".3f", {"": "best"}),
    ),
)  # fmt: skip
BY_SUBMISSION = Course(
    ("valid submission", "set"), "traces", "by_submission", "submission",
    (
        ("runs with as many", "d", {"": "runs"}),
        ("human rank", ".3f", {"": "this"}),
        ("best so far", ".3f", {"": "best"}),
    ),
    ("best",),
)  # fmt: skip


def _notes_over_time(rows: Sequence[Record]) -> Iterator[str]:
    yield from _counts(rows, ", but left out of sets with other rollouts")
    yield "columns: share of the budget used, of time, nodes or USD, whichever is closest to its limit"
    yield "handed in: the node with the best score so far; after the end, what the search handed in"
    yield "perfect: the node with the best test score so far, which no agent sees"
    yield "means over tasks with equal weight; an invalid or missing submission has no medal and a normalised score of 0"


def _notes_over_turns(rows: Sequence[Record]) -> Iterator[str]:
    def length(row: Record) -> float:  # the sum of the shares that took the first turn, the second and so on
        return float(sum(point["working"] for point in row["turns"]["by_turn"]))

    yield each(rows, lambda row: f"{row['turns']['rollouts']} rollouts, {length(row):.1f} turns on average")
    yield "columns: turns; asks for help: share of the agents still working"
    yield "so far: the best submission by test score, which the agent may not have seen; finished runs keep theirs"
    yield "means over tasks with equal weight; missing runs are left out"


def _notes_over_traces(rows: Sequence[Record]) -> Iterator[str]:
    def counts(row: Record) -> str:
        return f"{row['traces']['runs']} runs, {row['traces']['with_both']} with valid submissions of both kinds"

    yield each(rows, counts)
    yield "first table: best so far by share of a run's time (seconds of its turns); each kind in the runs that have both"
    yield "second table: the valid submissions of a run in order, over all its traces; runs with fewer keep their best (0 if none)"
    yield "best: by the score that the run knew (validation, test with --reveal-test, or reported by its programs)"
    if any(row["traces"].get("without_scores") for row in rows):
        yield f"left out of best: runs without such scores, {each(rows, lambda row: str(row['traces']['without_scores']))}"
    yield "human ranks are those of the test score, which the agent may not have seen; tasks have equal weight"
    if _against(rows) in ("baselines", "both"):
        yield f"human ranks: {AGAINST[_against(rows)]}"


# by option name: the tables, which replace the whole report, their notes, and what a set without such runs has none of
COURSES: dict[str, tuple[tuple[Course, ...], Callable[[Sequence[Record]], Iterator[str]], str]] = {
    "over_time": ((OVER_TIME,), _notes_over_time, "searches"),
    "over_turns": ((OVER_TURNS,), _notes_over_turns, "agents in turns"),
    "over_traces": ((BY_TRACE, BY_SUBMISSION), _notes_over_traces, "runs of traces on tasks with a leaderboard"),
}


def course(name: str, rows: Sequence[Record], form: str = "text", room: int | None = None) -> str:
    """The tables of one of COURSES, over tasks, with notes."""
    courses, explained, what = COURSES[name]
    sets = [row for row in rows if row["task"] == ALL]
    overall = [row for row in sets if courses[0].field in row]
    if not overall:
        return f"no {what}" if rows else "no rollouts"
    left_out = [row["set"] for row in sets if row not in overall]
    lines = [f"left out, no {what}: {', '.join(left_out)}"] if left_out else []
    return document([each.table(overall) for each in courses], [*lines, *explained(overall)], form, room)


# --- comparisons ----------------------------------------------------------------------------------------------------


def comparison(record: Comparison, form: str = "text", room: int | None = None) -> str:
    """A comparison as a table of its tasks, with the verdict and notes."""
    first, second, by = record["first"], record["second"], record["by"]
    digits = form_of(BY[by])
    columns: tuple[Column, ...] = (
        ("task", "task", ""),
        (first, "first", digits),
        (second, "second", digits),
        ("difference", "difference", f"+{digits}"),
        (f"{second} against {first}", "result", ""),
    )
    table = Table.of(map(dict, record["tasks"]), columns, ("task",), "")
    count = f"{len(table.rows)} task" + ("s" if len(table.rows) != 1 else "")
    lines = [
        f"by {by}, {second} against {first}: win {record['win']}, tie {record['tie']}, loss {record['loss']} of {count}; "
        "a positive difference is better"
    ]
    if record["difference_mean"] is not None:
        ends, level = record["difference_ci"], f"{100 * record['confidence']:.4g} % CI"
        how = f" ({level} {interval(ends, f'+{digits}')}: {method(record)})" if ends else ""
        lines.append(f"mean difference over tasks: {number(record['difference_mean'], f'+{digits}')}{how}")
    elif table.rows:
        lines.append("mean difference over tasks: none, the metrics differ")
    if (against := record.get("ranked_against")) in ("baselines", "both"):
        lines.append(f"human ranks: {AGAINST[against]}")
    left_out = {
        f"only in {first}": record["only_first"],
        f"only in {second}": record["only_second"],
        f"no {by} to compare in both": record["without_value"],
    }
    lines += [f"left out, {words}: {', '.join(tasks)}" for words, tasks in left_out.items() if tasks]
    fields, policy = ("rollouts", "missing", "revealed"), record["missing_policy"]
    counts = zip((first, second), record["rollouts"], record["missing"], record["revealed"], strict=True)
    sets = [dict(zip(("set", *fields), each, strict=True), missing_policy=policy) for each in counts]
    return document([table], [*lines, *_counts(sets)], form, room)


def method(record: Comparison) -> str:
    """The method of a comparison's interval, in words."""
    return {
        "newcombe": "Newcombe over runs, paired by task",
        "t": "Student's t over tasks",
        "bootstrap": f"bootstrap over tasks, {record['resamples']} resamples, --seed {record['seed']}",
    }[record["difference_method"] or ""]
