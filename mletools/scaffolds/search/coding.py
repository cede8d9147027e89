"""The coding components: how an idea becomes a program that has run.

R&D-Agent (section 4.3, appendix E.5): write, try on a sample of the data in debug mode and repair until it is sound, then
run as a whole; and two plain ones that run what was written. Covered: the questions to the developer, what speaks against
a run, bounds of both loops. Not covered: what the score of a program is (evaluation), how a failed node is taken up again
(paths). Of the test rows' grade only whether the file is valid, and why not, is looked at, and only where no rows are held
out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ... import prompts
from ...records.errors import ToolError
from .. import observations
from ..answers import split_answer
from ..facts import split_told, tell
from ..quoting import fenced
from .debug_run import timing_of
from .interfaces import Brief, Developed, Unanswered
from .memory import outcome
from .node_context import NodeContext
from .replies import json_in, text_of

PHASE = "develop"
NO_CODE = (
    "Your last answer held no program that can be read: exactly one block is needed, opened with ```python and closed with "
    "```. If the answer was too long, write a shorter program."
)
NO_BLOCK = "It did not print the block of debug information as asked for, with debug_time and estimated_time as numbers of seconds."
WRONG = {  # what a problem means where there is no run that shows it
    "no_code": "The answer held no program that can be read.",
    "unanswered": "No answer could be read.",
    "debug": "No run with --debug came to a good end.",
    "slow": "The whole run would have taken too long.",
    "no_score": "It ended well, but printed no line `Validation score: NUMBER` with a number.",
}


@dataclass(frozen=True)
class Once:
    """Write the program and run it; a node that failed stays as it is."""

    repairs: ClassVar[bool] = False

    def develop(self, context: NodeContext, brief: Brief) -> Developed:
        """See Coding."""
        return _write_and_run(context, brief)


@dataclass(frozen=True)
class NodeDebug:
    """Write the program and run it; failed nodes are taken up again, as nodes of their own (AIDE)."""

    repairs: ClassVar[bool] = True

    def develop(self, context: NodeContext, brief: Brief) -> Developed:
        """See Coding."""
        return _write_and_run(context, brief)


@dataclass(frozen=True)
class Efficient:
    """Try and repair the program on a tenth of the data, in debug mode, before it is run as a whole (R&D-Agent).

    coder_loops: programs that are asked for at most, each tried with --debug. runner_loops: whole runs at most.
    fit: share of a whole run's time that the program's own estimate may take. check: a model has to find the program
    acceptable after a debug run that went well. Nothing is left to repair as a node of its own: what came of so many loops
    is an experiment that failed, and the research goes on from its lesson.
    """

    coder_loops: int = 10
    runner_loops: int = 3
    fit: float = 1.0
    check: bool = True
    repairs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.coder_loops < 1 or self.runner_loops < 1 or not 0 < self.fit < float("inf"):
            raise ToolError("coding efficient: coder_loops and runner_loops are at least 1, and fit is above 0")

    def develop(self, context: NodeContext, brief: Brief) -> Developed:
        """See Coding. After a whole run that failed, what counts is that run, whatever became of its repair."""
        work = _Work()
        try:
            problem = self._work(context, brief, work)
        except Unanswered:
            problem = "unanswered"
        return work.come_to(problem)

    def _work(self, context: NodeContext, brief: Brief, work: "_Work") -> str | None:
        question, role = _question(context, brief, debug_mode=True), f"search-{brief.expansion.operation}"
        missed, too_slow, failed, runs = False, False, None, 0
        for loop in range(self.coder_loops):
            if loop and context.seconds_left <= 1:  # the search's time is used up
                break
            code = split_answer(context.ask(PHASE, role, f"{question}\n\n{NO_CODE}" if missed else question))[1]
            missed = code is None
            if code is None:
                continue
            work.code = code
            told, flaw = self._try(context, brief, work)
            too_slow = flaw is not None and flaw.problem == "slow"
            if flaw is None:
                told, flaw = self._run(context, brief, work)
                if flaw is None:
                    return None
                failed, runs = flaw.problem, runs + 1
                if runs == self.runner_loops:
                    break
            question, role = _repair(context, brief, code, flaw, told), "search-fix"
        return failed or ("no_code" if work.code is None else "slow" if too_slow else "debug")

    def _try(self, context: NodeContext, brief: Brief, work: "_Work") -> "tuple[Mapping[str, Any], _Flaw | None]":
        """A debug run, and what is wrong with it."""
        assert work.code is not None
        most = min(brief.plan.debug_seconds, context.seconds_left)
        result = context.run(work.code, brief.plan.debug_seconds, debug=True)
        timing = timing_of(result["execution"]["stdout"])
        flaw = (
            _flaw(result) or self._timing_flaw(context, brief, timing) or self._check(context, brief, work.code, result)
        )
        work.note(result, True, flaw, None if timing is None else timing[1])
        if flaw is None:
            return result, None
        return result, _Flaw(flaw.problem, f"This was a run with --debug, which may take {most:.0f} s. {flaw.words}")

    def _timing_flaw(self, context: NodeContext, brief: Brief, timing: tuple[float, float] | None) -> "_Flaw | None":
        if timing is None:
            return _Flaw("debug", NO_BLOCK)
        most = min(brief.plan.full_seconds * self.fit, context.seconds_left)
        if timing[1] <= most:
            return None
        return _Flaw("slow", f"The whole run would take too long: about {timing[1]:.0f} s, and there are {most:.0f}.")

    def _check(self, context: NodeContext, brief: Brief, code: str, result: Mapping[str, Any]) -> "_Flaw | None":
        if not self.check:
            return None
        sections = [_idea(brief), f"# The present program\n\n{_program(code)}", _printed(result["execution"])]
        prompt = prompts.render("search-check", task=_task(context), context="\n\n".join(sections))
        try:
            acceptable, why = context.read(PHASE, "search-check", prompt, read_check)
        except Unanswered:
            return None
        return None if acceptable else _Flaw("debug", f"It ran well, but a reviewer does not accept it: {why}")

    def _run(self, context: NodeContext, brief: Brief, work: "_Work") -> "tuple[Mapping[str, Any], _Flaw | None]":
        """A whole run, and what is wrong with it."""
        assert work.code is not None
        most = min(brief.plan.full_seconds, context.seconds_left)
        result = context.run(work.code, brief.plan.full_seconds)
        flaw = _flaw(result) or _unreal(context, work.code, result)
        work.ran_whole(result, flaw)
        if flaw is None:
            return result, None
        prompt_end = f"The run with --debug was well. This was the whole run, which may take {most:.0f} s. {flaw.words}"
        return result, _Flaw(flaw.problem, prompt_end)


def read_check(text: str) -> tuple[bool, str]:
    """(acceptable, why) of an answer to search-check; why is "" where it is. ValueError, in words, for anything else."""
    verdict = json_in(text, dict)
    if not isinstance(verdict.get("acceptable"), bool):
        raise ValueError('"acceptable" has to be true or false')
    return verdict["acceptable"], "" if verdict["acceptable"] else text_of(verdict, "why")


def _write_and_run(context: NodeContext, brief: Brief) -> Developed:
    role = f"search-{brief.expansion.operation}"
    try:
        code = split_answer(context.ask(PHASE, role, _question(context, brief)))[1]
    except Unanswered:
        return Developed(None, None, "unanswered")
    if code is None:
        return Developed(None, None, "no_code")
    result = context.run(code, brief.plan.full_seconds)
    flaw = _flaw(result) or _unreal(context, code, result)
    return Developed(code, result, None) if flaw is None else Developed(code, result, flaw.problem, why=flaw.words)


# --- what speaks against a run ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Flaw:
    problem: str
    words: str


@dataclass
class _Work:
    """A node's newest program, its runs so far, and which of them was the last whole one."""

    code: str | None = None
    trials: list[dict[str, Any]] = field(default_factory=list)
    whole: tuple[int, str, Mapping[str, Any]] | None = None
    why: str = ""  # what was wrong with the newest run

    def note(self, result: Mapping[str, Any], debug: bool, flaw: _Flaw | None, estimated: float | None) -> None:
        execution, problem = result["execution"], None if flaw is None else flaw.problem
        self.why = "" if flaw is None else flaw.words
        trial = {"debug": debug, "status": execution["status"], "duration_s": execution["duration_s"]}
        self.trials.append({**trial, "problem": problem, "estimated_s": estimated})

    def ran_whole(self, result: Mapping[str, Any], flaw: _Flaw | None) -> None:
        assert self.code is not None
        self.whole = (len(self.trials), self.code, result)
        self.note(result, False, flaw, None)

    def come_to(self, problem: str | None) -> Developed:
        if self.whole is None:
            return Developed(self.code, None, problem, tuple(self.trials), self.why)
        at, code, result = self.whole
        return Developed(code, result, problem, (*self.trials[:at], *self.trials[at + 1 :]), self.why)


def _flaw(result: Mapping[str, Any]) -> _Flaw | None:
    """What is wrong with how a run ended or with the form of its submission."""
    execution = result["execution"]
    if execution["status"] != "ok":
        return _Flaw("failed", observations.ran(execution).partition("\n")[0])
    if execution["submission"] is None:
        return _Flaw("failed", observations.handed_in(execution))
    verdict = result["validation"] if result["validation"] is not None else result["grade"]
    if verdict is not None and not verdict["valid"]:
        return _Flaw("invalid", f"submission.csv is invalid: {verdict['reason']}")
    return None


def _unreal(context: NodeContext, code: str, result: Mapping[str, Any]) -> _Flaw | None:
    why = context.inauthentic(code, result)
    return None if why is None else _Flaw("inauthentic", f"The submission is refused as no model's prediction: {why}.")


# --- the questions ------------------------------------------------------------------------------------------------


def _question(context: NodeContext, brief: Brief, debug_mode: bool = False) -> str:
    """The question for the program of a node."""
    operation, parents = brief.expansion.operation, brief.parents
    lower = context.task["metric"]["lower_is_better"]
    parts = [f"# Guidance\n\n{brief.plan.guidance}"] if brief.plan.guidance else []
    if operation in ("crossover", "merge"):
        for number, parent in enumerate(parents, 1):
            origin = f"It was written for this idea: {parent['hypothesis']}"
            parts.append(f"# Program {number}\n\n{outcome(parent, lower)} {origin}\n\n{_program(parent['code'])}")
    elif parents:
        parts.append(f"# The present program\n\n{outcome(parents[0], lower)}\n\n{_program(parents[0]['code'])}")
        if operation == "debug":
            parts.append(f"# What is wrong\n\n{_what_was_wrong(parents[0])}")
        if parents[0]["execution"] is not None:
            parts.append(_printed(parents[0]["execution"]))
    if brief.lessons:
        parts.append("# Earlier experiments\n\n" + "\n".join(brief.lessons))
    return _asked(context, brief, f"search-{operation}", parts, debug_mode)


def _repair(context: NodeContext, brief: Brief, code: str, flaw: _Flaw, result: Mapping[str, Any]) -> str:
    """The question to repair a program within the efficient workflow."""
    parts = [
        f"# The present program\n\n{_program(code)}",
        f"# What is wrong\n\n{flaw.words}",
        _printed(result["execution"]),
    ]
    return _asked(context, brief, "search-fix", parts, True)


def _asked(context: NodeContext, brief: Brief, prompt: str, parts: list[str], debug_mode: bool) -> str:
    parts = [*parts, _idea(brief)]
    if brief.reports:
        parts.append(prompts.render("search-reports"))
    if debug_mode:
        parts.append(prompts.render("search-debug-mode", debug_seconds=f"{brief.plan.debug_seconds:.0f}"))
    seconds = f"{brief.plan.full_seconds:.0f}"
    return prompts.render(prompt, task=_task(context), context="\n\n".join(parts), seconds=seconds)


def _task(context: NodeContext) -> str:
    settings = context.job.settings
    return tell("task", context.task, split=split_told(settings.validation > 0, settings.reveal_test))


def _idea(brief: Brief) -> str:
    return f"# The idea\n\n{brief.idea.hypothesis.text}"


def _program(code: str | None) -> str:
    """A whole program: who is to change it has to see all of it."""
    return "It left no program." if code is None else fenced(code.strip("\n"), "python")


def _printed(execution: Mapping[str, Any]) -> str:
    return f"# What it printed\n\n{observations.ran(execution)}"


def _what_was_wrong(parent: Mapping[str, Any]) -> str:
    return parent["why"] or WRONG.get(parent["problem"], "It did not come to a score.")
