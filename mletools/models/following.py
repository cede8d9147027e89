"""A model whose weights are being trained: it answers with the newest policy that a trainer has published.

Covered: `hf:` and `vllm:` models, which are reloaded between calls; an engine that exchanges adapters while it runs, and
all weights between calls (vllm); a server's model, which the trainer updates itself, so that only the version is read here.
Not covered: answers that began before an update. A record has the version at its start; each logprob is that of the
weights that sampled the token.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from ..base import published
from ..base.ids import content_id
from ..records.rollout import Message
from . import CountsTokens, Model, Reply, Request


@runtime_checkable
class Swapping(Protocol):
    """A model that can exchange its weights.

    swap(path, idle): use the policy in `path` from the next call on, and return True; False where that needs a new model, or one
    that is idle: that no call runs or begins.
    """

    def swap(self, path: str, idle: bool) -> bool: ...


class FollowingModel:
    """The newest policy in `folder`. open(path) loads it; None: `model` is at a server that has it.

    Waits for a first policy: waiting() is called once before that, pause() between checks. Calls from several threads
    run in parallel where the model's `batch` is None, else one after the other.
    """

    def __init__(
        self,
        folder: Path,
        model: Model | None,
        open: Callable[[str], Model] | None,
        waiting: Callable[[], None] = lambda: None,
        pause: Callable[[], None] = lambda: time.sleep(0.5),
    ) -> None:
        self.folder, self._open = folder, open
        self._change = threading.Condition()
        self._calls = 0
        policy = published.newest(folder)
        if policy is None:
            waiting()
        while policy is None:
            pause()
            policy = published.newest(folder)
        self._policy = policy
        if open is not None:
            self._policy, model = self._load(policy, open)
        assert model is not None
        self._model = model
        self.name, self.batch = (str(folder) if open else model.name), model.batch

    @property
    def version(self) -> int | None:
        """The version of the weights now; the next answer's are these or newer. An engine of batches that answers is not waited for."""
        if self._change.acquire(blocking=self.batch is None):
            try:
                self._refresh()
            finally:
                self._change.release()
        return self._policy.version

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        if self._open is None:
            # Servers find the prefixes of prompts by the adapter's name, which stays: a salt keeps new weights from what old ones computed.
            salt = content_id([str(self.folder.resolve()), self.version, _inode(self._policy.folder)])
            return self._model.sample([replace(request, cache_salt=salt) for request in requests])
        with self._change:
            self._refresh()
            if self.batch is not None:
                return self._model.sample(requests)
            model = self._model
            self._calls += 1
        try:
            return model.sample(requests)
        finally:
            with self._change:
                self._calls -= 1
                self._change.notify_all()

    def count_tokens(self, messages: Sequence[Message]) -> int | None:
        """See CountsTokens: all versions have one tokenizer."""
        model = self._model
        return model.count_tokens(messages) if isinstance(model, CountsTokens) else None

    def close(self) -> None:
        self._model.close()

    def _refresh(self) -> None:
        policy = self._newer()
        if policy is None or self._open is None:
            self._policy = policy or self._policy
            return
        if self._swapped(policy, idle=False):
            return
        while self._calls:  # a call that starts meanwhile waits here, too
            self._change.wait()
        policy = self._newer()  # another thread may have loaded it
        if policy is not None and not self._swapped(policy, idle=True):
            self._model.close()
            self._policy, self._model = self._load(policy, self._open)

    def _swapped(self, policy: published.Policy, idle: bool) -> bool:
        if not (isinstance(self._model, Swapping) and self._model.swap(str(policy.folder), idle)):
            return False
        self._policy = policy
        return True

    def _load(self, policy: published.Policy, open: Callable[[str], Model]) -> tuple[published.Policy, Model]:
        while True:
            before = _inode(policy.folder)
            try:
                return policy, open(str(policy.folder))
            except Exception:
                newer = published.newest(self.folder)
                if newer is None or (before is not None and _inode(policy.folder) == before):
                    raise
                policy = newer  # the trainer removed or replaced it while it was being loaded

    def _newer(self) -> published.Policy | None:
        policy = published.newest(self.folder)
        return policy if policy is not None and policy.version != self._policy.version else None


def _inode(folder: Path) -> int | None:
    try:
        return folder.stat().st_ino
    except FileNotFoundError:
        return None
