"""A model as an episode asks it: sampling parameters, cost, and the reply as a tape keeps it."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from ..models import ContextExceeded, Model, Reply, Request
from ..models.prices import Price


@dataclass(frozen=True)
class MeteredModel:
    """A model, its sampling parameters, and its price (None: not known)."""

    model: Model
    temperature: float = 1.0
    top_p: float = 1.0
    price: Price | None = None
    alone: threading.Lock = field(default_factory=threading.Lock)

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
        request = Request(messages, seed, self.temperature, self.top_p, most, task, tools=tools, role=role)
        started = time.perf_counter()
        try:
            reply = self._sample(request)
        except ContextExceeded as error:
            return {"refused": str(error)}
        return self._as_answer(reply, time.perf_counter() - started)

    def _sample(self, request: Request) -> Reply:
        if self.model.batch == 1:
            return self.model.sample([request])[0]
        with self.alone:  # an engine in this process takes one call at a time, and alone, so that -j changes nothing
            return self.model.sample([request])[0]

    def _as_answer(self, reply: Reply, seconds: float) -> dict[str, Any]:
        usd = None
        if self.price is not None and reply.prompt_tokens is not None and reply.completion_tokens is not None:
            usd = self.price.usd(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
        return {
            "text": reply.text,
            "finish_reason": reply.finish_reason,
            "reasoning": reply.reasoning,
            "tool_calls": [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in reply.tool_calls],
            "prompt_token_ids": reply.prompt_token_ids,
            "token_ids": reply.token_ids,
            "logprobs": reply.logprobs,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
            "seconds": round(seconds, 4),
            "usd": usd,
        }
