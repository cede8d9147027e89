"""One test per promise of sessions; all against real boxes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from docker_daemon import Daemon
from solving import SECRET, make_public, processes_with, run

import mletools
from mletools.base.errors import ToolError
from mletools.sandbox import Cell, Limits, Outcome, Sandbox, Session, Setup
from mletools.sandbox.attacks import ATTACKS, Attack, AttackTargets
from mletools.sandbox.container import DockerSandbox
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.machine import this_machine
from mletools.sandbox.on_ray import RaySandbox
from mletools.sandbox.selftest import attempt
from mletools.sandbox.session import LocalSession

PACKAGE_ROOT = str(Path(mletools.__file__).parent.parent)
LONG = 30.0  # seconds that no cell here should need


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with LocalSandbox(Setup(3, ("numpy",))) as opened:
        yield opened


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return make_public(tmp_path)


@contextmanager
def opened(sandbox: Sandbox, public: Path, seed: int = 0, **limits: Any) -> Iterator[Session]:
    with closing(sandbox.session(public, Limits(**{"wall_s": 120.0, **limits}), seed)) as session:
        yield session


@pytest.fixture
def session(sandbox: LocalSandbox, public: Path) -> Iterator[Session]:
    with opened(sandbox, public) as found:
        yield found


def python(session: Session, code: str, wall_s: float = LONG) -> Cell:
    return session.python(textwrap.dedent(code), wall_s)


def printed(cell: Cell) -> str:
    assert (cell.status, cell.alive) == ("ok", True), cell
    return cell.output.decode()


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def a_token() -> str:
    return f"{random.SystemRandom().randrange(10**6, 10**7)}"


# What an agent gets


def test_state_and_files_are_kept_between_cells(session: Session) -> None:
    assert printed(python(session, "import csv\nrows = list(csv.reader(open('input/test.csv')))")) == ""
    assert printed(python(session, "def first():\n    return rows[0]")) == ""
    assert printed(python(session, "first()")) == "['x']\n"
    assert printed(python(session, "open('note.txt', 'w').write('kept')")) == "4\n"
    assert printed(session.bash("cat note.txt; echo; ls", LONG)) == "kept\ninput\nnote.txt\n"
    assert printed(session.bash("head -2 input/train.csv | wc -l; grep -c , input/train.csv", LONG)) == "2\n71\n"
    assert printed(python(session, "__name__, sorted(name for name in dir() if name[0] != '_')")) == (
        "('__main__', ['csv', 'first', 'rows'])\n"
    )


@pytest.mark.parametrize(
    ("code", "status", "output"),
    [
        ("1 + 1", "ok", "2\n"),
        ("1 + 1;", "ok", ""),
        ("None", "ok", ""),
        ("", "ok", ""),
        ("# nothing", "ok", ""),
        ("1\n2", "ok", "2\n"),
        ("if True:\n    5", "ok", ""),
        ("print('a', end='')\n'b'", "ok", "a'b'\n"),
        ("import asyncio\nawait asyncio.sleep(0, 'waited')", "ok", "'waited'\n"),
        (
            "for _ in range(2):\n    !echo hi; echo there >&2\nprint('''\n!no\n''')",
            "ok",
            "hi\nthere\n" * 2 + "\n!no\n\n",
        ),
        ("!exit 3", "ok", "[exit code 3]\n"),
        ("x = (7\n%4)\nx", "ok", "3\n"),
        ("exit()", "ok", ""),
        ("raise SystemExit(2)", "error", "[exit code 2]\n"),
        ("raise SystemExit('words')", "error", "words\n[exit code 1]\n"),
        (
            "def f(x):\n    return 1 // x\n\nf(0)",
            "error",
            'Traceback (most recent call last):\n  File "<cell 1>", line 4, in <module>\n    f(0)\n'
            '  File "<cell 1>", line 2, in f\n    return 1 // x\n',
        ),
        ("print(1)\nreturn 5", "error", '  File "<cell 1>", line 2\n    return 5\n'),
        ("x = 1\n%timeit x", "error", '  File "<cell 1>", line 2\n    %timeit x\n'),
        ("x = '\0'", "error", ""),
        ("\ud800", "error", ""),
        ("print('\\ud800')", "error", ""),
        ("class E(Exception):\n    def __str__(self):\n        1 / 0\nraise E", "error", ""),
    ],
)
def test_python_cells_as_in_a_notebook(session: Session, code: str, status: str, output: str) -> None:
    cell = session.python(code, LONG)
    shown = "\n".join(line for line in cell.output.decode().split("\n") if set(line.strip()) - set("^~") or not line)
    if status == "ok" or output.endswith("]\n"):
        assert (cell.status, cell.output.decode()) == (status, output)
    else:
        assert cell.status == "error" and shown.startswith(output), cell
        assert "Error" in shown or "E: " in shown
    assert printed(session.python("40 + 2", LONG)) == "42\n"


def test_bash_cells(session: Session) -> None:
    cell = session.bash("echo out; echo err >&2; false; exit 7", LONG)
    assert (cell.status, cell.output, cell.alive) == ("error", b"out\nerr\n[exit code 7]\n", True)
    assert session.bash("kill -9 $$", LONG).output == b"[exit code 137]\n"
    assert session.bash("\0", LONG).status == "error"
    assert session.bash("echo " + "x" * (1 << 18), LONG).status == "error"  # longer than a command may be
    assert printed(session.bash(f"{sys.executable} -c 'print(6 * 7)'", LONG)) == "42\n"
    assert printed(session.bash("pwd; cd /; cat", LONG)) == printed(python(session, "import os; print(os.getcwd())"))


def test_a_large_cell_and_odd_output(session: Session) -> None:
    assert printed(session.python(f"len('{'x' * (1 << 20)}')", LONG)) == f"{1 << 20}\n"
    assert python(session, "import os; os.write(1, bytes(range(256)));").output == bytes(range(256))


def test_random_states_come_from_the_seed(sandbox: LocalSandbox, public: Path) -> None:
    code = "import random, numpy\nprint(random.random(), numpy.random.rand(), list({'a', 'b', 'c', 'd', 'e'}))"
    told = []
    for seed in (7, 7, 8):
        with opened(sandbox, public, seed) as session:
            told.append(printed(session.python(code, LONG)))
    assert told[0] == told[1] != told[2]
    assert run(sandbox, public, code, 7).stdout.decode() == told[0]


def test_cold_start(public: Path) -> None:
    with LocalSandbox(Setup(1, (), start="cold")) as sandbox, opened(sandbox, public, 7) as session:
        assert printed(python(session, "import random; random.seed is not None, __name__")) == "(True, '__main__')\n"
        first = printed(
            python(session, "import sys; random.random(), [n for n in sys.modules if n.startswith('mletools')]")
        )
        assert first == f"({random.Random(7).random()!r}, [])\n"
        cell = python(session, "def f():\n    1 / 0\nf()")
        assert cell.output.count(b"File") == 2 and cell.output.endswith(b"ZeroDivisionError: division by zero\n")
        assert python(session, "while True: pass", 0.5).status == "timeout"
        assert printed(python(session, "2 + 2")) == "4\n"


def test_closed_and_replaced_streams_are_opened_again(session: Session) -> None:
    assert python(session, "import sys, io, os\nsys.stdout = sys.stderr = io.StringIO()\nprint('lost')").output == b""
    assert printed(python(session, "print('a')")) == "a\n"
    assert python(session, "sys.stdout.close(); sys.stderr.close(); sys.stdin.close(); os.close(0)").status == "ok"
    assert printed(python(session, "print('b'); print('c', file=sys.stderr); sys.stdin.read()")) == "b\nc\n''\n"
    assert python(session, "os.close(1); os.close(2); del sys.stdout").alive
    assert printed(python(session, "print('d')\n!echo e")) == "d\ne\n"


def test_a_child_of_a_cell_does_not_go_on_as_the_session(session: Session) -> None:
    assert (
        printed(python(session, "import os\nchild = os.fork()\nif child: os.waitpid(child, 0)\nprint('x')")) == "x\nx\n"
    )
    assert printed(python(session, "child > 0")) == "True\n"


# What the command learns


def test_submission_after_every_cell(session: Session) -> None:
    cell = session.bash("true", LONG)
    assert (cell.submission, cell.submission_problem) == (None, "no submission.csv")
    cell = session.bash("echo a > submission.csv", LONG)
    assert (cell.submission, cell.submission_problem) == (b"a\n", None)
    assert python(session, "file = open('submission.csv', 'w'); file.write('b'); file.flush()").submission == b"b"
    cell = session.bash("rm submission.csv; ln -s input/train.csv submission.csv", LONG)
    assert (cell.submission, cell.submission_problem) == (None, "submission.csv is a symbolic link")
    cell = session.bash("rm submission.csv; mkfifo submission.csv", LONG)
    assert (cell.submission, cell.submission_problem) == (None, "submission.csv is a named pipe")


@pytest.mark.parametrize(
    "code",
    [
        "import time; print('begun'); time.sleep(60)",
        "print('begun')\nwhile True: pass",
        "import os; print('begun'); os.system('sleep 60')",
        "$ echo begun; sleep 60",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (
                "import subprocess; print('begun'); subprocess.run(['sleep', '60'])",
                "print('begun')\n!sleep 60",
                "$ trap '' INT; echo begun; sleep 60; sleep 60; sleep 60",
            )
        ),
    ],
)
def test_a_cell_over_its_time_is_interrupted(session: Session, code: str) -> None:
    python(session, "x = 5")
    cell = session.bash(code[2:], 0.7) if code.startswith("$ ") else session.python(code, 0.7)
    assert (cell.status, cell.alive) == ("timeout", True)
    assert cell.output.startswith(b"begun\n")
    assert cell.duration_s >= 0.7
    assert printed(python(session, "x")) == "5\n"


@pytest.mark.parametrize(("code", "status"), [("print(1)", "ok"), ("import os; os._exit(3)", "error")])
def test_a_cell_that_ended_in_time_is_no_timeout_where_the_command_was_held_up(
    session: Session, monkeypatch: pytest.MonkeyPatch, code: str, status: str
) -> None:
    listen = LocalSession._listen

    def held_up(self: LocalSession, until: float, cell: Any) -> bool:
        came = listen(self, until, cell)
        if cell is not None and (cell.ok is not None or self._ended):
            cell.deadline = 0.0  # as by Ctrl-Z
        return came

    monkeypatch.setattr(LocalSession, "_listen", held_up)
    assert python(session, code).status == status


@pytest.mark.parametrize(
    "code",
    [
        "import signal\nfor n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
        "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except KeyboardInterrupt: pass",
        pytest.param("import os; os.kill(os.getpid(), 19)", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_a_cell_deaf_to_the_interrupt_ends_the_session(sandbox: LocalSandbox, session: Session, code: str) -> None:
    assert session.bash("echo a > submission.csv", LONG).status == "ok"
    cell = session.python(code, 0.5)
    assert (cell.status, cell.alive, cell.submission) == ("timeout", False, b"a\n")
    with pytest.raises(ToolError, match="this session is over: open another"):
        session.python("1", LONG)


def test_the_whole_life_is_bounded(sandbox: LocalSandbox, public: Path) -> None:
    token = a_token()
    with opened(sandbox, public, wall_s=1.5) as session:
        assert session.bash(f"sleep {token} &", LONG).alive
        assert wait_until(lambda: len(processes_with(token)) == 1)
        assert wait_until(lambda: processes_with(token) == [])  # with nobody asking
        cell = session.python("1", LONG)
        assert (cell.status, cell.alive, cell.output) == ("timeout", False, b"")


@pytest.mark.slow
def test_output_is_bounded_and_the_session_lives(sandbox: LocalSandbox, public: Path) -> None:
    with opened(sandbox, public, output_kb=64) as session:
        cell = session.python("x = 1\nprint('a' * 70000)\nx = 2", LONG)
        assert (cell.status, cell.alive, cell.output) == ("output", True, b"a" * 65536)
        assert printed(python(session, "x")) == "2\n"
        cell = session.bash("yes", LONG)
        assert (cell.status, cell.alive, len(cell.output)) == ("output", True, 65536)
        session.bash("(until [ -e go ]; do sleep 0.01; done; exec yes) & echo $! > pid; touch go", LONG)
        assert session.bash("sleep 0.1", LONG).alive  # even while it floods
        # The flood may end a cell before it comes to its kill.
        quiet = "kill $(cat pid) 2>&-; echo quiet"
        assert wait_until(lambda: session.bash(quiet, LONG).output == b"quiet\n")


def test_background_processes_live_on_and_end_with_the_session(sandbox: LocalSandbox, public: Path) -> None:
    token = a_token()
    with opened(sandbox, public) as session:
        cell = session.bash(f"(sleep {token} & sleep 0.3; echo late) & echo early", LONG)
        assert (cell.output, cell.status) == (b"early\n", "ok")
        assert wait_until(lambda: len(processes_with(token)) == 1)
        time.sleep(1.5)
        assert printed(session.bash("echo next", LONG)) == "late\nnext\n"
        assert python(session, "import time; time.sleep(60)", 0.3).status == "timeout"
        assert len(processes_with(token)) == 1
    assert processes_with(token) == []


MEMORY_BOMB = "kept = []\nwhile True: kept.append(bytearray(b'x') * (20 << 20))"


def test_memory(sandbox: LocalSandbox, public: Path) -> None:
    with opened(sandbox, public, memory_mb=300) as session:
        if sandbox.protections["memory_cgroup"]:
            cell = session.bash(f"cat > bomb.py <<'END'\n{MEMORY_BOMB}\nEND\n{sys.executable} bomb.py", LONG)
            assert (cell.status, cell.alive) == ("memory", True)  # the kernel chose the child
        assert session.bash("echo a > submission.csv", LONG).status == "ok"
        cell = session.python(MEMORY_BOMB, LONG)
        assert (cell.status, cell.alive, cell.submission) == ("memory", False, b"a\n")
    assert run(sandbox, public, "print(1)").status == "ok"


def test_disk_and_processes(sandbox: LocalSandbox, public: Path) -> None:
    if not sandbox.protections["disk_limit"]:
        pytest.skip("no disk of its own here")
    with opened(sandbox, public, disk_mb=8, processes=20) as session:
        cell = session.bash("cat /dev/zero > big", LONG)
        assert (cell.status, cell.alive) == ("error", True)
        assert session.bash("rm big; echo a > submission.csv", LONG).submission == b"a\n"
        cell = session.bash("for i in $(seq 100); do sleep 60 & done; wait", 1.0)
        assert cell.alive and b"esource temporarily unavailable" in cell.output
    with opened(sandbox, public, processes=20) as session:
        session.bash("bomb() { bomb | bomb & }; bomb; sleep 0.5", 2.0)
        assert run(sandbox, public, "print(1)").status == "ok"


def test_cpu_limit(sandbox: LocalSandbox, public: Path) -> None:
    with opened(sandbox, public, cpu_s=1) as session:
        cell = session.python("while True: pass", LONG)
        assert (cell.status, cell.alive) == ("timeout", False)


# What hostile code does to its own session, and to nothing else

_DONE = "import os, struct\nwhile True:\n    try: os.write(4, struct.pack('=IB', {number}, {bad}))\n    except OSError: break"
HARMFUL = {
    "an end": "import os; os._exit(0)",
    "a crash": "import os; os.abort()",
    "a kill": "import os; os.kill(os.getpid(), 9)",
    "garbage on every descriptor": """
        import os
        for number in range(3, 100):
            try: os.write(number, b"\\xff" * 1000)
            except OSError: pass
        while True: pass
    """,
    "every descriptor closed": "import os; os.closerange(0, 1000)\nwhile True: pass",
    "answers without end": _DONE.format(number=1, bad=0),
    "another cell's answer": "import os, struct; os.write(4, struct.pack('=IB', 7, 0))\nwhile True: pass",
    "an odd answer": "import os, struct; os.write(4, struct.pack('=IB', 1, 9))\nwhile True: pass",
    "a part of an answer, then the end": "import os; os.write(4, b'\\1\\0'); os._exit(0)",
}


@pytest.mark.parametrize("name", HARMFUL)
def test_harm_to_itself_ends_the_session(sandbox: LocalSandbox, public: Path, name: str) -> None:
    with opened(sandbox, public) as beside, opened(sandbox, public) as session:
        assert printed(python(beside, "x = 1\nx")) == "1\n"
        cell = python(session, HARMFUL[name])
        if cell.alive:  # its own word for it that it is done; then it is caught at the next
            assert cell.status == "ok"
            cell = session.python("1", LONG)
        assert (cell.status, cell.alive) == ("error" if "_exit" in HARMFUL[name] else "killed", False)
        assert cell.duration_s < LONG
        assert printed(python(beside, "x")) == "1\n"
    assert run(sandbox, public, "print(1)").stdout == b"1\n"


def test_an_answer_forged_ahead_wins_nothing(session: Session) -> None:
    forged = """
        import os, struct, threading, time
        os.write(4, struct.pack('=IB', 1, 0))
        time.sleep(60)
    """
    cell = python(session, forged)
    assert (cell.status, cell.alive) == ("ok", True)  # as if it had ended well; it has only its own cell for that
    cell = session.python("1", 1.0)
    assert not cell.alive or cell.status == "timeout"


def test_children_that_write_after_their_cell(sandbox: LocalSandbox, session: Session, public: Path) -> None:
    code = """
        import os, time
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                end = time.time() + 60
                while time.time() < end:
                    os.write(1, b"noise\\n")
                    os.write(4, b"noise")
    """
    cell = python(session, code)
    for _ in range(100):  # on a busy machine the children may not have begun
        if not cell.alive:
            break
        cell = session.python("1", LONG)
    assert (cell.status, cell.alive) == ("killed", False)
    assert run(sandbox, public, "print(1)").stdout == b"1\n"


@pytest.mark.parametrize("number", ["TERM", "INT", "USR1", "ALRM", "KILL", "STOP"])
def test_signals_to_the_processes_around_it(sandbox: LocalSandbox, public: Path, number: str) -> None:
    if not sandbox.protections["pid_namespace"]:
        pytest.skip("its parent is in reach without a pid namespace")
    with opened(sandbox, public) as session:
        cell = session.bash(f"kill -{number} 1; sleep 0.2", 5.0)
        assert cell.status in ("ok", "error", "killed")
    assert run(sandbox, public, "print(1)").stdout == b"1\n"


def test_a_cell_that_reads_its_own_output_pipe(sandbox: LocalSandbox, public: Path) -> None:
    steal = """
        import os, time
        end = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
        for spin in range(300):
            os.write(1, b"x")
            for _ in range(spin * 4): pass
            try: os.read(end, 1 << 16)
            except BlockingIOError: pass
        time.sleep(60)
    """
    with opened(sandbox, public) as session:
        assert python(session, steal, 1.0).status == "timeout"
    ended: list[str] = []
    # A reader that blocks for what poll announced and somebody took would wait for ever, time limit or not.
    thread = threading.Thread(
        target=lambda: ended.extend(run(sandbox, public, steal, wall_s=0.7).status for _ in range(2)), daemon=True
    )
    thread.start()
    thread.join(60)
    assert ended == ["timeout"] * 2


class Sessions:
    """A sandbox whose runs are sessions of one cell, so that the table of attacks can be let loose on them."""

    name = "sessions"

    def __init__(self, inner: LocalSandbox) -> None:
        self._inner = inner
        self.protections = inner.protections
        self.notes: list[str] = []

    def run(self, code: str, public: Path, limits: Limits, seed: int) -> Outcome:
        with opened(self._inner, public, seed, **vars(replace(limits, wall_s=limits.wall_s + 60))) as session:
            cell = session.python(code, limits.wall_s)
        exit_code = {"ok": 0, "error": 1}.get(cell.status)
        told = (cell.output, b"", cell.outputs, cell.problems)
        return Outcome(cell.status, exit_code, cell.duration_s, 0.0, 0.0, *told)


# What is otherwise in a session, and why.
OTHERWISE = {
    "inherited file descriptors": "the socket of its own cells",
    "filling the disk": "an error of the cell, which the session survives",
    "using up the inodes": "an error of the cell, which the session survives",
    "closing every descriptor": "ends the session as killed",
    "hanging at exit": "hooks of the exit are not waited for",
    "forged sandbox messages": "ends the session as killed",
}
QUICK = {"answers by path", "TCP to the host", "killing its parent", "route to other networks"}


@pytest.fixture(scope="module")
def attacked() -> Iterator[tuple[Sessions, AttackTargets]]:
    with ExitStack() as stack:
        targets = stack.enter_context(AttackTargets())
        inner = stack.enter_context(LocalSandbox(Setup(2, ("numpy",))))
        if not inner.protections["mount_namespace"]:
            pytest.skip(f"no namespaces here: {'; '.join(inner.notes)}")
        yield Sessions(inner), targets


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, id=attack.name, marks=[] if attack.name in QUICK else [pytest.mark.slow])
        for attack in ATTACKS
        if attack.name not in OTHERWISE
    ],
)
def test_attack_is_held(attacked: tuple[Sessions, AttackTargets], attack: Attack) -> None:
    sandbox, targets = attacked
    finding = attempt(attack, sandbox, targets)  # type: ignore[arg-type]
    if attack.group == "memory" and not sandbox.protections["memory_cgroup"] and not finding.sealed:
        pytest.skip(f"no memory cgroup here: {finding.seen}")
    assert finding.sealed, finding.seen


def test_answers_and_places_outside_are_closed_to_bash(session: Session, public: Path) -> None:
    answers = public.parent / "private" / "answers.csv"
    assert (
        SECRET not in session.bash(f"cat {answers} input/../private/*; ls -laR {public.parent}", LONG).output.decode()
    )
    assert session.bash("echo x > input/train.csv", LONG).status == "error"
    assert session.bash("rm -rf input/*; echo x > /usr/x", LONG).status == "error"
    assert (public / "train.csv").read_text().startswith("x,y\n0,0\n")
    assert "MLE" not in printed(session.bash("env; cat /proc/1/environ 2>/dev/null || true", LONG))


# Slots, ends, and the other backends


def test_a_session_holds_one_slot_until_it_is_closed(public: Path) -> None:
    with LocalSandbox(Setup(2, ("json",))) as sandbox:
        first = sandbox.session(public, Limits(), 0)
        assert run(sandbox, public, "print(1)").stdout == b"1\n"  # beside it
        second = sandbox.session(public, Limits(), 0)
        done: list[bytes] = []
        thread = threading.Thread(target=lambda: done.append(run(sandbox, public, "print(2)").stdout))
        thread.start()
        time.sleep(0.5)
        assert done == []
        assert first.python("import os; os._exit(1)", LONG).alive is False
        time.sleep(0.3)
        assert done == []  # dead, but not closed
        first.close()
        first.close()
        thread.join(30)
        assert done == [b"2\n"]
        assert printed(second.python("3", LONG)) == "3\n"
        second.close()
        with pytest.raises(ToolError, match="this session is over"):
            second.bash("true", LONG)


def test_nothing_is_left_of_a_session(sandbox: LocalSandbox, public: Path) -> None:
    with opened(sandbox, public) as session:
        python(session, "x = 1")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with opened(sandbox, public) as session:
            left = "ls -A . $HOME $TMPDIR /dev/shm; for d in . $HOME $TMPDIR /dev/shm; do touch $d/left; done"
            assert "left" not in printed(session.bash(left, LONG))
            assert python(session, "x").status == "error"
            python(session, "import numpy; numpy.zeros = x = 1")
        assert run(sandbox, public, "import numpy; print(numpy.zeros(1))").stdout == b"[0.]\n"
    assert len(os.listdir("/proc/self/fd")) == before


def closed_under(session: Session, token: str, close: Callable[[], None]) -> list[str]:
    """What a cell that runs while `close` is called comes to: errors, no results."""
    errors: list[str] = []

    def sleep() -> None:
        try:
            errors.append(repr(session.bash(f"sleep {token}", 90.0)))
        except ToolError as error:
            errors.append(str(error))

    thread = threading.Thread(target=sleep)
    thread.start()
    assert wait_until(lambda: len(processes_with(token)) == 1)
    close()
    thread.join(30)
    return errors


@pytest.mark.parametrize("whole", [False, True])
def test_close_while_a_cell_runs(public: Path, whole: bool) -> None:
    token = a_token()
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        session = sandbox.session(public, Limits(wall_s=100.0), 0)
        closed = closed_under(session, token, (sandbox if whole else session).close)
        assert closed == ["the session was closed while a cell ran"]
        assert processes_with(token) == []
        if whole:
            with pytest.raises(ToolError, match="the sandbox is closed"):
                sandbox.session(public, Limits(), 0)
        else:
            assert run(sandbox, public, "print(1)").stdout == b"1\n"


def test_kill_9_of_the_command_ends_its_sessions(public: Path) -> None:
    token = a_token()
    program = f"""
        from pathlib import Path
        from mletools.sandbox import Limits, Setup, open_sandbox
        with open_sandbox("local", Setup(1, ("json",))) as sandbox:
            session = sandbox.session(Path({str(public)!r}), Limits(wall_s=100.0), 0)
            session.bash("setsid sleep {token} & sleep {token} &", 10.0)
            print("there", flush=True)
            session.python("import time; time.sleep(90)", 90.0)
    """
    environment = {**os.environ, "PYTHONPATH": PACKAGE_ROOT}
    command = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], env=environment, stdout=subprocess.PIPE
    )
    assert command.stdout is not None and command.stdout.readline() == b"there\n"
    assert wait_until(lambda: len(processes_with(token)) == 2)
    command.send_signal(signal.SIGKILL)
    command.wait()
    command.stdout.close()
    assert wait_until(lambda: processes_with(token) == [])


def test_without_a_public_folder(sandbox: LocalSandbox, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no such folder"):
        sandbox.session(tmp_path / "absent", Limits(), 0)


def check_backend(sandbox: Sandbox, public: Path) -> None:
    token = a_token()
    with opened(sandbox, public, 5, memory_mb=300) as session:
        assert session.backend == sandbox.name
        assert session.protections == sandbox.protections
        assert session.machine == this_machine()
        assert printed(python(session, "x = 1\nopen('input/test.csv').read()")) == "'x\\n1\\n2\\n5\\n6\\n'\n"
        assert printed(python(session, "import random; random.random()")) == f"{random.Random(5).random()!r}\n"
        cell = session.bash("echo a > submission.csv; exit 3", LONG)
        assert (cell.status, cell.output, cell.submission) == ("error", b"[exit code 3]\n", b"a\n")
        assert python(session, "while True: pass", 0.5).status == "timeout"
        assert session.bash("sleep 60", 0.5).status == "timeout"
        assert printed(python(session, "x")) == "1\n"
        assert session.bash(f"sleep {token} &", LONG).alive
        assert wait_until(lambda: len(processes_with(token)) == 1)
        cell = session.python(MEMORY_BOMB, LONG)
        assert (cell.status, cell.alive, cell.submission) == ("memory", False, b"a\n")
        with pytest.raises(ToolError, match="this session is over: open another"):
            session.python("1", LONG)
    assert wait_until(lambda: processes_with(token) == [])
    assert run(sandbox, public, "import os; print(os.listdir())").stdout == b"['input']\n"
    session = sandbox.session(public, Limits(wall_s=100.0), 0)
    assert closed_under(session, token, session.close) == ["the session was closed while a cell ran"]
    assert wait_until(lambda: processes_with(token) == [])
    with opened(sandbox, public) as another:
        assert printed(python(another, "1")) == "1\n"


def test_local(public: Path) -> None:
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        check_backend(sandbox, public)


def test_without_namespaces(public: Path) -> None:
    with LocalSandbox(Setup(1, ("json",)), namespaces=False, cgroup=False) as sandbox:
        try:
            _ = sandbox.protections
        except ToolError as error:
            pytest.skip(f"not as this user: {error}")
        check_backend(sandbox, public)


@pytest.mark.slow
@pytest.mark.parametrize("namespaces", [True, False])
def test_in_containers(docker_daemon: Daemon, public: Path, monkeypatch: pytest.MonkeyPatch, namespaces: bool) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_daemon.host)
    with DockerSandbox(Setup(1, ("json",), image=docker_daemon.image), namespaces=namespaces) as sandbox:
        try:
            _ = sandbox.protections
        except ToolError as error:
            pytest.skip(f"not on this kernel: {error}")
        check_backend(sandbox, public)


@pytest.mark.slow
def test_on_a_cluster(public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("ray") is None:
        pytest.skip("needs the [ray] extra")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    sandbox = RaySandbox("ray", "local", Setup(2, ("json",)))
    try:
        check_backend(sandbox, public)
        token = a_token()
        session = sandbox.session(public, Limits(wall_s=100.0, memory_mb=300), 0)
        assert session.bash(f"sleep {token} &", LONG).alive
        (holder,) = parents_with("SessionOnNode")
        os.kill(holder, signal.SIGKILL)
        with pytest.raises(ToolError, match="a session was lost with its Ray node or worker"):
            session.python("1", LONG)
        assert wait_until(lambda: processes_with(token) == [])
        session.close()
        session = sandbox.session(public, Limits(wall_s=100.0, memory_mb=300), 0)
        assert session.bash(f"sleep {token} &", LONG).alive
    finally:
        sandbox.close()
    assert wait_until(lambda: processes_with(token) == [])
    with pytest.raises(ToolError, match="this session is over"):
        session.python("1", LONG)


def parents_with(word: str) -> list[int]:
    """Worker processes of Ray that hold an actor of this kind."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and f"ray::{word}".encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found
