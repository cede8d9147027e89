"""Attacks with processes: outliving the run, harming others, and exceeding limits of processes, disk, output and time.

Covered: daemons, signals, bombs, tricks with the clock and with limits. All stay small even where nothing stops them: a
bomb ends at a few hundred processes. Not covered: memory (`memory`), how fast a limit acts.
"""

from dataclasses import replace
from typing import Any

from ..interface import Limits, Outcome
from .attack import PARTS, STILL_HERE, Attack, Rule, Verdict, ends_with, next_run_works, programs, runs_to_end
from .targets import AttackTargets

_KILLING = {
    "killing its process group": "os.kill(0, signal.SIGKILL)",
    "killing its parent": "os.kill(os.getppid() or 1, signal.SIGKILL)\ntime.sleep(0.1)",
    "stopping its parent": "os.kill(os.getppid() or 1, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)",
}
_SIGNALS = "signals to other processes"
SMALL = Limits(wall_s=20.0, processes=32, memory_mb=400, file_mb=40, disk_mb=32, output_kb=64)
_BRIEF = replace(SMALL, wall_s=0.6)


def _output_is_cut(outcome: Outcome, targets: AttackTargets) -> Verdict:
    longest = max(len(outcome.stdout), len(outcome.stderr))
    if longest > SMALL.output_kb << 10:
        return Verdict(False, f"{longest} bytes of output where {SMALL.output_kb} KB are allowed")
    return ends_with("output")(outcome, targets)


_BOMBS = programs("bombs", PARTS)
_ENDLESS = 'for _ in range(1024):\n    os.write({}, b"x" * 65536)'
_FULL = ends_with("disk", "memory")
_HARM = "killing every reachable process"


def _bomb(name: str, group: str, rule: Rule = runs_to_end, limits: Limits = SMALL, **more: Any) -> Attack:
    return Attack(name, group, _BOMBS[name], rule, limits, **more)


ATTACKS = (
    *(
        Attack(name, "processes", code, concurrent=name == _SIGNALS)
        for name, code in programs("processes", PARTS).items()
    ),
    _bomb(_HARM, "processes", next_run_works, concurrent=True, followed_by=STILL_HERE, requires=_SIGNALS),
    *(
        Attack(name, "processes", code, next_run_works, _BRIEF, False, STILL_HERE, _SIGNALS)
        for name, code in _KILLING.items()
    ),
    _bomb("fork bomb", "processes", concurrent=True, weaker=True),
    _bomb("thread bomb", "processes", weaker=True),
    _bomb("filling the disk", "disk", _FULL),
    _bomb("using up the inodes", "disk", _FULL),
    _bomb("sparse file of 10 GB", "disk", limits=replace(SMALL, file_mb=8)),
    _bomb("folders nested 1500 deep", "disk", next_run_works, Limits(wall_s=20.0), followed_by=STILL_HERE),
    Attack("endless stdout", "output", _ENDLESS.format(1), _output_is_cut, SMALL),
    Attack("endless stderr", "output", _ENDLESS.format(2), _output_is_cut, SMALL),
    _bomb("endless output of many processes", "output", _output_is_cut),
    *(Attack(name, "limits", code, ends_with("timeout"), _BRIEF) for name, code in programs("timeouts", PARTS).items()),
    _bomb("ignoring the CPU time limit", "limits", ends_with("timeout"), replace(SMALL, wall_s=15.0, cpu_s=1.0)),
    *(Attack(name, "limits", code) for name, code in programs("limits", PARTS).items()),
)
