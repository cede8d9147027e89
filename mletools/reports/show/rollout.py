"""All of a rollout, line by line: the top, its turns, what came after them, and what was handed in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..turns import Turn, began_with, numbers, runs_after, turns
from . import facts
from .header import graded, header, rank_of
from .lines import BAD, LABEL, Section, View, folded, styled
from .turns import described, executed, listing, seen, turn

if TYPE_CHECKING:
    from rich.text import Text

Record = Mapping[str, Any]


def lines(rollout: Record, view: View) -> Iterator["Text"]:
    """The rollout (a valid record) as lines without their ends."""
    for section in sections(rollout, view):
        yield from section.text(view)
    yield styled("")


def sections(rollout: Record, view: View) -> Iterator[Section]:
    """The rollout (a valid record) by its parts; turns that `view` leaves out are compared with still."""
    of = turns(rollout)
    top = chain(header(rollout, of, view), _not_there(rollout, view))
    yield Section(f"rollout {rollout['id']}", top, style="bold reverse", apart=False)
    if rollout.get("search") and not view.turns:
        # no turn has the messages that its nodes were thought of in
        yield Section("the task", _messages(rollout["messages"], view))
    written_last = bool(of) and runs_after(rollout)
    for each in of:
        if not view.turns or each.called in view.turns:
            title = f"{each.name}{'' if each.node else f' of {len(of)}'}: {each.record['action']}"
            cost = facts.spent(each.record.get("usage"), each.record["duration_s"], "")
            judged = folded(_judged(rollout, view), view) if written_last and each is of[-1] else ()
            yield Section(title, chain(turn(rollout, each, view), judged), cost)
    if view.turns:
        return
    yield from _after(rollout, of, view)
    yield from _ideas(rollout, view)
    came_to = rollout["code"] is not None or rollout.get("execution") or rollout.get("grade")
    if came_to and not written_last:
        yield Section("what was handed in", _handed_in(rollout, of, view))


def _not_there(rollout: Record, view: View) -> Iterator["Text"]:
    """A line for each turn that is asked for and that the rollout has not."""
    what, there = "node" if rollout.get("search") else "turn", numbers(rollout)
    last = f"the last is {what} {max(there)}" if there else f"it has no {what}s"
    for number in sorted(view.turns - there):
        yield styled((f"no {what} {number}: {last}", BAD))


def _messages(messages: Iterable[Record], view: View) -> Iterator["Text"]:
    for message in messages:
        yield from seen(message, view)


def _after(rollout: Record, of: Sequence[Turn], view: View) -> Iterator[Section]:
    """Messages that no turn of the policy answers, and the question that a state ends in."""
    last = max((turn.message for turn in of if turn.message is not None), default=-1)
    messages = [] if rollout.get("search") else rollout["messages"][last + 1 :]
    query = (rollout.get("state") or {}).get("query")
    asked = chain([styled(("the implementer asked", LABEL))], described(query, view)) if query else ()
    if messages or query:
        title = "after the last turn" if of else "messages"
        yield Section(title, folded(chain(_messages(messages, view), asked), view))


def _ideas(rollout: Record, view: View) -> Iterator[Section]:
    """Of the scaffold idea: the idea, and who carried it out."""
    if "idea" in rollout:
        none = [styled(("none: the answer is not in the format", BAD))]
        idea = none if rollout["idea"] is None else described(rollout["idea"], view)
        yield Section("the idea", folded(idea, view))
    if implementer := rollout.get("implementer"):
        tokens = facts.tokens(implementer.get("usage"))
        yield Section(
            f"the implementer: {implementer.get('model')}",
            folded(_messages(implementer.get("messages") or (), view), view),
            "" if tokens == "-" else f"{tokens} tokens",
            apart="idea" not in rollout,
            folds=True,
        )


def _handed_in(rollout: Record, of: Sequence[Turn], view: View) -> Iterator["Text"]:
    """The program at the top of the record, and what came of it."""
    if rollout["code"] is not None:
        yield from _same_or_listed(rollout, of, view)
    yield from folded(_judged(rollout, view), view)


def _judged(rollout: Record, view: View) -> Iterator["Text"]:
    """What came of the program at the top."""
    instrument, execution, grade = (rollout.get(name) for name in ("instrument", "execution", "grade"))
    if instrument:
        arrived = set((execution or {}).get("markers", ()))
        reached = sum(marker in arrived for marker in instrument["markers"])
        reports = instrument["problem"] or f"{reached} of {len(instrument['markers'])} arrived"
        yield styled(("reports", LABEL), f" {reports}")
    if execution:
        if any(each.get("execution") == execution for each in rollout["turns"]):
            yield styled(("ran", LABEL), f" {execution['status']}, as in its turn")
        else:
            yield from executed(execution, view)
    if grade:
        yield styled(("grade", LABEL), " ", *graded(grade, rank_of(rollout)))


def _same_or_listed(rollout: Record, of: Sequence[Turn], view: View) -> Iterator["Text"]:
    program, cells = rollout["code"], list[str]()
    for each in of:
        if each.program is None:
            continue
        if each.program.strip() == program.strip():
            yield styled(("code", LABEL), f" as in {each.name}")
            return
        if each.kind == "cell" and each.record["action"] == "python":
            cells.append(each.program)
            if "\n\n".join(cells).strip() == program.strip() and not view.full:
                yield styled(("code", LABEL), f" the cells up to turn {each.number}")
                return
    before = [(each.program, each.name) for each in of if each.kind == "program" and each.program is not None]
    yield from listing(program, "program", before[-1] if before else began_with(rollout), view)
