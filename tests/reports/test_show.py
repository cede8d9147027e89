"""mle-show: what stands in a rollout can be seen, what changed between turns too, and no agent's text reaches a terminal raw."""

import json
import re
import subprocess
import textwrap
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, run_command
from rich.cells import cell_len
from show_checks import HOSTILE, everywhere, section
from shown_rollouts import EXECUTION, FAILED, FIRST, SECOND, codeact, grade, react, single, usage
from terminal import on_terminal

from mletools.base.visible import visible, visible_line
from mletools.records import schema
from mletools.reports import show
from mletools.reports.show.lines import changes


def text(record: dict[str, Any], colour: bool = False, **view: Any) -> str:
    schema.check(record, "rollout")
    return "".join(show.printer(colour)(show.lines(record, show.View(**view))))


def test_the_header_gives_task_policy_outcome_and_cost() -> None:
    top = text(react()).partition("── turn 1 ")[0]
    assert "pond (pond-1), rmse, lower is better" in top
    assert "react: pond-8b version 3, temperature 1.0" in top
    assert "group group-of-react-1, sample 1 of 4, seed 7" in top
    assert "1.3 bronze, above the median, position 3 of 40" in top
    assert "median 2 → bronze 1.5 → [1.3] → silver 1.2 → gold 1" in top
    assert "4,000 + 300 tokens, 2.0 s, 0.0123 USD" in top
    assert "TEST SCORES" not in top and "THE AGENT WAS SHOWN TEST SCORES" in text({**react(), "reveal_test": True})


def test_the_header_gives_the_cost_of_each_role_where_there_are_several() -> None:
    record = {**react(), "usage_by_role": {"policy": usage(4000, 300, 0.0123)}}
    assert "policy:" not in text(record)
    record["usage_by_role"]["ideator"] = usage(None, None)
    record["instrument"] = {"code": None, "nonce": None, "markers": [], "problem": "", "usage": usage(10, 2, 0.5)}
    top = " ".join(text(record).partition("── turn 1 ")[0].split())
    assert "policy: 4,000 + 300 tokens, 2.0 s, 0.0123 USD ideator: tokens unknown, 2.0 s instrumenter: 10 + 2" in top
    assert "0.5000 USD (mle-instrument, not in the above)" in top


def test_a_line_for_each_turn_stands_at_the_top() -> None:
    rows = text(react()).partition("\nturn ")[2].partition("\n\n")[0].split("\n")
    assert rows[0].split("  ")[0] == " action"
    assert [row.split()[:5] for row in rows[1:]] == [
        ["1", "python", "error", "-", "-"],
        ["2", "none", "missing", "-", "-"],
        ["3", "python", "ok", "1.1", "1.1"],
        ["4", "score", "-", "1.1", "1.1"],
        ["5", "answer", "-", "-", "1.1"],
    ]
    assert "test (hidden)" in rows[0] and " 1.3 " in rows[3]


def test_a_program_is_shown_once_and_then_what_changed() -> None:
    shown = text(react())
    first, third = section(shown, 1), section(shown, 3)
    assert f"code (9 lines)\n{FIRST}ran error, exit code 1, 1.5 s" in first  # as it is, from the first column, tabs too
    assert "[9 lines of code, below]" in first and shown.count("import pandas as pd") == 1
    assert "code (9 lines): what changed since turn 1\n" in third
    assert '-\treturn rows["a"] * 2\n+\treturn rows["a"] * 3\n' in third
    assert SECOND in section(text(react(), full=True), 3)
    alone = text(react(), turns=frozenset({3}))
    assert section(alone, 3).strip() == third.strip() and "── turn 1 of" not in alone
    assert "what was handed in" in shown and "code as in turn 3" in shown and "ran ok, as in its turn" in shown


def test_a_wholly_different_program_is_shown_whole() -> None:
    assert changes("a\nb\nc", "d\ne\nf", show.View()) is None
    record = react()
    record["turns"][2]["code"] = "print(1)\nprint(2)"
    assert "code (2 lines)\nprint(1)\nprint(2)\nran ok" in section(text(record), 3)
    record["turns"][2]["code"] = FIRST
    assert "code (9 lines): as turn 1\n" in section(text(record), 3)


def test_a_turn_says_what_was_seen_and_what_came_of_it() -> None:
    shown = text(react())
    assert "  rule 0 of the house\n" in shown and "  … 50 lines …\n" in shown and "rule 30 " not in shown
    assert "rule 30 " in text(react(), full=True)
    assert "reasoning\n  Twice a may do.\n" in section(shown, 1)
    assert "no submission: submission.csv is not there\nstdout (14 bytes)\n  fold 1\n  fold 2\nstderr" in section(
        shown, 1
    )
    assert "validation nothing was handed in" in section(shown, 1)
    assert "problem: missing, the message takes no action" in section(shown, 2)
    assert "submission of 420 bytes" in section(shown, 3) and "validation 1.1\n" in section(shown, 3)
    assert "(not shown to the agent)" in section(shown, 3)
    assert "no longer seen by the agent: messages 2-3, 5" in section(shown, 4)
    told = section(text({**react(), "reveal_test": True}), 3)
    assert "(shown to the agent)" in told and "(not shown" not in told


def test_sessions_and_help() -> None:
    shown = text(codeact())
    assert "cell (2 lines)\nimport pandas as pd\nx = 1\nsession ok, 0.2 s\noutput (2 bytes)\n  1\n" in section(shown, 1)
    help = section(shown, 2)
    assert "  query problem statement\n  It does not learn.\n" in help and "  action\n  Use more trees.\n" in help
    assert "commands (1 line)\nls -la\n" in section(shown, 3)
    assert "session memory, 0.2 s, the session ended: what it held is lost" in section(shown, 4)
    assert "validation invalid: 3 rows are missing" in section(shown, 4)
    assert "code the cells up to turn 4" in shown and "reasoning\n  thought 3\n" in shown


def test_an_answer_in_the_wrong_form_whose_program_counts_says_so() -> None:
    counts = single(stop_reason="format")
    top = " ".join(text(counts).partition("── turn 1 ")[0].split())
    assert "stopped format (its answer is not in the required form; the program that could be read counts)" in top
    none = single(stop_reason="format", code=None, grade=grade(None, reason="no file"), reward=-10)
    del none["execution"]
    assert "format (its answer is not in the required form) after 1 turn" in text(none)
    assert "stopped format:" in "".join(line.plain for line in show.table([show.row(counts)]))
    assert "stopped format:" not in "".join(line.plain for line in show.table([show.row(none), show.row(single())]))


def test_the_values_of_the_header_are_broken_under_their_names() -> None:
    lines = text(react(), width=50).partition("\n\n")[0].split("\n")
    assert "task       pond (pond-1), rmse, lower is better" in lines
    names = ("task", "agent", "run", "stopped", "validation", "grade", "cost", "reward", "began", "filter", "──")
    broken = [line for line in lines if not line.startswith(names)]
    assert len(broken) >= 2 and all(re.match(r" {11}\S", line) for line in broken)
    assert max(map(cell_len, lines)) <= 50


def test_paragraphs_are_broken_once_at_the_width() -> None:
    """Full lines of the author are joined, of lists as well; short lines, tables and code are not."""
    words = " ".join(["one two three four five six seven eight nine ten eleven twelve thirteen"] * 2)
    prose = textwrap.fill(words, 60)
    item = textwrap.fill(f"- {words}", 60, subsequent_indent="  ")
    table = f"a  b{' ' * 50}c\nd  e{' ' * 50}f"
    code = f"{'x = 1; ' * 8}\ny = 2"
    record = single()
    record["messages"][0]["content"] = f"{prose}\nshort line\nother line\n{item}\n\n{table}\n\n```\n{code}\n```\n"
    shown = section(text(record, width=44, full=True), 1)
    for block, indent in ((prose, ""), (item, "  ")):
        once = textwrap.fill(block.replace("\n  ", " ").replace("\n", " "), 42, subsequent_indent=indent)
        assert textwrap.indent(once, "  ") in shown
    assert "\n  short line\n  other line\n" in shown and f"\n  {code.splitlines()[0].strip()}\n  y = 2\n" in shown
    assert "c d" not in shown
    wide = section(text(record, width=122, full=True), 1)
    assert textwrap.indent(prose, "  ") in wide and textwrap.indent(item, "  ") in wide  # as the author broke them


def test_a_turn_that_is_not_there_is_named(tmp_path: Path) -> None:
    shown = text(react(), turns=frozenset({3, 9}))
    assert "no turn 9: the last is turn 5\n" in shown and "no turn 3" not in shown and "── turn 3 of 5" in shown
    (tmp_path / "x.jsonl").write_text(json.dumps(single()) + "\n" + json.dumps(react()) + "\n")
    some = run_command("mle-show", "-q", "--turn", "3", "x.jsonl", cwd=tmp_path).stdout.decode()
    assert "no turn 3: the last is turn 1\n" in some
    none = run_command("mle-show", "-q", "--turn", "7", "x.jsonl", cwd=tmp_path, check=False)
    assert (none.returncode, none.stderr) == (1, b"mle-show: no rollout has turn or node 7\n")


def test_behind_a_pipe_the_terminal_of_the_messages_gives_the_width(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps(react()) + "\n")
    command = f"{BIN / 'mle-show'} -q x.jsonl | cat 1>&2"  # as less does, which draws on a terminal
    piped = on_terminal("/bin/sh", "-c", command, cwd=tmp_path, columns=70, stderr=True).decode()
    assert max(map(cell_len, piped.split("\r\n")[:10])) in (69, 70)
    run_command("mle-show", "-q", "-o", "file", "x.jsonl", cwd=tmp_path)
    assert max(map(cell_len, (tmp_path / "file").read_text().split("\n")[:2])) > 100


def test_a_rank_against_baselines_is_not_called_human() -> None:
    record = react()
    record["grade"]["human_rank"] = 0.925
    assert "human rank 0.925" in text(record)
    record["task"]["provenance"]["baselines"] = [{"name": "dummy", "score": 9.0}]
    assert "rank vs baselines 0.925" in text(record) and "human rank" not in text(record)


def test_a_single_answer() -> None:
    shown = text(single(instrument={"code": "x", "nonce": "n", "markers": ["a", "b"], "problem": None}))
    assert f"code (9 lines)\n{FIRST}reports 0 of 2 arrived\nran ok, exit code 0" in shown
    assert "best so far" not in shown and "what was handed in" not in shown
    assert "grade 0.9 gold, above the median, position 3 of 40\n" in shown
    assert "→ gold 1 → [0.9]\n" in shown
    none = single(code=None, stop_reason="format", grade=grade(None, reason="there is no file"), reward=-10)
    assert "grade      invalid: there is no file\n" in text(none)


def test_improvements_are_compared_with_what_they_began_with() -> None:
    began = {"score": 1.4, "validation": 1.3, "code": FIRST, "rollout": "abc", "turn": 2}
    record = single(code=SECOND, state=began)
    record["messages"][1]["content"] = f"```python\n{SECOND}```"
    shown = text(record)
    assert "a solution of validation 1.3, test 1.4, from rollout abc turn 3" in shown
    assert "code (9 lines): what changed since the solution that it began with\n" in shown


def test_states_and_ideas() -> None:
    asked = codeact()
    asked["turns"] = asked["turns"][:1]
    asked["messages"] = asked["messages"][:3]
    state = text({**asked, "stop_reason": "asked", "code": None, "state": {"query": {"goal": "A medal."}}})
    assert "asked (a state, from which other work begins)" in state
    assert "── after the last turn" in state and "  observation 0\n" in state and "  goal\n  A medal.\n" in state
    idea = {"analysis": "Slow.", "action": "Use fewer trees.", "rationale": "Time."}
    who = {"model": "frozen", "messages": [{"role": "assistant", "content": "Done."}], "usage": usage(5, 6)}
    shown = text({**single(), "scaffold": "idea", "idea": idea, "implementer": who})
    assert "── the idea" in shown and "  action\n  Use fewer trees.\n" in shown
    assert "── the implementer: frozen" in shown and "  Done.\n" in shown
    assert "none: the answer is not in the format" in text({**single(), "idea": None, "implementer": None})


@pytest.mark.parametrize("make", [react, codeact, single])
@pytest.mark.parametrize("full", [False, True])
def test_hostile_text_is_spelled_out(make: Any, full: bool) -> None:
    record = everywhere(make())
    record["turns"] = [{**turn, "action": everywhere(turn["action"])} for turn in record["turns"]]
    record["messages"][1]["tool_calls"] = [{"function": {"name": HOSTILE, "arguments": json.dumps({HOSTILE: HOSTILE})}}]
    record["state"] = {"code": HOSTILE, "rollout": HOSTILE, "query": {HOSTILE: HOSTILE}}
    record["idea"], record["implementer"] = {HOSTILE: HOSTILE}, {"model": HOSTILE, "messages": []}
    record["settings"], record["filter"] = {HOSTILE: HOSTILE}, {"kept": False, "reason": HOSTILE}
    for colour in (False, True):
        shown = "".join(show.printer(colour)(show.lines(record, show.View(full))))
        shown += "".join(show.printer(colour)(show.table([show.row(record)])))
        ours = re.sub("\x1b\\[[0-9;]*m", "", shown)  # colours alone
        odd = {character for character in ours if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert odd <= {"\n", "\t"} and "\u3164" not in ours
        assert ("\x1b[" in shown) == colour
        assert (
            "␛]0;title␇b␛[2Jc\\u202ed\\x9be\\u200bf␍g␀h␡i\\u2066j\\ufeffk\\u2028l\\U000e0041m\\u3164n\\ud800o[bold]p"
            in ours
        )


def test_ordinary_text_is_left_as_it_is() -> None:
    kept = "é 漢字 ✓ ⚠\ufe0f 👍 \u00a0 [red]x[/red] :smile: \\x1b\t|"
    assert visible(kept + "\r\nb\n") == kept + "\nb\n"
    assert visible_line("a\nb\tc") == "a␊b␉c"


def test_no_agent_can_begin_a_line_as_we_do() -> None:
    record = single()
    fake = "── turn 9 of 9: answer\ngrade      1.0 gold"
    record["messages"][1]["content"] = fake + " " + "x " * 300 + fake
    record["execution"] = {**EXECUTION, "stdout": {"head": fake, "tail": fake, "bytes": 99}}
    record["policy"]["model"] = "x " * 100 + fake
    record["grade"] = grade(None, reason=f"{'漢' * 100} {fake}")
    shown = text({**record, "code": None}, width=60)
    assert "  ── turn 9 of 9" in shown
    assert all(cell_len(line) <= 60 for line in shown.split("\n"))
    assert not any(line.startswith(("── turn 9", "grade      1.0")) for line in shown.split("\n"))


def test_prompts_and_code_keep_their_lines() -> None:
    record = react()
    wrapped = "word " * 23 + "words"  # 120 columns, as the prompts are wrapped
    program = "frame = frame.assign(" + ", ".join(f"column_{at}=frame['a'] * {at}" for at in range(20)) + ")"
    message = (
        f"{wrapped}\n{wrapped}\n```python\n{program}\n```\n{'prose ' * 60}\n~~~\n{program}\n```\n{program}\n~~~\nend"
    )
    record["messages"][1]["content"] = message
    lines = text(record, full=True).split("\n")
    assert lines.count(f"  {wrapped}") == 2 and lines.count(f"  {program}") == 3
    assert all(cell_len(line) <= 122 for line in lines if "prose" in line) and "  end" in lines
    narrow = text(record, width=80, full=True).split("\n")
    assert narrow.count(f"  {program}") == 3 and f"  {wrapped}" not in narrow


def test_huge_texts_are_cut_in_the_middle() -> None:
    record = react()
    long = "x" * 300_000
    many = "\n".join(f"line {number}" for number in range(20_000))
    record["turns"][0]["execution"] = {**FAILED, "stdout": {"head": many, "tail": long, "bytes": 2_000_000}}
    record["messages"][2]["content"] = f"<think>{long}"
    record["turns"][0]["code"] = long
    record["turns"][2]["code"] = many
    shown = text(record)
    assert len(shown) < 30_000
    assert "  line 0\n" in shown and "  … 19,976 lines …\n" in shown and "  line 19999\n" in shown
    assert "… 299,000 characters …" in shown and "… not in the record …" in shown
    whole = text(record, full=True)
    assert whole.count("x") > 899_000 and "  line 10000\n" in whole


def test_two_programs_of_many_lines_are_compared_in_good_time() -> None:
    """The worst for difflib: the same few lines over and over, in another order. Longer ones are not compared."""
    old = "\n".join(str(number * 7 % 101) for number in range(1500))
    new = "\n".join(str(number * 11 % 103) for number in range(1500))
    assert changes(old, new, show.View()) is None
    assert changes("x\n" * 2000, "x\n" * 1999 + "y", show.View()) is None


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    path = tmp_path / "graded.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in (react(), codeact(), single())))
    return path


def test_chosen_by_prefix_of_id_or_group(graded: Path) -> None:
    listed = run_command("mle-show", "--list", "--id", "react", "--id", "group-of-s", str(graded)).stdout.decode()
    assert [line.split()[0] for line in listed.splitlines()] == ["id", "react-1", "single-1"]
    missed = run_command("mle-show", "--id", "nobody", str(graded), check=False)
    assert (missed.returncode, missed.stderr) == (1, b"mle-show: no record begins with nobody\n")
    assert run_command("mle-show", "--list", "--full", str(graded), check=False).returncode == 2


def test_colours_are_for_terminals(graded: Path) -> None:
    def seen(*more: str, **env: str) -> bytes:
        return on_terminal("mle-show", "-q", "--id", "codeact", *more, str(graded), **env)

    assert b"\x1b[1;36m" in seen()
    assert b"\x1b" not in seen("--color", "never")
    assert b"\x1b" not in seen(NO_COLOR="1")
    assert b"\x1b" not in seen(TERM="dumb")
    assert b"\x1b" in seen("--color", "always", NO_COLOR="1")
    shown = str(graded)
    assert b"\x1b" not in run_command("mle-show", shown).stdout
    assert b"\x1b[" in run_command("mle-show", "--color", "always", shown).stdout
    assert b"\x1b" not in seen("-o", str(graded.with_name("shown.txt")))
    assert b"\x1b" not in graded.with_name("shown.txt").read_bytes()


def test_every_line_ends_its_colours(graded: Path) -> None:
    """`less -R` begins each line without colour."""
    for line in run_command("mle-show", "--color", "always", str(graded)).stdout.decode().split("\n"):
        codes = re.findall("\x1b\\[([0-9;]*)m", line)
        assert not codes or codes[-1] == "0"


def test_a_rollout_is_shown_before_the_next_arrives() -> None:
    with subprocess.Popen([str(BIN / "mle-show"), "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        for id in ("one", "two"):
            process.stdin.write(json.dumps({**single(), "id": id}).encode() + b"\n")
            process.stdin.flush()
            while f"── rollout {id} ".encode() not in process.stdout.readline():
                pass
            while process.stdout.readline().strip():  # to the end of the top
                pass
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0


def test_text_that_was_begun_is_begun_again(graded: Path) -> None:
    partial = graded.with_name("shown.txt.partial")
    partial.write_text("half a tab")
    for _ in range(2):  # the second time shown.txt is there
        run_command("mle-show", "-q", "--resume", "-o", "shown.txt", str(graded), cwd=graded.parent)
        assert graded.with_name("shown.txt").read_bytes() == run_command("mle-show", str(graded)).stdout
    assert not partial.exists()
