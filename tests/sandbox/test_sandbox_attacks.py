"""Every attack of the table against every backend that this machine has, and against no sandbox at all.

The last is the control: what a bare run does not seal must be judged open, or the judge cannot fail. Judges that need a
bomb for that, or more than a bare run gives away, are shown an outcome of our own instead.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from conftest import mostly_slow

import mletools
from mletools.base.errors import ToolError
from mletools.sandbox import Limits, Outcome, Sandbox, Setup
from mletools.sandbox.attacks import ATTACKS, Attack, AttackTargets, memory_use, program
from mletools.sandbox.container import DockerSandbox
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.on_ray import RaySandbox
from mletools.sandbox.process_tree import remove_folder
from mletools.sandbox.selftest import Finding, attempt, failed, selftest, table

PACKAGE_ROOT = str(Path(mletools.__file__).parent.parent)
SMALL_SERVER = ("json",)
PLAIN = Attack("any", "files", "")
NO_SUBMISSION: tuple[dict[str, bytes], dict[str, str]] = ({}, {"submission.csv": "no submission.csv"})


def test_every_attack_is_a_program_of_its_own() -> None:
    programs = [program({}, attack.code) for attack in ATTACKS]
    assert len({attack.name for attack in ATTACKS}) == len(set(programs)) == len(ATTACKS) > 100
    for text in [*programs, *(program({}, attack.followed_by) for attack in ATTACKS if attack.followed_by)]:
        compile(text, "attack", "exec")
        assert "\n#: " not in text and "\n#+ " not in text


class BareSandbox:
    """`python solution.py` and no isolation at all: all runs share one folder, which is also their home."""

    name = "bare"

    def __init__(self, weights: str) -> None:
        self._weights = weights
        self._folder = Path(tempfile.mkdtemp(prefix="mletools-bare-"))
        self._work = self._folder / "work"
        # Only the targets's own descriptors are passed on: attacks write to all that they find.
        self.inherits: tuple[int, ...] = ()

    @property
    def protections(self) -> dict[str, bool]:
        return {}

    @property
    def notes(self) -> list[str]:
        return []

    def wipe(self) -> None:
        """Take away what earlier attacks have planted."""
        if self._work.is_symlink():
            self._work.unlink()
        remove_folder(str(self._work))

    def run(self, code: str, public: Path, limits: Limits, seed: int) -> Outcome:
        self._work.mkdir(exist_ok=True)
        self._work.chmod(0o700)
        for name, target in (("input", public), ("weights", self._weights)):
            with suppress(FileExistsError):
                (self._work / name).symlink_to(target)
        own = Path(tempfile.mkdtemp(dir=self._folder))
        (own / "solution.py").write_text(f"import random; random.seed({seed})\n{code}")
        places = {name: str(self._work) for name in ("HOME", "TMPDIR", "PYTHONPATH")}
        with open(own / "stdout", "wb") as stdout, open(own / "stderr", "wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, str(own / "solution.py")],
                cwd=self._work,
                env={**os.environ, **places, "PYTHONHASHSEED": "0"},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=self.inherits,
                start_new_session=True,
            )
        began = time.monotonic()
        status = ""
        try:
            process.wait(limits.wall_s)
        except subprocess.TimeoutExpired:
            status = "timeout"
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.3)
        spent = time.monotonic() - began
        time.sleep(0.15)  # as long as a sandbox may take to come to the output and the submission
        code_now = process.poll()
        if not status:
            status = "ok" if code_now == 0 else "error" if code_now is not None and code_now > 0 else "killed"
        exit_code = code_now if status in ("ok", "error") else None
        output, errors = (own / "stdout").read_bytes(), (own / "stderr").read_bytes()
        return Outcome(status, exit_code, spent, 0.0, 0.0, output, errors, *self._outputs())

    def _outputs(self) -> tuple[dict[str, bytes], dict[str, str]]:
        try:
            descriptor = os.open(self._work / "submission.csv", os.O_RDONLY | os.O_NONBLOCK)
            try:
                return {"submission.csv": os.read(descriptor, 4 << 20)}, {}
            finally:
                os.close(descriptor)
        except OSError as error:
            return {}, {"submission.csv": str(error)}

    def close(self) -> None:
        self.wipe()
        shutil.rmtree(self._folder, ignore_errors=True)


# A backend is opened by its name, once a session, with a targets around it, whose weights it shows. To try another one,
# fill in a line here.
BACKENDS: dict[str, Callable[[str], Sandbox]] = {
    "local": lambda weights: LocalSandbox(Setup(2, weights=weights)),
    "local without namespaces": lambda weights: LocalSandbox(Setup(2, weights=weights), namespaces=False, cgroup=False),
    "docker": lambda weights: DockerSandbox(Setup(2, image=os.environ["MLE_SANDBOX_IMAGE"], weights=weights)),
    "docker without namespaces": lambda weights: DockerSandbox(
        Setup(2, image=os.environ["MLE_SANDBOX_IMAGE"], weights=weights), namespaces=False
    ),
    "local on ray": lambda weights: RaySandbox("ray", "local", Setup(2, weights=weights)),
    "bare": lambda weights: BareSandbox(weights),
}
SLOW = set(BACKENDS) - {"local", "bare"}

# What is open where the kernel grants no namespaces and no cgroup, and why. Landlock and seccomp close the rest.
_NO_IPC = "/dev/shm is the machine's own without a mount namespace"
WITHOUT_NAMESPACES = {
    "shared memory of the host": _NO_IPC,
    "files of a concurrent run": _NO_IPC,
    "writing outside the work folder": "/dev/shm can be written to, for multiprocessing needs it",
    "shared memory and files left behind": _NO_IPC,
    "filling the disk": "no disk of its own",
    "using up the inodes": "no disk of its own",
    "locks of a concurrent run": "library files are the machine's own, and so is /proc",
    "the machine's counters": "/proc is the machine's own",
    "times and attributes of shared files": "Landlock does not cover times",
}
# Open or sealed as the kernel's version and the user's rights have it.
UNSURE = {
    "local without namespaces": {
        "signals to other processes": "Landlock scopes signals from Linux 6.12 on",
        "killing every reachable process": "not tried where signals reach others",
        "killing its process group": "not tried where signals reach others",
        "killing its parent": "not tried where signals reach others",
        "stopping its parent": "not tried where signals reach others",
        "writing to the interpreter's folders": "an ordinary user may own them; Landlock closes but unnamed files",
        "raising its priority": "an ordinary user's run may take back its place in line when memory ends",
        "unreadable folders": "two runs of one user may meet in /tmp",
    },
    "docker without namespaces": {
        "locks of a concurrent run": "library files and /proc/locks are the container's",
        "the machine's counters": "the engine decides what of /proc is shown",
        "times and attributes of shared files": "the container's devices",
    },
}

_TAKEN = Outcome("ok", 0, 0.1, 0.1, 1.0, b"OPEN all of it was taken\ntried\n", b"", *NO_SUBMISSION)
_FINISHED = Outcome("ok", 0, 0.1, 0.1, 1.0, b"tried\n", b"", *NO_SUBMISSION)
_FORGED = Outcome("ok", 0, 0.1, 0.1, 1.0, b"exit code 0\n", b"", {"submission.csv": b"forged"}, {})
_OPENED = Outcome("ok", 0, 0.1, 0.1, 1.0, b"opened nvidia0\ntried\n", b"", *NO_SUBMISSION)
_OTHER = Outcome("ok", 0, 0.1, 0.1, 1.0, b"patched\ntried\n", b"", {"submission.csv": b"x,y\n1,1\n"}, {})
# Attacks that are not tried bare, or that a bare run holds: why, and an outcome that their judge must call open.
NOT_BARE = {
    "fork bomb": ("a bomb", _TAKEN),
    "thread bomb": ("a bomb", _TAKEN),
    "memory bomb": ("a bomb", _FINISHED),
    "memory of many processes": ("a bomb", _FINISHED),
    "memory in memfd files": ("a bomb", _FINISHED),
    "memory in System V segments": ("a bomb", _FINISHED),
    "filling the disk": ("fills the disk", _FINISHED),
    "using up the inodes": ("fills the disk", _FINISHED),
    "sparse file of 10 GB": ("fills the disk", _TAKEN),
    "endless stdout": ("fills the disk", _FINISHED),
    "endless stderr": ("fills the disk", _FINISHED),
    "endless output of many processes": ("fills the disk", _FINISHED),
    "raising its resource limits": ("this machine may have set none", _TAKEN),
    "devices of other runs": ("this machine may have none", _OPENED),
    "a folder": ("no reader takes it for a file", _FORGED),
    "a socket": ("no reader takes it for a file", _FORGED),
    "forged sandbox messages": ("a bare run has no messages", _FORGED),
    "forged exit code from a child": ("the kernel tells whose end it was", _FORGED),
    "libraries patched in memory": ("each bare run is a new process", _OTHER),
    "integers changed in place": ("each bare run is a new process", _OTHER),
    "process settings": ("each bare run is a new process", _OTHER),
}
# What the kernel refuses to ordinary users even bare, or refuses on some machines.
BARE_AS_ROOT = {attack.name for attack in ATTACKS if attack.group == "kernel"} | {
    "memory of other processes",
    "memory of a concurrent run",
    "raising its priority",
    "changing the clock",
    "keys left in kernel keyrings",
    "packet and raw sockets",
    "a hard link to the answers",
    "memory in full pipes",
    "memory in sockets in flight",
    "locked memory of its user",
}
MAY_BE_REFUSED = {
    "route to other networks": "this machine has no network",
    "system calls of other ABIs": "a kernel without 32-bit programs",
    "setuid programs": "none is installed",
    "keys left in kernel keyrings": "a kernel without keyrings",
    "keyrings": "a kernel without keyrings",
    "memory pinned by pipes": "a kernel without huge pages",
    "memory in epoll entries": "a kernel that allows a user few of them",
    "memory in file locks": "a slow machine",
    "inotify instances of its user": "other programs of the user have them",
}
# Those that are judged by the memory that the machine lacks, or by another run beside them, take seconds: some are
# tried by default.
QUICK_DEAR = {
    "memory in page tables",
    "memory in socket queues",
    "signals to other processes",
    "files of a concurrent run",
    "fork bomb",
}


def open_backend(name: str, stack: ExitStack, fixture: Callable[[str], Any]) -> tuple[Sandbox, AttackTargets]:
    """The backend and a targets planted around it, both taken away with `stack`; skips where the machine has it not."""
    with pytest.MonkeyPatch.context() as patch:
        if name.startswith("docker"):
            daemon = fixture("docker_daemon")
            patch.setenv("DOCKER_HOST", daemon.host)
            patch.setenv("MLE_SANDBOX_IMAGE", daemon.image)
        if name.endswith("ray") and find_spec("ray") is None:
            pytest.skip("needs the [ray] extra")
        targets = stack.enter_context(AttackTargets())
        sandbox = BACKENDS[name](str(targets.weights))
    stack.callback(sandbox.close)
    if isinstance(sandbox, BareSandbox):
        sandbox.inherits = (targets.descriptor,)
        return sandbox, targets
    try:
        protections = sandbox.protections
    except ToolError as error:
        if name.startswith("docker"):
            raise  # the daemon is there, so it has to work
        pytest.skip(f"no backend {name} here: {error}")
    if name == "local" and not protections["mount_namespace"]:
        pytest.skip(f"no namespaces here: {'; '.join(sandbox.notes)}")
    return sandbox, targets


@pytest.fixture(scope="module")  # no longer: a process can be connected to one Ray cluster only
def opened(request: pytest.FixtureRequest) -> Iterator[Callable[[str], tuple[Sandbox, AttackTargets]]]:
    kept: dict[str, tuple[Sandbox, AttackTargets]] = {}
    missing: dict[str, str] = {}  # why a backend is not here
    with ExitStack() as stack:

        def take(name: str) -> tuple[Sandbox, AttackTargets]:
            if name in missing:
                pytest.skip(missing[name])
            if name not in kept:
                with ExitStack() as attempt_stack:
                    try:
                        kept[name] = open_backend(name, attempt_stack, request.getfixturevalue)
                    except pytest.skip.Exception as skipped:
                        missing[name] = str(skipped)
                        raise
                    stack.push(attempt_stack.pop_all())
            return kept[name]

        yield take


def cases() -> list[object]:
    """Each attack on each backend; by default the first four of a group on some."""
    found: list[object] = []
    for backend in BACKENDS:
        if backend != "bare":
            for attack in ATTACKS:
                dear = (
                    attack.measured or attack.concurrent or attack.limits.wall_s > 60
                ) and attack.name not in QUICK_DEAR
                first = [each for each in ATTACKS if each.group == attack.group][:4]
                slow = backend in SLOW or dear or not (attack in first or attack.name in QUICK_DEAR)
                marks = [pytest.mark.slow] if slow else []
                found.append(pytest.param(backend, attack, id=f"{backend}-{attack.name}", marks=marks))
    return found


def quick_bare() -> set[str]:
    """The last of each group that is tried bare: its judge, by default."""
    names: dict[str, list[str]] = {}
    for attack in ATTACKS:
        if attack.name not in NOT_BARE and not (attack.measured or attack.concurrent or attack.limits.cpu_s):
            names.setdefault(attack.group, []).append(attack.name)
    return {name for group in names.values() for name in group[-1:]}


@pytest.mark.parametrize(("backend", "attack"), cases())
def test_attack_is_held(opened: Callable[[str], tuple[Sandbox, AttackTargets]], backend: str, attack: Attack) -> None:
    finding = attempt(attack, *opened(backend))
    for _ in range(2 if attack.measured else 0):  # tests beside this one take memory, too
        if not finding.sealed:
            finding = attempt(attack, *opened(backend))
    if attack.name in UNSURE.get(backend, {}):
        assert "error of the sandbox" not in finding.seen
        return
    if backend == "local without namespaces":
        known = WITHOUT_NAMESPACES.get(attack.name)
        assert finding.sealed == (known is None), finding.seen
        return
    if attack.group == "memory":
        sandbox, _ = opened(backend)
        if not sandbox.protections.get("memory_cgroup", True) and not finding.sealed:
            pytest.skip(f"no memory cgroup here: {finding.seen}")
    assert finding.sealed, finding.seen


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, id=attack.name, marks=[] if attack.name in quick_bare() else [pytest.mark.slow])
        for attack in ATTACKS
        if attack.name not in NOT_BARE
    ],
)
def test_bare_run_is_judged_open(
    opened: Callable[[str], tuple[Sandbox, AttackTargets]], attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mletools.sandbox.selftest._MEASUREMENTS", 1)
    if attack.name in BARE_AS_ROOT and os.geteuid() != 0:
        pytest.skip("the kernel refuses it to ordinary users")
    sandbox, targets = opened("bare")
    assert isinstance(sandbox, BareSandbox)
    for _ in range(3):  # on a busy machine a race may be lost even where nothing is sealed
        sandbox.wipe()
        finding = attempt(attack, sandbox, targets)
        if not finding.sealed:
            break
    if finding.sealed and attack.name in MAY_BE_REFUSED:
        pytest.skip(f"refused even bare: {MAY_BE_REFUSED[attack.name]}")
    assert not finding.sealed
    assert "did not run to its end" not in finding.seen
    assert "error of the sandbox" not in finding.seen


@pytest.mark.parametrize("name", NOT_BARE)
def test_judge_can_fail(name: str) -> None:
    attack = next(attack for attack in ATTACKS if attack.name == name)
    with AttackTargets() as targets:
        targets.honest = Outcome("ok", 0, 0.1, 0.1, 1.0, b"honest\ntried\n", b"", {"submission.csv": b"x,y\n1,0\n"}, {})
        targets.begin()
        assert not attack.judge(NOT_BARE[name][1], targets).sealed


# An ordinary user's runs, without a cgroup


AS_A_USER = """
    import json, sys
    from mletools.sandbox import Setup
    from mletools.sandbox.attacks import ATTACKS, AttackTargets
    from mletools.sandbox.local import LocalSandbox
    from mletools.sandbox.selftest import attempt
    with AttackTargets() as targets, LocalSandbox(Setup(2, ("json",)), cgroup=False, hidden={}) as sandbox:
        protections = sandbox.protections
        findings = [attempt(attack, sandbox, targets) for attack in ATTACKS if attack.group == "other runs"]
        print(json.dumps([protections, [(finding.attack, finding.sealed, finding.seen) for finding in findings]]))
"""


@pytest.mark.slow
def test_runs_of_an_ordinary_user_share_nothing() -> None:
    """With a Python of that user's own: a run is forked from it, but may not change it."""
    user = os.geteuid() or 65534
    who: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}
    done = None
    with suppress(OSError), tempfile.TemporaryDirectory(dir="/var/tmp", prefix="mletools-test-") as folder:
        os.chmod(folder, 0o755)
        for python in (sys.executable, "/usr/bin/python3"):  # root's Python may lie where others cannot enter
            environment = {"PYTHONPATH": PACKAGE_ROOT, "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
            own = Path(folder) / "python"
            command = [python, "-m", "venv", "--copies", "--without-pip", "--clear", own]
            subprocess.run(command, check=True, timeout=60)
            for path in (own, *own.rglob("*")):
                os.chown(path, user, -1, follow_symlinks=False)
            command = [own / "bin" / "python", "-c", textwrap.dedent(AS_A_USER)]
            options: dict[str, Any] = {"env": environment, "cwd": folder, "capture_output": True, "text": True, **who}
            done = subprocess.run(command, timeout=250, check=False, **options)
            if done.returncode == 0:
                break
    if done is None or (done.returncode != 0 and "PermissionError" in done.stderr):
        pytest.skip("an ordinary user cannot start a Python here")
    assert done.returncode == 0, done.stderr
    protections, findings = json.loads(done.stdout)
    if not protections["mount_namespace"]:
        pytest.skip("no namespaces for an ordinary user here")
    assert protections["own_inodes"]
    assert len(findings) > 5
    assert [finding for finding in findings if not finding[1]] == []


# The table's own promises


def test_names_are_unique_and_lists_name_attacks() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names)
    assert {attack.requires for attack in ATTACKS} - {None} <= set(names)
    lists = (WITHOUT_NAMESPACES, *UNSURE.values(), NOT_BARE, BARE_AS_ROOT, MAY_BE_REFUSED)
    assert set().union(*lists) <= set(names)
    assert UNSURE.keys() <= BACKENDS.keys()


def test_judge_goes_by_traces_not_by_words() -> None:
    with AttackTargets() as targets:
        targets.begin()
        assert PLAIN.judge(_FINISHED, targets).sealed
        answers = targets.answers.read_bytes()
        printed = Outcome("ok", 0, 0, 0, 0, answers + b"tried\n", b"", {}, {})
        assert PLAIN.judge(printed, targets).seen == "read the answers"
        assert not PLAIN.judge(Outcome("ok", 0, 0, 0, 0, b"all is sealed\n", b"", {}, {}), targets).sealed
        (targets.public / "train.csv").write_text("changed")
        assert PLAIN.judge(_FINISHED, targets).seen == "changed the public folder"
        targets.begin()
        left = targets.folder / f"{targets.mark}.txt"
        left.write_text("left")
        assert PLAIN.judge(_FINISHED, targets).seen == f"left {left}"
        targets.begin()
        assert PLAIN.judge(_FINISHED, targets).sealed
        assert not left.exists()


def test_the_world_removes_its_files_processes_and_variables() -> None:
    before = dict(os.environ)
    with AttackTargets() as targets:
        known = targets.known()
        places = [targets.folder, Path(f"/proc/{known['victim']}"), Path(known["shm_file"])]
        assert all(place.exists() for place in places)
        assert os.environ != before
    assert not any(place.exists() for place in places)
    assert os.environ == before


class BrokenSandbox(BareSandbox):
    """A sandbox with trouble of its own in every run."""

    def run(self, code: str, public: Path, limits: Limits, seed: int) -> Outcome:
        raise ToolError("no room on this machine")


def test_trouble_of_the_sandbox_is_a_finding() -> None:
    sandbox = BrokenSandbox("")
    try:
        with AttackTargets() as targets:
            finding = attempt(ATTACKS[0], sandbox, targets)
        assert (finding.sealed, finding.seen) == (False, "error of the sandbox: no room on this machine")
        with pytest.raises(ToolError, match="no room on this machine"):
            selftest(sandbox, 2, None)
        with pytest.raises(ToolError, match="needs 2 slots, for attacks on a concurrent run, not 1: use -j 2"):
            selftest(sandbox, 1, None)
    finally:
        sandbox.close()


def test_table() -> None:
    findings = [
        Finding("answers by path", "files", True, True, "no trace", 0.1),
        Finding("TCP to the host", "network", True, False, "reached tcp 127.0.0.1", 0.1),
        Finding("route to other networks", "network", True, True, "no trace", 0.1),
        Finding("filling the disk", "disk", False, False, "160 MB \u00fc " + "x" * 200, 0.1),
    ]
    text = table(findings, {"seccomp": True, "disk_limit": False})
    assert text.isascii()
    assert max(map(len, text.split("\n"))) < 100
    assert text.split("\n") == [
        "group    attack                   verdict    seen",
        "files    answers by path          sealed     no trace",
        "network  TCP to the host          OPEN       reached tcp 127.0.0.1",
        "         route to other networks  sealed     no trace",
        "disk     filling the disk         open       160 MB ? " + "x" * 33 + "...",
        "",
        "not active here: disk_limit",
        "2 sealed, 1 OPEN (answers, other programs or the reward are in reach), 1 open (weaker)",
    ]
    assert failed(findings)
    assert not failed([findings[0], findings[3]])


def test_memory_is_judged_by_what_is_missing_for_long() -> None:
    attack = next(attack for attack in ATTACKS if attack.measured)
    limit = attack.limits.memory_mb
    with AttackTargets() as targets:
        for mb, seconds, sealed in ((limit + 200, 2.0, True), (limit + 900, 0.3, True), (limit + 900, 2.0, False)):
            targets.memory.samples = [
                (at / 50, float(mb) if 1 <= at / 50 <= 1 + seconds else 10.0) for at in range(200)
            ]
            targets.begin()
            assert attack.judge(_FINISHED, targets).sealed == sealed, (mb, seconds)


@pytest.mark.parametrize("gone", mostly_slow([True, False], 1))
def test_memory_missing_for_long_after_a_run_is_not_the_runs(gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = [100.0]
    monkeypatch.setattr(memory_use, "used_mb", lambda: lacking[0])
    with AttackTargets() as targets:
        with targets.memory.measure():
            lacking[0] = 700.0
            time.sleep(1.0)
            if gone:
                lacking[0] = 100.0
        assert targets.memory.sustained_mb(0.5) == (600.0 if gone else 0.0)


def test_another_measurement_waits_for_a_steady_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    use = [100.0 + 50 * at for at in range(20)]  # another process allocates memory in 20 steps
    monkeypatch.setattr(memory_use, "used_mb", lambda: use.pop(0) if len(use) > 1 else use[0])
    monkeypatch.setattr(memory_use, "_STEADY_S", 0.1)
    memory_use.MemoryUse.wait_until_steady(5.0)
    assert len(use) == 1
    growth = count(0, 50)
    monkeypatch.setattr(memory_use, "used_mb", lambda: float(next(growth)))  # and another never stops
    memory_use.MemoryUse.wait_until_steady(0.2)


@pytest.mark.slow
def test_memory_of_the_machine_is_seen() -> None:
    """The whole machine is weighed: other tests take and leave memory beside this one."""

    def seen() -> float:
        before = memory_use.used_mb()
        kept = bytearray(b"x") * (600 << 20)
        time.sleep(0.5)
        used = memory_use.used_mb() - before
        assert len(kept) == 600 << 20
        return used

    assert any(seen() > 200 for _ in range(5))
