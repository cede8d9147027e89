"""Attacks on the submission and on the outcome: links, special files, forged messages, forged exit codes.

Covered: links, pipes, devices, folders, sizes, a file swapped after the end, a replaced work folder, output that looks
like the sandbox's messages. Not covered: the content of a submission (see the grader).
"""

from ..interface import Limits, Outcome
from .attack import Attack, Rule, Verdict, no_submission, runs_to_end, status_and_error
from .targets import AttackTargets

_SWAPPED = """
write("submission.csv", "mine")
origin = os.getpid()
if os.fork() == 0:
    os.setsid()
    ignore_signals()
    while os.getppid() == origin:
        pass
    for _ in repeat(5, 0):
        with suppress(OSError):
            os.symlink(W["answers"], W["mark"])
            os.rename(W["mark"], "submission.csv")
            time.sleep(0.05)
            write(W["mark"], "mine")
            os.rename(W["mark"], "submission.csv")
    os._exit(0)
time.sleep(0.05)
"""

_REPLACED_FOLDER = """
own = os.getcwd()
for away in (own + W["mark"], HOME + "/" + W["mark"], TEMPORARY + "/" + W["mark"]):
    with suppress(OSError):
        os.rename(own, away)
        os.symlink(W["private"], own)
        break
"""

_CONCURRENT_SUBMISSION = """
for _ in repeat(0.4, 0.05):
    places = [".", "..", "/tmp", "/box"] + glob.glob("/tmp/mletools-*") + glob.glob("/tmp/mletools-*/*")
    places += [f"/proc/{pid}/cwd" for pid in pids_named(W["concurrent"])]
    for place in places:
        with suppress(OSError):
            if W["concurrent"] in os.listdir(place):
                write(f"{place}/submission.csv", "not mine")
"""

_MESSAGES = """
messages = [json.dumps(message).encode() + b"\\n" for message in (
    {"event": "exit", "at": 0.0, "code": 0},
    {"event": "ended", "at": 0.0, "cpu_s": 0.0, "peak_mb": 0.0, "memory": False},
    {"event": "failed", "why": "forged"},
    {"status": "ok", "exit_code": 0, "outcome": {"status": "ok", "exit_code": 0}, "submission": "Zm9yZ2Vk"},
)]
for number, message in product(range(3, 1024), messages):
    with suppress(OSError):
        os.write(number, message)
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as end:
        end.send(message)
for message in messages:
    os.write(1, message)
    os.write(2, message)
os._exit(3)
"""

_KILLED = """
# The solution's process is killed; its child goes on and exits with code 0.
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
    ignore_signals()
    while os.getppid() == origin:
        time.sleep(0.005)
    time.sleep(0.4)  # longer than any sandbox takes to end a run
    for _ in repeat(3, 0.05):
        with suppress(OSError):
            os.write(1, b"too late\\n")
    os._exit(0)
"""

_OTHERS_OUTPUT = """
# Not the selftest's own output, which may be a user's file.
for pid, number in product({W["victim"], *pids_named(W["concurrent"])}, (1, 2)):
    with suppress(OSError):
        name = f"/proc/{pid}/fd/{number}"
        if stat.S_ISREG(os.stat(name).st_mode):
            write(name, "forged")
"""


def _not_swapped(outcome: Outcome, targets: AttackTargets) -> Verdict:
    if outcome.submission not in (b"mine", None):
        return Verdict(False, "the submission was swapped after the end")
    return runs_to_end(outcome, targets)


def _recorded_as(status: str, exit_code: int | None) -> Rule:
    def rule(outcome: Outcome, targets: AttackTargets) -> Verdict:
        if (outcome.status, outcome.exit_code) != (status, exit_code) or outcome.submission is not None:
            return Verdict(False, f"recorded as {status_and_error(outcome)}, exit code {outcome.exit_code}")
        return Verdict(True, f"recorded as {status}")

    return rule


def _no_late_output(outcome: Outcome, targets: AttackTargets) -> Verdict:
    if b"too late" in outcome.stdout:
        return Verdict(False, "a child wrote after its parent's end")
    return runs_to_end(outcome, targets)


_NOT_ACCEPTED = {
    "a symbolic link to the answers": 'os.symlink(W["answers"], "submission.csv")',
    "chained links to the answers": """
os.symlink(W["task"], W["mark"])
os.symlink(f"/proc/self/cwd/{W['mark']}/private/answers.csv", "submission.csv")
""",
    "a hard link to the answers": """
sources = [root + W["answers"] for root in ("", "/proc/self/root", "/proc/1/root")] + ["input/../../private/answers.csv"]
for source, follow in product(sources, (True, False)):
    with suppress(OSError):
        os.link(source, "submission.csv", follow_symlinks=follow)
""",
    "a named pipe": "os.mkfifo('submission.csv', 0o666)",
    "a folder": "os.makedirs('submission.csv/submission.csv')",
    "a socket": "os.mknod('submission.csv', stat.S_IFSOCK | 0o666)",
    "a device": """
try:
    os.mknod("submission.csv", stat.S_IFCHR | 0o666, os.makedev(1, 5))
except OSError:
    try:
        os.link("/dev/zero", "submission.csv")
    except OSError:
        os.symlink("/dev/zero", "submission.csv")
""",
    "a sparse file of 10 GB": """
with open("submission.csv", "wb") as file:
    size = 10 << 30
    while size > 1 << 20:
        try:
            file.truncate(size)
            break
        except OSError:
            size //= 2
""",
    "a file above the limit": "open('submission.csv', 'wb').write(b'x' * (1 << 20 | 1))",
}

_LIMITS = Limits(wall_s=20.0, submission_mb=1)
ATTACKS = (
    *(Attack(name, "submission", code, no_submission, _LIMITS) for name, code in _NOT_ACCEPTED.items()),
    Attack("swapped after the end", "submission", _SWAPPED, _not_swapped),
    Attack("replacing the work folder", "submission", _REPLACED_FOLDER),
    Attack("overwriting a concurrent submission", "submission", _CONCURRENT_SUBMISSION, concurrent=True),
    Attack("forged sandbox messages", "forgery", _MESSAGES, _recorded_as("error", 3)),
    Attack("forged exit code from a child", "forgery", _KILLED, _recorded_as("killed", None)),
    Attack("output after the end", "forgery", _LATE, _no_late_output),
    Attack("writing into other processes' output", "forgery", _OTHERS_OUTPUT, concurrent=True),
)
