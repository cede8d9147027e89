"""Which tasks an endless run works on by what can be learnt (--draw learnable): shares, the file of rewards, going on."""

import array
import copy
import fcntl
import json
import os
import signal
import subprocess
import termios
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, machine_environment, records, run_command

from mletools.base.errors import ToolError
from mletools.base.jsonl import Line
from mletools.rollout import draw
from mletools.rollout.draw import DECAY, FLOOR, Learnable, LearnableState
from mletools.rollout.endless import State
from mletools.scaffolds.interface import state_id

TASKS = [json.loads(line) for line in (ROOT / "examples/tasks/tasks.jsonl").read_text().splitlines()]
IDS = [task["id"] for task in TASKS[:3]]
NOTHING = {"prompt_tokens": None, "completion_tokens": None, "seconds": 0.0, "usd": None}


def drawn(learnable: Learnable, of: Sequence[str], times: int) -> list[str]:
    return [learnable.draw(of)[0] for _ in range(times)]


def group(learnable: Learnable, of: str, *rewards: float | None) -> None:
    name = f"{of} {learnable.known[of]['groups']}"
    for reward in rewards:
        learnable.reward(of, name, len(rewards), reward)


def begun(of: str) -> Learnable:
    learnable = Learnable()
    drawn(learnable, of, len(of))
    return learnable


# --- shares


def test_what_nobody_knows_anything_of_takes_turns() -> None:
    learnable = Learnable()
    assert [learnable.draw("abc") for _ in range(12)] == [(each, past) for past in range(4) for each in "abc"]


def test_what_is_all_alike_takes_turns() -> None:
    learnable = begun("abc")
    for of in "abc":
        group(learnable, of, 0, 1)
    assert "".join(drawn(learnable, "abc", 9)) == "abcabcabc"
    for of in "abc":
        group(learnable, of, *[1] * 4)
    assert "".join(drawn(learnable, "abc", 9)) == "abcabcabc"


def test_a_share_grows_with_the_spread_within_groups() -> None:
    learnable = begun("abc")
    group(learnable, "a", 0, 1, 0, 1)  # 0.5
    group(learnable, "b", 0.5, 1, 1, 0.5)  # 0.25
    group(learnable, "c", 0.2, 0.2, 0.2, 0.2)  # 0, whatever the reward is
    expected = [FLOOR / 3 + (1 - FLOOR) * share for share in (2 / 3, 1 / 3, 0)]
    assert learnable.shares("abc") == pytest.approx(expected) and sum(expected) == pytest.approx(1)
    counts = Counter(drawn(learnable, "abc", 600))
    assert all(abs(counts[of] - 600 * share) <= 1.5 for of, share in zip("abc", expected, strict=True))


def test_groups_with_equal_means_over_groups_have_no_spread_within() -> None:
    learnable = begun("ab")
    for rewards in ([0, 0], [1, 1], [0, 0]):  # the policy changes, and no group can tell its rollouts apart
        group(learnable, "a", *rewards)
    group(learnable, "b", 0.4, 0.6)
    assert learnable.known["a"]["spread"] == 0 and learnable.shares("ab")[1] == pytest.approx(1 - FLOOR / 2)


def test_what_was_long_ago_counts_for_less() -> None:
    learnable = begun("ab")
    group(learnable, "a", 0, 1)
    group(learnable, "a", 1, 1)
    assert learnable.known["a"]["spread"] == pytest.approx(DECAY * 0.5 / (DECAY + 1))
    for _ in range(40):
        group(learnable, "a", 1, 1)
    group(learnable, "b", 0, 0.1)
    assert learnable.shares("ab")[0] < FLOOR / 2 + 0.01  # solved, and left alone but for its floor


def test_none_is_ever_dropped() -> None:
    names = "abcdefghij"
    learnable = begun(names)
    for of in names:
        group(learnable, of, 0, 1 if of == "a" else 0)
    found = drawn(learnable, names, 1000)
    last = dict.fromkeys(names, -1)
    for at, of in enumerate(found):
        assert at - last[of] <= 2 * len(names) / FLOOR
        last[of] = at
    assert max(1000 - at for at in last.values()) <= 2 * len(names) / FLOOR and Counter(found)["a"] > 800


def test_new_ones_come_first_and_count_as_the_mean_until_something_comes_back() -> None:
    learnable = begun("ab")
    group(learnable, "a", 0, 1)
    group(learnable, "b", 0, 0.5)
    assert learnable.draw("abcd") == ("c", 0) and learnable.draw("abcd") == ("d", 0)
    shares = learnable.shares("abcd")
    assert shares[2] == shares[3] == pytest.approx((shares[0] + shares[1]) / 2)


def test_a_group_counts_when_all_of_it_has_come() -> None:
    learnable = begun("a")
    for reward in (0, None, 1):
        learnable.reward("a", "g", 4, reward)
        assert learnable.known["a"]["groups"] == 0
    learnable.reward("a", "h", 4, 1)
    learnable.reward("a", "g", 4, None)  # has come, and has no reward
    assert learnable.known["a"]["groups"] == 1 and learnable.known["a"]["spread"] == 0.5
    assert list(learnable.open) == ["h a"]


def test_a_reward_that_no_trainer_learns_from_is_none() -> None:
    learnable = begun("ab")
    group(learnable, "a", 0, 1, 1e200)
    group(learnable, "b", 0, 1)
    assert learnable.shares("ab") == [0.5, 0.5]


def test_what_does_not_come_any_more_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "OPEN", 2)
    learnable = begun("a")
    for name in ("g", "h"):
        for reward in (0, 1):
            learnable.reward("a", name, 4, reward)
    assert learnable.known["a"]["groups"] == 0
    learnable.reward("a", "i", 4, 1)
    assert learnable.known["a"]["groups"] == 1 and learnable.known["a"]["spread"] == 0.5
    assert list(learnable.open) == ["h a", "i a"]


def test_rewards_of_other_tasks_and_without_a_group_change_nothing() -> None:
    learnable = begun("a")
    before = copy.deepcopy(learnable)
    assert learnable.shares("a") == [1]
    learnable.reward("z", "g", 2, 1)
    learnable.reward("a", "g", 1, 1)
    assert learnable == before


# --- the file of rewards, and the state


def rollout(of: str, group: str, sample: int, reward: float | None, size: int = 2, **more: Any) -> dict[str, Any]:
    task = next(each for each in TASKS if each["id"] == of)
    return {
        "kind": "rollout", "version": 1, "id": f"{group}-{sample}", "lineage": [], "task": task, "group": group,
        "group_size": size, "sample": sample, "seed": 0, "scaffold": "single",
        "policy": {"model": "m", "version": None, "sampling": {}}, "messages": [{"role": "user", "content": "?"}],
        "turns": [], "usage": NOTHING, "stop_reason": "finished", "code": None, "reward": reward, **more,
    }  # fmt: skip


def append(path: Path, *made: dict[str, Any]) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write("".join(json.dumps(each) + "\n" for each in made))


def opened(folder: Path, said: list[str] | None = None) -> LearnableState:
    say = (lambda told: None) if said is None else said.append
    return LearnableState.read(folder / "state", 0, folder / "graded", say)


def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Also where a group is half there; each reward counts once. What is begun anew at every draw stands for a kill."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    undisturbed = opened(whole)
    expected, found = [], []
    for _ in range(40):
        expected.append(undisturbed.next(IDS))
        found.append(opened(killed).next(IDS))
        of, past = expected[-1]
        for folder in (whole, killed):  # a group has one rollout of each of two draws
            append(folder / "graded", rollout(of, f"g{past // 2}", past % 2, float(of == IDS[1] and past % 2)))
    assert found == expected
    last = opened(killed)
    assert last.learnable == undisturbed.learnable and last.groups == 40
    assert last.rewards.number == 39  # the last came after the last draw
    assert Counter(of for of, _ in found[-20:])[IDS[1]] > 10
    assert not (killed / "state.partial").exists()


def test_what_was_graded_before_counts_also_without_a_state(tmp_path: Path) -> None:
    """A file that an earlier run wrote: what it knows of is not new."""
    append(tmp_path / "graded", *(rollout(IDS[0], "g", sample, float(sample)) for sample in range(2)))
    state = opened(tmp_path)
    assert [state.next(IDS[:2])[0] for _ in range(2)] == [IDS[1], IDS[0]]
    assert state.learnable.known[IDS[0]]["groups"] == 1


def test_nothing_graded_yet_is_no_error_and_a_line_waits_for_its_end(tmp_path: Path) -> None:
    state = opened(tmp_path)
    assert [state.next(IDS)[0] for _ in range(3)] == IDS
    text = json.dumps(rollout(IDS[0], "g", 0, 1.0)) + "\n"
    (tmp_path / "graded").write_text(text[:50])
    state.next(IDS)
    assert not state.learnable.open
    (tmp_path / "graded").write_text(text)
    state.next(IDS)
    assert [each["rewards"] for each in state.learnable.open.values()] == [[1.0]]


def test_a_file_that_was_begun_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    state = opened(tmp_path)
    state.next(IDS)
    append(tmp_path / "graded", rollout(IDS[0], "g", 0, 1.0), rollout(IDS[0], "g", 1, 0.0))
    state.next(IDS)
    (tmp_path / "graded").write_text("")
    append(tmp_path / "graded", rollout(IDS[0], "h", 0, 1.0))
    state.next(IDS)
    assert list(state.learnable.open) == [f"h {IDS[0]}"] and state.rewards.number == 1


def test_a_torn_line_is_told_and_left_out(tmp_path: Path) -> None:
    """A kill leaves half a line, and `tee -a` goes on behind it."""
    said: list[str] = []
    state = opened(tmp_path, said)
    state.next(IDS)
    one, two = (json.dumps(rollout(IDS[0], "g", sample, 1.0)) for sample in range(2))
    (tmp_path / "graded").write_text(f"{one[:100]}{one}\n{two}\n")
    state.next(IDS)
    assert len(said) == 1 and said[0].startswith(f"{tmp_path / 'graded'}:1: left out: ")
    assert [each["rewards"] for each in state.learnable.open.values()] == [[1.0]]


def test_what_is_no_graded_rollout_is_an_error(tmp_path: Path) -> None:
    ungraded = rollout(IDS[0], "g", 0, 1.0)
    del ungraded["reward"]
    for record, message in (
        (ungraded, ":1: no reward: --draw-from is what mle-grade writes"),
        (TASKS[0], ":1: this is a task, not a rollout"),
    ):
        (tmp_path / "graded").write_text(json.dumps(record) + "\n")
        with pytest.raises(ToolError, match=message):
            opened(tmp_path).next(IDS)


def test_rollouts_of_other_tasks_alone_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "OPEN", 3)
    said: list[str] = []
    state = opened(tmp_path, said)
    state.next(IDS[:1])
    append(tmp_path / "graded", *(rollout(IDS[1], "g", at, 1.0) for at in range(5)))
    state.next(IDS[:1])
    assert said == [f"{tmp_path / 'graded'}: 3 rollouts, and none is of the tasks that are drawn from"]


def test_a_state_is_drawn_as_a_task_is(tmp_path: Path) -> None:
    """A rollout that began from one counts for it; one that began from another solution (of a pool) for its task."""
    mine = state_id("r", 3)
    state = opened(tmp_path)
    assert [state.next([IDS[0], mine])[0] for _ in range(2)] == [IDS[0], mine]
    for turn, reward in ((3, 1.0), (4, 0.0)):
        start = {"rollout": "r", "turn": turn, "code": "x", "score": 1.0}
        append(tmp_path / "graded", rollout(IDS[0], "g", turn, reward, state=start))
    append(tmp_path / "graded", rollout(IDS[0], "h", 0, 0.5))
    state.next([IDS[0], mine])
    assert {each["of"]: each["rewards"] for each in state.learnable.open.values() if each["of"] == mine} == {
        mine: [1.0]
    }
    assert [each["rewards"] for each in state.learnable.open.values() if each["of"] == IDS[0]] == [[0.0], [0.5]]


GOOD: dict[str, Any] = {
    "kind": "mle-rollout state", "version": 1, "seed": 0, "groups": 1, "draw_from": "graded",
    "read": {"bytes": 0, "lines": 0}, "known": {"a": {"draws": 1, "owed": 0.0, "spread": 0.0, "groups": 0.0}}, "open": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, r"is no state of mle-rollout \(kind and version are 'mle-rollout state' and 2\): remove it"),
        ({"kind": "x"}, "is no state of mle-rollout .kind and version are 'x' and 1"),
        ({"groups": -1}, r"Expected `int` >= 0 - at `\$.groups`"),
        ({"read": {"bytes": 1.5, "lines": 0}}, r"Expected `int`, got `float` - at `\$.read.bytes`"),
        ({"read": {"bytes": 1}}, "Object missing required field `lines`"),
        (
            {"known": {"a": {"draws": 1, "owed": "0", "spread": 0.0, "groups": 0.0}}},
            r"Expected `float`, got `str` - at `\$.known\[...\].owed`",
        ),
        (
            {"known": {"a": {"draws": 1, "owed": 0.0, "spread": True, "groups": 0.0}}},
            r"Expected `float`, got `bool` - at `\$.known\[...\].spread`",
        ),
        ({"known": []}, "is no state of mle-rollout"),
        ({"open": {"g": {"of": "b", "rewards": []}}}, "an open group is of no task"),
        (
            {"open": {"g": {"of": "a", "rewards": ["x"]}}},
            r"Expected `float \| null`, got `str` - at `\$.open\[...\].rewards\[0\]`",
        ),
        ({"seed": 1}, "was kept with --seed 1 --draw-from graded: give the same, or another file"),
        ({"draw_from": "other"}, "was kept with --seed 0 --draw-from other: give the same, or another file"),
    ],
)
def test_a_state_that_is_none_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text(json.dumps(GOOD))
    assert LearnableState.read(path, 0, Path("graded"), print).groups == 1
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(ToolError, match=message):
        LearnableState.read(path, 0, Path("graded"), print)
    for text in ("{", '{"kind": NaN}', "[]"):
        path.write_text(text)
        with pytest.raises(ToolError, match=r"is no state of mle-rollout .*: remove it to begin anew"):
            LearnableState.read(path, 0, Path("graded"), print)


def test_the_states_of_both_ways_to_draw_do_not_mix(tmp_path: Path) -> None:
    lines: list[Line[Any]] = [Line("f", 1, "", {"id": "a"}, None)]
    State.read(tmp_path / "state", lines, 0).begun()
    with pytest.raises(ToolError, match="was kept with --draw uniform: give another file"):
        opened(tmp_path)
    (tmp_path / "state").unlink()
    opened(tmp_path).next("a")
    with pytest.raises(ToolError, match="was kept with --draw learnable: give another file"):
        State.read(tmp_path / "state", lines, 0)


# --- the command


ENDLESS = ("mle-rollout", "-q", "-m", "scripted", "-g", "2", "--forever")
LEARNABLE = ("--draw", "learnable", "--draw-from", "graded.jsonl", "--state", "state")


def rolled(folder: Path, *options: str) -> list[dict[str, Any]]:
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS[:2]))
    done = run_command(*ENDLESS, *options, "tasks.jsonl", cwd=folder, MLE_DATA=str(ROOT / "examples"))
    return records(done.stdout)


def test_without_rewards_learnable_is_uniform(tmp_path: Path) -> None:
    uniform = rolled(tmp_path, "--passes", "3")
    learnable = rolled(tmp_path, "--passes", "3", *LEARNABLE)
    assert [record["id"] for record in learnable] == [record["id"] for record in uniform] and len(uniform) == 12
    assert learnable[0]["lineage"][-1]["options"]["draw"] == "learnable"
    assert "draw" not in uniform[0]["lineage"][-1]["options"]


def test_rewards_that_come_back_decide_what_is_drawn(tmp_path: Path) -> None:
    first = rolled(tmp_path, "--passes", "1", *LEARNABLE)
    assert [record["task"]["id"] for record in first] == [IDS[0], IDS[0], IDS[1], IDS[1]]
    taught = {IDS[0]: (0.0, 0.0), IDS[1]: (0.0, 1.0)}
    append(
        tmp_path / "graded.jsonl", *({**each, "reward": taught[each["task"]["id"]][each["sample"]]} for each in first)
    )
    after = rolled(tmp_path, "--passes", "11", *LEARNABLE)
    assert Counter(record["task"]["id"] for record in after) == {IDS[0]: 2 * 2, IDS[1]: 2 * 18}
    assert len({record["id"] for record in first + after}) == 44  # each group has a seed of its own


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_endless_run_that_is_ended_in_the_middle_of_a_record_writes_it_whole(
    number: int, times: int, tmp_path: Path
) -> None:
    """Its reader is slow, and the pipe is full; `timeout` sends its signal twice."""
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASKS[0]) + "\n")
    environment = {**machine_environment(), "PATH": f"{BIN}:{os.environ['PATH']}", "MLE_DATA": str(ROOT / "examples")}
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen([*ENDLESS, "tasks.jsonl"], stdout=writer, cwd=tmp_path, env=environment)
    os.close(writer)
    waiting = array.array("i", [0])
    while waiting[0] < size:
        assert process.poll() is None
        time.sleep(0.1)
        fcntl.ioctl(reader, termios.FIONREAD, waiting)
    time.sleep(0.5)
    for _ in range(times):
        process.send_signal(number)
        time.sleep(0.1)
    time.sleep(0.5)
    assert process.poll() is None
    with open(reader, "rb") as file:
        text = file.read()
    assert process.wait() == 128 + number
    assert text.endswith(b"\n") and all(json.loads(line) for line in text.splitlines())


@pytest.mark.slow
def test_in_a_pipe_the_graded_rollouts_come_back(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in TASKS[:2]))
    (tmp_path / "tasks").symlink_to(ROOT / "examples/tasks")
    environment = {**machine_environment(), "PATH": f"{BIN}:{os.environ['PATH']}", "MLE_DATA": "."}
    after = "mle-sandbox -q -j 1 | mle-grade -q | tee -a graded.jsonl | mle-filter -q --keep-invalid > kept"
    for passes in (1, 2):
        line = " ".join([*ENDLESS, "-g 4", "--passes", str(passes), *LEARNABLE, "tasks.jsonl"])
        pipe = ["bash", "-c", f"set -o pipefail; {line} | {after}"]
        subprocess.run(pipe, cwd=tmp_path, check=True, env=environment, timeout=200)
    state = json.loads((tmp_path / "state").read_text())
    assert [state["known"][id]["groups"] for id in IDS[:2]] == [1, 1] and state["groups"] == 4
    graded = records((tmp_path / "graded.jsonl").read_bytes())
    assert len(graded) == 16 and state["read"]["lines"] == 8
