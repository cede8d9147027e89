"""Bar charts and histograms: funnels, reasons for drops, medals by kind of task, differences of sets, running times."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .figure import Cell, Draw, Figure, Palette, clipped, legend, named
from .shown import MEDALS, STAGES, Shown

GROUPINGS: tuple[tuple[str, str, Callable[[Shown], str | None]], ...] = (
    ("modality", "Medals by modality", lambda each: each.modality),
    ("problem", "Medals by kind of problem", lambda each: each.problem),
    ("difficulty", "Medals by difficulty", lambda each: each.split),
    (
        "mutations",
        "Medals by number of mutations",
        lambda each: None if each.mutations is None else f"{each.mutations} mutations",
    ),
)


def medals(
    runs: Sequence[Shown], sets: Sequence[str], name: str, title: str, of: Callable[[Shown], str | None]
) -> Figure | None:
    """A bar for each group of tasks and set; None if there is one group."""
    groups: dict[tuple[str, str], list[Shown]] = {}
    for each in runs:
        if (group := of(each)) is not None:
            groups.setdefault((group, each.set), []).append(each)
    if len({group for group, _ in groups}) < 2:
        return None
    bars = sorted(groups, key=lambda bar: (bar[0], sets.index(bar[1])))
    rows: list[tuple[Cell, ...]] = []
    for bar in bars:
        counts = Counter(each.run.medal for each in groups[bar])
        valid = sum(each.run.valid for each in groups[bar])
        rows.append((*bar, len(groups[bar]), valid, *(counts[medal] for medal in MEDALS)))
    # bars of one group stand together
    heights = [at + 0.6 * sum(a[0] != b[0] for a, b in pairwise(bars[: at + 1])) for at in range(len(bars))]
    several = len(sets) > 1
    names = [
        f"{clipped(group, 24)}{f', {clipped(label, 16)}' if several else ''} ({len(groups[group, label])})"
        for group, label in bars
    ]

    def draw(axes: Any, palette: Palette) -> None:
        left = [0.0] * len(bars)
        for number, medal in enumerate(MEDALS):
            widths = [float(row[4 + number] or 0) / float(row[2] or 1) for row in rows]
            axes.barh(heights, widths, left=left, color=palette.medals[number], label=medal, height=0.8)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for place, share in zip(heights, left, strict=True):
            axes.text(share + 0.01, place, f"{share:.0%}", va="center", fontsize=8, color=palette.text)
        axes.set_yticks(heights, names)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.08)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        legend(axes, len(MEDALS))

    return Figure(
        f"medals-{name}", title, "Share of each set's rollouts with each medal; number of rollouts in brackets.",
        (name, "set", "rollouts", "valid", *MEDALS), rows, draw, (7.0, 1.2 + 0.3 * (heights[-1] + 1)),
    )  # fmt: skip


def differences(record: Mapping[str, Any]) -> Figure | None:
    """Differences between two sets, paired by task."""
    tasks = sorted(record["tasks"], key=lambda row: row["difference"])
    if not tasks:
        return None
    first, second, by = record["first"], record["second"], record["by"].replace("-", " ")
    rows: list[tuple[Cell, ...]] = [
        (row["task"], row["first"], row["second"], row["difference"], row["result"]) for row in tasks
    ]
    few = len(tasks) <= 40

    def draw(axes: Any, palette: Palette) -> None:
        colours = {"win": palette.good, "loss": palette.bad, "tie": palette.faint}
        values = [row["difference"] for row in tasks]
        axes.barh(range(len(tasks)), values, color=[colours[row["result"]] for row in tasks], height=0.7)
        axes.axvline(0, color=palette.text, linewidth=0.8)
        if record["difference_ci"]:
            axes.axvspan(*record["difference_ci"], color=palette.faint, alpha=0.35, linewidth=0)
        if record["difference_mean"] is not None:
            axes.axvline(record["difference_mean"], color=palette.text, linewidth=1.2, linestyle="--")
        axes.set_yticks(range(len(tasks)) if few else [], [clipped(row["task"]) for row in tasks] if few else [])
        if not few:
            axes.set_ylabel(f"{len(tasks)} tasks")
        axes.set_xlabel(f"difference in {by}, positive is better")

    confidence = f"{100 * record['confidence']:.4g} %"
    caption = (
        f"{second} minus {first} by {by}, per task: {record['win']} won, {record['tie']} tied, {record['loss']} lost. "
        f"Dashed: the mean over tasks; shaded: its {confidence} interval."
    )
    return Figure(
        re.sub(r"[^A-Za-z0-9._-]+", "-", f"compare-{first}-{second}")[:100], f"{second} against {first}", caption,
        ("task", first, second, "difference", "result"), rows, draw, (7.0, 1.2 + (0.28 * len(tasks) if few else 4)),
    )  # fmt: skip


def times(runs: Sequence[Shown], sets: Sequence[str]) -> Figure | None:
    seconds = {
        label: sorted(e.execution_s for e in runs if e.set == label and e.execution_s is not None) for label in sets
    }
    seconds = {label: values for label, values in seconds.items() if values and values[-1] > 0}
    if not seconds:
        return None
    rows: list[tuple[Cell, ...]] = [
        (label, len(values), *(_quantile(values, share) for share in (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)))
        for label, values in seconds.items()
    ]
    least = max(min(values[0] for values in seconds.values()), 1e-2)
    most = max(values[-1] for values in seconds.values())
    decades = max(math.log10(most / least), 0.5) if most > least else 0.5
    edges = [least * 10 ** (decades * at / 40) for at in range(41)]

    def draw(axes: Any, palette: Palette) -> None:
        for number, (label, values) in enumerate(seconds.items()):
            clipped = [min(max(value, edges[0]), edges[-1]) for value in values]
            weights = [1 / len(values)] * len(values)
            axes.hist(clipped, edges, weights=weights, histtype="stepfilled", alpha=0.35, color=palette.of(number))
            axes.hist(
                clipped,
                edges,
                weights=weights,
                histtype="step",
                linewidth=1.4,
                color=palette.of(number),
                label=named(label),
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_xlabel("seconds (logarithmic)")
        axes.set_ylabel("share of rollouts")
        legend(axes, len(seconds))

    return Figure(
        "times", "Running times of programs", "Wall time in the sandbox of the graded program, per set.",
        ("set", "programs", "5 %", "25 %", "median", "75 %", "95 %", "longest"), rows, draw,
    )  # fmt: skip


def _quantile(values: Sequence[float], share: float) -> float:
    """The nearest-rank quantile of sorted values."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


# --- funnels and reasons for drops ----------------------------------------------------------------------------------


def stages(runs: Sequence[Shown], sets: Sequence[str]) -> Figure | None:
    if not runs:
        return None
    rows: list[tuple[Cell, ...]] = []
    shares: dict[str, list[float]] = {}
    for label in sets:
        reached = [each.stage for each in runs if each.set == label]
        counts = [sum(stage > at for stage in reached) for at in range(len(STAGES))]
        shares[label] = [count / len(reached) for count in counts]
        rows += [(label, STAGES[at], counts[at], shares[label][at]) for at in range(len(STAGES))]
    return Figure(
        "funnel", "Rollouts by stage", "Share of each set's rollouts that reached at least this stage.",
        ("set", "stage", "rollouts", "share"), rows, _bars(STAGES, shares), (7.0, 1.2 + 0.42 * len(STAGES)),
    )  # fmt: skip


def _bars(names: Sequence[str], shares: Mapping[str, Sequence[float]]) -> Draw:
    def draw(axes: Any, palette: Palette) -> None:
        height = 0.8 / len(shares)
        for number, (label, values) in enumerate(shares.items()):
            at = [place + height * (number - (len(shares) - 1) / 2) for place in range(len(names))]
            axes.barh(at, values, height=height * 0.9, color=palette.of(number), label=named(label))
            if len(shares) <= 2:
                for place, value in zip(at, values, strict=True):
                    axes.text(value + 0.01, place, f"{value:.0%}", va="center", fontsize=8, color=palette.text)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.08)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        legend(axes, len(shares))

    return draw


def reasons(runs: Sequence[Shown]) -> Figure | None:
    """Decisions of the filters."""
    filtered = [each for each in runs if each.filtered]
    if not filtered:
        return None
    counts = Counter(each.dropped or "kept" for each in filtered)
    names = ["kept", *(name for name, _ in counts.most_common() if name != "kept")]
    return _counted(
        "filters", "Decisions of filters", f"{len(filtered)} filtered rollouts.",
        ("decision", "rollouts", "share"), {name: counts[name] for name in names}, len(filtered),
        lambda palette, label: palette.good if label == "kept" else palette.bad,
    )  # fmt: skip


def task_funnel(files: Mapping[str, Sequence[str | None]]) -> Figure | None:
    """SandMLE's funnel: the number of drafts, and the tasks of each file."""
    kept = {label: sum(why is None for why in tasks) for label, tasks in files.items()}
    stages = {label: count for label, count in kept.items() if count}
    if not stages:
        return None
    dropped = sum(why is not None for tasks in files.values() for why in tasks)
    drafts = max(*stages.values(), list(stages.values())[-1] + dropped)
    counts = {"drafts": drafts, **stages}
    return _counted(
        "tasks", "Tasks by stage", "Drafts: the tasks of the last file and all dropped ones.",
        ("", "tasks", "share of the drafts"), counts, drafts, lambda palette, label: palette.good,
    )  # fmt: skip


def task_reasons(files: Mapping[str, Sequence[str | None]]) -> Figure | None:
    counts = Counter(clipped(why.partition(":")[0]) for tasks in files.values() for why in tasks if why is not None)
    if not counts:
        return None
    return _counted(
        "tasks-dropped", "Reasons for dropped tasks", "The first check that each task failed.",
        ("check", "tasks", "share"), dict(counts.most_common()), counts.total(), lambda palette, label: palette.bad,
    )  # fmt: skip


def _counted(
    name: str,
    title: str,
    caption: str,
    header: tuple[str, str, str],
    counts: Mapping[str, int],
    whole: int,
    colour: Callable[[Palette, str], str],
) -> Figure:
    """One bar per count, with its share of `whole`."""
    names = list(counts)
    rows: list[tuple[Cell, ...]] = [(label, count, count / whole) for label, count in counts.items()]

    def draw(axes: Any, palette: Palette) -> None:
        axes.barh(
            range(len(names)), list(counts.values()), color=[colour(palette, label) for label in names], height=0.7
        )
        for place, count in enumerate(counts.values()):
            axes.text(count, place, f" {count}", va="center", fontsize=8, color=palette.text)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel(header[1])
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.margins(x=0.12)

    return Figure(name, title, caption, header, rows, draw, (7.0, 1.0 + 0.35 * len(names)))
