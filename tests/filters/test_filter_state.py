"""mle-filter as a command: streams, --state from run to run and over kills, presets, --mark, what it refuses."""

import fcntl
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import click
import pytest
from conftest import BIN, records, run_command
from filtered import as_lines, cut_from, one_graded, read
from played import made_task

from mletools.base.errors import OptionError
from mletools.cli_options import flags_on_command_line
from mletools.commands.filter import main
from mletools.filters import FilterOptions, Selection
from mletools.filters.options import CHOICES, with_preset

ALONE = ("mle-filter", "--min-group", "1", "--no-spread")
WINDOW = (*ALONE, "--window", "3", "--tau-rm", "0.03", "--binarise", "--top", "0.5", "--calibrate", "seen")
# Rewards of 2 tasks and 2 kinds of traces, which go up and down.
ROLLOUTS = [
    one_graded(at, (at * 37 % 101) / 100, trace=("reset", "memory")[at % 3 == 0], task={"id": f"mill_{at % 2}"})
    for at in range(60)
]


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode()


def remembered(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return {"tasks": found["tasks"], "begun": found["begun"]}


def decisions(rollouts: list[dict[str, Any]]) -> dict[str, Any]:
    """What was decided on each rollout; of its group nothing, which arrives in other parts here."""
    groups = ("arrived", "members")
    return {
        each["id"]: {name: value for name, value in each["filter"].items() if name not in groups} for each in rollouts
    }


def filtered(folder: Path, *command: str, input: list[dict[str, Any]] = ROLLOUTS) -> dict[str, Any]:
    return decisions(records(run_command(*command, input=as_lines(*input), cwd=folder).stdout))


@pytest.mark.slow
def test_runs_one_after_the_other_decide_as_one(tmp_path: Path) -> None:
    one = filtered(tmp_path, *WINDOW)
    assert 10 < len(one) < 40 and {each["reward"] for each in one.values()} == {0, 1}
    halves = [filtered(tmp_path, *WINDOW, "--state", "s.json", input=part) for part in (ROLLOUTS[:25], ROLLOUTS[25:])]
    assert {**halves[0], **halves[1]} == one
    held = remembered(tmp_path / "s.json")["tasks"]
    assert list(held) == ["mill_0", "mill_1"] and held["mill_0"]["windows"].keys() == {"memory", "reset"}
    # the even numbers that 3 divides are 54, 48, 42 at last; 37 times each, modulo 101
    assert held["mill_0"]["windows"]["memory"] == [0.39, 0.59, 0.79]
    assert held["mill_1"]["rewards"] == [each["reward"] for each in ROLLOUTS[1::2]]
    assert filtered(tmp_path, *WINDOW, input=ROLLOUTS[25:]) != halves[1]
    files = [("a.jsonl", ROLLOUTS[:25]), ("b.jsonl", ROLLOUTS[25:])]
    for name, part in files:
        filtered(tmp_path, *WINDOW, "--state", "f.json", "-o", name, input=part)
    assert decisions(read(tmp_path / "a.jsonl") + read(tmp_path / "b.jsonl")) == one
    assert remembered(tmp_path / "f.json")["tasks"] == held


def wait_for(file: Path, lines: int) -> None:
    for _ in range(1500):
        if file.exists() and file.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.02)
    raise AssertionError(f"{file} never had {lines} lines")


def killed(folder: Path, *command: str, after: int, written: Path, lines: int) -> bytes:
    """Kill a run that got the first rollouts once `written` has so many lines; what it wrote on standard output."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([str(BIN / command[0]), *command[1:]], cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin
    process.stdin.write(as_lines(*ROLLOUTS[:after]))
    process.stdin.flush()
    wait_for(written, lines)
    process.send_signal(signal.SIGKILL)
    out, _ = process.communicate()
    return out


def test_a_killed_run_goes_on_from_where_it_began(tmp_path: Path) -> None:
    begin = [one_graded(at + 100, 0.5, task={"id": f"mill_{at % 2}"}, trace="reset") for at in range(4)]
    for name in ("undisturbed", "disturbed"):
        (tmp_path / name).mkdir()
        filtered(tmp_path / name, *WINDOW, "--state", "s.json", input=begin)
    run = (*WINDOW, "--state", "s.json", "-o", "out.jsonl")
    filtered(tmp_path / "undisturbed", *run)
    whole = read(tmp_path / "undisturbed/out.jsonl")
    before = remembered(tmp_path / "disturbed/s.json")["tasks"]
    killed(tmp_path / "disturbed", *run, after=40, written=tmp_path / "disturbed/out.jsonl.partial", lines=5)
    now = remembered(tmp_path / "disturbed/s.json")
    assert now == {"tasks": before, "begun": {"output": str(tmp_path / "disturbed/out.jsonl"), "tasks": before}}
    filtered(tmp_path / "disturbed", *run, "--resume")
    assert read(tmp_path / "disturbed/out.jsonl") == whole
    after = remembered(tmp_path / "undisturbed/s.json")["tasks"]
    assert remembered(tmp_path / "disturbed/s.json")["tasks"] == after != before
    # killed between the state and the output's name: the same once more
    (tmp_path / "disturbed/out.jsonl").rename(tmp_path / "disturbed/out.jsonl.partial")
    filtered(tmp_path / "disturbed", *run, "--resume")
    assert read(tmp_path / "disturbed/out.jsonl") == whole
    assert remembered(tmp_path / "disturbed/s.json")["tasks"] == after


def test_an_input_that_grows_is_taken_up(tmp_path: Path) -> None:
    run = (*WINDOW, "--state", "s.json", "-o", "out.jsonl")
    filtered(tmp_path, *run, input=ROLLOUTS[:25])
    filtered(tmp_path, *run, "--resume")
    assert decisions(read(tmp_path / "out.jsonl")) == filtered(tmp_path, *WINDOW)


def test_a_killed_stream_has_left_what_went_by(tmp_path: Path) -> None:
    run = (*WINDOW, "--state", "s.json", "--mark")
    filtered(tmp_path, *run, "--allow-empty", input=[])
    empty = remembered(tmp_path / "s.json")
    assert empty == {"tasks": {}, "begun": None}
    pipe = subprocess.PIPE
    process = subprocess.Popen([str(BIN / run[0]), *run[1:]], cwd=tmp_path, stdin=pipe, stdout=pipe)
    assert process.stdin and process.stdout
    first = []
    for rollout in ROLLOUTS[:10]:
        process.stdin.write(as_lines(rollout))
        process.stdin.flush()
        answer = os.read(process.stdout.fileno(), 1 << 20)  # the end of its line comes with the next
        while not answer.endswith(b" }"):
            answer += os.read(process.stdout.fileno(), 1 << 20)
        first += records(answer)
    for _ in range(500):
        if len(json.loads((tmp_path / "s.json").read_text())["tasks"].get("mill_1", {}).get("rewards", ())) == 5:
            break
        time.sleep(0.02)
    process.kill()
    process.wait()
    rest = filtered(tmp_path, *run, input=ROLLOUTS[10:])
    assert {**decisions(first), **rest} == filtered(tmp_path, *WINDOW, "--mark") and len(rest) == 50


def test_a_run_that_fails_leaves_a_files_state_as_it_was(tmp_path: Path) -> None:
    run = (*WINDOW, "--state", "s.json")
    broken = as_lines(*ROLLOUTS[:3]) + b"[1]\n"
    run_command(*run, "-o", "out.jsonl", input=broken, cwd=tmp_path, check=False)
    assert remembered(tmp_path / "s.json")["tasks"] == {}
    run_command(*run, input=broken, cwd=tmp_path, check=False)
    assert len(remembered(tmp_path / "s.json")["tasks"]["mill_0"]["rewards"]) == 2


def test_states_that_cannot_be_used(tmp_path: Path) -> None:
    run = (*WINDOW, "--state", "s.json")
    path = tmp_path / "s.json"

    def told(*more: str) -> str:
        done = run_command(*run, *more, input=as_lines(ROLLOUTS[0]), cwd=tmp_path, check=False)
        assert done.returncode == 1 and done.stdout == (b"" if "-o" in more else b"{")
        return said(done)

    good = {"kind": "mle-filter state", "version": 1, "tasks": {}, "begun": None}
    for content, what in (
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"kind": "rollout"}', "no 'version'"),
        (json.dumps({**good, "version": 2}), "kind and version are 'mle-filter state' and 2"),
        (
            json.dumps({**good, "tasks": {"t": {"rewards": ["1"], "windows": {}}}}),
            "Expected `float`, got `str` - at `$.tasks[...].rewards[0]`",
        ),
    ):
        path.write_text(content)
        assert told() == (
            f"mle-filter: {path}: is not what mle-filter --state wrote ({what}); "
            "move it away to begin without it, or choose another --state\n"
        )
        assert path.read_text() == content
    path.unlink()
    with (tmp_path / "s.json.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert told() == f"mle-filter: {path}: another run is using it; wait for it or choose another --state\n"
    filtered(tmp_path, *run, "-o", "one.jsonl")
    filtered(tmp_path, *run, "-o", "two.jsonl")
    assert told("-o", "one.jsonl", "--resume") == (
        f"mle-filter: {path}: no longer knows what the run of {tmp_path}/one.jsonl began from: another run has used it "
        "since; choose another -o\n"
    )


def test_marked_and_unmarked_output_hold_the_same_decisions(tmp_path: Path) -> None:
    kept = filtered(tmp_path, *WINDOW)
    done = run_command(*WINDOW, "--mark", "--dropped", "d.jsonl", input=as_lines(*ROLLOUTS), cwd=tmp_path)
    marked = records(done.stdout)
    assert [each["id"] for each in marked] == [each["id"] for each in ROLLOUTS]
    assert decisions([each for each in marked if each["filter"]["kept"]]) == kept
    dropped = [each["id"] for each in marked if not each["filter"]["kept"]]
    assert [each["id"] for each in read(tmp_path / "d.jsonl")] == dropped and all(
        each["filter"]["reason"] for each in marked if not each["filter"]["kept"]
    )
    # through the same filter again, what was dropped stays so
    again = run_command(*ALONE, "--mark", input=done.stdout, cwd=tmp_path)
    assert decisions(records(again.stdout)) == decisions(marked)
    assert said(done).startswith("mle-filter: 60 records, ") and "dropped (warming up)" in said(done)


def test_the_preset_and_what_wins_over_it(tmp_path: Path) -> None:
    # rewards 0.1 ... 1.0: the top 0.3 of 10 are 0.8, 0.9, 1.0
    rising = [one_graded(at, (at + 1) / 10, code="the same", cut=cut_from(at / 10)) for at in range(10)]
    found = filtered(tmp_path, "mle-filter", "--preset", "mle-rl", input=rising)
    assert list(found) == ["r7", "r8", "r9"]
    # 0.8 less the mean of 0.1 ... 0.7; 1.0 less that of 0.2 ... 0.9, for the window has 8
    assert [each["normalised"] for each in found.values()] == [0.4, 0.45, 0.45]
    assert found["r9"] == {
        "kept": True, "reason": None, "gain": 0.1, "masked": [], "tau_abs": 0.8, "normalised": 0.45, "reward": 1,
    }  # fmt: skip

    def kept(*given: str) -> dict[str, Any]:
        selection = Selection(options(*given))
        decided = [one for rollout in rising for one in selection.add(rollout, {"gain": 0.1})]
        return {one.rollout["id"]: one.notes for one in [*decided, *selection.flush()] if one.reason is None}

    assert kept() == {id: {n: v for n, v in each.items() if n not in ("kept", "reason")} for id, each in found.items()}
    for given, left in (
        (("--top", "0.1"), ["r9"]),
        (("--top", "1"), [f"r{at}" for at in range(1, 10)]),
        (("--window", "0", "--top", "1"), [f"r{at}" for at in range(10)]),
        (("--window-min", "8", "--top", "1"), ["r8", "r9"]),
        (("--tau-adv", "0.1"), []),
        (("--tau-rm", "0.41"), ["r8", "r9"]),
        (("--drop-duplicates",), ["r7"]),  # the first one that is kept
        (("--min-group", "2"), []),
        (("--calibrate", "seen"), [f"r{at}" for at in range(1, 10)]),  # each is the best so far
    ):
        assert list(kept(*given)) == left, given
    assert kept("--no-binarise", "--no-mask-invalid")["r9"].keys() == {"gain", "tau_abs", "normalised"}
    assert kept("--normalise")["r9"]["reward"] == 0.45


def chosen(context: click.Context) -> FilterOptions:
    return FilterOptions(**{name: context.params[name] for name in CHOICES})


def options(*given: str) -> FilterOptions:
    """What the preset and the options amount to."""
    context = main.make_context("mle-filter", ["--preset", "mle-rl", *given])
    with context:
        return with_preset("mle-rl", chosen(context), flags_on_command_line())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--window", "8", "--binarise", "--normalise"), "--binarise and --normalise are two rewards: give one"),
        (("--normalise",), "--normalise needs --window N: it is about the running mean"),
    ],
)
def test_one_reward_of_the_running_mean(given: tuple[str, ...], said: str) -> None:
    with pytest.raises(OptionError, match=said), (context := main.make_context("mle-filter", [*given])):
        with_preset(None, chosen(context), flags_on_command_line())


def test_the_help_says_what_the_preset_sets() -> None:
    text = "".join(run_command("mle-filter", "--help-all").stdout.decode().split())  # lines break at hyphens, too
    preset = (
        "mle-rl: --mask-invalid --top 0.3 --tau-adv 0.01 --tau-val 0.1 --window 8 --prune 2 --tau-rm 0.03 --binarise "
        "--keep-duplicates --min-group 1 --no-spread. Options on the command line override it."
    )
    assert preset.replace(" ", "") in text


def test_ranks_are_those_of_the_tasks_leaderboard(tmp_path: Path) -> None:
    task = made_task(tmp_path)
    # teams at 0.54321 + 1.23457 n for n in 0 ... 8: 2.0 leaves 7 of 9 behind, 9.5 one
    step = one_graded(0, 8 / 9, task=task, cut=cut_from(0.5, "mle-rl", score=2.0), validation=shown(9.5))
    asked = (*ALONE, "--tau-adv", "0.01", "--tau-val", "0.1")
    found = filtered(tmp_path, *asked, input=[step])
    assert found["r0"] == {"kept": True, "reason": None, "gain": round(1 / 9, 10), "validation_rank": 1 / 9}
    worse = {**step, "id": "r1", "cut": cut_from(0.5, score=9.5), "validation": shown(10.5)}  # the rule is the grade's
    done = run_command(*asked, input=as_lines(worse), cwd=tmp_path)
    assert said(done).rpartition(", ")[0] == "mle-filter: 1 dropped (validation)"
    # a whole memory trace is compared with what it began from
    whole = one_graded(2, 8 / 9, task=task, trace="memory", state={"score": 2.0})
    assert filtered(tmp_path, *asked, input=[whole])["r2"]["gain"] == round(1 / 9, 10)


def shown(score: float) -> dict[str, Any]:
    return {"valid": True, "reason": None, "score": score}


@pytest.mark.parametrize("option", ["--tau-adv", "--tau-val"])
def test_without_a_leaderboard_there_is_no_rank(option: str, tmp_path: Path) -> None:
    bare = one_graded(0, 0.5, grade={"human_rank": None, "human_rank_rule": None})
    done = run_command(*ALONE, option, "0.1", input=as_lines(bare), cwd=tmp_path, check=False)
    assert said(done) == f"mle-filter: stdin:1: {option}: the task has no leaderboard\n" and done.returncode == 1
    asked = (*ALONE, option, "0.1", "--max-rejects", "1")
    assert "1 rejected" in said(run_command(*asked, input=as_lines(bare), cwd=tmp_path))


def test_a_folder_that_is_not_the_tasks_is_refused(tmp_path: Path) -> None:
    task = {**made_task(tmp_path)}
    step = one_graded(0, 0.5, task=task, validation=shown(2.0))
    (tmp_path / task["data"]["dir"] / "private/leaderboard.csv").write_text("team,score\na,1\n")
    done = run_command(*ALONE, "--tau-val", "0.1", input=as_lines(step), cwd=tmp_path, check=False)
    assert done.returncode == 1 and "the files are not those of the task record (digest differs)" in said(done)
