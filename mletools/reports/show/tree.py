"""The exploration graph of a search, a line a node, in at most a few columns of lines however deep or wide it is.

A node stands below the one that it was made from. Of several that were made from one, that which leads to the chosen
node, or else has most below it, goes straight on; the others leave the line to the right. So a chain of hundreds needs no
more room than one node (an indentation a generation, as rich.tree draws, loses what is deeper than the terminal is wide).
Not covered: what a node tried, wrote and printed (turns).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...base.visible import visible_line
from ..turns import Turn, lower_is_better, turns
from . import facts
from .header import MEDALS, padded, revealed
from .lines import BAD, DIM, LABEL, View, count, folded, styled
from .visible import clipped

if TYPE_CHECKING:
    from rich.text import Text

Record = Mapping[str, Any]
HEADER = ("node", "score", "gain", "test", "seconds", "", "hypothesis")
LEFT = ("node", "test", "")
CHOSEN = "chosen"  # in a column of its own: no hypothesis can say it
WIDEST = 24  # characters of an operation, of a problem, of further parents
ROOM = 10  # columns that a hypothesis should have, rather than a node's operation and further parents
_BLANK = re.compile(r"[ \t\n]+")
Drawn = tuple[str, Turn]  # the lines to the left of a node, and the node


def graph(rollout: Record, view: View) -> Iterator["Text"]:
    """A search as lines without their ends: what it came to, its nodes, how to read them."""
    if rollout.get("reveal_test"):
        yield revealed()
    of = turns(rollout)
    yield from folded([_root(rollout, of)], view)
    if not of:
        return
    yield from _rows(rollout, list(drawn(of, rollout["search"].get("chosen"))), view)
    direction = "lower" if lower_is_better(rollout) else "higher"
    legend = (
        f"* best score so far ({direction} is better); gain over the parent, + is better; "
        "test: g(old), s(ilver), b(ronze); + 2: further parents"
    )
    yield from folded([styled((legend, DIM))], view)
    yield styled("")


def _root(rollout: Record, of: Sequence[Turn]) -> "Text":
    best = next((turn.node for turn in reversed(of) if turn.improved), None)
    numbered = {turn.node["number"]: turn.node for turn in of}
    chosen = rollout["search"].get("chosen")
    parts: list[str | tuple[str, str]] = [(f"{facts.task_name(rollout)}", LABEL), f" {rollout['id']}: "]
    parts.append(f"{rollout['search'].get('preset') or 'components of its own'}, {count(len(numbered), 'node')}, ")
    parts.append("none has a score" if best is None else f"best {best['number']} ({facts.number(best['score'])}), ")
    if chosen in numbered:
        parts.append((f"chosen {chosen} ({facts.number(numbered[chosen]['score'])})", "bold"))
    else:
        parts.append((", " if best is None else "") + "none chosen")
    return styled(*parts)


# --- the lines ------------------------------------------------------------------------------------------------------


def drawn(of: Sequence[Turn], chosen: Any) -> Iterator[Drawn]:
    """The nodes in the order of their lines. With n nodes, one is at most log2(n) + 1 lines to the right."""
    children: dict[int | None, list[Turn]] = defaultdict(list)  # by the parent's turn; None: the drafts
    for turn in of:
        children[turn.parent.number if turn.parent else None].append(turn)
    below: Counter[int] = Counter()
    for turn in reversed(of):  # a parent stands before its children
        below[turn.number] = 1 + sum(below[child.number] for child in children[turn.number])
    leading = set()  # the chosen node and all that it descends from
    ancestor = next((turn for turn in of if turn.node["number"] == chosen), None)
    while ancestor is not None:
        leading.add(ancestor.number)
        ancestor = ancestor.parent
    # lines left of the node, lines left of those below it, the node
    todo = [("┌ " if children[turn.number] else "─ ", "", turn) for turn in reversed(children[None])]
    while todo:
        lead, guide, turn = todo.pop()
        yield lead, turn
        if further := children[turn.number]:
            main = max(further, key=lambda child: (child.number in leading, below[child.number], -child.number))
            todo.append((guide + ("├ " if children[main.number] else "└ "), guide, main))
            for side in reversed([child for child in further if child is not main]):
                todo.append((guide + ("├─┬ " if children[side.number] else "├── "), guide + "│ ", side))


# --- a line a node --------------------------------------------------------------------------------------------------


def _rows(rollout: Record, order: Sequence[Drawn], view: View) -> Iterator["Text"]:
    from rich.cells import cell_len

    lower, chosen = lower_is_better(rollout), rollout["search"].get("chosen")
    rows: list[tuple[str, ...]] = [HEADER]
    for lead, turn in order:
        mark = CHOSEN if turn.node["number"] == chosen else ""
        label, score, gain = _cells(turn, lower)
        words = visible_line(_BLANK.sub(" ", turn.node["hypothesis"][: 4 * view.width])).strip()
        medal, seconds = (_medal(turn) or "")[:1], f"{turn.record['duration_s']:.1f}"
        rows.append((lead + label, score, gain, medal, seconds, mark, words[: view.width]))
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)][:-1]
    least = max(len(lead) + len(f"{turn.node['number']}") for lead, turn in order)
    widths[0] = max(min(widths[0], view.width - ROOM - sum(widths[1:]) - 2 * len(widths)), least)
    for row, drawn_turn in zip(rows, (None, *(turn for _, turn in order)), strict=True):
        style = "bold" if drawn_turn is None else BAD if drawn_turn.record.get("problem") else ""
        medal = (_medal(drawn_turn) if drawn_turn else None) or ""
        styles = {"test": MEDALS.get(medal, style), "": "bold reverse"}
        parts: list[tuple[str, str]] = []
        for name, cell, width in zip(HEADER, row, widths, strict=False):
            if width:
                parts += [(padded(cell, width, name in LEFT), styles.get(name, style) if cell else ""), ("  ", "")]
        line = styled(*parts, (row[-1], style))
        line.truncate(view.width, overflow="ellipsis")
        line.rstrip()
        yield line


def _cells(turn: Turn, lower: bool) -> tuple[str, str, str]:
    """Of one node: what it is, its score or problem, the gain over its first parent."""
    node, action, problem = turn.node, turn.record["action"], turn.record.get("problem")
    score, more = node["score"], ", ".join(map(str, node["parents"][1:]))
    parent = turn.parent.node["score"] if turn.parent else None
    label = f"{node['number']} {_word(action)}" + (f" + {_word(more)}" if more else "")
    words = _word(problem) if problem else facts.number(score) + ("*" if turn.improved else " ")
    gain = "" if score is None or parent is None else f"{(parent - score if lower else score - parent):+.4g}"
    return label, words, gain


def _medal(turn: Turn) -> str | None:
    medal = (turn.record.get("grade") or {}).get("medal")
    return medal if medal in MEDALS else None


def _word(text: str) -> str:
    return clipped(visible_line(text), WIDEST)
