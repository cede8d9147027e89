"""Runs on a Ray cluster, against a real one of several nodes on this machine, and the shipping of public folders."""

from __future__ import annotations

import io
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from solving import processes_with

import mletools
from mletools.base.errors import ToolError
from mletools.sandbox import Limits, Outcome, Setup, shipping
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.on_ray import RaySandbox
from mletools.sandbox.process_tree import descendants

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs the [ray] extra")
SECRET = "the-answer-is-" + format(random.SystemRandom().getrandbits(64), "x")
SETUP = Setup(4, ("json",))
LIMITS = Limits(wall_s=30.0, memory_mb=256)


@pytest.fixture
def public(tmp_path: Path) -> Path:
    folder = tmp_path / "task" / "public"
    (folder / "more").mkdir(parents=True)
    (folder / "train.csv").write_text("x,y\n1,2\n")
    (folder / "more" / "images.bin").write_bytes(bytes(range(256)) * 1000)
    private = tmp_path / "task" / "private"
    private.mkdir()
    (private / "answers.csv").write_text(SECRET)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and one more node, one CPU each."""
    if find_spec("ray") is None:
        pytest.skip("needs the [ray] extra")
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args=node_settings())
    try:
        made.add_node(**node_settings())
        yield made
    finally:
        ray.shutdown()  # the cluster refuses to stop under a driver that a failed test left connected
        made.shutdown()


def node_settings(**more: Any) -> dict[str, Any]:
    return {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False, **more}


@pytest.fixture
def on_cluster(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The cluster, and after the test again its two nodes alone: others count them."""
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    before = cluster.list_all_nodes()
    yield cluster
    for node in cluster.list_all_nodes():
        if node not in before:
            cluster.remove_node(node, allow_graceful=False)
    # On a busy machine a node may come up after `add_node` has given up: it belongs to no object.
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text() == "raylet\n" and pid not in map(raylet_of, before):
                os.kill(pid, signal.SIGKILL)
    cluster.wait_for_nodes(120)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def sandbox(on_cluster: Any, said: list[str]) -> Iterator[RaySandbox]:
    opened = RaySandbox("ray", "local", SETUP, said.append)
    try:
        yield opened
    finally:
        opened.close()


def token() -> str:
    return f"{random.SystemRandom().randrange(10**6, 10**7)}"


def wait_for(what: Callable[[], Any], seconds: float = 150.0) -> Any:
    """What `what` returns once it is true; after `seconds` whatever it returns."""
    end = time.monotonic() + seconds
    while not (answer := what()) and time.monotonic() < end:
        time.sleep(0.05)
    return answer


def family_of(pid: int) -> list[int]:
    return [pid, *descendants(pid)]


def raylet_of(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def without_measures(outcome: Outcome) -> Outcome:
    return replace(outcome, duration_s=0.0, cpu_s=0.0, peak_memory_mb=0.0)


PROGRAMS = [
    "print('hello'); open('submission.csv', 'w').write('x,y')",
    "import os; print(sorted(os.walk('input')), open('input/train.csv').read())",
    "import random; print(random.random()); raise SystemExit(3)",
    "raise ValueError('no good')",
    "if x",
    "x = '\ud800'",
    "import os; os.kill(os.getpid(), 9)",
    "print('x' * 3000)",
    "import os; os.symlink('/etc/passwd', 'submission.csv')",
    "open('big', 'wb').write(bytes(12 << 20))",
    "import time; print('begun'); time.sleep(60)",
]


@needs_ray
@pytest.mark.slow
def test_results_are_those_of_the_local_sandbox(sandbox: RaySandbox, public: Path, said: list[str]) -> None:
    limits = replace(LIMITS, output_kb=2, file_mb=8)

    def both(code: str) -> tuple[Outcome, Outcome]:
        mine = replace(limits, wall_s=1.0) if "sleep" in code else limits
        return local.run(code, public, mine, 7), sandbox.run(code, public, mine, 7)

    with LocalSandbox(SETUP) as local, ThreadPoolExecutor(2) as pool:
        pairs = list(pool.map(both, PROGRAMS))
        assert sandbox.protections == local.protections
    for here, there in pairs:
        assert without_measures(here) == without_measures(there)
    statuses = ["ok", "ok", "error", "error", "error", "error", "killed", "output", "ok", "disk", "timeout"]
    assert [there.status for _, there in pairs] == statuses
    assert {(there.backend, there.start) for _, there in pairs} == {("local", "warm")}
    assert all(there.protections == sandbox.protections for _, there in pairs)
    assert said == []


@needs_ray
@pytest.mark.slow
def test_both_nodes_are_used(sandbox: RaySandbox, on_cluster: Any, public: Path) -> None:
    word = token()
    code = f"import subprocess; subprocess.run(['sleep', '{word}'])"
    with ThreadPoolExecutor(2) as pool:
        # On a busy machine a node's first run takes long to start: the other's must last until then.
        runs = [pool.submit(sandbox.run, code, public, replace(LIMITS, wall_s=150.0), 0) for _ in range(2)]
        assert wait_for(lambda: len(processes_with(word)) == 2, 120)
        nodes = [family_of(raylet_of(node)) for node in on_cluster.list_all_nodes()]
        assert [len(set(processes_with(word)) & set(node)) for node in nodes] == [1, 1]
        for pid in processes_with(word):
            os.kill(pid, signal.SIGKILL)
        assert [run.result().status for run in runs] == ["ok", "ok"]
    assert sandbox.notes == ["Ray cluster with 2 nodes and 2 CPUs"]


@needs_ray
@pytest.mark.slow
def test_hostile_program_is_sealed_in(sandbox: RaySandbox, on_cluster: Any, public: Path) -> None:
    if not sandbox.protections["mount_namespace"]:
        pytest.skip("no namespaces here")
    host, port = on_cluster.address.split(":")
    answers = public.parent / "private" / "answers.csv"
    code = f"""
        import os, socket
        for path in ({str(answers)!r}, "../private/answers.csv", "input/../private/answers.csv", "input/../../lock"):
            try:
                print("read", path, open(path).read())
            except OSError:
                pass
        telling = {{"answers.csv", "session_latest", "content", "mletools-shipped-{os.geteuid()}"}}
        found = []
        for where, folders, names in os.walk("/"):
            found += [where] if telling.intersection([*folders, *names]) else []
            folders[:] = [name for name in folders if os.path.join(where, name) not in {{"/proc", "/usr", {sys.prefix!r}, {sys.base_prefix!r}}}]
        print(found,
            os.listdir("/proc/1/cwd/input") if os.access("/proc/1/cwd", os.R_OK) else [],
            [name for name in os.environ if "RAY" in name])
        for family, address in ((socket.AF_INET, ({host!r}, {port})), (socket.AF_INET, ("1.1.1.1", 53))):
            try:
                with socket.socket(family) as end:
                    end.settimeout(2)
                    end.connect(address)
                    print("reached", address)
            except OSError:
                pass
        for path in {[raylet_socket(node) for node in on_cluster.list_all_nodes()]!r}:
            try:
                with socket.socket(socket.AF_UNIX) as end:
                    end.connect(path)
                    print("reached", path)
            except OSError:
                pass
        try:
            open("input/train.csv", "w")
            print("wrote")
        except OSError:
            pass
    """
    outcome = sandbox.run(textwrap.dedent(code), public, LIMITS, 0)
    lines = outcome.stdout.decode().splitlines()
    assert (outcome.status, len(lines), SECRET in str(outcome)) == ("ok", 1, False), outcome
    assert lines == ["[] [] []"]


def raylet_socket(node: Any) -> str:
    path = str(node.raylet_socket_name)
    assert os.path.exists(path)
    return path


SLOW = "import subprocess; subprocess.run(['sleep', '{}']); print({}); open('submission.csv', 'w').write('{}')"


def start_runs(pool: ThreadPoolExecutor, sandbox: RaySandbox, public: Path, seconds: str, count: int) -> list[Any]:
    codes = [SLOW.format(seconds, number, number) for number in range(count)]
    return [pool.submit(sandbox.run, code, public, LIMITS, 0) for code in codes]


def assert_each_came_back_once(runs: list[Any]) -> None:
    outcomes = [run.result(120) for run in runs]
    assert [outcome.status for outcome in outcomes] == ["ok"] * len(runs)
    assert [outcome.stdout for outcome in outcomes] == [b"%d\n" % number for number in range(len(runs))]
    assert [outcome.submission for outcome in outcomes] == [b"%d" % number for number in range(len(runs))]


def below(pid: int, word: str) -> list[int]:
    return [sleeper for sleeper in processes_with(word) if sleeper in descendants(pid)]


@needs_ray
@pytest.mark.slow
def test_lost_node(sandbox: RaySandbox, on_cluster: Any, public: Path, said: list[str]) -> None:
    seconds = f"1.0{token()}"
    doomed = on_cluster.add_node(**node_settings(num_cpus=2))
    raylet = raylet_of(doomed)
    with ThreadPoolExecutor(4) as pool:
        runs = start_runs(pool, sandbox, public, seconds, 10)
        inside = wait_for(lambda: below(raylet, seconds))
        assert inside
        on_cluster.remove_node(doomed, allow_graceful=False)
        assert wait_for(lambda: not set(inside) & set(processes_with(seconds)))
        on_cluster.add_node(**node_settings())
        assert_each_came_back_once(runs)
    assert said and all(line.endswith("its run is done again") for line in said)
    assert processes_with(seconds) == []


@pytest.mark.slow
@needs_ray
def test_lost_worker_process(sandbox: RaySandbox, public: Path, said: list[str]) -> None:
    seconds = f"1.0{token()}"
    with ThreadPoolExecutor(4) as pool:
        runs = start_runs(pool, sandbox, public, seconds, 6)
        worker = wait_for(lambda: max(map(worker_of, processes_with(seconds)), default=0))
        os.kill(worker, signal.SIGKILL)
        assert_each_came_back_once(runs)
    assert len(said) == 1 and said[0].endswith("its run is done again")
    assert processes_with(seconds) == []


def worker_of(pid: int) -> int:
    """Ray's worker process that `pid` descends from; 0 if that has just ended."""
    with suppress(OSError):
        while pid > 1:
            if Path(f"/proc/{pid}/comm").read_text().startswith("ray::"):
                return pid
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return 0


@needs_ray
@pytest.mark.nightly
def test_run_that_is_lost_every_time_is_an_error(sandbox: RaySandbox, public: Path, said: list[str]) -> None:
    seconds = f"100.{token()}"
    with ThreadPoolExecutor(1) as pool:
        (lost,) = start_runs(pool, sandbox, public, seconds, 1)
        while not lost.done():
            for worker in filter(None, map(worker_of, processes_with(seconds))):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
            time.sleep(0.05)
        with pytest.raises(ToolError, match=r"was lost .* 5 times on one run: `ray status`"):
            lost.result()
    assert len(said) == 4


@pytest.mark.slow
@needs_ray
def test_changed_public_folder_is_shipped_again(sandbox: RaySandbox, public: Path) -> None:
    code = "print(open('input/train.csv').read())"
    first = sandbox.run(code, public, LIMITS, 0).stdout
    before = (public / "train.csv").stat()
    (public / "train.csv").write_text("x,y\n8,9\n")  # as long as it was, and as old
    os.utime(public / "train.csv", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (first, sandbox.run(code, public, LIMITS, 0).stdout) == (b"x,y\n1,2\n\n", b"x,y\n8,9\n\n")


@pytest.mark.slow
@needs_ray
def test_large_public_folder(sandbox: RaySandbox, public: Path) -> None:
    content = random.Random(0).randbytes(30 << 20)
    (public / "large").write_bytes(content)
    code = "import hashlib; print(hashlib.sha256(open('input/large', 'rb').read()).hexdigest())"
    digests = {sandbox.run(code, public, LIMITS, 0).stdout.decode().strip() for _ in range(3)}
    assert digests == {shipping.digest_of(content)}


@pytest.mark.nightly
@needs_ray
def test_weights_lie_on_each_node(on_cluster: Any, public: Path, tmp_path: Path, said: list[str]) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "notes.txt").write_text("notes")
    code = "import os; print(open('weights/notes.txt').read(), os.access('weights', os.W_OK))"
    opened = RaySandbox("ray", "local", replace(SETUP, weights=str(folder)), said.append)
    try:
        if opened.protections["mount_namespace"]:  # else other users cannot come to the folder
            assert opened.run(code, public, LIMITS, 0).stdout == b"notes False\n"
        with pytest.raises(ToolError, match="lie in one another"):
            opened.run(code, folder, LIMITS, 0)
    finally:
        opened.close()
    opened = RaySandbox("ray", "local", replace(SETUP, weights=str(tmp_path / "absent")), said.append)
    try:
        with pytest.raises(ToolError, match=r"Ray node \S+: .*absent: no such folder of weights"):
            opened.run(code, public, LIMITS, 0)
    finally:
        opened.close()


@pytest.mark.slow
@needs_ray
def test_trouble_of_ours_is_an_error(sandbox: RaySandbox, public: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no such folder; is --data"):
        sandbox.run("pass", tmp_path / "nowhere", LIMITS, 0)
    with pytest.raises(ToolError, match=r"Ray node .* which every solution can read: move the task data elsewhere"):
        sandbox.run("pass", Path(pytest.__file__).parent, LIMITS, 0)
    (public / "link").symlink_to(public.parent / "private" / "answers.csv")
    with pytest.raises(ToolError, match=r"link is a link to .*answers.csv: only links to files in .* can be shipped"):
        sandbox.run("pass", public, LIMITS, 0)


@pytest.mark.slow
@needs_ray
def test_unknown_backend_is_an_error(on_cluster: Any, public: Path) -> None:
    sandbox = RaySandbox("ray", "nonesuch", SETUP)
    try:
        with pytest.raises(ToolError, match=r"Ray node .*: no sandbox named 'nonesuch'"):
            sandbox.run("pass", public, LIMITS, 0)
    finally:
        sandbox.close()


@pytest.mark.slow
@needs_ray
def test_node_with_another_version_is_refused(sandbox: RaySandbox, public: Path, monkeypatch: Any) -> None:
    # The nodes are processes of their own, so to them it is this one that has another version.
    monkeypatch.setattr("mletools.sandbox.on_ray.__version__", "9.9.9")
    found = mletools.__version__.replace(".", r"\.")
    with pytest.raises(
        ToolError, match=rf"Ray node \S+ has mletools {found} on .*, this machine has mletools 9\.9\.9 on"
    ):
        sandbox.run("pass", public, LIMITS, 0)


@pytest.mark.slow
@needs_ray
def test_what_fits_no_node_is_told_and_close_ends_it(sandbox: RaySandbox, public: Path, said: list[str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(sandbox.run, "pass", public, replace(LIMITS, memory_mb=1 << 24), 0) for _ in range(2)]
        assert wait_for(lambda: said, 30)
        sandbox.close()
        for run in runs:
            with pytest.raises(ToolError, match="the sandbox was closed during a run"):
                run.result(20)
    assert said == ["waiting for a Ray node with 1 CPU, 16777216 MB of memory: none of 2 has that"]


@pytest.mark.slow
@needs_ray
def test_devices_are_asked_of_ray(on_cluster: Any, public: Path, said: list[str]) -> None:
    sandbox = RaySandbox("ray", "local", replace(SETUP, gpus=("0",)), said.append)
    try:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: sandbox.protections)
            assert wait_for(lambda: said, 30) == ["waiting for a Ray node with 1 CPU, 1 GPU: none of 2 has that"]
            node = on_cluster.add_node(**node_settings(num_gpus=1))
            try:
                assert waiting.result(60)["private_files"]
                assert sandbox.run("pass", public, LIMITS, 0).gpu == "0"
            finally:
                on_cluster.remove_node(node)
    finally:
        sandbox.close()


@needs_ray
@pytest.mark.slow
def test_close_during_runs(sandbox: RaySandbox, public: Path, said: list[str]) -> None:
    seconds = f"100.{token()}"
    with ThreadPoolExecutor(4) as pool:
        runs = start_runs(pool, sandbox, public, seconds, 4)  # more than there are CPUs: some are queued
        assert wait_for(lambda: processes_with(seconds))
        sandbox.close()
        for run in runs:
            with pytest.raises(ToolError, match="the sandbox was closed"):
                run.result(20)
    assert wait_for(lambda: not processes_with(seconds), 20)
    assert said == []
    sandbox.close()
    with pytest.raises(ToolError, match="the sandbox is closed"):
        sandbox.run("pass", public, LIMITS, 0)


SCRIPT = """
    import signal, sys, threading
    from pathlib import Path
    from mletools.sandbox import Limits, Setup
    from mletools.sandbox.on_ray import RaySandbox
    def stop(number, frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, stop)
    sandbox = RaySandbox(sys.argv[1], "local", Setup(2, ("json",)))
    assert signal.getsignal(signal.SIGTERM) is stop
    code = "import subprocess; subprocess.run(['sleep', sys.argv[3]])".replace("sys.argv[3]", repr(sys.argv[3]))
    work = lambda: sandbox.run(code, Path(sys.argv[2]), Limits(wall_s=200.0, memory_mb=256), 0)
    threading.Thread(target=work, daemon=True).start()
    try:
        work()
    except KeyboardInterrupt:
        sandbox.close()
        sys.exit(7)
"""


def start_command(address: str, public: Path, word: str, **environment: str) -> subprocess.Popen[bytes]:
    root = str(Path(mletools.__file__).parent.parent)
    kept = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    path = os.pathsep.join([root, *filter(None, [kept.get("PYTHONPATH")])])
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), address, str(public), word]
    return subprocess.Popen(command, env={**kept, "PYTHONPATH": path, **environment}, stdout=subprocess.PIPE)


@needs_ray
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_command_that_is_ended_leaves_nothing_of_its_own_cluster(public: Path, number: signal.Signals) -> None:
    word = token()
    with start_command("ray", public, word) as command:
        try:
            running = min(2, os.cpu_count() or 1)
            assert wait_for(lambda: len(processes_with(word)) == running), (command.poll(), processes_with(word))
            # When Ray's head is killed its agents take a minute to notice; they hold nothing of ours.
            family = [
                pid for pid in family_of(command.pid) if b"Agent" not in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
            assert len(family) > 5
        finally:
            command.send_signal(number)
        output = command.stdout.read() if command.stdout and number == signal.SIGTERM else b""
    assert (command.returncode, output) == ((7, b"") if number == signal.SIGTERM else (-9, b""))
    assert wait_for(lambda: not processes_with(word), 30)
    assert wait_for(lambda: not any(map(is_running, family)), 30)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@needs_ray
def test_command_that_is_killed_leaves_no_runs_on_a_cluster(cluster: Any, public: Path) -> None:
    word = token()
    with start_command("ray", public, word, RAY_ADDRESS=cluster.address) as command:
        try:
            assert wait_for(lambda: len(processes_with(word)) == 2)
        finally:
            command.kill()
    assert wait_for(lambda: not processes_with(word), 30)


@needs_ray
def test_no_cluster_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ToolError, match=r"no Ray cluster answers at 127.0.0.1:1 \(.*\): is it up"):
        RaySandbox("ray", "local", SETUP)
    monkeypatch.setenv("RAY_ADDRESS", "nonsense")
    with pytest.raises(ToolError, match=r"cannot connect to the Ray cluster nonsense: .*is it up"):
        RaySandbox("ray", "local", SETUP)
    wanted = "no Ray cluster answers at" if find_spec("grpc") else r"not installed: pip install 'mletools\[ray\]'"
    with pytest.raises(ToolError, match=wanted):
        RaySandbox("ray://127.0.0.1:1", "local", SETUP)


def test_ray_that_is_not_installed_is_an_error() -> None:
    script = """
        import sys
        sys.modules["ray"] = None
        from mletools.base.errors import ToolError
        from mletools.sandbox import Setup
        from mletools.sandbox.on_ray import RaySandbox
        try:
            RaySandbox("ray", "local", Setup(1))
        except ToolError as error:
            print(error)
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(mletools.__file__).parent.parent)}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "--on ray needs Ray: pip install 'mletools[ray]'\n"


# Shipping


def content_of(folder: Path) -> dict[str, Any]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder)).decode("latin-1")
        found[name] = (oct(path.stat().st_mode & 0o777), path.read_bytes() if path.is_file() else None)
    return found


ODD_NAMES = [b"a b", b"new\nline", b"-rf", b"\xff\xfe", "é☃".encode(), b"x" * 200, b"\\", b"...", b"'\"", b" "]


def test_folder_arrives_as_it_was(public: Path, tmp_path: Path) -> None:
    for name in ODD_NAMES:
        (public / os.fsdecode(name)).write_bytes(name * 1000)
        (public / "more" / os.fsdecode(name)).mkdir()
    (public / "more" / "linked").symlink_to("../train.csv")
    os.link(public / "train.csv", public / "twice")
    (public / "tool").write_text("#!/bin/sh\n")
    (public / "tool").chmod(0o700)
    (public / "train.csv").chmod(0o600)
    arrived = tmp_path / "arrived"
    arrived.mkdir()
    former = os.umask(0o077)
    try:
        packed = shipping.pack(public)
        shipping.unpack(packed, shipping.digest_of(packed), arrived)
    finally:
        os.umask(former)
    sent, found = content_of(public), content_of(arrived)
    assert {name: what for name, (_, what) in found.items()} == {name: what for name, (_, what) in sent.items()}
    assert not (arrived / "more" / "linked").is_symlink()
    modes = {name: mode for name, (mode, _) in found.items()}
    assert modes.pop("tool") == "0o755"
    assert all(mode == ("0o644" if found[name][1] is not None else "0o755") for name, mode in modes.items())


def test_equal_content_packs_equally(public: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "more").mkdir(parents=True)
    for name in ("more/images.bin", "train.csv"):
        (other / name).write_bytes((public / name).read_bytes())
        os.utime(other / name, (1, 1))
    assert shipping.pack(other) == shipping.pack(public)
    assert shipping.fingerprint(other) != shipping.fingerprint(public)
    (other / "train.csv").write_text("x,y\n1,3\n")
    assert shipping.pack(other) != shipping.pack(public)


def test_fingerprint_sees_changes(public: Path) -> None:
    seen = {shipping.fingerprint(public)}
    for change in (
        lambda: (public / "new").mkdir(),
        lambda: (public / "more" / "empty").touch(),
        lambda: (public / "train.csv").rename(public / "test.csv"),
        lambda: (public / "test.csv").chmod(0o755),
        lambda: (public / "test.csv").write_text("x,y\n3,4\n"),
    ):
        change()
        seen.add(shipping.fingerprint(public))
    assert len(seen) == 6
    assert shipping.fingerprint(public) in seen


@pytest.mark.parametrize("target", ["/etc/passwd", "../private/answers.csv", "..", "more", ".", "nowhere", "link"])
def test_links_that_lead_elsewhere_are_refused(public: Path, target: str) -> None:
    (public / "link").symlink_to(target)
    for look in (shipping.pack, shipping.fingerprint):
        with pytest.raises(ToolError, match=r"link is a link to .*: only links to files in .* can be shipped"):
            look(public)


def test_what_is_no_file_is_refused(public: Path) -> None:
    os.mkfifo(public / "pipe")
    with pytest.raises(ToolError, match="pipe is neither a file nor a folder"):
        shipping.pack(public)


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    for look in (shipping.pack, shipping.fingerprint):
        with pytest.raises(ToolError, match=r"cannot ship .*nowhere"):
            look(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../out", tarfile.REGTYPE),
        ("/tmp/mletools-out", tarfile.REGTYPE),
        ("a/../../out", tarfile.REGTYPE),
        (".", tarfile.DIRTYPE),
        ("..", tarfile.DIRTYPE),
        ("link", tarfile.SYMTYPE),
        ("link", tarfile.LNKTYPE),
        ("device", tarfile.CHRTYPE),
        ("pipe", tarfile.FIFOTYPE),
    ],
)
def test_archives_that_reach_out_are_refused(tmp_path: Path, name: str, kind: bytes) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, "/etc/passwd"
        archive.addfile(entry)
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(ToolError, match="may not be unpacked"):
        shipping.unpack(buffer.getvalue(), shipping.digest_of(buffer.getvalue()), inside)
    assert (list(inside.iterdir()), list(tmp_path.iterdir())) == ([], [inside])


@pytest.mark.parametrize("cut", [0, 100, 700, 5000, -1])
def test_damaged_archives_are_an_error(public: Path, tmp_path: Path, cut: int) -> None:
    packed = shipping.pack(public)
    with pytest.raises(ToolError, match="a shipped folder arrived damaged"):
        shipping.unpack(packed[:cut], shipping.digest_of(packed), tmp_path / "task")
    with pytest.raises(ToolError, match="no packed folder"):
        shipping.unpack(b"words" * 500, shipping.digest_of(b"words" * 500), tmp_path / "task")


def take_part(root: Path, digest: str, packed: bytes, start: Any, found: Any) -> None:
    start.wait()
    for _ in range(30):
        with shipping.unpacked(root, digest, packed) as folder:
            found.put((str(folder), len(content_of(folder)), folder.stat().st_ino))
            shipping.sweep(root, idle_s=0.0)


@pytest.mark.slow
def test_processes_share_one_unpacked_folder_and_sweep_at_once(public: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    packed = shipping.pack(public)
    context = multiprocessing.get_context("spawn")
    start, found = context.Event(), context.Queue()
    arguments = (root, shipping.digest_of(packed), packed, start, found)
    processes = [context.Process(target=take_part, args=arguments) for _ in range(4)]
    for process in processes:
        process.start()
    start.set()
    seen = [found.get(timeout=60) for _ in range(4 * 30)]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert {count for _, count, _ in seen} == {3}
    shipping.sweep(root, idle_s=0.0)
    assert list(root.iterdir()) == []


def archives(public: Path, count: int) -> list[tuple[str, bytes]]:
    made = []
    for number in range(count):
        (public / "train.csv").write_text(f"x,y\n{number},2\n")
        packed = shipping.pack(public)
        made.append((shipping.digest_of(packed), packed))
    return made


def test_folder_in_use_is_not_swept(public: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    idle, used = archives(public, 2)
    with shipping.unpacked(root, *used) as folder:
        with shipping.unpacked(root, *idle):
            pass
        swept = threading.Thread(target=shipping.sweep, args=(root, 0.0))
        swept.start()
        swept.join()
        assert content_of(folder) == content_of(public)
        assert [path.name for path in root.iterdir()] == [used[0]]


def test_only_the_latest_are_kept(public: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    made = archives(public, 5)
    for age, archive in enumerate(made):
        with shipping.unpacked(root, *archive):
            os.utime(root / archive[0] / "lock", (time.time() - 100 * age,) * 2)
    shipping.sweep(root, kept=2)
    assert {path.name for path in root.iterdir()} == {made[0][0], made[1][0]}
    shipping.sweep(root, idle_s=50)
    assert [path.name for path in root.iterdir()] == [made[0][0]]


def test_folder_of_a_process_that_was_killed_is_filled_anew(public: Path, tmp_path: Path) -> None:
    packed = shipping.pack(public)
    digest = shipping.digest_of(packed)
    left = tmp_path / digest / "partial-left"
    left.mkdir(parents=True)
    (left / "half").write_text("x")
    with shipping.unpacked(tmp_path, digest, packed) as folder:
        assert content_of(folder) == content_of(public)
        assert sorted(path.name for path in folder.parent.iterdir()) == ["content", "lock"]


def test_shared_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    root = shipping.shared_root()
    assert shipping.shared_root() == root
    root.chmod(0o777)
    with pytest.raises(ToolError, match="could have been filled by somebody else: remove it"):
        shipping.shared_root()
    root.rmdir()
    root.symlink_to("/tmp")
    with pytest.raises(ToolError, match="could have been filled by somebody else"):
        shipping.shared_root()
