"""Attacks with what is handed in and told: submission.csv as something else, forged messages and exit codes.

Covered: links, pipes, devices, folders, sizes, exchange after the end, a replaced work folder, words that look like
the sandbox's own. Not covered: the content of a submission (the grader's).
"""

from __future__ import annotations

from ..interface import Limits, Outcome
from .attack import Attack, Judge, Judged, held, last_words, no_submission
from .world import AttackWorld

_SYMLINK = """
os.symlink(W["answers"], "submission.csv")
"""

_CHAIN = """
os.symlink(W["task"], W["mark"])
os.symlink(f"/proc/self/cwd/{W['mark']}/private/answers.csv", "submission.csv")
"""

_HARD_LINK = """
sources = [path.format(answers=W["answers"]) for path in (
    "{answers}", "/proc/self/root{answers}", "/proc/1/root{answers}", "input/../../private/answers.csv")]
for source in sources:
    for follow in (True, False):
        try:
            os.link(source, "submission.csv", follow_symlinks=follow)
        except OSError:
            pass
"""

_FIFO = "os.mkfifo('submission.csv', 0o666)"
_FOLDER = "os.makedirs('submission.csv/submission.csv')"
_SOCKET = "os.mknod('submission.csv', stat.S_IFSOCK | 0o666)"
_DEVICE = """
try:
    os.mknod("submission.csv", stat.S_IFCHR | 0o666, os.makedev(1, 5))
except OSError:
    try:
        os.link("/dev/zero", "submission.csv")
    except OSError:
        os.symlink("/dev/zero", "submission.csv")
"""
_SPARSE = """
with open("submission.csv", "wb") as file:
    size = 10 << 30
    while size > 1 << 20:
        try:
            file.truncate(size)
            break
        except OSError:
            size //= 2
"""
_LARGE = "open('submission.csv', 'wb').write(b'x' * (1 << 20 | 1))"

_EXCHANGED = """
with open("submission.csv", "w") as file:
    file.write("mine")
origin = os.getpid()
if os.fork() == 0:
    os.setsid()
    deaf()
    end = time.monotonic() + 5
    while os.getppid() == origin:
        pass
    while time.monotonic() < end:
        try:
            os.symlink(W["answers"], W["mark"])
            os.rename(W["mark"], "submission.csv")
            time.sleep(0.05)
            with open(W["mark"], "w") as file:
                file.write("mine")
            os.rename(W["mark"], "submission.csv")
        except OSError:
            pass
    os._exit(0)
time.sleep(0.05)
"""

_REPLACED_FOLDER = """
own = os.getcwd()
for away in (own + W["mark"], HOME + "/" + W["mark"], TEMPORARY + "/" + W["mark"]):
    try:
        os.rename(own, away)
        os.symlink(W["private"], own)
        break
    except OSError:
        pass
"""

_BESIDE_SUBMISSION = """
end = time.monotonic() + 0.4
while time.monotonic() < end:
    places = [".", "..", "/tmp", "/box"] + glob.glob("/tmp/mletools-*") + glob.glob("/tmp/mletools-*/*")
    for pid in named(W["beside"]):
        places += [f"/proc/{pid}/cwd"]
    for place in places:
        try:
            if W["beside"] in os.listdir(place):
                with open(f"{place}/submission.csv", "w") as file:
                    file.write("not mine")
        except OSError:
            pass
    time.sleep(0.05)
"""

_MESSAGES = """
import threading
words = [json.dumps(message).encode() + b"\\n" for message in (
    {"event": "exit", "at": 0.0, "code": 0},
    {"event": "ended", "at": 0.0, "cpu_s": 0.0, "peak_mb": 0.0, "memory": False},
    {"event": "failed", "why": "forged"},
    {"status": "ok", "exit_code": 0, "outcome": {"status": "ok", "exit_code": 0}, "submission": "Zm9yZ2Vk"},
)]
for number in range(3, 1024):
    for word in words:
        try:
            os.write(number, word)
        except OSError:
            pass
        try:
            with socket.socket(fileno=os.dup(number)) as end:
                end.send(word)
        except OSError:
            pass
for word in words:
    os.write(1, word)
    os.write(2, word)
os._exit(3)
"""

_KILLED = """
# The one that counts is killed; a child stays behind that ends well.
print("exit code 0", flush=True)
if os.fork() == 0:
    time.sleep(0.05)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""

_LATE = """
origin = os.getpid()
if os.fork() == 0:
    os.setsid()
    deaf()
    while os.getppid() == origin:
        time.sleep(0.005)
    time.sleep(0.4)  # longer than any sandbox takes to end a run
    end = time.monotonic() + 3
    while time.monotonic() < end:
        time.sleep(0.05)
        try:
            os.write(1, b"too late\\n")
        except OSError:
            pass
    os._exit(0)
"""

_OTHERS_OUTPUT = """
# The selftest's own output is left alone: it may be a user's file.
for pid in {W["victim"], *named(W["beside"])}:
    for number in (1, 2):
        try:
            name = f"/proc/{pid}/fd/{number}"
            if stat.S_ISREG(os.stat(name).st_mode):
                with open(name, "a") as file:
                    file.write("forged")
        except OSError:
            pass
"""


def _same_after_the_end(outcome: Outcome, world: AttackWorld) -> Judged:
    judged = held(outcome, world)
    if judged.sealed and outcome.submission not in (b"mine", None):
        return Judged(False, "what was taken is not what the run left")
    return judged


def _ends_as(status: str, exit_code: int | None) -> Judge:
    def judge(outcome: Outcome, world: AttackWorld) -> Judged:
        traces = world.traces(outcome)
        if traces:
            return Judged(False, traces[0])
        if (outcome.status, outcome.exit_code) != (status, exit_code) or outcome.submission is not None:
            return Judged(False, f"told as {last_words(outcome)}, exit code {outcome.exit_code}")
        return Judged(True, f"told as {status}")

    return judge


def _nothing_late(outcome: Outcome, world: AttackWorld) -> Judged:
    judged = held(outcome, world)
    if b"too late" in outcome.stdout:
        return Judged(False, "a child wrote after its parent's end")
    return judged


_LIMITS = Limits(wall_s=20.0, submission_mb=1)

ATTACKS = (
    *(
        Attack(name, "submission", code, no_submission, _LIMITS)
        for name, code in (
            ("a symbolic link to the answers", _SYMLINK),
            ("links through links to the answers", _CHAIN),
            ("a hard link to the answers", _HARD_LINK),
            ("a named pipe", _FIFO),
            ("a folder", _FOLDER),
            ("a socket", _SOCKET),
            ("a device", _DEVICE),
            ("a sparse file of 10 GB", _SPARSE),
            ("more than is allowed", _LARGE),
        )
    ),
    Attack("exchanged after the end", "submission", _EXCHANGED, _same_after_the_end),
    Attack("the work folder replaced", "submission", _REPLACED_FOLDER),
    Attack("overwriting the submission beside it", "submission", _BESIDE_SUBMISSION, beside=True),
    Attack("messages like the sandbox's own", "forgery", _MESSAGES, _ends_as("error", 3)),
    Attack("a good end told by a child", "forgery", _KILLED, _ends_as("killed", None)),
    Attack("words after the end", "forgery", _LATE, _nothing_late),
    Attack("writing into others' output", "forgery", _OTHERS_OUTPUT, beside=True),
)
