"""Rollouts without an end, for a trainer at the other end of the pipe: the tasks again and again, and how far ahead to go.

Covered: going on where a killed run was (--state), tasks in turn or by what can be learnt (draw), a bound on how old the policy
behind a rollout gets until it is trained on. The bound counts this process's own rollouts; where several sample for one
trainer, the trainer's bound is what holds.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..base import published
from ..base.errors import OptionError, ToolError
from ..base.ids import content_id, derive_seed
from ..base.jsonl import Line
from ..base.options import option
from ..base.streams import is_stream
from ..models import Model, policy_servers
from ..models.following import FollowingModel
from ..models.options import ModelOptions
from ..records.rollout import Rollout
from ..run import Run
from .draw import KIND, LearnableState

PAUSE = 0.2  # seconds between two looks at what the trainer says


@dataclass
class Ahead:
    """How many rollouts may be begun that no published policy has learnt from: --max-staleness K.

    A step's worth for each update that a rollout may be old, and one: with 0, a step's rollouts are begun, and the next
    when the policy that learnt from them is there. A rollout that is cut into n steps counts as one, each step as 1/n
    (published.Demand). Rollouts that a filter drops, and such as have no step, reach no trainer, unless it marks them
    (mle-filter --mark, also with --cut-steps); where a trainer starves for `patience` seconds while nothing is worked on here, it gets another group.
    What it holds of earlier runs counts as begun. A trainer that says after `since` (time.time()) that it has ended wants no
    more. pause: sleeps, and raises where there is nobody left to wait for. waited: seconds in which nothing might be begun
    and nothing was worked on here.
    """

    folder: Path
    most: int | None
    patience: float = 300.0
    since: float = 0.0
    pause: Callable[[float], None] = time.sleep
    say: Callable[[str], None] = lambda told: None
    begun: int = 0
    done: int = 0
    waited: float = 0.0
    _first: published.Demand | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def finished(self, rollouts: int) -> None:
        with self._lock:
            self.done += rollouts

    def lost(self, rollouts: int) -> None:
        """They were begun, and nobody will learn from them."""
        with self._lock:
            self.begun -= rollouts

    def wait(self, group_size: int) -> bool:
        """Until a group may be begun, which is counted; False where the trainer has ended."""
        since, idle = time.monotonic(), None  # since the last look, since the trainer starves
        while not (ended := published.ended(self.folder, self.since)) and not self.may(group_size):
            with self._lock:
                working = self.begun > self.done
            demand = published.wanted(self.folder)
            if working or demand is None or not demand.starving:
                idle = None
            elif idle is None:
                idle = time.monotonic()
            elif time.monotonic() - idle > self.patience:
                self.say(
                    f"the trainer has had nothing for {self.patience:g} s, and is given another group: are rollouts dropped on "
                    "the way (mle-filter --mark), or do programs take longer (--patience)?"
                )
                break
            self.pause(PAUSE)
            now = time.monotonic()
            self.waited += 0.0 if working else now - since
            since = now
        if not ended:
            with self._lock:
                self.begun += group_size
        return not ended

    def may(self, group_size: int) -> bool:
        """Whether a group may be begun now."""
        if self.most is None:
            return True
        demand = published.wanted(self.folder)
        if demand is None:
            return self.begun == 0
        if self._first is None or demand.began != self._first.began:
            self._first = demand  # the first of this run that was seen, or of a trainer that has begun anew
        step = demand.rollouts if demand.rollouts is not None else demand.groups * group_size
        return self.begun + self._first.held - (demand.used - self._first.used) < (self.most + 1) * step


@dataclass
class State:
    """How many groups were begun, in a file, so that a run goes on behind them."""

    path: Path | None
    digest: str
    groups: int = 0

    @staticmethod
    def read(path: Path | None, lines: Sequence[Line], seed: int) -> "State":
        digest = content_id(seed, [line.record["id"] for line in lines])
        if path is None or not path.exists():
            return State(path, digest)
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(kept, dict) and kept.get("kind") == KIND:
                raise ToolError(f"{path}: was kept with --draw learnable: give another file")
            state = State(path, str(kept["digest"]), int(kept["groups"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ToolError(f"{path}: is no state of mle-rollout ({error}): remove it to begin anew") from error
        if state.digest != digest:
            raise ToolError(f"{path}: was kept for other tasks or another --seed: give the same, or another file")
        return state

    def begun(self) -> None:
        self.groups += 1
        if self.path is not None:
            unfinished = self.path.with_name(self.path.name + ".partial")
            unfinished.write_text(json.dumps({"digest": self.digest, "groups": self.groups}) + "\n", encoding="utf-8")
            os.replace(unfinished, self.path)


@dataclass(frozen=True)
class EndlessOptions:
    """Rollouts without an end, and the trainer that they are for."""

    forever: bool = option("Go through the tasks again and again. Holds the input.", default=False)
    passes: int | None = option(
        "With --forever: end after N passes through the tasks, including those that --state remembers.",
        at_least=1,
        metavar="N",
    )
    draw: str = option(
        "With --forever: take the tasks in turn, or draw them by the spread of their rewards in --draw-from.",
        default="uniform",
        choices=("uniform", "learnable"),
    )
    draw_from: str | None = option(
        "With --draw learnable: the graded rollouts of this run, as written by tee -a FILE in the pipe.",
        kind="file",
        metavar="FILE",
        machine=True,
    )
    follow: str | None = option(
        "Sample from the newest policy that mle-train-grpo --publish DIR has published. hf: and vllm: load it; of a "
        "server's model only the version is followed.",
        kind="folder",
        metavar="DIR",
    )
    publish_url: tuple[str, ...] = option(
        "With --follow: first load the newest policy into this server, which may have been restarted: an adapter as the "
        "model of -m, or full weights. Repeatable.",
        default=(),
        kind="url",
        machine=True,
    )
    max_staleness: int | None = option("With --follow: maximum policy lag, in updates.", at_least=0, metavar="K")
    patience: float = option(
        "With --max-staleness: if a trainer waits this long and nothing is in work here, begin one group more.",
        default=300.0,
        above=0,
        kind="seconds",
        machine=True,
    )
    state: str | None = option(
        "With --forever: remember which groups were begun. A new run continues after them.",
        kind="state file",
        metavar="FILE",
        machine=True,
    )
    since: float = field(default_factory=time.time)  # when the command began

    def check(self, output: bool, group_size: int) -> None:
        """OptionError for options that do not go together."""
        if self.forever and output:
            raise OptionError("--forever never ends, and -o FILE would never appear: write to a pipe")
        for name, value in (
            ("--state", self.state),
            ("--max-staleness", self.max_staleness),
            ("--passes", self.passes),
        ):
            if value is not None and not self.forever:
                raise OptionError(f"{name} is about --forever")
        if self.publish_url and not self.follow:
            raise OptionError("--publish-url: which policy? --follow DIR is where it is published")
        if self.max_staleness is not None and not self.follow:
            raise OptionError("--max-staleness: of which policy? --follow DIR is where it is published")
        self._check_draw(group_size)

    def check_rollouts(self, rollouts: int | None) -> None:
        """OptionError for a bound on how far ahead to go, where a job has several rollouts: their number counts as one."""
        if self.max_staleness is not None and rollouts != 1:
            raise OptionError(
                "--max-staleness bounds rollouts that come one by one, and traces do not: give --max-traces 1"
            )

    def _check_draw(self, group_size: int) -> None:
        if self.draw == "uniform":
            if self.draw_from is not None:
                raise OptionError("--draw-from is about --draw learnable")
            return
        if not self.forever:
            raise OptionError("--draw learnable is about --forever")
        if self.draw_from is None:
            raise OptionError("--draw learnable: by which rewards? --draw-from FILE, which `tee -a FILE` writes")
        if is_stream(self.draw_from):
            raise OptionError("--draw-from reads a file that grows: let `tee -a FILE` write one behind mle-grade")
        if group_size < 2:
            raise OptionError("--draw learnable goes by the spread within groups: give -g 2 or more")

    def model(self, run: Run, models: ModelOptions, batch: int = 64) -> Model:
        """The model that -m names, which answers with the newest policy that was published."""
        if self.follow is None:
            return models.open(batch=batch)
        folder = Path(self.follow)

        def waiting() -> None:
            run.say(f"waiting for a policy in {folder}")

        def pause() -> None:
            run.pause(0.5)

        kind, _, rest = (models.model or "").partition(":")
        if self.publish_url and kind in ("hf", "vllm", "llama"):
            raise OptionError(f"--publish-url is about the model of a server: -m {models.model} is none")
        if kind in ("hf", "vllm"):
            if rest:
                raise OptionError(
                    f"-m {models.model} --follow {folder}: the policy is the folder's: say -m {kind}: alone"
                )
            return FollowingModel(folder, None, lambda path: models.open(f"{kind}:{path}", batch=batch), waiting, pause)
        if kind == "llama":
            raise OptionError(
                f"-m {models.model} --follow {folder}: llama: loads no published policy, hf: and vllm: do"
            )
        following = FollowingModel(folder, models.open(batch=batch), None, waiting, pause)
        urls = tuple(dict.fromkeys(self.publish_url))
        policy_servers.load_newest(urls, following.name, folder, models.wait_for_server)
        return following

    def tasks(self, run: Run, kinds: tuple[str, ...], group_size: int) -> "Source | None":
        """The lines of the input again and again, with the seed of each; None: once is enough."""
        if not self.forever:
            return None
        ahead = None
        if self.follow:
            ahead = Ahead(Path(self.follow), self.max_staleness, self.patience, self.since, run.pause, run.say)
        state, rewards = Path(self.state) if self.state else None, Path(self.draw_from) if self.draw_from else None
        return Source(run, kinds, group_size, ahead, state, self.passes, rewards)


@dataclass
class Source:
    """The tasks of a run without an end, one group's at a time, and what is counted of them."""

    run: Run
    kinds: tuple[str, ...]
    group_size: int
    ahead: Ahead | None
    state: Path | None
    passes: int | None = None  # where it ends after all
    rewards: Path | None = None  # the graded rollouts by which tasks are drawn; None: they take turns
    refused: set[str] = field(default_factory=set)  # tasks that are left out from now on, by id

    def __iter__(self) -> Iterator[tuple[Line, int]]:
        lines = list(self.run.lines(*self.kinds))
        if not lines:
            raise ToolError("--forever needs at least one task")
        for line, past in self._in_turn(lines) if self.rewards is None else self._by_rewards(lines, self.rewards):
            yield line, self.run.seed if past == 0 else derive_seed(self.run.seed, "pass", past)

    def _in_turn(self, lines: Sequence[Line]) -> Iterator[tuple[Line, int]]:
        """The line of each group, and how often it has come before."""
        state = State.read(self.state, lines, self.run.seed)
        while self._goes_on(state.groups, lines):
            past, index = divmod(state.groups, len(lines))
            if lines[index].record["id"] in self.refused:
                state.begun()
                continue
            if self.ahead is not None and not self.ahead.wait(self.group_size):
                return
            state.begun()
            yield lines[index], past

    def _by_rewards(self, lines: Sequence[Line], rewards: Path) -> Iterator[tuple[Line, int]]:
        """As _in_turn, each by what can be learnt from it; see draw."""
        state = LearnableState.read(self.state, self.run.seed, rewards, self.run.say)
        named = {line.record["id"]: line for line in lines}
        while self._goes_on(state.groups, lines):
            if self.ahead is not None and not self.ahead.wait(self.group_size):
                return
            if left := [id for id in named if id not in self.refused]:
                id, past = state.next(left)
                yield named[id], past

    def _goes_on(self, groups: int, lines: Sequence[Line]) -> bool:
        if self.passes is not None and groups >= self.passes * len(lines):
            return False
        if all(line.record["id"] in self.refused for line in lines):
            raise ToolError("--forever: every task was refused")
        return True

    def another(self) -> bool:
        """Whether the bound on staleness lets another group begin now; False without a bound, where each group goes alone."""
        return self.ahead is not None and self.ahead.most is not None and self.ahead.may(self.group_size)

    def finished(self, rollouts: int) -> None:
        if self.ahead is not None:
            self.ahead.finished(rollouts)

    def refuse(self, task: str, rollouts: int, for_good: bool) -> None:
        """So many rollouts that were begun will never be. for_good: the task cannot be worked on, as all of a group show."""
        if for_good:
            self.refused.add(task)
        if self.ahead is not None:
            self.ahead.lost(rollouts)

    def stamped(self, rollout: Rollout) -> Rollout:
        """The rollout with the seconds that this run has waited for policies, where it follows one."""
        if self.ahead is None:
            return rollout
        return {**rollout, "policy": {**rollout["policy"], "waited_s": round(self.ahead.waited, 3)}}
