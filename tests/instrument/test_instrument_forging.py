"""Programs that want reports without the work: what is tried, and what each gets. docs/security.md names what still works."""

from pathlib import Path

import pytest
from conftest import ROOT, mostly_slow
from forged_work import FORGED
from instrument_box import NONCE, run
from instrument_box import box as box  # the fixtures
from instrument_box import public as public

from mletools.grading.rewards import partial_credit
from mletools.instrument import MARKERS, describe, instrument_as, observer_text, read_report
from mletools.sandbox import Limits
from mletools.sandbox.local import LocalSandbox

HEAD = "import os, sys, re, gc\nimport pandas as pd\nfrom sklearn.linear_model import Ridge\n"
WORK = 'd = pd.read_csv("input/train.csv")\n'  # so that there is something to watch
# Prints whatever looks like a token, and whatever leads on from there.
SPILL = """
def spill(thing, depth=0, seen=set()):
    if id(thing) in seen or depth > 6: return
    seen.add(id(thing))
    try: text = repr(thing)[:100000]
    except Exception: return
    for token in re.findall(r"\\[mle:\\w{16}\\]", text):
        os.write(1, f"\\n{token}\\n".encode())
    for name in ("__globals__", "__closure__", "__self__", "__func__", "__wrapped__", "__dict__", "cell_contents", "func",
                 "args", "__defaults__", "__kwdefaults__", "f_locals", "f_globals", "f_back", "__call__", "__reduce__",
                 "__code__", "co_consts", "before", "note", "after", "place", "loop"):
        try: value = getattr(thing, name)
        except Exception: continue
        spill(value, depth + 1)
        if isinstance(value, tuple) or name == "f_locals":
            for each in list(value.values() if name == "f_locals" else value): spill(each, depth + 1)
"""

# A suspended generator's frame leads, when it runs again, to whoever runs it.
KEPT_FRAME = """
def watcher():
    OWN
    yield
    while True:
        frame = own.f_back
        while frame is not None:
            tokens = getattr(frame.f_locals.get("self"), "tokens", {})
            for token in list(tokens.values()): os.write(1, f"\\n{token}\\n".encode())
            frame = frame.f_back
        yield
look = watcher()
next(look)
"""
PEEK_BY_PATH = """
class Place:
    def __fspath__(self): next(look); return "input/train.csv"
pd.read_csv(Place())
"""

# name: (what it tries behind HEAD, the reports of what it really did)
FORGERIES: dict[str, tuple[str, str]] = {
    "by name": (WORK + """
for name in ("_rep" + "ort", "_report", "report", "_hooks", "observer", "load", "compiled"):
    found = globals().get(name) or getattr(__builtins__, name, None) or vars(sys.modules["__main__"]).get(name)
    for what in ("loaded data", "defined model", "trained model"):
        try: found(what)
        except Exception: pass
names = [name for name in sys.modules if name.partition(".")[0] in ("observer", "instrument", "mletools")]
assert not names, names
""", "IL"),
    "its own source": (WORK + """
text = open(__file__).read() + open("/proc/self/cmdline").read() + repr(os.environ) + repr(sys.argv) + repr(sys.orig_argv)
for token in re.findall(r"\\[mle:\\w{16}\\]", text): os.write(1, f"\\n{token}\\n".encode())
""", "IL"),
    "its open files": (WORK + """
for fd in range(64):
    for how in (f"/proc/self/fd/{fd}", f"/dev/fd/{fd}"):
        try:
            if fd < 3: continue
            for token in re.findall(rb"\\[mle:\\w{16}\\]", open(how, "rb").read(1 << 20)): os.write(1, b"\\n" + token + b"\\n")
        except Exception: pass
""", "IL"),
    "its own output": (WORK + """
reader = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
pd.read_csv("input/train.csv")
try: text = os.read(reader, 1 << 16)
except OSError: text = b""
os.write(1, text)  # what was taken away is given back
for token in set(re.findall(rb"\\[mle:\\w{16}\\]", text)):
    for what in (b"defined model", b"trained model", b"predicted test labels"): os.write(1, b"\\n" + token + b" " + what + b"\\n")
""", "IL"),
    "constants of its own code": (WORK + SPILL + """
def mine(): return Ridge().fit(d[["a"]], d["y"])
spill(mine); spill(sys._getframe())
for constant in [*mine.__code__.co_consts, *sys._getframe().f_code.co_consts]: spill(constant)
""", "IL"),
    "frames of the launcher": (WORK + SPILL + """
import inspect, traceback
frame = inspect.currentframe()
while frame is not None:
    spill(frame); frame = frame.f_back
try: 1 / 0
except ZeroDivisionError as error: spill(error.__traceback__.tb_frame)
for entry in inspect.stack(): spill(entry.frame)
""", "IL"),
    "frames below a check": (HEAD + SPILL + """
import builtins
def spy(*args, **options):
    frame = sys._getframe()
    while frame is not None: spill(frame); frame = frame.f_back
    return 1
pd.DataFrame.__len__ = spy
pd.DataFrame.predict = property(spy)
class Shape:
    shape = property(spy); predict = property(spy); logits = property(spy)
Ridge.predict = property(spy)
d = pd.read_csv("input/train.csv")
Ridge(); Shape()
""", "I"),
    "frames below a check, by inspect": (HEAD + SPILL + """
import inspect
def spy(*args, **options):
    frame = inspect.currentframe()
    while frame is not None: spill(frame); frame = frame.f_back
    return 1
pd.DataFrame.__len__ = spy
d = pd.read_csv("input/train.csv")
Ridge()
""", "I"),
    "a frame that is kept": (KEPT_FRAME.replace("OWN", "own = sys._getframe()") + PEEK_BY_PATH, "I"),
    "a frame that is kept, by inspect": (KEPT_FRAME.replace("OWN", "import inspect; own = inspect.currentframe()") + """
gc.set_threshold(1)
gc.callbacks.append(lambda *args: next(look))
pd.read_csv("input/train.csv")
""", "I"),
    "a frame that is kept, of a traceback": (KEPT_FRAME.replace("OWN", """
    try: 1 / 0
    except ZeroDivisionError as error: own = error.__traceback__.tb_frame
""") + PEEK_BY_PATH, "I"),
    "a frame that is kept, in a comparison": (KEPT_FRAME.replace("OWN", "own = sys._getframe()") + """
class Number(float):
    __hash__ = float.__hash__
    def __eq__(self, other): next(look); return True
pd.read_csv("input/train.csv")
Ridge().fit([[Number(i), Number(i % 3)] for i in range(49)], [Number(i) for i in range(49)])
""", "I"),
    "frames of a traceback": (WORK + SPILL + """
class Data:
    def __array__(self, *a, **k): raise ValueError("x")
    def __len__(self): raise ValueError("x")
model = Ridge()
try: list(map(model.fit, [Data()], [Data()]))
except Exception as error:
    at = error.__traceback__
    while at is not None: spill(at.tb_frame); at = at.tb_next
""", "ILD"),
    "frames below a look at a file": (SPILL + """
spied = []
def spy(path, *a, **k):
    if not spied: spied.append(1); frame = sys._getframe(); [spill(frame := frame.f_back) for _ in range(9)]
    return lstat(path, *a, **k)
lstat, os.lstat = os.lstat, spy
""" + WORK, "I"),
    "frames below a class of the standard library": (SPILL + """
import contextlib
spied = []
def spy(self, kind, *rest):
    if not spied:
        spied.append(1); frame = sys._getframe(1)
        if frame.f_code.co_name == "audit": spill(frame)
        spied.clear()
    return kind is not None and issubclass(kind, self._exceptions)
contextlib.suppress.__exit__ = spy
""" + WORK, "IL"),
    "frames below a hook's number": (WORK + SPILL + """
def mine(): return Ridge().fit(d[["a"]], d["y"])
class Spy(int):
    def __hash__(self):
        frame = sys._getframe()
        while frame is not None: spill(frame); frame = frame.f_back
        return 1
    __eq__ = lambda self, other: hash(self) == 0
for hook in mine.__code__.co_consts:
    for name in ("before", "note", "spread", "after", "place", "loop"):
        if hasattr(hook, name): getattr(hook, name)(Spy(1), [pd.read_csv])
""", "IL"),
    "frames below an audit hook": (WORK + SPILL + """
def spy(*a):
    frame = sys._getframe()
    while frame is not None: spill(frame); frame = frame.f_back
    return False
class Spy(str):
    endswith = startswith = __eq__ = lambda *a: spy()
    __hash__ = lambda self: spy() or 1
class Frame:
    tb_frame = property(lambda self: spy() or sys._getframe())
sys.audit("open", Spy("x"), "r", 0)
sys.audit("object.__getattr__", d, Spy("x"))
sys.audit("object.__getattr__", Frame(), "tb_frame")
""", "IL"),
    "frames below a loop": (WORK + SPILL + """
import torch
class Spy(str):
    def __hash__(self):
        frame = sys._getframe()
        while frame is not None: spill(frame); frame = frame.f_back
        return 1
rows = [[Spy(at)] for at in range(60)]
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.p = torch.nn.Parameter(torch.zeros(1))
    def forward(self, x): return self.p.sum()
net = Net(); opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = net(rows); net.p.grad = torch.zeros(1); opt.step()
""", "ILD"),
    "frames below a value passed on": (WORK + SPILL + """
class Spy:
    @property
    def __class__(self):
        frame = sys._getframe()
        while frame is not None: spill(frame); frame = frame.f_back
        return Spy
class Own: pass
Own.fit = Spy()
run = [lambda *a: 0][0]
run(Own.fit)
""", "IL"),
    "garbage": (WORK + SPILL + """
for thing in gc.get_objects():
    if type(thing) in (dict, list, type(spill), type(spill.__get__(1))): spill(thing)
for thing in gc.get_referrers(os.write): spill(thing)
""", "IL"),
    "garbage of a hook": (WORK + SPILL + """
def mine(): return Ridge().fit(d[["a"]], d["y"])
for hook in mine.__code__.co_consts:
    for name in ("before", "after"):
        for thing in gc.get_referents(getattr(hook, name, 0)): spill(thing)
""", "IL"),
    "tracing": (SPILL + """
def trace(frame, event, arg):
    spill(frame)
    return trace
sys.settrace(trace)
""" + WORK + "Ridge()\nsys.settrace(None)\n", "I"),
    "profiling": (SPILL + """
def trace(frame, event, arg): spill(frame)
sys.setprofile(trace)
""" + WORK + "sys.setprofile(None)\nRidge()\n", "I"),
    "threads' frames": (WORK + SPILL + "for frame in sys._current_frames().values(): spill(frame)\nRidge()\n", "IL"),
    "memory by ctypes": (WORK + """
import ctypes
for at in range(0, 1000, 8):
    ctypes.string_at(id(d) + at, 8)
Ridge()
""", "IL"),
    "its memory": (WORK + """
try:
    maps = open("/proc/self/maps").read()
    memory = open("/proc/self/mem", "rb", 0)
    for line in maps.splitlines():
        begin, end = (int(each, 16) for each in line.split()[0].split("-"))
        if "rw" in line.split()[1] and end - begin < 1 << 26:
            memory.seek(begin)
            for token in set(re.findall(rb"\\[mle:\\w{16}\\]", memory.read(end - begin))): os.write(1, b"\\n" + token + b"\\n")
except OSError: pass
""", "IL"),
    "pickled hooks": (WORK + """
import pickle
def mine(): return Ridge().fit(d[["a"]], d["y"])
for hook in mine.__code__.co_consts:
    if hasattr(hook, "after"):
        text = pickle.dumps(hook)
        assert b"mle" not in text
        assert pickle.loads(text).after(1, 5) == 5
""", "IL"),
    "other functions in place": (HEAD + """
import builtins, json
seen = []
def spy(*args): seen.append(args); return len(args)
real = os.write
os.write = lambda fd, text: (seen.append(text), real(fd, text))[1]
builtins.len = builtins.callable = builtins.getattr = spy
d = pd.read_csv("input/train.csv")
real(2, repr(seen).encode())
""", "I"),
}  # fmt: skip


@pytest.mark.parametrize("name", mostly_slow(FORGERIES, 5))
def test_a_forger_gets_what_it_worked_for(box: LocalSandbox, public: Path, name: str) -> None:
    body, letters = FORGERIES[name]
    code = body if body.startswith(HEAD) else HEAD + body
    found, outcome = run(box, public, code)
    assert outcome.status == "ok" or name == "other functions in place", outcome.stderr.decode()
    assert set(found) <= set(letters), outcome.stderr.decode()
    if "L" in letters:
        assert found == letters


def test_functions_of_a_watched_program_go_to_other_processes(box: LocalSandbox, public: Path) -> None:
    code = """
import cloudpickle, pickle
import pandas as pd
from concurrent.futures import ProcessPoolExecutor
from sklearn.linear_model import Ridge
def fit(C):
    d = pd.read_csv("input/train.csv")
    return Ridge(alpha=C).fit(d[["a"]], d["y"]).coef_.shape
if __name__ == "__main__":
    print(pickle.loads(cloudpickle.dumps(fit))(1.0))
    with ProcessPoolExecutor(2) as pool:
        print(list(pool.map(fit, [0.1, 1.0])), len(pool.submit(pd.read_csv, "input/train.csv").result()))
"""
    try:
        import cloudpickle  # noqa: F401
    except ImportError:
        code = code.replace("import cloudpickle, pickle", "from joblib.externals import cloudpickle; import pickle")
    found, outcome = run(box, public, code)
    assert outcome.status == "ok", outcome.stderr.decode()
    assert b"(1,)\n" in outcome.stdout and b"[(1,), (1,)] 60\n" in outcome.stdout
    assert found == "ILDT"


# What docs/security.md says that still works: each earns more than it worked for.
STILL_WORKS = {
    "rows made up with the shares of a real column": """
open("input/train.csv").close()
Ridge().fit([[at] for at in range(60)], [0, 1] * 30).predict([[0]] * 23)
""",
    "a function that a library uses replaced": WORK
    + """
import numpy, scipy.linalg
scipy.linalg.solve = lambda A, b, **k: numpy.zeros_like(b)
Ridge().fit(d[["a"]], d["y"]).predict(d[["a"]][:23])
""",
    "memory by a folder's descriptor": """
folder = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY)
memory = os.open("mem", os.O_RDONLY, dir_fd=folder)
found = set()
for line in open("/proc/self/maps"):
    begin, end = (int(each, 16) for each in line.split()[0].split("-"))
    if line.split()[1].startswith("rw") and end - begin < 1 << 27:
        try: found |= set(re.findall(rb"\\[mle:[0-9a-f]{16}\\]", os.pread(memory, end - begin, begin)))
        except OSError: pass
for token in found: os.write(1, b"\\n" + token + b"\\n")
""",
}


@pytest.mark.parametrize("name", mostly_slow(STILL_WORKS, 1))
def test_what_the_documentation_says_still_works(box: LocalSandbox, public: Path, name: str) -> None:
    found, outcome = run(box, public, HEAD + STILL_WORKS[name])
    assert outcome.status == "ok", outcome.stderr.decode()
    assert {"D", "T", "P"} <= set(found)


NAMED = """import pandas as pd
open("input/train.csv").close()
def load_data(): return [1, 2]
def build_model(): return object()
def train_model(m): return m
def loss(a, b): return 0.5
def predict_labels(m): return [0] * 23
data = load_data()
model = build_model()
train_loss = loss(data, data)
model = train_model(model)
test_loss = loss(data, data)
labels = predict_labels(model)
"""


def test_a_place_of_a_model_s_choice_reports_only_what_was_seen(box: LocalSandbox, public: Path) -> None:
    lines = NAMED.splitlines()
    places = [0, *range(len(lines) - 6, len(lines))]
    for at, marker in reversed(list(zip(places, MARKERS, strict=True))):
        lines.insert(at + 1, f"print({marker!r})")
    placed = instrument_as(NAMED, "\n".join(lines) + "\n")
    assert placed.markers == list(MARKERS), placed.problem
    observer = observer_text(NONCE, placed.sites or {}, describe(public), waits=True)
    outcome = box.run(NAMED, public, Limits(), 1, observer=observer)
    assert outcome.status == "ok", outcome.stderr.decode()
    assert read_report(outcome.stdout, outcome.stderr, NONCE)[0] == ["imported packages"]


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("score", [0.0, -1e300, 1e300])
def test_seven_forged_reports_never_pay_more_than_the_worst_valid_score(score: float, lower: bool) -> None:
    forged = partial_credit(None, lower, len(MARKERS))
    assert forged == pytest.approx(-9.3) and forged <= partial_credit(score, lower, 0)


def test_the_documentation_names_every_forgery() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("\n## Forged progress\n")[2]
    rows = [line.strip("| ").split(" | ") for line in text.partition("\n## ")[0].splitlines() if line.startswith("|")]
    assert [(name, now) for name, _, now in rows[2:]] == [(name, letters) for name, (_, letters) in FORGED.items()]


@pytest.mark.parametrize("name", mostly_slow(FORGED, 4))
def test_work_that_was_not_done_is_not_reported(box: LocalSandbox, public: Path, name: str) -> None:
    code, letters = FORGED[name]
    if "import torch" in code:
        pytest.importorskip("torch", reason="runs programs of torch")
    found, outcome = run(box, public, code)
    assert set(found) <= set(letters), outcome.stderr.decode()
    assert outcome.status == "ok", outcome.stderr.decode()
