"""A warm start changes nothing in a solution's results; who needs a cold one gets it; a GPU is lent to one at a time."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import TESTS

from mletools.base.errors import ToolError
from mletools.sandbox import Limits, Setup
from mletools.sandbox import gpus as gpu_leases
from mletools.sandbox.gpus import Leases
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.process_tree import _children
from mletools.sandbox.starting import wants_fresh_interpreter

SOLUTIONS = sorted((TESTS / "solutions").glob("*.py"))
# What every test run tries; the others take a minute more.
QUICK = {"logistic", "forest_without_seed", "children", "traceback", "random_numbers", "main_module"}
# What a plain `python solution.py` prints otherwise: it has other paths, and nothing seeds its random states.
NOT_OF_A_PLAIN_PYTHON = {"forest_without_seed", "pipeline", "random_numbers", "traceback", "warnings"}


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task") / "public"
    folder.mkdir()
    draw = random.Random(0)
    rows = [[draw.gauss(0, 1) for _ in range(3)] for _ in range(150)]
    lines = [f"{n},{a:.4f},{b:.4f},{c:.4f},{int(a + b * c > 0)}\n" for n, (a, b, c) in enumerate(rows)]
    (folder / "train.csv").write_text("id,a,b,c,y\n" + "".join(lines[:100]))
    (folder / "test.csv").write_text("id,a,b,c\n" + "".join(line.rsplit(",", 1)[0] + "\n" for line in lines[100:]))
    return folder


@pytest.fixture(scope="module")
def warm() -> Iterator[LocalSandbox]:
    with LocalSandbox(Setup(1, start="warm")) as opened:
        yield opened


@pytest.fixture(scope="module")
def cold() -> Iterator[LocalSandbox]:
    with LocalSandbox(Setup(1, ("json",), start="cold")) as opened:
        yield opened


@pytest.mark.parametrize(
    "solution",
    [path if path.stem in QUICK else pytest.param(path, marks=pytest.mark.slow) for path in SOLUTIONS],
    ids=lambda path: path.stem,
)
@pytest.mark.slow
def test_warm_and_cold_are_alike(
    solution: Path, warm: LocalSandbox, cold: LocalSandbox, public: Path, tmp_path: Path
) -> None:
    code = solution.read_text()
    first, second = (sandbox.run(code, public, Limits(), 11) for sandbox in (warm, cold))
    assert (first.start, second.start) == ("warm", "cold")
    for seen in ("status", "exit_code", "stdout", "stderr", "submission"):
        assert getattr(first, seen) == getattr(second, seen), seen
    if solution.stem in NOT_OF_A_PLAIN_PYTHON:
        return
    (tmp_path / "input").symlink_to(public)
    (tmp_path / "solution.py").write_text(code)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "LANG": "C.UTF-8"}
    command = [sys.executable, "solution.py"]
    plain = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    handed_in = tmp_path / "submission.csv"
    assert first.stdout == plain.stdout
    assert first.exit_code == plain.returncode
    assert first.submission == (handed_in.read_bytes() if handed_in.exists() else None)


@pytest.mark.parametrize(
    ("code", "fresh"),
    [
        ("import torch", True),
        ("import os, torch.nn as nn", True),
        ("def f():\n    from tensorflow.keras import layers", True),
        ("from joblib.externals.loky import get_reusable_executor\nimport loky", True),
        ("import pandas\nfrom sklearn.svm import SVC", False),
        ("import torchlike", False),
        ("from . import torch", False),
        ("m = GridSearchCV(x, {}, n_jobs=-1)", True),
        ("m = joblib.Parallel(n_jobs=jobs)(calls)", True),
        ("m = cross_val_score(x, y, n_jobs=1)", False),
        ("m = RandomForestClassifier(n_jobs=-1)", False),
        ("m = sklearn.ensemble.ExtraTreesRegressor(n_jobs=4)", False),
        ("x = = 1", False),
        ("\0", False),
        ("(" * 10_000, False),
        ("x = 1 " + "+ 1" * 20_000, False),
    ],
)
def test_who_gets_a_fresh_interpreter(code: str, fresh: bool) -> None:
    assert wants_fresh_interpreter(code.encode(), (), gpu=False) is fresh


def test_a_module_imported_ahead_is_forked_but_not_beside_a_gpu() -> None:
    assert not wants_fresh_interpreter(b"import torch", ("torch",), gpu=False)
    assert not wants_fresh_interpreter(b"import torch", ("torch.nn",), gpu=False)
    assert wants_fresh_interpreter(b"import torch", ("torch",), gpu=True)
    assert wants_fresh_interpreter(b"import torch, jax", ("torch",), gpu=False)


@pytest.mark.slow
def test_loky_works(public: Path) -> None:
    code = (
        "from joblib import Parallel, delayed\n"
        "def square(n):\n    return n * n\n"
        "if __name__ == '__main__':\n    print(Parallel(n_jobs=2)(delayed(square)(n) for n in range(4)))\n"
    )
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        outcome = sandbox.run(code, public, Limits(), 0)
        assert (outcome.stdout, outcome.start) == (b"[0, 1, 4, 9]\n", "cold")
        assert sandbox.run("print(1)", public, Limits(), 0).start == "warm"


@pytest.mark.slow
def test_torch_trains_cold_and_imported_ahead(public: Path) -> None:
    pytest.importorskip("torch")
    code = (
        "import torch\n"
        "torch.manual_seed(0)\n"
        "x = torch.linspace(-1, 1, 64).reshape(-1, 1)\n"
        "net = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))\n"
        "step = torch.optim.Adam(net.parameters(), 0.05)\n"
        "for _ in range(60):\n"
        "    loss = ((net(x) - x ** 2) ** 2).mean()\n"
        "    step.zero_grad(); loss.backward(); step.step()\n"
        "print(torch.get_num_threads(), torch.cuda.device_count(), round(loss.item(), 4) < 0.02)\n"
    )
    limits = Limits(memory_mb=4096)
    with LocalSandbox(Setup(1, ("json",))) as sandbox, LocalSandbox(Setup(1, ("torch",))) as ahead:
        outcome, forked = sandbox.run(code, public, limits, 0), ahead.run(code, public, limits, 0)
    assert (outcome.stdout, outcome.start) == (b"1 0 True\n", "cold"), outcome
    assert (forked.stdout, forked.start) == (b"1 0 True\n", "warm"), forked


# Templates


def templates() -> list[int]:
    return _children(os.getpid())


def test_slots_are_forked_from_one_template(public: Path) -> None:
    before = set(templates())
    with LocalSandbox(Setup(3, ("json",))) as sandbox, ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: sandbox.run("import time; time.sleep(0.5)", public, Limits(), 0), range(3)))
        (template,) = set(templates()) - before
        assert sorted(_children(template)) == sorted(server.pid for _, server in sandbox._pool.idle)
        assert len(_children(template)) == 3
    assert set(templates()) == before


def test_template_that_dies_is_rebuilt_when_it_is_needed(public: Path) -> None:
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        _ = sandbox.protections
        assert sandbox._template is not None
        first, server = sandbox._template.pid, sandbox._pool.idle[0][1].pid
        os.kill(first, signal.SIGKILL)
        assert sandbox.run("print(1)", public, Limits(), 0).stdout == b"1\n"  # the server outlives its template
        os.kill(server, signal.SIGKILL)
        assert sandbox.run("print(2)", public, Limits(), 0).stdout == b"2\n"
        assert sandbox._template.pid != first


def test_modules_that_start_threads_are_named(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "busybody.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with LocalSandbox(Setup(1, ("json", "busybody"))) as sandbox:
        assert sandbox.notes == ["busybody: started threads when preimported, which are lost in a fork"]
        assert sandbox.run("print(1)", public, Limits(), 0).stdout == b"1\n"


# GPUs


def test_devices_are_lent_to_one_run_each(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_leases, "_ROOT", tmp_path)  # without cards any name will do
    code = (
        "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES'], time.time()); time.sleep(0.2); print(time.time())"
    )
    with LocalSandbox(Setup(4, ("json",), gpus=("6", "GPU-5e"))) as sandbox, ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda _: sandbox.run(code, public, Limits(), 0), range(8)))
    spans: dict[str, list[tuple[float, float]]] = {}
    for outcome in outcomes:
        device, begin, end = outcome.stdout.decode().split()
        assert outcome.gpu == device
        spans.setdefault(device, []).append((float(begin), float(end)))
    assert sorted(spans) == ["6", "GPU-5e"]
    for lent in map(sorted, spans.values()):
        assert all(former[1] <= latter[0] for former, latter in pairwise(lent))


def test_a_session_tells_its_device(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_leases, "_ROOT", tmp_path)
    with LocalSandbox(Setup(1, ("json",), gpus=("6",))) as sandbox:
        assert sandbox.session(public, Limits(), 0).gpu == "6"
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        assert sandbox.session(public, Limits(), 0).gpu is None


def test_without_a_lease_no_device_is_visible(public: Path) -> None:
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        code = (
            "import os; print([os.environ['CUDA_VISIBLE_DEVICES'], [n for n in os.listdir('/dev') if 'nvidia' in n]])"
        )
        outcome = sandbox.run(code, public, Limits(), 0)
    assert (outcome.stdout, outcome.gpu) == (b"['', []]\n", None)


def test_a_device_that_another_command_holds_is_waited_for() -> None:
    code = "from mletools.sandbox.gpus import Leases\nwith Leases(['977']).lease() as d:\n    print(d, flush=True)\n    input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin and other.stdout and other.stdout.readline() == b"977\n"
        got: list[str | None] = []

        def take() -> None:
            with Leases(["977"]).lease() as device:
                got.append(device)

        thread = threading.Thread(target=take)
        thread.start()
        time.sleep(0.5)
        assert got == []
        other.stdin.close()
        thread.join(20)
        assert got == ["977"]


def test_a_lock_file_is_never_followed_to_somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "mletools-gpu-3.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolError, match="cannot lease GPU 3"), Leases(["3"]).lease():
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("text", ["", "0,,1", "0,0", "one", "0;1", "../x"])
def test_names_that_are_no_devices(text: str) -> None:
    with pytest.raises(ToolError, match="device"):
        gpu_leases.parse(text)


def test_names_of_devices() -> None:
    assert gpu_leases.parse("0, 3,GPU-5e3a-77") == ("0", "3", "GPU-5e3a-77")
