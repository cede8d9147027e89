"""An attack: a hostile program and a rule that decides from outside whether the sandbox held.

Covered: reading the programs, which are text files beside this module, and rules that several attacks share. A program is believed when it
reports success, never when it reports failure: failure is judged by the outcome and by traces on the planted targets
(`targets`). Not covered: running an attack (`selftest`).
"""

import json
import pkgutil
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from ..interface import Limits, Outcome
from .targets import AttackTargets

# Groups whose attacks reach answers, other programs or the reward; the others exceed a limit.
CRITICAL_GROUPS = ("files", "libraries", "network", "processes", "submission", "next run", "forgery")


def programs(file: str, parts: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The programs in programs/`file`.txt by name. KeyError: a part that is not there.

    A line `#: NAME` begins one, and `#+ NAME` stands for one of `parts` or one before it.
    """
    content = pkgutil.get_data(__package__, f"programs/{file}.txt")
    if not content:
        raise FileNotFoundError(f"{file}.txt: this installation lacks the programs of attacks")
    text = content.decode()
    _, *pieces = re.split(r"^#: (.*)\n", text, flags=re.MULTILINE)
    found: dict[str, str] = {}
    for name, code in zip(pieces[::2], pieces[1::2], strict=True):
        included = {f"#+ {part}\n": text for part, text in (*parts.items(), *found.items())}
        lines = code.splitlines(keepends=True)
        found[name] = "".join(included[line] if line.startswith("#+ ") else line for line in lines)
    return found


PARTS = programs("parts")  # of several programs, and those that are not attacks themselves


class Verdict(NamedTuple):
    """Whether the sandbox held, and the evidence in a few words."""

    sealed: bool
    seen: str


Rule = Callable[[Outcome, AttackTargets], Verdict]


def program(known: Mapping[str, object], code: str) -> str:
    """The source of a hostile program; `known` is its W, and "tried" on stdout marks its regular end."""
    preamble = PARTS["preamble"].replace("KNOWN", repr(json.dumps(dict(known))))
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
    return lambda outcome, targets: Verdict(outcome.status in statuses, f"status {status_and_error(outcome)}")


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
