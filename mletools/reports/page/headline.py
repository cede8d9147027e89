"""The top of a page of several sets: which is better, by how much, how sure that is, who made them, what changed most.

The intervals are those of `--compare` (reports.comparison); shares of rollouts that changed have Newcombe's.
Not covered: the differences task by task as a figure (bars), the summaries of each set (tables).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypedDict

from ...base.errors import ToolError
from ...base.visible import visible_line
from ...records.report import Comparison
from ...records.rollout import Rollout
from ..comparison import BY, By, ComparisonSettings, compare
from ..runs import RANKS, RunSet, ranked_against
from ..statistics import Interval, mean, newcombe_interval
from ..summary import RATES
from ..table import Table, form_of, interval, number
from ..tables import method

NAMES: dict[By, str] = {  # of the quantities, the first that is not 0 in both sets decides
    "medal": "medals",
    "reward": "reward",
    "valid": "valid submissions",
    "normalised": "normalised score",
    "human-rank": "human rank",
    "score": "score",
}
MOST = 5  # changes of each kind
FIRST = ("model", "scaffold", "file written")  # shown though they are the same


class Headline(TypedDict):
    """A comparison for the top of the page: the record, and its parts in words."""

    record: Comparison
    verdict: str
    better: str
    result: str
    n: str
    others: list[tuple[str, str]]
    tasks: list[tuple[str, str]]
    shares: list[tuple[str, str]]


def headline(
    first: RunSet, second: RunSet, settings: ComparisonSettings, by: By | None, say: Callable[[str], None]
) -> Headline | None:
    """The comparison of `second` with `first` for the page; None, and `say` gets the reason, if there is none.

    settings: of `compare`, by name; by: the quantity that decides, else the first of NAMES that is not 0 in both.
    `record` of the result is the comparison by that quantity.
    """
    records: dict[By, Comparison] = {}
    for quantity in dict.fromkeys((*((by,) if by else ()), *NAMES)):
        try:
            record = compare(first, second, **ComparisonSettings(**{**settings, "by": quantity}))
        except ToolError as error:  # rewards or human ranks of two rules
            if quantity == by:
                say(f"{second.label} is not compared with {first.label} by {by}: {error}")
            continue
        if record["difference_mean"] is not None:
            records[quantity] = record
        elif quantity == by:
            say(f"{second.label} is not compared with {first.label} by {by}: the metrics differ")
    if not records:
        say(f"{second.label} is not compared with {first.label}: no task has the same quantity in both")
        return None
    decides = next((name for name in records if name == by or _present(records[name])), next(iter(records)))
    main = records.pop(decides)
    counts = " and ".join(f"{len(run_set.runs):,}" for run_set in (first, second))
    names = {**NAMES, "human-rank": RANKS[ranked_against([*first.runs, *second.runs])]}
    tasks, ends, better = len(main["tasks"]), main["difference_ci"], _better(main)
    how = (
        f"Interval: {method(main)}." if ends else "No interval: there are too few tasks, or all differences are equal."
    )
    return {
        "record": main,
        "verdict": _verdict(names, decides, main, records),
        "better": better,
        "result": f"{names[decides]} {_words(main)}",
        "n": f"n = {tasks} task{'s' if tasks != 1 else ''}, {counts} rollouts; {main['win']} task{'s' if main['win'] != 1 else ''} better, "
        f"{main['tie']} equal, {main['loss']} worse. {how}",
        "others": [(names[name], _words(record)) for name, record in records.items() if _present(record)],
        "tasks": [
            (row["task"], _change(decides, row["first"], row["second"], row["difference"]))
            for row in sorted(main["tasks"], key=lambda row: -abs(row["difference"]))[:MOST]
            if row["result"] != "tie"
        ],
        "shares": list(_shares(first, second, settings["confidence"])),
    }


def _better(record: Comparison) -> Literal["", "first", "second"]:
    """The set that is better by the interval of the difference; "" if the interval holds 0, or there is none."""
    ends = record["difference_ci"]
    return "" if ends is None or ends[0] <= 0 <= ends[1] else "second" if ends[0] > 0 else "first"


def _verdict(names: Mapping[By, str], by: By, main: Comparison, others: Mapping[By, Comparison]) -> str:
    """Which set is better by the quantity that decides, and by which other quantities it is otherwise.

    `after is better than before in medals`, `No clear difference between before and after in medals, but after is
    better in reward`.
    """
    better = _better(main)
    verdict = f"No clear difference between {main['first']} and {main['second']} in {names[by]}"
    if better:
        verdict = f"{main[better]} is better than {main['second' if better == 'first' else 'first']} in {names[by]}"
    sides: dict[Literal["first", "second"], list[str]] = {}
    for name, record in others.items():
        if (side := _better(record)) and side != better:
            sides.setdefault(side, []).append(names[name])
    contrary = " and ".join(f"{main[side]} is better in {_and(names)}" for side, names in sides.items())
    return f"{verdict}, but {contrary}" if contrary else verdict


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _present(record: Comparison) -> bool:
    return any(row["first"] or row["second"] for row in record["tasks"])


def _words(record: Comparison) -> str:
    """`16.0 → 39.5 %, +23.4 points, 95 % CI 12.5 to 34.4, paired by task`"""
    first, second = (
        mean([row["first"] for row in record["tasks"]]) or 0.0,
        mean([row["second"] for row in record["tasks"]]) or 0.0,
    )
    words, ends = _change(record["by"], first, second, record["difference_mean"] or 0.0), record["difference_ci"]
    level = f", {100 * record['confidence']:.4g} % CI {_ends(record['by'], ends)}" if ends else ""
    return f"{words}{level}, paired by task"


def _change(by: By, first: float, second: float, difference: float) -> str:
    if BY[by] in RATES:
        before, after, points = (
            number(value, form).rstrip("%") for value, form in ((first, ".1%"), (second, ".1%"), (difference, "+.1%"))
        )
        return f"{before} → {after} %, {points} points"
    form = form_of(BY[by])
    return f"{first:{form}} → {second:{form}}, {difference:+{form}}"


def _ends(by: By, ends: Interval) -> str:
    return interval(ends, form_of(BY[by])).replace("%", "")


def _shares(first: RunSet, second: RunSet, confidence: float) -> Iterator[tuple[str, str]]:
    """The shares of rollouts that differ most between the two sets, by how they stopped, ran, and were read."""
    one, two = (Counter(name for run in run_set.runs for name in run.outcomes) for run_set in (first, second))
    n, m = len(first.runs), len(second.runs)
    if not n or not m:
        return
    shares = {name: (one[name] / n, two[name] / m) for name in dict.fromkeys((*one, *two))}
    changes = {name: after - before for name, (before, after) in shares.items() if before != after}
    for name in sorted(changes, key=lambda name: (-abs(changes[name]), name))[:MOST]:
        before, after = shares[name]
        ends = newcombe_interval(before, n, after, m, confidence) or []
        yield name, f"{_change('valid', before, after, changes[name])}, CI {_ends('valid', ends)}"


# --- who made the sets ----------------------------------------------------------------------------------------------


class Makers:
    """Collects what made the rollouts of each set; `table` tells differences from what the sets share."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Counter[str]]] = {}

    def add(self, rollout: Rollout, label: str) -> None:
        of = self._values.setdefault(visible_line(label), {})
        policy = rollout["policy"]
        facts = {"model": policy["model"], "policy version": policy["version"], "scaffold": rollout["scaffold"]}
        facts |= {name.replace("_", " "): value for name, value in policy["sampling"].items()}
        for entry in rollout["lineage"]:
            facts |= {f"{entry['tool']} {name}": value for name, value in entry["options"].items()}
            facts[f"{entry['tool']} version"] = entry["version"]
            if entry["tool"] == "mle-rollout":
                facts["mle-rollout seed"] = entry["seed"]
        for name, value in facts.items():
            if value is not None:
                of.setdefault(visible_line(name), Counter())[visible_line(str(value))] += 1

    def table(self, written: Mapping[str, str]) -> tuple[Table, list[list[str]]]:
        """The rows of FIRST and those that differ, a column a set; the others. written: by set, its file's date."""
        sets = list(self._values)
        names = dict.fromkeys(name for of in self._values.values() for name in of)
        rows = [[name, *(_listed(self._values[label].get(name)) for label in sets)] for name in names]
        rows.append(["file written", *(written.get(label, "-") for label in sets)])
        rows.sort(key=lambda row: FIRST.index(row[0]) if row[0] in FIRST else len(FIRST))
        differing = [row for row in rows if row[0] in FIRST or len(set(row[1:])) > 1]
        header = ("option", *sets)
        return Table(header, differing, header, "Made by: what differs"), [row for row in rows if row not in differing]


def _listed(values: Counter[str] | None, most: int = 3) -> str:
    if not values:
        return "-"
    names = [name for name, _ in values.most_common(most)]
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(names) + more
