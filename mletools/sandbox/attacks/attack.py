"""An attack: a hostile program and a rule that decides from outside whether the sandbox held.

Covered: the preamble of every hostile program, and rules that several attacks share. A program is believed when it
reports success, never when it reports failure: failure is judged by the outcome and by traces on the planted targets
(`targets`). Not covered: running an attack (`selftest`).
"""

import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..interface import Limits, Outcome
from .targets import AttackTargets

# Groups whose attacks reach answers, other programs or the reward; the others exceed a limit.
CRITICAL_GROUPS = ("files", "libraries", "network", "processes", "submission", "next run", "forgery")

_PREAMBLE = """
import ctypes, errno, glob, json, os, re, signal, socket, stat, struct, subprocess, sys, time
from contextlib import suppress
from itertools import product

W = json.loads(KNOWN)
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
libc.prctl(15, W["mark"].encode(), 0, 0, 0)
ARM = os.uname().machine == "aarch64"
HOME, TEMPORARY = os.environ.get("HOME", "."), os.environ.get("TMPDIR", "/tmp")


def report_open(what):
    print("OPEN", what, flush=True)


def search(where, content):
    for hit in set(re.findall(b"canary-[0-9a-f]{32}", content)):
        print("found in", where, hit.decode(), flush=True)


def look(path, at=0, size=1 << 20, folder=None):
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
    except (OSError, ValueError):
        return
    with suppress(OSError, OverflowError):
        search(path, os.pread(descriptor, size, at))
    os.close(descriptor)


def attach(segment, flags=0):
    address = libc.shmat(segment, None, flags)
    return None if address in (None, ctypes.c_void_p(-1).value) else ctypes.c_void_p(address)


def write(path, text="left here"):
    with suppress(OSError), open(path, "w") as file:
        file.write(text)


def reach(family, kind, address):
    with suppress(OSError), socket.socket(family, kind) as connection:
        connection.settimeout(1)
        connection.connect(address)
        connection.send(b"hello")


def repeat(seconds, pause):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(pause)


def sees_host():
    try:
        with open(f"/proc/{W['victim']}/cmdline") as file:
            return file.read().split("\\0")[:2] == W["victim_command"]
    except OSError:
        return False


def pids():
    # Where the machine's processes are visible, attack only those of the selftest.
    ours = {W["pid"], W["victim"], os.getppid(), *pids_named(W["concurrent"])}
    visible = set() if sees_host() else {1, *map(int, filter(str.isdigit, os.listdir("/proc")))}
    return sorted((visible | ours) - {0, os.getpid()})


def pids_named(mark):
    numbers = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{pid}/comm") as file:
            if file.read().strip() == mark:
                numbers.append(int(pid))
    return numbers


def ignore_signals():
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)


def call(name, function, *arguments, refused=("EPERM", "ENOSYS", "EACCES")):
    # In a child process, so that a permitted call changes nothing here.
    child = os.fork()
    if child == 0:
        ctypes.set_errno(0)
        result = function(*arguments)
        reason = errno.errorcode.get(ctypes.get_errno(), "?")
        if result >= 0 or reason not in refused:
            report_open(name + ": " + ("worked" if result >= 0 else reason))
        os._exit(0)
    os.waitpid(child, 0)
"""


class Verdict(NamedTuple):
    """Whether the sandbox held, and the evidence in a few words."""

    sealed: bool
    seen: str


Rule = Callable[[Outcome, AttackTargets], Verdict]


def program(known: Mapping[str, object], code: str) -> str:
    """The source of a hostile program; `known` is its W, and "tried" on stdout marks its regular end."""
    preamble = _PREAMBLE.replace("KNOWN", repr(json.dumps(dict(known))))
    return preamble + textwrap.dedent(code) + "\nprint('tried', flush=True)\n"


def status_and_error(outcome: Outcome) -> str:
    """The status and the last line of stderr."""
    error = outcome.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return f"{outcome.status}: {error}" if error else outcome.status


def runs_to_end(outcome: Outcome, targets: AttackTargets) -> Verdict:
    """Sealed when the attack ran to its end."""
    if outcome.status != "ok" or not outcome.stdout.endswith(b"tried\n"):
        return Verdict(False, f"the attack did not run to its end: {status_and_error(outcome)}")
    return Verdict(True, "no trace")


def ends_with(*statuses: str) -> Rule:
    """Sealed when the run ended with one of `statuses`."""
    return lambda outcome, targets: Verdict(outcome.status in statuses, f"status {outcome.status}")


def next_run_works(outcome: Outcome, targets: AttackTargets) -> Verdict:
    """For STILL_HERE, run after an attack: sealed when the sandbox still works."""
    works = outcome.status == "ok" and outcome.stdout.endswith(b"still here\ntried\n")
    return Verdict(works, "the next run works" if works else f"the next run: {status_and_error(outcome)}")


def next_run_unchanged(outcome: Outcome, targets: AttackTargets) -> Verdict:
    """For the honest program, run after an attack: sealed when its outcome is the same as before."""
    before = targets.honest
    if before is None or before.status != "ok":
        return Verdict(False, "an honest run does not work here")
    for name, old, new in (
        ("status", before.status, outcome.status),
        ("submission", before.submission, outcome.submission),
        ("output", before.stdout, outcome.stdout),
    ):
        if old != new:
            return Verdict(False, f"the next run's {name} changed: {status_and_error(outcome)}")
    return Verdict(True, "the next run is unchanged")


def no_submission(outcome: Outcome, targets: AttackTargets) -> Verdict:
    """Sealed when the sandbox accepted no submission and gave a reason."""
    verdict = runs_to_end(outcome, targets)
    if not verdict.sealed:
        return verdict
    if outcome.submission is not None:
        return Verdict(False, f"a submission of {len(outcome.submission)} bytes was accepted")
    return Verdict(outcome.submission_problem is not None, outcome.submission_problem or "no reason was given")


STILL_HERE = "print('still here')"


@dataclass(frozen=True)
class Attack:
    """A hostile program and its rule; `limits` are small, and the program takes little more where nothing stops it."""

    name: str
    group: str
    code: str
    rule: Rule = runs_to_end
    limits: Limits = field(default_factory=lambda: Limits(wall_s=20.0))
    concurrent: bool = False  # a second run is active, whose secrets are exposed and which may be harmed
    followed_by: str | None = None  # a second program, run afterwards; the rule gets its outcome
    requires: str | None = None  # an attack that must be sealed first, because this one would harm the machine
    measured: bool = False  # judged by the machine's free memory, so other processes may disturb the result
    weaker: bool = False  # not critical although its group is
    serious: bool = False  # critical although its group is not

    @property
    def critical(self) -> bool:
        """Whether success exposes answers, other programs or the reward."""
        return self.serious or (self.group in CRITICAL_GROUPS and not self.weaker)

    def judge(self, outcome: Outcome, targets: AttackTargets) -> Verdict:
        """Open when the program reports success or left a trace; otherwise by the attack's rule."""
        reported = [line[5:] for line in outcome.stdout.decode(errors="replace").split("\n") if line[:5] == "OPEN "]
        traces = reported[:1] or targets.traces(outcome)
        return Verdict(False, traces[0]) if traces else self.rule(outcome, targets)
