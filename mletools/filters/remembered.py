"""The reward history of the filters: the newest rewards of each task, by window and in total.

It grows by a task's entry for each new task: at most REWARDS numbers, and a window for each kind of trace.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

REWARDS = 1000  # of a task, that the top share's threshold is taken over


class TaskRewards(TypedDict):
    """The rewards of a task as they are stored."""

    rewards: list[float]
    windows: dict[str, list[float]]


@dataclass
class Remembered:
    """`rewards[task]` are its newest; `windows[task][kind]` those of reset traces, memory traces or others ("")."""

    rewards: dict[str, deque[float]] = field(default_factory=dict)
    windows: dict[str, dict[str, deque[float]]] = field(default_factory=dict)

    @classmethod
    def of(cls, tasks: Mapping[str, TaskRewards]) -> "Remembered":
        """Restore the output of `as_json`."""
        memory = cls()
        for task, state in tasks.items():
            if state["rewards"]:
                memory.rewards[task] = deque(state["rewards"], REWARDS)
            if state["windows"]:
                memory.windows[task] = {kind: deque(each) for kind, each in state["windows"].items()}
        return memory

    def as_json(self) -> dict[str, TaskRewards]:
        """JSON of it, by task."""
        return {
            task: {
                "rewards": list(self.rewards.get(task, ())),
                "windows": {kind: list(each) for kind, each in self.windows.get(task, {}).items()},
            }
            for task in sorted(self.rewards.keys() | self.windows.keys())
        }

    @property
    def size(self) -> int:
        """Number of stored rewards."""
        kinds = [each for windows in self.windows.values() for each in windows.values()]
        return sum(map(len, self.rewards.values())) + sum(map(len, kinds))

    def reward(self, task: str, value: float) -> None:
        """Remember a reward of a task."""
        self.rewards.setdefault(task, deque(maxlen=REWARDS)).append(value)

    def window(self, task: str, kind: str, most: int) -> deque[float]:
        """The window of the newest `most` rewards, to look into and to append to."""
        windows = self.windows.setdefault(task, {})
        if kind not in windows or windows[kind].maxlen != most:
            windows[kind] = deque(windows.get(kind, ()), most)
        return windows[kind]
