"""Reports are inserted, arrive, and change nothing else."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest

from mletools.instrument import MARKERS, instrument, make_nonce, read_report
from mletools.instrument.sites import tokens_of

NONCE = make_nonce(7)
PROGRAM = '''"""A docstring."""
from __future__ import annotations
import pandas as pd, io
from sklearn.linear_model import LogisticRegression  # a comment
from sklearn.metrics import log_loss
train = pd.read_csv(io.StringIO("a,y\\n0,0\\n1,1\\n2,1\\n0,0\\n")); é = 1
test = train[["a"]]
model = LogisticRegression(
    C=1.0,
).fit(train[["a"]], train["y"])
print("loss", round(log_loss(train["y"], model.predict_proba(train[["a"]])), 6))
for _ in range(3):
    predictions = model.predict(test)
print(f"{model.predict(test)}", __doc__)
'''


def run(code: str, tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    (tmp_path / "solution.py").write_text(code)
    return subprocess.run([sys.executable, "solution.py"], cwd=tmp_path, capture_output=True, timeout=60)


def test_reports_arrive_once_and_the_program_is_otherwise_the_same(tmp_path: Path) -> None:
    result = instrument(PROGRAM)
    assert result.code is not None and result.code.count("\n") == PROGRAM.count("\n")
    plain, told = run(PROGRAM, tmp_path), run(result.code, tmp_path)
    markers, stdout, stderr = read_report(told.stdout, told.stderr, "")
    assert markers == result.markers == [m for m in MARKERS if m != "testing loss:"]
    for marker in markers:
        assert stdout.count(f"{marker}\n".encode()) == 1
        stdout = stdout.replace(f"{marker}\n".encode(), b"")
    assert (stdout, stderr, told.returncode) == (plain.stdout, plain.stderr, 0)


def test_a_failing_program_reports_how_far_it_came_and_keeps_its_line_numbers(tmp_path: Path) -> None:
    code = "import os\nimport csv\nx = 1\nopen('missing.csv')\nmodel.fit(1)\n"
    result = instrument(code)
    assert result.code is not None
    told = run(result.code, tmp_path)
    markers, _, stderr = read_report(told.stdout, told.stderr, "")
    assert markers == ["imported packages"] and b"line 4" in stderr


def test_only_the_token_of_a_marker_is_its_report_and_no_token_stays() -> None:
    tokens = tokens_of(NONCE)
    assert len(set(tokens)) == len(MARKERS) and not any(NONCE in token for token in tokens)
    lines = [
        "",
        "loaded data",
        f"{NONCE} loaded data",
        "[mle:0000000000000008] loaded data",
        f" {tokens[2]}",
        tokens[4],
        "",
    ]
    markers, stdout, stderr = read_report("\n".join(lines).encode(), f"x{tokens[1]}y".encode(), NONCE)
    assert markers == ["trained model"] and stderr == b"xy"
    assert b"loaded data" in stdout and not any(token.encode() in stdout for token in [NONCE, *tokens])


@pytest.mark.parametrize("code", ["def (", "x = 1\r y", "\0", "", "# only a comment\n"])
def test_what_cannot_be_instrumented_is_marked_or_left(code: str) -> None:
    result = instrument(code)
    assert result.markers == [] and (result.problem is not None or result.code == code)


TRICKY = [
    "def f():\n    return 3\n\n\nprint(f())\n",
    "@staticmethod\ndef f():\n    return 3\nclass A:\n    def fit(self):\n        return super().__init__()\nprint(A().fit(), [m for m in (A().fit(),)])\n",
    "import math; import os\nif True:\n    import sys\nprint(math.pi)\n",
    "'''doc'''\nfor i in range(2):\n    print(i, __doc__)\n",
    "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as out:\n    score = lambda x: print('in', x)\n    score(1)\nprint(out.getvalue())\n",
    "import os\r\nprint(1)\r\n",
    "_report = 1\nimport os\nprint(_report)\n",
    "async def g():\n    async def predict(test):\n        return 1\n    return await predict(test=2)\nimport asyncio\nprint(asyncio.run(g()))\n",
    "x = {}\ndef fit():\n    return x\nfit()['a'] = 1\nprint(x, f'{fit()!r}')\n",
]


@pytest.mark.parametrize("code", TRICKY)
def test_tricky_programs_behave_the_same(code: str) -> None:
    result = instrument(code)
    assert result.code is not None
    outputs = []
    for text in (code, result.code):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(text, "solution.py", "exec"), {"__name__": "__main__"})
        outputs.append(out.getvalue())
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("code", ["import pandas as pd\npd.read_csv('x')\n", "import pandas as pd; pd.read_csv('x')"])
def test_a_byte_order_mark_is_no_part_of_a_program(code: str) -> None:
    assert instrument(f"\ufeff{code}") == instrument(code)
    assert instrument(code).markers
