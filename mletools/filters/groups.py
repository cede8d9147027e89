"""Choose rollouts: one by one, then by group (enough members, spread of reward).

One by one, in this order: valid, rewarded, masked, score, reward, medal, duplicates; then what a reward is worth among those of its
task: the top share, the gain, the validation score, the running mean. So what is cheap and certain goes first, and a
drop is counted under the plainest reason; MLE-RL, section 4.1, has the same order (format, value, running mean).
Whatever drops a rollout, its reward counts in the top share and in the window if it is valid: they tell how well the
policy does, not what is kept.

A group is decided as soon as all its members have arrived (a rollout says how many there are), so a stream flows; what
is still open when the input ends is decided then. Within a group the order of arrival changes nothing: members are
looked at by sample index. Of duplicates in several groups of one task, the group decided first keeps its own. What is
held: for each task DIGESTS of programs and what `remembered` says; of groups that are open, `open_groups` at most.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from ..base.ids import content_id
from ..records.rollout import Rollout
from .code import normal_form
from .masks import masked
from .measures import Measures, Notes
from .options import FilterOptions
from .remembered import Remembered
from .values import normalised, top_threshold

DIGESTS = 10_000  # of a task's newest programs, that a duplicate is known by
MEDALS = (None, "bronze", "silver", "gold")
Member = tuple[Rollout, Measures]  # of a group


@dataclass(frozen=True)
class Decision:
    """`reason`: None for a rollout to keep, else a kind, a colon and the particulars; `notes` go into its `filter`.

    arrived: how many of its group had come when that was decided on; members: how many of these are kept, so that a
    trainer knows when it has them all.
    """

    rollout: Rollout
    reason: str | None
    notes: Notes = field(default_factory=lambda: Notes())
    arrived: int = 0
    members: int = 0

    def as_record(self) -> Rollout:
        """The rollout with the decision in its `filter`."""
        decided = {"kept": self.reason is None, "reason": self.reason, "arrived": self.arrived, "members": self.members}
        decision = {**(self.rollout.get("filter") or {}), **decided, **self.notes}
        return cast(Rollout, {**self.rollout, "filter": decision})


@dataclass
class Selection:
    """Feed rollouts with `add`, end with `flush`; both yield Decisions."""

    options: FilterOptions
    remembered: Remembered = field(default_factory=Remembered)
    decided_early: int = 0  # groups, for there were too many open ones
    _groups: dict[str, list[Member]] = field(default_factory=dict)
    _complete: list[list[Member]] = field(default_factory=list)
    _rewards: dict[str, list[float]] = field(default_factory=dict)
    _thresholds: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, rollout: Rollout, measured: Measures | None = None) -> Iterator[Decision]:
        """Take one rollout in; when its group is complete, decide on all of the group.

        measured: `gain`, the human rank less the reference's, and `validation_rank`, that of the shown score;
        without them the filters that ask for them pass the rollout.
        """
        holds = self.options.top is not None and self.options.calibrate == "input"
        if holds and (reward := _counting(rollout)) is not None:
            self._rewards.setdefault(rollout["task"]["id"], []).append(reward)
        earlier = rollout.get("filter")
        if (
            earlier and earlier["kept"] is False and "arrived" not in earlier
        ):  # --cut-steps found no step: no group waits
            yield Decision(rollout, earlier["reason"], arrived=1)
            return
        key = rollout["group"]
        members = self._groups.setdefault(key, [])
        members.append((rollout, measured or {}))
        if len(members) < rollout["group_size"]:
            if len(self._groups) <= self.options.open_groups or holds:
                return
            key = next(iter(self._groups))
            self.decided_early += 1
        if holds:
            self._complete.append(self._groups.pop(key))
        else:
            yield from self._decide(self._groups.pop(key))

    def flush(self) -> Iterator[Decision]:
        """Decide on what is held: the whole input, or the groups that never became complete."""
        for task, rewards in self._rewards.items():
            known = [*self.remembered.rewards.get(task, ()), *rewards]
            self._thresholds[task] = top_threshold(known, self.options.top or 1)
            for reward in rewards:
                self.remembered.reward(task, reward)
        for group in self._complete:
            yield from self._decide(group)
        while self._groups:
            yield from self._decide(self._groups.pop(next(iter(self._groups))))

    def _decide(self, group: list[Member]) -> Iterator[Decision]:
        ordered = sorted(group, key=lambda member: member[0]["sample"])
        programs: dict[str, str] = {}  # of the rollouts that stay so far: the digest, and the id
        members = [self._alone(rollout, measured, programs) for rollout, measured in ordered]
        kept = [member for member in members if member.reason is None]
        why = None
        if len(kept) < self.options.min_group:
            why = f"small group: {len(kept)} left, fewer than {self.options.min_group}"
        elif self.options.spread and len({one.notes.get("reward", one.rollout["reward"]) for one in kept}) < 2:
            why = "no spread: all rewards left in the group are equal"
        left = 0 if why else len(kept)
        if not why:
            self._remember(ordered[0][0]["task"]["id"], {one.rollout["id"] for one in kept}, programs)
        for member in members:
            yield replace(member, reason=member.reason or why, arrived=len(group), members=left)

    def _remember(self, task: str, kept: set[str], programs: Mapping[str, str]) -> None:
        """The programs of the rollouts that are kept: a later one that is equal is a duplicate."""
        seen = self._seen.setdefault(task, {})
        for digest, rollout in programs.items():
            if rollout in kept:
                seen[digest] = None
        while len(seen) > DIGESTS:
            del seen[next(iter(seen))]

    def _alone(self, rollout: Rollout, measured: Measures, programs: dict[str, str]) -> Decision:
        """The decision on a rollout whatever its group is; `programs` are those of its group's rollouts before it."""
        earlier = rollout.get("filter")
        if earlier and earlier["kept"] is False:  # marked by a run before this one
            return Decision(rollout, earlier["reason"])
        notes = cast(Notes, dict(measured))
        if self.options.mask_invalid:
            notes["masked"] = sorted({*masked(rollout), *(earlier.get("masked", ()) if earlier else ())})
        reward = _counting(rollout)
        of_value = self._of_value(rollout, reward, notes) if reward is not None else None
        code = None if self.options.keep_duplicates else rollout["code"]
        digest = None if code is None else content_id(normal_form(code))
        reason = self._plain(rollout, notes, digest, programs) or of_value
        if reason is None and digest is not None:
            programs[digest] = rollout["id"]
        return Decision(rollout, reason, notes)

    def _plain(self, rollout: Rollout, notes: Notes, digest: str | None, programs: Mapping[str, str]) -> str | None:
        """Why the rollout is dropped whatever its task's other rewards are, or None."""
        grade, options = rollout["grade"], self.options
        if not grade["valid"] and not options.keep_invalid:
            return f"invalid: {grade['reason']}"
        reward = rollout["reward"]
        if reward is None and (options.min_reward is not None or options.spread or not options.keep_invalid):
            return "no reward: the rule gives none to such a rollout"
        if notes.get("masked") and _own(rollout) <= set(notes["masked"]):
            return "masked: none of the policy's messages may carry loss"
        if options.min_score is not None and grade["valid"]:
            score = grade["score"]
            assert score is not None
            if score > options.min_score if grade["lower_is_better"] else score < options.min_score:
                return f"score: {score:g} is worse than {options.min_score:g}"
        if options.min_reward is not None and reward is not None and reward < options.min_reward:
            return f"reward: {reward:g} is below {options.min_reward:g}"
        if options.min_medal is not None and MEDALS.index(grade["medal"]) < MEDALS.index(options.min_medal):
            return f"medal: {grade['medal'] or 'none'}, less than {options.min_medal}"
        if digest is not None and (digest in programs or digest in self._seen.get(rollout["task"]["id"], {})):
            return "duplicate: the same program as an earlier one"
        return None

    def _of_value(self, rollout: Rollout, reward: float, notes: Notes) -> str | None:
        """Why a valid rollout is not worth learning from, or None. Remembers its reward, and adds to `notes`."""
        options, reasons = self.options, []
        if options.top is not None:
            notes["tau_abs"] = threshold = self._threshold(rollout["task"]["id"], reward, options.top)
            if reward < threshold:
                reasons.append(f"not in the top: {reward:g} is below {threshold:g}")
        gain, rank = notes.get("gain"), notes.get("validation_rank")
        if options.tau_adv is not None and gain is not None and gain <= options.tau_adv:
            reasons.append(f"no gain: {gain:g} over the reference's human rank, not more than {options.tau_adv:g}")
        if options.tau_val is not None and rank is not None and rank < options.tau_val:
            reasons.append(f"validation: human rank {rank:g} is below {options.tau_val:g}")
        if options.window:
            reason = self._against_the_window(rollout, reward, options.window, notes)
            if reason is not None:
                reasons.append(reason)
        return reasons[0] if reasons else None

    def _threshold(self, task: str, reward: float, share: float) -> float:
        if self.options.calibrate == "input":
            return self._thresholds[task]
        self.remembered.reward(task, reward)
        return top_threshold(self.remembered.rewards[task], share)

    def _against_the_window(self, rollout: Rollout, reward: float, most: int, notes: Notes) -> str | None:
        options = self.options
        window = self.remembered.window(rollout["task"]["id"], rollout.get("trace", ""), most)
        before = list(window)
        window.append(reward)
        if len(before) < options.window_min:
            return f"warming up: {len(before)} rewards in the window, fewer than {options.window_min}"
        notes["normalised"] = off = normalised(reward, before, options.prune)
        if options.binarise:
            notes["reward"] = 1 if off > 0 else 0
        elif options.normalise:
            notes["reward"] = off
        if options.tau_rm is not None and abs(off) < options.tau_rm:
            return f"insignificant: {off:g} off the running mean, less than {options.tau_rm:g}"
        return None


def _counting(rollout: Rollout) -> float | None:
    """The reward of a rollout if it is one of its task's rewards: the rollout is valid, and was not dropped before."""
    decision = rollout.get("filter")
    dropped = decision is not None and decision["kept"] is False
    return rollout["reward"] if rollout["grade"]["valid"] and not dropped else None


def _own(rollout: Rollout) -> set[int]:
    return {index for index, message in enumerate(rollout["messages"]) if message.get("loss")}
