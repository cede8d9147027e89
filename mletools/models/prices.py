"""The cost of a request in US dollars: providers' list prices, or a price set by the user.

Covered: the list prices in the installed genai-prices (nothing is downloaded), higher rates for long prompts, lower
rates for cached tokens. Not covered: discounts, batch tariffs, tariffs by hour, hardware costs, media other than text.
"""

import math
from dataclasses import dataclass
from datetime import UTC
from typing import Any
from urllib.parse import urlsplit

from ..base.errors import ToolError


@dataclass(frozen=True)
class Rate:
    """USD per million tokens: `base`, or for a prompt longer than a step's tokens that step's rate, for all tokens.

    `steps` are (tokens, rate), ascending.
    """

    base: float
    steps: tuple[tuple[int, float], ...] = ()

    def at(self, prompt_tokens: int) -> float:
        rates = [self.base, *(rate for start, rate in self.steps if prompt_tokens > start)]
        return rates[-1]


@dataclass(frozen=True)
class Price:
    """The rates of a model. `cached` is the rate of cached prompt tokens (None: as `prompt`)."""

    prompt: Rate
    completion: Rate
    cached: Rate | None = None

    @classmethod
    def of(cls, prompt: float, completion: float) -> "Price":
        """A price in USD per million tokens; ToolError if negative or not finite."""
        for value in (prompt, completion):
            if not (math.isfinite(value) and value >= 0):
                raise ToolError(f"{value:g}: not a price: USD per million tokens, 0 or more")
        return cls(Rate(float(prompt)), Rate(float(completion)))

    def usd(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int | None = None) -> float:
        """The cost of one request. Sum costs, not tokens: rates depend on the prompt's length.

        `prompt_tokens` include `cached_tokens`.
        """
        cached = min(cached_tokens or 0, prompt_tokens)
        of_cached = (self.cached or self.prompt).at(prompt_tokens)
        of_prompt, of_completion = self.prompt.at(prompt_tokens), self.completion.at(prompt_tokens)
        return (cached * of_cached + (prompt_tokens - cached) * of_prompt + completion_tokens * of_completion) / 1e6


def price_of(model: str, url: str | None) -> Price | None:
    """The newest list price of a provider's model; `url`, or else the model's name, identifies the provider.

    None: the server or the model is not a known provider's, the model runs on this machine (`hf:`, `vllm:`, `llama:`,
    `scripted:`), or it has no price per text token.
    """
    if model.partition(":")[0] in ("hf", "vllm", "llama", "scripted"):
        return None
    from datetime import datetime

    import genai_prices

    if url is not None:
        parts = urlsplit(url)
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    try:
        price = genai_prices.calc_price(
            genai_prices.Usage(input_tokens=0, output_tokens=0),
            model,
            provider_api_url=url,
            genai_request_timestamp=datetime(9999, 1, 1, 12, tzinfo=UTC),
        ).model_price
    except LookupError:
        return None
    prompt, completion = _rate(price.input_mtok), _rate(price.output_mtok)
    if prompt is None or completion is None:
        return None
    return Price(prompt, completion, _rate(price.cache_read_mtok))


def _rate(value: Any) -> Rate | None:
    """A rate from a decimal number, or from a base with tiers."""
    if value is None:
        return None
    if hasattr(value, "base"):
        return Rate(float(value.base), tuple((tier.start, float(tier.price)) for tier in value.tiers))
    return Rate(float(value))


def read_price(value: str) -> tuple[float, float]:
    """Parse two prices separated by a comma. ValueError with a readable reason."""
    try:
        prompt, completion = (float(part) for part in value.split(","))
    except ValueError:
        raise ValueError(f"{value!r} is not two numbers with a comma between them") from None
    if not (0 <= prompt < 1e6 and 0 <= completion < 1e6):
        raise ValueError(f"{value!r}: a price is from 0 to a million")
    return prompt, completion
