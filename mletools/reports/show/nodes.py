"""A turn that is a node of a search: what was thought before its program, and what was learnt from it.

Not covered: its program, what that printed and its verdicts, which are shown as of any turn.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import facts
from .lines import GOOD, LABEL, View, block, folded, styled

if TYPE_CHECKING:
    from rich.text import Text

Record = Mapping[str, Any]
SAID, BRIEF = (30, 10), (4, 2)  # first and last lines that are shown


def thought(node: Record, view: View) -> Iterator["Text"]:
    """Its place in the graph, its hypothesis and where that came from, and the runs ahead of the last."""
    parents = f"from {_numbers(node['parents'])}" if node["parents"] else "from nothing"
    places = (f"{name} {node[name]}" for name in ("branch", "depth", "round", "stage") if node.get(name) is not None)
    repairs = f", repair {node['repairs']}" if node.get("repairs") else ""
    place = f" {node['number']} {parents}, {', '.join(places)}{repairs}"
    yield from folded([styled(("node", LABEL), place)], view)
    if node.get("challenges"):
        yield styled(("challenges", LABEL))
        for text in node["challenges"]:
            yield from block(f"- {text}", view, ends=BRIEF, words=True)
    how = f", {node['action']}" if node.get("action") else ""
    yield from folded([styled(("hypothesis", LABEL), f"{_about(node)}{how}")], view)
    yield from block(node["hypothesis"], view, ends=SAID, words=True)
    if node.get("challenge"):
        yield from folded([styled(("against the challenge", LABEL))], view)
        yield from block(node["challenge"], view, ends=BRIEF, words=True)
    considered = node.get("considered") or ()
    if considered:
        yield styled(("considered", LABEL), f" {len(considered)}")
    for each in considered:
        yield from folded([styled(f" {_about(each)}")], view)
        yield from block(each["text"], view, ends=BRIEF, words=True)
    if node.get("recalled"):
        yield from folded([styled(("recalled", LABEL), f" {_numbers(node['recalled'])}")], view)
    yield from folded((_trial(trial) for trial in node.get("trials") or ()), view)


def learnt(node: Record, view: View) -> Iterator["Text"]:
    """What the search goes by, the lesson, and what the node cost by phase."""
    if node.get("why"):
        yield styled(("why not", LABEL))
        yield from block(node["why"], view, ends=SAID, words=True)
    yield styled(("score", LABEL), " ", (facts.number(node["score"]), "bold"))
    if node.get("lesson"):
        yield styled(("lesson", LABEL))
        yield from block(node["lesson"], view, ends=SAID, words=True)
    yield from folded(
        (styled((str(phase), LABEL), f" {facts.spent(used)}") for phase, used in (node.get("cost") or {}).items()), view
    )


def _about(hypothesis: Record) -> str:
    """` [Model] impact 7, novelty 3`"""
    scores = ", ".join(
        f"{axis.replace('_', ' ')} {value:g}" for axis, value in (hypothesis.get("scores") or {}).items()
    )
    component = hypothesis.get("component")
    return (f" [{component}]" if component else "") + (f" {scores}" if scores else "")


def _trial(trial: Record) -> "Text":
    what = "debug run" if trial.get("debug") else "run"
    status, problem = trial.get("status"), trial.get("problem")
    estimated, took = trial.get("estimated_s"), trial.get("duration_s")
    more = "" if took is None else f", {took:.1f} s"
    more += "" if estimated is None else f", the whole would take {estimated:.1f} s"
    more += f", {problem}" if problem else ""
    style = GOOD if status == "ok" and not problem else "yellow"
    return styled((what, LABEL), " ", (str(status), style), more)


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
