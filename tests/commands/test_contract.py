"""What holds for every command: file, pipe, empty input, a bad line, a reader that leaves, a full disk, kill and resume."""

import fcntl
import json
import keyword
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from conftest import BIN, COMMANDS, machine_environment, records, start_command, without_times

from mletools.base.options import flag_of


@dataclass(frozen=True)
class Case:
    """How a command is called here, and which stage's output it reads."""

    args: tuple[str, ...]
    source: str | None
    prefix: bool = True  # records made before a bad line are written


CASES = {
    "mle-gen-task": Case(("--source", "sklearn:iris", "-n", "2", "--backend", "none"), None),
    "mle-import": Case(("wine.csv", "iris.csv", "--target", "target"), None),
    "mle-rollout": Case(("-g", "6"), "tasks"),
    "mle-instrument": Case((), "rollouts"),
    "mle-sandbox": Case(("--timeout", "60", "--preimport", "json"), "light"),
    "mle-grade": Case((), "executed"),
    "mle-filter": Case(("--keep-invalid",), "graded"),
    "mle-report": Case(("--json", "--label", "all"), "graded", prefix=False),
    "mle-train-sft": Case(
        ("--model", "tiny", "--run-dir", "out", "--epochs", "2", "--batch", "2"), "taught", prefix=False
    ),
    "mle-train-grpo": Case(
        ("--model", "tiny", "--run-dir", "out", "--groups-per-step", "1", "--epochs", "2"), "sampled", prefix=False
    ),
    "mle-classify-ideas": Case((), "graded"),
    "mle-show": Case(("--color", "never"), "graded"),
    "mle-export": Case(("--to", "chat"), "graded"),
}
TEXT = ("mle-show", "mle-export")  # for people or other programs: no records on their output, and none to go on from
SLOW = ("mle-gen-task", "mle-sandbox")  # work enough here that a signal surely meets them at it
LIGHT = """
import shutil, time
time.sleep(0.1)
shutil.copy("input/sample_submission.csv", "submission.csv")
print("copied")
"""  # a solution that loads no library
READERS = [name for name in CASES if CASES[name].source]
TWIN = "mle-train-sft"  # trains as mle-train-grpo does; what takes long is tried on it by `make test-slow`


def without_twin(names: list[str], *others: str) -> list[Any]:
    """The commands, with the mark `slow` on the one that has a twin among them, and on `others`."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in (TWIN, *others) else name for name in names]


def quick(names: list[str], *some: str) -> list[Any]:
    """The commands, with the mark `slow` on all but `some`: what they share is tried on these by default."""
    return without_twin(names, *(name for name in names if name not in some))


@pytest.fixture
def place(stages: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder of its own with every stage's output and data in it."""
    for path in stages["folder"].iterdir():
        if path.suffix == ".jsonl":
            shutil.copy(path, tmp_path)
        else:
            (tmp_path / path.name).symlink_to(path)
    light = [{**record, "code": LIGHT} for record in records((tmp_path / "rollouts.jsonl").read_bytes())]
    (tmp_path / "light.jsonl").write_text("".join(json.dumps(record) + "\n" for record in light))
    return tmp_path


@pytest.fixture
def ready(place: Path, request: pytest.FixtureRequest) -> Path:
    """`place`, with the tiny model for commands that train."""
    if "train" in request.node.callspec.params["command"]:
        made = request.getfixturevalue("policy")
        (place / "tiny").symlink_to(made / "tiny")
        for name in ("taught", "sampled"):
            shutil.copy(made / f"{name}.jsonl", place)
    return place


def module(command: str) -> str:
    """The name of its module: the command's own, with an underscore where Python keeps that name for itself."""
    name = command[4:].replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def call(command: str, *more: str, files: bool = True, **options: Any) -> subprocess.CompletedProcess[bytes]:
    case = CASES[command]
    source = [f"{case.source}.jsonl"] if case.source and files else []
    return start_command(command, *case.args, *more, *source, **options)


def written(command: str, output: bytes) -> list[Any]:
    """What stands on an output: records without their times, or lines of text."""
    return output.decode().splitlines() if command in TEXT else without_times(records(output))


def test_every_command_has_a_case() -> None:
    assert sorted(CASES) == COMMANDS


@pytest.mark.parametrize("command", quick(COMMANDS, "mle-gen-task", "mle-rollout", "mle-grade", "mle-train-grpo"))
def test_help_shows_two_examples_in_80_columns_and_loads_nothing_heavy(command: str) -> None:
    code = (
        f"import sys; sys.argv = ['{command}', '--help']\n"
        f"from mletools.commands.{module(command)} import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'pandas', 'numpy', 'sklearn', 'torch', 'transformers', 'trl', 'peft', 'urllib3', 'docker', 'ray'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    text = done.stdout.decode()
    assert text.count(f"{command}") >= 3 and "Examples:" in text
    wide = [line for line in text.splitlines() if len(line) > 80 and not line.startswith("  --")]
    assert not wide, "lines that a terminal of 80 columns breaks"
    said = " ".join(text.split())
    assert re.search(
        r"(Reads and writes one|Reads one|Shows one|Writes each|Decides each|Reads the whole input)", said
    ), "what it reads before it writes"
    assert said.index("Examples:") < 400, "the examples come after one sentence"
    assert start_command(command, "--version").stdout.startswith(f"{command} ".encode())
    assert start_command(command, "--no-such-option", check=False).returncode == 2


@pytest.mark.parametrize("command", quick(READERS, "mle-sandbox", "mle-filter", "mle-show"))
def test_file_and_pipe_give_the_same_records(command: str, ready: Path) -> None:
    by_file = call(command, cwd=ready)
    shutil.rmtree(ready / "out", ignore_errors=True)
    content = (ready / f"{CASES[command].source}.jsonl").read_bytes()
    by_pipe = call(command, "-o", "piped.jsonl", files=False, input=content, cwd=ready)
    assert by_pipe.stdout == b""
    found = written(command, by_file.stdout)
    assert found and found == written(command, (ready / "piped.jsonl").read_bytes())
    assert not list(ready.glob("*.partial"))


@pytest.mark.parametrize("command", quick(READERS, "mle-rollout", "mle-sandbox", "mle-report"))
def test_an_empty_input_is_a_failure_unless_it_may_be(command: str, ready: Path) -> None:
    done = call(command, "-o", "none.jsonl", files=False, check=False, cwd=ready)
    assert done.returncode == 1 and not (ready / "none.jsonl").exists()
    assert done.stderr.decode().startswith(f"{command}: standard input: no records; ")
    shutil.rmtree(ready / "out", ignore_errors=True)
    done = call(command, "-o", "none.jsonl", "--allow-empty", files=False, cwd=ready)
    assert done.stdout == b"" and (ready / "none.jsonl").read_bytes() == b""
    assert len(done.stderr.decode().strip().splitlines()) == 1  # the summary


@pytest.mark.parametrize("command", quick(READERS, "mle-rollout", "mle-filter"))
def test_a_bad_line_stops_the_run_or_is_set_aside(command: str, ready: Path) -> None:
    source = ready / f"{CASES[command].source}.jsonl"
    lines = source.read_bytes().splitlines(keepends=True)
    source.write_bytes(b"".join([lines[0], b'{"kind": "task", "score": NaN}\n', *lines[1:]]))
    stopped = call(command, check=False, cwd=ready)
    told = stopped.stderr.decode().splitlines()
    assert stopped.returncode == 1
    assert f"{command}: {source.name}:2: NaN is not JSON" in told and "Traceback" not in stopped.stderr.decode()
    if CASES[command].prefix and command != "mle-filter":
        torn = b"" if command in TEXT else b"{"  # whoever reads this knows that it is not whole
        assert stopped.stdout.endswith(b"\n" + torn)
        assert len(written(command, stopped.stdout.removesuffix(torn))) >= 1
    shutil.rmtree(ready / "out", ignore_errors=True)
    call(command, "--max-rejects", "1", "--rejects", "rejects.jsonl", cwd=ready)
    (reject,) = records((ready / "rejects.jsonl").read_bytes())
    assert (reject["source"], reject["line_number"], reject["reason"]) == (source.name, 2, "NaN is not JSON")
    assert reject["line"] == '{"kind": "task", "score": NaN}'


@pytest.mark.parametrize("command", without_twin([name for name in READERS if name != "mle-report"], "mle-train-grpo"))
def test_a_record_of_the_wrong_kind_is_named(command: str, ready: Path) -> None:
    done = call(command, files=False, input=b'{"kind": "reject"}\n', check=False, cwd=ready)
    assert done.returncode == 1
    assert "stdin:1: this is a rejected line, not a " in done.stderr.decode()


@pytest.mark.parametrize(
    "command",
    quick(
        [name for name in READERS if "train" not in name and name not in ("mle-report", *TEXT)],
        "mle-sandbox",
        "mle-filter",
    ),
)
def test_unknown_fields_pass(command: str, ready: Path) -> None:
    source = ready / f"{CASES[command].source}.jsonl"
    marked = [{**record, "my_note": "é\u2028\u0085"} for record in records(source.read_bytes())]
    source.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in marked), encoding="utf-8")
    found = records(call(command, cwd=ready).stdout)
    assert found
    for record in found:
        assert (record["task"] if command == "mle-rollout" else record)["my_note"] == "é\u2028\u0085"


@pytest.mark.parametrize("command", quick(COMMANDS, "mle-rollout", "mle-sandbox", "mle-report", "mle-show"))
def test_a_reader_that_leaves_ends_the_run_quietly(command: str, ready: Path) -> None:
    case = CASES[command]
    line = " ".join([str(BIN / command), *case.args, *([f"{case.source}.jsonl"] if case.source else [])])
    if command == "mle-gen-task":
        line += " -n 6 -j 1"  # tasks that are made at once are written at once
    script = f"{line} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=ready, capture_output=True, timeout=280)
    assert len(done.stdout.splitlines()) == 1
    # 0 where all was written before head left
    assert done.returncode == 141 or (done.returncode == 0 and command not in SLOW), done.stderr.decode()
    assert b"Traceback" not in done.stderr and b"rror" not in done.stderr


@pytest.mark.parametrize("command", quick(COMMANDS, "mle-rollout", "mle-sandbox", "mle-show"))
def test_a_full_disk_is_one_line(command: str, ready: Path) -> None:
    case = CASES[command]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [str(BIN / command), *case.args, *([f"{case.source}.jsonl"] if case.source else [])],
            stdout=full, stderr=subprocess.PIPE, cwd=ready, timeout=280,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[-1] == f"{command}: cannot write stdout: No space left on device"


@pytest.mark.parametrize("command", quick(COMMANDS, "mle-rollout", "mle-sandbox", "mle-show"))
def test_a_closed_stdout_is_one_line_and_a_named_one_is_written_in_place(command: str, tmp_path: Path) -> None:
    """What the command would read and train from need not exist: the output is opened first."""
    args = [*CASES[command].args, *(["none.jsonl"] if CASES[command].source else [])]
    line = " ".join([str(BIN / command), *args, *(["--timeout", "9"] if command == "mle-sandbox" else [])])
    done = subprocess.run(["bash", "-c", f"{line} >&-"], cwd=tmp_path, capture_output=True, timeout=280)
    assert done.returncode == 1 and done.stderr.decode().splitlines() == [
        f"{command}: cannot write stdout: it is closed, or not open for writing; -o FILE writes to a file"
    ]
    script = f"(echo before; {line} -o /dev/stdout --force; echo after) > out 2> told"
    subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, timeout=280)
    first, *_, last = (tmp_path / "out").read_text().splitlines()
    assert first == "before" and last.removeprefix("{") == "after"
    assert "Traceback" not in (tmp_path / "told").read_text() and not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("command", quick(COMMANDS, "mle-sandbox", "mle-show"))
def test_a_file_is_written_though_no_standard_stream_is_open(command: str, ready: Path) -> None:
    """No file that a command opens gets the number of a closed stream, whatever is printed there."""
    open_ones = written(command, call(command, cwd=ready).stdout)
    shutil.rmtree(ready / "out", ignore_errors=True)
    case = CASES[command]
    line = " ".join([str(BIN / command), *case.args, *([f"{case.source}.jsonl"] if case.source else [])])
    shell = ["bash", "-c", f"{line} -o closed <&- >&- 2>&-"]
    done = subprocess.run(shell, cwd=ready, capture_output=True, env=machine_environment(), timeout=280)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert written(command, (ready / "closed").read_bytes()) == open_ones


def _kill_after_first_record(command: str, number: int, folder: Path) -> bool:
    """Start the command, send the signal when its first record is there; False when it was quicker than we."""
    case = CASES[command]
    process = subprocess.Popen(
        [str(BIN / command), *case.args, "-o", "out.jsonl", *([f"{case.source}.jsonl"] if case.source else [])],
        cwd=folder, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    partial = folder / "out.jsonl.partial"
    while process.poll() is None:
        if partial.exists() and b"\n" in partial.read_bytes():
            process.send_signal(number)
            break
        time.sleep(0.002)
    process.wait()
    return process.returncode != 0


@pytest.mark.parametrize(
    "command",
    quick([name for name in COMMANDS if name not in ("mle-report", *TEXT)], "mle-sandbox", "mle-filter"),
)
def test_killed_and_resumed_gives_the_same_set_of_records(command: str, ready: Path) -> None:
    undisturbed = sorted(json.dumps(without_times(r), sort_keys=True) for r in records(call(command, cwd=ready).stdout))
    shutil.rmtree(ready / "out", ignore_errors=True)
    killed = _kill_after_first_record(command, signal.SIGKILL, ready)
    assert killed or command not in SLOW
    if killed:
        assert not (ready / "out.jsonl").exists()
        with open(ready / "out.jsonl.partial", "ab") as torn:
            torn.write(b'{"kind": "torn li')
    call(command, "-o", "out.jsonl", "--resume", cwd=ready)
    complete = (ready / "out.jsonl").read_bytes()
    assert sorted(json.dumps(without_times(r), sort_keys=True) for r in records(complete)) == undisturbed
    call(command, "-o", "out.jsonl", "--resume", cwd=ready)  # nothing left to do is success
    assert (ready / "out.jsonl").read_bytes() == complete
    assert not list(ready.glob("*.partial"))


@pytest.mark.parametrize("command", ["mle-gen-task", "mle-rollout", "mle-sandbox", "mle-grade"])
def test_sigterm_is_143_and_leaves_no_process(command: str, ready: Path) -> None:
    case = CASES[command]
    process = subprocess.Popen(
        [str(BIN / command), *case.args, "-j", "2", *([f"{case.source}.jsonl"] if case.source else [])],
        cwd=ready, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + 20
    while not _catches_sigterm(process.pid) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    children = _descendants(process.pid)
    while command in SLOW and not children and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
        children = _descendants(process.pid)
    process.terminate()
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143 or (process.returncode == 0 and command not in SLOW)
    assert b"Traceback" not in told
    assert children or command not in SLOW  # worker processes, warm servers
    end = time.monotonic() + 20
    while children & _processes().keys() and time.monotonic() < end:
        time.sleep(0.1)
    assert not children & _processes().keys()


def _catches_sigterm(pid: int) -> bool:
    """Whether a process has come so far that it has a handler of its own for the signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = int(status.partition("SigCgt:")[2].split("\n")[0], 16) if "SigCgt:" in status else 0
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def _processes() -> dict[tuple[int, str], int]:
    """(pid, start time) of every process, with its parent's pid."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[int(pid), fields[19]] = int(fields[1])
    return found


def _descendants(pid: int) -> set[tuple[int, str]]:
    processes = _processes()
    found: set[tuple[int, str]] = set()
    parents = {pid}
    while parents:
        more = {process for process, parent in processes.items() if parent in parents}
        found |= more
        parents = {number for number, _ in more}
    return found


@pytest.mark.parametrize("command", [name for name in COMMANDS if "train" not in name])
def test_an_overlapping_run_is_one_line(command: str, ready: Path) -> None:
    with open(ready / "out.jsonl.partial", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = call(command, "-q", "-o", "out.jsonl", "--resume", check=False, cwd=ready)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"{command}: out.jsonl.partial: another run is writing it; wait for it or choose another -o\n"
    )


CHANGED = {
    "mle-gen-task": ("--seed", "1", "--seed was 0 and is 1"),
    "mle-import": ("--seed", "1", "--seed was 0 and is 1"),
    "mle-rollout": ("--temperature", "0.5", "--temperature was not given and is 0.5"),
    "mle-instrument": ("--seed", "1", "--seed was 0 and is 1"),
    "mle-sandbox": ("--memory-size", "1024", "--memory-size was not given and is 1024"),
    "mle-grade": ("--reward", "raw", '--reward was not given and is "raw"'),
    "mle-filter": ("--min-group", "1", "--min-group was not given and is 1"),
    "mle-classify-ideas": ("--seed", "1", "--seed was 0 and is 1"),
}


def test_a_message_names_an_option_as_its_command_does() -> None:
    from mletools.commands.filter import main

    with click.Context(main):
        assert (flag_of("steps"), flag_of("keep_invalid"), flag_of("unknown_one")) == (
            "--cut-steps",
            "--keep-invalid",
            "--unknown-one",
        )
    assert flag_of("steps") == "--steps"


@pytest.mark.parametrize("command", quick(list(CHANGED), "mle-rollout", "mle-grade", "mle-filter"))
def test_resuming_with_other_options_is_refused_by_name(command: str, ready: Path) -> None:
    call(command, "-o", "out.jsonl", cwd=ready)
    option, value, told = CHANGED[command]
    done = call(command, "-o", "out.jsonl", "--resume", option, value, check=False, cwd=ready)
    assert done.returncode == 1
    assert done.stderr.decode() == f"{command}: cannot resume out.jsonl with other options: {told}\n"


@pytest.mark.parametrize(
    "command",
    quick(["mle-gen-task", "mle-rollout", "mle-instrument", "mle-sandbox", "mle-grade"], "mle-rollout", "mle-sandbox"),
)
def test_workers_change_nothing(command: str, ready: Path) -> None:
    one = without_times(records(call(command, cwd=ready).stdout))
    several = without_times(records(call(command, "-j", "3", "-k", cwd=ready).stdout))
    assert one == several


DRY = {
    "mle-export": ("--to", "atif"),
    "mle-instrument": ("--mode", "lm", "-m", "x", "--model-url", "http://127.0.0.1:9"),
    "mle-classify-ideas": ("--by", "model", "-m", "x", "--model-url", "http://127.0.0.1:9"),
    "mle-rollout": ("-m", "x", "--model-url", "http://127.0.0.1:9", "--scaffold", "react"),
    "mle-sandbox": ("--backend", "docker", "--on", "ray://127.0.0.1:9"),
    "mle-filter": ("--state", "state.json", "--window", "8", "--dropped", "dropped.jsonl"),
    "mle-report": ("--plots", "plots"),
    "mle-train-sft": ("--model", "x", "--run-dir", "out"),
    "mle-train-grpo": ("--model", "x", "--run-dir", "out", "--publish", "pub"),
}  # options that would reach for a server, a cluster or a file
WRONG = {
    "mle-gen-task": (("--source", "llm", "-m", "x"), "--source llm needs seed tasks"),
    "mle-import": (("--format", "kaggle"), "--format kaggle needs --metric"),
    "mle-rollout": (("-m", "nobody"), "nobody: a server's model needs its address"),
    "mle-instrument": (("--mode", "lm"), "--mode lm needs a model"),
    "mle-sandbox": (("--gpus", "any"), "name the devices"),
    "mle-grade": (("--reward", "best"), "Invalid value for '--reward'"),
    "mle-filter": (("--binarise",), "--binarise needs --window N"),
    "mle-report": (("--compare",), "--compare needs two files"),
    "mle-show": (("--list", "--full"), "--list shows no turns"),
    "mle-export": (("--to", "chat", "--every-pair"), "--every-pair is about --to pairs"),
    "mle-classify-ideas": (("--by", "model", "-m", "scripted:nobody"), "unknown level 'nobody'"),
    "mle-train-sft": (("--from-scratch", "tiny", "--model", "x", "--run-dir", "out"), "--from-scratch"),
    "mle-train-grpo": (
        ("--model", "x", "--run-dir", "out", "--stream", "--epochs", "2"),
        "--stream makes one pass: leave --epochs out",
    ),
}


@pytest.mark.parametrize("command", quick(COMMANDS, "mle-gen-task", "mle-rollout", "mle-grade", "mle-train-grpo"))
def test_a_dry_run_checks_the_options_and_touches_nothing(command: str, tmp_path: Path) -> None:
    args = ["wine.csv", "--target", "quality"] if command == "mle-import" else []
    line = [command, *DRY.get(command, ()), "--dry-run", "-o", "out.jsonl", *args]
    done = start_command(*line, cwd=tmp_path)
    lines = 2 if command.startswith("mle-train") else 1  # trainers tell the memory of a step, too
    assert done.stdout == b"" and len(done.stderr.decode().splitlines()) == lines
    wrong, why = WRONG[command]
    refused = start_command(command, *wrong, "--dry-run", *args, check=False, cwd=tmp_path)
    assert refused.returncode in (1, 2) and why in refused.stderr.decode(), refused.stderr
    assert not list(tmp_path.iterdir())
    if command in ("mle-rollout", "mle-grade", "mle-train-grpo"):  # an input of any kind, and one that is held
        refused = start_command(*line, "none.jsonl", check=False, cwd=tmp_path)
        assert refused.returncode == 1 and b"none.jsonl: No such file or directory" in refused.stderr
        refused = start_command(*line, input=b'{"kind": "reject"}\n', check=False, cwd=tmp_path)
        assert refused.returncode == 1 and b"stdin:1: this is a rejected line, not a " in refused.stderr
        assert not list(tmp_path.iterdir())


def test_a_pipe_of_dry_runs_ends_in_success_and_fails_with_its_first_command(tmp_path: Path) -> None:
    line = "{bin}/mle-rollout --dry-run {wrong} < /dev/null | {bin}/mle-sandbox --dry-run | {bin}/mle-grade --dry-run"
    for wrong, code in (("", 0), ("-m nobody", 1)):
        script = line.format(bin=BIN, wrong=wrong)
        assert subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True).returncode == code


@pytest.mark.parametrize(
    "command", quick([name for name in COMMANDS if "train" not in name], "mle-import", "mle-sandbox")
)
def test_resume_without_a_file_is_a_usage_error(command: str, ready: Path) -> None:
    done = call(command, "--resume", check=False, cwd=ready)
    assert done.returncode == 2 and b"--resume needs -o FILE" in done.stderr


def test_one_line_in_one_record_out_before_the_next(stages: dict[str, Any]) -> None:
    """A record leaves as soon as it is done, while the input is still open."""
    lines = stages["rollouts"].read_bytes().splitlines(keepends=True)
    process = subprocess.Popen([str(BIN / "mle-instrument"), "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    for line in lines[:3]:
        process.stdin.write(line)
        process.stdin.flush()
        answer = os.read(process.stdout.fileno(), 1 << 20).strip()  # the end of its line comes with the next record
        while not answer.endswith(b"}") or not is_json(answer):
            answer += os.read(process.stdout.fileno(), 1 << 20)
        assert json.loads(answer)["instrument"]
    process.stdin.close()
    assert process.stdout.read() == b"\n" and process.wait() == 0


def is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
