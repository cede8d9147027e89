"""Not written yet."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...table import Rejected
from ..world import Category, Number, Rendered

MUTATIONS: dict[str, str] = {}
DENSE: dict[str, Any] = {}


def factors(scenario: Mapping[str, Any], rows: int, draws: Any) -> list[Number | Category]:
    raise Rejected("graph: not written yet")


def render(
    scenario: Mapping[str, Any], factors: Sequence[Number | Category], mutations: Mapping[str, float], draws: Any
) -> Rendered:
    raise Rejected("graph: not written yet")
