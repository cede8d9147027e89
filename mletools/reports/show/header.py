"""The top of a rollout: what it is and what it came to, and a line for each turn, so that progress is seen at a glance."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..turns import Turn
from ..usage import AFTERWARDS, by_role
from . import facts
from .lines import BAD, DIM, GOOD, LABEL, LOUD, View, block, count, folded, rule, styled
from .visible import shortened, visible_line

if TYPE_CHECKING:
    from rich.text import Text

Record = Mapping[str, Any]
WIDEST = 60  # characters of a cell
MEDALS = {"gold": "bold yellow", "silver": "bold white", "bronze": "yellow"}
STOPPED = {
    "length": "its answer was cut off, or its tokens are used up",
    "format": "its answer cannot be read",
    "max_turns": "no turns left",
    "context": "the context is full",
    "timeout": "the episode's time is over",
    "budget": "its USD budget is used up",
    "asked": "a state: it ends in a question to an ideator",
}


def header(rollout: Record, view: View) -> Iterator["Text"]:
    """The heading, and the facts about all of it, each on its line."""
    yield rule(f"rollout {rollout['id']}", view, "bold reverse")
    yield from folded(_all_facts(rollout), view)
    if view.full and rollout.get("settings"):
        yield from block("settings " + _options(rollout["settings"])[2:], view, DIM, words=True)


def _all_facts(rollout: Record) -> Iterator["Text"]:
    task, policy = rollout["task"], rollout["policy"]
    if rollout.get("reveal_test"):
        yield revealed()
    direction = "lower" if task["metric"]["lower_is_better"] else "higher"
    metric = task["metric"].get("name", "a metric that is code")
    yield _fact("task", f"{facts.task_name(rollout)} ({task['id']}), {metric}, {direction} is better")
    version = "" if policy["version"] is None else f" version {policy['version']}"
    trace = f", trace {rollout['trace']}" if "trace" in rollout else ""
    yield _fact("agent", f"{rollout['scaffold']}{trace}: {policy['model']}{version}{_options(policy['sampling'])}")
    yield _fact(
        "run",
        f"group {rollout['group']}, sample {rollout['sample']} of {rollout['group_size']}, seed {rollout['seed']}",
    )
    yield from _began(rollout)
    reason = rollout["stop_reason"]
    why = f" ({STOPPED[reason]})" if reason in STOPPED else ""
    rate = f", format rate {rollout['format_rate']:.0%}" if "format_rate" in rollout else ""
    good = GOOD if reason == "finished" else "bold yellow"
    yield _fact("stopped", (f"{reason}{why}", good), f" after {count(len(rollout['turns']), 'turn')}{rate}")
    if rollout.get("search"):
        yield from _searched(rollout["search"])
    yield from _came_to(rollout)
    used = rollout["usage"]
    told = "tokens not told" if facts.tokens(used) == "-" else f"{facts.tokens(used)} tokens"
    paid = "" if used["usd"] is None else f", {facts.usd(used)} USD"
    yield _fact("cost", f"{told}, {facts.seconds(rollout):.1f} s{paid}")
    roles = by_role(rollout)
    for role, spent in roles.items() if len(roles) > 1 else ():
        after = f" ({AFTERWARDS[role]}, not in the above)" if role in AFTERWARDS else ""
        yield _fact("", f"{role}: {facts.spent(spent)}{after}")


def revealed() -> "Text":
    """That the agent knew its test scores."""
    return styled((" THE AGENT WAS SHOWN TEST SCORES ", LOUD), (" its grade is no fair measure (reveal_test)", BAD))


def _fact(name: str, *parts: str | tuple[str, str]) -> "Text":
    return styled((f"{name:<11}", LABEL), *parts)


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
    yield _fact("began with", f"a solution of validation {validation}, test {score}{origin}")


def _searched(search: Record) -> Iterator["Text"]:
    """What a search was made of, what it chose and among what, and what its phases cost."""
    parts = [f"{kind} {part.get('name')}" for kind, part in (search.get("components") or {}).items()]
    yield _fact("search", f"{search.get('preset') or 'components of its own'}: {', '.join(parts)}")
    budget = {name: value for name, value in (search.get("budget") or {}).items() if value is not None}
    took = "" if search.get("elapsed_s") is None else f", {search['elapsed_s']:.1f} s used"
    yield _fact("budget", (_options(budget)[2:] or "none") + took)
    number = search.get("chosen")
    yield _fact("chosen", ("none" if number is None else f"node {number}", "bold"), f": {search.get('how') or '-'}")
    for each in search.get("candidates") or ():
        score, holdout = facts.number(each.get("score")), each.get("holdout")
        again = "" if holdout is None else f", held out {facts.number(holdout)}"
        yield _fact("", f"node {each.get('node')}: {score}{again}")
    for phase, used in (search.get("cost") or {}).items():
        yield _fact(phase, facts.spent(used))
    for name, words in (("lenient", "answers read leniently"), ("fallbacks", "answers replaced")):
        if counts := search.get(name):
            yield _fact(name, f"{words}: ", ", ".join(f"{question} {count}" for question, count in counts.items()))


def _came_to(rollout: Record) -> Iterator["Text"]:
    """Validation, grade, reward and what a filter said of it."""
    if "validation" in rollout:
        verdict = rollout["validation"]
        reason = f": {verdict['reason']}" if verdict and verdict.get("reason") else ""
        yield _fact("validation", "nothing was handed in" if verdict is None else facts.shown_score(verdict) + reason)
    grade = rollout.get("grade")
    if grade:
        yield _fact("grade", *graded(grade))
        if grade["valid"] and grade.get("score") is not None and grade.get("thresholds"):
            yield _fact("", *ladder(grade))
    if "reward" in rollout:
        made = ((grade or {}).get("reward")) or {}
        yield _fact("reward", (facts.number(rollout["reward"]), "bold"), _options(made).replace(", ", " by ", 1))
    dropped = rollout.get("filter")
    if dropped and not dropped["kept"]:
        yield _fact("filter", ("dropped", BAD), f": {dropped['reason']}")


def graded(grade: Record) -> Iterator[str | tuple[str, str]]:
    """A verdict as parts of a line: score, medal, place."""
    if not grade["valid"]:
        yield from (("invalid", BAD), f": {grade.get('reason')}")
        return
    yield (facts.number(grade.get("score")), "bold")
    medal = grade.get("medal")
    if medal:
        yield from (" ", (medal, MEDALS.get(medal, "")))
    yield ", above the median" if grade.get("above_median") else ", not above the median"
    if grade.get("position") is not None:
        yield f", position {grade['position']} of {grade.get('teams')}"
    if grade.get("human_rank") is not None:
        yield f", human rank {grade['human_rank']:.3f}"


def ladder(grade: Record) -> Iterator[str | tuple[str, str]]:
    """The thresholds from worst to best, with the score where it belongs: after those that it reaches."""
    sign = -1 if grade["lower_is_better"] else 1
    rungs = sorted(grade["thresholds"].items(), key=lambda rung: sign * rung[1])
    reached = sum(sign * grade["score"] >= sign * value for _, value in rungs)
    parts: list[str | tuple[str, str]] = [f"{name} {facts.number(value)}" for name, value in rungs]
    parts.insert(reached, (f"[{facts.number(grade['score'])}]", "bold reverse"))
    for at, part in enumerate(parts):
        yield from (" → " if at else "", part)


def overview(rollout: Record, turns: Sequence[Turn]) -> list["Text"]:
    """A table with a line for each turn; nothing for a rollout of one."""
    if len(rollout["turns"]) < 2:
        return []
    shown = "test" if rollout.get("reveal_test") else "test (hidden)"
    header = ["turn", "node", "parents", "action", "status", "score", "validation", "best so far", shown]
    header += ["tokens", "seconds", "USD"]
    rows = [
        [
            str(turn.number),
            *_place_in_graph(record.get("node")),
            record["action"],
            str(record.get("problem") or (turn.ran["status"] if turn.ran else "-")),
            facts.number((record.get("node") or {}).get("score")),
            facts.shown_score(record.get("validation")),
            facts.number(turn.best),
            facts.shown_score(record.get("grade")),
            facts.tokens(record.get("usage")),
            f"{record['duration_s']:.1f}",
            facts.usd(record.get("usage")),
        ]
        for turn in turns
        for record in (turn.record,)
    ]
    told = [any(row[at] != "-" for row in rows) for at in range(len(header))]
    rows = [[cell for cell, kept in zip(row, told, strict=True) if kept] for row in rows]
    return aligned(
        [name for name, kept in zip(header, told, strict=True) if kept], rows, ("action", "status", "parents")
    )


def _place_in_graph(node: Record | None) -> tuple[str, str]:
    """The number and the parents of a turn that is a node."""
    return ("-", "-") if node is None else (str(node["number"]), ", ".join(map(str, node["parents"])) or "-")


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str]) -> list["Text"]:
    """Columns under their names, numbers to the right; as wide as they are, whatever the terminal is."""
    from rich.cells import cell_len, set_cell_size

    cells = [[shortened(visible_line(cell), WIDEST) for cell in row] for row in (header, *rows)]
    widths = [max(cell_len(cell) for cell in column) for column in zip(*cells, strict=True)]
    made = []
    for at, row in enumerate(cells):
        parts = []
        for name, cell, width in zip(header, row, widths, strict=True):
            parts.append(set_cell_size(cell, width) if name in left else " " * (width - cell_len(cell)) + cell)
        style = "bold" if at == 0 else BAD if "invalid" in row or "error" in row else ""
        made.append(styled(("  ".join(parts).rstrip(), style)))
    return made
