"""A model whose weights are being trained: it answers with the newest that a trainer has published.

Covered: `hf:` and `vllm:` models, whose weights are loaded anew between two calls; an engine that exchanges adapters itself
(vllm), which goes on meanwhile; a server's, which the trainer tells of new weights itself, so that only the version is
looked up. Not covered: answers that were begun before new weights came; a record's version is the one at its beginning,
its logprobs those of the weights that wrote each token.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from ..records import published
from . import Model, Reply, Request


@runtime_checkable
class Swapping(Protocol):
    """A model that may take other weights while it answers.

    swap(path): answer with the policy in `path` from the next call on, and True; False where that takes a new model.
    """

    def swap(self, path: str) -> bool: ...


class FollowingModel:
    """The newest policy of `folder`. open(path): loads it; None: a server has it, under the name of `model`.

    Waits until a first policy is there; waiting() is called once before that, pause() between two looks. Calls from several threads run side by
    side where the model's `batch` is 1, else one after the other.
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
            self._policy, model = self._opened(policy, open)
        assert model is not None
        self._model = model
        self.name, self.batch = (str(folder) if open else model.name), model.batch

    @property
    def version(self) -> int | None:
        """Of the weights that the next answer comes from, or of newer ones."""
        with self._change:
            self._refresh()
            return self._policy.version

    def sample(self, requests: Sequence[Request]) -> list[Reply]:
        if self._open is None:
            return self._model.sample(requests)
        with self._change:
            self._refresh()
            if self.batch > 1:
                return self._model.sample(requests)
            model = self._model
            self._calls += 1
        try:
            return model.sample(requests)
        finally:
            with self._change:
                self._calls -= 1
                self._change.notify_all()

    def close(self) -> None:
        self._model.close()

    def _refresh(self) -> None:
        policy = self._newer()
        if policy is None or self._open is None:
            self._policy = policy or self._policy
            return
        if isinstance(self._model, Swapping) and self._model.swap(str(policy.folder)):
            self._policy = policy
            return
        while self._calls:  # who comes meanwhile waits here, too
            self._change.wait()
        policy = self._newer()  # another thread may have been quicker
        if policy is not None:
            self._model.close()
            self._policy, self._model = self._opened(policy, self._open)

    def _opened(self, policy: published.Policy, open: Callable[[str], Model]) -> tuple[published.Policy, Model]:
        while True:
            try:
                return policy, open(str(policy.folder))
            except Exception:
                newer = published.newest(self.folder)
                if policy.folder.exists() or newer is None:
                    raise
                policy = newer  # it was cleared away while it was being loaded

    def _newer(self) -> published.Policy | None:
        policy = published.newest(self.folder)
        return policy if policy is not None and policy.version != self._policy.version else None
