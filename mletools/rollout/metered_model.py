"""A model as an episode asks it: sampling parameters, cost, the reply as a tape keeps it, and batches.

An engine in this process samples several requests in one call (hf). Then the jobs of a batch run side by side, and their
requests go to the engine together: the company of a request does not depend on what else runs, so a run repeats.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..models import ContextExceeded, Model, Reply, Request, ToolCall
from ..models.following import FollowingModel
from ..models.prices import Price
from ..prompts import answers
from ..records.errors import RecordError


@dataclass
class MeteredModel:
    """A model, its sampling parameters, and its price (None: not known); the others are those of a Request.

    A cost that the server states counts, unless the user has set the price (`own_price`). `max_tokens` of an answer
    take precedence over those that are asked for.
    """

    model: Model
    temperature: float | None = None
    top_p: float | None = None
    price: Price | None = None
    own_price: bool = False
    training: bool = False
    send_seed: bool = False
    own_temperature: float = 1.0
    max_tokens: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _batch: "_Batch | None" = None

    def ask(
        self,
        role: str,
        messages: list[dict[str, Any]],
        seed: int,
        tools: Any,
        most: int,
        task: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """See Environment.ask."""
        request = Request(
            messages,
            seed,
            self.temperature,
            self.top_p,
            self.max_tokens or most,
            task,
            tools=tools,
            role=role,
            training=self.training,
            send_seed=self.send_seed,
            own_temperature=self.own_temperature,
            schema=answers.schema(role),
        )
        version = self.model.version if isinstance(self.model, FollowingModel) else None
        try:
            reply, seconds = self._sample(request)
        except ContextExceeded as error:
            return {"refused": str(error)}
        answer = as_answer(reply, seconds, self.price, self.own_price)
        return answer if version is None else {**answer, "policy_version": version}

    @contextmanager
    def batch(self, jobs: int) -> Iterator["_Batch"]:
        """For `jobs` jobs, each in a thread: their requests are sampled together. Each job calls `leave` at its end."""
        self._batch = _Batch(self.model, jobs)
        try:
            yield self._batch
        finally:
            self._batch = None

    def _sample(self, request: Request) -> tuple[Reply, float]:
        """The reply, and the seconds that it took."""
        if self._batch is not None:
            return self._batch.sample(request)
        started = time.perf_counter()
        if self.model.batch == 1:
            reply = self.model.sample([request])[0]
        else:
            with self._lock:  # such an engine takes one call at a time
                reply = self.model.sample([request])[0]
        return reply, time.perf_counter() - started


def as_answer(reply: Reply, seconds: float, price: Price | None = None, own_price: bool = False) -> dict[str, Any]:
    """A reply as Environment.ask gives it; JSON. own_price: the price takes precedence over the server's own cost."""
    usd = None if own_price else reply.usd
    if usd is None and price is not None and reply.prompt_tokens is not None and reply.completion_tokens is not None:
        usd = price.usd(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
    answer = {
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "reasoning": reply.reasoning,
        "tool_calls": [_call(call) for call in reply.tool_calls],
        "prompt_token_ids": reply.prompt_token_ids,
        "token_ids": reply.token_ids,
        "logprobs": reply.logprobs,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "seconds": round(seconds, 4),
        "usd": usd,
    }
    return answer if reply.sampling is None else {**answer, "sampling": reply.sampling}


def _call(call: ToolCall) -> dict[str, Any]:
    extra = {} if call.extra_content is None else {"extra_content": call.extra_content}
    return {"id": call.id, "name": call.name, "arguments": call.arguments, **extra}


@dataclass(eq=False)
class _Waiting:
    request: Request
    reply: Reply | None = None
    error: Exception | None = None
    seconds: float = 0.0


class _Batch:
    """The requests of jobs that run side by side: sampled in one call when every job has asked or left."""

    def __init__(self, model: Model, jobs: int):
        self._model, self._jobs = model, jobs
        self._waiting: list[_Waiting] = []
        self._changed = threading.Condition()

    def sample(self, request: Request) -> tuple[Reply, float]:
        """The reply to a request of one job, and its share of the seconds of the call."""
        waiting = _Waiting(request)
        with self._changed:
            self._waiting.append(waiting)
            self._sample_if_complete()
            self._changed.wait_for(lambda: waiting.reply is not None or waiting.error is not None)
        if waiting.error is not None:
            raise waiting.error
        assert waiting.reply is not None
        return waiting.reply, waiting.seconds

    def leave(self) -> None:
        """A job has ended."""
        with self._changed:
            self._jobs -= 1
            self._sample_if_complete()

    def _sample_if_complete(self) -> None:
        if not self._waiting or len(self._waiting) < self._jobs:
            return
        batch = sorted(self._waiting, key=lambda waiting: waiting.request.seed)  # not in the order of arrival
        self._waiting = []
        self._answer(batch)
        self._changed.notify_all()

    def _answer(self, batch: list[_Waiting]) -> None:
        """Sample a batch; requests that are at fault get their error, and the others are sampled without them."""
        started, left, replies = time.perf_counter(), list(batch), list[Reply]()
        while left and not replies:
            try:
                replies = self._model.sample([waiting.request for waiting in left])
            except ContextExceeded as error:
                left.pop(error.index).error = error
            except RecordError as error:
                if len(left) > 1:  # one of them is at fault, and the engine does not say which
                    for waiting in left:
                        self._answer([waiting])
                    return
                left.pop().error = error
            except Exception as error:
                for waiting in left:
                    waiting.error = error
                return
        seconds = (time.perf_counter() - started) / len(batch)
        for waiting, reply in zip(left, replies, strict=True):
            waiting.reply, waiting.seconds = reply, seconds
