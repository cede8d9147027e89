"""Tables of the course of runs: searches, agents after each of their turns, and runs of several traces."""

import math
from collections.abc import Callable, Sequence

from .courses import ALL
from .lines import HANDLING, OVERALL, Record, aligned, each, number

BY_TURN = {
    "working": ("still working", ".0%"),
    "asked": ("asks for help", ".1%"),
    "valid": ("valid so far", ".1%"),
    "medal": ("any medal so far", ".1%"),
    "normalised": ("normalised score so far", ".1f"),
}


def searches(rows: Sequence[Record]) -> str | None:
    """One line per set and task with searches: loops, improve rate, first medal; None without searches."""
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
        "with medal",
        "fallbacks",
    ]
    lines = []
    for row in rows:
        search = row["search"]
        line = [row["task"], row["set"], str(search["searches"])]
        for name, form in (("loops", ".1f"), ("improve_rate", ".1%"), ("first_medal_s", ".0f")):
            line += [number(search[f"{name}_{part}"], form) for part in ("mean", "sem")]
        lines.append([*line, f"{search['medalled']}/{search['searches']}", str(search["fallbacks"])])
    return aligned(header, lines)


def phases(rows: Sequence[Record]) -> str | None:
    """Mean cost of one search by set and phase, over tasks; None without searches."""
    forms = {"seconds": ".1f", "prompt_tokens": ".0f", "completion_tokens": ".0f", "usd": ".4f"}
    lines = [
        [phase, row["set"], *(number(used[name], form) for name, form in forms.items())]
        for row in rows
        for phase, used in row.get("search", {}).get("cost", {}).items()
    ]
    header = ["cost of a search", "set", "seconds", "prompt tokens", "completion tokens", "USD"]
    return aligned(header, lines, ("cost of a search", "set")) if lines else None


def over_time(rows: Sequence[Record]) -> str:
    """Medals and normalised scores by set and share of the budget used, over tasks, with notes."""
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
                    lines.append([OVERALL[name], row["set"], words, *(number(value, form) for value in values)])
    table = aligned(
        ["over time", "set", "selection", *(f"{s:.0%}" for s in shares)], lines, ("over time", "set", "selection")
    )
    policy = overall[0]["missing_policy"]
    missing = each(overall, lambda row: f"{row['missing']} of {row['rollouts'] + row['missing']}")
    revealed = each(overall, lambda row: f"{row['revealed']} of {row['rollouts']}")
    notes = [
        f"missing runs: {missing}; {HANDLING[policy]} (--missing {policy}), but left out of sets with other rollouts",
        f"test feedback: revealed in {revealed} rollouts",
        "columns: share of the budget used, of time, nodes or USD, whichever is closest to its limit",
        "handed in: the node with the best score so far; after the end, the node that the search chose",
        "perfect: the node with the best test score so far, which no agent sees",
        "means over tasks with equal weight; an invalid or missing submission has no medal and a normalised score of 0",
    ]
    return f"{table}\n\n" + "\n".join(notes)


def by_turn(rows: Sequence[Record]) -> str:
    """Agents in turns, by set over tasks: shares working, asking for help, valid and with medals, with notes."""
    overall = [row for row in rows if row["task"] == ALL and "turns" in row]
    if not overall:
        return "no agents in turns" if rows else "no rollouts"
    columns = _columns(max(len(row["turns"]["by_turn"]) for row in overall))
    lines = []
    for name, (words, form) in BY_TURN.items():
        for row in overall:
            points = row["turns"]["by_turn"]
            values = [points[min(turn, len(points)) - 1][name] for turn in columns]
            if name in ("working", "asked"):  # finished runs are not working
                values = [value if turn <= len(points) else None for value, turn in zip(values, columns, strict=True)]
            if set(values) != {None}:
                lines.append([words, row["set"], *(number(value, form) for value in values)])
    notes = [
        each(overall, lambda row: f"{row['turns']['rollouts']} rollouts of {_length(row):.1f} turns"),
        "columns: turns; asks for help: share of the agents still working",
        "so far: the best submission by test score, which the agent may not have seen; finished runs keep theirs",
        "means over tasks with equal weight; missing runs are left out",
    ]
    table = aligned(["after turn", "set", *map(str, columns)], lines, ("after turn", "set"))
    return f"{table}\n\n" + "\n".join(notes)


def by_trace(rows: Sequence[Record]) -> str:
    """For each set of runs of traces, over tasks: human ranks over a run's time by kind of trace, and by submission."""
    overall = [row for row in rows if row["task"] == ALL and "traces" in row]
    if not overall:
        return "no runs of traces on tasks with a leaderboard" if rows else "no rollouts"
    shares = [point["share"] for point in overall[0]["traces"]["over_time"]]
    over_time = [
        [f"traces from {words}", row["set"], *(number(point[kind]) for point in row["traces"]["over_time"])]
        for kind, words in (("memory", "memory"), ("reset", "scratch"))
        for row in overall
    ]
    counts = _columns(max(len(row["traces"]["by_submission"]) for row in overall))
    by_submission = []
    for name, words, form in (
        ("runs", "runs with as many", "d"),
        ("this", "human rank", ".3f"),
        ("best", "best so far", ".3f"),
    ):
        for row in overall:
            points = row["traces"]["by_submission"]
            if name == "best":  # runs with fewer submissions keep their best
                values = [points[min(k, len(points)) - 1][name] if points else 0.0 for k in counts]
            else:
                values = [points[k - 1][name] if k <= len(points) else None for k in counts]
            by_submission.append([words, row["set"], *(number(value, form) for value in values)])
    tables = [
        aligned(["human rank by", "set", *(f"{s:.0%}" for s in shares)], over_time, ("human rank by", "set")),
        aligned(["valid submission", "set", *map(str, counts)], by_submission, ("valid submission", "set")),
    ]
    notes = [
        each(
            overall,
            lambda row: (
                f"{row['traces']['runs']} runs, {row['traces']['with_both']} with valid submissions of both kinds"
            ),
        ),
        "above: best so far by share of a run's time (seconds of its turns); runs with valid submissions of both kinds",
        "below: valid submissions of a run in order, over all its traces; runs with fewer keep their best (0 if none)",
        "best: by the score that the run showed (validation, or test with --reveal-test), else by human rank",
        "human ranks are those of the test score, which the agent may not have seen; tasks have equal weight",
    ]
    return "\n\n".join(tables) + "\n\n" + "\n".join(notes)


def _columns(longest: int) -> list[int]:
    """At most eleven whole numbers from 1 to `longest`, including both."""
    return sorted({1, *(math.ceil(longest * tenth / 10) for tenth in range(1, 11) if longest)})


def _length(row: Record) -> float:
    """The mean number of turns: the sum of the shares that took the first, the second and so on."""
    return float(sum(point["working"] for point in row["turns"]["by_turn"]))


TABLES: dict[str, Callable[[Sequence[Record]], str]] = {  # by option name; each replaces the whole report
    "over_time": over_time,
    "over_turns": by_turn,
    "over_traces": by_trace,
}
