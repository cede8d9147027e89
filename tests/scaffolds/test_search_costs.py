"""What a dry run says of a search's costs, by hand."""

from typing import Any

import pytest

from mletools.models.prices import Price
from mletools.scaffolds.search import SearchScaffold, SearchSettings
from mletools.scaffolds.search.costs import most_of, roughly


def found(*constants: str, preset: str = "aide", **more: Any) -> SearchSettings:
    return SearchScaffold().check(SearchSettings(preset=preset, set=constants, **more))


def test_a_plain_search() -> None:
    # an idea, asked for twice at most, and a program: 10 nodes; each answer 16384 tokens at most
    most = most_of(found(max_turns=10))
    assert most.answers == {"research": 20, "develop": 10} and most.completion_tokens == 16384
    # 2 USD a million: 30 answers of 30,000 tokens; 8 USD a million: 30 of 16,384
    told = most.told(dict.fromkeys(("research", "develop"), Price.of(2.0, 8.0)))
    assert told == "10 nodes, 30 answers, 0.9 million prompt and 0.492 million completion tokens, 6 USD"
    assert most.told({"research": None, "develop": Price.of(2.0, 8.0)}).endswith("USD not known (--price)")


def test_rd_agent() -> None:
    # analysis 2; challenges, hypotheses, choice, one-step's, lesson: 10 a node; 10 programs and 20 answers on them
    most = most_of(found("coder_loops=10", preset="rd-agent", max_turns=100))
    assert most.answers == {"research": 1002, "develop": 3000}
    # 12 hours at half an hour a node, three at once: 72 nodes; 3 + 1 and 2 + 1 answers
    rough = roughly(found(preset="night"))
    assert (rough.nodes, rough.answers) == (72, {"research": 288, "develop": 216})
    assert roughly(found(preset="night", workers=6)).nodes == 144
    assert roughly(found(preset="night", max_turns=5)).nodes == 5
    assert roughly(found(preset="aide", max_seconds=None)).nodes == 500


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"max_usd": 20.0}, "ended by --max-usd 20 before that"),
        ({"max_tokens": 1_000_000}, "and 1 million completion tokens"),
        ({"max_seconds": 7200.0}, "roughly 2 hours, 12 nodes"),
    ],
)
def test_what_ends_it_is_told(more: dict[str, Any], told: str) -> None:
    prices = {"policy": Price.of(2.0, 8.0)}
    assert told in str(SearchScaffold().costs(found(preset="night", **more), prices))


def test_each_phase_has_the_price_of_its_model() -> None:
    prices = {"policy": None, "researcher": Price.of(1.0, 1.0), "developer": Price.of(1.0, 1.0)}
    both = found(research_model="a", develop_model="b")
    assert "not known" not in str(SearchScaffold().costs(both, prices))
    assert "not known" in str(SearchScaffold().costs(found(research_model="a"), prices))
