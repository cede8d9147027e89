"""The exploration graph of a search, a line a node, in at most a few columns of lines however deep or wide it is.

A node stands below the one that it was made from. Of several that were made from one, that which leads to the chosen
node, or else has most below it, goes straight on; the others leave the line to the right. So a chain of hundreds needs no
more room than one node (an indentation a generation, as rich.tree draws, loses what is deeper than the terminal is wide).
Not covered: what a node tried, wrote and printed (turns).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..turns import lower_is_better, turns
from . import facts
from .header import MEDALS, padded, revealed
from .lines import BAD, DIM, LABEL, View, count, folded, styled
from .visible import visible_line

if TYPE_CHECKING:
    from rich.text import Text

Record = Mapping[str, Any]
HEADER = ("node", "score", "gain", "test", "seconds", "", "hypothesis")
LEFT = ("node", "test", "")
CHOSEN = "chosen"  # in a column of its own: no hypothesis can say it
WIDEST = 24  # characters of an operation, of a problem, of further parents
ROOM = 10  # columns that a hypothesis should have, rather than a node's operation and further parents
_BLANK = re.compile(r"[ \t\n]+")
Drawn = tuple[str, int]  # the lines to the left of a node, and its place in turns


def graph(rollout: Record, view: View) -> Iterator["Text"]:
    """A search as lines without their ends: what it came to, its nodes, how to read them."""
    if rollout.get("reveal_test"):
        yield revealed()
    yield from folded([_root(rollout)], view)
    if not rollout["turns"]:
        return
    yield from _rows(rollout, list(drawn(rollout)), [turn.improved for turn in turns(rollout)], view)
    direction = "lower" if lower_is_better(rollout) else "higher"
    legend = (
        f"* best score so far ({direction} is better); gain over the parent, + is better; "
        "test: g(old), s(ilver), b(ronze); + 2: further parents"
    )
    yield from folded([styled((legend, DIM))], view)
    yield styled("")


def _root(rollout: Record) -> "Text":
    best = next((turn.record["node"] for turn in reversed(turns(rollout)) if turn.improved), None)
    numbered = {turn["node"]["number"]: turn for turn in rollout["turns"]}
    chosen = rollout["search"].get("chosen")
    parts: list[str | tuple[str, str]] = [(f"{facts.task_name(rollout)}", LABEL), f" {rollout['id']}: "]
    parts.append(f"{rollout['search'].get('preset') or 'components of its own'}, {count(len(numbered), 'node')}, ")
    parts.append("none has a score" if best is None else f"best {best['number']} ({facts.number(best['score'])}), ")
    if chosen in numbered:
        parts.append((f"chosen {chosen} ({facts.number(numbered[chosen]['node']['score'])})", "bold"))
    else:
        parts.append((", " if best is None else "") + "none chosen")
    return styled(*parts)


# --- the lines ------------------------------------------------------------------------------------------------------


def first_parents(records: Sequence[Record]) -> list[int | None]:
    """Of each node the place of its first parent; None of a draft, and where the parent is not among the turns before."""
    places: dict[Any, int] = {}
    found = []
    for at, turn in enumerate(records):
        parents = turn["node"]["parents"]
        found.append(places.get(parents[0]) if parents else None)
        places.setdefault(turn["node"]["number"], at)
    return found


def drawn(rollout: Record) -> Iterator[Drawn]:
    """The nodes in the order of their lines. With n nodes, one is at most log2(n) + 1 lines to the right."""
    nodes = rollout["turns"]
    parents = first_parents(nodes)
    children: list[list[int]] = [[] for _ in nodes]
    for at, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(at)
    below = [1] * len(nodes)
    for at in reversed(range(len(nodes))):  # a parent stands before its children
        parent = parents[at]
        if parent is not None:
            below[parent] += below[at]
    chosen = _line_of(rollout["search"].get("chosen"), nodes, parents)
    drafts = [at for at, parent in enumerate(parents) if parent is None]
    # lines left of the node, lines left of those below it, its place
    todo = [("┌ " if children[at] else "─ ", "", at) for at in reversed(drafts)]
    while todo:
        lead, guide, at = todo.pop()
        yield lead, at
        if children[at]:
            main = max(children[at], key=lambda child: (child in chosen, below[child], -child))
            todo.append((guide + ("├ " if children[main] else "└ "), guide, main))
            for side in reversed([child for child in children[at] if child != main]):
                todo.append((guide + ("├─┬ " if children[side] else "├── "), guide + "│ ", side))


def _line_of(number: Any, nodes: Sequence[Record], parents: Sequence[int | None]) -> set[int]:
    """The places of the node with this number and of all that it descends from, along first parents."""
    at = next((at for at, turn in enumerate(nodes) if turn["node"]["number"] == number), None)
    found: set[int] = set()
    while at is not None:
        found.add(at)
        at = parents[at]
    return found


# --- a line a node --------------------------------------------------------------------------------------------------


def _rows(rollout: Record, order: Sequence[Drawn], improved: Sequence[bool], view: View) -> Iterator["Text"]:
    from rich.cells import cell_len

    nodes, parents, lower = rollout["turns"], first_parents(rollout["turns"]), lower_is_better(rollout)
    chosen = rollout["search"].get("chosen")
    rows: list[tuple[str, ...]] = [HEADER]
    for lead, at in order:
        place, mark = parents[at], CHOSEN if nodes[at]["node"]["number"] == chosen else ""
        parent = None if place is None else nodes[place]["node"]["score"]
        label, score, gain = _cells(nodes[at], improved[at], parent, lower)
        words = visible_line(_BLANK.sub(" ", nodes[at]["node"]["hypothesis"][: 4 * view.width])).strip()
        medal, seconds = (_medal(nodes[at]) or "")[:1], f"{nodes[at]['duration_s']:.1f}"
        rows.append((lead + label, score, gain, medal, seconds, mark, words[: view.width]))
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)][:-1]
    least = max(len(lead) + len(f"{nodes[at]['node']['number']}") for lead, at in order)
    widths[0] = max(min(widths[0], view.width - ROOM - sum(widths[1:]) - 2 * len(widths)), least)
    for number, row in enumerate(rows):
        turn = nodes[order[number - 1][1]] if number else None
        style = "bold" if turn is None else BAD if turn.get("problem") else ""
        styles = {"test": MEDALS.get(_medal(turn) or "", style) if turn else style, "": "bold reverse"}
        parts: list[tuple[str, str]] = []
        for name, cell, width in zip(HEADER, row, widths, strict=False):
            if width:
                parts += [(padded(cell, width, name in LEFT), styles.get(name, style) if cell else ""), ("  ", "")]
        line = styled(*parts, (row[-1], style))
        line.truncate(view.width, overflow="ellipsis")
        line.rstrip()
        yield line


def _cells(turn: Record, better: bool, parent: float | None, lower: bool) -> tuple[str, str, str]:
    """Of one node: what it is, its score or problem, the gain over its first parent, whose score is `parent`."""
    node = turn["node"]
    score, more = node["score"], ", ".join(map(str, node["parents"][1:]))
    label = f"{node['number']} {_word(turn['action'])}" + (f" + {_word(more)}" if more else "")
    words = _word(turn["problem"]) if turn.get("problem") else facts.number(score) + ("*" if better else " ")
    gain = "" if score is None or parent is None else f"{(parent - score if lower else score - parent):+.4g}"
    return label, words, gain


def _medal(turn: Record) -> str | None:
    medal = (turn.get("grade") or {}).get("medal")
    return medal if medal in MEDALS else None


def _word(text: str) -> str:
    text = visible_line(text)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"
