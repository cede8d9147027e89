"""The options of `mle-gen-task --source llm`. Importing this loads nothing heavy: --help shows them."""

from dataclasses import dataclass
from pathlib import Path

from ..models.options import ModelOptions
from ..models.prices import read_price
from ..records.options import option

JOURNAL = Path("roles") / "journal.jsonl"


@dataclass(frozen=True)
class LlmOptions(ModelOptions):
    """The model that makes tasks; `price` is in USD per million tokens (prompt, completion)."""

    model: str | None = option(
        "The name of a model that a server at --model-url serves, or hf:PATH.", flags=("-m", "--model")
    )
    temperature: float = option("0 takes the likeliest token.", default=1.0, at_least=0)
    max_tokens: int = option("Of one reply.", default=16384, at_least=1)
    seeds: tuple[str, ...] = option(
        "A file of task records, or a folder that holds such files and their tasks/. Repeatable.",
        default=(),
        kind="existing path",
        metavar="PATH",
    )
    journal: str | None = option(
        f"Keeps every paid reply (default: {JOURNAL} below --data).", kind="file", metavar="FILE", machine=True
    )
    price: tuple[float, float] | None = option(
        "USD per million tokens, to record what a task cost.", read=read_price, metavar="PROMPT,COMPLETION"
    )
