"""The options of making tasks. Importing this loads nothing heavy: --help shows them."""

from dataclasses import dataclass
from pathlib import Path

from ..models.options import ModelOptions
from ..models.prices import read_price
from ..records.errors import OptionError
from ..records.options import option
from ..sandbox import BACKENDS
from ..tasks.procedural.dna import MODALITIES, MUTATIONS, SAMPLES
from ..tasks.sources import sources

LLM = "llm"
JOURNAL = Path("roles") / "journal.jsonl"


def read_sources(text: str) -> list[str]:
    """The sources that one --source names. ValueError: an unknown one."""
    names = text.split(",")
    return names if LLM in names else sources(text)


def read_range(text: str) -> tuple[int, int]:
    """The least and the most samples out of N-M or N. ValueError: not such a range within 40 to 2000."""
    low, _, high = text.partition("-")
    try:
        least, most = int(low), int(high or low)
    except ValueError:
        raise ValueError(f"{text!r} is neither a number nor two with a dash, e.g. 50-200") from None
    if not 40 <= least <= most <= 2000:
        raise ValueError(f"{text!r}: from 40 to 2000 samples, the fewer first")
    return least, most


@dataclass(frozen=True)
class TaskOptions:
    """Which tasks are made; `samples` from least to most, `trial_timeout` in seconds of wall time."""

    number: int = option(
        "How many tasks; the sources take turns.", default=1, at_least=0, flags=("-n", "--number"), machine=True
    )
    source: tuple[str, ...] = option(
        "Kinds of data, made from a hidden rule; or sklearn:NAME[,NAME...] (iris, wine, breast_cancer, digits, "
        "diabetes, linnerud), sklearn for all of them; or llm. Repeatable.",
        default=(",".join(MODALITIES),),
        metavar="NAMES",
        read=read_sources,
    )
    samples: tuple[int, int] = option(
        "Samples of a made task, train and test together.",
        default=f"{SAMPLES[0]}-{SAMPLES[1]}",
        metavar="N-M",
        read=read_range,
    )
    mutations: int = option(
        "What is done to the data of a made task: noise, gaps, shifts, distractors ...",
        default=MUTATIONS,
        at_least=0,
        at_most=8,
    )
    backend: str = option(
        "The sandbox where a standard solution is tried on each task; none: it is not.",
        default="local",
        choices=(*BACKENDS, "auto", "none"),
        envvar="MLE_SANDBOX",
    )
    trial_timeout: float = option("Seconds that the standard solution has.", default=60.0, above=0, metavar="S")
    rejected: str | None = option(
        "Write the drafts that were dropped here, with the reason.",
        flags=("--rejects",),
        kind="file",
        metavar="FILE",
        machine=True,
    )
    described: str | None = option(
        "Make nothing: print the tasks of FILE for a human, with rule and baselines.",
        flags=("--describe",),
        kind="file",
        metavar="FILE",
        machine=True,
    )

    def check(self) -> None:
        """OptionError for sources that do not go together."""
        if LLM in self.source and self.source != (LLM,):
            raise OptionError("--source llm is a source of its own: run it apart from the others")


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
