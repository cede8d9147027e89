"""Prices: arithmetic by hand, and what the installed list knows (its numbers change, their shape does not)."""

import subprocess
import sys

import pytest

from mletools.base.errors import ToolError
from mletools.models.prices import Price, Rate, price_of


def test_a_price_by_hand() -> None:
    price = Price.of(3, 15)
    assert price.usd(1_000_000, 0) == 3 and price.usd(0, 1_000_000) == 15
    assert price.usd(2000, 100) == pytest.approx(0.006 + 0.0015)
    assert price.usd(2000, 100, cached_tokens=2000) == price.usd(2000, 100)
    assert Price.of(0, 0).usd(10**9, 10**9) == 0


def test_cached_tokens_and_long_prompts_have_rates_of_their_own() -> None:
    price = Price(Rate(2.0, ((1000, 4.0), (5000, 8.0))), Rate(10.0, ((1000, 20.0),)), Rate(0.5))
    assert price.usd(1000, 100) == pytest.approx((1000 * 2 + 100 * 10) / 1e6)
    assert price.usd(1001, 100) == pytest.approx((1001 * 4 + 100 * 20) / 1e6)
    assert price.usd(6000, 100, 5000) == pytest.approx((5000 * 0.5 + 1000 * 8 + 100 * 20) / 1e6)
    assert price.usd(500, 0, 900) == pytest.approx(500 * 0.5 / 1e6)


@pytest.mark.parametrize("prices", [(-1, 2), (1, float("nan")), (float("inf"), 1)])
def test_what_is_no_price(prices: tuple[float, float]) -> None:
    with pytest.raises(ToolError, match=r"not a price: USD per million tokens, 0 or more"):
        Price.of(*prices)


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ("gpt-4o-mini", "https://api.openai.com/v1"),
        ("gpt-4o-mini", "https://me:secret@api.openai.com/v1/chat/completions"),
        ("openai/gpt-4o-mini", "https://openrouter.ai/api/v1"),
        ("gpt-4o", None),
    ],
)
def test_a_providers_model_has_a_price(model: str, url: str | None) -> None:
    price = price_of(model, url)
    assert price is not None
    assert 0 < price.usd(1000, 0) < price.usd(0, 1000)
    assert price.usd(1000, 10, 1000) <= price.usd(1000, 10)
    assert price == price_of(model, url)


@pytest.mark.parametrize(
    ("model", "url"),
    [
        ("gpt-4o-mini", "http://localhost:8000/v1"),
        ("Qwen/Qwen3-8B", "http://10.0.0.7:8000"),
        ("no-such-model", "https://api.openai.com/v1"),
        ("text-embedding-3-small", "https://api.openai.com/v1"),
        ("scripted", None),
        ("", None),
    ],
)
def test_what_has_no_list_price(model: str, url: str | None) -> None:
    assert price_of(model, url) is None


def test_prices_need_no_network_and_are_loaded_when_asked_for() -> None:
    code = """
import socket, sys
import mletools.models.prices as prices
assert not {"genai_prices", "pydantic"} & set(sys.modules)
def refuse(*given, **named):
    raise AssertionError("a connection")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
assert prices.price_of("gpt-4o", "https://api.openai.com/v1")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_models_of_this_process_have_no_list_price() -> None:
    assert price_of("gpt-4o", None) is not None
    assert [price_of(f"{engine}:gpt-4o", None) for engine in ("hf", "vllm", "scripted")] == [None] * 3
