"""What several test files need: the commands as a user runs them, and validation of whatever they print."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from docker_daemon import docker_daemon as docker_daemon  # the fixture
from forked_commands import run_forked

from mletools.records import schema

# The same examples in every run; HYPOTHESIS_PROFILE=default draws new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

BIN = Path(sys.executable).parent
TESTS = Path(__file__).parent
ROOT, SUPPORT = TESTS.parent, TESTS / "support"
COMMANDS = sorted(path.name for path in (ROOT / "bin").glob("mle-*"))
# Commands keep it ignored, as the shell has it for these tests in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["HF_HUB_OFFLINE"] = "1"
# Not the user's own cache. It lasts beyond these tests, since what it holds of the libraries takes long to find.
os.environ.setdefault("HF_HOME", os.path.join(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "huggingface"))
os.environ["XDG_CACHE_HOME"] = os.path.join(tempfile.gettempdir(), f"mletools-tests-{os.geteuid()}")
# Clusters that nobody else on this network may use. Ray reads this when it is imported; without, it writes to the home.
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=uuid.uuid4().hex, RAY_ENABLE_AUTO_CONNECT="0")

# The files of `make test` that take longest, from the longest on: they begin first, so that at the end no worker waits
# for one of them. Those that mostly wait stand beside those that compute.
LONGEST = (
    "tasks/test_soundness.py",
    "commands/test_contract.py",
    "sandbox/test_sandbox_attacks.py",
    "tasks/test_import.py",
    "tasks/test_roles.py",
    "sandbox/test_sandbox_session.py",
    "grading/test_code_metric.py",
    "sandbox/test_sandbox.py",
    "tasks/test_tasks.py",
    "sandbox/test_sandbox_ray.py",
    "tasks/test_media_image.py",
    "training/test_training.py",
    "instrument/test_instrument_command.py",
    "sandbox/test_sandbox_command.py",
    "records/test_streams.py",
    "sandbox/test_sandbox_docker.py",
    "tasks/test_procedural.py",
    "rollout/test_turns.py",
    "sandbox/test_sandbox_starts.py",
    "sandbox/test_sandbox_arguments.py",
)


FEWEST, PART = 2, 6  # of the slow variants of a test, `make test-slow` runs two, or a sixth if that is more


def leave_to_the_nights(items: Iterable[pytest.Item]) -> None:
    """Mark most slow variants of each test as nightly, too; those that are left lie evenly among all."""
    variants: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("nightly"):
            variants.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in variants.values():
        kept = max(FEWEST, -(-len(each) // PART))
        chosen = {at * len(each) // kept for at in range(kept)}
        for at, item in enumerate(each):
            if len(each) > kept and at not in chosen:
                item.add_marker(pytest.mark.nightly)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Put the files of LONGEST first, then those with many tests; the order within a file stays."""
    leave_to_the_nights(items)
    yield
    paths = [TESTS / name for name in LONGEST]
    sizes = Counter(item.path for item in items)
    items.sort(key=lambda item: (paths.index(item.path) if item.path in paths else len(paths), -sizes[item.path]))


def run_command(
    *args: str, input: bytes = b"", cwd: Path | str = ".", check: bool = True, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run `mle-x ...` to its end, in a fork of a process that has imported it; with `check`, its exit code must be 0."""
    command = [str(BIN / args[0]), *args[1:]]
    done = run_forked(command, input, cwd, {**machine_environment(), **env}, timeout=280)
    if check:
        assert done.returncode == 0, done.stderr.decode()
    return done


def start_command(
    *args: str, input: bytes = b"", cwd: Path | str = ".", check: bool = True, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run `mle-x ...` as `run_command` does, from the start of Python on."""
    command, environment = [str(BIN / args[0]), *args[1:]], {**machine_environment(), **env}
    done = subprocess.run(command, input=input, cwd=cwd, capture_output=True, env=environment, timeout=280)
    if check:
        assert done.returncode == 0, done.stderr.decode()
    return done


def machine_environment() -> dict[str, str]:
    """The variables of this process but for settings of the commands and of Ray, and the width, which tests decide."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("MLE_", "RAY_", "COLUMNS"))}


def records(output: bytes) -> list[dict[str, Any]]:
    """The records on an output, every one validated against its schema; a failed command leaves a torn line behind them."""
    found = [json.loads(line) for line in output.split(b"\n") if line not in (b"", b"{")]
    for record in found:
        schema.check(record, *schema.WRITERS)
    return found


def mostly_slow(values: Iterable[Any], quick: int = 2) -> list[Any]:
    """The values as parameters of a test, all but the first `quick` of them with the mark `slow`."""
    return [value if at < quick else pytest.param(value, marks=pytest.mark.slow) for at, value in enumerate(values)]


def mostly_nightly(values: Iterable[Any], slow: int) -> list[Any]:
    """The values as parameters of a test that is slow for the first `slow` of them, and nightly for the others."""
    marks = [pytest.mark.slow, pytest.mark.nightly]
    return [pytest.param(value, marks=marks[at >= slow]) for at, value in enumerate(values)]


def without_times(record: Any) -> Any:
    """A record without what is measured: seconds, tokens a second and peak memory."""
    measured = ("duration_s", "cpu_s", "peak_memory_mb", "seconds", "tokens_per_s")
    if isinstance(record, dict):
        return {key: without_times(value) for key, value in record.items() if key not in measured}
    return [without_times(value) for value in record] if isinstance(record, list) else record


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One small pipe, run stage by stage: the folder, and each command's output file. Test processes share it."""
    steps = [
        ("tasks", ["mle-gen-task", "--source", "sklearn:wine,diabetes", "-n", "2", "--backend", "none"], None),
        ("rollouts", ["mle-rollout", "-g", "6"], "tasks"),
        ("instrumented", ["mle-instrument"], "rollouts"),
        ("executed", ["mle-sandbox", "-j", "2", "-k", "--timeout", "60"], "instrumented"),
        ("graded", ["mle-grade"], "executed"),
        ("filtered", ["mle-filter", "--keep-invalid"], "graded"),
    ]
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "pipe"
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / f"{steps[-1][0]}.jsonl").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            run_pipe(folder, steps)
    return {"folder": folder, **{name: folder / f"{name}.jsonl" for name, _, _ in steps}}


def run_pipe(folder: Path, steps: list[tuple[str, list[str], str | None]]) -> None:
    """Run the commands one after the other in the folder, where there are tables to import too."""
    from sklearn import datasets

    for name in ("wine", "iris"):
        getattr(datasets, f"load_{name}")(as_frame=True).frame.to_csv(folder / f"{name}.csv", index=False)
    for name, command, source in steps:
        run_command(*command, *([f"{source}.jsonl"] if source else []), "-o", f"{name}.jsonl", cwd=folder)


@pytest.fixture(scope="session")
def policy(stages: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an untrained policy in `tiny`, rollouts to imitate, and rewarded rollouts with its token ids."""
    pytest.importorskip("torch", reason="needs the [train] extra")
    from mletools.training.tiny import make_tiny

    folder = tmp_path_factory.mktemp("policy")
    asked = ("mle-rollout", "-g", "3", "--prompt", "single-brief", str(stages["tasks"]), "-o")
    run_command(*asked, "taught.jsonl", cwd=folder)
    make_tiny(records((folder / "taught.jsonl").read_bytes()), folder / "tiny", "nano")
    run_command(*asked, "rollouts.jsonl", "-m", "hf:tiny", "--max-tokens", "20", cwd=folder)
    # an untrained policy fails always: rewards by sample index stand in for a grader's
    lines = []
    for record in records((folder / "rollouts.jsonl").read_bytes()):
        lines.append(json.dumps({**record, "reward": float(record["sample"])}) + "\n")
    (folder / "sampled.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture(scope="session")
def torch() -> Any:
    """The library, on one thread, where it can train."""
    found = pytest.importorskip("torch", reason="torch is not installed: training is not tested")
    for library in ("transformers", "trl", "peft"):
        pytest.importorskip(library, reason=f"{library} is not installed: training is not tested")
    found.set_num_threads(1)
    return found


@pytest.fixture(scope="session")
def nano(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model to train."""
    from mletools.training.tiny import make_tiny

    folder = tmp_path_factory.mktemp("models") / "nano"
    return make_tiny([{"messages": [{"role": "user", "content": "a forest of 100 trees"}]}], folder, "nano", seed=0)
