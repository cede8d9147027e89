"""A run sees the device nodes of its own lease and of no other, however it sets CUDA_VISIBLE_DEVICES itself.

No card is needed: the machine's cards are files in a folder, or, for whole runs, mounts over /dev and /proc/driver in a
namespace of the test's own, where every node is the device null.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

import mletools
from mletools.base.errors import ToolError
from mletools.sandbox import Outcome, gpus, landlock
from mletools.sandbox.attacks import ATTACKS, AttackTargets
from mletools.sandbox.engine import Kind, environment
from mletools.sandbox.gpus import Card, Device, Leases, cards, find

# In the order of nvidia-smi. The driver numbers nodes in the order in which it met the cards.
FIRST, SECOND, THIRD = "GPU-aa11b2c3-0000-0000-0000-000000000001", "GPU-bb22-77", "GPU-bb33-77"
CARDS = {
    "0000:0a:00.0": (3, FIRST, "No"),
    "0000:62:00.0": (0, SECOND, "No"),
    "0000:7a:00.0": (2, "GPU-excluded", "Yes"),
    "10000:03:00.0": (1, THIRD, "No"),
}
MODEL = "NVIDIA H100 80GB HBM3"
INFORMATION = f"""\
Model: \t\t {MODEL}
IRQ:   \t\t 10
GPU UUID: \t {{uuid}}
Bus Type: \t PCIe
Bus Location: \t {{folder}}
Device Minor: \t {{minor}}
GPU Firmware: \t 535.129.03
GPU Excluded:\t {{excluded}}
"""
INSTANCES = {"gi1": 30, "gi1/ci0": 31, "gi1/ci1": 32, "gi2": 39, "gi2/ci0": 40}  # of the third card; nodes
SHARED = ["nvidia-uvm", "nvidia-uvm-tools", "nvidiactl"]
NODES = [
    *(f"nvidia{minor}" for minor in range(4)),
    *SHARED,
    *(
        "nvidia-modeset",
        "nvidia-nvswitchctl",
        "dri/card0",
        "dri/renderD128",
        "kfd",
        "infiniband/uverbs0",
        "nvidia-caps/nvidia-cap1",
    ),
    *(f"nvidia-caps/nvidia-cap{number}" for number in INSTANCES.values()),
]


def fill(root: Path) -> None:
    """A machine with three cards and one that is excluded, of which the third is cut into instances."""
    driver = root / "proc/driver/nvidia"
    for folder, (minor, uuid, excluded) in CARDS.items():
        (driver / "gpus" / folder).mkdir(parents=True)
        text = INFORMATION.format(uuid=uuid, folder=folder, minor=minor, excluded=excluded)
        (driver / "gpus" / folder / "information").write_text(text)
    for name, number in INSTANCES.items():
        (driver / "capabilities/gpu1/mig" / name).mkdir(parents=True)
        text = f"DeviceFileMinor: {number}\nDeviceFileMode: 256\nDeviceFileModify: 1\n"
        (driver / "capabilities/gpu1/mig" / name / "access").write_text(text)
    for name in NODES:
        (root / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "dev" / name).touch()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fill(tmp_path)
    monkeypatch.setattr(gpus, "_ROOT", tmp_path)
    return tmp_path


# Which nodes are a device's


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("0", ["nvidia3"]),
        ("1", ["nvidia0"]),
        (FIRST, ["nvidia3"]),
        ("GPU-aa", ["nvidia3"]),
        ("GPU-bb33", ["nvidia1", *(f"nvidia-caps/nvidia-cap{number}" for number in INSTANCES.values())]),
        (f"MIG-{THIRD}/1/1", ["nvidia1", "nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap32"]),
        ("MIG-GPU-bb33/2/0", ["nvidia1", "nvidia-caps/nvidia-cap39", "nvidia-caps/nvidia-cap40"]),
    ],
)
def test_a_device_has_its_own_nodes_by_every_name(machine: Path, name: str, own: list[str]) -> None:
    device = find(*gpus.parse(name), cards())
    assert sorted(device.nodes) == sorted([*own, *SHARED])
    assert device.visible == "0"  # CUDA counts the cards that it may open
    assert device.model == (f"{MODEL}, MIG instance" if name.startswith("MIG") else MODEL)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("3", rf"no device matches 3: this machine has 0 \({FIRST}\), 1 \({SECOND}\), 2 \({THIRD}\)"),
        ("GPU-cc", "no device matches GPU-cc"),
        ("GPU-excluded", "no device matches GPU-excluded"),
        ("GPU-bb", "several devices match GPU-bb"),
        (f"MIG-{THIRD}/1/7", rf"{THIRD} has no MIG instance 1/7: nvidia-smi -q lists them"),
        (f"MIG-{FIRST}/1/0", "has no MIG instance 1/0"),
        ("MIG-0f3c-77", "the card of MIG-0f3c-77 is not known: name it MIG-GPU-.../G/C"),
    ],
)
def test_a_name_of_no_device_is_an_error(machine: Path, name: str, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        find(*gpus.parse(name), cards())


def test_what_tells_of_other_cards_is_not_seen(machine: Path) -> None:
    others = sorted(set(CARDS) - {"0000:62:00.0"})
    assert find("1", cards()).unseen == tuple(f"driver/nvidia/gpus/{folder}" for folder in others)


def test_cards_that_may_not_be_opened_are_not_counted(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a job of a batch system, or in a container, where nvidia-smi and CUDA do not count them either."""
    (machine / "dev" / "nvidia3").unlink()
    monkeypatch.setattr(gpus, "_may_open", lambda path, may=gpus._may_open: path.name != "nvidia0" and may(path))
    assert cards() == [Card(1, "10000:03:00.0", THIRD, MODEL)]
    assert "nvidia1" in find("0", cards()).nodes


def test_where_the_driver_tells_nothing_nodes_are_the_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_ROOT", tmp_path)
    (tmp_path / "dev").mkdir()
    assert find("5", cards()) == Device((), "5", (), "5")
    (tmp_path / "dev/dxg").touch()
    assert find("5", cards()) == Device(("dxg",), "5", (), "5")
    for name in ("nvidia10", "nvidia9", *SHARED):
        (tmp_path / "dev" / name).touch()
    device = find("1", cards())
    assert (sorted(device.nodes), device.visible) == (sorted(["nvidia10", *SHARED]), "0")


# Leases


def test_a_device_with_two_names_is_lent_once(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(machine))
    with pytest.raises(ToolError, match="a device is named twice in 1,GPU-bb22"):
        Leases(["1", "GPU-bb22"])
    with Leases(["1"]).lease() as first, Leases(["GPU-bb22", "2"]).lease() as second:
        assert (first, second) == ("1", "2")  # another command names the first one otherwise
    with Leases(["elsewhere"]).lease() as name:  # with a daemon on another machine
        assert name == "elsewhere"


def test_a_container_without_a_lease_gets_no_device() -> None:
    """Images for GPUs ask for all devices in their environment, which a daemon may heed; with a lease it sets this itself."""
    leased, plain = (environment(Kind(512, 64, 8, 1, gpu, None)) for gpu in ("GPU-5e3a", None))
    assert (leased.get("NVIDIA_VISIBLE_DEVICES"), plain["NVIDIA_VISIBLE_DEVICES"]) == (None, "void")


# Whole runs

LOOK = f"""
import json, os
os.environ["CUDA_VISIBLE_DEVICES"] += ""
nodes, opened = [], []
for name in {NODES}:
    if os.path.lexists("/dev/" + name):
        nodes.append(name)
    try:
        os.close(os.open("/dev/" + name, os.O_RDWR))
        opened.append(name)
    except OSError:
        pass
hardware = [os.listdir("/proc/" + name) for name in ("driver", "bus") if os.path.exists("/proc/" + name)]
print(json.dumps([nodes, opened, os.environ["CUDA_VISIBLE_DEVICES"], hardware]))
"""
NAME_A_THREAD = """
import concurrent.futures, threading
def name():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write("as cuInit does")
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    pool.submit(name).result()
"""
RUN = f"""
import json, os, stat, subprocess, sys
from pathlib import Path
from mletools.sandbox import Limits, Setup, linux
from mletools.sandbox.attacks import ATTACKS, AttackTargets
from mletools.sandbox.local import LocalSandbox
from mletools.sandbox.selftest import attempt
root, look, command = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)
def make(name, number):
    path = root / "dev" / name
    path.parent.mkdir(exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, number)
    path.chmod(0o666)
linux.unshare(linux.CLONE_NEWNS)
mount("--make-rprivate", "/")
mount("-t", "tmpfs", "-o", "mode=755", "none", root / "dev")
for name in ("null", "zero", "full", "random", "urandom"):
    make(name, os.stat("/dev/" + name).st_rdev)
for name in {NODES}:
    make(name, os.makedev(1, 3))
(root / "dev/shm").mkdir()
(root / "dev/shm").chmod(0o1777)
mount("--rbind", root / "dev", "/dev")
mount("--bind", root / "proc/driver", "/proc/driver")
public = root / "public"
public.mkdir()
exec(command)
"""


def machine_runs(root: Path, command: str, python: str = sys.executable) -> Any:
    """What `command` prints, as JSON, on the machine of `fill`."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    fill(root)
    root.chmod(0o755)
    words = [python, "-c", RUN, root, LOOK, textwrap.dedent(command)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(mletools.__file__).parent.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder() -> Any:
    with tempfile.TemporaryDirectory(prefix="mletools-test-") as name:
        yield Path(name)


def test_a_run_has_the_nodes_of_its_lease(folder: Path) -> None:
    command = f"""
        found = {{}}
        for name in ("1", "MIG-{THIRD}/2/0", None):
            with LocalSandbox(Setup(1, ("json",), gpus=(name,) if name else ()), hidden={{}}) as sandbox:
                if not sandbox.protections["mount_namespace"]:
                    found = "refused"
                    break
                outcomes = [sandbox.run(look.replace('+= ""', '= "0"'), public, Limits(), 0), sandbox.run(look, public, Limits(), 0)]
                assert [outcome.gpu for outcome in outcomes] == [name, name], outcomes
                session = sandbox.session(public, Limits(), 0)
                texts = [outcome.stdout for outcome in outcomes] + [session.python(look, 30).output]
                session.close()
                found[str(name)] = [json.loads(text) for text in texts]
        print(json.dumps(found))
    """
    found = machine_runs(folder, command)
    if found == "refused":
        pytest.skip("no mount namespaces here")
    caps = ["nvidia-caps/nvidia-cap39", "nvidia-caps/nvidia-cap40"]
    expected = {"1": ["nvidia0", *SHARED], f"MIG-{THIRD}/2/0": ["nvidia1", *caps, *SHARED], "None": []}
    for name, own in expected.items():
        for nodes, opened, _, _ in found[name]:
            assert (sorted(nodes), sorted(opened)) == (sorted(own), sorted(own))
        assert [visible for _, _, visible, _ in found[name][1:]] == ["0" if own else ""] * 2
    assert all(hardware in ([[], []], [[]], []) for _, _, _, hardware in found["None"])


def test_under_landlock_a_run_opens_the_nodes_of_its_lease(folder: Path) -> None:
    command = """
        with LocalSandbox(Setup(1, ("json",), gpus=("2",)), namespaces=False, hidden={}) as sandbox:
            print(sandbox.run(look, public, Limits(), 0).stdout.decode())
            named = sandbox.run(NAME_A_THREAD, public, Limits(), 0)
            assert named.status == "ok", named
    """
    if not landlock.version():
        pytest.skip("no Landlock here")
    command = f"NAME_A_THREAD = {NAME_A_THREAD!r}\n" + textwrap.dedent(command)
    found = machine_runs(folder, command, "/usr/bin/python3")  # root's own may lie where others cannot enter
    _, opened, visible, _ = found
    caps = [f"nvidia-caps/nvidia-cap{number}" for number in INSTANCES.values()]
    assert (sorted(opened), visible) == (sorted(["nvidia1", *caps, *SHARED]), "0")


def test_a_machine_without_cards_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mletools.sandbox import Setup
    from mletools.sandbox.local import LocalSandbox

    monkeypatch.setattr(gpus, "_ROOT", tmp_path)
    with LocalSandbox(Setup(1, ("json",), gpus=("5",)), hidden={}) as sandbox:
        assert "no NVIDIA card here that this user may open: programs with a lease see no GPU" in sandbox.notes
    fill(tmp_path)
    with pytest.raises(ToolError, match="no device matches 5"):
        LocalSandbox(Setup(1, ("json",), gpus=("5",)))


# The self-test

ATTACK = next(attack for attack in ATTACKS if attack.name == "devices of other runs")


@pytest.mark.parametrize(
    ("lease", "backend", "opened", "sealed"),
    [
        (None, "local", "", True),
        (None, "local", "nvidia0", False),
        (None, "docker", "dri/renderD128", False),
        ("1", "local", "nvidia0", True),
        ("1", "local", "nvidia3", False),
        ("1", "docker", "nvidia3", True),
        ("1", "docker", "nvidia3 nvidia0", False),
        ("1", "docker", "nvidia0 infiniband/uverbs0", False),
        ("2", "docker", "nvidia1 nvidia-caps/nvidia-cap30", True),
        (f"MIG-{THIRD}/1/0", "local", "nvidia1 nvidia-caps/nvidia-cap30 nvidia-caps/nvidia-cap31", True),
        (f"MIG-{THIRD}/1/0", "local", "nvidia1 nvidia-caps/nvidia-cap30 nvidia-caps/nvidia-cap32", False),
    ],
)
def test_the_self_test_judges_which_devices_opened(
    machine: Path, lease: str | None, backend: str, opened: str, sealed: bool
) -> None:
    text = "".join(f"opened {name}\n" for name in opened.split()) + "tried\n"
    outcome = Outcome("ok", 0, 0.1, 0.1, 1.0, text.encode(), b"", {}, {}, backend=backend, gpu=lease)
    with AttackTargets() as targets:
        targets.begin()
        verdict = ATTACK.judge(outcome, targets)
    assert verdict.sealed is sealed, verdict.seen


@pytest.mark.parametrize("lease", ["0", None])
def test_the_self_test_finds_no_device_of_another(folder: Path, lease: str | None) -> None:
    command = f"""
        attack = next(attack for attack in ATTACKS if attack.name == "devices of other runs")
        setup = Setup(1, ("json",), gpus={(lease,) if lease else ()})
        with AttackTargets() as targets, LocalSandbox(setup, hidden={{}}) as sandbox:
            targets.honest = sandbox.run("", public, Limits(), 0)  # any will do
            finding = attempt(attack, sandbox, targets)
        print(json.dumps([finding.sealed, finding.seen]))
    """
    assert machine_runs(folder, command) == [True, "opened nvidia3" if lease else "no trace"]
