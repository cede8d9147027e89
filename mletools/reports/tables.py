"""Summaries and comparisons as text for people: tables that fit a terminal, and the notes that say how to read them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from .summary import ALL, RATES

Record = dict[str, Any]
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
BY_TURN = {
    "working": ("at work", ".0%"),
    "asked": ("asks for help", ".1%"),
    "valid": ("valid so far", ".1%"),
    "medal": ("any medal so far", ".1%"),
    "normalised": ("normalised score so far", ".1f"),
}
HANDLING = {"invalid": "counted as invalid", "ignore": "left out", "error": "an error"}


def _number(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)


def _interval(interval: Sequence[float] | None, form: str = ".3f") -> str:
    return "-" if interval is None else f"{interval[0]:{form}} to {interval[1]:{form}}"


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str] = ("task", "set")) -> str:
    from tabulate import tabulate

    align = ["left" if name in left else "right" for name in header]
    rules = ["-" * max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return tabulate([header, rules, *rows], tablefmt="plain", disable_numparse=True, colalign=align)


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
            _number(row["reward_mean"]),
            _number(row["reward_sem"]),
            _number(row["score_mean"], ".4g"),
            _number(row["score_best_at_k"], ".4g"),
            _metric(row["metric"]),
        ]
        for row in rows
    ]
    return _aligned(header, lines, ("task", "set", "metric"))


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
            _number(row["human_rank_mean"]),
            _number(row["human_rank_sem"]),
            _number(row["normalised_mean"], ".1f"),
            _number(row["normalised_sem"], ".1f"),
            _number(row["normalised_avg_at_k"], ".1f"),
            _number(row["normalised_best_at_k"], ".1f"),
        ]
        for row in rows
    ]
    return _aligned(header, lines)


def over_tasks(rows: Sequence[Record]) -> str:
    """For each quantity and set the mean over tasks, its SEM and its interval."""
    lines = []
    for name, words in OVERALL.items():
        field = name if name in RATES else f"{name}_mean"
        for row in (row for row in rows if row[field] is not None):
            form = ".1%" if name in RATES else ".1f" if name == "normalised" else ".4g" if name == "score" else ".3f"
            values = (_number(row[field], form), _number(row[f"{name}_sem"], form), _interval(row[f"{name}_ci"], form))
            lines.append([words, row["set"], *values])
    interval = f"{100 * rows[0]['confidence']:.4g} % CI"
    return _aligned(["over tasks", "set", "mean", "± SEM", interval], lines, ("over tasks", "set"))


def searches(rows: Sequence[Record]) -> str | None:
    """A line for each task with searches, and set: loops, gains, the first medal; None without."""
    rows = [row for row in rows if "search" in row]
    if not rows:
        return None
    header = [
        "task",
        "set",
        "searches",
        "loops",
        "± SEM",
        "improve rate",
        "± SEM",
        "first medal s",
        "± SEM",
        "with one",
    ]
    lines = []
    for row in rows:
        told = row["search"]
        line = [row["task"], row["set"], str(told["searches"])]
        for name, form in (("loops", ".1f"), ("improve_rate", ".1%"), ("first_medal_s", ".0f")):
            line += [_number(told[f"{name}_{what}"], form) for what in ("mean", "sem")]
        lines.append([*line, f"{told['medalled']}/{told['searches']}"])
    return _aligned(header, lines)


def phases(rows: Sequence[Record]) -> str | None:
    """For each set and phase what one of its searches used, over tasks; None without searches."""
    forms = {"seconds": ".1f", "prompt_tokens": ".0f", "completion_tokens": ".0f", "usd": ".4f"}
    lines = [
        [phase, row["set"], *(_number(used[name], form) for name, form in forms.items())]
        for row in rows
        for phase, used in row.get("search", {}).get("cost", {}).items()
    ]
    header = ["a search's", "set", "seconds", "prompt tokens", "completion tokens", "USD"]
    return _aligned(header, lines, ("a search's", "set")) if lines else None


def over_time(rows: Sequence[Record]) -> str:
    """For each set, over tasks: medals and normalised scores by the share of the budget that was used, and notes."""
    overall = [row for row in rows if row["task"] == ALL and "search" in row]
    if not overall:
        return "no searches" if rows else "no rollouts"
    shares = [point["share"] for point in overall[0]["search"]["over_time"]]
    lines = []
    for name, form in (("medal", ".1%"), ("normalised", ".1f")):
        for row in overall:
            for which, words in ((name, "handed in"), (f"perfect_{name}", "perfect")):
                values = [point[which] for point in row["search"]["over_time"]]
                if set(values) != {None}:
                    lines.append([OVERALL[name], row["set"], words, *(_number(value, form) for value in values)])
    table = _aligned(
        ["over time", "set", "selection", *(f"{s:.0%}" for s in shares)], lines, ("over time", "set", "selection")
    )
    policy = overall[0]["missing_policy"]
    missing = _each(overall, lambda row: f"{row['missing']} of {row['rollouts'] + row['missing']}")
    revealed = _each(overall, lambda row: f"{row['revealed']} of {row['rollouts']}")
    notes = [
        f"missing runs: {missing}; {HANDLING[policy]} (--missing {policy}), but left out of sets with other rollouts",
        f"test feedback: revealed in {revealed} rollouts",
        "columns: the share of the budget that was used, of time, nodes or USD, whichever is nearest its end",
        "handed in: the node with the best score so far; once the search is over, the one that it chose",
        "perfect: the node with the best test score so far, which nobody could know",
        "means over tasks, every task weighs the same; an unfit submission, or none, has no medal and a normalised score of 0",
    ]
    return f"{table}\n\n" + "\n".join(notes)


def by_turn(rows: Sequence[Record]) -> str:
    """For each set of agents in turns, over tasks: how many are at work, ask for help, and have what by then; and notes."""
    overall = [row for row in rows if row["task"] == ALL and "turns" in row]
    if not overall:
        return "no agents in turns" if rows else "no rollouts"
    longest = max(len(row["turns"]["by_turn"]) for row in overall)
    columns = sorted({math.ceil(longest * tenth / 10) for tenth in range(1, 11)} | {1})
    lines = []
    for name, (words, form) in BY_TURN.items():
        for row in overall:
            points = row["turns"]["by_turn"]
            values = [points[min(turn, len(points)) - 1][name] for turn in columns]
            if name in ("working", "asked"):  # what is over is not at work
                values = [value if turn <= len(points) else None for value, turn in zip(values, columns, strict=True)]
            if set(values) != {None}:
                lines.append([words, row["set"], *(_number(value, form) for value in values)])
    notes = [
        _each(overall, lambda row: f"{row['turns']['rollouts']} rollouts"),
        "columns: turns; asks for help: of those that are at work",
        "so far: the best submission by its score on the test, which the agent need not have known; a run that is over keeps it",
        "means over tasks, every task weighs the same; runs that are missing are left out",
    ]
    table = _aligned(["after turn", "set", *map(str, columns)], lines, ("after turn", "set"))
    return f"{table}\n\n" + "\n".join(notes)


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
        line += [_number(row[name], "d") + some for name in ("prompt_tokens", "completion_tokens")]
        line += [_number(row["usd"], ".2f") + some_usd, _number(row["usd"] / paid if paid else None, ".4f")]
        lines.append(line)
    return _aligned(header, lines, ("cost",))


def _each(rows: Sequence[Record], words: Callable[[Record], str]) -> str:
    """`3 of 24 (before), 0 of 24 (after)`; the set's name only where there are several."""
    return ", ".join(f"{words(row)} ({row['set']})" if len(rows) > 1 else words(row) for row in rows)


def _rule(rows: Sequence[Record], field: str) -> str:
    """The one rule that all sets used, or each set's."""
    rules = {row[field] for row in rows if row[field] is not None}
    if len(rules) == 1:
        return rules.pop()
    return _each(rows, lambda row: row[field] or "none")


def notes(rows: Sequence[Record]) -> str:
    """What a reader must know of the numbers; `rows` are the sets' lines over all tasks."""
    policy, k = rows[0]["missing_policy"], rows[0]["k"]
    rule = _rule(rows, "reward_rule")
    fewer = " (- with fewer)" if policy == "ignore" else ""
    missing = _each(rows, lambda row: f"{row['missing']} of {row['rollouts'] + row['missing']}")
    revealed = _each(rows, lambda row: f"{row['revealed']} of {row['rollouts']}")
    lines = [
        f"missing runs: {missing}; {HANDLING[policy]} (--missing {policy})",
        f"test feedback: revealed in {revealed} rollouts",
        f"reward ({rule}): of the runs that have one; b/s/g: bronze, silver, gold",
        f"score: of the valid runs; best@{k}: the best score of {k} runs{fewer}",
        "± SEM: standard error of the mean over repeats (ddof 1), a repeat being a seed and a sample; CI: Student's t",
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
    table = _aligned(["task", first, second, "difference", f"{second} against {first}"], lines, ("task",))
    count = f"{len(lines)} task" + ("s" if len(lines) != 1 else "")
    found = (
        f"by {by}, {second} against {first}: win {record['win']}, tie {record['tie']}, loss {record['loss']} of {count}"
    )
    said = [found + "; a positive difference is better"]
    if record["difference_mean"] is not None:
        mean = f"mean difference over tasks: {record['difference_mean']:+{form}}"
        interval = _interval(record["difference_ci"], f"+{form}")
        how = f"{100 * record['confidence']:.4g} % CI {interval}: bootstrap over tasks, {record['resamples']} resamples"
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
