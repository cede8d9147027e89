"""What a search takes, before it is begun: answers, tokens, hours and US dollars, at most and roughly.

The upper bounds follow from the constants of the components. Real searches take a small part of them, since programs are
repaired less often, answers are shorter, and the time ends before the nodes do. So there is a rough estimate, too, by assumed
constants, which are no measurements. Covered: the components of this package; one of a user's own counts as one answer. Not
covered: long descriptions of tasks, embeddings.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...models.prices import Price
from ...records.rollout import Phase
from .settings import SearchSettings

READ_TWICE = 2  # an answer in JSON that cannot be read is asked for once more
QUESTIONS = {"one-step": 1, "scientific": 3, "diagnosis": 2}  # for an idea; one-step's more if they cannot be read
LESSONS = ("kernel", "retrieval", "success")  # memories that ask for them
MOST_PROMPT = 30_000  # tokens: programs of up to 40,000 characters, outputs, experiments, a task of some pages
ROUGH_PROMPT, ROUGH_ANSWER = 12_000, 3_000  # tokens
ROUGH_LOOPS = 2  # programs of a node with repairs
ROUGH_RUN = 0.5  # of a run's limit that a node takes


@dataclass(frozen=True)
class Cost:
    """nodes, and answers by phase, each with so many tokens."""

    nodes: int
    answers: Mapping[Phase, int]
    prompt_tokens: int
    completion_tokens: int

    def told(self, prices: Mapping[Phase, Price | None], most_tokens: int | None = None) -> str:
        """The sums in words. prices: by phase; None: not known. most_tokens: completion tokens at most."""
        answers = sum(self.answers.values())
        completion = answers * self.completion_tokens
        share = 1.0 if most_tokens is None else min(1.0, most_tokens / completion)
        usd = 0.0
        for phase, number in self.answers.items():
            price = prices[phase]
            usd = math.nan if price is None else usd + number * price.usd(self.prompt_tokens, self.completion_tokens)
        cost = "USD not known (--price)" if math.isnan(usd) else f"{math.ceil(share * usd):,} USD"
        sums = [_millions(share * tokens) for tokens in (answers * self.prompt_tokens, completion)]
        return f"{self.nodes} nodes, {answers:,} answers, {sums[0]} prompt and {sums[1]} completion tokens, {cost}"


def most_of(settings: SearchSettings) -> Cost:
    """The bounds of one search by checked settings."""
    coding, nodes = settings.constants.get("coding", {}), settings.max_turns
    loops = int(coding.get("coder_loops", 1))
    questions = QUESTIONS.get(settings.reasoning or "", 1)
    ideas = READ_TWICE * (questions + (questions > 1))
    lessons = READ_TWICE * (settings.memory in LESSONS)
    outside = READ_TWICE * ((settings.planning == "dynamic") + (settings.evaluation == "judged"))
    reviews = READ_TWICE * loops if coding.get("check") else 0
    answers: dict[Phase, int] = {"research": nodes * (ideas + lessons) + outside, "develop": nodes * (loops + reviews)}
    return Cost(nodes, answers, MOST_PROMPT, settings.max_answer_tokens)


def roughly(settings: SearchSettings) -> Cost:
    """What one search may take if a node takes ROUGH_RUN of a run's limit; see the other constants."""
    constants = settings.constants
    width = settings.workers or int(constants.get("paths", {}).get("at_once", 1))
    nodes = settings.max_turns
    if settings.max_seconds is not None:
        nodes = min(nodes, math.ceil(width * settings.max_seconds / (ROUGH_RUN * settings.execution_seconds)))
    coding = constants.get("coding", {})
    research = QUESTIONS.get(settings.reasoning or "", 1) + (settings.memory in LESSONS)
    develop = min(ROUGH_LOOPS, int(coding.get("coder_loops", 1))) + bool(coding.get("check"))
    return Cost(nodes, {"research": nodes * research, "develop": nodes * develop}, ROUGH_PROMPT, ROUGH_ANSWER)


def described(settings: SearchSettings, prices: Mapping[Phase, Price | None]) -> str:
    """Both in a line."""
    hours = "" if settings.max_seconds is None else f"{settings.max_seconds / 3600:.3g} hours, "
    cap = "" if settings.max_usd is None else f", ended by --max-usd {settings.max_usd:g} before that"
    return (
        f"roughly {hours}{roughly(settings).told(prices, settings.max_tokens)}; "
        f"at most {hours}{most_of(settings).told(prices, settings.max_tokens)}{cap}"
    )


def _millions(tokens: float) -> str:
    return f"{tokens / 1e6:.3g} million" if tokens < 1e9 else f"{tokens / 1e6:,.0f} million"
