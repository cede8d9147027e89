"""The wall clock of a search (R&D-Agent, section 2 and algorithm 1): waiting counts, and time between a kill and a resume does not."""

import threading
import time


class WallClock:
    """Seconds since a search began, for several threads. used: seconds that it had used before this process."""

    def __init__(self, used: float = 0.0):
        self._lock = threading.Lock()
        self._began = time.monotonic() - used

    def now(self) -> float:
        with self._lock:
            return round(time.monotonic() - self._began, 4)

    def reach(self, seconds: float) -> None:
        """The search is at least so old: a killed one had read this on its clock."""
        with self._lock:
            self._began = min(self._began, time.monotonic() - seconds)
