"""The figures of a report: each a title, the numbers it shows as a table, and how matplotlib draws them.

One definition serves the page (where the numbers stand below the picture), `--plots` and the tests. Bands and bars of error
are ± one standard error of the mean (statistics.sem). Not covered: colours of the page, files (plots).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..statistics import mean, sem
from .shown import MEDALS, STAGES, Shown

Cell = str | float | int | None
Draw = Callable[[Any, "Palette"], None]  # on matplotlib's Axes
FEWEST = 2  # points of a line


@dataclass(frozen=True)
class Palette:
    """Colours by role. series: of the sets, told apart by colour-blind readers too (Okabe and Ito)."""

    series: tuple[str, ...] = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
    medals: tuple[str, ...] = ("#C9A227", "#8A9299", "#A65E2E")  # gold, silver, bronze
    good: str = "#009E73"
    bad: str = "#D55E00"
    text: str = "#222222"
    faint: str = "#BBBBBB"

    def of(self, number: int) -> str:
        return self.series[number % len(self.series)]


@dataclass(frozen=True)
class Figure:
    """A picture and its numbers. name: of its file; size: inches."""

    name: str
    title: str
    caption: str
    header: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    draw: Draw
    size: tuple[float, float] = (7.0, 3.4)


def figures(
    runs: Sequence[Shown],
    steps: Mapping[str, Sequence[Mapping[str, Any]]],
    comparisons: Sequence[Mapping[str, Any]],
    tasks: Mapping[str, Sequence[str | None]] | None = None,
) -> list[Figure]:
    """Those that the data has something for. steps: train_step records by run; comparisons: records of that kind.

    tasks: by file, in the order of their making, why each task was dropped; None: it was not.
    """
    sets = list(dict.fromkeys(each.set for each in runs))
    made = [
        *(_training(steps, field, title, caption) for field, title, caption in TRAINING),
        _by_version(runs, sets, "reward", "Reward by policy version", lambda each: each.run.reward),
        _by_version(runs, sets, "valid", "Valid share by policy version", lambda each: float(each.run.valid)),
        _by_version(runs, sets, "seconds", "Running time by policy version", lambda each: each.execution_s),
        _by_version(runs, sets, "normalised", "Normalised score by policy version", lambda each: each.run.normalised),
        _task_funnel(tasks or {}),
        _task_reasons(tasks or {}),
        _stages(runs, sets),
        _reasons(runs),
        _times(runs, sets),
        *(_medals(runs, name, title, of) for name, title, of in GROUPINGS),
        *(_differences(record) for record in comparisons),
    ]
    return [figure for figure in made if figure is not None]


TRAINING = (
    ("reward_mean", "Reward over training", "Mean reward of the rollouts of each optimiser step, with ± SEM."),
    ("validation_reward", "Validation reward over training", "Mean reward of the validation command's rollouts, at checkpoints."),
    ("entropy", "Entropy over training", "Of the policy, mean over the tokens that carried loss, in nats."),
    ("staleness", "Staleness over training", "Policy updates between sampling and training, mean of each step."),
)  # fmt: skip
GROUPINGS: tuple[tuple[str, str, Callable[[Shown], str | None]], ...] = (
    ("modality", "Medals by modality", lambda each: each.modality),
    ("problem", "Medals by kind of problem", lambda each: each.problem),
    ("difficulty", "Medals by difficulty", lambda each: each.split),
    (
        "mutations",
        "Medals by how far the data was spoilt",
        lambda each: None if each.mutations is None else f"{each.mutations} mutations",
    ),
)


# --- training -------------------------------------------------------------------------------------------------------


def _training(steps: Mapping[str, Sequence[Mapping[str, Any]]], field: str, title: str, caption: str) -> Figure | None:
    lines = {}
    for label, records in steps.items():
        known = [record for record in records if record.get(field) is not None]
        if len(known) >= FEWEST:
            lines[label] = [(record["step"], record[field], _error(record, field)) for record in known]
    if not lines:
        return None
    rows = [(label, *point) for label, points in lines.items() for point in points]
    return Figure(
        f"training-{field.replace('_', '-')}", title, caption, ("run", "step", field.replace("_", " "), "SEM"),
        rows, _lines(lines, "optimiser step", field.replace("_", " ")),
    )  # fmt: skip


def _error(record: Mapping[str, Any], field: str) -> float | None:
    spread, count = record.get("reward_std"), record.get("rollouts")
    return spread / math.sqrt(count) if field == "reward_mean" and spread is not None and count else None


def _by_version(
    runs: Sequence[Shown], sets: Sequence[str], name: str, title: str, of: Callable[[Shown], float | None]
) -> Figure | None:
    lines: dict[str, list[tuple[float, float, float | None]]] = {}
    for label in sets:
        found: dict[int, list[float]] = {}
        for each in runs:
            value = of(each)
            if each.set == label and each.version is not None and value is not None:
                found.setdefault(each.version, []).append(value)
        if len(found) >= FEWEST:
            lines[label] = [(version, mean(found[version]) or 0.0, sem(found[version])) for version in sorted(found)]
    if not lines:
        return None
    rows = [(label, *point) for label, points in lines.items() for point in points]
    caption = "Mean over the rollouts of each policy version, with ± SEM over rollouts."
    return Figure(
        f"version-{name}", title, caption, ("set", "policy version", name, "SEM"), rows,
        _lines(lines, "policy version", name),
    )  # fmt: skip


def _lines(lines: Mapping[str, Sequence[tuple[float, float, float | None]]], across: str, up: str) -> Draw:
    def draw(axes: Any, palette: Palette) -> None:
        for number, (label, points) in enumerate(lines.items()):
            x, y = [point[0] for point in points], [point[1] for point in points]
            error = [point[2] or 0.0 for point in points]
            colour = palette.of(number)
            axes.plot(
                x, y, color=colour, label=_named(label), linewidth=1.6, linestyle=("-", "--", "-.", ":")[number % 4]
            )
            if any(error):
                low, high = ([a + s * b for a, b in zip(y, error, strict=True)] for s in (-1, 1))
                axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.xaxis.get_major_locator().set_params(integer=True)
        _legend(axes, len(lines))

    return draw


def _named(label: str) -> str:
    """As matplotlib takes it: a label that begins with _ is kept out of legends, and a long one would push the axes aside."""
    label = _clipped(label, 24)
    return f" {label}" if label.startswith("_") else label


def _legend(axes: Any, count: int) -> None:
    if count > 1:
        axes.legend(frameon=False, ncols=min(count, 4), loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)


# --- where rollouts end ---------------------------------------------------------------------------------------------


def _stages(runs: Sequence[Shown], sets: Sequence[str]) -> Figure | None:
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
        "funnel", "How far rollouts came", "Share of each set's rollouts that came at least so far.",
        ("set", "stage", "rollouts", "share"), rows, _bars(STAGES, shares), (7.0, 1.2 + 0.42 * len(STAGES)),
    )  # fmt: skip


def _bars(names: Sequence[str], shares: Mapping[str, Sequence[float]]) -> Draw:
    def draw(axes: Any, palette: Palette) -> None:
        height = 0.8 / len(shares)
        for number, (label, values) in enumerate(shares.items()):
            at = [place + height * (number - (len(shares) - 1) / 2) for place in range(len(names))]
            axes.barh(at, values, height=height * 0.9, color=palette.of(number), label=_named(label))
            if len(shares) <= 2:
                for place, value in zip(at, values, strict=True):
                    axes.text(value + 0.01, place, f"{value:.0%}", va="center", fontsize=8, color=palette.text)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlim(0, 1.08)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        _legend(axes, len(shares))

    return draw


def _reasons(runs: Sequence[Shown]) -> Figure | None:
    """What filters kept, and why they dropped the rest."""
    filtered = [each for each in runs if each.filtered]
    if not filtered:
        return None
    counts = Counter(each.dropped or "kept" for each in filtered)
    names = ["kept", *(name for name, _ in counts.most_common() if name != "kept")]
    return _counted(
        "filters", "What the filters kept, and why not the rest", f"{len(filtered)} rollouts that a filter decided on.",
        ("decision", "rollouts", "share"), {name: counts[name] for name in names}, len(filtered),
        lambda palette, label: palette.good if label == "kept" else palette.bad,
    )  # fmt: skip


def _task_funnel(files: Mapping[str, Sequence[str | None]]) -> Figure | None:
    """SandMLE's funnel: how many tasks were begun, and how many each file has of them."""
    kept = {label: sum(why is None for why in tasks) for label, tasks in files.items()}
    stages = {label: count for label, count in kept.items() if count}
    if not stages:
        return None
    dropped = sum(why is not None for tasks in files.values() for why in tasks)
    drafts = max(*stages.values(), list(stages.values())[-1] + dropped)
    counts = {"drafts": drafts, **stages}
    return _counted(
        "tasks", "How many tasks were left", "Drafts: the tasks of the last file, and all that were dropped.",
        ("", "tasks", "share of the drafts"), counts, drafts, lambda palette, label: palette.good,
    )  # fmt: skip


def _task_reasons(files: Mapping[str, Sequence[str | None]]) -> Figure | None:
    counts = Counter(_clipped(why.partition(":")[0]) for tasks in files.values() for why in tasks if why is not None)
    if not counts:
        return None
    return _counted(
        "tasks-dropped", "Why tasks were dropped", "The first check that each of them failed.",
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
    """A bar for each count, and its share of `whole`."""
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


# --- time -----------------------------------------------------------------------------------------------------------


def _times(runs: Sequence[Shown], sets: Sequence[str]) -> Figure | None:
    found = {
        label: sorted(e.execution_s for e in runs if e.set == label and e.execution_s is not None) for label in sets
    }
    found = {label: values for label, values in found.items() if values and values[-1] > 0}
    if not found:
        return None
    rows: list[tuple[Cell, ...]] = [
        (label, len(values), *(_quantile(values, share) for share in (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)))
        for label, values in found.items()
    ]
    least = max(min(values[0] for values in found.values()), 1e-2)
    most = max(values[-1] for values in found.values())
    decades = max(math.log10(most / least), 0.5) if most > least else 0.5
    edges = [least * 10 ** (decades * at / 40) for at in range(41)]

    def draw(axes: Any, palette: Palette) -> None:
        for number, (label, values) in enumerate(found.items()):
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
                label=_named(label),
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_xlabel("seconds (logarithmic)")
        axes.set_ylabel("share of rollouts")
        _legend(axes, len(found))

    return Figure(
        "times", "How long programs ran", "Wall time in the sandbox of the program that was judged, per set.",
        ("set", "programs", "5 %", "25 %", "median", "75 %", "95 %", "longest"), rows, draw,
    )  # fmt: skip


def _quantile(values: Sequence[float], share: float) -> float:
    """Of sorted values, the nearest-rank quantile."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


# --- medals and differences -----------------------------------------------------------------------------------------


def _medals(runs: Sequence[Shown], name: str, title: str, of: Callable[[Shown], str | None]) -> Figure | None:
    groups: dict[str, list[Shown]] = {}
    for each in runs:
        group = of(each)
        if group is not None:
            groups.setdefault(group, []).append(each)
    if len(groups) < 2:
        return None
    names = sorted(groups)
    rows: list[tuple[Cell, ...]] = []
    for group in names:
        counts = Counter(each.run.medal for each in groups[group])
        valid = sum(each.run.valid for each in groups[group])
        rows.append((group, len(groups[group]), valid, *(counts[medal] for medal in MEDALS)))

    def draw(axes: Any, palette: Palette) -> None:
        left = [0.0] * len(names)
        for number, medal in enumerate(MEDALS):
            widths = [float(row[3 + number] or 0) / float(row[1] or 1) for row in rows]
            axes.barh(range(len(names)), widths, left=left, color=palette.medals[number], label=medal, height=0.7)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for place, share in enumerate(left):
            axes.text(share + 0.01, place, f"{share:.0%}", va="center", fontsize=8, color=palette.text)
        axes.set_yticks(range(len(names)), [f"{group} ({len(groups[group])})" for group in names])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.08)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        _legend(axes, len(MEDALS))

    return Figure(
        f"medals-{name}", title, "Share of rollouts with each medal; in brackets how many rollouts.",
        (name, "rollouts", "valid", *MEDALS), rows, draw, (7.0, 1.2 + 0.35 * len(names)),
    )  # fmt: skip


def _differences(record: Mapping[str, Any]) -> Figure | None:
    """Two sets, paired by task."""
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
        axes.set_yticks(range(len(tasks)) if few else [], [_clipped(row["task"]) for row in tasks] if few else [])
        if not few:
            axes.set_ylabel(f"{len(tasks)} tasks")
        axes.set_xlabel(f"difference in {by}, positive is better")

    confidence = f"{100 * record['confidence']:.4g} %"
    caption = (
        f"{second} less {first} by {by}, task by task: {record['win']} won, {record['tie']} tied, {record['loss']} lost. "
        f"Dashed: the mean over tasks; shaded: its {confidence} bootstrap interval."
    )
    return Figure(
        f"compare-{first}-{second}", f"{second} against {first}", caption,
        ("task", first, second, "difference", "result"), rows, draw, (7.0, 1.2 + (0.28 * len(tasks) if few else 4)),
    )  # fmt: skip


def _clipped(text: str, most: int = 36) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
