"""mle-show of searches: the graph a line a node, whatever its shape and its texts; a node's turn; pages for a browser."""

import html
import json
import random
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command
from rich.cells import cell_len
from search_records import node, search, verdict
from show_checks import HOSTILE, everywhere
from shown_rollouts import react, single

from mletools.records import schema
from mletools.reports import show
from mletools.reports.show.tree import drawn
from mletools.reports.turns import turns


def text(record: dict[str, Any], colour: bool = False, valid: bool = True, **view: Any) -> str:
    if valid:
        schema.check(record, "rollout")
    return "".join(show.printer(colour)(show.lines(record, show.View(**view))))


def section(shown: str, number: int) -> str:
    """What stands under a node's heading."""
    return shown.partition(f"── node {number}: ")[2].partition("\n── ")[0]


def tree(record: dict[str, Any], width: int = 100, colour: bool = False, valid: bool = True) -> str:
    if valid:
        schema.check(record, "rollout")
    return "".join(show.printer(colour)(show.graph(record, show.View(width=width))))


def pond(**more: Any) -> dict[str, Any]:
    """Two branches; in the first a repair, a side step and a merge; the second fails twice."""
    idea = {
        "challenges": ["The target has a long tail.", "Folds leak."],
        "challenge": "The target has a long tail.",
        "scores": {"impact": 8, "risk_reward": 4},
        "action": "modify",
        "considered": [{"text": "Drop outliers.", "component": "DataLoadSpec", "scores": {"impact": 5}}],
        "recalled": [0, 2],
        "trials": [{"debug": True, "status": "ok", "duration_s": 1.5, "problem": None, "estimated_s": 14.0}],
        "lesson": "The tail was what cost most.",
        "stage": "improvement",
    }
    nodes = [
        node(0, (), 1.8, 4, grade=verdict(1.9)),
        node(1, (), 2.1, 8),
        node(2, (0,), 1.5, 12, grade=verdict(1.4, "bronze")),
        node(3, (0,), None, 16, problem="slow"),
        node(4, (1,), None, 20),
        node(5, (3,), 1.6, 24, operation="debug"),
        node(6, (2,), 1.55, 28),
        node(7, (2,), 1.2, 32, grade=verdict(1.1, "silver"), hypothesis="Predict the logarithm.", **idea),
        node(8, (4,), None, 36, operation="debug", problem="debug"),
        node(9, (7, 5, 1), 1.25, 40, operation="merge", grade=verdict(0.9, "gold"), hypothesis="Both " + "x" * 99),
    ]
    return search("3f2a", *nodes, chosen=7, **more)


POND = """\
pond 3f2a: rd-agent, 10 nodes, best 7 (1.2), chosen 7 (1.2)
node              clock   score  selection   gain  test   USD          hypothesis; of a failed node…
┌ 0 draft          0:04    1.8*                          0.02          Model: Idea 0.
├─┬ 3 improve      0:16    slow                          0.02          Model: Idea 3.
│ └ 5 debug        0:24    1.6                           0.02          Model: Idea 5.
├ 2 improve        0:12    1.5*              +0.3  b     0.02          Model: Idea 2.
├── 6 improve      0:28   1.55              -0.05        0.02          Model: Idea 6.
├ 7 improve        0:32    1.2*       1.25   +0.3  s     0.02  chosen  Model: Predict the logarithm.
└ 9 merge + 5, 1   0:40   1.25              -0.05  g     0.02          Model: Both xxxxxxxxxxxxxxxx…
┌ 1 draft          0:08    2.1                           0.02          Model: Idea 1.
├ 4 improve        0:20  failed                          0.02          Model: Idea 4.
└ 8 debug          0:36   debug                          0.02          Model: Idea 8.
"""


def test_a_graph_is_drawn_a_line_a_node() -> None:
    assert tree(pond()).startswith(POND)
    assert "* best score so far (lower is better), on the validation rows; selection: on" in tree(pond(), 200)
    printed = pond()
    printed["search"]["components"] = {"evaluation": {"name": "agent", "constants": {}}}
    assert "* best score so far (lower is better), as the programs print it; " in tree(printed, 200)
    red = [line for line in tree(pond(), colour=True).split("\n") if "\x1b[1;31m" in line]
    assert [re.sub("\x1b\\[[0-9;]*m", "", line).split()[-1] for line in red] == ["3.", "4.", "8."]
    assert "SHOWN TEST SCORES" in tree(pond(reveal_test=True)) and "SHOWN TEST" not in tree(pond())


def test_narrow_lines_leave_columns_out_and_wide_ones_have_all() -> None:
    lines = [tree(pond(), width).split("\n") for width in (160, 122, 100, 78, 40)]
    heads = [next(line.split() for line in shown if line.startswith("node ")) for shown in lines]
    assert heads[0][:9] == ["node", "stage", "clock", "score", "selection", "gain", "test", "seconds", "USD"]
    assert heads[1][:9] == heads[0][:9] and heads[2][:4] == ["node", "clock", "score", "selection"]
    assert heads[3][:5] == ["node", "clock", "score", "selection", "test"]
    assert heads[4][:3] == ["node", "score", "test"]
    same = pond()
    for turn in same["turns"]:
        turn["node"]["stage"] = "draft"
        turn["usage"]["usd"] = None
    assert tree(same, 160).split("\n")[1].split()[:3] == ["node", "clock", "score"] and " USD " not in tree(same, 160)


def test_a_failed_node_says_why_and_the_best_is_marked() -> None:
    record = pond()
    record["turns"][4]["node"]["why"] = "It ended\nwith KeyError: 'a'"
    rows = tree(record, 150).split("\n")
    assert next(row for row in rows if "4 improve" in row).endswith("  It ended with KeyError: 'a' [Model: Idea 4.]")
    record["search"]["chosen"] = 2
    marks = {
        mark: row for row in tree(record, 150).split("\n")[2:] for mark in ("best ", "chosen ") if f"  {mark}" in row
    }
    assert "7 improve" in marks["best "] and "2 improve" in marks["chosen "]


def test_where_higher_is_better_the_best_and_the_gains_turn_round() -> None:
    record = search("x", node(0, (), 0.5, 1), node(1, (0,), 0.75, 2), node(2, (1,), 0.7, 3), lower=False)
    rows = tree(record).split("\n")
    assert rows[0] == "pond x: rd-agent, 3 nodes, best 1 (0.75), none chosen"
    assert [row.split()[2:6] for row in rows[2:5]] == [
        ["draft", "0:01", "0.5*", "4.2"],
        ["improve", "0:02", "0.75*", "+0.25"],
        ["improve", "0:03", "0.7", "-0.05"],
    ]
    assert "(higher is better)" in tree(record)


def test_searches_that_came_to_nothing() -> None:
    assert tree(search("x")) == "pond x: rd-agent, 0 nodes, none has a score, none chosen\n"
    shown = tree(search("x", node(0, (), None, 1), node(1, (), None, 2)))
    assert shown.startswith("pond x: rd-agent, 2 nodes, none has a score, none chosen\n")
    assert re.search("─ 0 draft +0:01 +failed", shown) and re.search("─ 1 draft +0:02 +failed", shown)


def read(record: dict[str, Any]) -> list[int | None]:
    """The turns of the first parents as the lines alone tell them, by turn."""
    found: dict[int, int | None] = {}
    last: dict[int, int] = {}  # of each line, by how far it is to the right, the node drawn last
    for lead, at in leads(record):
        level = len(re.match("(│ )*", lead)[0]) // 2  # type: ignore[index]
        mark = lead[2 * level :]
        assert mark in ("┌ ", "─ ", "├ ", "└ ", "├─┬ ", "├── ")
        root, side = mark in ("┌ ", "─ "), mark in ("├─┬ ", "├── ")
        found[at] = None if root else last[level]
        last[level + side] = at
    return [found[at] for at in sorted(found)]


def leads(record: dict[str, Any]) -> list[tuple[str, int]]:
    """The lines to the left of each node, and the number of its turn."""
    return [(lead, turn.number) for lead, turn in drawn(turns(record), record["search"]["chosen"])]


def first_parents(record: dict[str, Any]) -> list[int | None]:
    return [turn.parent.number if turn.parent else None for turn in turns(record)]


def grown(shape: str, count: int) -> dict[str, Any]:
    dice = random.Random(shape)
    parents = {
        "chain": lambda n: n - 1,
        "wide": lambda n: 0,
        "comb": lambda n: n - 1 if n % 2 else max(n - 2, 0),
        "halves": lambda n: (n - 1) // 2,
        "random": lambda n: dice.randrange(n),
        "late": lambda n: max(0, n - 1 - dice.randrange(4)),
        "drafts": lambda n: None if n % 7 == 0 else dice.randrange(n),
    }[shape]
    made: list[dict[str, Any]] = []
    for n in range(count):
        parent = parents(n) if n else None
        made.append(node(n, () if parent is None else (parent,), 1 - n / 1000, n, hypothesis="漢字 and more " * 40))
    return search(shape, *made, chosen=count // 3)


@pytest.mark.parametrize("shape", ["chain", "wide", "comb", "halves", "random", "late", "drafts"])
def test_any_graph_of_500_nodes_can_be_read_back_and_fits(shape: str) -> None:
    record = grown(shape, 500)
    assert read(record) == first_parents(record)
    assert max(len(lead) for lead, _ in leads(record)) <= 2 * (9 + 2)  # log2 of 500, and the line of the chosen node
    for width in (40, 80):
        lines = tree(record, width).split("\n")
        assert all(cell_len(line) <= width for line in lines)
        numbers = [int(found[1]) for line in lines if (found := re.search(r"[┌├└┬─] (\d+) ", line))]
        assert sorted(numbers) == list(range(500))
    assert len(leads(grown("chain", 500))[499][0]) == 2


def test_parents_that_are_not_among_the_turns_before_make_a_draft() -> None:
    record = search("x", node(4, (2,), 1.0, 1), node(5, (6,), 1.0, 2), node(6, (4,), 1.0, 3), node(7, (7,), 1.0, 4))
    assert first_parents(record) == [None, None, 1, None]
    assert [at for _, at in leads(record)] == [1, 3, 2, 4]
    assert "── node 5: improve" in text(record) and "── turn " not in text(record)


@pytest.mark.parametrize("full", [False, True])
def test_hostile_texts_of_a_search_are_spelled_out(full: bool) -> None:
    record = everywhere(pond())
    assert HOSTILE in record["turns"][7]["node"]["hypothesis"] and HOSTILE in record["turns"][7]["action"]
    for turn in record["turns"]:
        if turn["problem"]:
            turn["problem"] = HOSTILE
        turn["node"]["cost"] = {HOSTILE: turn["usage"]}
    long = "first\nsecond\t" + HOSTILE * 1000
    record["turns"][0]["node"]["hypothesis"] = long
    for colour in (False, True):
        graph = re.sub("\x1b\\[[0-9;]*m", "", tree(record, 120, colour, valid=False))
        shown = graph + re.sub("\x1b\\[[0-9;]*m", "", text(record, colour, valid=False, full=full, width=400))
        odd = {character for character in shown if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert odd <= {"\n", "\t"} and "\u3164" not in shown
        assert "Predict the logarithm.a␛]0;title␇b␛[2Jc\\u202ed" in shown
        assert graph.partition("\nnode ")[2].count("\n") == tree(pond(), 120).partition("\nnode ")[2].count("\n")
        assert all(cell_len(line) <= 120 for line in graph.split("\n"))
        assert "first second a␛]0" in tree(record, 400, valid=False)


def test_the_top_says_what_was_searched_and_chosen() -> None:
    top = text(pond(), width=200).partition("── the task ")[0]
    assert "search     rd-agent: planning dynamic, paths adaptive, reasoning scientific, memory kernel" in top
    assert "budget     seconds 100.0, nodes 500, 40.0 s used\n" in top
    assert (
        "chosen     node 7: the best of its branch, run again\n           node 7: 1.2, on the selection rows 1.25\n"
        in top
    )
    assert "research   1,000 + 100 tokens, 2.0 s, 0.5000 USD\ndevelop    2,000 + 400 tokens" in top
    rows = top.partition("\nnode ")[2].split("\n")
    assert rows[0].split()[:2] == ["parents", "action"] and "validation" not in rows[0]
    assert rows[10].split()[:7] == ["9", "7,", "5,", "1", "merge", "ok", "1.25"]
    assert rows[4].split()[:4] == ["3", "0", "improve", "slow"]
    printed = pond()
    printed["turns"][0]["validation"]["score"] = 1.9
    assert "  validation  " in text(printed, width=200).partition("── the task ")[0]


def test_the_top_counts_answers_read_leniently_and_replaced() -> None:
    record = pond()
    assert "lenient" not in text(record) and "fallbacks" not in text(record)
    record["search"] |= {"lenient": {"search-choose": 2, "search-idea": 1}, "fallbacks": {"search-select": 3}}
    shown = text(record, width=200)
    assert "lenient    answers read leniently: search-choose 2, search-idea 1\n" in shown
    assert "fallbacks  answers replaced: search-select 3\n" in shown


def test_the_top_says_how_a_search_began_and_ended() -> None:
    record = pond()
    assert not any(words in text(record, width=200) for words in ("another graph", "it was ended early", "together"))
    record["search"] |= {"taken_over": 3, "ended": "user", "ensemble": [4, 2]}
    shown = text(record, width=200)
    assert "began with 3 nodes of another graph\n" in shown and "ended      it was ended early\n" in shown
    assert "handed in  an ensemble of the submissions of nodes 4, 2\n" in shown


def test_the_top_says_which_clock_and_by_which_scores() -> None:
    record = pond()
    assert "clock" not in text(record) and "in place of" not in text(record)
    record["search"] |= {"clock": "wall", "evaluation_asked": "aggregated"}
    shown = text(record, width=200)
    assert " s used (wall clock)\n" in shown
    assert "evaluation agent in place of aggregated: no rows could be held out\n" in shown


def test_a_node_says_what_was_thought_and_learnt() -> None:
    shown = text(pond())
    assert "── the task " in shown and shown.count("# Pond") == 1 and "after the last turn" not in shown
    told = section(shown, 7)
    assert "node 7 from 2, branch 0, depth 0, round 7, stage improvement\n" in told
    assert "challenges\n  - The target has a long tail.\n  - Folds leak.\n" in told
    assert "hypothesis [Model] impact 8, risk reward 4, modify\n  Predict the logarithm.\n" in told
    assert "against the challenge\n  The target has a long tail.\nconsidered 1\n" in told
    assert "  [DataLoadSpec] impact 5\n  Drop outliers.\nrecalled 0, 2\n" in told
    assert "debug run ok, 1.5 s, the whole would take 14.0 s\n" in told
    assert "score 1.2\nlesson\n  The tail was what cost most.\nresearch 50 + 20 tokens, 2.0 s, 0.0100 USD\n" in told
    assert "problem: slow, the full run would take too long" in section(shown, 3)
    assert "node 9 from 7, 5, 1, " in section(shown, 9) and "node 0 from nothing, " in section(shown, 0)
    only = text(pond(), turns=frozenset({7}))
    assert "── node 7: " in only and "── node 0: " not in only and "# Pond" not in only


def test_a_nodes_program_is_compared_with_its_parents() -> None:
    shown = text(pond())
    told = section(shown, 7)
    assert "code (9 lines): what changed since node 2, its parent\n" in told  # not node 6 before it
    assert '-\treturn rows["a"] * 4\n+\treturn rows["a"] * 9\n' in told
    assert "code (9 lines)\nimport pandas" in section(shown, 1)  # a draft has nothing to be compared with
    assert "code as in node 7" in shown


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    record = search(
        "3f2a",
        node(0, (), 1.8, 4, grade=verdict(1.9)),
        node(1, (0,), 1.5, 8, hypothesis="</pre><script>alert(1)</script> & \x1b[2J"),
        node(2, (1,), None, 12, problem="inauthentic"),
        chosen=1,
    )
    path = tmp_path / "graded.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in (record, react(), single())))
    return path


def test_the_command_draws_searches_and_rejects_others(graded: Path) -> None:
    shown = run_command("mle-show", "-q", "--tree", "--id", "3f", str(graded)).stdout.decode()
    assert shown.startswith("pond 3f2a: rd-agent, 3 nodes, best 1 (1.5), chosen 1 (1.5)\n") and re.search(
        "└ 2 improve +0:12 +inauthentic", shown
    )
    refused = run_command("mle-show", "--tree", str(graded), check=False)
    assert refused.returncode == 1
    assert refused.stderr.decode().endswith(
        "graded.jsonl:2: no search: --tree shows what mle-rollout --scaffold search made\n"
    )
    assert run_command("mle-show", "-q", "--tree", "--max-rejects", "2", str(graded)).stdout.decode() == shown
    for more in (["--list"], ["--full"], ["--turn", "1"]):
        assert run_command("mle-show", "--tree", *more, str(graded), check=False).returncode == 2


@pytest.mark.parametrize("view", [["--tree", "--id", "3f2a"], ["--list"], [], ["--full"]])
def test_a_page_says_what_the_text_says_and_loads_nothing(graded: Path, view: list[str]) -> None:
    plain = run_command("mle-show", "-q", "--width", "90", *view, str(graded)).stdout.decode()
    run_command("mle-show", "-q", "--width", "90", "--html", *view, "-o", "x.html", str(graded), cwd=graded.parent)
    page = graded.with_name("x.html").read_text()
    assert page.startswith("<!DOCTYPE html>\n") and page.endswith("</html>\n")
    assert page.count("<pre") == page.count("</pre>") == 1 and "<script" not in page
    assert not re.search(r"(src|href)\s*=|url\(|@import|http:|https:", re.sub(">[^<]*<", "><", page))
    within = re.search("<pre[^>]*>\n(.*)</pre>", page, re.DOTALL)
    assert within and html.unescape(re.sub("<[^>]*>", "", within[1])) == plain
    assert '<span class="' in page


def test_pages_have_colours_of_their_own(graded: Path) -> None:
    refused = run_command("mle-show", "--html", "--color", "never", str(graded), check=False)
    assert refused.returncode == 2 and b"--color is about terminals" in refused.stderr
    empty = run_command("mle-show", "-q", "--html", "--allow-empty", "/dev/null").stdout.decode()
    assert empty.count("<pre") == 1 and "<span" not in empty
