"""Tries every attack of the table on an open sandbox, and reports which ones it stopped.

Covered: targets around the sandbox, the attacks in turn (some with a concurrent run), a table for the terminal. An
error of the sandbox during an attack is a finding. Not covered: attacks that are not in the table.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

from ..base.errors import ToolError
from .attacks import ATTACKS, Attack, AttackTargets, Verdict, program
from .attacks.attack import PARTS, status_and_error
from .attacks.targets import CONCURRENT_S
from .interface import Limits, Outcome, Sandbox

_SEED = 7
_MEASUREMENTS = 3  # tries of a measured attack, each of which must exceed the limit
_STEADY_WITHIN_S = 30.0  # how long another try waits for the machine's memory use to be steady
_SEEN_WIDTH, _NAME_WIDTH, _LEAST_SEEN = 45, 40, 12
_ORDINARY = Limits(wall_s=60.0)


@dataclass(frozen=True)
class Finding:
    """The result of one attack."""

    attack: str
    group: str
    critical: bool
    sealed: bool
    seen: str
    seconds: float


def selftest(sandbox: Sandbox, slots: int, progress: Callable[[str], None] | None = None) -> list[Finding]:
    """Try every attack on `sandbox`, which has `slots` slots; `progress` receives the name of each.

    Best called before the sandbox starts any process, which could inherit the targets. ToolError: fewer than 2 slots,
    so no concurrent run is possible; or the sandbox does not work.
    """
    if slots < 2:
        raise ToolError(f"a selftest needs 2 slots, for attacks on a concurrent run, not {slots}: use -j 2")
    with AttackTargets() as targets:
        findings = [_control(sandbox, targets)]
        for attack in ATTACKS:
            if progress is not None:
                progress(f"{attack.group}: {attack.name}")
            findings.append(attempt(attack, sandbox, targets))
    return findings


def _control(sandbox: Sandbox, targets: AttackTargets) -> Finding:
    began = time.monotonic()
    outcome = _run_honest(sandbox, targets)
    works = outcome.status == "ok" and outcome.submission == b"x,y\n1,0\n2,0\n5,1\n6,1\n"
    seen = "status ok" if works else f"it does not: {status_and_error(outcome)}"
    return Finding("an honest run works", "control", True, works, seen, time.monotonic() - began)


def _run_honest(sandbox: Sandbox, targets: AttackTargets) -> Outcome:
    """Run the honest program twice, since the first run may start a server; keeps outcome and start-up time."""
    for _ in range(2):
        targets.begin()
        began = time.monotonic()
        targets.honest = outcome = _run(sandbox, targets, PARTS["honest run"], _ORDINARY)
        targets.start_s = max(0.1, time.monotonic() - began - outcome.duration_s)
    return outcome


def attempt(attack: Attack, sandbox: Sandbox, targets: AttackTargets) -> Finding:
    """Try one attack, and first the one that it requires."""
    began = time.monotonic()
    for left in reversed(range(_MEASUREMENTS if attack.measured else 1)):
        verdict = _attempt(attack, sandbox, targets)
        if verdict.sealed:
            break
        if left:  # what exceeded the limit may have been another process
            targets.memory.wait_until_steady(_STEADY_WITHIN_S)
    targets.sealed[attack.name] = verdict.sealed
    return Finding(attack.name, attack.group, attack.critical, *verdict, time.monotonic() - began)


def _attempt(attack: Attack, sandbox: Sandbox, targets: AttackTargets) -> Verdict:
    if attack.requires is not None:
        if attack.requires not in targets.sealed:
            attempt(next(other for other in ATTACKS if other.name == attack.requires), sandbox, targets)
        if not targets.sealed[attack.requires]:
            return Verdict(False, f"not tried, because it would do harm: {attack.requires}")
    try:
        if targets.honest is None:
            _run_honest(sandbox, targets)
        targets.begin()
        with ThreadPoolExecutor(1) as pool:
            concurrent = pool.submit(_run_concurrent, sandbox, targets) if attack.concurrent else None
            if concurrent is not None:
                time.sleep(1.5 * targets.start_s + 0.15)
            try:
                with targets.memory.measure() if attack.measured else nullcontext():
                    outcome = _run(sandbox, targets, attack.code, attack.limits)
                if attack.followed_by is not None:
                    outcome = _run(sandbox, targets, attack.followed_by, _ORDINARY)
            finally:
                targets.concurrent = concurrent.result() if concurrent is not None else None
        return attack.judge(outcome, targets)
    except ToolError as error:
        return Verdict(False, f"error of the sandbox: {error}")
    finally:
        targets.sweep()


def _run(sandbox: Sandbox, targets: AttackTargets, code: str, limits: Limits) -> Outcome:
    return sandbox.run(program(targets.known(), code), targets.public, limits, _SEED)


def _run_concurrent(sandbox: Sandbox, targets: AttackTargets) -> Outcome:
    # It keeps a canary everywhere, serves it to anyone, and reports whether anything was changed.
    code = program(targets.known_to_concurrent(), PARTS["concurrent run"].replace("SECONDS", str(CONCURRENT_S)))
    return sandbox.run(code, targets.public, _ORDINARY, _SEED)


def failed(findings: Iterable[Finding]) -> bool:
    """Whether a critical attack succeeded."""
    return any(finding.critical and not finding.sealed for finding in findings)


def table(findings: Iterable[Finding], protections: Mapping[str, bool], room: int = 100) -> str:
    """The findings and the inactive protections, in `room` columns."""
    import textwrap

    from tabulate import tabulate

    findings = list(findings)
    name_width = min(_NAME_WIDTH, max((len(finding.attack) for finding in findings), default=0))
    others = max((len(finding.group) for finding in findings), default=0) + name_width + len("verdict") + 4 * 2
    seen_width = max(_LEAST_SEEN, min(_SEEN_WIDTH, room - others))

    rows: list[list[str]] = []
    counts = {"sealed": 0, "OPEN": 0, "open": 0}
    group = None
    for finding in findings:
        word = "sealed" if finding.sealed else "OPEN" if finding.critical else "open"
        counts[word] += 1
        seen = finding.seen.encode("ascii", "replace").decode().replace("\n", " ")
        shown = seen if len(seen) <= seen_width else seen[: seen_width - 3] + "..."
        rows.append([finding.group if finding.group != group else "", finding.attack[:name_width], word, shown])
        group = finding.group
    lines = [tabulate(rows, headers=["group", "attack", "verdict", "seen"], tablefmt="plain", disable_numparse=True)]
    missing = sorted(name for name, active in protections.items() if not active)
    lines += ["", f"not active here: {', '.join(missing) or 'nothing'}"]
    lines += [
        f"{counts['sealed']} sealed, {counts['OPEN']} OPEN (answers, other programs or the reward are in reach), "
        f"{counts['open']} open (weaker)"
    ]
    return "\n".join(textwrap.fill(line, room) if at and line else line for at, line in enumerate(lines))
