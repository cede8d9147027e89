"""Detects the active protections from inside a run, by the kernel's record of the process and harmless attempts."""

import errno
import os
import resource
import socket
from collections.abc import Sequence
from contextlib import suppress

from .cgroup import MemoryCgroup
from .interface import Limits
from .mounts import MountPlan
from .weights import NAME as WEIGHTS
from .weights import VARIABLES

_THREADS = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY"}
_OURS = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PATH", "HOME", "TMPDIR", "LANG", "PYTHONHASHSEED"} | _THREADS
_OURS |= set(VARIABLES)
_SKLEARN = {"KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK"}  # set by its import
_NAMESPACES = {"user": "user", "mnt": "mount", "pid": "pid", "net": "network", "ipc": "ipc", "uts": "uts"}


def surroundings() -> dict[str, str]:
    """The kernel's names of this process's namespaces, its root folder ("root") and the disk with Python ("library")."""
    root = os.stat("/")
    found = {"root": f"{root.st_dev}:{root.st_ino}", "library": str(os.stat(os.__file__).st_dev)}
    for name in _NAMESPACES:
        with suppress(OSError):
            found[name] = os.readlink(f"/proc/self/ns/{name}")
    return found


def _status() -> dict[str, str]:
    with open("/proc/self/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def _network_is_closed() -> bool:
    for family, address in ((socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9))):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(address)  # looks up a route, sends nothing
                return False
        except OSError as error:
            if error.errno not in (errno.ENETUNREACH, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                return False
    return True


def _root_is_closed(same_root: bool, shown: Sequence[str]) -> bool:
    """Whether the machine's own root cannot be listed; a new root has in /var what lies in it of `shown`, if anything."""
    try:
        if same_root:
            return not os.listdir("/")
        return set(os.listdir("/var")) <= {path.split("/")[2] for path in shown if path.startswith("/var/")}
    except OSError:
        return True


def _is_read_only(folder: str) -> bool:
    try:
        descriptor = os.open(f"{folder}/.probe", os.O_CREAT | os.O_WRONLY, 0o600)
    except OSError:
        return True
    os.close(descriptor)
    os.unlink(f"{folder}/.probe")
    return False


def prepare_probe() -> None:
    """Read what a probe needs of this package's files, which it does not see. Not in a process that solutions inherit."""
    from .hidden import known

    known()


def _tables_are_hidden(plan: MountPlan, same_root: bool) -> bool:
    """Whether nothing that is to be hidden can be read here: no table of the tasks, nor this package."""
    from .hidden import readable

    paths = [real if same_root else path for path, real, _ in plan.hidden_inside()]
    return not any(readable(paths, plan.import_path))


def active_protections(
    outside: dict[str, str], cgroup: MemoryCgroup | None, limits: Limits, plan: MountPlan
) -> dict[str, bool]:
    """By name, whether the calling process has it; `outside` are the warm server's surroundings, `plan` what a solution may read."""
    status, inside = _status(), surroundings()
    active = {f"{word}_namespace": inside.get(name) != outside.get(name) for name, word in _NAMESPACES.items()}
    with open("/proc/self/cgroup") as file:
        in_cgroup = cgroup is not None and cgroup.path.name in file.read()
    same_root = inside["root"] == outside["root"]
    active.update(
        private_files=_root_is_closed(same_root, [path for _, path in (*plan.binds, *plan.links)]),
        no_bundled_answers=_tables_are_hidden(plan, same_root),
        read_only_input=_is_read_only("input") and _is_read_only(WEIGHTS),
        own_inodes=inside["library"] != outside["library"],
        no_network=_network_is_closed(),
        no_new_privs=status.get("NoNewPrivs") == "1",
        no_capabilities=all(int(status.get(name, "1"), 16) == 0 for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")),
        seccomp=status.get("Seccomp") == "2",
        rlimits=resource.getrlimit(resource.RLIMIT_FSIZE)[1] <= limits.file_mb << 20,
        clean_environment=set(os.environ) <= _OURS | _SKLEARN,
        disk_limit=os.statvfs(".").f_blocks * os.statvfs(".").f_frsize <= limits.disk_mb << 20,
        memory_cgroup=in_cgroup,
    )
    return active
