"""Attacks on files, memory and environment: reading the answers and anything else that was not handed in, and writing
outside the work folder.

Covered: paths, links, /proc, descriptors, mounts, memory, other runs. Not covered: what an interpreter's own folders
hold.
"""

from __future__ import annotations

from .attack import Attack

_BY_PATH = """
for path in W["secrets"]:
    for name in (path, "/" + path, "/old" + path, "/host" + path, "/proc/self/root" + path, "/mnt" + path):
        look(name)
"""

_UPWARDS = """
tail = W["answers"][len(W["task"]):]
for start in (".", "input", HOME, TEMPORARY, os.path.dirname(os.path.abspath(sys.argv[0])), "/proc/self/cwd"):
    for level in range(12):
        up = start + "/.." * level
        look(up + tail)
        look(up + W["answers"])
for start in ("input", ".", "/"):
    try:
        at = os.open(start, os.O_PATH)
        for level in range(12):
            look("." + tail, folder=at)
            look("." + W["answers"], folder=at)
            at = os.open("..", os.O_PATH, dir_fd=at)
    except OSError:
        pass
"""

_LINKS = """
for number, target in enumerate([*W["secrets"], W["task"], W["private"], "/proc/self/cwd/input/../private"]):
    try:
        os.symlink(target, f"{W['mark']}{number}")
        look(f"{W['mark']}{number}")
        look(f"{W['mark']}{number}/answers.csv")
        look(f"{W['mark']}{number}/private/answers.csv")
    except OSError:
        pass
    for place in (".", HOME, TEMPORARY):
        try:
            os.link(target, f"{place}/{W['mark']}hard{number}")
            look(f"{place}/{W['mark']}hard{number}")
        except OSError:
            pass
    try:
        handle = os.open(target, os.O_PATH)
        look(f"/proc/self/fd/{handle}")
        look(f"/proc/self/fd/{handle}/private/answers.csv")
    except OSError:
        pass
for name in os.listdir("."):
    if W["mark"] in name:
        os.unlink(name)
"""

_PROC = """
for pid in [*pids(), "self", "thread-self"]:
    for name in (f"/proc/{pid}", f"/proc/{pid}/task/{pid}"):
        for path in W["secrets"]:
            look(f"{name}/root{path}")
            look(f"{name}/cwd/{os.path.basename(path)}")
        look(f"{name}/cwd/../private/answers.csv")
        look(f"{name}/cmdline")
        try:
            numbers = os.listdir(f"{name}/fd")
        except OSError:
            continue
        for number in numbers:
            # Only what is a file or a folder: to open another program's pipe would disturb it.
            try:
                kind = os.stat(f"{name}/fd/{number}").st_mode
            except OSError:
                continue
            if stat.S_ISREG(kind):
                look(f"{name}/fd/{number}")
            elif stat.S_ISDIR(kind):
                look(f"{name}/fd/{number}/answers.csv")
                look(f"{name}/fd/{number}{W['answers']}")
"""

_DESCRIPTORS = """
for number in range(3, 4096):
    try:
        search(f"descriptor {number}", os.pread(number, 1 << 20, 0))
    except OSError:
        pass
    look("answers.csv", folder=number)
    look("../private/answers.csv", folder=number)
    look("." + W["answers"], folder=number)
    try:
        with socket.socket(fileno=os.dup(number)) as end:
            opened(f"a socket was inherited: descriptor {number}")
    except OSError:
        pass
"""

_MOUNTS = """
for pid in ("self", 1, os.getppid()):
    try:
        lines = open(f"/proc/{pid}/mountinfo").read().splitlines()
    except OSError:
        continue
    for line in lines:
        words = line.split()
        root, point = words[3].replace("\\\\040", " "), words[4].replace("\\\\040", " ")
        for path in W["secrets"]:
            look(f"{point}{path}")
            if path.startswith(root):
                look(f"{point}/{path[len(root):]}")
        for up in range(1, 5):
            look(f"{point}{'/..' * up}/private/answers.csv")
        major, minor = map(int, words[2].split(":"))
        if major:
            # The disk below a mount; opened and no more.
            try:
                os.mknod(W["mark"], stat.S_IFBLK | 0o600, os.makedev(major, minor))
                os.close(os.open(W["mark"], os.O_RDONLY))
                opened(f"the disk below {point}")
            except OSError:
                pass
            try:
                os.unlink(W["mark"])
            except OSError:
                pass
"""

_WALK = """
seen = 0
for top in (os.path.dirname(W["task"]), os.path.dirname(os.path.dirname(W["task"])), "/"):
    for folder, folders, names in os.walk(top):
        seen += len(names)
        for name in names:
            if name == "answers.csv":
                look(f"{folder}/{name}")
        if folder in ("/", "/usr", "/usr/local"):
            folders[:] = [name for name in folders if name not in ("proc", "sys", "lib", "share", "include")]
        if seen > 20000:
            break
"""

_ENVIRONMENT = """
search("os.environ", "\\n".join(os.environ.values()).encode(errors="replace"))
search("env", subprocess.run(["env"], capture_output=True).stdout)
for pid in [*pids(), "self"]:
    look(f"/proc/{pid}/environ")
    look(f"/proc/{pid}/auxv")
"""

_MEMORY_SCAN = """
def scan(pid):
    try:
        memory = open(f"/proc/{pid}/mem", "rb", 0)
        spans = open(f"/proc/{pid}/maps").read().splitlines()
    except OSError:
        return
    for line in spans:
        words = line.split()
        first, last = (int(word, 16) for word in words[0].split("-"))
        if words[1].startswith("rw") and last - first <= 256 << 20 and "[v" not in line:
            try:
                memory.seek(first)
                search(f"memory of {pid}", memory.read(last - first))
            except (OSError, ValueError):
                pass
"""

_PARENTS_MEMORY = """
buffer = ctypes.create_string_buffer(4096)
number = 270 if ARM else 310
for pid in pids():
    look(f"/proc/{pid}/mem", at=W["address"], size=4096)
    vectors = (ctypes.c_uint64 * 4)(ctypes.addressof(buffer), 64, W["address"], 64)
    if libc.syscall(number, pid, ctypes.byref(vectors), 1, ctypes.byref(vectors, 16), 1, 0) > 0:
        search(f"memory of {pid}", buffer.raw)
"""

_OWN_MEMORY = _MEMORY_SCAN + "scan('self')\n"

_BESIDE_FILES = """
def visit(top, level=0):
    try:
        entries = list(os.scandir(top))[:500]
    except OSError:
        return
    for entry in entries:
        try:
            if W["beside"] in entry.name and not entry.is_dir(follow_symlinks=False):
                look(entry.path)
            elif level < 4 and entry.is_dir(follow_symlinks=False) and (
                level or top not in ("/tmp", "/var/tmp") or entry.name.startswith(("mletools-", W["beside"]))
            ):
                visit(entry.path, level + 1)
        except OSError:
            pass
end = time.monotonic() + 0.4
while time.monotonic() < end:
    for top in (".", "..", HOME, HOME + "/..", TEMPORARY, "/tmp", "/var/tmp", "/dev/shm", "/box"):
        visit(top)
    for pid in named(W["beside"]):
        for name in ("cwd", "root/tmp", "root/dev/shm"):
            visit(f"/proc/{pid}/{name}")
    time.sleep(0.1)
"""

_BESIDE_MEMORY = (
    _MEMORY_SCAN
    + """
end = time.monotonic() + 0.4
while time.monotonic() < end:
    for pid in named(W["beside"]):
        scan(pid)
        look(f"/proc/{pid}/environ")
        look(f"/proc/{pid}/cmdline")
    time.sleep(0.1)
"""
)

_SHARED_MEMORY = """
libc.shmat.restype = ctypes.c_void_p
known = [W["shm_id"], *range(64)]
try:
    known += [int(line.split()[1]) for line in open("/proc/sysvipc/shm").read().splitlines()[1:]]
except OSError:
    pass
for number in dict.fromkeys(known):
    # Attached to read: whose it is does not matter to the search, and nothing is changed.
    address = libc.shmat(number, None, 0o10000)
    if address not in (None, ctypes.c_void_p(-1).value):
        search(f"segment {number}", ctypes.string_at(address, 64))
        libc.shmdt(ctypes.c_void_p(address))
look(W["shm_file"])
look(f"/proc/{os.getppid()}/root{W['shm_file']}")
"""

_WRITE_INPUT = """
tries = [
    lambda: open("input/train.csv", "a").write("more"),
    lambda: os.open("input/train.csv", os.O_RDWR | os.O_TRUNC),
    lambda: os.truncate("input/train.csv", 0),
    lambda: os.chmod("input", 0o777),
    lambda: os.chmod("input/train.csv", 0o666),
    lambda: os.mkdir("input/new"),
    lambda: open("input/new.csv", "w").write("new"),
    lambda: os.symlink("/etc/passwd", "input/link"),
    lambda: os.link("input/train.csv", "input/hard"),
    lambda: os.rename("input/test.csv", "input/other.csv"),
    lambda: os.unlink("input/train.csv"),
    lambda: open(f"/proc/self/fd/{os.open('input/train.csv', os.O_RDONLY)}", "r+").write("more"),
    lambda: open(f"/proc/self/cwd/input/test.csv", "r+").write("more"),
    lambda: open(W["task"] + "/public/test.csv", "a").write("more"),
    lambda: open(f"/proc/{os.getppid()}/root{W['task']}/public/test.csv", "a").write("more"),
]
for attempt in tries:
    try:
        attempt()
    except OSError:
        pass
for flags in (32 | 4096, 32 | 4096 | 1):
    libc.mount(None, b"input", None, flags & ~1, None)
"""

_WRITE_OUTSIDE = """
for folder in W["folders"]:
    for name in (folder, f"/proc/{os.getppid()}/root{folder}", f"/proc/1/root{folder}", f"/old{folder}"):
        try:
            with open(f"{name}/{W['mark']}", "w") as file:
                file.write("written")
        except OSError:
            pass
"""

_INTERPRETER = """
import sysconfig
folders = {*sys.path, *sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, "/usr/lib", "/usr/bin", "/etc", "/"}
for name in ("numpy", "pandas", "sklearn"):
    try:
        folders.add(os.path.dirname(__import__(name).__file__))
    except ImportError:
        pass
own = os.path.realpath(".")
for folder in sorted(folders):
    if os.path.isdir(folder) and os.path.realpath(folder) != own:
        # A file without a name: whoever may make one may write here, and it is gone when it is closed.
        try:
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
            opened(f"{folder} can be written to")
        except OSError:
            pass
"""

ATTACKS = (
    Attack("answers by their path", "files", _BY_PATH),
    Attack("answers through ../", "files", _UPWARDS),
    Attack("answers through links", "files", _LINKS),
    Attack("answers through /proc of others", "files", _PROC),
    Attack("inherited descriptors", "files", _DESCRIPTORS),
    Attack("mounts and the disks below", "files", _MOUNTS),
    Attack("search of all files", "files", _WALK),
    Attack("environment of others", "files", _ENVIRONMENT),
    Attack("memory of others", "files", _PARENTS_MEMORY),
    Attack("own memory, for what was there before", "files", _OWN_MEMORY),
    Attack("shared memory of the machine", "files", _SHARED_MEMORY),
    Attack("files of a run beside it", "files", _BESIDE_FILES, beside=True),
    Attack("memory of a run beside it", "files", _BESIDE_MEMORY, beside=True),
    Attack("writing to the public folder", "files", _WRITE_INPUT),
    Attack("writing outside the work folder", "files", _WRITE_OUTSIDE),
    Attack("writing to the interpreter's folders", "files", _INTERPRETER),
)
