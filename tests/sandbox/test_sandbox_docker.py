"""One test per promise of the docker backend; all against a real daemon and real containers."""

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from docker_daemon import Daemon
from solving import make_public, printed, run

import mletools
from mletools.base.errors import ToolError
from mletools.sandbox import Limits, Setup, agent, container, engine, open_sandbox, seccomp
from mletools.sandbox.container import LABEL, DockerSandbox
from mletools.sandbox.engine import Kind, host_config
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.machine import this_machine

PACKAGE_ROOT = str(Path(mletools.__file__).parent.parent)
SMALL = ("json",)  # what a container imports ahead where no test needs more, so that it starts quickly


@pytest.fixture(scope="session")
def daemon(docker_daemon: Daemon) -> Iterator[Daemon]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", docker_daemon.host)
        yield docker_daemon


@pytest.fixture(scope="session")
def client(daemon: Daemon) -> Iterator[Any]:
    import docker

    opened = docker.from_env()
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def sandbox(daemon: Daemon) -> Iterator[DockerSandbox]:
    with DockerSandbox(Setup(2, SMALL, image=daemon.small)) as opened:
        yield opened


@pytest.fixture(scope="session")
def whole(daemon: Daemon) -> Iterator[DockerSandbox]:
    """With the libraries that solutions use, imported ahead."""
    with DockerSandbox(Setup(2, image=daemon.image)) as opened:
        yield opened


@pytest.fixture(scope="session")
def landlocked(daemon: Daemon) -> Iterator[DockerSandbox]:
    with DockerSandbox(Setup(1, SMALL, image=daemon.small), namespaces=False) as opened:
        try:
            _ = opened.protections
        except ToolError as error:
            pytest.skip(f"not on this kernel: {error}")
        yield opened


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return make_public(tmp_path)


def ours(client: Any) -> list[Any]:
    return list(client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True))


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def sleepers(token: str) -> list[str]:
    """Processes of this machine, in whatever container, that run `sleep token`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", token.encode()]:
                found.append(entry.name)
        except OSError:
            continue
    return found


def a_token() -> str:
    return f"{random.SystemRandom().randrange(10**6, 10**7)}"


# What a solution gets


GOOD = """
import random
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
print(random.random(), np.random.rand())
for model in (LogisticRegression(), HistGradientBoostingClassifier(random_state=0, min_samples_leaf=2)):
    model.fit(train[["x"]], train["y"])
    print(model.predict_proba(test).round(9).tolist(), {"a", "b", "c", "d"})
test.assign(y=model.predict(test)).to_csv("submission.csv", index=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_good_solution_as_in_the_local_sandbox(whole: DockerSandbox, public: Path, threads: int) -> None:
    outcome = run(whole, public, GOOD, 7, threads=threads)
    assert (outcome.status, outcome.exit_code, outcome.stderr) == ("ok", 0, b"")
    assert outcome.submission == b"x,y\n1,0\n2,0\n5,1\n6,1\n"
    assert (outcome.backend, outcome.start, outcome.gpu) == ("docker", "warm", None)
    assert outcome.protections == whole.protections and outcome.machine == this_machine()
    assert outcome.cpu_s > 0 and outcome.duration_s > 0 and outcome.peak_memory_mb > 1
    if whole._setup.image == "mletools-sandbox:test":  # of the same libraries as here
        with LocalSandbox(Setup(1)) as local:
            assert outcome.stdout == run(local, public, GOOD, 7, threads=threads).stdout


@pytest.mark.slow
def test_cold_start(whole: DockerSandbox, public: Path) -> None:
    code = "from joblib import Parallel, delayed\nprint(Parallel(n_jobs=2)(delayed(abs)(n) for n in (-1, -2)))"
    outcome = run(whole, public, code, wall_s=60.0)
    assert (outcome.status, outcome.stdout, outcome.start) == ("ok", b"[1, 2]\n", "cold")


def test_the_interface_opens_it(daemon: Daemon, public: Path, client: Any) -> None:
    before = len(ours(client))
    with open_sandbox("docker", Setup(1, (*SMALL, "no_such_module"), image=daemon.small)) as opened:
        assert printed(run(opened, public, "print(1)")) == "1\n"
        assert opened.notes[1:] == ["not installed, so not preimported: no_such_module"]
    assert wait_until(lambda: len(ours(client)) == before)
    with pytest.raises(ToolError, match="the sandbox is closed"):
        run(opened, public, "print(1)")


def test_odd_text_and_odd_output(sandbox: DockerSandbox, public: Path) -> None:
    assert run(sandbox, public, "\ud800").status == "error"
    code = "import os; os.write(1, bytes(range(256))); open('submission.csv', 'wb').write(b'\\n\\xff\\0')"
    outcome = run(sandbox, public, code)
    assert (outcome.stdout, outcome.stderr, outcome.submission) == (bytes(range(256)), b"", b"\n\xff\0")
    outcome = run(sandbox, public, "open('submission.csv', 'wb').write(bytes(20 << 20))")
    assert (outcome.status, outcome.submission) == ("ok", bytes(20 << 20))


# Public folders


def test_folders_are_sent_once_and_again_when_changed(
    daemon: Daemon, public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    ask = engine.Container.ask

    def spy(self: Any, message: dict[str, Any], *rest: Any, **more: Any) -> Any:
        sent.append(message.get("do", "hello"))
        return ask(self, message, *rest, **more)

    monkeypatch.setattr(engine.Container, "ask", spy)
    other = tmp_path / "other" / "public"
    other.mkdir(parents=True)
    (other / "only.csv").write_text("other")
    (other / "deep").mkdir()
    (other / "deep" / "down.csv").write_text("deep")
    look = "import os\nprint(*(open(f'{at}/{n}').read() for at, _, ns in os.walk('input/') for n in sorted(ns)))"
    with DockerSandbox(Setup(1, SMALL, image=daemon.small)) as opened:
        assert printed(run(opened, other, look)) == "other deep\n"
        assert printed(run(opened, public, "import os; print(sorted(os.listdir('input')))")).count("csv") == 2
        assert printed(run(opened, other, look)) == "other deep\n"
        assert sent == ["hello", "run", "put", "run", "run", "put", "run", "run"]
        (other / "only.csv").write_text("newer")
        assert printed(run(opened, other, look)) == "newer deep\n"
        assert sent[8:] == ["run", "put", "run"]


def test_old_folders_make_room(tmp_path: Path) -> None:
    store = agent._Store(tmp_path / "store")
    from mletools.sandbox import shipping

    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "file").write_text("x")
    packed = shipping.pack(tmp_path / "public")
    third = (agent.STORE_MB << 20) // 3
    real = shipping.digest_of(packed)
    for digest in ("a", "b"):
        store._weights[digest] = third
        (tmp_path / "store" / digest).mkdir()
    assert store.find("a") == tmp_path / "store" / "a"
    store.put(real, third + 3, packed)
    assert store.find("b") is None and not (tmp_path / "store" / "b").exists()
    assert store.find("a") is not None
    assert (store.find(real) or tmp_path).joinpath("file").read_text() == "x"


@pytest.mark.slow
def test_large_folder_is_mounted(
    sandbox: DockerSandbox, landlocked: DockerSandbox, public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "_LARGEST_SENT", 1 << 20)
    (public / "large.bin").write_bytes(bytes(2 << 20))
    code = """
        import os
        print(os.path.getsize("input/large.bin"), os.path.exists("input/../private"))
        try:
            open("input/large.bin", "r+b")
        except OSError:
            print("closed")
    """
    for opened in (sandbox, landlocked):
        assert printed(run(opened, public, code)) == f"{2 << 20} False\nclosed\n"
    (public / "test.csv").chmod(0o600)
    with pytest.raises(ToolError, match=r"cannot read .*test.csv: chmod -R o\+rX"):
        run(sandbox, public, "pass")
    monkeypatch.setattr(sandbox._client.api, "base_url", "http://elsewhere:2375")
    with pytest.raises(
        ToolError, match=r"more than 1 MB, too much to send to the Docker daemon .* the daemon's machine"
    ):
        run(sandbox, public, "pass")


@pytest.mark.slow
def test_limits_of_processors_can_be_read(landlocked: DockerSandbox, public: Path) -> None:
    """joblib reads them where they are there, and so do programs that fit LightGBM."""
    code = """
        import os
        names = ("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
        there = [f"/sys/fs/cgroup/{name}" for name in names if os.path.exists(f"/sys/fs/cgroup/{name}")]
        print(len(there) > 0, all(open(path).read() for path in there))
    """
    assert printed(run(landlocked, public, code)) == "True True\n"


@pytest.mark.slow
def test_large_submission_of_a_program_with_little_memory(sandbox: DockerSandbox, public: Path) -> None:
    """The agent holds it twice before it has left the container; neither counts as the program's."""
    code = """
        import os
        with open("submission.csv", "wb") as file:
            for number in range(400):
                file.write(bytes([48 + number % 10]) * (1 << 20))
    """
    outcome = run(sandbox, public, code, memory_mb=64, file_mb=500, disk_mb=500, submission_mb=400)
    assert (outcome.status, outcome.submission_problem) == ("ok", None)
    assert outcome.submission is not None and len(outcome.submission) == 400 << 20
    assert outcome.submission[:: 1 << 20] == b"0123456789" * 40


# Walls


def test_processes_are_counted_in_each_container_alone(daemon: Daemon, public: Path) -> None:
    code = """
        import os, pathlib, time
        children = 0
        try:
            while children < 50:
                if os.fork() == 0:
                    time.sleep(6)
                    os._exit(0)
                children += 1
        except OSError as error:
            print(error)
        time.sleep(3)
        print(children)
        """
    with DockerSandbox(Setup(3, SMALL, image=daemon.small), namespaces=False) as opened:
        try:
            _ = opened.protections
        except ToolError as error:
            pytest.skip(f"not on this kernel: {error}")
        limits = Limits(wall_s=20.0, processes=60)
        with ThreadPoolExecutor(3) as threads:
            runs = [threads.submit(opened.run, textwrap.dedent(code), public, limits, seed) for seed in range(3)]
            assert [run.result().stdout for run in runs] == [b"50\n"] * 3


def test_protections(sandbox: DockerSandbox, client: Any) -> None:
    if not sandbox.protections["mount_namespace"]:
        pytest.skip(f"this daemon's machine grants no namespaces inside containers: {sandbox.notes[0]}")
    bounded = client.info()["MemoryLimit"]
    assert {name for name, active in sandbox.protections.items() if not active} == (
        set() if bounded else {"memory_cgroup"}
    )
    assert sandbox.notes == [f"containers of {sandbox._setup.image}, namespaces inside"]


@pytest.mark.parametrize("which", ["sandbox", "landlocked"])
def test_hardening(request: pytest.FixtureRequest, which: str, client: Any, public: Path) -> None:
    opened = request.getfixturevalue(which)
    run(opened, public, "pass")
    found = client.api.inspect_container(opened._pool.idle[0][1].id)
    host = found["HostConfig"]
    assert found["Config"]["User"] == "65534:65534"
    assert (host["NetworkMode"], host["CapDrop"], host["Privileged"]) == ("none", ["ALL"], False)
    assert host["ReadonlyRootfs"] and host["AutoRemove"] and host["IpcMode"] == "private"
    assert "no-new-privileges" in host["SecurityOpt"]
    assert host["Memory"] == host["MemorySwap"] > 2048 << 20
    assert 64 < host["PidsLimit"] < 128 and host["CpuQuota"] == host["CpuPeriod"]
    assert host["LogConfig"]["Type"] == "none" and not host["Binds"]
    assert all("nosuid,nodev" in options and "size=" in options for options in host["Tmpfs"].values())
    own_filter = any(option.startswith("seccomp=") for option in host["SecurityOpt"])
    assert own_filter == (not host["MaskedPaths"]) == opened.protections["mount_namespace"]


def test_the_own_filter_is_in_force(sandbox: DockerSandbox, client: Any, public: Path) -> None:
    if not sandbox.protections["mount_namespace"]:
        pytest.skip("this daemon's machine uses Docker's own filter")
    run(sandbox, public, "pass")
    code = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for name, arguments in (("ptrace", (0, 0, 0, 0)), ("keyctl", (0, 0)), ("bpf", (0, 0, 0)), ("unshare", (0,))):
    number = NUMBERS[name]
    ctypes.set_errno(0)
    print(name, libc.syscall(number, *arguments), ctypes.get_errno() == errno.EPERM)
"""
    arm = os.uname().machine == "aarch64"
    numbers = {name: pair[1 if arm else 0] for name, pair in seccomp.REFUSED.items()}
    command = ["python3", "-c", code.replace("NUMBERS", repr(numbers))]
    told = client.containers.get(sandbox._pool.idle[0][1].id).exec_run(command)
    assert told.output.decode() == "ptrace -1 True\nkeyctl -1 True\nbpf -1 True\nunshare 0 False\n"


REACH = """
    import os, socket
    read = []
    for path in PATHS:
        try:
            read.append((path, os.listdir(path) if os.path.isdir(path) else open(path).read()))
        except OSError:
            pass
    for folder, folders, names in os.walk("/"):
        read += [f"{folder}/{name}" for name in names if name in ("answers.csv", "docker.sock", "agent.py")]
        folders[:] = [name for name in folders if name not in ("proc", "usr", "lib", "sys")]
    for address in (("1.1.1.1", 53), ("127.0.0.1", 22)):
        try:
            socket.create_connection(address, 1)
            read.append(address)
        except OSError:
            pass
    for place in ("/", "/usr", "/etc", "/var/lib/mletools", "input"):
        try:
            open(f"{place}/new", "w")
            read.append(f"wrote {place}")
        except OSError:
            pass
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "mem", "fd/0", "fd/1", "root"):
            try:
                if int(pid) != os.getpid():
                    os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
                    read.append(f"opened {pid}/{name}")
            except OSError:
                pass
    print(read)
"""


@pytest.mark.parametrize("which", ["sandbox", "landlocked"])
def test_nothing_of_the_machine_is_in_reach(
    request: pytest.FixtureRequest, which: str, public: Path, daemon: Daemon
) -> None:
    opened = request.getfixturevalue(which)
    answers = str(public.parent / "private" / "answers.csv")
    inner = [f"{agent.PLACE}/public", f"{agent.PLACE}/source/mletools", "/var", "/root", "/sys/fs/cgroup"]
    paths = [answers, *inner, f"/proc/1/root{answers}", daemon.host.removeprefix("unix://"), "/proc/1/environ"]
    assert printed(run(opened, public, REACH.replace("PATHS", repr(paths)))) == "[]\n"


def test_killing_everything_in_reach(sandbox: DockerSandbox, landlocked: DockerSandbox, public: Path) -> None:
    for opened in (sandbox, landlocked):
        run(opened, public, "pass")
        before = {server.id for _, server in opened._pool.idle}
        for target in ("1", "os.getppid()", "-1", "0"):
            code = f"import os, signal\nfor n in (15, 2, 19, 9):\n    os.kill({target}, n)"
            assert run(opened, public, code, wall_s=1).status in ("ok", "killed", "timeout", "error")
            assert printed(run(opened, public, "print(1)")) == "1\n"
        assert before <= {server.id for _, server in opened._pool.idle}


def test_who_kills_the_own_server_is_told_so(public: Path) -> None:
    # Older kernels let a solution do this; here somebody else does, while the code asks for it.
    with LocalSandbox(Setup(1, SMALL)) as local:
        _ = local.protections
        stop = threading.Event()

        def kill_servers() -> None:
            killed = 0
            while not stop.wait(0.1) and killed < 2:
                for server in tuple(local._pool.busy):
                    os.kill(server.pid, signal.SIGKILL)
                    killed += 1
                    time.sleep(0.5)

        killer = threading.Thread(target=kill_servers)
        killer.start()
        try:
            code = "import time; time.sleep(5)"
            outcome = agent.run_once(local, code, public, Limits(), 0, exposed=True)
        finally:
            stop.set()
            killer.join()
        assert (outcome.status, outcome.submission_problem) == ("killed", "the run killed its own server")


# Limits


@pytest.mark.parametrize("which", ["sandbox", pytest.param("landlocked", marks=pytest.mark.slow)])
def test_ends_of_runs(request: pytest.FixtureRequest, which: str, public: Path) -> None:
    opened = request.getfixturevalue(which)
    outcome = run(opened, public, "import time; print('begun'); time.sleep(60)", wall_s=0.7)
    assert (outcome.status, outcome.exit_code, outcome.stdout) == ("timeout", None, b"begun\n")
    outcome = run(opened, public, "while True: print('x' * 4095)", output_kb=64)
    assert (outcome.status, len(outcome.stdout)) == ("output", 64 << 10)
    outcome = run(opened, public, "raise SystemExit(3)")
    assert (outcome.status, outcome.exit_code) == ("error", 3)
    assert run(opened, public, "import os; os.abort()").status == "killed"
    fork_bomb = """
        import os, time
        while True:
            try:
                os.fork()
            except OSError:
                time.sleep(0.1)
    """
    assert run(opened, public, fork_bomb, wall_s=1).status in ("timeout", "killed")
    assert printed(run(opened, public, "print(1)")) == "1\n"


@pytest.mark.slow
def test_disk_filler(daemon: Daemon, public: Path) -> None:
    code = """
        import os
        for number in range(100):
            with open(f"{FOLDER}/{number}", "wb") as file:
                file.write(bytes(4 << 20))
    """
    for namespaces in (True, False):
        with DockerSandbox(Setup(1, SMALL, image=daemon.small), namespaces=namespaces) as opened:
            for folder in (".", "/tmp", "/dev/shm") if namespaces else (".", "/dev/shm"):
                outcome = run(opened, public, f"FOLDER = {folder!r}\n{textwrap.dedent(code)}", disk_mb=24)
                assert (outcome.status in ("disk", "error"), outcome.exit_code) == (True, 1)
                assert b"No space left on device" in outcome.stderr
                assert printed(run(opened, public, "print(1)", disk_mb=24)) == "1\n"
            assert printed(run(opened, public, "import os; print(os.listdir('/dev/shm'))", disk_mb=24)) == "[]\n"


MEMORY_BOMBS = {
    "slow": "import time\nkept = []\nwhile True:\n    kept.append(bytearray(b'x') * (20 << 20))\n    time.sleep(0.01)",
    "fast": "kept = bytearray(b'x') * (4 << 30)",
    "many": """
        import os, time
        for _ in range(30):
            if os.fork() == 0:
                kept = bytearray(b"x") * (100 << 20)
                time.sleep(30)
                os._exit(0)
        raise SystemExit(1 if any(os.wait()[1] for _ in range(30)) else 0)
    """,
}


@pytest.mark.parametrize("which", ["sandbox", "landlocked"])
@pytest.mark.parametrize("bomb", sorted(MEMORY_BOMBS))
@pytest.mark.slow
def test_memory_bombs(request: pytest.FixtureRequest, which: str, bomb: str, public: Path) -> None:
    opened = request.getfixturevalue(which)
    run(opened, public, "pass", memory_mb=300)
    before = {server.id for _, server in opened._pool.idle}
    assert run(opened, public, MEMORY_BOMBS[bomb], memory_mb=300).status == "memory"
    assert printed(run(opened, public, "print(1)", memory_mb=300)) == "1\n"
    assert before <= {server.id for _, server in opened._pool.idle}  # the bomb took no container with it


@pytest.mark.slow
def test_kernels_kills_count_as_memory(daemon: Daemon, public: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The container is given less than the run, so that the kernel comes before the watcher: the server goes on.
    monkeypatch.setattr(engine, "_SERVER_MB", -1100)
    with DockerSandbox(Setup(1, SMALL, image=daemon.small)) as opened:
        if not opened.protections["memory_cgroup"]:
            pytest.skip("this engine bounds no container's memory")
        for bomb in sorted(MEMORY_BOMBS):
            outcome = run(opened, public, MEMORY_BOMBS[bomb], memory_mb=1000)
            assert outcome.status == "memory", (bomb, outcome)
        assert printed(run(opened, public, "print(1)", memory_mb=1000)) == "1\n"
        assert len(opened._pool.idle) == 1


@pytest.mark.parametrize("which", ["sandbox", "landlocked"])
def test_nothing_outlives_a_run(request: pytest.FixtureRequest, which: str, public: Path) -> None:
    opened = request.getfixturevalue(which)
    token = a_token()
    code = f"""
        import ctypes, os, subprocess
        if os.fork() == 0:
            os.setsid()
            subprocess.Popen(["sleep", "{token}"], start_new_session=True)
            os.execvp("sleep", ["sleep", "{token}"])
        for folder in (".", os.environ["HOME"], os.environ["TMPDIR"], "/dev/shm"):
            print([name for name in os.listdir(folder) if name != "input"])
            open(f"{{folder}}/left-behind", "w").close()
        libc = ctypes.CDLL(None)
        print(libc.shmget(4711, 4096, 0o1600), libc.msgget(4711, 0o1600), libc.semget(4712, 1, 0o1600))
    """
    for _ in range(2):
        assert printed(run(opened, public, code)) == "[]\n" * 4 + "-1 -1 -1\n"
        assert sleepers(token) == []


@pytest.mark.slow
def test_runs_at_once(daemon: Daemon, public: Path) -> None:
    code = "import time; time.sleep(0.3); print({}); open('submission.csv', 'w').write('{}')"
    with DockerSandbox(Setup(4, SMALL, image=daemon.small)) as opened, ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda n: run(opened, public, code.format(n, n)), range(8)))
        assert [outcome.submission for outcome in outcomes] == [b"%d" % n for n in range(8)]
        assert [outcome.stdout for outcome in outcomes] == [b"%d\n" % n for n in range(8)]
        assert len(opened._pool.idle) == 4


# GPUs


def test_a_container_is_given_one_gpu(client: Any) -> None:
    kind = Kind(512, 64, 8, 1, "GPU-5e3a", None)
    asked = host_config(client.api, kind, True)["DeviceRequests"]
    assert [(request["DeviceIDs"], request["Capabilities"]) for request in asked] == [(["GPU-5e3a"], [["gpu"]])]
    assert not host_config(client.api, Kind(512, 64, 8, 1, None, None), True).get("DeviceRequests")


@pytest.mark.slow
def test_a_machine_without_gpus_says_so(daemon: Daemon, client: Any, public: Path) -> None:
    if "nvidia" in client.info().get("Runtimes", {}):
        pytest.skip("this daemon has GPUs to give")
    before = len(ours(client))
    opened = DockerSandbox(Setup(1, SMALL, gpus=("0",), image=daemon.image))
    with opened, pytest.raises(ToolError, match=r"does not start a container: .*gpu"):
        run(opened, public, "pass")
    assert wait_until(lambda: len(ours(client)) == before)


# Trouble


def test_missing_things_are_named(
    daemon: Daemon, public: Path, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DockerSandbox(Setup(1, image="no-such-image")) as opened:
        text = "has no image no-such-image: `make image` builds one, or name another with --image"
        with pytest.raises(ToolError, match=text):
            run(opened, public, "pass")
        with pytest.raises(ToolError, match="missing: no such folder"):
            run(opened, public / "missing", "pass")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(ToolError, match=r"no Docker daemon answers at unix://.*none.sock: start it"):
        DockerSandbox(Setup(1))
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(ToolError, match=r"needs the Docker library: pip install 'mletools\[docker\]'"):
        DockerSandbox(Setup(1))


def test_an_unfit_image_is_named(daemon: Daemon, client: Any, public: Path) -> None:
    import docker.types

    made = client.images.get(daemon.small)
    try:
        holder = client.api.create_container(
            daemon.small,
            entrypoint=["python3", "-c", "import os; os.rename('/usr/local/bin/python3', '/usr/local/bin/python4')"],
            host_config=client.api.create_host_config(
                network_mode="none", log_config=docker.types.LogConfig(type="none")
            ),
        )["Id"]
        client.api.start(holder)
        client.api.wait(holder)
        client.api.commit(holder, repository="mletools-unfit", tag="test")
        opened = DockerSandbox(Setup(1, SMALL, image="mletools-unfit:test"))
        with opened, pytest.raises(ToolError, match=r"does not start a container: .*python3"):
            run(opened, public, "pass")
    finally:
        client.api.remove_container(holder, force=True)
        client.images.remove("mletools-unfit:test", force=True)
    assert made.id == client.images.get(daemon.small).id


@pytest.mark.slow
def test_container_that_is_killed_is_replaced(daemon: Daemon, client: Any, public: Path) -> None:
    with DockerSandbox(Setup(1, SMALL, image=daemon.small)) as opened:
        run(opened, public, "pass")
        first = opened._pool.idle[0][1].id
        client.api.kill(first)
        assert printed(run(opened, public, "print(1)")) == "1\n"
        second = opened._pool.idle[0][1].id
        timer = threading.Timer(0.5, client.api.kill, (second,))
        timer.start()
        assert printed(run(opened, public, "import time; time.sleep(2); print(2)")) == "2\n"
        assert len({first, second, opened._pool.idle[0][1].id}) == 3


def test_close_interrupts(daemon: Daemon, client: Any, public: Path) -> None:
    before = len(ours(client))
    opened = DockerSandbox(Setup(1, SMALL, image=daemon.small))
    _ = opened.protections
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, opened, public, "import time; time.sleep(60)", wall_s=60.0)
        assert wait_until(lambda: bool(opened._pool.busy))
        opened.close()
        with pytest.raises(ToolError, match="closed during a run"):
            running.result(30)
    assert wait_until(lambda: len(ours(client)) == before)


def test_everything_ends_when_the_command_is_killed(daemon: Daemon, client: Any, public: Path) -> None:
    token = a_token()
    script = f"""
        from concurrent.futures import ThreadPoolExecutor
        from pathlib import Path
        from mletools.sandbox import Limits, Setup
        from mletools.sandbox.container import DockerSandbox
        code = "import subprocess\\nsubprocess.run(['sleep', '{token}'])"
        with DockerSandbox(Setup(2, ("json",), image={daemon.small!r})) as sandbox, ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda n: sandbox.run(code, Path({str(public)!r}), Limits(), n), range(2)))
    """
    before = {found.id for found in ours(client)}
    environment = {**os.environ, "PYTHONPATH": PACKAGE_ROOT}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], env=environment) as command:
        assert wait_until(lambda: len(sleepers(token)) == 2 or command.poll() is not None, 60.0)
        assert len(sleepers(token)) == 2 and len(ours(client)) == len(before) + 2
        command.send_signal(signal.SIGKILL)
    assert wait_until(lambda: sleepers(token) == [])
    assert wait_until(lambda: {found.id for found in ours(client)} <= before)


@pytest.mark.slow
def test_engine_that_stops_is_an_error(daemon: Daemon, public: Path) -> None:
    if daemon.process is None:
        pytest.skip(f"the daemon at {daemon.host} is not ours to stop")
    with DockerSandbox(Setup(1, SMALL, image=daemon.small)) as opened:
        _ = opened.protections
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run, opened, public, "import time; time.sleep(60)", wall_s=60.0)
            assert wait_until(lambda: bool(opened._pool.busy))
            try:
                daemon.stop()
                with pytest.raises(ToolError, match=r"the Docker daemon at .* does not answer: .*; is it running"):
                    running.result(60)
            finally:
                daemon.start()
        assert printed(run(opened, public, "print(1)")) == "1\n"
