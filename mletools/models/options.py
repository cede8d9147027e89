"""The options that select a model and its server. Importing this module is fast."""

from dataclasses import dataclass

from ..records.options import option
from . import Model, open_model

PROCESSED = (
    "The server reports logprobs after temperature and top_p (vLLM's --logprobs-mode processed_logprobs); else they "
    "are kept only at temperature 1 and top_p 1."
)


@dataclass(frozen=True)
class ModelOptions:
    """The model and its server."""

    model: str | None = option(flags=("-m", "--model"))
    model_url: str | None = option(
        "An OpenAI-compatible server (vLLM, SGLang, ...).", kind="url", envvar="MLE_MODEL_URL", machine=True
    )
    model_key_file: str | None = option(
        "File with the server's key (default: OPENAI_API_KEY).", kind="existing file", metavar="FILE", machine=True
    )
    request_timeout: float = option("Seconds for one request to a server.", default=600.0, metavar="S", machine=True)
    retries: int = option("Further tries of a request that a server failed.", default=6, at_least=0, machine=True)

    def open(self, model: str | None = None, url: str | None = None, batch: int = 64) -> Model:
        """The model `model` (default: -m) at `url` (default: --model-url). ToolError: it cannot be opened."""
        return open_model(
            model or self.model or "",
            url=url or self.model_url,
            key_file=self.model_key_file,
            timeout=self.request_timeout,
            retries=self.retries,
            batch=batch,
            processed_logprobs=getattr(self, "processed_logprobs", False),
        )


@dataclass(frozen=True)
class SampledModelOptions(ModelOptions):
    """The same for a model whose messages may be trained on."""

    processed_logprobs: bool = option(PROCESSED, default=False)
