"""All of a rollout, line by line: the top, its turns, what came after them, and what was handed in."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..turns import Turn, runs_after, turns
from . import facts
from .header import graded, header, overview
from .lines import LABEL, View, folded, rule, styled
from .turns import described, executed, listing, seen, turn

if TYPE_CHECKING:
    from rich.text import Text

Record = Mapping[str, Any]


def lines(rollout: Record, view: View) -> Iterator["Text"]:
    """The rollout (a valid record) as lines without their ends; turns that `view` leaves out are compared with still."""
    yield from header(rollout, view)
    of = turns(rollout)
    table = overview(rollout, of)
    if table:
        yield styled("")
        yield from table
    if rollout.get("search") and not view.turns:
        yield from _apart(_question(rollout, view))
    before: dict[str, tuple[str, str]] = {}
    nodes: dict[int, tuple[str, str]] = {}
    state = rollout.get("state") or {}
    if state.get("code"):
        before["program"] = (state["code"], "the solution that it began with")
    for each in of:
        if not view.turns or each.number in view.turns:
            yield styled("")
            yield from turn(rollout, each, _compared(each.record, before, nodes), view)
        if each.program is not None:
            before[each.kind] = (each.program, f"turn {each.number}")
            if "node" in each.record:
                nodes[each.record["node"]["number"]] = (each.program, f"turn {each.number}, its parent")
    written_last = bool(of) and runs_after(rollout)
    if written_last and (not view.turns or len(rollout["turns"]) in view.turns):
        yield from folded(_judged(rollout, view), view)
    if not view.turns:
        yield from _apart(folded(_after(rollout, of, view), view))
        yield from _apart(folded(_ideas(rollout, view), view))
        if not written_last:
            yield from _apart(_handed_in(rollout, of, before, view))
    yield styled("")


def _compared(
    record: Record, before: Mapping[str, tuple[str, str]], nodes: Mapping[int, tuple[str, str]]
) -> Mapping[str, tuple[str, str]]:
    """What a turn's program is compared with: the last of its kind; of a node, its first parent's program."""
    if "node" not in record:
        return before
    parent = nodes.get(record["node"]["parents"][0]) if record["node"]["parents"] else None
    return {} if parent is None else {"program": parent}


def _question(rollout: Record, view: View) -> Iterator["Text"]:
    """What a search was asked: no turn has the messages that its nodes were thought of in."""
    yield rule("the task", view)
    for message in rollout["messages"]:
        yield from seen(message, view)


def _apart(part: Iterator["Text"]) -> Iterator["Text"]:
    """The lines with an empty one before them, if there are any."""
    first = next(part, None)
    if first is not None:
        yield styled("")
        yield first
        yield from part


def _after(rollout: Record, of: Sequence[Turn], view: View) -> Iterator["Text"]:
    """Messages that no turn of the policy answers, and the question that a state ends in."""
    last = max((turn.message for turn in of if turn.message is not None), default=-1)
    messages = [] if rollout.get("search") else rollout["messages"][last + 1 :]
    query = (rollout.get("state") or {}).get("query")
    if messages or query:
        yield rule("after the last turn" if rollout["turns"] else "messages", view)
    for message in messages:
        yield from seen(message, view)
    if query:
        yield styled(("the implementer asked", LABEL))
        yield from described(query, view)


def _ideas(rollout: Record, view: View) -> Iterator["Text"]:
    """Of the scaffold idea: the idea, and who carried it out."""
    if "idea" in rollout:
        yield rule("the idea", view)
        if rollout["idea"] is None:
            yield styled(("none: the answer is not in the format", "bold red"))
        else:
            yield from described(rollout["idea"], view)
    implementer = rollout.get("implementer")
    if implementer:
        name = f"the implementer: {implementer.get('model')}"
        tokens = facts.tokens(implementer.get("usage"))
        yield rule(name, view, after="" if tokens == "-" else f"{tokens} tokens")
        for message in implementer.get("messages") or ():
            yield from seen(message, view)


def _handed_in(
    rollout: Record, of: Sequence[Turn], before: Mapping[str, tuple[str, str]], view: View
) -> Iterator["Text"]:
    """The program at the top of the record, and what came of it."""
    program = rollout["code"]
    if program is None and not rollout.get("execution") and not rollout.get("grade"):
        return
    yield rule("what was handed in", view)
    if program is not None:
        yield from _same_or_listed(of, program, before, view)
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
        yield styled(("grade", LABEL), " ", *graded(grade))


def _same_or_listed(
    of: Sequence[Turn], program: str, before: Mapping[str, tuple[str, str]], view: View
) -> Iterator["Text"]:
    cells: list[str] = []
    for each in of:
        if each.program is None:
            continue
        if each.program.strip() == program.strip():
            yield styled(("code", LABEL), f" as in turn {each.number}")
            return
        if each.kind == "cell" and each.record["action"] == "python":
            cells.append(each.program)
            if "\n\n".join(cells).strip() == program.strip() and not view.full:
                yield styled(("code", LABEL), f" the cells up to turn {each.number}")
                return
    yield from listing(program, "program", before, view)
