"""Rollouts that have come and were not trained on yet, and the optimiser steps that they make.

A step takes whole groups (`groups_per_step`), in the order in which they became complete, or a number of rollouts
(`batch`), in the order in which they came: then a group's first rollouts do not wait for its last, which count for a later
step, measured against all of the group that has come by then. Every rollout that is left out is counted, with the reason;
those of a policy that is too old are lost, as are those that never come, and the weights by duration know of them.
Not covered: what a step is made of (steps), where rollouts come from (a stream, a file that was read), the loss.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from ..records.common import LARGEST_REWARD
from .advantages import advantages, has_reward_spread
from .durations import arrival_weights, duration_weights
from .samples import Sample, exceeds
from .steps import OptimiserStep, Row, StepRecipe

FORGET = 100_000  # rollouts and groups of an endless stream that are remembered


@dataclass
class _Group:
    members: int
    size: int
    rewards: dict[str, float] = field(default_factory=dict)  # of all that came and count
    waiting: list[Sample] = field(default_factory=list)
    came: int = 0
    arrived: int | None = None  # what a filter that has decided on the group says
    left_out: list[str] = field(default_factory=list)  # of those that came, the ids that do not count
    lost: float = 0.0  # of the missing ones, those that earlier steps have counted


class GroupState(TypedDict):
    """A group as a checkpoint keeps it, less the rollouts that wait."""

    members: int
    size: int
    rewards: dict[str, float]
    came: int
    arrived: int | None
    left_out: list[str]
    lost: float


class BufferState(TypedDict):
    """The groups that a step may still take rollouts of, and those whose turn has come."""

    groups: dict[str, GroupState]
    ready: list[str]


class GroupBuffer:
    """Feed rollouts with `add` as they come, say `end` when no more do; `take` gives the next step, or None.

    passes: by id, how often a rollout was trained on before; one that was so `epochs` times only counts in its group.
    stream: steps are taken before the end of the input. version: of the policy, now.
    """

    def __init__(
        self,
        recipe: StepRecipe,
        passes: dict[str, int],
        dropped: Counter[str],
        epochs: int = 1,
        stream: bool = False,
        version: Callable[[], int] = lambda: 0,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.recipe, self.passes, self.dropped = recipe, passes, dropped
        self.epochs, self.stream, self.version, self.say = epochs, stream, version, say
        self.ended = False
        self._groups: dict[str, _Group] = {}
        self._ready: list[str] = []  # groups whose turn has come
        self._arrivals: list[Sample] = []  # that wait, whatever their groups
        self._seen: dict[str, None] = {}
        self._late = 0  # rollouts that came since the last step and were too old

    @property
    def waiting(self) -> list[Sample]:
        """The rollouts that no step has taken, in the order in which they came."""
        return list(self._arrivals)

    def state(self) -> BufferState:
        """The state of unfinished groups as JSON values; `restore` takes it together with `waiting`."""
        group_states: dict[str, GroupState] = {
            name: {
                "members": g.members,
                "size": g.size,
                "rewards": g.rewards,
                "came": g.came,
                "arrived": g.arrived,
                "left_out": g.left_out,
                "lost": g.lost,
            }
            for name, g in self._groups.items()
            if g.waiting or g.came < g.members
        }
        return {"groups": group_states, "ready": [name for name in self._ready if name in group_states]}

    def restore(self, state: BufferState, waiting: Sequence[Sample]) -> None:
        """Stand where the buffer stood that gave `state`."""
        self._groups = {name: _Group(**group) for name, group in state["groups"].items()}
        self._ready = list(state["ready"])
        for group in self._groups.values():  # a member that comes once more has come
            self._seen |= dict.fromkeys([*group.rewards, *group.left_out])
        for sample in waiting:
            self._groups[sample.group].waiting.append(sample)
            self._arrivals.append(sample)
            self._seen[sample.id] = None

    def add(self, sample: Sample) -> None:
        """Take a rollout in, or count why not."""
        if sample.id in self._seen:
            self.dropped["repeated"] += 1
            return
        self._seen[sample.id] = None
        if not sample.kept and sample.arrived is not None:
            self.dropped["filtered"] += 1  # its group knows of it: `members` are those that were kept
            self._forget()
            return
        group = self._groups.setdefault(sample.group, _Group(sample.members, sample.group_size))
        group.came += 1
        if sample.arrived is not None:
            group.arrived = max(group.arrived or 0, sample.arrived)
        reason = self._refused(sample)
        if reason == "too_long" and not self.dropped[reason]:
            self.say(exceeds(sample, self.recipe.context))
        if reason:
            self.dropped[reason] += 1
        if sample.reward is not None and reason in (None, "trained", "no_loss", "too_long"):
            group.rewards[sample.id] = float(sample.reward)
        else:
            group.left_out.append(sample.id)
        if reason is None:
            group.waiting.append(sample)
            self._arrivals.append(sample)
        again = group.members > 1 and group.came % group.members == 0  # traces of runs come to their group without end
        if self.stream and (group.came == group.members or again) and sample.group not in self._ready:
            self._ready.append(sample.group)
        self._forget()

    def end(self) -> None:
        """No more rollouts come: what is incomplete now stays so."""
        self.ended = True
        self._ready += [name for name in self._groups if name not in self._ready]

    def take(self) -> OptimiserStep | None:
        """The next step, or None where there is not enough for one (after `end`: where nothing is left)."""
        self._drop_stale()
        return self._take_groups() if self.recipe.batch is None else self._take_rollouts(self.recipe.batch)

    def _refused(self, sample: Sample) -> str | None:
        """Why a rollout is not trained on, whatever its group is."""
        trouble = next((trouble for trouble in sample.troubles if trouble in self.recipe.mask), None)
        version = sample.policy_version
        if self.stream and isinstance(version, int) and version > self.version():
            return "of_another_run"  # of a policy that there is not yet
        if not sample.kept:
            return "filtered"
        if sample.reward is None:
            return "no_reward"
        if not abs(sample.reward) <= LARGEST_REWARD:
            return "extreme_reward"
        if trouble:
            return f"masked_{trouble}"
        if self.passes.get(sample.id, 0) >= self.epochs:
            return "trained"
        if not sample.loss_tokens:
            return "no_loss"
        return "too_long" if self.recipe.context is not None and sample.length > self.recipe.context else None

    def _take_groups(self) -> OptimiserStep | None:
        chosen: list[str] = []
        for name in list(self._ready):
            group = self._groups[name]
            if not group.waiting or self._useless(group):
                self._ready.remove(name)
                self._leave(name, group.waiting)
            else:
                chosen.append(name)
            if len(chosen) == self.recipe.groups_per_step:
                break
        if not chosen or (len(chosen) < self.recipe.groups_per_step and not self.ended):
            return None
        self._ready = [name for name in self._ready if name not in chosen]
        return self._step([sample for name in chosen for sample in self._groups[name].waiting])

    def _take_rollouts(self, count: int) -> OptimiserStep | None:
        usable = self._arrivals
        if self.recipe.within_groups:
            for name, group in self._groups.items():
                if group.waiting and self._useless(group) and (self.ended or group.came >= group.members):
                    self._leave(name, group.waiting)
            usable = [sample for sample in self._arrivals if not self._useless(self._groups[sample.group])]
        if not usable or (len(usable) < count and not self.ended):
            return None
        return self._step(usable[:count])

    def _useless(self, group: _Group) -> bool:
        rewards = list(group.rewards.values())
        if not self.recipe.within_groups or has_reward_spread(rewards):
            return False
        return len(rewards) < 2 or not self.recipe.equal_groups

    def _leave(self, name: str, samples: Sequence[Sample]) -> None:
        """Count rollouts whose group has no reward spread, and let them go."""
        if samples:
            self.dropped["lone" if len(self._groups[name].rewards) < 2 else "no_spread"] += len(samples)
            self._gone(list(samples))

    def _drop_stale(self) -> None:
        limit = self.recipe.max_staleness
        if limit is not None:
            oldest = self.version() - limit
            stale = [s for s in self._arrivals if isinstance(s.policy_version, int) and s.policy_version < oldest]
            self.dropped["stale"] += len(stale)
            self._late += len(stale)
            self._gone(stale)

    def _lost_late(self, taken: int) -> int:
        """Rollouts, of whatever group, that no step will take because they come late, for a step of `taken`.

        With oversampling those that were begun for the step, less those that are in it; else those that came too old since the
        last step: in a stream that runs evenly, as many as are begun for a step and will come too old.
        """
        late, self._late = self._late, 0
        return late if self.recipe.begun is None else max(0, self.recipe.begun - taken)

    def _gone(self, samples: Sequence[Sample]) -> None:
        ids = {sample.id for sample in samples}
        if ids:
            self._arrivals = [sample for sample in self._arrivals if sample.id not in ids]
            for name in {sample.group for sample in samples}:
                group = self._groups[name]
                group.waiting = [sample for sample in group.waiting if sample.id not in ids]

    def _step(self, samples: list[Sample]) -> OptimiserStep:
        groups: dict[str, list[Sample]] = {}
        for sample in samples:
            groups.setdefault(sample.group, []).append(sample)
        group_advantages = advantages(
            {name: [float(s.reward or 0.0) for s in members] for name, members in groups.items()},
            self.recipe.baseline,
            self.recipe.scale_rewards,
            {name: list(self._groups[name].rewards.values()) for name in groups},
        )
        lost = {name: self._lost(self._groups[name], len(members)) for name, members in groups.items()}
        late = self._lost_late(len(samples))
        weight_of = self._weights(groups, lost, late)
        rows = []
        for name, members in groups.items():
            # without a spread, where such groups count (equal_groups): nothing is to be learnt from one, and it is divided by
            equal = [0.0] * len(members)
            for sample, advantage in zip(members, group_advantages[name] or equal, strict=True):
                rows += self._rows(sample, advantage * weight_of.get(sample.id, 1.0))
        in_flight = sum(self._missing(self._groups[name], False) for name in groups)
        self._gone(samples)
        weights = [weight_of[sample.id] for sample in samples] if weight_of else None
        return OptimiserStep(rows, samples, len(groups), sum(lost.values()) + late, in_flight, weights)

    def _weights(self, groups: dict[str, list[Sample]], lost: dict[str, float], late: int) -> dict[str, float]:
        """By rollout; empty where durations have no say. lost: of each group; late: of no group in particular."""
        mode, highest = self.recipe.duration_weight, self.recipe.duration_clip
        weights: list[float] = []
        if mode == "mean":
            weights = duration_weights([self._seconds(sample) for members in groups.values() for sample in members])
        elif mode == "auto" and late:
            held = [seconds for members in groups.values() for seconds in self._held_for(members)]
            weights = arrival_weights(held, late + sum(lost.values()))
        elif mode == "auto" and any(lost.values()):
            for name, members in groups.items():
                weights += arrival_weights([self._seconds(sample) for sample in members], lost[name])
        ids = [sample.id for members in groups.values() for sample in members] if weights else []
        return {
            name: value if highest is None else min(value, highest) for name, value in zip(ids, weights, strict=True)
        }

    def _seconds(self, sample: Sample) -> float:
        return sample.duration_s if self.recipe.duration_of == "rollout" else sample.execution_s

    def _held_for(self, members: Sequence[Sample]) -> list[float]:
        """Seconds that rollouts of a group took to come: each its own, or where a filter has held the group, its slowest's."""
        slowest = max(map(self._seconds, members))
        return [self._seconds(sample) if sample.arrived is None else slowest for sample in members]

    def _rows(self, sample: Sample, advantage: float) -> list[Row]:
        return [Row(tokens, advantage, sample) for tokens in sample.sequences if tokens.loss_tokens]

    def _lost(self, group: _Group, taken: int) -> float:
        """The lost rollouts of a group that count in a step of `taken` of its members: the more, the fewer are left to later steps."""
        share = max(0.0, self._missing(group, True) - group.lost) * taken / len(group.waiting)
        group.lost += share
        return share

    def _missing(self, group: _Group, for_good: bool) -> int:
        """Number of rollouts missing from the group: lost ones and those still in flight."""
        closed = self.ended or group.arrived is not None
        known = group.came if group.arrived is None else group.arrived
        return max(0, group.size - known) if closed == for_good else 0

    def _forget(self) -> None:
        if not self.stream:
            return
        while len(self._seen) > FORGET:
            del self._seen[next(iter(self._seen))]
        if len(self._groups) > FORGET:
            name = next((n for n, g in self._groups.items() if not g.waiting and n not in self._ready), None)
            if name is not None:
                del self._groups[name]


def held_steps(
    samples: Sequence[Sample],
    recipe: StepRecipe,
    passes: dict[str, int],
    epochs: int,
    dropped: Counter[str],
    say: Callable[[str], None] = lambda text: None,
) -> list[OptimiserStep]:
    """The steps of `epochs` passes over an input that is there as a whole; `dropped` counts what is left out.

    A pass takes the rollouts that had fewer passes, so what a killed run had done is not done again.
    """
    steps: list[OptimiserStep] = []
    for past in range(epochs):
        left_out = dropped if past == 0 else Counter[str]()
        pool = GroupBuffer(recipe, passes, left_out, epochs=past + 1, say=say if past == 0 else lambda text: None)
        for sample in samples:
            pool.add(sample)
        pool.end()
        while (step := pool.take()) is not None:
            steps.append(step)
    del dropped["trained"]
    done = len({sample.id for sample in samples if passes.get(sample.id, 0) >= epochs})
    if done:
        dropped["trained"] = done
    return steps
