"""Statistics of a running pipe from its growing files: rollouts, rewards, sandbox use, training.

Covered: files of graded rollouts and of train_step records as commands append to them, under their final names or as
.partial; files that do not exist yet or are restarted; the dashboard of --follow. Not covered: unwritten records.
"""

import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import RecordError, ToolError
from ..base.jsonl import loads
from ..base.streams import is_stream
from ..records import schema
from ..records.rollout import Rollout
from ..records.training import TrainStep
from .statistics import mean
from .table import number

if TYPE_CHECKING:
    from rich.table import Table

WINDOW = 300.0  # seconds, for rates
RECENT = 100  # rollouts, for recent shares and means
SPARKS = "▁▂▃▄▅▆▇█"
CURVE = 40  # steps of the curve
FRAME = 0.5  # seconds
Row = tuple[str, str, str]  # name, recent, total


class Tail:
    """A growing file's records. `read` yields the new ones; an incomplete line waits for its end.

    A record counts once: a run that is resumed copies what it finished before.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.unreadable = 0
        self._at, self._file = 0, (0, 0)
        self._torn = b""
        self._known: set[tuple[str, str]] = set()  # kind and id

    def read(self) -> Iterator[Rollout | TrainStep]:
        partial = self.path.with_name(self.path.name + ".partial")
        for path in (partial, self.path):
            try:
                with path.open("rb") as file:
                    status = os.fstat(file.fileno())
                    if (status.st_dev, status.st_ino) != self._file or status.st_size < self._at:
                        self._file, self._at, self._torn = (status.st_dev, status.st_ino), 0, b""
                    file.seek(self._at)
                    new = file.read()
                    self._at += len(new)
                break
            except FileNotFoundError:
                continue
        else:
            return
        *lines, self._torn = (self._torn + new).split(b"\n")
        for line in lines:
            try:
                record = loads(line)
                schema.check(record, "rollout", "train_step")
            except (ValueError, RecordError):
                self.unreadable += 1
                continue
            key = (record["kind"], record["id"])
            if key not in self._known:
                self._known.add(key)
                yield record


class Live:
    """Collects records with arrival times (None: written before the start); `rows` gives the current statistics."""

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.counts: Counter[str] = Counter()  # rollouts, valid, medals, trained
        self.statuses: Counter[str] = Counter()
        self.rewards: deque[float] = deque(maxlen=CURVE)
        self.step: TrainStep | None = None
        self._recent: deque[Rollout] = deque(maxlen=RECENT)
        self._arrivals: deque[tuple[float, float]] = deque()  # clock, seconds in the sandbox
        self._steps: deque[tuple[float, TrainStep]] = deque()

    def add(self, record: Rollout | TrainStep, now: float | None) -> None:
        if record["kind"] == "train_step":
            self.counts["trained"] += 1
            self.step = record
            if (reward := record["reward_mean"]) is not None:
                self.rewards.append(reward)
            if now is not None:
                self._steps.append((now, record))
        elif "grade" in record:
            execution = record.get("execution")
            self.counts.update(("rollouts", *_verdicts(record)))
            self.statuses[execution["status"] if execution else "not run"] += 1
            self._recent.append(record)
            if now is not None:
                self._arrivals.append((now, execution["duration_s"] if execution else 0.0))

    def rows(self, now: float) -> list[Row]:
        """The dashboard's rows; recent: the last WINDOW seconds or RECENT rollouts."""
        since = max(self.begun, now - WINDOW)
        seconds = max(now - since, 1e-9)
        for queue in (self._arrivals, self._steps):
            while queue and queue[0][0] < since:
                queue.popleft()
        recent = Counter(verdict for record in self._recent for verdict in _verdicts(record))
        rewards = [reward for record in self._recent if (reward := record.get("reward")) is not None]
        shares = [
            (name, _share(recent[name], len(self._recent)), _share(self.counts[name], self.counts["rollouts"]))
            for name in ("valid", "medals")
        ]
        rows = [
            ("rollouts", f"{60 * len(self._arrivals) / seconds:.1f} per minute", f"{self.counts['rollouts']:,}"),
            *shares,
            ("reward", number(mean(rewards)), ""),
            ("busy sandboxes", f"{sum(duration for _, duration in self._arrivals) / seconds:.1f}", ""),
            ("programs", "", ", ".join(f"{count:,} {name}" for name, count in self.statuses.most_common(6)) or "-"),
        ]
        return [*rows, *self._training(self.step, seconds)] if self.step else rows

    def _training(self, step: TrainStep, seconds: float) -> Iterator[Row]:
        steps = [record for _, record in self._steps]
        total = f"{self.counts['trained']:,}, policy {step['policy_version']}"
        yield "updates", f"{60 * len(steps) / seconds:.1f} per minute", total
        yield "reward of the step", number(step.get("reward_mean")), sparks(self.rewards)
        yield "staleness", number(step.get("staleness")), f"at most {step.get('staleness_max', '-')}"
        works, waits = sum(step["duration_s"] for step in steps), sum(step.get("waited_s", 0.0) for step in steps)
        if works + waits > 0:
            yield "trainer busy", _share(works, works + waits), ""
        known = [value for record in steps if (value := record.get("sampler_waited_s")) is not None]
        if len(known) > 1:
            elapsed = self._steps[-1][0] - self._steps[0][0]
            yield "sampler idle", _share(min(known[-1] - known[0], elapsed), elapsed), ""


def _verdicts(rollout: Rollout) -> Iterator[str]:
    """`valid`, `medals`, where they hold."""
    if rollout["grade"].get("valid"):
        yield "valid"
    if rollout["grade"].get("medal") is not None:
        yield "medals"


def _share(part: float, whole: float) -> str:
    return number(part / whole if whole > 0 else None, ".0%")


def sparks(values: Iterable[float]) -> str:
    """The values as a sparkline."""
    known = list(values)
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    return "".join(SPARKS[round((value - low) / (high - low) * 7) if high > low else 3] for value in known)


def in_one_line(rows: Iterable[Row]) -> str:
    """The rows in one line, for a log."""
    return "; ".join(f"{name} {', '.join(part for part in (lately, total) if part)}" for name, lately, total in rows)


def add_new(tails: Iterable[Tail], live: Live, first: bool) -> None:
    """Add the new records of the files. first: they were written before the start and do not count for rates."""
    for tail in tails:
        for record in tail.read():
            live.add(record, None if first else time.monotonic())


# --- the dashboard --------------------------------------------------------------------------------------------------


def follow(files: Sequence[str], steps: Sequence[str], interval: float, say: Callable[[str], None]) -> None:
    """Watch rollouts in `files` and train_step records in `steps` until a signal ends it.

    On a terminal it redraws a table; elsewhere it passes `say` one line every `interval` seconds. ToolError: a pipe
    cannot be watched.
    """
    if any(map(is_stream, (*files, *steps))):
        raise ToolError("--follow watches files that grow: let `tee FILE` write one in the middle of the pipe")
    tails = [Tail(path) for path in (*files, *steps)]
    live = Live(time.monotonic())
    add_new(tails, live, True)
    if not sys.stderr.isatty():
        while True:
            say(in_one_line(live.rows(time.monotonic())))
            time.sleep(interval)
            add_new(tails, live, False)
    from rich.console import Console
    from rich.live import Live as Screen

    with Screen(console=Console(stderr=True), auto_refresh=False) as screen:
        while True:
            rows = live.rows(time.monotonic())
            screen.update(_table(rows, sum(tail.unreadable for tail in tails), files), refresh=True)
            time.sleep(FRAME)
            add_new(tails, live, False)


def _table(rows: Sequence[Row], unreadable: int, files: Sequence[str]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    note = f", {unreadable} lines that are not records" if unreadable else ""
    table = Table(title=Text(f"{', '.join(files)}{note}"), title_justify="left", box=None, pad_edge=False)
    for name, justify in (("", "left"), ("recent", "right"), ("total", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
