"""The pool of best solutions, the likeness of programs and the set of previous solutions."""

import functools
import itertools
import json
import random
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scaffold_task import TASK

from mletools.base.errors import RecordError, ToolError
from mletools.scaffolds.likeness import LARGEST, similarity
from mletools.scaffolds.messages import fenced
from mletools.scaffolds.pool import ALIKE, Entry, Pool, entry_id
from mletools.scaffolds.previous import GrowingPool, Previous, PreviousPool, output
from mletools.solutions import choices, program


def text(*lines: int) -> str:
    """What is no Python is compared by its lines, so likeness can be worked out by hand."""
    return "".join(f"? {line}\n" for line in lines)


def entry(code: str, score: float, task: str = "t", **more: Any) -> Entry:
    return Entry(entry_id(task, code), task, code, score, **{"step": 0, "trace": "r", **more})


def scores(pool: Pool) -> list[float]:
    return [one.score for one in pool.entries()]


# A and B share 3 of 4 lines, so do B and C; A and C share 2.
A, B, C, D, E = text(1, 2, 3, 4), text(2, 3, 4, 5), text(3, 4, 5, 6), text(7), text(8)


@pytest.fixture(params=["memory", "folder"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "pools" if request.param == "folder" else None


def test_likeness_by_hand() -> None:
    # Expr, Call, Name f, Name x: 6 runs of 3 with the ends; 3 of them hold the name that differs
    assert similarity("f(x)", "g(x)") == 3 / 6
    assert (similarity(A, B), similarity(A, C), similarity(A, D)) == (0.75, 0.5, 0.0)
    assert similarity("", "# nothing\n") == 1.0 and similarity("", "f(x)") == 0.0
    assert similarity("a = 1", "a b") == 0.0, "one that does not parse: by lines"
    assert similarity("? 1\n? 1\n", "? 1\n") == 2 / 3, "repeats count"


def test_likeness_sees_through_names_formatting_and_comments() -> None:
    one = 'import numpy as np\n\ndef f(a, b=1):\n    """Adds."""\n    c = np.sum(a) + b  # sum\n    return c\nprint(f([1, 2]))\n'
    other = "import numpy\ndef add(x,\n  y=1):\n  z=numpy.sum(x)+y\n  return z\nprint( add([3,4]) )"
    assert similarity(one, other) == 1.0
    assert similarity(one, other.replace("sum", "prod")) < ALIKE, "another function is called"
    assert similarity(one, other.replace("[3,4]", "[3,'4']")) < 1.0, "another type of constant"


def test_likeness_never_raises_and_is_symmetric() -> None:
    hostile = [
        "x = '\0'", "x = '\ud800'", "-" * 100_000 + "1", "a" + ".b" * 90_000, "1+" * 90_000 + "1", "(" * 1000,
        "x = " + "9" * 50_000, "if a: pass\n" + "elif b: pass\n" * 20_000, "f(" * 80 + ")" * 80, "\n" * 1_000_000, "",
        "x = 1\n" * (LARGEST // 6 + 1),
    ]  # fmt: skip
    for one in hostile:
        assert similarity(one, one + " ") > 0.9 or "\n" not in one
        assert 0 <= similarity(one, "f(x)\ng(x)") == similarity("f(x)\ng(x)", one) < 1
    assert similarity(hostile[-1], hostile[-1] + "y = 2\n") > 0.99, "too long to parse: by lines"


def test_other_settings_of_a_model_are_alike_and_another_model_mostly_is_not() -> None:
    task = {**TASK, "data": {**TASK["data"], "public": ["train.csv", "test.csv", "sample_submission.csv"]}}
    levels = {one.level: program(task, one) for one in choices(task)}
    for one in choices(task):
        assert similarity(program(task, one), levels[one.level]) == 1.0
    pool = Pool("t", lower_is_better=False, capacity=5)
    for place, code in enumerate(program(task, one) for one in choices(task)):
        pool.push(entry(code, place))
    assert len(pool.entries()) == 5, "the bank's short programs alone give five approaches"


@pytest.mark.parametrize("lower", [False, True])
def test_room_then_the_worst_gives_way_to_the_strictly_better(folder: Path | None, lower: bool) -> None:
    sign = -1 if lower else 1
    pool = Pool("t", lower, capacity=2, folder=folder)
    assert pool.get(0) is None and pool.entries() == []
    assert pool.push(entry(A, sign * 1.0)) and pool.push(entry(D, sign * 3.0))
    assert not pool.push(entry(E, sign * 1.0)), "equal to the worst is not enough"
    assert not pool.push(entry(E, sign * 0.5))
    assert pool.push(entry(E, sign * 2.0))
    assert scores(pool) == [sign * 3.0, sign * 2.0]
    assert [one.code for one in pool.entries()] == [D, E]


def test_of_alike_ones_only_the_best_stays(folder: Path | None) -> None:
    pool = Pool("t", lower_is_better=False, capacity=3, similarity=0.7, folder=folder)
    assert pool.push(entry(A, 1.0)) and pool.push(entry(C, 2.0)), "A and C share half"
    assert not pool.push(entry(B, 1.5)), "alike to both, better than one only, though there is room"
    assert not pool.push(entry(B, 2.0)), "a tie keeps the member"
    assert pool.push(entry(B, 2.5)) and [one.code for one in pool.entries()] == [B]
    assert pool.push(entry(D, 0.5)) and pool.push(entry(E, 0.6))
    assert not pool.push(entry(A, 2.4)), "better than the worst, but alike to a better one"
    assert scores(pool) == [2.5, 0.6, 0.5]
    exactly = Pool("t", lower_is_better=False, similarity=0.75)
    assert exactly.push(entry(A, 1.0)) and exactly.push(entry(B, 0.5)), "0.75 is not more than 0.75"


def test_the_very_same_program_is_there_once_with_its_best_score() -> None:
    pool = Pool("t", lower_is_better=True, similarity=1.0)
    assert pool.push(entry(A, 2.0)) and not pool.push(entry(A, 2.0)) and pool.push(entry(A, 1.0, step=4))
    assert pool.entries() == [entry(A, 1.0, step=4)]


def test_what_is_no_entry_of_the_pool_is_refused() -> None:
    for wrong in (
        entry(A, float("nan")),
        entry(A, float("inf")),
        entry(A, 1.0, task="u"),
        replace(entry(A, 1), id="0"),
    ):
        pool = Pool("t", lower_is_better=False)
        with pytest.raises(ValueError):
            pool.push(wrong)
        assert pool.entries() == []
    for capacity, alike in ((0, 0.5), (1, 1.5), (1, float("nan"))):
        with pytest.raises(ValueError):
            Pool("t", False, capacity, alike)


def test_get_draws_evenly_whatever_the_order_of_pushes(folder: Path | None) -> None:
    entries = [entry(A, 1.0), entry(D, 2.0), entry(E, 2.0)]
    drawn = []
    for at, order in enumerate(itertools.permutations(entries)):
        pool = Pool("t", lower_is_better=False, folder=folder and folder / str(at))
        assert all(pool.push(one) for one in order)
        assert pool.entries() == sorted(entries, key=lambda one: (-one.score, one.id))
        drawn.append([pool.get(seed) for seed in range(300)])
    assert all(one == drawn[0] for one in drawn)
    assert all(70 < drawn[0].count(one) < 130 for one in entries)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), st.integers(0, 5)), max_size=9
    ),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_what_holds_in_any_order(found: list[tuple[list[int], int]], capacity: int, order: random.Random) -> None:
    candidates = [entry(text(*sorted(lines)), float(score)) for lines, score in found]
    order.shuffle(candidates)
    pool = Pool("t", lower_is_better=False, capacity=capacity, similarity=0.6)
    for one in candidates:
        assert pool.push(one) == (one in pool.entries()) or one in pool.entries()
    kept = pool.entries()
    assert len(kept) <= capacity and set(kept) <= set(candidates)
    assert all(similarity(one.code, other.code) <= 0.6 for one, other in itertools.combinations(kept, 2))
    if candidates:
        best = max(one.score for one in candidates)
        assert kept[0].score == best and next(one for one in candidates if one.score == best) in kept


def test_the_file_is_read_back_as_written(tmp_path: Path) -> None:
    wanted = entry("x = '\u2028\x0c'\r\n", -1e-300, step=7, trace="r9", plan="a\nb", output="\x1b[0m é")
    assert Pool("t", False, folder=tmp_path).push(wanted)
    assert Pool("t", False, folder=tmp_path).entries() == [wanted]
    record = json.loads((tmp_path / "t.jsonl").read_text())
    assert record["kind"] == "pool_entry" and record["version"] == 1
    assert not (tmp_path / "t.partial").exists()
    smaller = Pool("t", False, capacity=1, folder=tmp_path)
    assert smaller.push(entry(D, 5.0)) and smaller.entries() == [entry(D, 5.0)]


def test_a_task_id_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    for task in ("../up", "/tmp/x", "a/b", ".", "", "é", "a" * 300, "a\n", "a\0b"):
        pool = Pool(task, False, folder=tmp_path / "pools")
        assert pool.push(entry(A, 1.0, task=task)) and pool.entries() == [entry(A, 1.0, task=task)]
    assert [path.name for path in tmp_path.iterdir()] == ["pools"]
    assert len(list((tmp_path / "pools").glob("*.jsonl"))) == 9


def test_a_torn_or_foreign_file_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    pool, path = Pool("t", False, folder=tmp_path), tmp_path / "t.jsonl"
    pool.push(entry(A, 2.0))
    pool.push(entry(D, 1.0))
    good = path.read_text().split("\n")
    second = json.loads(good[1])
    for broken, reason in (
        (good[1][:40], "not JSON: Expecting property name enclosed in double quotes at column 39"),
        ('{"kind": "rollout"}', "no pool_entry of version 1"),
        (json.dumps({**second, "version": 2}), "no pool_entry of version 1"),
        (json.dumps({**second, "score": None}), "Expected `float`, got `null` - at `$.score`"),
        (json.dumps({**second, "score": 10**400}), "not JSON: 10000000000000000000... is too large for a number"),
        (json.dumps({**second, "step": True}), "Expected `int`, got `bool` - at `$.step`"),
        (json.dumps({**second, "task": "u"}), "an entry of task u, not t"),
        (json.dumps({**second, "code": "x"}), "an id that does not match the program"),
        (json.dumps({**second, "lower_is_better": True}), "scores of the opposite direction"),
    ):
        path.write_text(f"{good[0]}\n{broken}")
        for use in (pool.entries, lambda: pool.get(0), lambda: pool.push(entry(E, 3.0))):
            with pytest.raises(ToolError) as error:
                use()
            assert str(error.value).startswith(f"{path}:2: ")
            if not reason.startswith("not JSON"):
                assert str(error.value) == (
                    f"{path}:2: {reason}: remove this line, or move the file away to start an empty pool"
                )
        assert path.read_text() == f"{good[0]}\n{broken}", "what cannot be read is not overwritten"
    path.unlink()
    path.mkdir()
    with pytest.raises(ToolError, match="Is a directory"):
        pool.entries()
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match=r"Not a directory|File exists"):
        Pool("t", False, folder=tmp_path / "file").push(entry(A, 1.0))


WRITER = """
import sys
from pathlib import Path
from mletools.scaffolds.pool import Entry, Pool, entry_id

def push(pool, code, score, plan=""):
    return pool.push(Entry(entry_id("t", code), "t", code, score, 0, "r", plan))

folder, me = Path(sys.argv[1]), int(sys.argv[2])
"""
PUSH_25 = """
pool, alike = Pool("t", False, 5, folder=folder), Pool("t", False, 5, folder=folder / "alike")
print(flush=True)
sys.stdin.readline()
for n in range(25):
    at = (n * 4 + me) * 37 % 100
    push(pool, f"import m{at}\\nm{at}.f{at}()\\n", at)
    push(alike, f"import m{at % 7}\\nm{at % 7}.f({at})\\n", at)
print(flush=True)
sys.stdin.readline()
print([one.code for one in pool.entries()], [one.code for one in alike.entries()], flush=True)
"""
PUSH_FOR_EVER = """
pool = Pool("t", False, 3, folder=folder)
print(flush=True)
n = me * 1_000_000
while True:
    n += 1
    push(pool, f"import m{n}\\nm{n}.f{n}()\\n", n, "x" * 500_000)
"""


def writers(script: str, folder: Path, numbers: Sequence[int]) -> list["subprocess.Popen[str]"]:
    pipe = subprocess.PIPE
    found = [
        subprocess.Popen([sys.executable, "-c", WRITER + script, folder, str(at)], stdin=pipe, stdout=pipe, text=True)
        for at in numbers
    ]
    for one in found:
        line(one)
    return found


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline()


def test_processes_that_push_at_once_lose_nothing(tmp_path: Path) -> None:
    found = writers(PUSH_25, tmp_path, range(4))
    for _ in range(2):  # all begin together; all have pushed before one looks
        for one in found:
            assert one.stdin
            one.stdin.write("\n")
            one.stdin.flush()
        seen = [line(one) for one in found]
    assert [one.wait() for one in found] == [0] * 4
    best = [f"import m{at}\nm{at}.f{at}()\n" for at in range(99, 94, -1)]
    # of the seven kinds of program the best of each is among the last seven scores
    alike = [f"import m{at % 7}\nm{at % 7}.f({at})\n" for at in range(99, 94, -1)]
    assert set(seen) == {f"{best} {alike}\n"}
    assert [one.code for one in Pool("t", False, 5, folder=tmp_path).entries()] == best


def test_threads_that_push_at_once_lose_nothing(folder: Path | None, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(functools.partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(1e-6)
    pool = Pool("t", False, capacity=5, folder=folder)
    entries = [entry(text(at), float(at)) for at in range(60)]
    random.Random(0).shuffle(entries)
    threads = [threading.Thread(target=lambda at=at: [pool.push(one) for one in entries[at::4]]) for at in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert scores(pool) == [59.0, 58.0, 57.0, 56.0, 55.0]


def is_whole(entries: list[Entry], best: float) -> bool:
    return len(entries) == 3 and entries[0].score >= best and all(len(one.plan) == 500_000 for one in entries)


def test_a_killed_writer_leaves_the_old_pool_or_the_new_one(tmp_path: Path) -> None:
    pool, best = Pool("t", False, 3, folder=tmp_path), 3.0
    assert all(pool.push(entry(text(at), at, plan="x" * 500_000)) for at in (1, 2, 3))
    for life in range(1, 4):
        one, other = writers(PUSH_FOR_EVER, tmp_path, (2 * life, 2 * life + 1))
        for victim, reads in ((one, 5 + life), (other, 2)):
            for _ in range(reads):  # who reads while others write sees whole pools, too
                assert is_whole(pool.entries(), best)
            victim.kill()
            assert victim.wait() == -9
            assert is_whole(pool.entries(), best)
            best = pool.entries()[0].score
    assert best > 3.0, "some pushes were done"
    assert pool.push(entry(D, 1e9)) and pool.entries()[0].code == D, "no dead writer holds the lock"


def rollout(id: str, code: str | None = "print(1)\n", task: str = "wine-1", **execution: Any) -> dict[str, Any]:
    nothing = {"head": "", "tail": "", "bytes": 0}
    ran = {
        "status": "ok", "exit_code": 0, "duration_s": 1, "cpu_s": 1, "peak_memory_mb": 1, "stdout": said("done\n"),
        "stderr": nothing, "markers": [], "submission": {"file": "f", "digest": "d", "bytes": 1},
        "submission_problem": None, "backend": "local", "start": "warm", "gpu": None, "protections": {}, "limits": {},
    }  # fmt: skip
    return {
        "kind": "rollout", "version": 1, "id": id, "lineage": [], "task": {**TASK, "id": task}, "group": "g",
        "group_size": 1, "sample": 0, "seed": 0, "scaffold": "single",
        "policy": {"model": "m", "version": None, "sampling": {}},
        "messages": [{"role": "user", "content": "?"}], "turns": [],
        "usage": {"prompt_tokens": None, "completion_tokens": None, "seconds": 0, "usd": None},
        "stop_reason": "finished", "plan": "Print.", "code": code, "execution": {**ran, **execution},
    }  # fmt: skip


def said(head: str, tail: str = "") -> dict[str, Any]:
    return {"head": head, "tail": tail, "bytes": len(head) + len(tail)}


def write(path: Path, *rollouts: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rollouts))
    return path


def test_only_what_ended_well_is_worth_improving(tmp_path: Path) -> None:
    unrun = {name: value for name, value in rollout("u").items() if name != "execution"}
    instrumented = {"code": "secret", "nonce": "n", "markers": [], "problem": None}
    path = write(
        tmp_path / "r.jsonl",
        {**rollout("a"), "instrument": instrumented, "validation": {"valid": True, "reason": None, "score": 0.7}},
        rollout("e", status="error", submission=None, stderr=said("Traceback\nboom\n")),
        rollout("n", submission=None), rollout("c", code=None), rollout("x", status="no_code"), unrun,
        {**rollout("b", task="wine-2"), "validation": {"valid": False, "reason": "short", "score": None}, "grade": GRADE},
    )  # fmt: skip
    pool = PreviousPool.read([path])
    assert pool.draw("wine-1", 5) == Previous("a", "wine-1", "Print.", "print(1)\n", fenced("done"), "ok", 0.7)
    other = pool.draw("wine-2", 5)
    assert other and other.score is None, "the score on the test answers is not told"
    assert pool.draw("wine-3", 5) is None and (pool.count("wine-1"), pool.count("wine-3")) == (1, 0)
    assert {pool.draw("wine-1", seed) for seed in range(40)} == {pool.draw("wine-1", 5)}
    assert PreviousPool.read([]).draw("wine-1", 0) is None


GRADE = {
    "valid": True, "reason": None, "score": 0.9, "medal": None, "above_median": False, "metric": "f1_macro",
    "lower_is_better": False, "digest": "d", "reward": {},
}  # fmt: skip


def test_draws_do_not_depend_on_the_order_of_lines_and_files(tmp_path: Path) -> None:
    rollouts = [rollout(f"r{at}", f"print({at})\n") for at in range(30)]
    twice = rollout("r7", "print(7)\n", stdout=said("once more\n"))
    one = write(tmp_path / "1.jsonl", *rollouts[:20], twice)
    other = write(tmp_path / "2.jsonl", *rollouts[20:], rollouts[3])
    shuffled = write(tmp_path / "3.jsonl", *random.Random(0).sample([*rollouts, twice], 31))
    for most in (1000, 10, 1):
        pools = [PreviousPool.read(paths, most) for paths in ([one, other], [other, one], [shuffled])]
        draws = [[pool.draw("wine-1", seed) for seed in range(400)] for pool in pools]
        assert draws[0] == draws[1] == draws[2]
        counts = [draws[0].count(one) for one in set(draws[0])]
        assert len(counts) == pools[0].count("wine-1") == min(most, 30) and max(counts) < 3 * min(counts) + 10


def test_a_growing_pool_has_the_newest(tmp_path: Path) -> None:
    """The policy's own latest solutions, while its run writes them (algorithm 1)."""
    path = tmp_path / "graded.jsonl"
    path.touch()
    pool = GrowingPool([path], 2)
    assert pool.draw("wine-1", 0) is None

    def drawn() -> set[str]:
        return {pool.draw("wine-1", seed).rollout for seed in range(30)}

    with open(path, "a", encoding="utf-8") as file:
        for name in ("a", "b", "c"):
            file.write(json.dumps(rollout(name)) + "\n")
        file.write(json.dumps(rollout("d"))[:50])
        file.flush()
        assert drawn() == {"b", "c"}
        file.write(json.dumps(rollout("d"))[50:] + "\n" + json.dumps(rollout("e", status="error")) + "\n")
        file.flush()
        assert drawn() == {"c", "d"} and pool.count("wine-1") == 2
        file.write("{}\n")
    with pytest.raises(RecordError, match=r"graded\.jsonl:6: "):
        pool.draw("wine-1", 0)
    with pytest.raises(ToolError, match="gone: cannot be read: No such file"):
        GrowingPool([tmp_path / "gone"], 2).draw("wine-1", 0)


def test_a_growing_pool_leaves_out_what_a_killed_writer_tore(tmp_path: Path) -> None:
    path, said = tmp_path / "graded.jsonl", list[str]()
    torn = json.dumps(rollout("a"))[:50] + json.dumps(rollout("b"))
    path.write_text(f"{torn}\n{json.dumps(rollout('c'))}\n")
    pool = GrowingPool([path], 2, said.append)
    assert pool.draw("wine-1", 0).rollout == "c" and pool.count("wine-1") == 1
    assert len(said) == 1 and said[0].startswith(f"{path}:1: left out: ")


def test_a_line_that_is_no_rollout_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", rollout("a"), {"kind": "task"})
    with pytest.raises(RecordError) as error:
        PreviousPool.read([path])
    assert (
        str(error.value) == f"{path}:2: this is a task, not a rollout: mle-rollout takes tasks, and mle-show shows them"
    )
    path.write_text("{")
    with pytest.raises(ToolError, match=r"r\.jsonl:1: the last line has no end"):
        PreviousPool.read([path])
    path.write_text("{\n")
    with pytest.raises(RecordError, match=r"r\.jsonl:1: not JSON"):
        PreviousPool.read([path])
    with pytest.raises(ToolError, match="gone: No such file or directory"):
        PreviousPool.read([tmp_path / "gone"])


def test_output_is_short_and_fit_for_a_prompt() -> None:
    def shown(stdout: dict[str, Any], stderr: dict[str, Any], chars: int = 4000) -> str:
        return output({"stdout": stdout, "stderr": stderr}, chars)

    assert shown(said("\na\r\nb\tc\x1b[0m\x00\n\n"), said(" \n")) == "a\nb\tc\\x1b[0m\\x00"
    assert shown(said("done\n"), said("Traceback\nboom\n")) == "done\nTraceback\nboom"
    assert shown(said("a\n", "b\n"), said("")) == "a\n\n[not recorded]\nb"
    assert shown(said("0" * 60 + "1" * 60), said(""), 81) == "0" * 26 + "\n[120 characters, shortened]\n" + "1" * 26
    long = shown(said("a" * 9000, "z" * 9000), said("w" * 9000 + "Error: boom\n"))
    assert len(long) == 4000 and long.startswith("aaa") and "zzz" in long and long.endswith("Error: boom")
    for chars in range(0, 200, 7):
        assert len(shown(said("a" * 300), said("b" * 300), chars)) <= chars
