"""Which reports programs earn when they run: those of what they did, whatever it is called, and no other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import mostly_slow
from instrument_box import LETTERS, NONCE, run, watched
from instrument_box import box as box  # the fixtures
from instrument_box import public as public
from instrumented_programs import CHEATS, PROGRAMS, STUB_PROGRAMS, STUBS, TORCH_PROGRAMS

from mletools.instrument import MARKERS, describe, read_report
from mletools.sandbox import Limits
from mletools.sandbox.local import LocalSandbox


@pytest.mark.parametrize("name", mostly_slow(PROGRAMS, 8))
def test_programs_earn_what_they_did(box: LocalSandbox, public: Path, name: str) -> None:
    code, letters = PROGRAMS[name]
    found, outcome = run(box, public, code)
    assert found == letters, outcome.stderr.decode()
    assert (outcome.status == "ok") != name.startswith("fails"), outcome.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize("name", TORCH_PROGRAMS)
def test_programs_of_torch_earn_what_they_did(box: LocalSandbox, public: Path, name: str) -> None:
    pytest.importorskip("torch", reason="runs programs of torch")
    code, letters = TORCH_PROGRAMS[name]
    found, outcome = run(box, public, code)
    assert (outcome.status, found) == ("ok", letters), outcome.stderr.decode()


@pytest.mark.parametrize("name", mostly_slow(STUB_PROGRAMS, 1))
def test_programs_of_other_libraries_earn_what_they_did(public: Path, tmp_path: Path, name: str) -> None:
    """The libraries are stand-ins, on the import path as installed ones are; so the program runs without a box."""
    code, letters = STUB_PROGRAMS[name]
    for path, text in STUBS.items():
        file = tmp_path / "libraries" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    work = tmp_path / "work"
    work.mkdir()
    (work / "input").symlink_to(public)
    (work / "solution.py").write_text(code)
    libraries = [str(tmp_path / "libraries"), *sys.path]
    call = [str(work / "solution.py"), str(work), libraries, 1, 1, [], watched(code, public)]
    start = "import json, sys; from mletools.sandbox.solution import launch; launch(*json.load(sys.stdin))()"
    done = subprocess.run(
        [sys.executable, "-c", start], input=json.dumps(call).encode(), cwd=work, capture_output=True, timeout=120
    )
    markers, _, stderr = read_report(done.stdout, done.stderr, NONCE)
    assert done.returncode == 0, stderr.decode()
    assert "".join(LETTERS[MARKERS.index(marker)] for marker in markers) == letters


@pytest.mark.parametrize("name", mostly_slow(CHEATS, 6))
def test_what_only_looks_like_work_earns_nothing(box: LocalSandbox, public: Path, name: str) -> None:
    code, letters = CHEATS[name]
    found, outcome = run(box, public, code)
    assert found == letters, outcome.stderr.decode()


def test_a_test_file_s_rows_are_counted(public: Path) -> None:
    assert describe(public)["rows"] == [23]


def test_a_program_cannot_tell_that_it_is_watched(box: LocalSandbox, public: Path) -> None:
    code = (
        "import sys, os, traceback, pandas as pd\n"
        "def f():\n    return pd.read_csv('input/none.csv')\n"
        "try:\n    f()\nexcept OSError:\n    print(traceback.format_exc())\n"
        "print(sorted(globals()), sorted(f.__globals__), open(__file__).read())\n"
        "f()\n"
    )
    _, told = run(box, public, code)
    plain = box.run(code, public, Limits(), 1)
    _, stdout, stderr = read_report(told.stdout, told.stderr, NONCE)
    assert (stdout, stderr, told.exit_code) == (plain.stdout, plain.stderr, plain.exit_code)
