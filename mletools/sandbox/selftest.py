"""Tries every attack of the table against an open sandbox, and says what held.

Covered: planting a world around the sandbox, one attack after another (some with another run beside them), what was
seen, a table for the terminal. Trouble of the sandbox during an attack is a finding, not an error. Not covered: the
strength of what held; an attack that is not in the table is not tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

from ..records.errors import ToolError
from .attacks import ATTACKS, Attack, AttackWorld, Judged, program
from .attacks.attack import last_words
from .attacks.next_run import HONEST
from .attacks.world import BESIDE_S
from .interface import Limits, Outcome, Sandbox

_SEED = 7
_WEIGHED_AGAIN = 3  # times that memory must have been missing before it is laid to the attack
_SEEN_WIDTH, _NAME_WIDTH = 45, 40
_ORDINARY = Limits(wall_s=60.0)

# The run beside an attack: keeps secrets in every place, serves them to whoever asks, and tells whether it is whole.
_BESIDE = """
import threading
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
kept = W["canary"].encode()
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(W["key"], 4096, 0o666 | 0o1000)
address = libc.shmat(segment, None, 0)
if address not in (None, ctypes.c_void_p(-1).value):
    ctypes.memmove(ctypes.c_void_p(address), kept, len(kept))
places = {os.path.realpath(place) + "/" + W["mark"] for place in (".", HOME, TEMPORARY, "/dev/shm")}
for place in places:
    with open(place, "wb") as file:
        file.write(kept)
def serve(family, name):
    try:
        with socket.socket(family) as end:
            end.bind(name)
            end.listen()
            while True:
                link = end.accept()[0]
                link.send(kept)
                link.close()
    except OSError:
        pass
names = ((socket.AF_UNIX, "\\0" + W["mark"]), (socket.AF_INET, ("127.0.0.1", 20000 + W["key"] % 10000)))
for each in names:
    threading.Thread(target=serve, args=each, daemon=True).start()
with open("submission.csv", "w") as file:
    file.write("mine")
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    time.sleep(0.05)
broken = [f"signal {number.name}" for number in signal.sigpending()]
broken += [place for place in places if open(place, "rb").read() != kept]
for place in places:
    os.unlink(place)
libc.shmctl(segment, 0, None)
print(", ".join(broken) or "whole")
"""


@dataclass(frozen=True)
class Finding:
    """What came of one attack."""

    attack: str
    group: str
    critical: bool
    sealed: bool
    seen: str
    seconds: float


def selftest(sandbox: Sandbox, slots: int, progress: Callable[[str], None] | None = None) -> list[Finding]:
    """Try every attack on `sandbox`, which has `slots` slots; `progress` is told the name of each.

    Best before the sandbox has started anything, so that what is planted could be inherited. ToolError: fewer than 2
    slots, so no run beside an attack is possible; or the sandbox runs nothing at all.
    """
    if slots < 2:
        raise ToolError(f"a selftest needs 2 slots, for attacks on a run beside them, not {slots}: use -j 2")
    with AttackWorld() as world:
        findings = [_honest(sandbox, world)]
        for attack in ATTACKS:
            if progress is not None:
                progress(f"{attack.group}: {attack.name}")
            findings.append(attempt(attack, sandbox, world))
    return findings


def _honest(sandbox: Sandbox, world: AttackWorld) -> Finding:
    began = time.monotonic()
    _measure(sandbox, world)
    outcome = world.honest
    works = outcome is not None and outcome.status == "ok" and outcome.submission == b"x,y\n1,0\n2,0\n5,1\n6,1\n"
    seen = "status ok" if works or outcome is None else f"it does not: {last_words(outcome)}"
    return Finding("an honest run works", "control", True, works, seen, time.monotonic() - began)


def _measure(sandbox: Sandbox, world: AttackWorld) -> None:
    # Twice: the first may have to start what later runs find running.
    for _ in range(2):
        world.begin()
        began = time.monotonic()
        world.honest = _run(sandbox, world, HONEST, _ORDINARY)
        world.start_s = max(0.1, time.monotonic() - began - world.honest.duration_s)


def attempt(attack: Attack, sandbox: Sandbox, world: AttackWorld) -> Finding:
    """Try one attack, and with it those that must have been sealed before it may be tried."""
    began = time.monotonic()
    for _ in range(_WEIGHED_AGAIN if attack.measured else 1):
        judged = _attempt(attack, sandbox, world)
        if judged.sealed:
            break
    world.verdicts[attack.name] = judged.sealed
    return Finding(attack.name, attack.group, attack.critical, *judged, time.monotonic() - began)


def _attempt(attack: Attack, sandbox: Sandbox, world: AttackWorld) -> Judged:
    if attack.after is not None:
        if attack.after not in world.verdicts:
            attempt(next(each for each in ATTACKS if each.name == attack.after), sandbox, world)
        if not world.verdicts[attack.after]:
            return Judged(False, f"not tried, for it would do harm: {attack.after}")
    try:
        if world.honest is None:
            _measure(sandbox, world)
        world.begin()
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(_run_beside, sandbox, world) if attack.beside else None
            if beside is not None:
                time.sleep(1.5 * world.start_s + 0.15)
            try:
                with world.weighing() if attack.measured else nullcontext():
                    outcome = _run(sandbox, world, attack.code, attack.limits)
                if attack.then is not None:
                    outcome = _run(sandbox, world, attack.then, _ORDINARY)
            finally:
                world.beside = beside.result() if beside is not None else None
        return attack.judge(outcome, world)
    except ToolError as error:
        return Judged(False, f"the sandbox itself broke: {error}")
    finally:
        world.sweep()


def _run(sandbox: Sandbox, world: AttackWorld, code: str, limits: Limits) -> Outcome:
    return sandbox.run(program(world.known(), code), world.public, limits, _SEED)


def _run_beside(sandbox: Sandbox, world: AttackWorld) -> Outcome:
    code = program(world.known_beside(), _BESIDE.replace("SECONDS", str(BESIDE_S)))
    return sandbox.run(code, world.public, _ORDINARY, _SEED)


def failed(findings: Iterable[Finding]) -> bool:
    """Whether one is open that brings answers, other programs or the reward within reach."""
    return any(finding.critical and not finding.sealed for finding in findings)


def table(findings: Iterable[Finding], protections: Mapping[str, bool]) -> str:
    """The findings and what protects runs here, for a terminal of 100 columns."""
    from tabulate import tabulate

    rows: list[list[str]] = []
    counts = {"sealed": 0, "OPEN": 0, "open": 0}
    group = None
    for finding in findings:
        word = "sealed" if finding.sealed else "OPEN" if finding.critical else "open"
        counts[word] += 1
        seen = finding.seen.encode("ascii", "replace").decode().replace("\n", " ")
        shown = seen if len(seen) <= _SEEN_WIDTH else seen[: _SEEN_WIDTH - 3] + "..."
        rows.append([finding.group if finding.group != group else "", finding.attack[:_NAME_WIDTH], word, shown])
        group = finding.group
    lines = [tabulate(rows, headers=["group", "attack", "verdict", "seen"], tablefmt="plain", disable_numparse=True)]
    missing = sorted(name for name, active in protections.items() if not active)
    lines += ["", f"not active here: {', '.join(missing) or 'nothing'}"]
    lines += [
        f"{counts['sealed']} sealed, {counts['OPEN']} OPEN (answers, other programs or the reward are in reach), "
        f"{counts['open']} open (weaker)"
    ]
    return "\n".join(lines)
