"""Hand the policy to those who sample from it while it is trained: a folder, and a running server.

Covered: adapters and full models in a folder (records.published says how it looks), each version whole or absent. Every
server (servers) has loaded a version before the folder names it the newest, so a sampler never records a version newer
than the weights that answer.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..base import published
from ..base.errors import OptionError, ToolError
from ..base.ids import content_id
from ..base.options import option
from ..models import policy_servers
from . import checkpoints
from .options import GrpoOptions

PREFIX = "policy"
DIGITS = 6  # of rollouts, of which steps are shares
KEEP = 3  # versions: a sampler may still be loading the one before


@dataclass
class Publisher:
    """Publishes into `folder`, and to the servers at `urls` as the model `name`; every `steps` updates.

    rollouts, groups: begun for an update, in one or the other; published to the samplers. run: the run of the folder's
    policies. held: rollouts that the trainer begins with; they are used before others.
    """

    folder: Path
    urls: tuple[str, ...]
    name: str
    steps: int
    rollouts: int | None
    groups: int
    run: str = ""
    wait_s: float = 0.0  # for a server that is not up
    version: int = -1
    held: float = 0
    began: float = field(default_factory=time.time)
    _trained: float = 0
    _said: tuple[float, bool] | None = None
    _ended: bool = False

    def due(self, version: int) -> bool:
        return self.version < 0 or version - self.version >= self.steps

    def publish(
        self, version: int, write: Callable[[Path], None], trained: float = 0, refused: float = 0, first: bool = True
    ) -> None:
        """Make `version` the newest: write(folder) fills in weights and tokenizer.

        trained, refused: rollouts that were, since the process began. ToolError: the folder holds another run's policies.

        Of several processes all come here, and the `first` does it; the others may have to help with `write`.
        """
        begun, self.version, self._trained = self.version >= 0, version, trained
        if not first:
            write(self.folder)
            return
        if not begun:
            self.folder.mkdir(parents=True, exist_ok=True)
            checkpoints.clean(self.folder)
            earlier = checkpoints.load_latest(self.folder)
            if earlier is not None and checkpoints.read_state(earlier).get("run") != self.run:
                raise ToolError(
                    f"{self.folder}: holds policies of another run: publish into another folder, or remove it"
                )
        state = {"policy_version": version, "run": self.run}
        with published.exchanging(self.folder):
            checkpoints.save(self.folder, version, write, state, keep=KEEP, prefix=PREFIX, before_latest=self._serve)
        self._say(refused, False)

    def starving(self, yes: bool, refused: float) -> None:
        """Tell the samplers whether the trainer waits for rollouts, and how many it has refused."""
        if self.version >= 0 and self._said != (refused, yes):
            self._say(refused, yes)

    def end(self, refused: float) -> None:
        """Tell the samplers that no policy will come any more."""
        self._ended = True
        self._say(refused, False)

    def _serve(self, folder: Path) -> None:
        if not self.urls:
            return
        try:
            policy_servers.load_all(self.urls, self.name, folder, self.wait_s)
        except ToolError as error:
            raise ToolError(f"{error}. The checkpoint is kept: go on with --resume") from error

    def _say(self, refused: float, starving: bool) -> None:
        self._said = (refused, starving)
        used = round(self._trained + refused, DIGITS)
        held = max(0, self.held - used)
        published.say_wanted(
            self.folder,
            published.Demand(self.version, self.rollouts, self.groups, used, starving, self._ended, held, self.began),
        )


@dataclass(frozen=True)
class StreamOptions:
    """Training on rollouts as they come, and where those who sample them get the policy."""

    stream: bool = option("Train as rollouts arrive, in one pass, until the input ends.", default=False, machine=True)
    publish: str | None = option(
        "Publish each version of the policy in this folder, for mle-rollout --follow DIR.",
        kind="folder",
        metavar="DIR",
        machine=True,
    )
    publish_url: tuple[str, ...] = option(
        "Also load each version into this vLLM or SGLang server: an adapter as the model --publish-name, full "
        "weights in place of the served model's. Repeatable.",
        default=(),
        kind="url",
        machine=True,
    )
    publish_name: str = option(
        "Name of the adapter on the servers of --publish-url.", default="policy", metavar="NAME", machine=True
    )
    wait_for_server: float = option(
        "Seconds to wait for a server of --publish-url that is not up, before it is tried for two minutes.",
        default=0.0,
        at_least=0,
        kind="seconds",
        machine=True,
    )

    def check(self, given: Mapping[str, object], settings: Mapping[str, object]) -> None:
        """OptionError for options without an effect. given: by name, those of the command line; settings: all that are set."""
        if self.stream and settings.get("epochs", 1) != 1:
            raise OptionError("--stream makes one pass: leave --epochs out")
        if settings.get("oversample") and not (self.stream and self.publish):
            raise OptionError("--oversample needs --stream and --publish: samplers are told there how many to begin")
        if given.get("max_staleness") is not None and not self.stream:
            raise OptionError("--max-staleness is about --stream: a file's rollouts are laid out before the first step")
        if self.wait_for_server and not self.publish_url:
            raise OptionError("--wait-for-server is about --publish-url")
        if given.get("publish_steps") is not None and self.publish is None:
            raise OptionError("--publish-steps needs --publish DIR")

    def publisher(self, options: GrpoOptions, out: str) -> Publisher | None:
        """The publisher of the run in `out`, or None without samplers. ToolError: what cannot be served."""
        if self.publish is None:
            if self.publish_url:
                raise ToolError("--publish-url needs --publish DIR: the server reads the policy from there")
            return None
        if Path(self.publish).resolve() == Path(out).resolve():
            raise OptionError(f"--publish {self.publish} is the --run-dir: policies need a folder of their own")
        run = content_id("run", str(Path(out).resolve()))
        limit, steps = options.max_staleness, options.publish_steps
        if limit is not None and limit + 1 < steps:
            raise ToolError(
                f"--max-staleness {limit} with --publish-steps {steps}: a policy is up to {steps - 1} updates old "
                "before the next is published"
            )
        batch = options.batch
        sizes = (batch if batch is None else round(batch * (options.oversample or 1.0)), options.groups_per_step)
        urls = tuple(dict.fromkeys(self.publish_url))
        return Publisher(Path(self.publish), urls, self.publish_name, steps, *sizes, run, self.wait_for_server)
