"""What a request costs, in US dollars: list prices of providers' models, or a price by hand.

Covered: providers' list prices as of the installed genai-prices (data in the package: nothing is fetched), dearer long
prompts, cheaper cached ones. Not covered: discounts, batch tariffs, hours of the day, what one's own hardware costs,
anything but text.
"""

import math
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..records.errors import ToolError


@dataclass(frozen=True)
class Rate:
    """USD per million tokens: `base`, or where the prompt is longer than a step's tokens, that step's, for all tokens.

    `steps` are (tokens, rate), ascending.
    """

    base: float
    steps: tuple[tuple[int, float], ...] = ()

    def at(self, prompt_tokens: int) -> float:
        rates = [self.base, *(rate for start, rate in self.steps if prompt_tokens > start)]
        return rates[-1]


@dataclass(frozen=True)
class Price:
    """What a model's tokens cost. `cached` None: prompt tokens from a provider's cache cost what others do."""

    prompt: Rate
    completion: Rate
    cached: Rate | None = None

    @classmethod
    def of(cls, prompt: float, completion: float) -> "Price":
        """A price in USD per million tokens; ToolError below 0 or where it is not finite."""
        for value in (prompt, completion):
            if not (math.isfinite(value) and value >= 0):
                raise ToolError(f"{value:g}: no price: USD per million tokens, 0 or more")
        return cls(Rate(float(prompt)), Rate(float(completion)))

    def usd(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int | None = None) -> float:
        """What one request costs; add up requests, not their tokens, because rates depend on a prompt's length.

        `cached_tokens` are among `prompt_tokens`.
        """
        cached = min(cached_tokens or 0, prompt_tokens)
        of_cached = (self.cached or self.prompt).at(prompt_tokens)
        of_prompt, of_completion = self.prompt.at(prompt_tokens), self.completion.at(prompt_tokens)
        return (cached * of_cached + (prompt_tokens - cached) * of_prompt + completion_tokens * of_completion) / 1e6


def price_of(model: str, url: str | None) -> Price | None:
    """The list price of a provider's model, the provider known by `url`, or without one by the model's name.

    None: the server or the model is not a known provider's (one's own server, say), or it does not sell text by the
    token. Where a price changed, the newest that is known, whatever today's date is.
    """
    from datetime import datetime, timezone

    import genai_prices

    if url is not None:
        parts = urlsplit(url)
        url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    try:
        found = genai_prices.calc_price(
            genai_prices.Usage(input_tokens=0, output_tokens=0),
            model,
            provider_api_url=url,
            genai_request_timestamp=datetime(9999, 1, 1, 12, tzinfo=timezone.utc),
        ).model_price
    except LookupError:
        return None
    prompt, completion = _rate(found.input_mtok), _rate(found.output_mtok)
    if prompt is None or completion is None:
        return None
    return Price(prompt, completion, _rate(found.cache_read_mtok))


def _rate(value: Any) -> Rate | None:
    """A rate from a decimal number, or from a base with tiers."""
    if value is None:
        return None
    if hasattr(value, "base"):
        return Rate(float(value.base), tuple((tier.start, float(tier.price)) for tier in value.tiers))
    return Rate(float(value))


def read_price(value: str) -> tuple[float, float]:
    """Two prices with a comma between them. ValueError says what is wrong."""
    try:
        prompt, completion = (float(part) for part in value.split(","))
    except ValueError:
        raise ValueError(f"{value!r} is not two numbers with a comma between them") from None
    if not (0 <= prompt < 1e6 and 0 <= completion < 1e6):
        raise ValueError(f"{value!r}: a price is from 0 to a million")
    return prompt, completion
