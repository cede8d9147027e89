"""One attack of the table: a hostile program, and a judge who looks from outside.

Covered: what every hostile program starts with, and the judges that most attacks share. A program is believed when it
says that something was open to it, never when it says that all was closed: that is judged by the outcome and by the
traces in the world around the sandbox (`world`). Not covered: trying an attack (`selftest`).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..interface import Limits, Outcome
from .world import AttackWorld

# Groups whose attacks reach answers, other programs or the reward; the others use up what is limited.
CRITICAL_GROUPS = ("files", "network", "processes", "submission", "next run", "forgery")

_PREAMBLE = """
import ctypes, errno, glob, json, os, re, signal, socket, stat, struct, subprocess, sys, time

W = json.loads({known!r})
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(15, W["mark"].encode(), 0, 0, 0)
ARM = os.uname().machine == "aarch64"
HOME, TEMPORARY = os.environ.get("HOME", "."), os.environ.get("TMPDIR", "/tmp")


def opened(what):
    print("OPEN", what, flush=True)


def search(where, content):
    for hit in set(re.findall(b"canary-[0-9a-f]{{32}}", content)):
        print("found in", where, hit.decode(), flush=True)


def look(path, at=0, size=1 << 20, folder=None):
    try:
        end = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
    except (OSError, ValueError):
        return
    try:
        search(path, os.pread(end, size, at))
    except (OSError, OverflowError):
        pass
    os.close(end)


def host_in_sight():
    try:
        with open(f"/proc/{{W['victim']}}/cmdline") as file:
            return file.read().split("\\0")[:2] == W["victim_command"]
    except OSError:
        return False


def pids():
    # Where the machine's processes are in sight, only those of the selftest are touched.
    ours = {{W["pid"], W["victim"], os.getppid(), *named(W["beside"])}}
    seen = set() if host_in_sight() else {{1, *map(int, filter(str.isdigit, os.listdir("/proc")))}}
    return sorted((seen | ours) - {{0, os.getpid()}})


def named(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{{pid}}/comm") as file:
                if file.read().strip() == mark:
                    found.append(int(pid))
        except OSError:
            pass
    return found


def deaf():
    for number in set(signal.Signals) - {{signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}}:
        signal.signal(number, signal.SIG_IGN)


def call(name, function, *arguments, refused=("EPERM", "ENOSYS", "EACCES")):
    # In a child, so that a call that works changes nothing here.
    child = os.fork()
    if child == 0:
        ctypes.set_errno(0)
        result = function(*arguments)
        why = errno.errorcode.get(ctypes.get_errno(), "?")
        if result >= 0 or why not in refused:
            opened(name + ": " + ("worked" if result >= 0 else why))
        os._exit(0)
    os.waitpid(child, 0)
"""


class Judged(NamedTuple):
    """What a judge found."""

    sealed: bool
    seen: str


Judge = Callable[[Outcome, AttackWorld], Judged]


def program(known: Mapping[str, Any], code: str) -> str:
    """The text of a hostile program that knows `known` of the world and says at its end that it got there."""
    return _PREAMBLE.format(known=json.dumps(dict(known))) + textwrap.dedent(code) + "\nprint('tried', flush=True)\n"


def traced(outcome: Outcome, world: AttackWorld) -> str | None:
    """The worst that the run says was open to it, or that is seen of it in the world; None where there is nothing."""
    for line in outcome.stdout.decode(errors="replace").split("\n"):
        if line.startswith("OPEN "):
            return line[5:]
    traces = world.traces(outcome)
    return traces[0] if traces else None


def last_words(outcome: Outcome) -> str:
    """The status and the last line on stderr, for a reader who has to find out why."""
    words = outcome.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return f"{outcome.status}: {words}" if words else outcome.status


def held(outcome: Outcome, world: AttackWorld) -> Judged:
    """Sealed when the attack ran to its end and neither read, reached, changed nor left anything."""
    trace = traced(outcome, world)
    if trace is not None:
        return Judged(False, trace)
    if outcome.status != "ok" or not outcome.stdout.endswith(b"tried\n"):
        return Judged(False, f"the attack did not get to its end: {last_words(outcome)}")
    return Judged(True, "no trace")


def ends(*statuses: str) -> Judge:
    """Sealed when the run was stopped with one of `statuses` and left no trace."""

    def judge(outcome: Outcome, world: AttackWorld) -> Judged:
        trace = traced(outcome, world)
        if trace is not None:
            return Judged(False, trace)
        return Judged(outcome.status in statuses, f"status {outcome.status}")

    return judge


def survives(outcome: Outcome, world: AttackWorld) -> Judged:
    """For the honest run after an attack that ended whatever it could: sealed when the sandbox still serves."""
    trace = traced(outcome, world)
    if trace is not None:
        return Judged(False, trace)
    works = outcome.status == "ok" and outcome.stdout.endswith(b"still here\ntried\n")
    return Judged(works, "the next run works" if works else f"the next run: {last_words(outcome)}")


def as_ever(outcome: Outcome, world: AttackWorld) -> Judged:
    """For the honest run after an attack: sealed when it comes to what it came to before."""
    trace = traced(outcome, world)
    if trace is not None:
        return Judged(False, trace)
    before = world.honest
    if before is None or before.status != "ok":
        return Judged(False, "an honest run does not work here")
    for what, old, new in (
        ("status", before.status, outcome.status),
        ("submission", before.submission, outcome.submission),
        ("output", before.stdout, outcome.stdout),
    ):
        if old != new:
            return Judged(False, f"the next run's {what} changed: {last_words(outcome)}")
    return Judged(True, "the next run is as ever")


def no_submission(outcome: Outcome, world: AttackWorld) -> Judged:
    """Sealed when nothing was taken for a submission and the reason was told."""
    judged = held(outcome, world)
    if not judged.sealed:
        return judged
    if outcome.submission is not None:
        return Judged(False, f"{len(outcome.submission)} bytes were taken for a submission")
    return Judged(outcome.submission_problem is not None, outcome.submission_problem or "no reason was given")


STILL_HERE = "print('still here')"


@dataclass(frozen=True)
class Attack:
    """A hostile program and how to judge it; `limits` are small, and so is what a program takes if nothing stops it."""

    name: str
    group: str
    code: str
    judge: Judge = held
    limits: Limits = field(default_factory=lambda: Limits(wall_s=20.0))
    beside: bool = False  # another run goes on at the same time: its secrets are in reach, or it may be harmed
    then: str | None = None  # a second program, run after the first; the judge sees its outcome
    after: str | None = None  # harms the machine unless this attack was found sealed; else it is not tried
    measured: bool = False  # judged by what the machine lacks, so a neighbour's doing may be taken for the attack's
    weaker: bool = False  # counts as one of the weaker findings in a group of critical ones
    serious: bool = False  # counts as a critical finding in a group of weaker ones

    @property
    def critical(self) -> bool:
        """Whether answers, other programs or the reward are in reach where this is open."""
        return self.serious or (self.group in CRITICAL_GROUPS and not self.weaker)
