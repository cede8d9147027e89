"""The options of grading: which reward a verdict becomes, and the rules of the verdict."""

import math
from dataclasses import asdict, dataclass, replace

from ..base.errors import OptionError
from ..base.human_rank import RULES
from ..base.options import option
from ..records.sample import TIMES_SAMPLE
from . import rewards
from .submission import MAX_BYTES

REWARDS = ("milestone", "partial-credit", "raw", "human-rank", "improvement")
OF_SCORE = ("raw", "partial-credit")  # rules whose reward is the score
WEIGHTS = {"dense": rewards.MilestoneWeights(), "sparse": rewards.SPARSE}


def read_weights(text: str) -> rewards.MilestoneWeights:
    """The weights that --milestone names. ValueError otherwise."""
    if text in WEIGHTS:
        return WEIGHTS[text]
    try:
        changes = {name.strip(): float(number) for name, number in (part.split("=") for part in text.split(","))}
        if not all(map(math.isfinite, changes.values())):
            raise ValueError
        return replace(WEIGHTS["dense"], **changes)
    except (TypeError, ValueError):
        names = ", ".join(asdict(WEIGHTS["dense"]))
        raise ValueError(f"{text!r} is not dense, sparse, or NAME=NUMBER,... with names out of {names}") from None


def _weights_text(text: str) -> str:
    read_weights(text)
    return text


@dataclass(frozen=True)
class GradingOptions:
    """`max_submission` is in MB (2**20 bytes)."""

    reward: str = option("Rule that turns the verdict into a reward.", default="milestone", choices=REWARDS)
    failure_reward: float = option("partial-credit: reward of a total failure.", default=rewards.FAILURE)
    marker_credit: float = option(
        "partial-credit: reward of a failure per progress report.",
        default=rewards.MARKER_CREDIT,
        at_least=0,
    )
    scale_score: str = option(
        "raw, partial-credit: none: the score as it is. thresholds: (score - median) / (gold - median) of the task's "
        "thresholds, so 0 at the median and 1 at gold in every metric.",
        default="none",
        choices=("none", "thresholds"),
    )
    milestone: str = option(
        "milestone: dense, sparse (0.1 format + 0.9 gold), or changes such as gold=0.3,bronze=0.2.",
        default="dense",
        metavar="WEIGHTS",
        read=_weights_text,
    )
    human_rank: str = option(
        "Place p of N teams: dojo (N - p + 1) / N, mean of public and private board; mle-rl 1 - p / N.",
        default="dojo",
        choices=RULES,
    )
    max_submission: int = option(
        f"Maximum size of a valid submission, or {TIMES_SAMPLE} times the task's sample submission where that is "
        f"larger.",
        default=MAX_BYTES >> 20,
        at_least=1,
        metavar="MB",
    )

    def check(self) -> None:
        """OptionError: a score is scaled for a rule that takes none."""
        if self.scale_score != "none" and self.reward not in OF_SCORE:
            raise OptionError(f"--scale-score is about --reward {' and '.join(OF_SCORE)}, not {self.reward}")
