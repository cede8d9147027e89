"""A sandbox and a public folder for programs with reports, and the reports that arrive."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mletools.instrument import MARKERS, describe, instrument, make_nonce, observer_text, read_report
from mletools.sandbox import Limits, Outcome
from mletools.sandbox.interface import Setup
from mletools.sandbox.local import LocalSandbox

LETTERS = "ILDATBP"

NONCE = make_nonce(11)


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task") / "public"
    folder.mkdir()
    rows = [f"{at},{at * 7 % 11},{at * 5 % 13},{'xyz'[at % 3]}" for at in range(60)]
    (folder / "train.csv").write_text("id,a,b,c,y\n" + "".join(f"{row},{at % 2}\n" for at, row in enumerate(rows)))
    (folder / "test.csv").write_text("id,a,b,c\n" + "".join(f"{row}\n" for row in rows[:23]))
    (folder / "sample_submission.csv").write_text("id,y\n" + "".join(f"{at},0\n" for at in range(23)))
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def box() -> Iterator[LocalSandbox]:
    with LocalSandbox(Setup(slots=1)) as sandbox:
        yield sandbox


def watched(code: str, public: Path, mode: str = "ast") -> str:
    """The observer's text for a program."""
    result = instrument(code)
    assert result.sites is not None, result.problem
    return observer_text(NONCE, result.sites, describe(public), waits=mode == "lm")


def run(box: LocalSandbox, public: Path, code: str) -> tuple[str, Outcome]:
    """The letters of the reports that arrived, and the outcome."""
    outcome = box.run(code, public, Limits(), 1, observer=watched(code, public))
    markers, _, _ = read_report(outcome.stdout, outcome.stderr, NONCE)
    return "".join(LETTERS[MARKERS.index(marker)] for marker in markers), outcome
