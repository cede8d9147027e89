"""Hand the policy to those who sample from it while it is trained: a folder, and a vLLM server.

Covered: adapters and full models in a folder (records.published says how it looks), each version whole or absent; an
adapter into a running vLLM server in place, by its run-time LoRA loading. Not covered: full weights into a server.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..records import published
from ..records.errors import ToolError
from ..records.ids import content_id
from ..records.options import option
from . import checkpoints
from .options import GrpoOptions

PREFIX = "policy"
KEEP = 3  # versions: a sampler may still be loading the one before
TRIES, PAUSE = 6, 2.0  # seconds before the first further try, doubled each time: about two minutes


@dataclass
class Publisher:
    """Publishes into `folder`, and to the server at `url` as the model `name`; every `steps` updates.

    rollouts, groups: size of an update in one or the other, published to the samplers. run: the run of the folder's
    policies.
    """

    folder: Path
    url: str | None
    name: str
    steps: int
    rollouts: int | None
    groups: int
    run: str = ""
    version: int = -1
    _trained: int = 0
    _said: tuple[int, bool] | None = None
    _ended: bool = False

    def due(self, version: int) -> bool:
        return self.version < 0 or version - self.version >= self.steps

    def publish(
        self, version: int, write: Callable[[Path], None], trained: int = 0, refused: int = 0, first: bool = True
    ) -> None:
        """Make `version` the newest: write(folder) fills in weights and tokenizer.

        trained, refused: rollouts that were so far. ToolError: the folder holds another run's policies.

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
        checkpoint = checkpoints.save(self.folder, version, write, state, keep=KEEP, prefix=PREFIX)
        if self.url is not None:
            load_adapter(self.url, self.name, checkpoint)
        self._say(refused, False)

    def starving(self, yes: bool, refused: int) -> None:
        """Tell the samplers whether the trainer waits for rollouts, and how many it has refused."""
        if self.version >= 0 and self._said != (refused, yes):
            self._say(refused, yes)

    def end(self, refused: int) -> None:
        """Tell the samplers that no policy will come any more."""
        self._ended = True
        self._say(refused, False)

    def _say(self, refused: int, starving: bool) -> None:
        self._said = (refused, starving)
        used = self._trained + refused
        demand = published.Demand(self.version, self.rollouts, self.groups, used, starving, self._ended)
        published.say_wanted(self.folder, demand)


def load_adapter(url: str, name: str, folder: Path, tries: int = TRIES, pause: float = PAUSE) -> None:
    """Let the vLLM server at `url` answer for `name` with the adapter in `folder`, which it must be able to read.

    A server that does not answer is asked again. ToolError: it stays away, or refuses.
    """
    import urllib3

    address = url.rstrip("/").removesuffix("/v1") + "/v1/load_lora_adapter"
    retries = urllib3.Retry(
        tries - 1,
        backoff_factor=pause,
        status_forcelist=(500, 502, 503, 504),
        allowed_methods=None,
        raise_on_status=False,
    )
    body = {"lora_name": name, "lora_path": str(folder.resolve()), "load_inplace": True}
    try:
        with urllib3.PoolManager(retries=retries, timeout=300.0) as server:
            answer = server.request("POST", address, json=body, redirect=False)
    except urllib3.exceptions.HTTPError as error:
        raise ToolError(
            f"{address}: {getattr(error, 'reason', None) or error} ({tries} tries): is the server up? The checkpoint is kept: "
            "go on with --resume"
        ) from error
    if answer.status != 200:
        response_text = answer.data[:500].decode("utf-8", "replace").strip()
        raise ToolError(
            f"{address}: {answer.status} {response_text}: does the server take adapters? Start vLLM with --enable-lora and "
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, and --max-lora-rank at least that of --lora-rank"
        )


@dataclass(frozen=True)
class StreamOptions:
    """Training on rollouts as they come, and where those who sample them get the policy."""

    stream: bool = option("Train as rollouts come, until the input ends; one pass.", default=False, machine=True)
    publish: str | None = option(
        "Put the policy here, version by version, for mle-rollout --follow DIR.",
        kind="folder",
        metavar="DIR",
        machine=True,
    )
    publish_url: str | None = option(
        "Load each version into this vLLM server, too, as the model --publish-name.", kind="url", machine=True
    )
    publish_name: str = option(default="policy", metavar="NAME", machine=True)

    def publisher(self, options: GrpoOptions, out: str) -> Publisher | None:
        """The publisher of the run in `out`, or None without samplers. ToolError: what cannot be served."""
        if self.publish is None:
            if self.publish_url is not None:
                raise ToolError("--publish-url needs --publish DIR: the server reads the adapter from there")
            return None
        if self.publish_url is not None and options.lora_rank == 0:
            raise ToolError("--publish-url loads adapters: train one (--lora-rank), or publish into a folder alone")
        run = content_id("run", str(Path(out).resolve()))
        limit, steps = options.max_staleness, options.publish_steps
        if limit is not None and limit + 1 < steps:
            raise ToolError(
                f"--max-staleness {limit} with --publish-steps {steps}: a policy is up to {steps - 1} updates old "
                "before the next is published"
            )
        sizes = (options.batch, options.groups_per_step)
        return Publisher(Path(self.publish), self.publish_url, self.publish_name, steps, *sizes, run)
