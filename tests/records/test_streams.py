"""A stream says whether it is whole: what the next command makes of one whose writer failed, was killed, or wrote something else."""

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, mostly_slow, records, run_command, without_times

from mletools.base.errors import ToolError
from mletools.base.jsonl import read_files
from mletools.base.output import Output

OURS = '{"kind": "task", "id": "a", "lineage": [{"tool": "mle-gen-task"}], "text": "}" }'
CUT = "the stream was cut off: the command that writes it failed or was killed; the records before this point were read"


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """A line of bash without pipefail, as people type it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLE_")}
    path = {**environment, "PATH": f"{BIN}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, env=path, timeout=280)


@pytest.fixture
def place(stages: dict[str, Any], tmp_path: Path) -> Path:
    for name in ("tasks", "rollouts", "executed", "graded"):
        shutil.copy(stages["folder"] / f"{name}.jsonl", tmp_path)
    for name in ("tasks", "submissions"):
        (tmp_path / name).symlink_to(stages["folder"] / name)
    return tmp_path


def read(path: Path) -> tuple[list[str], str | None]:
    """The ids that are read from a file, and the error behind them."""
    found: list[str] = []
    try:
        for line in read_files([str(path)]):
            assert line.problem is None
            found.append(line.record["id"])
    except ToolError as error:
        return found, str(error)
    return found, None


# --- what is written


def test_a_stream_that_is_whole_has_the_bytes_of_the_file(place: Path) -> None:
    run_command("mle-grade", "-k", "executed.jsonl", "-o", "graded-again.jsonl", cwd=place)
    assert (
        run_command("mle-grade", "-k", "executed.jsonl", cwd=place).stdout
        == (place / "graded-again.jsonl").read_bytes()
    )


def stream(folder: Path, name: str = "stream") -> Output:
    return Output(None, open(folder / name, "wb"), False, lambda record: record["id"])


def test_the_last_line_ends_with_the_work(tmp_path: Path) -> None:
    path, out = tmp_path / "stream", stream(tmp_path)
    out.write({"id": 1})
    assert path.read_bytes() == b'{"id": 1 }'
    out.write({"id": 2})
    assert path.read_bytes() == b'{"id": 1 }\n{"id": 2 }'
    out.commit()
    assert path.read_bytes() == b'{"id": 1 }\n{"id": 2 }\n'
    stream(tmp_path, "none").commit()
    assert (tmp_path / "none").read_bytes() == b""


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_failure_leaves_a_torn_line(written: int, tmp_path: Path) -> None:
    path, out = tmp_path / "stream", stream(tmp_path)
    for number in range(written):
        out.write({"id": number})
    out.abandon()
    *whole, torn = path.read_bytes().split(b"\n")
    assert torn == b"{" and [json.loads(line)["id"] for line in whole] == list(range(written))
    assert "the last line has no end" in str(read(path)[1])


def test_the_lines_of_an_endless_run_end_at_once(tmp_path: Path) -> None:
    path, out = tmp_path / "stream", stream(tmp_path)
    out.write({"id": 1}, ended=True)
    assert path.read_bytes() == b'{"id": 1 }\n'
    out.abandon()
    assert path.read_bytes() == b'{"id": 1 }\n{'


def test_a_pipe_that_is_full_gets_no_torn_line(tmp_path: Path) -> None:
    """Whoever is ended by a signal while its reader sleeps must not wait for it."""
    reading, writing = os.pipe()
    size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, b"x" * size)
    Output(None, os.fdopen(writing, "wb"), False, lambda record: record["id"]).abandon()
    assert os.read(reading, 2 * size) == b"x" * size
    os.close(reading)


# --- what is read


@pytest.mark.parametrize(
    "content, told",
    [
        (f"{OURS}\n{OURS}\n", None),
        (f"{OURS}\n{OURS}", "2: the last line has no end"),
        (f"{OURS}\n{{", "2: the last line has no end"),
        ("{", "1: the last line has no end"),
        (f"{OURS}\n{OURS[:-20]}", "2: the last line has no end"),
        ('{"kind": "task", "id": "a"}\n{"kind": "task", "id": "a"}', None),  # others end their files as they like
        ('{"kind": "task", "id": "a", "lineage": [] }', None),
        (json.dumps(json.loads(OURS)), None),
    ],
)
def test_files(content: str, told: str | None, tmp_path: Path) -> None:
    (tmp_path / "records").write_text(content)
    found, error = read(tmp_path / "records")
    assert (error is None) if told is None else error is not None and f"{tmp_path}/records:{told}" in error
    assert found == ["a"] * content.count("}\n") + ["a"] * content.endswith("}")


def sent(tmp_path: Path, *pieces: bytes, pause: float = 0.0) -> tuple[list[str], str | None]:
    """What is read from a pipe into which the pieces are written one by one."""
    fifo = tmp_path / "fifo"
    if not fifo.exists():
        os.mkfifo(fifo)

    def write() -> None:
        with open(fifo, "wb", buffering=0) as pipe:
            for piece in pieces:
                pipe.write(piece)
                time.sleep(pause)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    found = read(fifo)
    writer.join()
    return found


@pytest.mark.parametrize("pause", [0.0, 0.03])
def test_where_the_pieces_of_a_pipe_end_makes_no_difference(pause: float, tmp_path: Path) -> None:
    """Also behind a brace inside of a record, with a pause that looks like the end of one."""
    whole = f"{OURS}\n{OURS}\n".encode()
    places = (
        range(1, len(whole)) if not pause else [len(OURS) - 2, len(OURS) - 1, len(OURS), len(OURS) + 1, len(whole) - 1]
    )
    for at in places:
        assert sent(tmp_path, whole[:at], whole[at:], pause=pause) == (["a", "a"], None)
        if whole[:at].count(b"\n") == 0 and at != len(OURS):
            assert sent(tmp_path, whole[:at], pause=pause)[0] == []
    for cut in (whole[:-1], whole + b"{", b"{", whole + OURS.encode()[:30]):
        found, error = sent(tmp_path, cut[: len(OURS)], cut[len(OURS) :], pause=pause)
        assert found == ["a"] * cut.count(b'"}" }') and error is not None and CUT in error


def test_two_streams_in_one_of_which_the_first_was_cut_off(tmp_path: Path) -> None:
    for pause in (0.0, 0.05):
        found = sent(tmp_path, OURS.encode(), f"{OURS}\n".encode(), pause=pause) if pause else None
        assert found is None or (found[0] == ["a"] and "cut off here, and another stream continues" in str(found[1]))
    (tmp_path / "records").write_text(f"{OURS}{OURS}\n")
    (line,) = read_files([str(tmp_path / "records")])
    assert line.problem is not None and line.problem.startswith("not JSON: Extra data")


def test_a_long_record_is_read_in_time_in_proportion_to_it(tmp_path: Path) -> None:
    """A record full of closing braces, in pieces: not every piece is tried as the end of one."""
    record = json.dumps({"kind": "task", "id": "a", "text": "}" * 8_000_000}).encode()
    begun = time.process_time()
    assert sent(tmp_path, *(record[at : at + 60_000] for at in range(0, len(record), 60_000)), b"\n") == (["a"], None)
    assert time.process_time() - begun < 5


def whole(text: bytes) -> bool:
    try:
        return bool(json.loads(text))
    except ValueError:
        return False


@pytest.mark.timeout(60)
def test_a_record_is_read_before_its_line_ends(place: Path) -> None:
    """On-policy training waits for the last rollout of a step: it must not wait for the first of the next."""
    (line, *_) = (place / "executed.jsonl").read_bytes().split(b"\n")
    with subprocess.Popen(
        [str(BIN / "mle-grade")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=place
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        answer = os.read(process.stdout.fileno(), 1 << 20)
        while not whole(answer):
            answer += os.read(process.stdout.fileno(), 1 << 20)
        assert "reward" in json.loads(answer) and process.poll() is None
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.stdout.read() == b"\n"
    assert process.returncode == 0


# --- pipes as people write them


@pytest.mark.slow
def test_a_head_that_fails_is_known_at_the_end(place: Path) -> None:
    lines = (place / "tasks.jsonl").read_text().split("\n")
    (place / "bad.jsonl").write_text(lines[0] + "\n" + '{"kind": "task", "score": NaN}\n' + lines[1] + "\n")
    done = shell("mle-rollout -g 2 bad.jsonl | mle-sandbox -q | mle-grade -o cut.jsonl", place)
    told = done.stderr.decode()
    assert done.returncode == 1 and "mle-rollout: bad.jsonl:2: NaN is not JSON" in told
    assert (
        "mle-sandbox: stdin:3: the stream was cut off" in told and "mle-grade: stdin:3: the stream was cut off" in told
    )
    assert not (place / "cut.jsonl").exists()
    assert len(records((place / "cut.jsonl.partial").read_bytes())) == 2
    # nothing of it is lost: the same line with the head mended goes on
    shutil.copy(place / "tasks.jsonl", place / "bad.jsonl")
    done = shell("mle-rollout -q -g 2 bad.jsonl | mle-sandbox -q | mle-grade -o cut.jsonl --resume", place)
    assert done.returncode == 0 and b"2 finished before" in done.stderr
    assert len(records((place / "cut.jsonl").read_bytes())) == 4


@pytest.mark.parametrize("head", ["mle-rollout no-such.jsonl", "mle-no-such tasks.jsonl", "true"])
def test_a_head_that_never_begins_is_known_at_the_end(head: str, place: Path) -> None:
    done = shell(f"{head} | mle-instrument -q | mle-grade -o cut.jsonl", place)
    assert done.returncode == 1 and not (place / "cut.jsonl").exists()
    done = shell(f"{head} | mle-instrument -q | mle-grade --allow-empty -o cut.jsonl", place)
    assert done.returncode == 1  # an empty input may be, one whose writer failed may not


@pytest.mark.parametrize(
    "line, count",
    [
        ("mle-grade -q executed.jsonl | head -n 2 | mle-filter -q --keep-invalid --no-spread --min-group 1", 2),
        ("mle-grade -q executed.jsonl | tee copy.jsonl | mle-instrument -q", 12),
        ("cat <(mle-grade -q executed.jsonl) <(mle-grade -q executed.jsonl) | mle-instrument -q", 24),
        ("mle-instrument -q <(mle-grade -q executed.jsonl)", 12),
        ("mle-grade -q executed.jsonl > whole.jsonl; mle-instrument -q whole.jsonl", 12),
        ("mle-grade -q executed.jsonl | sort | mle-instrument -q", 12),
        pytest.param(
            "mle-grade -q executed.jsonl | jq -c 'select(.sample < 2)' | mle-instrument -q", 4,
            marks=pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed: no pipe through it is tried"),
        ),
    ],
)  # fmt: skip
def test_others_in_a_pipe_cost_nothing(line: str, count: int, place: Path) -> None:
    done = shell(f"set -o pipefail; {line} > out", place)
    assert done.returncode in (0, 141), done.stderr.decode()  # 141: head has left
    assert len(records((place / "out").read_bytes())) == count


@pytest.mark.parametrize(
    "line",
    [
        "mle-rollout no-such.jsonl | tee copy | mle-instrument -q > out",
        "{ mle-rollout no-such.jsonl; mle-grade -q executed.jsonl; } | mle-instrument -q > out",
        "{ mle-grade -q executed.jsonl; mle-rollout no-such.jsonl; } | mle-instrument -q > out",
        "mle-rollout no-such.jsonl > cut; mle-instrument -q cut > out",
        "mle-instrument -q <(mle-rollout no-such.jsonl) > out",
    ],
)
def test_a_failure_goes_through_what_copies(line: str, place: Path) -> None:
    done = shell(line, place)
    assert done.returncode == 1, done.stderr.decode()
    assert "mle-instrument: " in done.stderr.decode() and not (place / "out").read_bytes().endswith(b"\n")


TEE = f"{sys.executable} {Path(__file__).parents[2] / 'examples' / 'tee.py'} copy"


def test_the_examples_copy_passes_all_on_and_adds_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("earlier\n")
    sent = b"line\n" * 100_000 + b"torn"
    done = subprocess.run(shlex.split(TEE), cwd=tmp_path, input=sent, capture_output=True, check=True, timeout=60)
    assert done.stdout == sent and (tmp_path / "copy").read_bytes() == b"earlier\n" + sent


@pytest.mark.parametrize(
    "command",
    mostly_slow(
        [TEE, *(f"{BIN}/mle-{name}" for name in ("sandbox -q", "instrument -q", "grade -q", "filter -q --mark"))]
    ),
)
@pytest.mark.slow
def test_a_silent_pipe_ends_with_its_reader(command: str, tmp_path: Path) -> None:
    """A trainer that dies while its sampler waits for it leaves nothing waiting, though nobody writes."""
    silent, writer = os.pipe()
    reader, output = os.pipe()
    with subprocess.Popen(shlex.split(command), cwd=tmp_path, stdin=silent, stdout=output) as process:
        os.close(output)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        os.close(reader)
        assert process.wait(60) == 141
    os.close(writer)
    os.close(silent)


# --- a pipe of seven, each killed in turn

PIPE = (
    ("mle-gen-task", "-q", "--source", "sklearn:wine,iris", "-n", "2", "--backend", "none"),
    ("mle-rollout", "-q", "-m", "hf:tiny", "-g", "2", "--prompt", "single-brief", "--max-tokens", "24"),
    ("mle-instrument", "-q"),
    ("mle-sandbox", "-q"),
    ("mle-grade", "-q", "--reward", "partial-credit"),
    ("mle-filter", "-q", "--keep-invalid", "--keep-duplicates", "--no-spread"),
    ("mle-train-grpo", "-q", "--model", "tiny", "--run-dir", "run", "--groups-per-step", "1", "--baseline", "none",
     "--scale-rewards", "none", "--save-steps", "1", "-o", "steps.jsonl", "--resume"),
)  # fmt: skip


def play(folder: Path, pipe: tuple[tuple[str, ...], ...], killed: int | None) -> list[int]:
    """The exit codes of a pipe of which one command is killed behind its first byte of output.

    Its pipe holds one page, so it has not got rid of more by then; what the last one writes is looked at in its file.
    """
    processes: list[subprocess.Popen[bytes]] = []
    reading, environment = os.open(os.devnull, os.O_RDONLY), {k: v for k, v in os.environ.items() if k[:4] != "MLE_"}
    for number, (command, *arguments) in enumerate(pipe):
        ours, theirs = os.pipe()
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
        with open(folder / f"{command}.log", "wb") as log:
            processes.append(
                subprocess.Popen([str(BIN / command), *arguments], stdin=reading, stdout=theirs, stderr=log, cwd=folder, env=environment)
            )  # fmt: skip
        os.close(reading), os.close(theirs)
        reading = ours
        if number == killed and number < len(pipe) - 1:
            reading = relayed(processes[-1], ours)
    last = processes[-1]
    partial = folder / f"{pipe[-1][pipe[-1].index('-o') + 1]}.partial"
    while killed == len(pipe) - 1 and last.poll() is None:
        if partial.exists() and partial.stat().st_size:
            last.kill()
        time.sleep(0.01)
    os.close(reading)
    return [process.wait(timeout=250) for process in processes]


def relayed(process: subprocess.Popen[bytes], reading: int) -> int:
    """Where the process's output can be read, by somebody who kills it as soon as there is any."""
    ours, theirs = os.pipe()

    def relay() -> None:
        with open(reading, "rb", buffering=0) as source, open(theirs, "wb", buffering=0) as sink:
            try:
                sink.write(source.read(1))
                process.kill()
                shutil.copyfileobj(source, sink)
            except BrokenPipeError:
                pass

    threading.Thread(target=relay, daemon=True).start()
    return ours


@pytest.fixture(scope="module")
def undisturbed(stages: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A tiny policy, and the steps of the pipe of seven that nobody disturbs."""
    pytest.importorskip("torch", reason="torch is not installed: the pipe of seven, which trains, is not tested")
    from mletools.training.tiny import make_tiny

    folder = tmp_path_factory.mktemp("seven")
    make_tiny(records((stages["folder"] / "rollouts.jsonl").read_bytes()), folder / "tiny", "tiny")
    assert play(folder, PIPE, None) == [0] * 7, (folder / "mle-train-grpo.log").read_text()
    return folder / "tiny", learnt(folder)


def learnt(folder: Path) -> list[Any]:
    steps = without_times(records((folder / "steps.jsonl").read_bytes()))
    return [{name: value for name, value in step.items() if not name.endswith("_s")} for step in steps]


@pytest.mark.parametrize(
    "killed",
    [
        pytest.param(at, marks=pytest.mark.slow if at in (1, 3, 6) else pytest.mark.nightly, id=command)
        for at, (command, *_) in enumerate(PIPE)
    ],
)
def test_each_of_seven_is_killed_in_turn(killed: int, undisturbed: tuple[Path, list[Any]], tmp_path: Path) -> None:
    tiny, expected = undisturbed
    (tmp_path / "tiny").symlink_to(tiny)
    codes = play(tmp_path, PIPE, killed)
    assert codes[killed] == -signal.SIGKILL
    assert all(code in (0, 141) for code in codes[:killed]) and codes[killed + 1 :] == [1] * (6 - killed), codes
    assert not (tmp_path / "steps.jsonl").exists()
    assert play(tmp_path, PIPE, None) == [0] * 7, (tmp_path / "mle-train-grpo.log").read_text()
    assert learnt(tmp_path) == expected and len(expected) == 2


@pytest.mark.parametrize("killed", [0, 1])
def test_a_command_that_is_killed_is_known_at_the_end(killed: int, place: Path) -> None:
    pipe = (
        ("mle-grade", "-q", "executed.jsonl"),
        ("mle-instrument", "-q"),
        ("mle-filter", "--keep-invalid", "-o", "kept.jsonl"),
    )
    codes = play(place, pipe, killed)
    assert codes[killed] == -signal.SIGKILL and codes[killed + 1 :] == [1] * (2 - killed)
    assert not (place / "kept.jsonl").exists()
    assert "cut off" in (place / "mle-filter.log").read_text()


@pytest.mark.parametrize(("number", "code"), [("HUP", 129), ("INT", 130), ("TERM", 143)])
@pytest.mark.parametrize("ignored", [False, True])
def test_a_signal_stops_a_run_unless_it_was_started_to_ignore_it(
    number: str, code: int, ignored: bool, place: Path
) -> None:
    how = f"--{'ignore' if ignored else 'default'}-signal={number}"  # as nohup does it
    line = ["env", how, str(BIN / "mle-instrument"), "-q"]
    rollouts = (place / "rollouts.jsonl").read_bytes().splitlines(keepends=True)
    with subprocess.Popen(line, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(rollouts[0])
        process.stdout.read(1)  # it runs
        process.send_signal(getattr(signal, f"SIG{number}"))
        rest, _ = process.communicate(rollouts[1], timeout=60)
    assert process.returncode == (0 if ignored else code)
    assert rest.count(b'"kind": "rollout"') == (2 if ignored else 1)


# --- what is there already, and what is not there


def test_what_is_there_is_replaced_by_force_alone(place: Path) -> None:
    (place / "out.jsonl").write_text("mine\n")
    done = run_command("mle-grade", "executed.jsonl", "-o", "out.jsonl", cwd=place, check=False)
    assert done.returncode == 1 and (place / "out.jsonl").read_text() == "mine\n"
    assert done.stderr == b"mle-grade: out.jsonl: already exists; --resume continues it, --force replaces it\n"
    run_command("mle-grade", "executed.jsonl", "-o", "out.jsonl", "--force", cwd=place)
    assert len(records((place / "out.jsonl").read_bytes())) == 12
    both = run_command("mle-grade", "executed.jsonl", "-o", "out.jsonl", "--force", "--resume", cwd=place, check=False)
    assert both.returncode == 2 and b"give one of them" in both.stderr


def test_what_a_killed_run_left_is_discarded_by_force_alone(place: Path) -> None:
    left = (place / "graded.jsonl").read_bytes().split(b"\n")[0] + b"\n"
    (place / "out.jsonl.partial").write_bytes(left)
    done = run_command("mle-grade", "executed.jsonl", "-o", "out.jsonl", cwd=place, check=False)
    assert done.returncode == 1 and (place / "out.jsonl.partial").read_bytes() == left
    assert b"out.jsonl.partial: left by an unfinished run; --resume continues it, --force discards it" in done.stderr
    run_command("mle-grade", "executed.jsonl", "-o", "out.jsonl", "--force", cwd=place)
    assert len(records((place / "out.jsonl").read_bytes())) == 12
    (place / "other.jsonl.partial").write_bytes(b"")  # killed before it had anything
    run_command("mle-grade", "executed.jsonl", "-o", "other.jsonl", cwd=place)


def test_a_second_output_is_not_replaced_either(place: Path) -> None:
    for name in ("--rejects", "--dropped"):
        (place / "mine").write_text("mine\n")
        done = run_command("mle-filter", name, "mine", "graded.jsonl", cwd=place, check=False)
        assert done.returncode == 1 and b"mine: already exists" in done.stderr
        assert (place / "mine").read_text() == "mine\n"
        run_command("mle-filter", name, "mine", "--force", "graded.jsonl", cwd=place)
        assert (place / "mine").read_text() != "mine\n"


@pytest.mark.parametrize(
    "line",
    ["mle-rollout", "mle-instrument", "mle-sandbox --preimport json", "mle-grade", "mle-filter", "mle-report"],
)
def test_no_record_is_a_failure_unless_it_may_be(line: str, tmp_path: Path) -> None:
    command, *options = line.split()
    (tmp_path / "none.jsonl").write_bytes(b"\n")
    done = run_command(command, *options, "none.jsonl", "-o", "out", cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr.decode()) == (
        1,
        f"{command}: none.jsonl: no records; --allow-empty accepts an empty input\n",
    )
    assert not (tmp_path / "out").exists()
    run_command(command, *options, "none.jsonl", "--allow-empty", "-o", "out", cwd=tmp_path)
    assert (tmp_path / "out").exists()
