"""The coding components: how an idea becomes a program that has run.

Of the grade on test rows they use only whether the file is valid, and only if no rows are held out.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

from ... import prompts
from ...base.errors import ToolError
from ...records.rollout import Execution, RunProblem, Trial
from .. import messages
from ..interface import RunResult
from ..messages import fenced
from .data import Brief, Developed, Plan, Unanswered, later
from .edits import asking_for_edits
from .graph import Problem
from .node_context import NodeContext
from .replies import Reading, fields_in, timing_of
from .sections import FAILURES, MOST_FAILURE, attempt_line, attempts_section, failure, listed, outcome, plain

NO_CODE = (
    "Your last answer held no program that can be read: it needs exactly one block, opened with ```python and closed with "
    "```. If the answer was too long, write a shorter program."
)
NO_EDIT = "Your last answer's changes could not be applied: {error}. Write the whole program now."
NO_BLOCK = "It did not print the requested block of debug information, with debug_time and estimated_time as numbers of seconds."


class _Flaw(NamedTuple):
    problem: RunProblem
    words: str


@dataclass(frozen=True)
class Once:
    """Write the program and run it."""

    repairs: ClassVar[bool] = False

    def develop(self, context: NodeContext, brief: Brief) -> Developed:
        try:
            role, question = f"search-{brief.expansion.operation}", _question(context, brief, False)
            code = context.answer("develop", role, question).code
        except Unanswered:
            return Developed(None, None, "unanswered")
        if code is None:
            return Developed(None, None, "no_code")
        result = context.run(code, brief.plan.full_seconds)
        flaw = _run_flaw(result) or _authenticity_flaw(context, code, result)
        return Developed(code, result, None) if flaw is None else Developed(code, result, flaw.problem, why=flaw.words)


@dataclass(frozen=True)
class NodeDebug(Once):
    """The same; failed nodes may be repaired, by nodes of their own (AIDE)."""

    repairs: ClassVar[bool] = True


@dataclass
class _Work:
    """The newest program of a node, its runs, and the last full run: (index in trials, code, result)."""

    code: str = ""
    trials: list[Trial] = field(default_factory=list)
    attempts: list[str] = field(default_factory=list)  # a line for each program that failed, or answer without one
    full: tuple[int, str, RunResult] | None = None
    why: str = ""  # the flaw of the newest run


@dataclass(frozen=True)
class Efficient:
    """Test and repair the program on a tenth of the data, with --debug, before the full run (R&D-Agent, 4.3 and E.5).

    coder_loops: maximum number of programs, each run with --debug. runner_loops: maximum number of full runs. fit:
    share of a full run's limit that the program's own estimate may take. check: a model reviews the program after a
    good debug run. sample: false tests and repairs on all data, without --debug (the ablation of 4.3.2); each of the
    coder_loops programs then has a full run, and the review comes after a good one. growth: the factor by which the
    limits of a node's runs grow at most, up to the user's limit of a run: one more after each that ran out of time.
    edits: a present program of at least edits_from characters is changed by search/replace blocks; if these do not
    apply, the model is told so once, and asked for the whole program.
    """

    coder_loops: int = 10
    runner_loops: int = 3
    fit: float = 1.0
    check: bool = True
    sample: bool = True
    growth: float = later(1.0)
    edits: bool = later(False)
    edits_from: int = later(2000)
    repairs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.coder_loops < 1 or self.runner_loops < 1 or not 0 < self.fit < float("inf"):
            raise ToolError("coding efficient: coder_loops and runner_loops are at least 1, and fit is above 0")

    def develop(self, context: NodeContext, brief: Brief) -> Developed:
        """See Coding. After a failed full run the result is that run, whatever came of its repair."""
        work = _Work()
        problem: Problem | None
        try:
            problem = self._develop(context, brief, work)
        except Unanswered:
            problem = "unanswered"
        if work.full is None:
            return Developed(work.code or None, None, problem, tuple(work.trials), work.why)
        at, code, result = work.full
        return Developed(code, result, problem, (*work.trials[:at], *work.trials[at + 1 :]), work.why)

    def _develop(self, context: NodeContext, brief: Brief, work: _Work) -> Problem | None:
        """The problem of the node; None: the full run went well."""
        question, role = _question(context, brief, self.sample), f"search-{brief.expansion.operation}"
        most_runs = self.runner_loops if self.sample else self.coder_loops
        missed, slow, failed, full_runs = "", False, None, 0
        base, own_plan = _base(brief), brief.plan
        edits = self.edits
        for loop in range(self.coder_loops):
            if loop and context.seconds_left <= 1:  # the search's time is used up
                break
            editing = edits and base is not None and len(base) >= self.edits_from
            prompt = asking_for_edits(question) if editing else question
            prompt = f"{prompt}\n\n{missed}" if missed else prompt
            try:
                answer = context.answer("develop", role, prompt, *([base] if editing else []))
            except ValueError as error:
                edits, missed = False, NO_EDIT.format(error=error)
                work.attempts.append(attempt_line("", f"The changes could not be applied: {error}."))
                continue
            missed = NO_CODE if answer.code is None else ""
            if answer.code is None:
                work.attempts.append(attempt_line("", FAILURES["no_code"]))
                continue
            work.code = base = code = answer.code
            is_full = not self.sample
            result, flaw = self._run(context, brief, work, debug=self.sample)
            slow = flaw is not None and flaw.problem == "slow"
            if flaw is None and not is_full:
                is_full = True
                result, flaw = self._run(context, brief, work, debug=False)
            if flaw is None:
                return None
            if is_full:
                failed, full_runs = flaw.problem, full_runs + 1
                if full_runs == most_runs:
                    break
            words = flaw.words
            grown = self._grown(context, own_plan, work)
            if grown != brief.plan:
                brief, words = replace(brief, plan=grown), f"{words} The next runs may take longer, as told below."
            parts = [
                *attempts_section(work.attempts),
                _present(code),
                f"# What is wrong\n\n{words}",
                _printed(result["execution"]),
            ]
            work.attempts.append(attempt_line(answer.plan, flaw.words))
            question, role = _rendered(context, brief, "search-fix", parts, self.sample), "search-fix"
        return failed or ("slow" if slow else "debug" if work.code else "no_code")

    def _grown(self, context: NodeContext, plan: Plan, work: _Work) -> Plan:
        """The node's plan with the limits for its next runs."""
        overrun = {debug: sum(trial.get("debug") == debug and trial.get("status") == "timeout" for trial in work.trials)
                   for debug in (True, False)}  # fmt: skip
        most = min(context.job.settings.execution_seconds, context.seconds_left)
        factors = {debug: max(1.0, min(self.growth, 1.0 + overrun[debug])) for debug in overrun}
        full = max(plan.full_seconds, min(most, factors[False] * plan.full_seconds))
        debug_seconds = max(plan.debug_seconds, min(full, factors[True] * plan.debug_seconds))
        return replace(plan, full_seconds=full, debug_seconds=debug_seconds)

    def _run(self, context: NodeContext, brief: Brief, work: _Work, debug: bool) -> tuple[RunResult, _Flaw | None]:
        """A debug run or a full run, and its flaw."""
        code, limit = work.code, brief.plan.debug_seconds if debug else brief.plan.full_seconds
        most = min(limit, context.seconds_left)
        result = context.run(code, limit, debug=debug)
        execution, flaw, estimated = result["execution"], _run_flaw(result), None
        if debug:
            timing = timing_of(execution["stdout"])
            estimated = None if timing is None else timing[1]
            longest = min(brief.plan.full_seconds * self.fit, context.seconds_left)
            if flaw is None and estimated is None:
                flaw = _Flaw("debug", NO_BLOCK)
            elif flaw is None and estimated is not None and estimated > longest:
                words = f"The full run would take too long: about {estimated:.0f} s, and only {longest:.0f} s are left for it."
                flaw = _Flaw("slow", words)
            elif flaw is None and self.check:
                flaw = _review(context, brief, work, result, debug)
            run = f"This was the run with --debug, which may take {most:.0f} s."
        else:
            flaw = flaw or _authenticity_flaw(context, code, result)
            if flaw is None and self.check and not self.sample:
                flaw = _review(context, brief, work, result, debug)
            work.full = (len(work.trials), code, result)
            passed = "The run with --debug passed. " if self.sample else ""
            run = f"{passed}This was the full run, which may take {most:.0f} s."
        problem, work.why = flaw or (None, "")
        trial: Trial = {
            "debug": debug,
            "status": execution["status"],
            "duration_s": execution["duration_s"],
            "problem": problem,
            "estimated_s": estimated,
        }
        work.trials.append(trial)
        return result, None if flaw is None else _Flaw(flaw.problem, f"{run} {flaw.words}")


def _review(context: NodeContext, brief: Brief, work: _Work, result: RunResult, debug: bool) -> _Flaw | None:
    """The reviewer's objection; None if its answers cannot be read. debug: to the run with --debug."""
    parts = [_idea(brief), *attempts_section(work.attempts), _present(work.code), _printed(result["execution"])]
    task, points = context.task_text, prompts.render(f"search-check-{'debug' if debug else 'full'}")
    prompt = prompts.render("search-check", task=task, context="\n\n".join(parts), points=points)
    try:
        acceptable, why = context.read("develop", "search-check", prompt, read_check)
    except Unanswered:
        return None
    return None if acceptable else _Flaw("debug", f"It ran, but a reviewer rejects it: {messages.escaped(why)}")


def read_check(text: str, notes: Reading | None = None) -> tuple[bool, str]:
    """(acceptable, why) of an answer to search-check; why is "" if it is. ValueError, worded for the model."""
    verdict = fields_in(text, ("acceptable",), notes)
    acceptable = verdict.flag("acceptable")
    return acceptable, "" if acceptable else verdict.text("why")


def _run_flaw(result: RunResult) -> _Flaw | None:
    """The flaw in how a run ended, or in the form of its submission."""
    execution = result["execution"]
    if execution["status"] != "ok":
        code = f" with exit code {execution['exit_code']}" if execution["exit_code"] else ""
        error = messages.output_text(execution["stderr"]).rpartition("\n")[2] if execution["status"] == "error" else ""
        error = f": {plain(error, MOST_FAILURE)}" if error.strip() else "."
        return _Flaw("failed", f"{messages.STATUS_WORDS[execution['status']]}{code}{error}")
    if execution["submission"] is None:
        return _Flaw("failed", messages.submission_message(execution))
    verdict = result["validation"] if result["validation"] is not None else result["grade"]
    if verdict is not None and not verdict["valid"]:
        return _Flaw("invalid", messages.invalid_message(verdict))
    return None


def _authenticity_flaw(context: NodeContext, code: str, result: RunResult) -> _Flaw | None:
    why = context.inauthentic(code, result)
    return (
        None
        if why is None
        else _Flaw("inauthentic", f"The submission is rejected, since it is not the prediction of a model: {why}.")
    )


def _question(context: NodeContext, brief: Brief, debug_mode: bool) -> str:
    """The prompt for the first program of a node."""
    operation, parents = brief.expansion.operation, brief.parents
    outcomes = [outcome(parent, brief.graph) for parent in parents]
    parts = [f"# Guidance\n\n{brief.plan.guidance}"] if brief.plan.guidance else []
    if operation in ("crossover", "merge"):
        for number, (parent, result) in enumerate(zip(parents, outcomes, strict=True), 1):
            parts.append(
                f"# Program {number}\n\n{result} Its idea: {parent['hypothesis']}\n\n{_program(parent['code'])}"
            )
    elif parents:
        parent = parents[0]
        parts.append(_present(parent["code"], f"{outcomes[0]}\n\n"))
        if operation == "debug":
            parts = [*attempts_section(brief.attempts), *parts, f"# What is wrong\n\n{failure(parent)}"]
        if parent["execution"] is not None:
            parts.append(_printed(parent["execution"]))
    return _rendered(
        context, brief, f"search-{operation}", parts + listed("Earlier experiments", brief.lessons), debug_mode
    )


def _rendered(context: NodeContext, brief: Brief, prompt: str, parts: list[str], debug_mode: bool) -> str:
    parts = [*parts, _idea(brief)]
    if brief.reports:
        parts.append(prompts.render("search-reports"))
    if debug_mode:
        parts.append(prompts.render("search-debug-mode", debug_seconds=f"{brief.plan.debug_seconds:.0f}"))
    task = context.task_text
    program = prompts.render("search-program", seconds=f"{brief.plan.full_seconds:.0f}")
    return prompts.render(prompt, task=task, context="\n\n".join(parts), program=program)


def _idea(brief: Brief) -> str:
    return f"# The idea\n\n{brief.idea.hypothesis.text}"


def _base(brief: Brief) -> str | None:
    """The program that is changed; None: it is written from scratch, or of several."""
    return brief.parents[0]["code"] if len(brief.parents) == 1 else None


def _present(code: str | None, result: str = "") -> str:
    return f"# The present program\n\n{result}{_program(code)}"


def _program(code: str | None) -> str:
    return "There is no program." if code is None else fenced(code.strip("\n"), "python")


def _printed(execution: Execution) -> str:
    return f"# What it printed\n\n{messages.execution_message(execution)}"
