"""What a path stands for: a descriptor, a pipe or device, or a file; and what is lost where that is mistaken: nothing."""

import os
import pty
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from click import BadParameter
from conftest import BIN, records, run_command

from mletools.base import streams
from mletools.base.errors import ToolError
from mletools.base.output import Output
from mletools.cli_options import OutputFile

SHUT = "it is closed, or not open for"


@pytest.fixture
def place(stages: dict[str, Any], tmp_path: Path) -> Path:
    for name in ("tasks", "rollouts"):
        shutil.copy(stages["folder"] / f"{name}.jsonl", tmp_path)
    return tmp_path


def bash(line: str, folder: Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """A line of bash in which the commands are found; descriptors above 2 are those that it opens.

    A command that reads what it writes goes on for ever: a limit on the size of files ends it. All that it has started
    has ended, process substitutions, too: they hold its standard error.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLE_")}
    path = {**environment, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 100000; {line}"], cwd=folder, capture_output=True, env=path, timeout=120, **options
    )
    assert b"Traceback" not in done.stdout + done.stderr and b"internal error" not in done.stderr
    return done


def count(path: Path) -> int:
    return len(records((path).read_bytes()))


# --- what a path names


@pytest.mark.parametrize(
    "path, number",
    [
        ("-", 1),
        ("/dev/stdin", 0),
        ("/dev/stdout", 1),
        ("/dev/stderr", 2),
        ("/dev/fd/63", 63),
        ("/proc/self/fd/1", 1),
        ("/proc/thread-self/fd/2", 2),
        ("/dev/../dev//fd/1", 1),
        ("link", 1),
        ("link-to-link", 1),
        ("folder/1", 1),
        ("./-", None),
        ("/dev/null", None),
        ("/proc/1/fd/1", None),
        ("/proc/self/fd", None),
        ("loop", None),
        ("file", None),
        ("nothing", None),
    ],
)
def test_a_path_names_a_descriptor(path: str, number: int | None, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    for link, target in (("link", "/dev/stdout"), ("link-to-link", "link"), ("folder", "/dev/fd"), ("loop", "loop")):
        Path(link).symlink_to(target)
    assert streams.descriptor(path, 1) == number
    assert streams.descriptor(path.replace("/self", f"/{os.getpid()}"), 1) == number


def test_a_stream_is_whatever_cannot_be_renamed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for path in ("-", "/dev/stdout", "/dev/fd/9", "/dev/null", tmp_path / "pipe", "/proc/1/fd/1"):
        assert streams.is_stream(str(path)), path
    for path in (tmp_path, tmp_path / "file", tmp_path / "none", tmp_path / "file" / "none"):
        assert not streams.is_stream(str(path)), path


def test_only_inherited_descriptors_are_written_to(tmp_path: Path) -> None:
    """`-o /dev/fd/N` must not meet a file that the command itself has opened, a lock for instance."""
    with open(tmp_path / "own", "wb") as own:
        name = f"/dev/fd/{own.fileno()}"
        with pytest.raises(ToolError, match=f"cannot write {name}: {SHUT} writing"):
            streams.open_stream(name, 1)
        os.set_inheritable(own.fileno(), True)
        assert streams.open_stream(name, 1) == own.fileno()
    assert streams.writable(name, 1) is None


def test_a_partial_file_that_is_none_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out.partial")
    with pytest.raises(ToolError, match=r"out\.partial: is no regular file; remove it or choose another -o"):
        Output(tmp_path / "out", None, False, lambda record: record["id"], force=True)


# --- outputs that are descriptors


@pytest.mark.parametrize(
    "path, redirected",
    [
        *(("-", redirected) for redirected in ("> out", ">> out", "> out 2>&1", "> out 2> out", "| cat > out")),
        *((path, "> out") for path in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/$BASHPID/fd/1", "link")),
    ],
)
def test_what_the_shell_wrote_before_and_after_stays(path: str, redirected: str, place: Path) -> None:
    (place / "link").symlink_to("/dev/stdout")
    (place / "out").write_text("old\n")
    done = bash(f"(echo a; exec mle-instrument -q -o {path} --force rollouts.jsonl) {redirected}; echo b >> out", place)
    lines = (place / "out").read_text().splitlines()
    assert done.returncode == 0, done.stderr
    kept = lines[1:] if redirected.startswith(">>") else lines
    assert (kept[0], kept[-1]) == ("a", "b") and len(records("\n".join(kept[1:-1]).encode())) == 12
    assert lines[0] == ("old" if redirected.startswith(">>") else "a")
    assert sorted(path.name for path in place.iterdir()) == ["link", "out", "rollouts.jsonl", "tasks.jsonl"]


@pytest.mark.parametrize(
    "path, redirected", [("/dev/stderr", "2> out"), ("/dev/fd/7", "7> out"), ("/dev/fd/2", "2> out")]
)
def test_another_descriptor_is_written_where_it_stands(path: str, redirected: str, place: Path) -> None:
    line = f"mle-instrument -q -o {path} --force rollouts.jsonl"
    done = bash(f"(echo a >&{redirected[0]}; {line}; echo b >&{redirected[0]}) {redirected}", place)
    first, *lines, last = (place / "out").read_text().splitlines()
    assert (done.returncode, done.stdout, first, last) == (0, b"", "a", "b")
    assert len(records("\n".join(lines).encode())) == 12


def test_messages_in_the_same_file_stand_between_the_records(place: Path) -> None:
    bad = "mle-instrument --max-rejects 2 rollouts.jsonl tasks.jsonl rollouts.jsonl > out"
    for both in ("2>&1", "2> out"):
        done = bash(f"{bad} {both}", place)
        lines = (place / "out").read_text().splitlines()
        said = [line for line in lines if line.startswith("mle-instrument: ")]
        assert done.returncode == 0 and len(said) == 3 and "24 records, 2 rejected" in said[-1]
        assert len(records("\n".join(line for line in lines if line not in said).encode())) == 24
    assert bash(f"{bad.replace('2 rollouts', '1 rollouts')} 2>&1", place).returncode == 1
    *lines, told, torn = (place / "out").read_text().splitlines()
    assert told.startswith("mle-instrument: tasks.jsonl:2: this is a task, not a rollout") and torn == "{"


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/stderr", "/dev/null", "/dev/fd/1", "pipe"])
def test_what_is_no_file_is_not_resumed(path: str, place: Path) -> None:
    os.mkfifo(place / "pipe")
    done = bash(f"mle-instrument -o {path} --resume rollouts.jsonl", place)
    assert done.returncode == 2 and done.stderr.decode().splitlines()[-1] == (
        f"Error: --resume needs -o FILE: {path} is no regular file, which cannot be continued"
    )


def test_a_second_output_that_is_no_file_is_not_resumed(tmp_path: Path) -> None:
    done = bash("mle-gen-task -n 1 --rejects /dev/stderr -o out --resume", tmp_path)
    assert done.returncode == 1 and b"/dev/stderr: no regular file, so --resume cannot continue it" in done.stderr


def test_second_outputs_are_descriptors_too(place: Path) -> None:
    line = "mle-instrument -q --max-rejects 2 rollouts.jsonl tasks.jsonl"
    for path in ("-", "/dev/stdout"):
        done = bash(f"{line} -o out --force --rejects {path}", place)
        assert (done.returncode, count(place / "out"), len(records(done.stdout))) == (0, 12, 2)
    done = bash(f"{line} --rejects >(cat > rejects) > >(cat > out)", place)
    assert done.returncode == 0 and (count(place / "out"), count(place / "rejects")) == (12, 2)
    done = bash(f"(echo a >&2; {line} --rejects /dev/stderr > out; echo b >&2)", place)
    first, *rejects, last = done.stderr.splitlines()
    assert (first, len(records(b"\n".join(rejects))), last) == (b"a", 2, b"b")
    assert not (place / "-").exists()


@pytest.mark.parametrize(
    "option", ["mle-filter --window 4 --state", "mle-rollout --forever --state", "mle-gen-task --journal"]
)
def test_a_state_is_a_file(option: str, place: Path) -> None:
    """It is replaced by a rename: of /dev/null, too, where the user is root."""
    (place / "link").symlink_to("/dev/null")
    done = bash(f"{option} link < tasks.jsonl", place)
    flag = option.split()[-1]
    assert done.returncode == 2 and done.stderr.decode().splitlines()[-1] == (
        f"Error: Invalid value for '{flag}': 'link' is no regular file: it could not be read again"
    )
    assert {path.name for path in place.iterdir()} == {"link", "rollouts.jsonl", "tasks.jsonl"}


def test_what_cannot_be_read_again_is_no_state(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), "/dev/stdout", "-"):
        with pytest.raises(BadParameter, match="is no regular file: it could not be read again"):
            OutputFile(kept=True).convert(path, None, None)
    assert OutputFile(kept=True).convert(str(tmp_path / "state"), None, None)


def test_a_folder_is_a_folder(tmp_path: Path) -> None:
    done = bash("mle-rollout --follow /dev/null < /dev/null", tmp_path)  # it would wait for a policy
    assert done.returncode == 2 and b"Invalid value for '--follow': '/dev/null' is no folder" in done.stderr


# --- pipes and devices


@pytest.mark.parametrize("force", ["", "--force"])
def test_a_named_pipe_and_a_device_stay_what_they_are(force: str, place: Path) -> None:
    os.mkfifo(place / "pipe")
    done = bash(f"cat pipe > out & mle-instrument -q -o pipe {force} rollouts.jsonl && wait", place)
    assert done.returncode == 0 and count(place / "out") == 12
    assert bash(f"mle-instrument -q -o /dev/null {force} rollouts.jsonl", place).returncode == 0
    full = bash(f"mle-instrument -q -o /dev/full {force} rollouts.jsonl", place)
    assert (full.returncode, full.stderr) == (
        1,
        b"mle-instrument: cannot write /dev/full: No space left on device\n",
    )
    left = bash(f"head -n 1 pipe > one & mle-instrument -q -o pipe {force} rollouts.jsonl", place)
    assert (left.returncode, left.stderr) == (141, b"")
    assert {path.name for path in place.iterdir()} == {"pipe", "out", "one", "rollouts.jsonl", "tasks.jsonl"}
    assert (place / "pipe").is_fifo() and Path("/dev/null").is_char_device()


def test_an_agent_in_turns_leaves_no_tape_beside_a_pipe(place: Path) -> None:
    os.mkfifo(place / "pipe")
    line = "mle-rollout -q --scaffold react --max-turns 1 -o pipe tasks.jsonl"
    done = bash(f"head -c 1 pipe > /dev/null & {line}; ls", place)
    assert done.stdout.decode().split() == ["pipe", "rollouts.jsonl", "tasks.jsonl"]


def test_process_substitution_is_a_pipe(place: Path) -> None:
    done = bash("mle-instrument -q -o >(cat > out) <(cat rollouts.jsonl)", place)
    assert done.returncode == 0 and count(place / "out") == 12
    left = bash("mle-instrument -q -o >(head -c 1 > /dev/null) rollouts.jsonl", place)
    assert (left.returncode, left.stderr) == (141, b"")


def test_a_killed_writer_is_known_to_the_reader_of_its_descriptor(place: Path) -> None:
    """A stream says whether it is whole, whatever it is called."""
    line = [str(BIN / "mle-instrument"), "-q", "-o", "/dev/stdout"]
    with (
        open(place / "out", "wb") as out,
        subprocess.Popen(line, cwd=place, stdin=subprocess.PIPE, stdout=out) as process,
    ):
        assert process.stdin is not None
        process.stdin.write(b"".join((place / "rollouts.jsonl").read_bytes().splitlines(keepends=True)[:3]))
        process.stdin.flush()
        end = time.monotonic() + 60
        while (place / "out").read_bytes().count(b" }") < 3 and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    done = run_command("mle-instrument", "out", cwd=place, check=False)
    assert done.returncode == 1 and b"out:3: the last line has no end" in done.stderr


def test_a_terminal_gets_whole_lines_and_is_announced_as_an_input(place: Path) -> None:
    ours, theirs = pty.openpty()
    line = [str(BIN / "mle-instrument"), "/dev/stdin", "-o", "out"]
    with subprocess.Popen(line, cwd=place, stdin=theirs, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"reading records from the terminal; Ctrl-D ends them" in process.stderr.readline()
        os.write(ours, b"\x04")
        assert b"/dev/stdin: no records" in process.stderr.read()
    assert process.returncode == 1
    os.close(theirs)
    os.close(ours)


# --- closed descriptors


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_file_is_written_whatever_is_closed(closed: str, place: Path) -> None:
    """A file that is opened later must not get a closed descriptor's number: messages would be written into it."""
    done = bash(f"mle-instrument -o out --max-rejects 2 --rejects no rollouts.jsonl tasks.jsonl {closed}", place)
    assert done.returncode == 0 and (count(place / "out"), count(place / "no")) == (12, 2)
    assert done.stdout == b"" and (b"12 records" in done.stderr) == ("2>&-" not in closed)


def test_a_closed_descriptor_is_one_line(place: Path) -> None:
    done = bash("mle-instrument rollouts.jsonl >&-", place)
    assert (done.returncode, done.stderr.decode()) == (
        1,
        f"mle-instrument: cannot write stdout: {SHUT} writing; -o FILE writes to a file\n",
    )
    for more in ("", "--allow-empty", "/dev/stdin"):
        done = bash(f"mle-instrument -o out {more} <&-", place)
        name = more if more.startswith("/") else "stdin"
        assert (done.returncode, done.stderr.decode()) == (
            1,
            f"mle-instrument: cannot read {name}: {SHUT} reading; name a file, or add `< FILE`\n",
        )
    assert bash("mle-instrument 2>&- < /dev/null", place).returncode == 1
    assert bash("mle-instrument 2>&- --no-such", place).returncode == 2
    told = bash("mle-instrument -o /dev/fd/9 rollouts.jsonl", place).stderr.decode()
    assert told == f"mle-instrument: cannot write /dev/fd/9: {SHUT} writing; -o FILE writes to a file\n"
    told = bash("mle-instrument -o /dev/stdin rollouts.jsonl < tasks.jsonl", place).stderr.decode()
    assert told == f"mle-instrument: cannot write /dev/stdin: {SHUT} writing; -o FILE writes to a file\n"
    told = bash("mle-import --seal - <&-", place).stderr.decode()
    assert told == f"mle-import: cannot read stdin: {SHUT} reading; name a file, or add `< FILE`\n"


@pytest.mark.parametrize("asked", ["--help", "--version", "--list-metrics"])
def test_help_that_cannot_be_printed_is_one_line(asked: str, tmp_path: Path) -> None:
    for stdout, why in ((">&-", "Bad file descriptor"), ("> /dev/full", "No space left on device")):
        done = bash(f"mle-grade {asked} {stdout}", tmp_path)
        assert (done.returncode, done.stderr.decode()) == (1, f"mle-grade: cannot write stdout: {why}\n")


def test_a_working_folder_that_was_deleted_is_named(tmp_path: Path) -> None:
    for line in ("mle-grade in.jsonl", "mle-grade -o out.jsonl"):
        done = bash(f"mkdir gone && cd gone && rmdir ../gone && {line} < /dev/null", tmp_path)
        told = done.stderr.decode()
        assert (done.returncode, told) == (1, "mle-grade: the working folder: No such file or directory\n")


# --- one file in two places of the command line


@pytest.mark.parametrize(
    "line, told",
    [
        ("rollouts.jsonl -o rollouts.jsonl --force", "-o rollouts.jsonl and rollouts.jsonl"),
        ("rollouts.jsonl -o ./rollouts.jsonl --resume", "-o ./rollouts.jsonl and rollouts.jsonl"),
        ("soft -o rollouts.jsonl --force", "-o rollouts.jsonl and soft"),
        ("rollouts.jsonl -o soft --force", "-o soft and rollouts.jsonl"),
        ("hard -o rollouts.jsonl --force", "-o rollouts.jsonl and hard"),
        ("-o rollouts.jsonl --force < rollouts.jsonl", "-o rollouts.jsonl and stdin"),
        ("/dev/fd/5 -o rollouts.jsonl --force 5< rollouts.jsonl", "-o rollouts.jsonl and /dev/fd/5"),
        ("rollouts.jsonl -o /dev/fd/5 5>> rollouts.jsonl", "-o /dev/fd/5 and rollouts.jsonl"),
        ("rollouts.jsonl >> rollouts.jsonl", "stdout and rollouts.jsonl"),
        ("- < rollouts.jsonl 1<> rollouts.jsonl", "stdout and stdin"),
        ("left.partial -o left --force", "-o left and left.partial"),
        ("tasks.jsonl --rejects rollouts.jsonl rollouts.jsonl --force", "--rejects rollouts.jsonl and rollouts.jsonl"),
        ("tasks.jsonl -o new --rejects new", "-o new and --rejects new"),
        ("tasks.jsonl --rejects - > new", "stdout and --rejects -"),
    ],
)
def test_a_file_that_is_read_is_not_written(line: str, told: str, place: Path) -> None:
    for link in ("soft", "hard", "left.partial"):
        (getattr(place / link, "symlink_to" if link == "soft" else "hardlink_to"))(place / "rollouts.jsonl")
    before = (place / "rollouts.jsonl").read_bytes()
    done = bash(f"mle-instrument {line}", place)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-1] == f"Error: {told} are one file, which would be lost: write to another"
    assert (place / "rollouts.jsonl").read_bytes() == before
    assert {path.name for path in place.iterdir()} - {"new"} == {
        *("soft", "hard", "left.partial", "rollouts.jsonl", "tasks.jsonl")
    }


@pytest.mark.parametrize(
    "line",
    [
        "mle-import rollouts.jsonl --target x -o rollouts.jsonl --force",
        "mle-report --html --train-steps rollouts.jsonl -o rollouts.jsonl --force tasks.jsonl",
        "mle-filter --window 4 --state rollouts.jsonl rollouts.jsonl",
        "mle-filter --dropped rollouts.jsonl rollouts.jsonl --force",
        "mle-gen-task --source llm -m scripted --seeds rollouts.jsonl --journal rollouts.jsonl",
        "mle-rollout --scaffold codeact --ideator null --write-states rollouts.jsonl rollouts.jsonl --force",
        "mle-rollout --scaffold search --write-steps rollouts.jsonl rollouts.jsonl --force",
    ],
)
def test_any_option_that_writes_a_file_is_compared(line: str, place: Path) -> None:
    before = (place / "rollouts.jsonl").read_bytes()
    done = bash(line, place)
    assert done.returncode == 2 and b" are one file, which would be lost: write to another" in done.stderr
    assert (place / "rollouts.jsonl").read_bytes() == before
    assert {path.name for path in place.iterdir()} == {"rollouts.jsonl", "tasks.jsonl"}


def test_devices_may_be_read_and_written(place: Path) -> None:
    done = bash(
        "mle-instrument --allow-empty -o /dev/null --rejects /dev/null /dev/null < /dev/null > /dev/null", place
    )
    assert done.returncode == 0, done.stderr


# --- places where nothing can be written


def test_a_place_where_nothing_can_be_written_is_one_line(place: Path) -> None:
    done = bash("mle-instrument -o none/out rollouts.jsonl", place)
    assert (done.returncode, done.stderr.decode()) == (
        1,
        "mle-instrument: none/out.partial: No such file or directory; make its folder first\n",
    )
    done = bash("mle-instrument -o . rollouts.jsonl --force", place)
    assert done.returncode == 2 and b"Invalid value for '-o' / '--output': File '.' is a directory." in done.stderr
    done = bash("mle-instrument -o rollouts.jsonl/out rollouts.jsonl", place)
    assert (done.returncode, done.stderr.decode()) == (
        1,
        "mle-instrument: rollouts.jsonl/out.partial: Not a directory; choose another place\n",
    )
