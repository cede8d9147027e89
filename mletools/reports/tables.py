"""Summaries and comparisons as text for people: tables that fit a terminal, and the notes that say how to read them."""

from collections.abc import Sequence

from .course_tables import phases, searches
from .courses import ALL
from .lines import HANDLING, OVERALL, Record, aligned, each, interval, number
from .means import RATES


def _metric(name: str) -> str:
    """`mae, lower is better` as `mae ↓`."""
    return name.replace(", higher is better", " ↑").replace(", lower is better", " ↓")


def by_task(rows: Sequence[Record]) -> str:
    """A line for each task and set, and for each set over all tasks."""
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
    return aligned(header, lines, ("task", "set", "metric"))


def leaderboards(rows: Sequence[Record]) -> str | None:
    """A line for each task with a leaderboard, and set; None where no task has one."""
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
    return aligned(header, lines)


def over_tasks(rows: Sequence[Record]) -> str:
    """For each quantity and set the mean over tasks, its SEM and its interval."""
    lines = []
    for name, words in OVERALL.items():
        field = name if name in RATES else f"{name}_mean"
        for row in (row for row in rows if row[field] is not None):
            form = ".1%" if name in RATES else ".1f" if name == "normalised" else ".4g" if name == "score" else ".3f"
            values = (number(row[field], form), number(row[f"{name}_sem"], form), interval(row[f"{name}_ci"], form))
            lines.append([words, row["set"], *values])
    level = f"{100 * rows[0]['confidence']:.4g} % CI"
    return aligned(["over tasks", "set", "mean", "± SEM", level], lines, ("over tasks", "set"))


def costs(rows: Sequence[Record]) -> str:
    """For each set what its rollouts cost: sums, and what one took; (5/8): told by 5 of 8 rollouts."""
    header = ["cost", "rollouts", "seconds", "a rollout", "prompt tokens", "completion tokens", "USD", "a rollout"]
    lines = []
    for row in rows:
        told, paid, count = row["tokens_rollouts"], row["usd_rollouts"], row["rollouts"]
        some = f" ({told}/{count})" if 0 < told < count else ""
        some_usd = f" ({paid}/{count})" if 0 < paid < count else ""
        line = [row["set"], str(count), f"{row['seconds']:.1f}"]
        line.append(f"{row['seconds'] / count:.1f}" if count else "-")
        line += [number(row[name], "d") + some for name in ("prompt_tokens", "completion_tokens")]
        line += [number(row["usd"], ".2f") + some_usd, number(row["usd"] / paid if paid else None, ".4f")]
        lines.append(line)
    return aligned(header, lines, ("cost",))


def _rule(rows: Sequence[Record], field: str) -> str:
    """The one rule that all sets used, or each set's."""
    rules = {row[field] for row in rows if row[field] is not None}
    if len(rules) == 1:
        return str(rules.pop())
    return each(rows, lambda row: row[field] or "none")


def notes(rows: Sequence[Record]) -> str:
    """What a reader must know of the numbers; `rows` are the sets' lines over all tasks."""
    policy, k = rows[0]["missing_policy"], rows[0]["k"]
    rule = _rule(rows, "reward_rule")
    fewer = " (- with fewer)" if policy == "ignore" else ""
    missing = each(rows, lambda row: f"{row['missing']} of {row['rollouts'] + row['missing']}")
    revealed = each(rows, lambda row: f"{row['revealed']} of {row['rollouts']}")
    lines = [
        f"missing runs: {missing}; {HANDLING[policy]} (--missing {policy})",
        f"test feedback: revealed in {revealed} rollouts",
        f"reward ({rule}): of the runs that have one; b/s/g: bronze, silver, gold",
        f"score: of the valid runs; best@{k}: the best score of {k} runs{fewer}",
        "± SEM: standard error of the mean over repeats (ddof 1), a repeat being a seed and a sample",
        "CI: of shares Wilson's, over runs; of the others Student's t, over repeats",
        "all, over tasks: every task weighs the same",
    ]
    if any(row["human_rank_rule"] is not None for row in rows):
        rule = _rule(rows, "human_rank_rule")
        lines.append(f"human rank ({rule}), normalised: tasks with a leaderboard; an invalid run counts 0")
        lines.append(f"avg@{k}, best@{k} of the normalised score: without invalid runs, 0 only if all {k} are invalid")
    if any("search" in row for row in rows):
        lines.append("loops: nodes; improve rate: of the nodes after the first score, those that beat all before them")
        lines.append(
            "first medal: seconds until a node had one on the test, of the searches with one; a search's: its mean"
        )
    return "\n".join(lines)


def report(rows: Sequence[Record]) -> str:
    """The summaries as tables and notes."""
    if not rows:
        return "no rollouts"
    overall = [row for row in rows if row["task"] == ALL]
    parts = [by_task(rows), leaderboards(rows), over_tasks(overall), searches(rows), phases(overall), costs(overall)]
    return "\n\n".join(part for part in (*parts, notes(overall)) if part is not None)


def comparison(record: Record) -> str:
    """A comparison as a table of its tasks, the verdict, and the notes."""
    first, second, by = record["first"], record["second"], record["by"]
    form = ".1%" if by in RATES else ".1f" if by == "normalised" else ".4g" if by == "score" else ".3f"
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
    table = aligned(["task", first, second, "difference", f"{second} against {first}"], lines, ("task",))
    count = f"{len(lines)} task" + ("s" if len(lines) != 1 else "")
    found = (
        f"by {by}, {second} against {first}: win {record['win']}, tie {record['tie']}, loss {record['loss']} of {count}"
    )
    said = [found + "; a positive difference is better"]
    if record["difference_mean"] is not None:
        mean = f"mean difference over tasks: {record['difference_mean']:+{form}}"
        between = interval(record["difference_ci"], f"+{form}")
        how = f"{100 * record['confidence']:.4g} % CI {between}: bootstrap over tasks, {record['resamples']} resamples"
        said.append(f"{mean} ({how}, --seed {record['seed']})" if record["difference_ci"] else mean)
    elif lines:
        said.append("mean difference over tasks: none, the metrics differ")
    for field, words in (("only_first", f"only in {first}"), ("only_second", f"only in {second}")):
        if record[field]:
            said.append(f"left out, {words}: {', '.join(record[field])}")
    if record["without_value"]:
        said.append(f"left out, no {by} to compare in both: {', '.join(record['without_value'])}")
    policy = record["missing_policy"]
    missing = [f"{m} of {m + n} ({name})" for m, n, name in _sets(record, "missing")]
    said.append(f"missing runs: {', '.join(missing)}; {HANDLING[policy]} (--missing {policy})")
    revealed = [f"{r} of {n} ({name})" for r, n, name in _sets(record, "revealed")]
    said.append(f"test feedback: revealed in {', '.join(revealed)} rollouts")
    return f"{table}\n\n" + "\n".join(said)


def _sets(record: Record, field: str) -> list[tuple[int, int, str]]:
    """Of each of the two sets: the field, the rollouts, the name."""
    names = (record["first"], record["second"])
    return list(zip(record[field], record["rollouts"], names, strict=True))
