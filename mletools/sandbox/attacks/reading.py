"""Attacks on files, memory and environment: reading secrets, and writing outside the work folder.

Covered: paths, links, /proc, descriptors, mounts, memory, other runs. Not covered: the content of the interpreter's
folders (`tables`).
"""

from .attack import Attack

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
            with suppress(OSError, ValueError):
                memory.seek(first)
                search(f"memory of {pid}", memory.read(last - first))
"""

_PROGRAMS = {
    "answers by path": """
for root, path in product(("", "/", "/old", "/host", "/proc/self/root", "/mnt"), W["secrets"]):
    look(root + path)
""",
    "answers through ../": """
tail = W["answers"][len(W["task"]):]
starts = (".", "input", HOME, TEMPORARY, os.path.dirname(os.path.abspath(sys.argv[0])), "/proc/self/cwd")
for start, level, path in product(starts, range(12), (tail, W["answers"])):
    look(start + "/.." * level + path)
for start in ("input", ".", "/"):
    with suppress(OSError):
        at = os.open(start, os.O_PATH)
        for level in range(12):
            look("." + tail, folder=at)
            look("." + W["answers"], folder=at)
            at = os.open("..", os.O_PATH, dir_fd=at)
""",
    "answers through links": """
for number, target in enumerate([*W["secrets"], W["task"], W["private"], "/proc/self/cwd/input/../private"]):
    with suppress(OSError):
        os.symlink(target, f"{W['mark']}{number}")
        look(f"{W['mark']}{number}")
        look(f"{W['mark']}{number}/answers.csv")
        look(f"{W['mark']}{number}/private/answers.csv")
    for place in (".", HOME, TEMPORARY):
        with suppress(OSError):
            os.link(target, f"{place}/{W['mark']}hard{number}")
            look(f"{place}/{W['mark']}hard{number}")
    with suppress(OSError):
        handle = os.open(target, os.O_PATH)
        look(f"/proc/self/fd/{handle}")
        look(f"/proc/self/fd/{handle}/private/answers.csv")
for name in os.listdir("."):
    if W["mark"] in name:
        os.unlink(name)
""",
    "answers through /proc of other processes": """
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
            # Files and folders only: opening another program's pipe would disturb it.
            try:
                kind = os.stat(f"{name}/fd/{number}").st_mode
            except OSError:
                continue
            if stat.S_ISREG(kind):
                look(f"{name}/fd/{number}")
            elif stat.S_ISDIR(kind):
                look(f"{name}/fd/{number}/answers.csv")
                look(f"{name}/fd/{number}{W['answers']}")
""",
    "inherited file descriptors": """
for number in range(3, 4096):
    with suppress(OSError):
        search(f"descriptor {number}", os.pread(number, 1 << 20, 0))
    look("answers.csv", folder=number)
    look("../private/answers.csv", folder=number)
    look("." + W["answers"], folder=number)
    with suppress(OSError), socket.socket(fileno=os.dup(number)):
        report_open(f"an inherited socket: descriptor {number}")
""",
    "mounts and their block devices": """
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
            # The block device of the mount; it is opened, not read.
            with suppress(OSError):
                os.mknod(W["mark"], stat.S_IFBLK | 0o600, os.makedev(major, minor))
                os.close(os.open(W["mark"], os.O_RDONLY))
                report_open(f"the block device of {point}")
            with suppress(OSError):
                os.unlink(W["mark"])
""",
    "search of the whole file system": """
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
""",
    "environment of other processes": """
search("os.environ", "\\n".join(os.environ.values()).encode(errors="replace"))
search("env", subprocess.run(["env"], capture_output=True).stdout)
for pid in [*pids(), "self"]:
    look(f"/proc/{pid}/environ")
    look(f"/proc/{pid}/auxv")
""",
    "memory of other processes": """
buffer = ctypes.create_string_buffer(4096)
number = 270 if ARM else 310
for pid in pids():
    look(f"/proc/{pid}/mem", at=W["address"], size=4096)
    vectors = (ctypes.c_uint64 * 4)(ctypes.addressof(buffer), 64, W["address"], 64)
    if libc.syscall(number, pid, ctypes.byref(vectors), 1, ctypes.byref(vectors, 16), 1, 0) > 0:
        search(f"memory of {pid}", buffer.raw)
""",
    "canaries in its own memory": _MEMORY_SCAN + "scan('self')\n",
    "shared memory of the host": """
known = [W["shm_id"], *range(64)]
with suppress(OSError):
    known += [int(line.split()[1]) for line in open("/proc/sysvipc/shm").read().splitlines()[1:]]
for number in dict.fromkeys(known):
    address = attach(number, 0o10000)  # read-only
    if address:
        search(f"segment {number}", ctypes.string_at(address, 64))
        libc.shmdt(address)
look(W["shm_file"])
look(f"/proc/{os.getppid()}/root{W['shm_file']}")
""",
    "files of a concurrent run": """
def visit(top, level=0):
    try:
        entries = list(os.scandir(top))[:500]
    except OSError:
        return
    for entry in entries:
        with suppress(OSError):
            if W["concurrent"] in entry.name and not entry.is_dir(follow_symlinks=False):
                look(entry.path)
            elif level < 4 and entry.is_dir(follow_symlinks=False) and (
                level or top not in ("/tmp", "/var/tmp") or entry.name.startswith(("mletools-", W["concurrent"]))
            ):
                visit(entry.path, level + 1)
for _ in repeat(0.4, 0.1):
    for top in (".", "..", HOME, HOME + "/..", TEMPORARY, "/tmp", "/var/tmp", "/dev/shm", "/box"):
        visit(top)
    for pid, name in product(pids_named(W["concurrent"]), ("cwd", "root/tmp", "root/dev/shm")):
        visit(f"/proc/{pid}/{name}")
""",
    "memory of a concurrent run": _MEMORY_SCAN
    + """
for _ in repeat(0.4, 0.1):
    for pid in pids_named(W["concurrent"]):
        scan(pid)
        look(f"/proc/{pid}/environ")
        look(f"/proc/{pid}/cmdline")
""",
    "writing to the public folder": """
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
    with suppress(OSError):
        attempt()
for flags in (32 | 4096, 32 | 4096 | 1):
    libc.mount(None, b"input", None, flags & ~1, None)
""",
    "writing outside the work folder": """
for root, folder in product(("", f"/proc/{os.getppid()}/root", "/proc/1/root", "/old"), W["folders"]):
    write(f"{root}{folder}/{W['mark']}")
""",
    "writing to the interpreter's folders": """
import sysconfig
folders = {*sys.path, *sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, "/usr/lib", "/usr/bin", "/etc", "/"}
for name in ("numpy", "pandas", "sklearn"):
    with suppress(ImportError):
        folders.add(os.path.dirname(__import__(name).__file__))
own = os.path.realpath(".")
for folder in sorted(folders):
    if os.path.isdir(folder) and os.path.realpath(folder) != own:
        # An unnamed file, which is gone once closed; it shows that files can be created here.
        with suppress(OSError):
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
            report_open(f"{folder} can be written to")
""",
}

_CONCURRENT = {"files of a concurrent run", "memory of a concurrent run"}
ATTACKS = tuple(Attack(name, "files", code, concurrent=name in _CONCURRENT) for name, code in _PROGRAMS.items())
