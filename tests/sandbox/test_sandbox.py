"""One test per promise of the local sandbox; all against the real thing."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from solving import SECRET, make_public, printed, processes_with, run

import mletools
from mletools.base.errors import ToolError
from mletools.sandbox import BACKENDS, Limits, Setup, open_sandbox
from mletools.sandbox.cgroup import _may_fix_order_of_killing
from mletools.sandbox.local import LocalSandbox, _fill_folder
from mletools.sandbox.probe import _root_is_closed
from mletools.sandbox.process_tree import _children, descendants
from mletools.sandbox.request import RunRequest

PACKAGE_ROOT = str(Path(mletools.__file__).parent.parent)


@pytest.fixture(scope="session")
def sandbox() -> Iterator[LocalSandbox]:
    os.environ["MLE_TEST_SECRET"] = SECRET
    try:
        with LocalSandbox(Setup(4)) as opened:
            yield opened
    finally:
        del os.environ["MLE_TEST_SECRET"]


@pytest.fixture
def boxed(sandbox: LocalSandbox) -> LocalSandbox:
    if not sandbox.protections["mount_namespace"]:
        pytest.skip(f"no namespaces here: {sandbox.weaker_because}")
    return sandbox


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return make_public(tmp_path)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids: list[int], seconds: float = 15.0) -> list[int]:
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(is_running, pids)):
        time.sleep(0.02)
    return list(filter(is_running, pids))


# What a solution gets


GOOD = """
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
for model in (LogisticRegression(), HistGradientBoostingClassifier(random_state=0, min_samples_leaf=2)):
    model.fit(train[["x"]], train["y"])
    print(model.predict_proba(test).round(9).tolist(), {"a", "b", "c", "d"})
test.assign(y=model.predict(test)).to_csv("submission.csv", index=False)
"""


def test_good_solution(sandbox: LocalSandbox, public: Path) -> None:
    outcome = run(sandbox, public, GOOD)
    assert (outcome.status, outcome.exit_code, outcome.stderr) == ("ok", 0, b"")
    assert outcome.submission == b"x,y\n1,0\n2,0\n5,1\n6,1\n"
    assert outcome.submission_problem is None
    assert 0 < outcome.duration_s < 20
    assert outcome.cpu_s > 0
    assert outcome.peak_memory_mb > 1


@pytest.mark.slow
def test_same_output_as_a_cold_run(sandbox: LocalSandbox, public: Path, tmp_path: Path) -> None:
    (tmp_path / "input").symlink_to(public)
    (tmp_path / "solution.py").write_text(GOOD)
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "solution.py"]
    cold = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    outcome = run(sandbox, public, GOOD)
    assert outcome.stdout == cold.stdout
    assert outcome.submission == (tmp_path / "submission.csv").read_bytes()


def test_random_states_come_from_the_seed(sandbox: LocalSandbox, public: Path) -> None:
    code = "import random, numpy\nprint(random.random(), numpy.random.rand(), list({'a', 'b', 'c', 'd', 'e'}))"
    first, again, other = (printed(run(sandbox, public, code, seed)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_main_module_is_clean(sandbox: LocalSandbox, public: Path) -> None:
    code = """
        import os, sys
        print(__name__, os.path.basename(__file__), sys.argv, os.listdir("."), sorted(globals()), sys.stdin.read())
        print([name for name in sys.modules if name.startswith("mletools")], vars(sys.modules["__main__"]) is globals())
        print(sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1])
        frame, depth = sys._getframe(), 0
        while frame.f_back:
            frame, depth = frame.f_back, depth + 1
        print(depth <= 2, sorted(frame.f_globals))
    """
    lines = printed(run(sandbox, public, code)).splitlines()
    names = ["builtins", "cached", "doc", "file", "loader", "name", "package", "spec"]
    names = [f"__{name}__" for name in (["annotations", *names] if sys.version_info < (3, 14) else names)]
    assert lines[0] == f"__main__ solution.py ['solution.py'] ['input'] {[*names, 'os', 'sys']} "
    assert lines[1:] == ["[] True", "[0, 1, 2]", "True []"]


def test_environment_is_scrubbed(sandbox: LocalSandbox, public: Path) -> None:
    code = """
        import os, subprocess
        print(sorted(name for name in os.environ if not name.startswith("KMP_")))
        print([os.environ[name] for name in ("LANG", "PYTHONHASHSEED", "OMP_NUM_THREADS")])
        for name in ("HOME", "TMPDIR"):
            open(os.path.join(os.environ[name], "file"), "w").close()
        print(subprocess.run(["env"], capture_output=True, text=True).stdout)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                print(open(f"/proc/{pid}/environ").read())
            except OSError:
                pass
    """
    text = printed(run(sandbox, public, code, threads=2))
    devices = ["CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"]
    threads = ["MKL_NUM_THREADS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OPENBLAS_NUM_THREADS"]
    assert text.splitlines()[0] == str([*devices, "HOME", "LANG", *threads, "PATH", "PYTHONHASHSEED", "TMPDIR"])
    assert text.splitlines()[1] == "['C.UTF-8', '0', '2']"
    assert SECRET not in text


HONEST_CALLS = """
    import fcntl, mmap, os, resource, sqlite3, subprocess, sys
    base, other = sqlite3.connect("base"), sqlite3.connect("base", timeout=0.05)
    base.execute("create table kept (x)"); base.commit(); base.execute("begin exclusive")
    try:
        other.execute("insert into kept values (1)")
    except sqlite3.OperationalError as error:
        print(error)
    base.rollback(); other.execute("insert into kept values (1)"); other.commit()
    file = open("lock", "w+")
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_EX, 1)
    code = '''
    import fcntl
    for lock in (fcntl.flock, lambda file, how: fcntl.lockf(file, how, 1)):
        try:
            lock(open("lock", "w"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("held")
    '''
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
    with open("input/train.csv") as shared:
        fcntl.flock(shared, fcntl.LOCK_SH)
        os.posix_fadvise(shared.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        os.posix_fadvise(shared.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        print(os.preadv(shared.fileno(), [bytearray(3)], 0))
    file.write("x" * 4096); file.flush(); os.fsync(file.fileno()); os.sync()
    with mmap.mmap(file.fileno(), 4096) as kept:
        kept[:1] = b"y"; kept.flush()
    print(open("lock").read(2))
    os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0)); os.nice(1)
    os.setpriority(os.PRIO_PROCESS, os.getpid(), os.getpriority(os.PRIO_PROCESS, 0))
    resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE, (100, 100))
    print([len(open("/proc/" + name).read(9)) for name in ("meminfo", "cpuinfo", "stat", "loadavg", "sys/vm/overcommit_memory")])
"""


@pytest.mark.parametrize("namespaces", [True, False])
def test_calls_of_honest_programs_work(request: pytest.FixtureRequest, public: Path, namespaces: bool) -> None:
    if namespaces:
        outcome = run(request.getfixturevalue("boxed"), public, HONEST_CALLS)
    else:
        with LocalSandbox(Setup(1, ("json",)), namespaces=False) as opened:
            try:
                _ = opened.protections
            except ToolError as error:
                pytest.skip(f"not as this user: {error}")
            outcome = run(opened, public, HONEST_CALLS)
    lines = ["database is locked", "['held', 'held']", "3", "yx", "[9, 9, 9, 9, 2]"]
    assert (outcome.status, outcome.stderr, outcome.stdout.decode().splitlines()) == ("ok", b"", lines)


def test_folders_mounted_inside_the_input_are_shown(boxed: LocalSandbox, public: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    (public / "more").mkdir()
    assert run(boxed, public, "pass").status == "ok"  # its server knows the mounts of now
    subprocess.run(["mount", "-t", "tmpfs", "none", public / "more"], check=True)
    try:
        (public / "more" / "data.csv").write_text("a")
        assert printed(run(boxed, public, "import os; print(os.listdir('input/more'))")) == "['data.csv']\n"
        assert run(boxed, public, "open('input/more/new', 'w')").status == "error"
    finally:
        subprocess.run(["umount", public / "more"], check=True)


def test_processes_of_a_solution_work(sandbox: LocalSandbox, public: Path) -> None:
    code = """
        import multiprocessing, subprocess, sys
        def square(n):
            return n * n
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    print(pool.map(square, [1, 2, 3]))
            print(subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout)
    """
    assert printed(run(sandbox, public, code)).split("\n")[:3] == ["[1, 4, 9]", "[1, 4, 9]", "42"]


def test_two_threads_fit(sandbox: LocalSandbox, public: Path) -> None:
    outcome = run(sandbox, public, GOOD, threads=2)
    assert outcome.status == "ok"


def test_open_files_are_written_out_and_exit_hooks_run(sandbox: LocalSandbox, public: Path) -> None:
    code = """
        import atexit, threading, time
        file = open("submission.csv", "w")
        file.write("x,y")
        atexit.register(print, "hook")
        threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
    """
    outcome = run(sandbox, public, code)
    assert (outcome.submission, outcome.stdout) == (b"x,y", b"thread\nhook\n")


# Independence of runs


def test_nothing_is_left_for_the_next_run(sandbox: LocalSandbox, public: Path) -> None:
    code = """
        import os, pandas
        for folder in (".", os.environ["HOME"], os.environ["TMPDIR"]):
            print([name for name in os.listdir(folder) if name.startswith("left")])
            open(os.path.join(folder, "left-behind"), "w").close()
        print(pandas.read_csv is not print)
        pandas.read_csv = print
        os.environ["LEFT"] = "1"
    """
    first = printed(run(sandbox, public, code))
    assert first == "[]\n[]\n[]\nTrue\n"
    assert printed(run(sandbox, public, code)) == first
    assert "LEFT" not in printed(run(sandbox, public, "import os; print(os.environ)"))


def test_memory_holds_nothing_of_the_last_run(public: Path) -> None:
    scan = """
        import re
        # A pattern that does not hold the token itself, or the scan would find its own copy.
        pattern, found = re.compile(PATTERN), False
        with open("/proc/self/mem", "rb", 0) as memory:
            for line in open("/proc/self/maps"):
                span, rights = line.split()[:2]
                if rights.startswith("rw") and "[v" not in line:
                    begin, end = (int(part, 16) for part in span.split("-"))
                    memory.seek(begin)
                    try:
                        found = found or pattern.search(memory.read(end - begin)) is not None
                    except OSError:
                        pass
        print(found)
    """
    token = format(random.SystemRandom().getrandbits(128), "x")
    with LocalSandbox(Setup(1, ("json",))) as sandbox:  # a small server, so that the scan is quick
        leave = f"secret = '{token}' * 1000; print(secret)"
        assert token in printed(run(sandbox, public, leave))
        look = textwrap.dedent(scan).replace("PATTERN", repr("".join(f"[{digit}]" for digit in token).encode()))
        assert printed(run(sandbox, public, f"token = '{token}'\n{look}")) == "True\n"
        assert printed(run(sandbox, public, look)) == "False\n"


def test_four_threads_at_once(sandbox: LocalSandbox, public: Path) -> None:
    code = "import time; time.sleep(0.2); print({}); open('submission.csv', 'w').write('{}')"
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda n: run(sandbox, public, code.format(n, n)), range(8)))
    assert [outcome.stdout for outcome in outcomes] == [b"%d\n" % n for n in range(8)]
    assert [outcome.submission for outcome in outcomes] == [b"%d" % n for n in range(8)]


# How a run ends


def test_crash_names_file_and_line(sandbox: LocalSandbox, public: Path) -> None:
    outcome = run(sandbox, public, "x = 1\n\nraise ValueError('no good')\n")
    assert (outcome.status, outcome.exit_code) == ("error", 1)
    lines = outcome.stderr.decode().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith('solution.py", line 3, in <module>')
    assert lines[2:] == ["    raise ValueError('no good')", "ValueError: no good"]
    assert outcome.submission_problem == "no submission.csv"


def test_syntax_error_names_file_and_line(sandbox: LocalSandbox, public: Path) -> None:
    outcome = run(sandbox, public, "x = 1\nif x\n")
    assert (outcome.status, outcome.exit_code) == ("error", 1)
    lines = outcome.stderr.decode().splitlines()
    assert lines[0].endswith('solution.py", line 2')
    assert lines[-1].startswith("SyntaxError: ")


@pytest.mark.parametrize("code", ["\ud800", "x = '\0'", "print('\u2028')"])
def test_odd_text_is_the_solutions_own_trouble(sandbox: LocalSandbox, public: Path, code: str) -> None:
    assert run(sandbox, public, code).status in ("ok", "error")


@pytest.mark.parametrize(
    ("code", "exit_code", "status"),
    [
        ("import sys; sys.exit(3)", 3, "error"),
        ("import sys; sys.exit('words')", 1, "error"),
        ("import sys; sys.exit()", 0, "ok"),
        ("import os; os._exit(4)", 4, "error"),
        ("import os; os.abort()", None, "killed"),
        ("import os; os.kill(os.getpid(), 9)", None, "killed"),
    ],
)
def test_exit_codes(sandbox: LocalSandbox, public: Path, code: str, exit_code: int | None, status: str) -> None:
    outcome = run(sandbox, public, code)
    assert (outcome.exit_code, outcome.status) == (exit_code, status)


@pytest.mark.parametrize(
    "code",
    [
        "import time; print('begun'); time.sleep(60)",
        """
        import signal, time
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        print("begun")
        while True:
            pass
        """,
        "import os; print('begun'); os.kill(os.getpid(), 19)",
    ],
)
def test_timeout(sandbox: LocalSandbox, public: Path, code: str) -> None:
    outcome = run(sandbox, public, code, wall_s=0.7)
    assert (outcome.status, outcome.exit_code, outcome.stdout) == ("timeout", None, b"begun\n")
    assert outcome.duration_s >= 0.7


def test_cpu_limit(sandbox: LocalSandbox, public: Path) -> None:
    outcome = run(sandbox, public, "while True: pass", cpu_s=1)
    assert (outcome.status, outcome.exit_code) == ("timeout", None)
    assert outcome.cpu_s > 0.5


MEMORY_BOMB = """
    import time
    kept = []
    while True:
        kept.append(bytearray(b"x") * (20 << 20))
        time.sleep(0.01)
"""


def test_memory_bomb(sandbox: LocalSandbox, public: Path) -> None:
    outcome = run(sandbox, public, MEMORY_BOMB, memory_mb=400)
    assert (outcome.status, outcome.exit_code) == ("memory", None)
    assert outcome.peak_memory_mb > 300


def test_a_run_stays_first_in_line_when_memory_ends(sandbox: LocalSandbox, public: Path) -> None:
    if not _may_fix_order_of_killing():
        pytest.skip("only root can fix this; other users' warm servers stay out of a run's cgroup")
    code = """
        import os
        place = os.open("/proc/self/oom_score_adj", os.O_RDWR)
        print(os.read(place, 9))
        os.write(place, b"0")
    """
    outcome = run(sandbox, public, code)
    assert (outcome.status, outcome.stdout) == ("error", b"b'1000\\n'\n")
    assert b"PermissionError" in outcome.stderr


def test_memory_of_the_whole_tree_counts(sandbox: LocalSandbox, public: Path) -> None:
    code = """
        import os, time
        for _ in range(6):
            if os.fork() == 0:
                kept = bytearray(b"x") * (100 << 20)
                time.sleep(30)
                os._exit(0)
        print(os.wait()[1])
        raise SystemExit(1)
    """
    assert run(sandbox, public, code, memory_mb=400).status == "memory"


def test_memory_bomb_without_a_cgroup(public: Path) -> None:
    with LocalSandbox(Setup(1, ("json",)), cgroup=False) as sandbox:
        assert not sandbox.protections["memory_cgroup"]
        assert run(sandbox, public, MEMORY_BOMB, memory_mb=200).status == "memory"
        assert run(sandbox, public, "print(1)", memory_mb=200).status == "ok"


def test_fork_bomb(sandbox: LocalSandbox, public: Path) -> None:
    code = """
        import os, time
        refused = 0
        while True:
            try:
                os.fork()
            except OSError:
                time.sleep(0.1)
    """
    outcome = run(sandbox, public, code, processes=32, wall_s=1)
    assert outcome.status in ("timeout", "killed")
    assert wait_until_gone(boxes()) == []
    assert run(sandbox, public, "print(1)", processes=8).status == "ok"


def test_processes_are_counted_for_each_run(sandbox: LocalSandbox, public: Path) -> None:
    code = """
        import os, time
        made = 0
        try:
            while made < 100:
                if os.fork() == 0:
                    time.sleep(5)
                    os._exit(0)
                made += 1
        except OSError:
            pass
        print(made)
    """
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda _: run(sandbox, public, code, processes=20), range(2)))
    if sandbox.protections["user_namespace"]:
        assert [outcome.stdout for outcome in outcomes] == [b"19\n"] * 2
    assert all(outcome.duration_s < 5 for outcome in outcomes)


def boxes() -> list[int]:
    """Processes below the warm servers of this one's templates."""
    servers = [server for template in _children(os.getpid()) for server in _children(template)]
    return [below for server in servers for below in descendants(server)]


@pytest.mark.parametrize("folder", [".", "/tmp", "/dev/shm"])
def test_disk_filler(boxed: LocalSandbox, public: Path, folder: str) -> None:
    code = f"""
        for number in range(100):
            with open(f"{folder}/{{number}}", "wb") as file:
                file.write(bytes(4 << 20))
    """
    outcome = run(boxed, public, code, disk_mb=24)
    assert (outcome.status, outcome.exit_code) == ("disk", 1)
    assert b"No space left on device" in outcome.stderr


def test_one_large_file(sandbox: LocalSandbox, public: Path) -> None:
    outcome = run(sandbox, public, "open('big', 'wb').write(bytes(12 << 20))", file_mb=8)
    assert (outcome.status, outcome.exit_code) == ("disk", 1)
    assert b"File too large" in outcome.stderr


def test_sparse_file(sandbox: LocalSandbox, public: Path) -> None:
    code = "open('submission.csv', 'wb').truncate(10 << 30)"
    outcome = run(sandbox, public, code)
    assert (outcome.status, outcome.submission) == ("error", b"")
    outcome = run(sandbox, public, code, file_mb=20_000)
    assert (outcome.status, outcome.submission) == ("ok", None)
    assert outcome.submission_problem == "submission.csv is larger than 32 MB"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_endless_output(sandbox: LocalSandbox, public: Path, stream: str) -> None:
    outcome = run(sandbox, public, f"import sys\nwhile True: sys.{stream}.write('x' * 4096)", output_kb=64)
    assert (outcome.status, outcome.exit_code) == ("output", None)
    assert getattr(outcome, stream) == b"x" * (64 << 10)


def test_too_much_output_at_the_very_end(sandbox: LocalSandbox, public: Path) -> None:
    outcome = run(sandbox, public, "print('x' * 3000)", output_kb=1)
    assert (outcome.status, len(outcome.stdout)) == ("output", 1024)


def test_daemon_ends_with_its_run(sandbox: LocalSandbox, public: Path) -> None:
    token = f"{random.SystemRandom().randrange(10**6, 10**7)}"
    code = f"""
        import os, subprocess
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                subprocess.Popen(["sleep", "{token}"], start_new_session=True)
                os.execvp("sleep", ["sleep", "{token}"])
            os._exit(0)
        os.wait()
        print("parent done")
    """
    outcome = run(sandbox, public, code)
    assert printed(outcome) == "parent done\n"
    assert processes_with(token) == []
    assert wait_until_gone(boxes()) == []


@pytest.mark.parametrize("target", ["1", "os.getppid()", "-1", "0"])
@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM", "SIGSTOP", "SIGINT"])
def test_killing_everything_in_reach(boxed: LocalSandbox, public: Path, target: str, number: str) -> None:
    servers = descendants(os.getpid())
    code = f"import os, signal\nos.kill({target}, signal.{number})"
    outcome = run(boxed, public, code, wall_s=1)
    assert outcome.status in ("ok", "killed", "timeout", "error")
    assert run(boxed, public, "print(1)").stdout == b"1\n"
    assert set(servers) <= set(descendants(os.getpid()))


# Secrets and ways out


def test_answers_cannot_be_read(boxed: LocalSandbox, public: Path) -> None:
    answers = public.parent / "private" / "answers.csv"
    code = f"""
        import glob, os
        path = {str(answers)!r}
        tries = [path, "/old" + path]
        tries += [f"{{up}}private/answers.csv" for up in ("../", "input/../", "input/../../", "../../")]
        for pid in [*filter(str.isdigit, os.listdir("/proc")), "1", "self", str(os.getppid())]:
            tries += [f"/proc/{{pid}}/root{{path}}", f"/proc/{{pid}}/cwd/../private/answers.csv"]
            tries += [f"/proc/{{pid}}/fd/{{number}}{{path}}" for number in range(64)]
            tries += [f"/proc/{{pid}}/fd/{{number}}/../private/answers.csv" for number in range(64)]
        read = []
        for name in tries:
            try:
                read.append((name, open(name).read()))
            except OSError:
                pass
        found = []
        for folder, folders, names in os.walk("/"):
            found += [folder for name in names if name == "answers.csv"]
            folders[:] = [name for name in folders if name not in ("proc", "usr", "lib")]
        print(read, found, glob.glob("/proc/[0-9]*"))
    """
    me, text = os.getpid(), printed(run(boxed, public, code))
    assert text.startswith("[] [] ['/proc/")
    assert SECRET not in text
    assert f"/proc/{me}'" not in text


def test_other_processes_are_out_of_sight(boxed: LocalSandbox, public: Path) -> None:
    code = """
        import os
        for pid in range(1, 40):
            for name in ("environ", "maps", "root", "cwd", "fd", "mem"):
                try:
                    os.stat(f"/proc/{pid}/{name}/" if name == "fd" else f"/proc/{pid}/{name}")
                    os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
                    print(pid == os.getpid() or (pid, name))
                except OSError:
                    pass
    """
    assert set(printed(run(boxed, public, code)).split()) == {"True"}


def test_no_network(boxed: LocalSandbox, public: Path) -> None:
    name = f"\0mletools-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(name)
        unix.listen()
        code = f"""
            import socket
            port = {tcp.getsockname()[1]}
            vsock, netlink, packet, alg = 40, 16, 17, 38
            addresses = [
                (socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET, ("1.1.1.1", 53)),
                (socket.AF_INET6, ("::1", port)), (socket.AF_INET6, ("2606:4700:4700::1111", 53)),
                (socket.AF_UNIX, {name!r}), (vsock, (2, 1024)), (netlink, (0, 0)), (packet, ("lo", 3)),
                (alg, ("hash", "sha256")),
            ]
            for family, address in addresses:
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
                    try:
                        with socket.socket(family, kind) as end:
                            end.settimeout(2)
                            end.connect(address)
                            print("reached", family, kind, address)
                    except OSError:
                        pass
            print(open("/proc/net/dev").read().count(":"), len(socket.socketpair()))
        """
        assert printed(run(boxed, public, code)) == "1 2\n"


def test_calls_that_lead_out_are_refused(boxed: LocalSandbox, public: Path) -> None:
    code = """
        import ctypes, errno, os
        libc = ctypes.CDLL(None, use_errno=True)
        arm = os.uname().machine == "aarch64"
        def call(name, *arguments):
            ctypes.set_errno(0)
            function = getattr(libc, name) if isinstance(name, str) else lambda *rest: libc.syscall(name, *rest)
            return name, function(*arguments), errno.errorcode.get(ctypes.get_errno())
        print(call("unshare", 0x10000000))
        print(call("mount", b"none", b"/tmp", b"tmpfs", 0, None))
        print(call("umount2", b"/box/work/input", 2))
        print(call("ptrace", 0, 0, 0, 0))
        print(call("setns", 0, 0))
        print(call("chroot", b"/tmp"))
        print(call("process_vm_readv", 1, 0, 0, 0, 0, 0))
        print(call("sethostname", b"x", 1))
        print(call(425, 1, 0)[1:], call(321 if not arm else 280, 0, 0, 0)[1:], call(435, 0, 0)[1:])
        print(call(220 if arm else 56, 0x10000000 | 17, 0, 0, 0, 0)[1:])
        print(open("/proc/self/status").read().split("CapEff:")[1].split()[0])
    """
    lines = printed(run(boxed, public, code)).splitlines()
    assert [line.endswith("-1, 'EPERM')") for line in lines[:8]] == [True] * 8
    assert lines[8:] == ["(-1, 'EPERM') (-1, 'EPERM') (-1, 'ENOSYS')", "(-1, 'EPERM')", "0" * 16]


def test_setuid_programs_gain_nothing(boxed: LocalSandbox, public: Path) -> None:
    code = """
        import os, subprocess
        for path in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount"):
            if os.path.exists(path):
                subprocess.run([path, "--version"], capture_output=True)
        status = open("/proc/self/status").read()
        print(status.split("NoNewPrivs:")[1].split()[0], os.statvfs("/usr").f_flag & os.ST_NOSUID)
    """
    assert printed(run(boxed, public, code)) == f"1 {os.ST_NOSUID}\n"


def test_system_and_input_are_read_only(sandbox: LocalSandbox, public: Path) -> None:
    before = {path.name: path.read_bytes() for path in public.iterdir()}
    code = """
        import os, pandas, sys
        wrote = []
        own, library = os.path.dirname(__file__), os.path.dirname(pandas.__file__)
        for folder in ("input", "/", "/usr", "/etc", "/dev", own, library, sys.prefix):
            for attempt in (
                lambda: open(f"{folder}/new", "w"),
                lambda: os.mkdir(f"{folder}/folder"),
                lambda: os.chmod(folder, 0o777),
            ):
                try:
                    attempt()
                    wrote.append(folder)
                except OSError:
                    pass
        for attempt in (
            lambda: open("input/train.csv", "w"),
            lambda: os.unlink("input/train.csv"),
            lambda: os.truncate("input/train.csv", 0),
            lambda: os.rename("input", "other"),
            lambda: os.rmdir("input"),
        ):
            try:
                attempt()
                wrote.append("input")
            except OSError:
                pass
        print(wrote)
    """
    assert printed(run(sandbox, public, code)) == "[]\n"
    assert {path.name: path.read_bytes() for path in public.iterdir()} == before


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("pass", "no submission.csv"),
        ("os.symlink('input/train.csv', 'submission.csv')", "submission.csv is a symbolic link"),
        ("os.symlink('/etc/shadow', 'submission.csv')", "submission.csv is a symbolic link"),
        ("os.mkfifo('submission.csv')", "submission.csv is a named pipe"),
        ("os.mkdir('submission.csv')", "submission.csv is a directory"),
        ("socket.socket(socket.AF_UNIX).bind('submission.csv')", "submission.csv is not a regular file"),
        ("open('submission.csv', 'w').write('x' * (1 << 20 | 1))", "submission.csv is larger than 1 MB"),
    ],
)
def test_odd_submissions(sandbox: LocalSandbox, public: Path, code: str, problem: str) -> None:
    outcome = run(sandbox, public, f"import os, socket\n{code}", submission_mb=1)
    assert (outcome.status, outcome.submission, outcome.submission_problem) == ("ok", None, problem)


DEEP = """
    import os
    for _ in range(1500):
        os.mkdir("d")
        os.chdir("d")
    raise SystemExit(1)
"""


def test_folders_nested_deeper_than_pythons_stack(sandbox: LocalSandbox, public: Path) -> None:
    assert run(sandbox, public, DEEP).status == "error"


def test_submission_in_a_replaced_work_folder(boxed: LocalSandbox, public: Path) -> None:
    code = """
        import os
        open("submission.csv", "w").write("mine")
        try:
            os.rename("/box/work", "/box/gone")
            os.symlink("/etc", "/box/work")
        except OSError:
            pass
    """
    assert run(boxed, public, code).submission == b"mine"


# What a sandbox leaves, and what it refuses


def test_protections(boxed: LocalSandbox) -> None:
    missing = {name for name, active in boxed.protections.items() if not active}
    assert missing <= {"memory_cgroup"}


def test_nothing_stays_on_the_machine(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def left() -> tuple[list[str], str, list[int]]:
        return os.listdir(tmp_path), Path("/proc/self/mountinfo").read_text(), descendants(os.getpid())

    before = left()
    with LocalSandbox(Setup(2, ("json",))) as sandbox:
        run(sandbox, public, "open('x', 'w').write('x')")
        run(sandbox, public, "import time; time.sleep(9)", wall_s=0.2)
    assert left() == before


def test_everything_ends_when_the_command_is_killed(public: Path) -> None:
    token = f"{random.SystemRandom().randrange(10**6, 10**7)}"
    script = f"""
        from pathlib import Path
        from mletools.sandbox import Limits, Setup
        from mletools.sandbox.local import LocalSandbox, _fill_folder
        code = "import subprocess\\nsubprocess.run(['sleep', '{token}'])"
        with LocalSandbox(Setup(1, ("json",))) as sandbox:
            sandbox.run(code, Path({str(public)!r}), Limits(), 0)
    """
    environment = {**os.environ, "PYTHONPATH": PACKAGE_ROOT}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], env=environment) as command:
        end = time.monotonic() + 30
        while not processes_with(token) and time.monotonic() < end and command.poll() is None:
            time.sleep(0.05)
        family = descendants(command.pid)
        assert len(family) >= 3
        command.send_signal(signal.SIGKILL)
    assert wait_until_gone(family) == []
    assert memory_folders_left(family) == []
    assert processes_with(token) == []


def test_server_that_dies_is_replaced(public: Path) -> None:
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        _ = sandbox.protections
        known = set(descendants(os.getpid()))
        server = sandbox._pool.idle[0][1].pid
        os.kill(server, signal.SIGKILL)
        assert printed(run(sandbox, public, "print(1)")) == "1\n"
        second = sandbox._pool.idle[0][1].pid
        timer = threading.Timer(0.4, os.kill, (second, signal.SIGKILL))
        timer.start()
        assert printed(run(sandbox, public, "import time; time.sleep(1); print(2)")) == "2\n"
        assert not {server, second} & set(descendants(os.getpid()))
        assert second not in known


def test_server_that_dies_twice_is_an_error(public: Path) -> None:
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        _ = sandbox.protections
        stop = threading.Event()

        def kill_every_server() -> None:
            while not stop.wait(0.1):
                for server in tuple(sandbox._pool.busy):
                    with suppress(ProcessLookupError):
                        os.kill(server.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_every_server)
        killer.start()
        try:
            with pytest.raises(ToolError, match="warm server"):
                run(sandbox, public, "import time; time.sleep(5)")
        finally:
            stop.set()
            killer.join()


def test_errors_of_the_tool(sandbox: LocalSandbox, public: Path) -> None:
    with pytest.raises(ToolError, match=r"missing: no such folder"):
        run(sandbox, public / "missing", "pass")
    with (
        pytest.raises(ToolError, match="no sandbox named 'moon': choose from docker, local"),
        open_sandbox("moon", Setup(1)),
    ):
        pass
    with pytest.raises(ToolError, match="at least 1 slot, not 0"), open_sandbox("local", Setup(0)):
        pass
    with open_sandbox("local", Setup(1, ("json",))) as closed:
        pass
    with pytest.raises(ToolError, match="the sandbox is closed"):
        closed.run("pass", public, Limits(), 0)
    assert set(BACKENDS) >= {"local"}


def test_data_inside_the_interpreter_is_refused(sandbox: LocalSandbox) -> None:
    with pytest.raises(ToolError, match="which every solution can read: move the task data elsewhere"):
        run(sandbox, Path(sys.prefix) / "lib", "pass")


def test_unreadable_data_is_the_tools_trouble(boxed: LocalSandbox, public: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's solutions run as another user than the data's owner")
    (public / "train.csv").chmod(0o600)
    with pytest.raises(ToolError, match=r"cannot read .*train.csv: chmod -R o\+rX"):
        run(boxed, public, "pass")


def test_module_that_fails_to_import_is_an_error(tmp_path: Path) -> None:
    with (
        open_sandbox("local", Setup(1, ("json", "no_such_module_anywhere"))) as sandbox,
    ):
        assert sandbox.protections["no_new_privs"]
        assert sandbox.notes == ["not installed, so not preimported: no_such_module_anywhere"]
    with LocalSandbox(Setup(1, ("antigravity.broken",))) as broken:
        assert broken.notes == ["not installed, so not preimported: antigravity.broken"]


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, mletools.sandbox; print({'numpy', 'pandas', 'sklearn', 'ctypes'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": PACKAGE_ROOT}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# Weaker machines and ordinary users


def test_a_link_out_of_the_public_folder_leads_nowhere_without_namespaces(public: Path, tmp_path: Path) -> None:
    (public / "answers.csv").symlink_to("../private/answers.csv")
    (public / "same.csv").symlink_to("train.csv")
    (folder := tmp_path / "run").mkdir()
    _fill_folder(str(folder), b"", RunRequest(Limits(), str(public), 0, namespaces=False, landlock=True))
    assert (folder / "input" / "same.csv").read_bytes() == (public / "train.csv").read_bytes()
    assert not (folder / "input" / "answers.csv").exists()


def test_without_namespaces(public: Path) -> None:
    answers = public.parent / "private" / "answers.csv"
    with LocalSandbox(Setup(1, ("json",)), namespaces=False, cgroup=False) as sandbox:
        try:
            protections = sandbox.protections
        except ToolError as error:
            pytest.skip(f"not as this user: {error}")
        assert not protections["mount_namespace"]
        assert protections["seccomp"] and protections["no_new_privs"] and protections["no_network"]
        token = f"{random.SystemRandom().randrange(10**6, 10**7)}"
        code = f"""
            import os, subprocess
            subprocess.Popen(["sleep", "{token}"], start_new_session=True)
            print(open("input/test.csv").read(), os.getcwd())
            open("submission.csv", "w").write("x")
        """
        assert run(sandbox, public, code).submission == b"x"
        assert processes_with(token) == []
        assert run(sandbox, public, DEEP).status == "error"
        assert run(sandbox, public, MEMORY_BOMB, memory_mb=200).status == "memory"
        assert run(sandbox, public, "import time; time.sleep(9)", wall_s=0.5).status == "timeout"
        if protections["private_files"]:
            outcome = run(sandbox, public, f"print(open({str(answers)!r}).read())")
            assert (outcome.status, outcome.stdout) == ("error", b"")
    assert not [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("mletools-run-")]


@pytest.mark.slow
def test_a_python_below_var_is_shown_and_nothing_beside_it(public: Path) -> None:
    """Of /var a solution sees the folders above the environment, which are no sign of an open root."""
    script = f"""
        from pathlib import Path
        from mletools.sandbox import Limits, Setup
        from mletools.sandbox.local import LocalSandbox, _fill_folder
        with LocalSandbox(Setup(1, ("json",))) as sandbox:
            code = "import os, sys; print(sys.prefix.startswith('/var/'), os.listdir('/var') if os.path.isdir('/var') else None)"
            outcome = sandbox.run(code, Path({str(public)!r}), Limits(), 0)
            print(sandbox.protections["private_files"], outcome.status, outcome.stdout.decode())
    """
    paths = "\n".join(path for path in sys.path if path.endswith("site-packages")) + f"\n{PACKAGE_ROOT}\n"
    try:
        with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="mletools-test-") as folder:
            environment = Path(folder) / "venv"
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=60)
            (site,) = environment.glob("lib/python*/site-packages")
            (site / "outside.pth").write_text(paths)
            command = [environment / "bin" / "python", "-c", textwrap.dedent(script)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except OSError as error:
        pytest.skip(f"no environment below /var/tmp: {error}")
    assert done.returncode == 0, done.stderr
    closed, status, below, listed = done.stdout.split(maxsplit=3)
    assert (closed, status, below) == ("True", "ok", "True")
    assert listed.strip() in ("['tmp']", "None")  # None: Landlock


def test_the_machines_own_root_is_open_whatever_of_it_is_shown() -> None:
    everything = [f"/var/{name}/environment" for name in os.listdir("/var")]
    assert not _root_is_closed(True, everything)
    assert _root_is_closed(False, everything)
    assert not _root_is_closed(False, everything[1:])


def test_as_an_ordinary_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("the whole file runs as an ordinary user already")
    script = """
        from pathlib import Path
        from mletools.sandbox import Limits, Setup
        from mletools.sandbox.local import LocalSandbox, _fill_folder
        with LocalSandbox(Setup(1, ("json",))) as sandbox:
            code = "import os; print(os.listdir('input'))"
            print(sandbox.protections["mount_namespace"], sandbox.run(code, Path.cwd(), Limits(), 0).status)
    """
    environment = {"PYTHONPATH": PACKAGE_ROOT, "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        who: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder, **who)
        except PermissionError:
            pytest.skip(f"an ordinary user cannot start {sys.executable} here")
    assert (done.stdout.split()[1:], done.stderr) == (["ok"], "")


def test_answers_inside_packages_are_not_there(boxed: LocalSandbox, public: Path) -> None:
    code = (
        "import os, sklearn.datasets\n"
        "data = os.path.join(os.path.dirname(sklearn.datasets.__file__), 'data')\n"
        "print([name for name in os.listdir(data) if not name.startswith('__')])\n"
        "try:\n"
        "    sklearn.datasets.load_wine()\n"
        "except FileNotFoundError:\n"
        "    print('no table')\n"
        "try:\n"
        "    import mletools.tasks\n"
        "except ImportError:\n"
        "    print('no maker')\n"
    )
    outcome = boxed.run(code, public, Limits(), 0)
    assert outcome.stdout.decode().split() == ["[]", "no", "table", "no", "maker"]


# Memory cgroups


@pytest.fixture
def counted(public: Path) -> Iterator[LocalSandbox]:
    """A sandbox with one slot, whose runs a cgroup counts."""
    with LocalSandbox(Setup(1, ("json",))) as sandbox:
        if not sandbox.protections["memory_cgroup"]:
            pytest.skip("this user may not make a memory cgroup here")
        yield sandbox


def test_peak_is_the_whole_trees_and_never_another_runs(counted: LocalSandbox, public: Path) -> None:
    hold = "import time; kept = bytearray(b'x') * (60 << 20); time.sleep(1)"
    tree = f"import os\nfor _ in range(3):\n    if os.fork() == 0:\n        {hold}; os._exit(0)\nfor _ in range(3): os.wait()"
    large, small = run(counted, public, tree, memory_mb=1000), run(counted, public, "pass", memory_mb=1000)
    assert (large.status, small.status) == ("ok", "ok")
    assert 150 < large.peak_memory_mb < 400
    assert small.peak_memory_mb < 50


def test_a_kill_for_memory_is_not_told_of_the_next_run(counted: LocalSandbox, public: Path) -> None:
    assert run(counted, public, MEMORY_BOMB, memory_mb=200).status == "memory"
    assert run(counted, public, "import os; os.abort()", memory_mb=200).status == "killed"
    assert run(counted, public, "pass", memory_mb=400).status == "ok"


def test_files_in_memory_count(counted: LocalSandbox, public: Path) -> None:
    if not counted.protections["mount_namespace"]:
        pytest.skip("without a mount namespace files lie on the machine's disk")
    fill = "for n in range(30): open(str(n), 'wb').write(bytes(10 << 20))\nraise SystemExit(1)"
    assert run(counted, public, fill, memory_mb=150, disk_mb=1000).status == "memory"


def memory_folders(servers: list[int]) -> list[str]:
    """Cgroups that these servers have made and that are still there."""
    names = tuple(f"mletools-{pid}-" for pid in servers)
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(folder).startswith(names)]


def memory_folders_left(servers: list[int]) -> list[str]:
    end = time.monotonic() + 15
    while memory_folders(servers) and time.monotonic() < end:
        time.sleep(0.05)
    return memory_folders(servers)


def test_cgroups_are_taken_away(public: Path) -> None:
    with LocalSandbox(Setup(2, ("json",))) as sandbox:
        if not sandbox.protections["memory_cgroup"]:
            pytest.skip("this user may not make a memory cgroup here")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: run(sandbox, public, "import time; time.sleep(0.5)"), range(4)))
        servers = [server.pid for _, server in sandbox._pool.idle]
        assert len(servers) == 2
        assert len(memory_folders(servers)) >= 2
        os.kill(servers[0], signal.SIGKILL)
    assert memory_folders_left(servers) == []


def test_pages_of_files_are_no_memory_of_the_program(sandbox: LocalSandbox, public: Path) -> None:
    """A cgroup counts what is cached of files that a run was first to read: its peak does not tell why a run failed."""
    with (public / "large.bin").open("wb") as file:
        file.write(os.urandom(1 << 20) * 120)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    read = "with open('input/large.bin', 'rb') as file:\n    while file.read(1 << 16): pass\n"
    assert run(sandbox, public, f"{read}raise SystemExit(3)", memory_mb=100).status == "error"
    assert run(sandbox, public, "import os; os.abort()", memory_mb=100).status == "killed"
