"""The top of a rollout: what it is and what it came to, and a line for each turn; rollouts as a table, a line each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ...base.columns import blocks
from ...base.visible import visible_line
from ...records.rollout import Rollout
from ..turns import Turn
from ..usage import AFTERWARDS, by_role
from . import facts
from .lines import BAD, DIM, GOOD, LABEL, LOUD, View, block, count, folded, styled
from .visible import shortened

if TYPE_CHECKING:
    from rich.text import Text

Record = Mapping[str, Any]
NAME = 11  # columns of a fact's name
WIDEST = 60  # characters of a cell
SHORT_ID = 8  # characters of an id on a narrow terminal, enough for --id
REVEALED = "!"
MEDALS = {"gold": "bold yellow", "silver": "bold white", "bronze": "yellow"}
STOPPED = {
    "length": "its answer was cut off, or its tokens are used up",
    "format": "its answer is not in the required form",
    "max_turns": "no turns left",
    "context": "the context is full",
    "timeout": "the episode's time is over",
    "budget": "its USD budget is used up",
    "asked": "a state, from which other work begins",
    "running": "this is what its graph holds so far",  # these two of a search whose graph is read, in no record
    "interrupted": "--resume of its command goes on",
}

STILL_COUNTS = "the program that could be read counts"


def header(rollout: Record, of: Sequence[Turn], view: View) -> Iterator["Text"]:
    """The facts about all of it, each on its line, and the table of its turns."""
    yield from folded(_all_facts(rollout), view, NAME)
    if view.full and rollout.get("settings"):
        yield from block("settings " + _options(rollout["settings"])[2:], view, DIM, words=True)
    if table := overview(rollout, of, view.width):
        yield styled("")
        yield from table


def _all_facts(rollout: Record) -> Iterator["Text"]:
    task, policy = rollout["task"], rollout["policy"]
    if rollout.get("reveal_test"):
        yield revealed()
    direction = "lower" if task["metric"]["lower_is_better"] else "higher"
    metric = task["metric"].get("name", "a metric that is code")
    yield fact("task", f"{facts.task_name(rollout)} ({task['id']}), {metric}, {direction} is better")
    version = "" if policy["version"] is None else f" version {policy['version']}"
    trace = f", trace {rollout['trace']}" if "trace" in rollout else ""
    yield fact("agent", f"{rollout['scaffold']}{trace}: {policy['model']}{version}{_options(policy['sampling'])}")
    yield fact(
        "run",
        f"group {rollout['group']}, sample {rollout['sample']} of {rollout['group_size']}, seed {rollout['seed']}",
    )
    yield from _began(rollout)
    reason = rollout["stop_reason"]
    why = f" ({STOPPED[reason]}{_counts_still(rollout)})" if reason in STOPPED else ""
    rate = f", format rate {rollout['format_rate']:.0%}" if "format_rate" in rollout else ""
    good = GOOD if reason == "finished" else "bold yellow"
    length = count(len(rollout["turns"]), "node" if rollout.get("search") else "turn")
    yield fact("stopped", (f"{reason}{why}", good), f" after {length}{rate}")
    if rollout.get("search"):
        yield from _searched(rollout["search"])
    yield from _came_to(rollout)
    yield fact("cost", facts.spent(rollout["usage"], facts.seconds(rollout)))
    roles = by_role(cast(Rollout, rollout))
    for role, used in roles.items() if len(roles) > 1 else ():
        after = f" ({AFTERWARDS[role]}, not in the above)" if role in AFTERWARDS else ""
        yield fact("", f"{role}: {facts.spent(used)}{after}")


def _counts_still(rollout: Record) -> str:
    """That a rollout has a result though its last answer had the wrong form."""
    some = rollout["code"] is not None or (rollout.get("execution") or {}).get("submission")
    return f"; {STILL_COUNTS}" if rollout["stop_reason"] == "format" and some else ""


def revealed() -> "Text":
    """That the agent knew its test scores."""
    return styled((" THE AGENT WAS SHOWN TEST SCORES ", LOUD), (" its grade is no fair measure (reveal_test)", BAD))


def fact(name: str, *parts: str | tuple[str, str]) -> "Text":
    """A line of a name and a value, which stands NAME columns to the right."""
    return styled((f"{name:<{NAME}}", LABEL), *parts)


def _options(options: Record) -> str:
    return "".join(f", {key} {value}" for key, value in options.items() if value is not None)


def _began(rollout: Record) -> Iterator["Text"]:
    """Where it took up the work."""
    state = rollout.get("state")
    if not state:
        return
    score, validation = (facts.number(state.get(name)) for name in ("score", "validation"))
    turn = f" turn {state['turn'] + 1}" if "turn" in state else ""
    origin = f", from rollout {state['rollout']}{turn}" if "rollout" in state else ""
    yield fact("began with", f"a solution of validation {validation}, test {score}{origin}")


def _searched(search: Record) -> Iterator["Text"]:
    """What a search was made of, what it chose and among what, and what its phases cost."""
    parts = [f"{kind} {part.get('name')}" for kind, part in (search.get("components") or {}).items()]
    yield fact("search", f"{search.get('preset') or 'components of its own'}: {', '.join(parts)}")
    if asked := search.get("evaluation_asked"):
        yield fact("", f"evaluation agent in place of {asked}: no rows could be held out")
    budget = {name: value for name, value in (search.get("budget") or {}).items() if value is not None}
    clock = f" ({search['clock']} clock)" if "clock" in search else ""
    took = "" if search.get("elapsed_s") is None else f", {search['elapsed_s']:.1f} s used{clock}"
    yield fact("budget", (_options(budget)[2:] or "none") + took)
    if taken := search.get("taken_over"):
        yield fact("", f"began with {taken} nodes of another graph")
    if ended := search.get("ended"):
        yield fact("ended", facts.ENDS[ended])
    number = search.get("chosen")
    yield fact("chosen", ("none" if number is None else f"node {number}", "bold"), f": {search.get('how') or '-'}")
    for each in search.get("candidates") or ():
        score, holdout = facts.number(each.get("score")), each.get("holdout")
        again = "" if holdout is None else f", on the selection rows {facts.number(holdout)}"
        yield fact("", f"node {each.get('node')}: {score}{again}")
    if members := search.get("ensemble"):
        yield fact("handed in", f"an ensemble of the submissions of nodes {', '.join(map(str, members))}")
    for phase, used in (search.get("cost") or {}).items():
        yield fact(phase, facts.spent(used))
    for name, words in (("lenient", "answers read leniently"), ("fallbacks", "answers replaced")):
        if counts := search.get(name):
            yield fact(name, f"{words}: ", ", ".join(f"{question} {count}" for question, count in counts.items()))


def _came_to(rollout: Record) -> Iterator["Text"]:
    """Validation, grade, reward and what a filter said of it."""
    if "validation" in rollout:
        yield fact("validation", facts.validated(rollout["validation"]))
    grade = rollout.get("grade")
    if grade:
        yield fact("grade", *graded(grade, rank_of(rollout)))
        if grade["valid"] and grade.get("score") is not None and grade.get("thresholds"):
            yield fact("", *ladder(grade))
    if "reward" in rollout:
        made = ((grade or {}).get("reward")) or {}
        yield fact("reward", (facts.number(rollout["reward"]), "bold"), _options(made).replace(", ", " by ", 1))
    dropped = rollout.get("filter")
    if dropped and not dropped["kept"]:
        yield fact("filter", ("dropped", BAD), f": {dropped['reason']}")


def rank_of(rollout: Record) -> str:
    """What the human rank of its task is called: some leaderboards hold the scores of baselines, not people's."""
    return "rank vs baselines" if rollout["task"]["provenance"].get("baselines") else "human rank"


def graded(grade: Record, rank: str) -> Iterator[str | tuple[str, str]]:
    """A verdict as parts of a line: score, medal, place. rank: what its human rank is called."""
    if not grade["valid"]:
        yield from (("invalid", BAD), f": {grade.get('reason')}")
        return
    yield (facts.number(grade.get("score")), "bold")
    medal = grade.get("medal")
    if medal:
        yield from (" ", (medal, MEDALS.get(medal, "")))
    yield ", above the median" if grade.get("above_median") else ", not above the median"
    if grade.get("position") is not None:
        yield f", position {grade['position']}" + (f" of {grade['teams']}" if grade.get("teams") else "")
    if grade.get("human_rank") is not None:
        yield f", {rank} {grade['human_rank']:.3f}"


def ladder(grade: Record) -> Iterator[str | tuple[str, str]]:
    """The thresholds from worst to best, with the score where it belongs: after those that it reaches."""
    sign = -1 if grade["lower_is_better"] else 1
    rungs = sorted(grade["thresholds"].items(), key=lambda rung: sign * rung[1])
    reached = sum(sign * grade["score"] >= sign * value for _, value in rungs)
    parts: list[str | tuple[str, str]] = [f"{name} {facts.number(value)}" for name, value in rungs]
    parts.insert(reached, (f"[{facts.number(grade['score'])}]", "bold reverse"))
    for at, part in enumerate(parts):
        yield from (" → " if at else "", part)


# --- tables: the turns of a rollout, and rollouts -------------------------------------------------------------------


def overview(rollout: Record, turns: Sequence[Turn], room: int) -> list["Text"]:
    """A table with a line for each turn, without empty columns; nothing for a rollout of one."""
    if len(turns) < 2:
        return []
    columns: dict[str, list[str]] = {}
    for turn in turns:
        record, node = turn.record, turn.node
        cells = {
            "turn": "-" if node else str(turn.number),
            "node": str(node.get("number", "-")),
            "parents": ", ".join(map(str, node.get("parents") or ())) or "-",
            "action": record["action"],
            "status": str(record.get("problem") or (turn.ran["status"] if turn.ran else "-")),
            "score": facts.number(node.get("score")),
            "validation": facts.shown_score(record.get("validation")),
            "best so far": facts.number(turn.best),
            "test" if rollout.get("reveal_test") else "test (hidden)": facts.shown_score(record.get("grade")),
            "tokens": facts.tokens(record.get("usage")),
            "seconds": f"{record['duration_s']:.1f}",
            "USD": facts.usd(record.get("usage")),
        }
        for name, cell in cells.items():
            columns.setdefault(name, []).append(cell)
    said = zip(columns["validation"], columns["score"], strict=True) if rollout.get("search") else ()
    if said and all(told in (score, "-", "invalid") for told, score in said):
        del columns["validation"]  # of a search by these scores
    filled = {name: cells for name, cells in columns.items() if any(cell != "-" for cell in cells)}
    return aligned(list(filled), list(zip(*filled.values(), strict=True)), ("action", "status", "parents"), room)


def row(rollout: Record) -> dict[str, str]:
    """The cells of a rollout by column; a score has an exclamation mark where the agent was shown test scores."""
    grade = rollout.get("grade")
    return {
        "id": rollout["id"],
        "task": facts.task_name(rollout),
        "scaffold": rollout["scaffold"],
        "turns": str(len(rollout["turns"])),
        "stopped": rollout["stop_reason"],
        "status": (rollout.get("execution") or {}).get("status", "-"),
        "validation": facts.shown_score(rollout.get("validation")),
        "score": facts.shown_score(grade) + (REVEALED if rollout.get("reveal_test") else ""),
        "medal": (grade or {}).get("medal") or "-",
        "reward": facts.number(rollout.get("reward")),
        "tokens": facts.tokens(rollout["usage"]),
        "USD": facts.usd(rollout["usage"]),
        "seconds": f"{facts.seconds(rollout):.1f}",
    }


def table(rows: Sequence[Mapping[str, str]], room: int | None = None) -> list["Text"]:
    """Rollouts, or tasks, a line each, under the names of the columns; nothing without rows.

    Where a `room` is too narrow, ids are shortened, and what all rollouts share stands in a line of its own.
    """
    if not rows:
        return []
    left = ("id", "task", "scaffold", "stopped", "status", "medal", "modality", "problem", "metric", "better")
    marked = any(row.get("score", "").endswith(REVEALED) for row in rows)
    names, shared = list(rows[0]), ""
    lines = aligned(names, [list(row.values()) for row in rows], left)
    if room is not None and max(line.cell_len for line in lines) > room:
        begin = {row["id"][:SHORT_ID] for row in rows}
        if len(begin) == len(rows):
            rows = [{**row, "id": row["id"][:SHORT_ID]} for row in rows]
        same = [name for name in names if name != "id" and len({row[name] for row in rows}) == 1] if rows[1:] else []
        shared = ", ".join(f"{name} {rows[0][name]}" for name in same if rows[0][name] != "-")
        names = [name for name in names if name not in same and any(row[name] != "-" for row in rows)]
        lines = aligned(names, [[row[name] for name in names] for row in rows], left, room)
    if shared:
        lines = [styled((f"all: {shared}", DIM)), *lines]
    if any(row.get("stopped") == "format" and row["score"] not in ("-", "invalid") for row in rows):
        lines.append(styled((f"stopped format: the last answer is not in the required form; {STILL_COUNTS}", DIM)))
    if marked:
        lines.append(styled((f"{REVEALED} the agent was shown test scores", BAD)))
    return lines


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str], room: int | None = None
) -> list["Text"]:
    """Columns under their names, numbers to the right; in blocks that repeat the first column where `room` is narrow."""
    from rich.cells import cell_len

    cells = [[shortened(visible_line(cell), WIDEST) for cell in row] for row in (header, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    lines: list[Text] = []
    for part in blocks(header, widths, 1, room):
        if lines:
            lines.append(styled(""))
        for at, row in enumerate(cells):
            line = "  ".join(padded(row[column], widths[column], header[column] in left) for column in part)
            style = "bold" if at == 0 else BAD if "invalid" in row or "error" in row else ""
            lines.append(styled((line.rstrip(), style)))
    return lines


def padded(cell: str, width: int, left: bool) -> str:
    """The cell in `width` columns, cut to them if it is aligned to the left."""
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(cell, width) if left else " " * (width - cell_len(cell)) + cell
