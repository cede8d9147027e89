"""Funnels of rollouts and tasks, and reasons for drops."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .figure import Cell, Draw, Figure, Palette, clipped, legend, named
from .shown import STAGES, Shown


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
