"""The options of `mle-gen-task --source llm`. Importing this loads nothing heavy: --help shows them."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from .. import cli

JOURNAL = Path("roles") / "journal.jsonl"


@dataclass(frozen=True)
class LlmOptions:
    """What the options of `llm_options` say; `price` is in USD per million tokens (prompt, completion)."""

    model: str | None
    model_url: str | None
    model_key_file: str | None
    request_timeout: float
    retries: int
    temperature: float
    max_tokens: int
    seeds: tuple[str, ...]
    journal: str | None
    price: tuple[float, float] | None


def read_price(context: click.Context, param: click.Parameter, value: str | None) -> tuple[float, float] | None:
    """A click callback: two prices with a comma between them."""
    if value is None:
        return None
    try:
        prompt, completion = (float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not two numbers with a comma between them") from None
    if not (0 <= prompt < 1e6 and 0 <= completion < 1e6):
        raise click.BadParameter(f"{value!r}: a price is from 0 to a million")
    return prompt, completion


def llm_options(body: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of --source llm to a command's body, which gets them as one argument `llm`, an LlmOptions."""
    machine: dict[str, Any] = {"cls": cli.MachineOption}
    url, key = (
        "llm: an OpenAI-compatible server (vLLM, SGLang, ...).",
        "llm: holds the server's key (default: OPENAI_API_KEY).",
    )
    whole, several = (
        {"type": click.IntRange(0), **machine},
        "llm: a file of task records, or a folder that holds such files",
    )
    options = [
        click.option("-m", "--model", help="llm: the name of a model that a server at --model-url serves, or hf:PATH."),
        click.option("--model-url", envvar="MLE_MODEL_URL", show_envvar=True, type=cli.URL, help=url, **machine),
        click.option("--model-key-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help=key, **machine),
        click.option("--request-timeout", type=float, default=600.0, show_default=True, metavar="S", help="llm: seconds for one request to a server.", **machine),
        click.option("--retries", default=6, show_default=True, help="llm: further tries of a request that a server failed.", **whole),
        click.option("--temperature", type=click.FloatRange(0), default=1.0, show_default=True, help="llm: 0 takes the likeliest token."),
        click.option("--max-tokens", type=click.IntRange(1), default=16384, show_default=True, help="llm: of one reply."),
        click.option("--seeds", multiple=True, type=click.Path(exists=True), metavar="PATH", help=f"{several} and their tasks/. Repeatable."),
        click.option("--journal", type=click.Path(dir_okay=False), metavar="FILE", help=f"llm: keeps every paid reply (default: {JOURNAL} below --data).", **machine),
        click.option("--price", callback=read_price, metavar="PROMPT,COMPLETION", help="llm: USD per million tokens, to record what a task cost."),
    ]  # fmt: skip

    @functools.wraps(body)
    def with_options(*args: Any, **given: Any) -> None:
        names = LlmOptions.__dataclass_fields__
        body(*args, llm=LlmOptions(**{name: given.pop(name) for name in names}), **given)

    decorated: Any = with_options
    for option in reversed(options):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
