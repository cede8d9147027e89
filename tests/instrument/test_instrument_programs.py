"""Which reports programs earn when they run: those of what they did, whatever it is called, and no other."""

import ast
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
from mletools.instrument.sites import sites_of
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


COMPILED = """
import numba, re, torch
from numba import njit
from torch import nn, compile as fast
@njit(parallel=True)
def summed(values):
    for v in values: helped(v)
def helped(v):
    return [f(v) for f in FS]
def passed(x): return fs[0](x)
cuda = numba.cuda.jit(passed)
word = re.compile("a")
class Net(nn.Module):
    def forward(self, x):
        for layer in self.layers: x = layer(self.inner(x))
        return scaled(x)
    def inner(self, x): return gates[0](x)
def scaled(x): return gates[1](x)
net = {}
other = lambda x: gates[2](x)
def train(loader):
    for xb in loader: loss_of(net(xb))
"""


@pytest.mark.parametrize(
    ("line", "left_out"),
    [
        ("", {7, 9, 10}),
        ("net = torch.compile(Net())", {7, 9, 10, 15, 17, 18}),
        ("net.compile()", {7, 9, 10, 15, 17, 18}),
        ("fast(other)", {7, 9, 10, 15, 17, 18, 20}),
        ("Arguments(torch_compile=True)", {7, 9, 10, 15, 17, 18}),
        ("Arguments(torch_compile=False)", {7, 9, 10}),
    ],
)
def test_functions_that_are_compiled_are_not_watched(line: str, left_out: set[int]) -> None:
    code = f"{COMPILED}{line}\n"
    tree = ast.parse(code)
    sites = sites_of(tree, [])
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    watched_lines = {calls[at].lineno for at, _, _ in sites["calls"]} | {
        statements[at].lineno for (at,) in sites["loops"]
    }
    of_variables = {7, 9, 10, 15, 17, 18, 20, 22}
    assert watched_lines & of_variables == of_variables - left_out


def test_annotations_and_plain_loops_are_not_watched() -> None:
    tree = ast.parse(
        "def f(x: Kind(1)) -> Kind(2):\n    y: Kind(3) = x\n    for _ in range(3):\n        y += len(y)\n    kind(y)\n"
    )
    sites = sites_of(tree, [])
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert [calls[at].lineno for at, _, _ in sites["calls"]] == [5] and sites["loops"] == []


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
