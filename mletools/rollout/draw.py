"""Which tasks a run without an end works on, by what can be learnt from them: mle-rollout --draw learnable.

A group whose rewards are all equal teaches nothing: every advantage is 0. So a task's share of the groups grows with the
standard deviation of its rewards within groups, as they come back in a file of graded rollouts (--draw-from). A state of
earlier work (--write-states) is drawn as a task is. Covered: the shares, the file, going on after a kill. Not covered:
grading, the trainer's own choice (mle-filter, groups without spread).
"""

import json
import math
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, cast

from ..base.errors import RecordError, ToolError
from ..base.growing import GrowingFile
from ..base.jsonl import loads
from ..base.typed import convert
from ..records import schema
from ..records.common import LARGEST_REWARD, Count
from ..records.rollout import Rollout
from ..scaffolds.interface import state_id

KIND, VERSION = "mle-rollout state", 1
FLOOR = 0.2  # of all groups, a share that is spread over all tasks alike
DECAY = 0.8  # weight of a task's earlier groups, with each one that comes
OPEN = 1000  # groups of which not all rewards have come


class Known(TypedDict):
    """What is known of a task, or of a state.

    draws: groups that were begun. owed: how many more are due to it by its share. spread: decayed mean of its groups'
    standard deviations, `groups` their weights' sum; 0 and 0: none has come back.
    """

    draws: Count
    owed: float
    spread: float
    groups: float


class OpenGroup(TypedDict):
    """A group whose rewards are coming, and the task or state that it began from."""

    of: str
    rewards: list[float | None]


class Read(TypedDict):
    """How much of the file of graded rollouts was read."""

    bytes: Count
    lines: Count


class Kept(TypedDict):
    """The state file."""

    kind: str
    version: int
    seed: Count
    groups: Count
    draw_from: str
    read: Read
    known: dict[str, Known]
    open: dict[str, OpenGroup]


@dataclass
class Learnable:
    """Feed rewards with `reward`, ask for the next task with `draw`.

    New tasks, of which nothing was begun or has come, are drawn first, in the order of the input. Of the rest each is due a
    share of the groups: FLOOR of them alike, 1 - FLOOR in proportion to its spread; one of which nothing has come back counts
    as the mean of the others. Who is owed most is drawn (smooth weighted round robin): no chance is in it, so that the same
    rewards at the same draws give the same tasks, every share is kept to within a group or so, and tasks that are all alike
    take turns.
    """

    known: dict[str, Known] = field(default_factory=dict)
    open: dict[str, OpenGroup] = field(default_factory=dict)

    def meet(self, of: Sequence[str]) -> None:
        """Know these ids, so that their rewards count."""
        for id in of:
            self.known.setdefault(id, {"draws": 0, "owed": 0.0, "spread": 0.0, "groups": 0.0})

    def reward(self, of: str, group: str, size: int, reward: float | None) -> None:
        """A reward of a group of `size` that began from the task or state `of`; None: its rule gives it none.

        One that no trainer learns from counts as none.
        """
        if of not in self.known or size < 2:
            return
        key = f"{group} {of}"  # traces of a memory may begin from different solutions in one group
        entry = self.open.setdefault(key, {"of": of, "rewards": []})
        entry["rewards"].append(reward if reward is not None and abs(reward) <= LARGEST_REWARD else None)
        if len(entry["rewards"]) >= size:
            self._close(key)
        elif len(self.open) > OPEN:
            self._close(next(iter(self.open)))

    def _close(self, key: str) -> None:
        """Count a group, of which what has not come never will."""
        entry = self.open.pop(key)
        known, rewards = self.known[entry["of"]], [reward for reward in entry["rewards"] if reward is not None]
        spread = statistics.pstdev(rewards) if len(rewards) > 1 else 0.0
        before = DECAY * known["groups"]
        known["groups"] = before + 1
        known["spread"] = (before * known["spread"] + spread) / known["groups"]

    def shares(self, of: Sequence[str]) -> list[float]:
        """The share of the groups that each of these ids is due; they sum to 1."""
        known = [self.known[id] for id in of]
        told = [each["spread"] for each in known if each["groups"]]
        usual = math.fsum(told) / len(told) if told else 0.0
        spreads = [each["spread"] if each["groups"] else usual for each in known]
        total = math.fsum(spreads)
        if total <= 0:
            return [1 / len(of)] * len(of)
        return [FLOOR / len(of) + (1 - FLOOR) * spread / total for spread in spreads]

    def draw(self, of: Sequence[str]) -> tuple[str, int]:
        """The next of these ids to begin a group of, and how often it was drawn before."""
        self.meet(of)
        id = next((id for id in of if not self.known[id]["draws"] and not self.known[id]["groups"]), None)
        if id is None:
            for each, share in zip(of, self.shares(of), strict=True):
                self.known[each]["owed"] += share
            # sums of shares are rounded: what is equal up to that counts as equal, and the first is taken
            id = max(of, key=lambda each: round(self.known[each]["owed"], 9))
            self.known[id]["owed"] -= 1
        self.known[id]["draws"] += 1
        return id, self.known[id]["draws"] - 1


@dataclass
class LearnableState:
    """A Learnable with the file that it reads rewards from, and the file that it is kept in (--state; None: nowhere).

    What is kept holds up to which byte the rewards were read, so that a run that goes on counts each once.
    """

    path: Path | None
    seed: int
    rewards: GrowingFile
    say: Callable[[str], None]
    learnable: Learnable = field(default_factory=Learnable)
    groups: int = 0
    _strange: int = 0  # rollouts of other tasks, until one of these has come

    @staticmethod
    def read(path: Path | None, seed: int, rewards: Path, say: Callable[[str], None]) -> "LearnableState":
        """ToolError: the file is broken, or was kept with other options."""
        state = LearnableState(path, seed, GrowingFile(rewards), say)
        if path is None or not path.exists():
            return state
        try:
            kept = loads(path.read_bytes())
            if isinstance(kept, dict) and kept.keys() == {"digest", "groups"}:
                raise ToolError(f"{path}: was kept with --draw uniform: give another file")
            if kept["kind"] != KIND or kept["version"] != VERSION:
                raise ValueError(f"kind and version are {kept['kind']!r} and {kept['version']!r}")
            state._restore(convert(kept, Kept))
            with_options = kept["seed"], kept["draw_from"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            fault = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ToolError(f"{path}: is no state of mle-rollout ({fault}): remove it to begin anew") from error
        if with_options != (seed, str(rewards)):
            raise ToolError(
                f"{path}: was kept with --seed {with_options[0]} --draw-from {with_options[1]}: give the same, or another file"
            )
        return state

    def _restore(self, kept: Kept) -> None:
        self.groups = kept["groups"]
        self.rewards.at, self.rewards.number = kept["read"]["bytes"], kept["read"]["lines"]
        if any(each["of"] not in kept["known"] for each in kept["open"].values()):
            raise ValueError("an open group is of no task")
        self.learnable = Learnable(kept["known"], kept["open"])

    def next(self, of: Sequence[str]) -> tuple[str, int]:
        """The next of these ids to begin a group of, by all rewards that have come, and how often it was drawn before."""
        self.learnable.meet(of)
        self._read_rewards()
        drawn = self.learnable.draw(of)
        self.groups += 1
        self._keep()
        return drawn

    def _read_rewards(self) -> None:
        try:
            for place, line in self.rewards.new():
                self._add(place, line)
        except FileNotFoundError:
            return  # nothing was graded yet
        except OSError as error:
            raise ToolError(f"{self.rewards.path}: cannot be read: {error.strerror}") from error

    def _add(self, place: str, line: bytes) -> None:
        try:
            record = loads(line)
        except ValueError as error:
            # a killed pipe leaves the beginning of a line, and the next run writes on behind it
            self.say(f"{place}: left out: {error}")
            return
        try:
            schema.check(record, "rollout")
        except RecordError as error:
            raise ToolError(f"{place}: {error}") from error
        rollout = cast(Rollout, record)
        if "reward" not in rollout:
            raise ToolError(f"{place}: no reward: --draw-from is what mle-grade writes")
        of = self._began_from(rollout)
        if of in self.learnable.known:
            self._strange = -1
        elif self._strange >= 0:
            self._strange += 1
            if self._strange == OPEN:
                self.say(f"{self.rewards.path}: {OPEN} rollouts, and none is of the tasks that are drawn from")
        self.learnable.reward(of, rollout["group"], rollout["group_size"], rollout["reward"])

    def _began_from(self, rollout: Rollout) -> str:
        """The id of the state that was drawn, or of the task."""
        start = rollout.get("state", {})
        if "rollout" in start and "turn" in start:
            state = state_id(start["rollout"], start["turn"])
            if state in self.learnable.known:
                return state
        return rollout["task"]["id"]

    def _keep(self) -> None:
        if self.path is None:
            return
        kept: Kept = {
            "kind": KIND,
            "version": VERSION,
            "seed": self.seed,
            "groups": self.groups,
            "draw_from": str(self.rewards.path),
            "read": {"bytes": self.rewards.at, "lines": self.rewards.number},
            "known": self.learnable.known,
            "open": self.learnable.open,
        }
        unfinished = self.path.with_name(self.path.name + ".partial")
        unfinished.write_text(json.dumps(kept, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(unfinished, self.path)
