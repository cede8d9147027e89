"""Validation scores as an oracle: the table of docs/security.md, played through the view and the grader."""

from pathlib import Path

import pytest
from conftest import ROOT, mostly_slow
from validation_oracle import QUERIES, played


@pytest.mark.parametrize("digits", mostly_slow([3, 6, 2], quick=0))
def test_so_many_scores_tell_so_many_labels(digits: int, tmp_path: Path) -> None:
    learnt, rows, asked = played(tmp_path, digits)  # which asserts that each label is right
    assert (rows, asked) == (21, 63) and learnt[-1] == rows
    counts = [learnt[min(k, len(learnt)) - 1] for k in QUERIES]
    name = f"{digits} (default)" if digits == 6 else str(digits)
    row = f"| {name} | {' | '.join(map(str, counts))} | {learnt.index(rows) + 1} |"
    assert row in (ROOT / "docs" / "security.md").read_text()
