"""Measures how much memory the machine uses while an attack runs.

Covered: samples of the memory in use, relative to the first, without that which other processes still use afterwards.
"""

import resource
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_INTERVAL_S = 0.02
_SETTLE_S, _SETTLED_MB = 3.0, 40.0  # after a run, wait so long or until so little is still in use
_STEADY_S = 1.0  # before another measurement, memory use has to be steady for so long


def used_mb() -> float:
    """MB of this machine's memory that are in use and cannot be reclaimed."""
    with open("/proc/meminfo") as file:
        mb = {name: int(rest.split()[0]) / 1024 for name, _, rest in (line.partition(":") for line in file)}
    reclaimable = mb["Buffers"] + mb["Cached"] - mb["Shmem"] + mb.get("SReclaimable", 0.0) + _free_per_cpu_mb()
    return mb["MemTotal"] - mb["MemFree"] - reclaimable + mb["SwapTotal"] - mb["SwapFree"]


def _free_per_cpu_mb() -> float:
    """MB of free pages in the kernel's per-CPU lists: hundreds of MB since Linux 6.7, not part of `MemFree`."""
    try:
        with open("/proc/zoneinfo") as file:
            pages = sum(int(line.split()[1]) for line in file if line.lstrip().startswith("count:"))
    except OSError:
        return 0.0  # hidden in some containers
    return pages * resource.getpagesize() / (1 << 20)


class MemoryUse:
    """The memory that the machine used during the last `measure` block."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float]] = []  # (seconds, MB)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Sample the machine's memory during the with block."""
        samples: list[tuple[float, float]] = []  # (seconds, MB above the first)
        first, stop = used_mb(), threading.Event()

        def sample() -> None:
            while not stop.wait(_INTERVAL_S):
                samples.append((time.monotonic(), used_mb() - first))

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        try:
            yield
        finally:
            end = time.monotonic()
            while time.monotonic() < end + _SETTLE_S and (not samples or samples[-1][1] > _SETTLED_MB):
                time.sleep(_INTERVAL_S)
            time.sleep(2 * _INTERVAL_S)
            stop.set()
            sampler.join()
            # Memory that stays in use after the run belongs to other processes.
            others = max(0.0, min((mb for at, mb in samples if at > end), default=0.0))
            self.samples = [(at, mb - others) for at, mb in samples if at <= end]

    @staticmethod
    def wait_until_steady(most_s: float) -> None:
        """Wait, at most `most_s` seconds, until no other process on this machine allocates or frees much memory."""
        end = time.monotonic() + most_s
        reference, since = used_mb(), time.monotonic()
        while time.monotonic() < min(end, since + _STEADY_S):
            time.sleep(_INTERVAL_S)
            now = used_mb()
            if abs(now - reference) > _SETTLED_MB:
                reference, since = now, time.monotonic()

    def sustained_mb(self, seconds: float) -> float:
        """The largest amount in MB that was in use for `seconds` without a break."""
        most, window = 0.0, deque[tuple[float, float]]()
        for at, mb in self.samples:
            window.append((at, mb))
            while at - window[0][0] > seconds:
                most = max(most, min(mb for _, mb in window))
                window.popleft()
        return most
