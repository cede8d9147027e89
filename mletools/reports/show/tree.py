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
HEADER = (
    *("node", "stage", "clock", "score", "selection", "gain", "test", "seconds", "USD", ""),
    "hypothesis; of a failed node, why",
)
LEFT = ("node", "stage", "test", "")
OPTIONAL = (
    "seconds",
    "stage",
    "USD",
    "gain",
    "clock",
    "selection",
)  # in the order in which narrow lines leave them out
CHOSEN, BEST = "chosen", "best"  # in a column of their own: no hypothesis can say it
WIDEST = 24  # characters of an operation, of a problem, of further parents
LONGEST_WHY = 80  # characters of the reason of a failure
ROOM = 10  # columns that a hypothesis should have, rather than a node's operation and further parents
READABLE = 20  # columns that it should have, rather than those that can be left out
_BLANK = re.compile(r"[ \t\n]+")
Drawn = tuple[str, Turn]  # the lines to the left of a node, and the node


def graph(rollout: Record, view: View, standing: str = "") -> Iterator["Text"]:
    """A search as lines without their ends: what it came to, its nodes, how to read them.

    standing: its state and what it has used of its budget, in a line.
    """
    if rollout.get("reveal_test"):
        yield revealed()
    of = turns(rollout)
    yield from folded([_root(rollout, of)], view)
    if standing:
        yield from folded([styled(standing)], view)
    if not of:
        return
    yield from _rows(rollout, of, view)
    direction = "lower" if lower_is_better(rollout) else "higher"
    printed = (rollout["search"].get("components") or {}).get("evaluation", {}).get("name") == "agent"
    selection = (
        "selection: on the selection rows, by which the choice is made; " if facts.selection_scores(rollout) else ""
    )
    legend = (
        f"clock: when it ended; * best score so far ({direction} is better), "
        f"{'as the programs print it' if printed else 'on the validation rows'}; {selection}gain over the parent, + is better; test: g(old), s(ilver), b(ronze); + 2: further parents"
    )
    yield from folded([styled((legend, DIM))], view)
    yield styled("")


def _best(of: Sequence[Turn]) -> Record | None:
    """The node with the best score."""
    return next((turn.node for turn in reversed(of) if turn.improved), None)


def _root(rollout: Record, of: Sequence[Turn]) -> "Text":
    best = _best(of)
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


def _rows(rollout: Record, of: Sequence[Turn], view: View) -> Iterator["Text"]:
    from rich.cells import cell_len

    lower, chosen, best = lower_is_better(rollout), rollout["search"].get("chosen"), _best(of)
    selection = facts.selection_scores(rollout)
    order = list(drawn(of, chosen))
    rows: list[dict[str, str]] = []
    for lead, turn in order:
        number = turn.node["number"]
        cells = _cells(turn, lower) | {
            "selection": facts.number(selection[number]) if number in selection else "",
            "": CHOSEN if number == chosen else BEST if best is not None and number == best["number"] else "",
        }
        rows.append({**cells, "node": lead + cells["node"], "words": _words(turn, view.width)})
    names = [name for name in HEADER[:-1] if any(row[name] for row in rows)]
    components = rollout["search"].get("components") or {}
    planned = components.get("planning", {}).get("name") != "none"
    if not planned or len({row["stage"] for row in rows}) == 1:
        names.remove("stage")
    widths = {name: max(cell_len(name), *(cell_len(row[name]) for row in rows)) for name in names}
    for name in OPTIONAL:
        if view.width - READABLE < sum(widths.values()) + 2 * len(widths):
            widths.pop(name, None)
    least = max(len(lead) + len(f"{turn.node['number']}") for lead, turn in order)
    others = sum(widths.values()) - widths["node"]
    widths["node"] = max(min(widths["node"], view.width - ROOM - others - 2 * len(widths)), least)
    head = {**{name: name for name in HEADER}, "words": HEADER[-1]}
    for row, drawn_turn in zip((head, *rows), (None, *(turn for _, turn in order)), strict=True):
        style = "bold" if drawn_turn is None else BAD if drawn_turn.record.get("problem") else ""
        medal = (_medal(drawn_turn) if drawn_turn else None) or ""
        styles = {"test": MEDALS.get(medal, style), "": "bold reverse" if row[""] == CHOSEN else "bold"}
        parts: list[tuple[str, str]] = []
        for name, width in widths.items():
            parts += [
                (padded(row[name], width, name in LEFT), styles.get(name, style) if row[name] else ""),
                ("  ", ""),
            ]
        line = styled(*parts, (row["words"], style))
        line.truncate(view.width, overflow="ellipsis")
        line.rstrip()
        yield line


def _cells(turn: Turn, lower: bool) -> dict[str, str]:
    """The cells of one node by column, but those that depend on the search as a whole."""
    node, action, problem = turn.node, turn.record["action"], turn.record.get("problem")
    score, more = node["score"], ", ".join(map(str, node["parents"][1:]))
    parent = turn.parent.node["score"] if turn.parent else None
    usd = (turn.record.get("usage") or {}).get("usd")
    return {
        "node": f"{node['number']} {_word(action)}" + (f" + {_word(more)}" if more else ""),
        "stage": _word(node.get("stage") or ""),
        "clock": facts.clock(node["elapsed_s"]),
        "score": _word(problem) if problem else facts.number(score) + ("*" if turn.improved else " "),
        "gain": "" if score is None or parent is None else f"{(parent - score if lower else score - parent):+.4g}",
        "test": (_medal(turn) or "")[:1],
        "seconds": f"{turn.record['duration_s']:.1f}",
        "USD": f"{usd:.2f}" if usd else "",
    }


def _words(turn: Turn, most: int) -> str:
    """What the last column says of a node: why it failed, what part of the program it changes, and how."""
    node, component = turn.node, turn.node.get("component")
    why = clipped(_in_one_line(node.get("why") or "", most), LONGEST_WHY)
    idea = _in_one_line(node["hypothesis"], most)
    idea = f"{_word(component)}: {idea}" if component else idea
    return f"{why} [{idea}]" if why else idea


def _in_one_line(text: str, most: int) -> str:
    return visible_line(_BLANK.sub(" ", text[: 4 * most])).strip()[:most]


def _medal(turn: Turn) -> str | None:
    medal = (turn.record.get("grade") or {}).get("medal")
    return medal if medal in MEDALS else None


def _word(text: str) -> str:
    return clipped(visible_line(text), WIDEST)
