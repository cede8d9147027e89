"""Summaries and comparisons as text: tables that fit a terminal, with explanatory notes."""

from collections.abc import Sequence

from .comparison import BY
from .course_tables import phases, searches
from .courses import ALL
from .formats import formats
from .lines import HANDLING, OVERALL, Record, Table, each, form_of, interval, number
from .means import RATES
from .show.visible import visible_line
from .usage import AFTERWARDS


def _metric(name: str) -> str:
    """`mae, lower is better` as `mae ↓`."""
    return name.replace(", higher is better", " ↑").replace(", lower is better", " ↓")


def by_task(rows: Sequence[Record]) -> Table:
    """One line per task and set, and one per set over all tasks."""
    header = ["task", "set", "runs", "valid", "> median", "b/s/g %", "medal", "reward", "± SEM", "score"]
    header += [f"best@{rows[0]['k']}", "metric"]
    lines = [
        [
            row["task"],
            row["set"],
            f"{row['rollouts']}/{row['rollouts'] + row['missing']}" if row["missing"] else str(row["rollouts"]),
            f"{row['valid']:.0%}",
            f"{row['above_median']:.0%}",
            "/".join(f"{100 * row[name]:.0f}" for name in ("bronze", "silver", "gold")),
            f"{row['medal']:.0%}",
            number(row["reward_mean"]),
            number(row["reward_sem"]),
            number(row["score_mean"], ".4g"),
            number(row["score_best_at_k"], ".4g"),
            _metric(row["metric"]),
        ]
        for row in rows
    ]
    return Table(header, lines, ("task", "set", "metric"), "By task")


def leaderboards(rows: Sequence[Record]) -> Table | None:
    """One line per set and task with a leaderboard; None if no task has one."""
    rows = [row for row in rows if row["human_rank_mean"] is not None or row["normalised_mean"] is not None]
    if not rows:
        return None
    k = rows[0]["k"]
    header = ["task", "set", "human rank", "± SEM", "normalised", "± SEM", f"avg@{k}", f"best@{k}"]
    lines = [
        [
            row["task"],
            row["set"],
            number(row["human_rank_mean"]),
            number(row["human_rank_sem"]),
            number(row["normalised_mean"], ".1f"),
            number(row["normalised_sem"], ".1f"),
            number(row["normalised_avg_at_k"], ".1f"),
            number(row["normalised_best_at_k"], ".1f"),
        ]
        for row in rows
    ]
    return Table(header, lines, title="Leaderboards")


def over_tasks(rows: Sequence[Record]) -> Table:
    """The mean over tasks, its SEM and its interval, by quantity and set."""
    lines = []
    for name, words in OVERALL.items():
        field = name if name in RATES else f"{name}_mean"
        for row in (row for row in rows if row[field] is not None):
            form = form_of(name)
            values = (number(row[field], form), number(row[f"{name}_sem"], form), interval(row[f"{name}_ci"], form))
            lines.append([words, row["set"], *values])
    level = f"{100 * rows[0]['confidence']:.4g} % CI"
    return Table(["over tasks", "set", "mean", "± SEM", level], lines, ("over tasks", "set"), "Means over tasks")


def costs(rows: Sequence[Record]) -> Table:
    """Total and mean costs of each set's rollouts, also by role if a set has several; (5/8): known for 5 of 8."""
    header = ["rollouts", "seconds", "per rollout", "prompt tokens", "completion tokens", "USD", "per rollout"]
    if not _several_roles(rows):
        return Table(["cost", *header], [[row["set"], *_cost(row)] for row in rows], ("cost",), "Cost")
    lines = [
        [row["set"], visible_line(role), *_cost(used)]
        for row in rows
        for role, used in (("all", row), *row.get("usage_by_role", {}).items())
    ]
    return Table(["cost", "role", *header], lines, ("cost", "role"), "Cost")


def _cost(used: Record) -> list[str]:
    """The cells of a line of costs."""
    counted, paid, count = used["tokens_rollouts"], used["usd_rollouts"], used["rollouts"]
    some = f" ({counted}/{count})" if 0 < counted < count else ""
    some_usd = f" ({paid}/{count})" if 0 < paid < count else ""
    line = [str(count), f"{used['seconds']:.1f}", f"{used['seconds'] / count:.1f}" if count else "-"]
    line += [number(used[name], "d") + some for name in ("prompt_tokens", "completion_tokens")]
    return [*line, number(used["usd"], ".2f") + some_usd, number(used["usd"] / paid if paid else None, ".4f")]


def _several_roles(rows: Sequence[Record]) -> bool:
    return any(len(row.get("usage_by_role", {})) > 1 for row in rows)


def _rule(rows: Sequence[Record], field: str) -> str:
    """The common rule of all sets, or each set's rule."""
    rules = {row[field] for row in rows if row[field] is not None}
    if len(rules) == 1:
        return str(rules.pop())
    return each(rows, lambda row: row[field] or "none")


def notes(rows: Sequence[Record]) -> str:
    """Notes on how to read the numbers; `rows` are the sets' lines over all tasks."""
    policy, k = rows[0]["missing_policy"], rows[0]["k"]
    rule = _rule(rows, "reward_rule")
    fewer = " (- with fewer)" if policy == "ignore" else ""
    missing = each(rows, lambda row: f"{row['missing']} of {row['rollouts'] + row['missing']}")
    revealed = each(rows, lambda row: f"{row['revealed']} of {row['rollouts']}")
    lines = [
        f"missing runs: {missing}; {HANDLING[policy]} (--missing {policy})",
        f"test feedback: revealed in {revealed} rollouts",
        f"reward ({rule}): mean of the runs with a reward; b/s/g: bronze, silver, gold",
        f"score: mean of the valid runs; best@{k}: the best score of {k} runs{fewer}",
        "± SEM: standard error of the mean over repeats (ddof 1); a repeat is a seed and a sample",
        "CI: Wilson's over runs for shares, Student's t over repeats for all others",
        "all, over tasks: tasks have equal weight",
    ]
    if any(row["human_rank_rule"] is not None for row in rows):
        rule = _rule(rows, "human_rank_rule")
        lines.append(f"human rank ({rule}), normalised: tasks with a leaderboard; invalid runs count as 0")
        lines.append(f"avg@{k}, best@{k} of the normalised score: without invalid runs, 0 only if all {k} are invalid")
    if any("search" in row for row in rows):
        lines.append("loops: nodes; improve rate: share of the nodes after the first score that beat all earlier nodes")
        lines.append(
            "first medal: seconds to a node with a medal on the test, mean of searches with one; cost of a search: mean"
        )
        lines.append("fallbacks: answers of the model that could not be used, so that a default took their place")
    if _several_roles(rows):
        roles = {role for row in rows for role in row.get("usage_by_role", {})}
        others = [f"{role} ({command})" for role, command in AFTERWARDS.items() if role in roles]
        lines.append("cost by role: seconds of asking alone; of the rollouts that say what each role used")
        if others:
            lines.append(f"cost of {' and '.join(others)}: after the rollouts, not in all")
    return "\n".join(lines)


def tables(rows: Sequence[Record]) -> list[Table]:
    """The summaries as tables; those without data are left out."""
    if not rows:
        return []
    overall = [row for row in rows if row["task"] == ALL]
    parts = [by_task(rows), leaderboards(rows), over_tasks(overall), searches(rows), phases(overall)]
    return [part for part in (*parts, formats(overall), costs(overall)) if part is not None]


def report(rows: Sequence[Record]) -> str:
    """The summaries as text: tables and notes."""
    if not rows:
        return "no rollouts"
    return "\n\n".join(map(str, (*tables(rows), notes([row for row in rows if row["task"] == ALL]))))


def comparison(record: Record) -> str:
    """A comparison as a table of its tasks, with the verdict and notes."""
    first, second, by = record["first"], record["second"], record["by"]
    form = form_of(BY[by])
    lines = [
        [
            row["task"],
            f"{row['first']:{form}}",
            f"{row['second']:{form}}",
            f"{row['difference']:+{form}}",
            row["result"],
        ]
        for row in record["tasks"]
    ]
    table = Table(["task", first, second, "difference", f"{second} against {first}"], lines, ("task",))
    count = f"{len(lines)} task" + ("s" if len(lines) != 1 else "")
    verdict = (
        f"by {by}, {second} against {first}: win {record['win']}, tie {record['tie']}, loss {record['loss']} of {count}"
    )
    lines_after = [verdict + "; a positive difference is better"]
    if record["difference_mean"] is not None:
        mean = f"mean difference over tasks: {record['difference_mean']:+{form}}"
        between = interval(record["difference_ci"], f"+{form}")
        how = f" ({100 * record['confidence']:.4g} % CI {between}: {method(record)})" if record["difference_ci"] else ""
        lines_after.append(mean + how)
    elif lines:
        lines_after.append("mean difference over tasks: none, the metrics differ")
    for field, words in (("only_first", f"only in {first}"), ("only_second", f"only in {second}")):
        if record[field]:
            lines_after.append(f"left out, {words}: {', '.join(record[field])}")
    if record["without_value"]:
        lines_after.append(f"left out, no {by} to compare in both: {', '.join(record['without_value'])}")
    policy = record["missing_policy"]
    missing = [f"{m} of {m + n} ({name})" for m, n, name in _sets(record, "missing")]
    lines_after.append(f"missing runs: {', '.join(missing)}; {HANDLING[policy]} (--missing {policy})")
    revealed = [f"{r} of {n} ({name})" for r, n, name in _sets(record, "revealed")]
    lines_after.append(f"test feedback: revealed in {', '.join(revealed)} rollouts")
    return f"{table}\n\n" + "\n".join(lines_after)


def method(record: Record) -> str:
    """The method of a comparison's interval, in words."""
    return {
        "newcombe": "Newcombe over runs, paired by task",
        "t": "Student's t over tasks",
        "bootstrap": f"bootstrap over tasks, {record['resamples']} resamples, --seed {record['seed']}",
    }[record["difference_method"]]


def _sets(record: Record, field: str) -> list[tuple[int, int, str]]:
    """The field, the number of rollouts and the name of each of the two sets."""
    names = (record["first"], record["second"])
    return list(zip(record[field], record["rollouts"], names, strict=True))
