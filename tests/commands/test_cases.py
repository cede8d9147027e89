"""Every folder in tests/cases: `cmd` with `input` must give `expout`, `experr` and `expcode`, to the letter.

Seconds in a summary line are written as `# s`. In place of `input`, `records` names an input of tests/support/case_inputs.py.
"""

import os
import re
import subprocess
from pathlib import Path

import case_inputs
import pytest
from conftest import BIN, TESTS

CASES = TESTS / "cases"
FOLDERS = sorted(path.parent for path in CASES.glob("*/*/cmd"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(CASES)))
def test_case(folder: Path, tmp_path: Path) -> None:
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "100", "HF_HUB_OFFLINE": "1"}
    command = (folder / "cmd").read_text()
    builder = folder / "records"
    content = case_inputs.lines(builder.read_text().strip()) if builder.exists() else (folder / "input").read_bytes()
    done = subprocess.run(["bash", "-c", command], input=content, capture_output=True, cwd=tmp_path, env=environment)
    told = re.sub(r"[0-9]+\.[0-9] s$", "# s", done.stderr.decode(), flags=re.MULTILINE)
    assert (done.stdout.decode(), told) == ((folder / "expout").read_text(), (folder / "experr").read_text())
    assert done.returncode == int((folder / "expcode").read_text())
