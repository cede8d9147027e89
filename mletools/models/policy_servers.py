"""Put a published policy into a server that is answering: adapters and full weights into vLLM, full weights into SGLang.

The server reads the folder itself, so it needs the same path. vLLM takes an adapter by its run-time LoRA loading, and
full weights over its development endpoints: generation is paused, the weights are reloaded in place, the cache of
prompts is cleared, generation resumes. Answers in progress continue with the new weights. SGLang reloads by
/update_weights_from_disk, which waits for answers in progress. Several servers load at once. Not covered: weights sent from
memory.
"""

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..base import published
from ..base.errors import ToolError

TRIES, PAUSE = 6, 2.0  # seconds before the first further try, doubled each time: about two minutes
CONNECT, ANSWER = 30.0, 1800.0  # seconds; a large model is read from a shared disk
AWAY = (502, 503, 504)  # of a proxy whose server restarts
LOOK = 1.0  # seconds between looks at a server that is still starting


def load_newest(urls: Sequence[str], name: str, published_in: Path, wait_s: float = 0.0) -> None:
    """`load_all` of the newest policy in a folder, of servers that may have been restarted; without one, nothing.

    A trainer that publishes meanwhile waits: what the servers get last is what the folder calls the newest.
    """
    if not urls or published.newest(published_in) is None:
        return
    last = time.monotonic() + wait_s
    for url in urls:
        _wait(url, last)
    with published.exchanging(published_in):
        policy = published.newest(published_in)
        assert policy is not None
        load_all(urls, name, policy.folder)


def load_all(urls: Sequence[str], name: str, folder: Path, wait_s: float = 0.0) -> None:
    """`load` into the server at each of `urls`, at once. ToolError, once every server has it or failed: who failed, and why.

    wait_s: seconds in which a server that is not up costs no try.
    """

    last = time.monotonic() + wait_s

    def failure(url: str) -> str | None:
        try:
            _wait(url, last)
            load(url, name, folder)
        except ToolError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(len(urls)) as pool:
        failures = [text for text in pool.map(failure, urls) if text is not None]
    if failures:
        raise ToolError("; ".join(failures))


def load(url: str, name: str, folder: Path) -> None:
    """Put the adapter (as the model `name`) or the full model in `folder` into the server at `url`. ToolError: refused."""
    if (folder / "adapter_config.json").is_file():
        load_adapter(url, name, folder)
    else:
        load_weights(url, folder)


def load_adapter(url: str, name: str, folder: Path, tries: int = TRIES, pause: float = PAUSE) -> None:
    """Let the vLLM server at `url` answer for `name` with the adapter in `folder`, which it must be able to read.

    A server that does not answer is asked again. ToolError: it stays away, or refuses.
    """
    body = {"lora_name": name, "lora_path": str(folder.resolve()), "load_inplace": True}
    with _Server(url, tries, pause) as server:
        server.post(
            "/v1/load_lora_adapter",
            body,
            "does the server take adapters? Start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, and "
            "--max-lora-rank at least that of --lora-rank",
            again=(500, *AWAY),
        )


def load_weights(url: str, folder: Path, tries: int = TRIES, pause: float = PAUSE) -> None:
    """Replace all weights of the model that the vLLM or SGLang server at `url` serves by those in `folder`.

    The model keeps the name that it is served under. ToolError: the server stays away, or cannot; a vLLM server whose
    reload failed stays paused, because its weights may be mixed.
    """
    path = str(folder.resolve())
    with _Server(url, tries, pause) as server:
        if _tied(folder) and "device_config=cpu" in server.get("/server_info"):
            raise ToolError(
                f"{server.url}: vLLM on a CPU keeps the output layer of a model with tied embeddings when it reloads: publish "
                "into a folder alone and sample with -m hf:, or train an adapter (--lora-rank)"
            )
        if not server.post("/pause?mode=keep", {}, "cannot be paused", missing=True):
            if not server.post("/update_weights_from_disk", {"model_path": path}, _UNREADABLE, missing=True):
                raise ToolError(
                    f"{server.url}: takes no full weights: start vLLM with VLLM_SERVER_DEV_MODE=1, on a network where "
                    "nobody else reaches it; or train an adapter (--lora-rank), or publish into a folder alone"
                )
            return
        stays = f"{_UNREADABLE}. The server stays paused: restart it"
        server.post("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": path}}, stays)
        # answers in progress are computed anew: their cache is of the weights before
        server.post("/reset_prefix_cache?reset_running_requests=true", {}, "its cache of prompts cannot be cleared")
        server.post("/resume", {}, "does not resume")


_UNREADABLE = "can the server read this folder, and is it the model that the server was started with?"


def _wait(url: str, last: float) -> None:
    """Until the server at `url` answers, but no longer than to `last` (time.monotonic())."""
    with _Server(url, 1, 0.0) as server:
        while (left := last - time.monotonic()) > 0 and not server.up(min(CONNECT, left)):
            time.sleep(LOOK)


class _Server:
    def __init__(self, url: str, tries: int, pause: float) -> None:
        import urllib3

        self.url = url.rstrip("/").removesuffix("/v1")
        self._tries, self._pause = tries, pause
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(connect=CONNECT, read=ANSWER))

    def __enter__(self) -> "_Server":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.clear()

    def up(self, seconds: float) -> bool:
        """Whether it answers within so many, whatever it says; a proxy whose server restarts does not."""
        import urllib3

        try:
            answer = self._pool.request("GET", self.url + "/v1/models", redirect=False, retries=False, timeout=seconds)
        except urllib3.exceptions.HTTPError:
            return False
        return answer.status not in AWAY

    def get(self, path: str) -> str:
        """The text at `path`; empty where the server has none."""
        import urllib3

        try:
            answer = self._pool.request("GET", self.url + path, redirect=False, retries=False)
        except urllib3.exceptions.HTTPError:
            return ""  # `post` says what is wrong
        return answer.data.decode("utf-8", "replace") if answer.status == 200 else ""

    def post(
        self, path: str, body: Mapping[str, object], advice: str, missing: bool = False, again: tuple[int, ...] = AWAY
    ) -> bool:
        """POST `body` to `path`. False: the server has no such path, where `missing` allows that.

        again: statuses after which it is asked again. ToolError ends with `advice`.
        """
        import urllib3

        address = self.url + path
        retries = urllib3.Retry(
            self._tries - 1,
            backoff_factor=self._pause,
            status_forcelist=again,
            allowed_methods=None,
            raise_on_status=False,
        )
        try:
            answer = self._pool.request("POST", address, json=body, redirect=False, retries=retries)
        except urllib3.exceptions.HTTPError as error:
            raise ToolError(
                f"{address}: {getattr(error, 'reason', None) or error} ({self._tries} tries): is the server up?"
            ) from error
        if answer.status == 404 and missing:
            return False
        text = answer.data[:500].decode("utf-8", "replace").strip()
        if answer.status != 200 or _unsuccessful(answer.data):
            raise ToolError(f"{address}: {answer.status} {text}: {advice}")
        return True


def _tied(folder: Path) -> bool:
    config = folder / "config.json"
    return config.is_file() and bool(json.loads(config.read_text(encoding="utf-8")).get("tie_word_embeddings"))


def _unsuccessful(content: bytes) -> bool:
    """True if the answer is JSON with "success": false, which servers send with status 200, too."""
    try:
        answer = json.loads(content)
    except ValueError:
        return False
    return isinstance(answer, dict) and answer.get("success") is False
