"""The file system of a solution: the folders of the machine that it may read, and a root made of them.

Covered: choosing the folders (interpreter, libraries), refusing a data folder inside one of them, building the root in
a new mount namespace, where hidden files are empty and files have inodes of their own, so that no other run sees a lock on
them. Not covered: what is hidden (`hidden`); other content of the chosen folders counts as public; the memory that holds the
content of files, which all runs share. Needs mount_setattr, Linux 5.12.
"""

import base64
import json
import os
import re
import shlex
import site
import stat
import sys
import sysconfig
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from ..base.errors import ToolError
from . import linux
from .weights import NAME as WEIGHTS

WORK, HOME, TEMPORARY, CODE, HIDDEN = "/box/work", "/box/home", "/box/tmp", "/code", "/hidden"
SCRIPT = "solution.py"
HOMES = ("site-packages", "dist-packages")  # folders of packages

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/etc/fonts", "/etc/mime.types")
DEVICES = ("null", "zero", "full", "random", "urandom")
# Below /proc, what counts or lists what all runs do. Programs need meminfo and loadavg, which tell no more than sysinfo.
_UNSEEN_FILES = ["buddyinfo", "diskstats", "interrupts", "key-users", "keys", "latency_stats", "locks"]
_UNSEEN_FILES += ["sched_debug", "schedstat", "softirqs", "swaps", "timer_list", "vmstat", "zoneinfo"]
_UNSEEN_FOLDERS = ["acpi", "asound", "fs", "irq", "pressure", "scsi", "sys/fs", "sys/kernel/pty"]
_COUNTERS = ("intr", "ctxt", "processes", "procs_running", "procs_blocked", "softirq")
_ETC = {
    "passwd": "solution:x:1000:1000::/box/home:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "group": "solution:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_NOTHING = "/nothing"  # an empty folder that stays empty
_MOUNT_READ_ONLY = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
_READ_ONLY = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV


Hidden = dict[str, list[str]]  # by real path of a hidden file or folder, the names in the folder that stay visible


@dataclass
class MountPlan:
    """Folders and files of this machine that every solution may read."""

    binds: list[tuple[str, str]] = field(
        default_factory=list
    )  # (real path here, path in the sandbox), outer folders first
    links: list[tuple[str, str]] = field(default_factory=list)  # (target, path in the sandbox) of symbolic links
    import_path: list[str] = field(default_factory=list)  # the entries of sys.path that exist in the sandbox
    statistics: str = ""  # what a solution sees as /proc/stat
    hidden: Hidden = field(default_factory=dict)

    def hidden_inside(self) -> list[tuple[str, str, list[str]]]:
        """(path in the sandbox, real path, names that stay visible) of all that is hidden, outer folders first."""
        return sorted(
            (target + path[len(source) :], path, names)
            for source, target in self.binds
            for path, names in self.hidden.items()
            if _inside(path, source)
        )

    @cached_property
    def readable(self) -> tuple[list[str], list[str]]:
        """(real paths that solutions may read, folders that they may list), for a sandbox with the machine's root."""
        outer = {folder for path in self.hidden for folder in map(str, Path(path).parents)}
        paths: list[str] = []
        folders: list[str] = []

        def visit(path: str) -> None:
            if os.path.islink(path):
                return  # a rule would be for its target, which has one where solutions may read it
            if path in self.hidden:
                for name in self.hidden[path]:
                    visit(os.path.join(path, name))
            elif path in outer:
                folders.append(path)
                with suppress(OSError):
                    for name in os.listdir(path):
                        visit(os.path.join(path, name))
            else:
                paths.append(path)

        for source, _ in self.binds:
            visit(source)
        for _, link in self.links:
            if not any(_inside(os.path.realpath(link), source) for source, _ in self.binds):
                visit(os.path.realpath(link))
        return paths, folders


def plan_text(plan: MountPlan) -> str:
    """A plan as a text short enough for a packet to a warm server; `read_plan` reads it."""
    return base64.b64encode(zlib.compress(json.dumps(asdict(plan)).encode())).decode()


def read_plan(text: str) -> MountPlan:
    """The inverse of `plan_text`."""
    return MountPlan(**json.loads(zlib.decompress(base64.b64decode(text))))


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _interpreter_folders() -> list[str]:
    names = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    # The path of the executable may differ from the prefix in a virtual environment.
    names.add(os.path.dirname(os.path.dirname(os.path.realpath(sys.executable))))
    names.update(path for path in (*sysconfig.get_paths().values(), *sys.path) if path.endswith(HOMES))
    if site.ENABLE_USER_SITE:
        names.add(site.getusersitepackages())
    return sorted(name for name in names if os.path.isdir(name))


def _mount_points() -> list[str]:
    """Where file systems are mounted here, outer ones first."""
    with open("/proc/self/mountinfo") as file:
        names = {re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4]) for line in file}
    return sorted(names - {"/"})


def _statistics() -> str:
    """/proc/stat of this moment, with processors and boot time only."""
    with open("/proc/stat") as file:
        kept = [line for line in file if line.startswith(("cpu", "btime"))]
    return "".join(kept) + "".join(f"{name} 0\n" for name in _COUNTERS)


def make_plan(shown_folders: Sequence[str] = ()) -> MountPlan:
    """The folders that this interpreter needs, and others that are to be shown.

    ToolError: its prefix contains users' files, or one of the others does, or is no folder.
    """
    plan = MountPlan(statistics=_statistics())
    paths: list[str] = []
    for path in _SYSTEM:
        if os.path.islink(path) and os.path.isdir(path):
            plan.links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            paths.append(path)
    paths += [path for path in _SYSTEM_FILES if os.path.exists(path)]
    home = os.path.realpath(os.path.expanduser("~"))
    for path in _interpreter_folders():
        for name in {path, os.path.realpath(path)}:
            if _inside(home, os.path.realpath(name)) and home != "/":
                raise ToolError(f"the sandbox would have to show all of {name} to solutions: use a virtual environment")
            if os.path.realpath(name) in ("/", "/home", "/var", "/tmp"):
                raise ToolError(f"the sandbox cannot show {name} to solutions: use a Python in a folder of its own")
            paths.append(name)
    paths += [_own_folder(path, home) for path in shown_folders]
    for path in sorted(set(paths), key=lambda name: (name.count("/"), name)):
        real = os.path.realpath(path)
        covered = any(_inside(path, target) and _inside(real, source) for source, target in plan.binds)
        linked = any(_inside(path, target) for _, target in plan.links)
        if not covered and not linked:
            plan.binds.append((real, path))
    shown = [target for _, target in plan.binds] + [target for _, target in plan.links]
    plan.import_path = [path for path in sys.path if path and any(_inside(path, target) for target in shown)]
    return plan


def _own_folder(path: str, home: str) -> str:
    """The absolute path of a folder that programs may see as a whole. ToolError: it is none."""
    absolute, real = os.path.abspath(path), os.path.realpath(path)
    if not os.path.isdir(real):
        raise ToolError(f"{path}: no such folder to show to programs")
    places = ("/", "/home", "/var", "/tmp", "/etc", "/dev", "/proc", "/sys", "/box")
    if real in places or absolute in places or (_inside(home, real) and home != "/"):
        raise ToolError(f"programs would see all of {path}: name a folder of its own, with nothing else in it")
    return absolute


def refuse_shared_data(plan: MountPlan, public: Path) -> None:
    """ToolError: the folder `public`, and so the answers next to it, lie in a folder that solutions can read."""
    places = [os.path.realpath(public), *_with_answers(public)]
    for source, target in plan.binds:
        if any(_inside(place, source) or _inside(place, target) for place in places):
            raise ToolError(f"{public} lies in {target}, which every solution can read: move the task data elsewhere")


def refuse_answers_among_weights(weights: str | None, public: Path) -> None:
    """ToolError: the folder of weights (a real path) and that of a task, with its answers, lie in one another."""
    if weights is not None:
        _refuse_answers_in(weights, f"the weights in {weights}", public)


def refuse_answers_among_shown(folders: Sequence[str], public: Path) -> None:
    """ToolError: a folder that is shown and that of a task, with its answers, lie in one another."""
    for folder in folders:
        _refuse_answers_in(os.path.realpath(folder), folder, public)


def _refuse_answers_in(folder: str, name: str, public: Path) -> None:
    if any(_inside(place, folder) or _inside(folder, place) for place in _with_answers(public)):
        raise ToolError(f"{public} and {name}, which every solution can read, lie in one another: move either")


def _with_answers(public: Path) -> set[str]:
    """Real paths of the folders that hold answers: beside the folder `public`, and beside the one that it is a link to."""
    tasks = os.path.realpath(os.path.dirname(os.path.abspath(public))), os.path.dirname(os.path.realpath(public))
    return {*tasks, *(os.path.realpath(os.path.join(task, "private")) for task in tasks)}


def refuse_unreadable(public: Path) -> None:
    """ToolError: an ordinary user cannot read all of the folder `public`. For sandboxes of root."""
    for folder, folders, files in os.walk(public):
        for name in [".", *folders, *files]:
            with suppress(FileNotFoundError):
                mode = os.stat(os.path.join(folder, name)).st_mode
                needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
                if mode & needed != needed:
                    path = os.path.normpath(os.path.join(folder, name))
                    raise ToolError(
                        f"solutions run as nobody and cannot read {path}: chmod -R o+rX {shlex.quote(str(public))}"
                    )


def refuse_unreachable(folder: str) -> None:
    """ToolError: an ordinary user cannot come to `folder`, whose path is real. For sandboxes of root without namespaces."""
    for parent in Path(folder).parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            raise ToolError(
                f"solutions run as nobody and cannot come to {folder}: chmod o+x {shlex.quote(str(parent))}"
            )


def _bind(source: str, target: str) -> None:
    linux.mount("/old" + source, target, None, linux.MS_BIND | linux.MS_REC)
    linux.protect_mount(target, _READ_ONLY, recursive=True)


def _show(source: str, target: str, mounted: Sequence[str]) -> None:
    """Show the folder `source`, read-only and with inodes of its own, which leave no lock to other runs.

    Where the kernel refuses that, by a bind mount. `mounted` are this machine's mounts.
    """
    os.chdir("/old" + source)  # a name in the options would need escapes
    try:
        # Without an upper layer the kernel wants two lower ones.
        linux.mount("overlay", target, "overlay", _MOUNT_READ_ONLY, f"lowerdir={_NOTHING}:.")
    except OSError:
        return _bind(source, target)
    finally:
        os.chdir("/")
    outer = ""
    for path in mounted:
        if _inside(path, source) and path != source and not (outer and _inside(path, outer)):
            outer = path
            _bind(path, target + path[len(source.rstrip("/")) :])


def _put_file(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _make_devices(more: Sequence[str]) -> None:
    os.mkdir("/dev")
    for name in (*DEVICES, *(name for name in more if os.path.exists(f"/old/dev/{name}"))):
        os.makedirs(os.path.dirname(f"/dev/{name}"), exist_ok=True)
        _put_file(f"/dev/{name}", b"")
        linux.mount(f"/old/dev/{name}", f"/dev/{name}", None, linux.MS_BIND)
        # Writing to the device stays possible; changing its times, which other runs would see, does not.
        linux.protect_mount(f"/dev/{name}", _READ_ONLY & ~linux.MOUNT_ATTR_NODEV, recursive=False)
    os.symlink("/proc/self/fd", "/dev/fd")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"/dev/{name}")
    os.mkdir("/dev/shm")


def _mount_disk(place: str, size_mb: int) -> None:
    flags = linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("tmpfs", place, "tmpfs", flags, f"size={size_mb}m,nr_inodes={1000 + 100 * size_mb},mode=0755")


def _make_disk(disk_mb: int, shared_mb: int | None, own: Callable[[str], None]) -> None:
    os.mkdir("/box")
    _mount_disk("/box", disk_mb)
    for name in (WORK, HOME, TEMPORARY, "/box/shm"):
        os.mkdir(name, 0o700)
        own(name)
    os.mkdir("/tmp")
    linux.mount(TEMPORARY, "/tmp", None, linux.MS_BIND)
    if shared_mb is None:
        linux.mount("/box/shm", "/dev/shm", None, linux.MS_BIND)
    else:
        _mount_disk("/dev/shm", shared_mb)
        own("/dev/shm")


def _make_proc(statistics: str, unseen: Sequence[str]) -> None:
    os.mkdir("/proc")
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC, "hidepid=2")
    for source, names in (("/dev/null", _UNSEEN_FILES), (_NOTHING, [*_UNSEEN_FOLDERS, *unseen])):
        for name in names:
            with suppress(FileNotFoundError):
                linux.mount(source, f"/proc/{name}", None, linux.MS_BIND)
    _put_file("/stat", statistics.encode())
    linux.mount("/stat", "/proc/stat", None, linux.MS_BIND)
    linux.protect_mount("/proc/stat", _READ_ONLY, recursive=False)
    os.unlink("/stat")


def _hide(plan: MountPlan) -> None:
    """Put an empty folder, or a file that cannot be opened, over all that is hidden."""
    file, folder, part = f"{HIDDEN}/file", f"{HIDDEN}/folder", f"{HIDDEN}/part"
    os.makedirs(folder)
    os.mkdir(part)
    _put_file(file, b"")
    _bind("/dev/null", file)  # which cannot be opened on a mount without devices
    linux.mount(folder, folder, None, linux.MS_BIND)
    linux.protect_mount(folder, _READ_ONLY, recursive=False)
    for path, _, names in plan.hidden_inside():
        if not os.path.isdir(path):
            with suppress(FileNotFoundError):  # it has gone since it was found
                linux.mount(file, path, None, linux.MS_BIND)
        elif not names:
            linux.mount(folder, path, None, linux.MS_BIND)
        else:
            linux.mount("tmpfs", part, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=64k,mode=0755")
            for name in names:
                if os.path.isdir(f"{path}/{name}"):
                    os.mkdir(f"{part}/{name}")
                else:
                    _put_file(f"{part}/{name}", b"")
                linux.mount(f"{path}/{name}", f"{part}/{name}", None, linux.MS_BIND | linux.MS_REC)
            linux.protect_mount(part, _READ_ONLY, recursive=True)
            linux.mount(part, path, None, linux.MS_MOVE)


def build_root(
    plan: MountPlan,
    public: str,
    weights: str | None,
    code: bytes,
    disk_mb: int,
    shared_mb: int | None,
    own: Callable[[str], None],
    devices: Sequence[str],
    unseen: Sequence[str],
) -> tuple[int, int]:
    """Replace the root of this process, which is the first one of new mount and pid namespaces.

    `public` becomes ./input of the work folder, `weights` ./weights, and `code` the script; all files may take `disk_mb`
    MB, of which /dev/shm is a part unless it has `shared_mb` of its own; `own` gives a folder to the solution's user; of
    `devices`, those that exist are added to the usual ones; the folders `unseen` of /proc are empty. Returns descriptors
    of the work folder and its disk.
    """
    mounted = _mount_points()
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", "/tmp", "tmpfs", linux.MS_NOSUID, "size=16m,mode=0755")
    os.chdir("/tmp")
    os.mkdir("old")
    linux.pivot_root(".", "old")
    os.chdir("/")
    os.mkdir(_NOTHING)
    linux.mount("tmpfs", _NOTHING, "tmpfs", _MOUNT_READ_ONLY, "size=4k,mode=0555")
    _make_devices(devices)
    _make_disk(disk_mb, shared_mb, own)
    for source, target in plan.binds:
        if os.path.isdir("/old" + source):
            os.makedirs(target, exist_ok=True)
            _show(source, target, mounted)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open("/old" + source, "rb") as file:
                _put_file(target, file.read())
    for content, path in plan.links:
        os.symlink(content, path)
    _hide(plan)
    os.makedirs("/etc", exist_ok=True)
    for name, text in _ETC.items():
        _put_file(f"/etc/{name}", text.encode())
    for folder, name in ((public, "input"), (weights, WEIGHTS)):
        if folder is not None:
            os.mkdir(f"{WORK}/{name}")
            _show(folder, f"{WORK}/{name}", mounted)
    os.mkdir(CODE)
    _put_file(f"{CODE}/{SCRIPT}", code)
    _make_proc(plan.statistics, unseen)
    linux.detach("/old")
    os.rmdir("/old")
    linux.protect_mount("/", _READ_ONLY & ~linux.MOUNT_ATTR_NODEV, recursive=False)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    return os.open(WORK, flags), os.open("/box", flags)
