"""Attacks on the next run: changed libraries, planted modules, settings, shared memory, keys.

Covered: two runs in sequence. The second one is honest, prints everything that a process can inherit and must give the
same outcome as always; or it looks for what the first one left. Not covered: timing and load side channels.
"""

from .attack import Attack, next_run_unchanged

HONEST = """
import random, resource, sys
seeded = "numpy" in sys.modules  # preimported, so the run has seeded it
import pandas
from sklearn.linear_model import LogisticRegression

train, test = pandas.read_csv("input/train.csv"), pandas.read_csv("input/test.csv")
model = LogisticRegression().fit(train[["x"]], train["y"])
print(model.predict_proba(test).round(9).tolist(), random.random(), 7 + 1, sorted({"a", "b"}))
test.assign(y=model.predict(test)).to_csv("submission.csv", index=False)
print(os.umask(0), os.getpriority(os.PRIO_PROCESS, 0), len(os.sched_getaffinity(0)), time.tzname, signal.pthread_sigmask(0, []))
print([resource.getrlimit(kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_STACK)])
print(sorted(name for name in os.environ if name not in ("OLDPWD", "PWD")), signal.getsignal(signal.SIGTERM))

import builtins, decimal, gc, importlib, locale, logging, pickle, tempfile, threading, warnings
import numpy, sklearn, sklearn.metrics, sklearn.model_selection
print([(function.__module__, function.__qualname__) for function in (
    pandas.read_csv, pandas.DataFrame.to_csv, sklearn.metrics.accuracy_score, sklearn.metrics.log_loss,
    LogisticRegression.fit, LogisticRegression.predict, open, print, sorted, json.loads, pickle.loads, numpy.mean, time.time)])
print(sklearn.metrics.accuracy_score([1, 0, 1], [1, 1, 1]), numpy.random.random() if seeded else None, numpy.mean([1, 2]), json.loads("[1]"))
print(sum(map(len, dir(builtins))), "planted" in sys.modules, len(sys.meta_path), len(sys.path_hooks), len(sys.path))
print(threading.active_count(), len(os.listdir("/proc/self/task")), sorted(os.listdir("/proc/self/fd")), os.getcwd() == os.path.realpath("."))
print([signal.getitimer(kind) for kind in range(3)], signal.sigpending(), [str(signal.getsignal(number)).split(' at ')[0] for number in sorted(signal.valid_signals())])
print([(gc.isenabled(), gc.get_threshold(), sys.gettrace(), sys.getprofile(), sys.getrecursionlimit(), sys.getswitchinterval())])
print(locale.setlocale(locale.LC_ALL), logging.root.level, logging.root.handlers, len(warnings.filters), decimal.getcontext().prec)
print(pandas.get_option("display.max_rows"), numpy.geterr(), numpy.get_printoptions(), sklearn.get_config(), socket.getdefaulttimeout(), tempfile.tempdir)
print(os.environ.get("PATH"), os.environ.get("PYTHONHASHSEED"), hash("a"), sys.argv, sys.flags, sys.dont_write_bytecode)
with open("/proc/self/oom_score_adj") as first, open("/proc/self/comm") as second, open("/proc/self/timers") as third:
    print(first.read(), second.read().strip() == W["mark"], third.read())
planted = ("pandas.py", "sklearn", "sitecustomize.py", "usercustomize.py", "planted.pth", "planted")
for top in (".", HOME, TEMPORARY):
    for folder, folders, names in os.walk(top):
        print([name for name in [*folders, *names] if name in planted])
        if folder.count("/") - top.count("/") > 5:
            folders.clear()
"""

_MODULES = """
poison = "import os\\nos.environ['PLANTED'] = '1'\\nraise ImportError('planted')\\n"
places = {".", HOME, TEMPORARY, os.path.dirname(os.path.abspath(sys.argv[0])), *sys.path[:1]}
version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
places |= {f"{HOME}/.local/lib/{version}/site-packages", f"{HOME}/.config/matplotlib", f"{HOME}/.ipython"}
for place in places:
    for name in ("pandas.py", "sklearn/__init__.py", "sitecustomize.py", "usercustomize.py"):
        with suppress(OSError):
            os.makedirs(os.path.dirname(f"{place}/{name}"), exist_ok=True)
        write(f"{place}/{name}", poison)
    write(f"{place}/planted.pth", "import os; os.environ['PLANTED'] = '1'\\n")
"""

_IMPORTED = """
# One change of each kind; those that a sandbox refuses are skipped.
import atexit, builtins, decimal, gc, json, locale, logging, pickle, random, resource, tempfile, threading, warnings
import numpy, pandas, sklearn, sklearn.metrics
from sklearn.linear_model import LogisticRegression
"""

_LEAVE_SHARED = """
address = attach(libc.shmget(W["key"], 4096, 0o666 | 0o1000))
if address:
    ctypes.memmove(address, b"left here", 9)
libc.semget(W["key"], 1, 0o666 | 0o1000)
libc.msgget(W["key"], 0o666 | 0o1000)
for place in ("/dev/shm", "/tmp", TEMPORARY, HOME, "."):
    write(f"{place}/{W['mark']}")
libc.mq_open(b"/" + W["mark"].encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
"""

_FIND_SHARED = """
shared, queue, semaphore = libc.shmget(W["key"], 0, 0), libc.msgget(W["key"], 0), libc.semget(W["key"], 0, 0)
for name, number in (("shared memory", shared), ("a message queue", queue), ("a semaphore", semaphore)):
    if number >= 0:
        report_open(name + " of the previous run exists")
for place in ("/dev/shm", "/tmp", TEMPORARY, HOME, "."):
    if os.path.exists(f"{place}/{W['mark']}"):
        report_open(f"a file of the previous run is in {place}")
if libc.mq_open(b"/" + W["mark"].encode(), os.O_RDWR) >= 0:
    report_open("a message queue of the previous run exists")
libc.mq_unlink(b"/" + W["mark"].encode())
if semaphore >= 0:
    libc.semctl(semaphore, 0, 0)
if queue >= 0:
    libc.msgctl(queue, 0, None)
"""

_LEAVE_KEY = """
add, control = (217, 219) if ARM else (248, 250)
for ring in (-4, -5, -3):
    key = libc.syscall(add, b"user", W["mark"].encode(), b"left here", 9, ctypes.c_long(ring))
    if key >= 0:
        libc.syscall(control, 15, key, 10)  # expires after 10 s
        libc.syscall(control, 5, key, 0x3F3F3F3F)
"""

_FIND_KEY = """
control = 219 if ARM else 250
for ring in (-4, -5, -3):
    if libc.syscall(control, 10, ctypes.c_long(ring), b"user", W["mark"].encode(), 0) >= 0:
        report_open("a key of the previous run exists")
"""

_CHANGES = {
    "libraries patched in memory": """
import builtins, json, random
import pandas, sklearn.linear_model
from sklearn.linear_model import LogisticRegression

pandas.read_csv = LogisticRegression.fit = LogisticRegression.predict = lambda *rest, **more: "patched"
sys.modules["sklearn.linear_model"] = sys.modules["pandas"] = json
random.random = lambda: 0.5
builtins.sorted = builtins.open = lambda *rest, **more: []
os.environ["PLANTED"] = os.environ["PYTHONSTARTUP"] = "1"
sys.path.insert(0, "/tmp")
""",
    "integers changed in place": """
# Changes integers that all Python code shares, and exits before it uses them.
for number in (7, 8):
    ctypes.c_uint32.from_address(id(number) + 24).value = 1000
os.write(1, b"tried\\n")
os._exit(0)
""",
    "process settings": """
import resource
os.umask(0o777)
os.nice(5)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.environ["TZ"] = "Asia/Tokyo"
time.tzset()
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
signal.signal(signal.SIGTERM, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))
sys.setrecursionlimit(50)
os.closerange(3, 1024)
""",
    "one change of every kind": _IMPORTED
    + _MODULES
    + """
class Finder:
    def find_spec(self, *rest):
        raise ImportError("planted")
class Action:
    pass
def attempt(change):
    with suppress(Exception):
        change()
wrong = lambda *rest, **more: 1.0
def code():
    sklearn.metrics.accuracy_score = sklearn.metrics.log_loss = pandas.read_csv = pandas.DataFrame.to_csv = wrong
    LogisticRegression.fit.__code__ = LogisticRegression.predict.__code__ = (lambda *rest, **more: 1.0).__code__
    json.loads = pickle.loads = numpy.mean = time.time = wrong
    builtins.planted = builtins.hash = wrong
    sys.modules["planted"] = json
    sys.path_hooks.insert(0, wrong)
def settings():
    random.seed(1); numpy.random.seed(1)
    warnings.simplefilter("error"); logging.basicConfig(level=1); decimal.getcontext().prec = 3
    pandas.set_option("display.max_rows", 3); numpy.seterr(all="raise"); numpy.set_printoptions(precision=1)
    sklearn.set_config(assume_finite=True); socket.setdefaulttimeout(0.001); tempfile.tempdir = "/nowhere"
    gc.disable(); gc.set_threshold(1, 1, 1); sys.setrecursionlimit(200); sys.setswitchinterval(1.0)
    os.environ.update(PLANTED="1", PYTHONHASHSEED="7", PYTHONPATH="/tmp", OMP_NUM_THREADS="9", PATH="/tmp")
    sys.flags = sys.dont_write_bytecode = None
def processes():
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)
    for kind in range(3):
        signal.setitimer(kind, 0.3, 0.3)
    timer = ctypes.c_void_p()
    libc.timer_create(1, None, ctypes.byref(timer))
    libc.alarm(1)
    if os.fork() == 0:
        os.setsid()
        time.sleep(20)
        os._exit(0)
    for _ in range(4):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
def descriptors():
    for number in range(100, 140):
        os.dup2(os.open("/dev/zero", os.O_RDONLY), number, inheritable=True)
def files():
    folders = (".cache", ".cache/joblib", ".config", ".local", "__pycache__", "joblib_memmapping_folder_1")
    places = (HOME, TEMPORARY, ".", "/dev/shm" if os.getcwd().startswith("/box") else ".")
    for place, folder in product(places, folders):
        os.makedirs(f"{place}/{folder}", exist_ok=True)
        open(f"{place}/{folder}/planted", "w").close()
def kernel():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("900")
    libc.prctl(4, 0, 0, 0, 0)
    os.nice(3)
for change in (files, descriptors, kernel, processes, settings, code):
    attempt(change)
atexit.register(lambda: open(HOME + "/planted", "w").close())
threading.settrace(wrong)
sys.meta_path.insert(0, Finder())
""",
    "unreadable folders": """
os.mkdir(W["mark"])
open(W["mark"] + "/file", "w").close()
for place in (W["mark"], ".", HOME, TEMPORARY):
    with suppress(OSError):
        os.chmod(place, 0)
os.write(1, b"tried\\n")
os._exit(0)
""",
}

ATTACKS = (
    *(
        Attack(name, "next run", code, next_run_unchanged, followed_by=HONEST)
        for name, code in {**_CHANGES, "modules planted in every folder": _MODULES}.items()
    ),
    Attack("shared memory and files left behind", "next run", _LEAVE_SHARED, followed_by=_FIND_SHARED),
    Attack("keys left in kernel keyrings", "next run", _LEAVE_KEY, followed_by=_FIND_KEY),
)
