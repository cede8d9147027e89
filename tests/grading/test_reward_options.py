"""Options of grading that are refused: of another rule, or no numbers."""

import pytest

from mletools.base.errors import OptionError
from mletools.grading.options import GradingOptions, read_weights


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scale_score": "thresholds"}, "--scale-score is about --reward raw and partial-credit, not milestone"),
        ({"failure_reward": -1.0}, "--failure-reward is about --reward partial-credit, not milestone"),
        ({"reward": "raw", "marker_credit": 0.5}, "--marker-credit is about --reward partial-credit, not raw"),
        ({"reward": "raw", "milestone": "sparse"}, "--milestone is about --reward milestone, not raw"),
    ],
)
def test_an_option_of_another_rule_is_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        GradingOptions(**options).check()  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["gold=nan", "gold=inf", "gold=-inf", "gold", "lead=1"])
def test_weights_are_finite_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="is not dense, sparse, or NAME=NUMBER"):
        read_weights(text)
