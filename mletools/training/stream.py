"""Rollouts from a pipe that may never end: steps as soon as there are enough, and nothing lost by a kill.

What has come and was not trained on yet is kept in the run's folder: in each checkpoint what waited then, and in
RUN_DIR/spool-STEP.jsonl, line by line, what came since. A run that goes on reads these first, so the steps since the checkpoint
are made of the same rollouts again. Not covered: what was in the pipe and not read.
"""

import json
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .checkpoints import LATEST, TRAINER_STATE
from .group_buffer import GroupBuffer
from .samples import Sample, TokenSequence, rollouts_in
from .steps import OptimiserStep

PATIENCE = 0.5  # seconds
WAITING, POOL = "waiting.jsonl", "pool.json"
SPOOLS = "spool-??????.jsonl"


def as_line(sample: Sample) -> str:
    return json.dumps(asdict(sample), allow_nan=False) + "\n"


def from_line(line: str) -> Sample:
    fields = json.loads(line)
    sequences = tuple(TokenSequence(**sequence) for sequence in fields.pop("sequences"))
    return Sample(**{**fields, "sequences": sequences, "troubles": tuple(fields["troubles"])})


def has_spooled(out: Path) -> bool:
    """Whether a stream has read rollouts into the run's folder."""
    return any(path.stat().st_size for path in out.glob(SPOOLS))


class Spool:
    """Rollouts that arrived since the checkpoint at `step` or were waiting then, kept in the run's folder."""

    def __init__(self, out: Path, step: int, checkpoint: Path | None) -> None:
        self.out, self.checkpoint, self.step = out, checkpoint, step
        self._file: Any = None

    def _path(self, step: int) -> Path:
        return self.out / f"spool-{step:06d}.jsonl"

    @property
    def files(self) -> list[Path]:
        """Where rollouts lie that a resumed run reads again."""
        return [path for path in (self.out / LATEST / TRAINER_STATE / WAITING, self._path(self.step)) if path.is_file()]

    def restore(self, pool: GroupBuffer) -> None:
        """Put a pool where it stood at the checkpoint."""
        folder = self.checkpoint / "trainer" if self.checkpoint else None
        if folder and (folder / POOL).is_file():
            pool.restore(json.loads((folder / POOL).read_text(encoding="utf-8")), _samples(folder / WAITING))

    def earlier(self) -> list[Sample]:
        """The rollouts that an earlier session read after the checkpoint."""
        path = self._path(self.step)
        return _samples(path) if path.is_file() else []

    def kept(self) -> float:
        """How many rollouts earlier sessions have read that this one begins with."""
        waiting = self.checkpoint / "trainer" / WAITING if self.checkpoint else None
        return rollouts_in([*self.earlier(), *(_samples(waiting) if waiting and waiting.is_file() else ())])

    def begin(self) -> None:
        """Go on writing behind what is there; a torn last line is cut off."""
        self.out.mkdir(parents=True, exist_ok=True)
        path = self._path(self.step)
        if path.is_file():
            kept = path.read_bytes()
            with open(path, "r+b") as file:
                file.truncate(kept.rfind(b"\n") + 1)
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def add(self, sample: Sample) -> None:
        self._file.write(as_line(sample))
        self._file.flush()

    def save(self, folder: Path, pool: GroupBuffer) -> None:
        """Put what waits into a checkpoint's folder."""
        (folder / WAITING).write_text("".join(map(as_line, pool.waiting)), encoding="utf-8")
        (folder / POOL).write_text(json.dumps(pool.state()), encoding="utf-8")

    def turn(self, step: int) -> None:
        """The checkpoint at `step` is there: what came before it is in it."""
        if self._file is not None:
            self._file.close()
        self.step = step
        self._file = open(self._path(step), "w", encoding="utf-8")  # noqa: SIM115
        for old in self.out.glob(SPOOLS):
            if old != self._path(step):
                old.unlink()


def _samples(path: Path) -> list[Sample]:
    whole = path.read_text(encoding="utf-8").rpartition("\n")[0]  # a torn last line was never trained on
    return [from_line(line) for line in whole.split("\n") if line]


class Arrivals:
    """Reads rollouts in a thread of its own and makes steps of them.

    As many as `ahead` are read before they are wanted: the pipe behind holds back what is more. starving(yes): called
    when nothing has come for a moment though more is needed, and when something has. total: rollouts that have come;
    usable: samples of them that a filter kept and that have a reward.
    """

    def __init__(
        self,
        samples: Iterable[Sample],
        pool: GroupBuffer,
        spool: Spool,
        stopping: Callable[[], bool],
        reward: Callable[[float], None],
        starving: Callable[[bool], None] = lambda yes: None,
        ahead: int = 1,
    ) -> None:
        self.pool, self.spool, self.stopping, self.reward, self.starving = pool, spool, stopping, reward, starving
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=ahead)
        self._reader = threading.Thread(target=self._read, args=(samples,), daemon=True)
        self.received = self.usable = 0
        self.total: float = 0
        self.waited = 0.0
        self._since = time.monotonic()

    def _read(self, samples: Iterable[Sample]) -> None:
        try:
            for sample in samples:
                self._queue.put(sample)
            self._queue.put(None)
        except BaseException as error:  # it is raised where the steps are taken
            self._queue.put(error)

    def steps(self) -> Iterator[OptimiserStep]:
        """The steps, until the input has ended or the run is stopping."""
        self.spool.restore(self.pool)
        self.total += rollouts_in(self.pool.waiting)
        self.usable += len(self.pool.waiting)
        replayed = deque(self.spool.earlier())  # one by one, as they came: each may have made a step possible
        self.spool.begin()
        self._reader.start()
        while not self.stopping():
            step = self.pool.take()
            if step is not None:
                yield step
            elif self.pool.ended:
                return
            elif replayed:
                self._take_in(replayed.popleft())
            else:
                self._wait()

    def _wait(self) -> None:
        """Take one more rollout in, or see that there are no more."""
        begun = time.monotonic()
        try:
            item = self._queue.get(timeout=PATIENCE)
        except queue.Empty:
            self.starving(True)
            return
        finally:
            self.waited += time.monotonic() - begun
        if isinstance(item, BaseException):
            raise item
        if item is None:
            self.pool.end()
            return
        self.starving(False)
        self.spool.add(item)
        self._take_in(item)

    def _take_in(self, sample: Sample) -> None:
        self.received += 1
        self.total += sample.share
        self.usable += sample.kept and sample.reward is not None
        if sample.reward is not None:
            self.reward(sample.reward)
        self.pool.add(sample)

    def statistics(self) -> dict[str, float]:
        """Counts of arrivals and waiting rollouts, and the trainer's idle time, since the last call."""
        now = time.monotonic()
        counts = {
            "received": self.received,
            "waiting": len(self.pool.waiting),
            "waited_s": self.waited,
            "elapsed_s": now - self._since,
        }
        self.received, self.waited, self._since = 0, 0.0, now
        return counts
