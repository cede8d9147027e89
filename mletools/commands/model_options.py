"""The options of how a model is reached, and its opening; for the commands that ask one. Importing this loads nothing heavy."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from .. import cli
from ..models import Model, open_model


@dataclass(frozen=True)
class ModelOptions:
    """What the options of `model_options` say."""

    model: str | None
    model_url: str | None
    model_key_file: str | None
    request_timeout: float
    retries: int
    processed_logprobs: bool = False

    def open(self, model: str | None = None, url: str | None = None, batch: int = 64) -> Model:
        """The model that -m names, or another one; at `url`, or where --model-url says. ToolError: it cannot be opened."""
        return open_model(
            model or self.model or "",
            url=url or self.model_url,
            key_file=self.model_key_file,
            timeout=self.request_timeout,
            retries=self.retries,
            batch=batch,
            processed_logprobs=self.processed_logprobs,
        )


def model_options(
    help: str, default: str | None = None, about: str = "", sampling: bool = False
) -> Callable[[Callable[..., None]], Any]:
    """Adds these options to a command's body, which gets them as one argument `models`, a ModelOptions.

    help: of -m; about: what begins the help of the others, such as "llm: ". sampling: what the model
    writes may be trained on.
    """
    machine: dict[str, Any] = {"cls": cli.MachineOption}

    def told(text: str) -> str:
        return about + (text if not about else text[0].lower() + text[1:])

    options = [
        click.option("-m", "--model", default=default, show_default=default is not None, help=about + help),
        click.option("--model-url", envvar="MLE_MODEL_URL", show_envvar=True, type=cli.URL, help=told("An OpenAI-compatible server (vLLM, SGLang, ...)."), **machine),
        click.option("--model-key-file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help=told("Holds the server's key (default: OPENAI_API_KEY)."), **machine),
        click.option("--request-timeout", type=float, default=600.0, show_default=True, metavar="S", help=told("Seconds for one request to a server."), **machine),
        click.option("--retries", type=click.IntRange(0), default=6, show_default=True, help=told("Further tries of a request that a server failed."), **machine),
    ]  # fmt: skip
    if sampling:
        text = "The server's logprobs are those after temperature and top_p (vLLM's --logprobs-mode processed_logprobs); else they are kept only at temperature 1 and top_p 1."
        options.append(click.option("--processed-logprobs", is_flag=True, help=told(text)))

    def decorate(body: Callable[..., None]) -> Any:
        @functools.wraps(body)
        def with_options(*args: Any, **given: Any) -> None:
            names = ModelOptions.__dataclass_fields__
            body(*args, models=ModelOptions(**{name: given.pop(name) for name in names if name in given}), **given)

        decorated: Any = with_options
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate
