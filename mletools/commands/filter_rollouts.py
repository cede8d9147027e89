"""Choosing rollouts, for mle-filter: measures what the filters ask for, cuts steps, writes what was decided."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import cli
from ..filters import Decision, FilterOptions, Selection
from ..filters.steps import Turn, cut, reference_of
from ..filters.values import difference
from ..records.errors import RecordError
from ..records.output import Output
from .filter_state import StateFile


@dataclass(frozen=True)
class Ranks:
    """How many of a leaderboard's teams a score leaves behind, with the task's folder below `data`."""

    data: Path

    def __call__(self, task: Mapping[str, Any], score: float, rule: str = "dojo") -> dict[str, Any]:
        """{human_rank, human_rank_rule}, None both without a leaderboard. RecordError: the folder is not the task's."""
        from ..grading import standing
        from ..tasks.private_data import check_data

        if "leaderboard" not in task and "public_leaderboard" not in task:
            return {"human_rank": None, "human_rank_rule": None}
        folder = self.data / task["data"]["dir"]
        check_data(folder, task)
        verdict = standing(task, folder, score, None, rule)
        return {"human_rank": verdict.human_rank, "human_rank_rule": verdict.human_rank_rule}


def measured(rollout: Mapping[str, Any], options: FilterOptions, ranks: Ranks) -> dict[str, Any]:
    """What the filters cannot see: `gain` over the reference, `validation_rank`; what is not there is left out.

    RecordError for a valid rollout of a task without a leaderboard: it has no human rank.
    """
    grade, task = rollout["grade"], rollout["task"]
    wanted = [name for name in ("tau_adv", "tau_val") if getattr(options, name) is not None]
    if not wanted or not grade["valid"]:
        return {}
    rule = grade.get("human_rank_rule")
    if rule is None:
        raise RecordError(f"--{wanted[0].replace('_', '-')}: the task has no leaderboard")
    found: dict[str, Any] = {}
    reference = reference_of(rollout)
    if "tau_adv" in wanted and reference is not None:
        if reference.get("human_rank_rule") != rule:
            reference = ranks(task, reference["score"], rule)
        found["gain"] = difference(grade["human_rank"], reference["human_rank"])
    told = (rollout.get("validation") or {}).get("score")
    if "tau_val" in wanted and told is not None:
        found["validation_rank"] = ranks(task, told, rule)["human_rank"]
    return found


def filter_rollouts(
    run: cli.Run, options: FilterOptions, side: Output | None, mark: bool, state: StateFile | None
) -> None:
    """Keep the rollouts of the run's input that are worth learning from; what is dropped goes to `side`."""
    selection = Selection(options, state.remembered) if state else Selection(options)
    ranks = Ranks(run.data)

    def settle(decisions: Iterable[Decision]) -> None:
        for one in decisions:
            noted = {**(one.rollout.get("filter") or {}), "kept": one.reason is None, "reason": one.reason}
            counted = {"arrived": one.arrived, "members": one.members}
            record = {**one.rollout, "filter": {**noted, **counted, **one.notes}}
            if one.reason is None or mark:
                run.emit(record)
            if one.reason is not None:
                run.counts[f"dropped ({one.reason.split(':')[0]})"] += 1
                if side is not None:
                    side.write(run.stamp(record))
            if state is not None:
                state.went_by()

    with _kept(state):
        for line in run.lines("rollout"):
            try:
                for key in ("grade", "reward"):
                    if key not in line.record:
                        raise RecordError(f'no "{key}": was this written by mle-grade?')
                found = measured(line.record, options, ranks)
            except RecordError as error:
                run.reject(line, str(error))
                continue
            settle(selection.add(line.record, found))
        settle(selection.flush())
    if selection.decided_early:
        run.counts["groups decided before they were complete (--open-groups)"] = selection.decided_early


@contextmanager
def _kept(state: StateFile | None) -> Iterator[None]:
    """Keep the state: of a file when all is done, of a stream whatever ends it."""
    try:
        yield
    except BaseException:
        if state is not None:
            state.stopped()
        raise
    if state is not None:
        state.save()


def cut_steps(run: cli.Run, side: Output | None) -> None:
    """Cut the rollouts of the run's input into steps; one without any goes to `side`."""
    ranks = Ranks(run.data)
    for line in run.lines("rollout"):
        try:
            found = cut(line.record, _hand_in, ranks)
        except RecordError as error:
            run.reject(line, str(error))
            continue
        for step in found.steps:
            run.emit(step)
        if found.reason is None:
            run.counts["rollouts cut"] += 1
            run.counts["turns after the last valid submission"] += found.turns_left
            continue
        run.counts[f"rollouts without a step ({found.reason.partition(': ')[2]})"] += 1
        if side is not None:
            side.write(run.stamp({**line.record, "filter": {"kept": False, "reason": found.reason}}))


def _hand_in(turns: Any, turn: Turn, box: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    from ..scaffolds.handing_in import code_of, execution_of

    return code_of(turns, turn), execution_of(turns, turn, box)
