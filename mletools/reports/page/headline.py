"""The top of a page of several sets: which is better, by how much, how sure that is, who made them, what changed most.

The intervals are those of `--compare` (reports.comparison); shares of rollouts that changed have Newcombe's.
Not covered: the differences task by task as a figure (bars), the summaries of each set (tables).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...records.errors import ToolError
from ..comparison import BY, compare
from ..lines import NAMES, Record, form_of, interval
from ..means import RATES
from ..runs import RunSet
from ..show.visible import visible_line
from ..statistics import Interval, mean, newcombe_interval
from ..tables import method
from .shown import Shown

MOST = 5  # changes of each kind
FIRST = ("model", "scaffold", "file written")  # shown though they are the same
ORDER = ("medal", "reward", "valid", "normalised", "human-rank", "score")


def headline(
    first: RunSet,
    second: RunSet,
    runs: Sequence[Shown],
    settings: Mapping[str, Any],
    by: str | None,
    say: Callable[[str], None],
) -> dict[str, Any] | None:
    """The comparison of `second` with `first` for the page; None, and `say` gets the reason, if there is none.

    settings: of `compare`, by name; by: the quantity that decides, else the first of ORDER that is not 0 in both.
    `record` of the result is the comparison by that quantity.
    """
    records = {}
    for quantity in (by, *(name for name in ORDER if name != by)) if by else ORDER:
        try:
            record = compare(first, second, **{**settings, "by": quantity})
        except ToolError as error:  # rewards or human ranks of two rules
            if quantity == by:
                say(f"{second.label} is not compared with {first.label} by {by}: {error}")
            continue
        if record["difference_mean"] is not None:
            records[quantity] = record
        elif quantity == by:
            say(f"{second.label} is not compared with {first.label} by {by}: no values, or of different metrics")
    if not records:
        say(f"{second.label} is not compared with {first.label}: no task has the same quantity in both")
        return None
    decides = next((name for name in records if name == by or _present(records[name])), next(iter(records)))
    main = records.pop(decides)
    counts = " and ".join(f"{len(run_set.runs):,}" for run_set in (first, second))
    tasks = len(main["tasks"])
    return {
        "record": main,
        "verdict": _verdict(main),
        "better": _better(main),
        "result": f"{NAMES[decides]} {_words(main)}",
        "n": f"n = {tasks} task{'s' if tasks != 1 else ''}, {counts} rollouts; {main['win']} tasks better, "
        f"{main['tie']} equal, {main['loss']} worse. {_method(main)}",
        "others": [(NAMES[name], _words(record)) for name, record in records.items() if _present(record)],
        "tasks": [
            (row["task"], _change(decides, row["first"], row["second"], row["difference"]))
            for row in sorted(main["tasks"], key=lambda row: -abs(row["difference"]))[:MOST]
            if row["result"] != "tie"
        ],
        "shares": list(_shares(runs, first.label, second.label, settings["confidence"])),
    }


def _present(record: Record) -> bool:
    return any(row["first"] or row["second"] for row in record["tasks"])


def _better(record: Record) -> str:
    """`second`, `first`, or `` where the interval has 0 in it or there is none."""
    ends = record["difference_ci"]
    return "" if ends is None or ends[0] <= 0 <= ends[1] else "second" if ends[0] > 0 else "first"


def _verdict(record: Record) -> str:
    better = _better(record)
    if better:
        return f"{record[better]} is better than {record['first' if better == 'second' else 'second']}"
    return f"No clear difference between {record['first']} and {record['second']}"


def _method(record: Record) -> str:
    if record["difference_ci"] is None:
        return "No interval: too few tasks, or all differ by as much."
    return f"Interval: {method(record)}."


def _words(record: Record) -> str:
    """`16.0 → 39.5 %, +23.4 points, 95 % CI 12.5 to 34.4, paired by task`"""
    first, second = (mean([row[name] for row in record["tasks"]]) or 0.0 for name in ("first", "second"))
    words = _change(record["by"], first, second, record["difference_mean"])
    ends = record["difference_ci"]
    if ends is not None:
        low_high = interval(_scaled(record["by"], ends), _form(record["by"]))
        words += f", {100 * record['confidence']:.4g} % CI {low_high}"
    return f"{words}, paired by task"


def _change(by: str, first: float, second: float, difference: float) -> str:
    form, share = _form(by), BY[by] in RATES
    before, after, change = _scaled(by, (first, second, difference))
    return f"{before:{form}} → {after:{form}}{' %' if share else ''}, {change:+{form}}{' points' if share else ''}"


def _scaled(by: str, values: Sequence[float]) -> list[float]:
    """The values, shares in percent."""
    return [100 * value for value in values] if BY[by] in RATES else list(values)


def _form(by: str) -> str:
    return ".1f" if BY[by] in RATES else form_of(BY[by])


def _shares(runs: Sequence[Shown], first: str, second: str, confidence: float) -> Iterator[tuple[str, str]]:
    """The shares of rollouts that differ most between the two sets, by how they stopped, ran, and were read."""
    sets = [[each for each in runs if each.set == visible_line(label)] for label in (first, second)]
    counts = [Counter(name for each in of for name in each.outcomes) for of in sets]
    sizes = [len(of) for of in sets]
    if not all(sizes):
        return
    found: list[tuple[float, str, float, float, Interval | None]] = []
    for name in dict.fromkeys((*counts[0], *counts[1])):
        one, two = (count[name] / size for count, size in zip(counts, sizes, strict=True))
        ends = newcombe_interval(one, sizes[0], two, sizes[1], confidence)
        found.append((abs(two - one), name, one, two, ends))
    for size, name, one, two, ends in sorted(found, key=lambda each: (-each[0], each[1]))[:MOST]:
        if size:
            yield name, f"{_change('valid', one, two, two - one)}, CI {interval(_scaled('valid', ends or ()), '.1f')}"


# --- who made the sets ----------------------------------------------------------------------------------------------


class Makers:
    """Collects what made the rollouts of each set; `table` tells differences from what the sets share."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Counter[str]]] = {}

    def add(self, rollout: Mapping[str, Any], label: str) -> None:
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

    def table(self, written: Mapping[str, str]) -> tuple[list[str], list[list[str]], list[list[str]]]:
        """Names of the sets; the rows of FIRST and those that differ; the others. written: by set, its file's date."""
        sets = list(self._values)
        names = dict.fromkeys(name for of in self._values.values() for name in of)
        rows = [[name, *(_listed(self._values[label].get(name)) for label in sets)] for name in names]
        rows.append(["file written", *(written.get(label, "-") for label in sets)])
        rows.sort(key=lambda row: FIRST.index(row[0]) if row[0] in FIRST else len(FIRST))
        differing = [row for row in rows if row[0] in FIRST or len(set(row[1:])) > 1]
        return sets, differing, [row for row in rows if row not in differing]


def _listed(values: Counter[str] | None, most: int = 3) -> str:
    if not values:
        return "-"
    names = [name for name, _ in values.most_common(most)]
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(names) + more
