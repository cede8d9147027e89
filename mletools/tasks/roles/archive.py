"""Brings the files of a script out of a sandbox that hands out one file only.

Covered: the program that runs a script and packs what it left (`driver`), and the reading of that archive, which is as
hostile as the script. An archive is a line of JSON [[name, bytes], ...] and then the contents, one after the other:
nothing is compressed, and links, modes or owners cannot be said. Not covered: the sandbox; what the files mean.
"""

import re
from pathlib import Path

from ...records.jsonl import loads
from .asking import Faulty, ScriptRun

SCRIPT = "generate_task_env.py"
MOST_FILES = 1000
MOST_BYTES = 24 << 20
MOST_HEAD = 1 << 18
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
# Paths and addresses differ from run to run; a question that repeats them would not be found in the journal.
_PATH = re.compile(r"(?<![\w.])(?:/[\w.@+~-]+)+/(?=[\w.@+~-])")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


def program() -> str:
    """The source of the program that runs ./input/generate_task_env.py in a sandbox and packs what it leaves."""
    return (Path(__file__).parent / "driver.py").read_text(encoding="utf-8")


def unpack(content: bytes) -> dict[str, bytes]:
    """{name: content} of an archive, in memory. Faulty: broken, too many or too large, a name that leads elsewhere."""
    if len(content) > MOST_BYTES + MOST_HEAD:
        raise Faulty(f"the files have more than {MOST_BYTES >> 20} MB together")
    head = content[: MOST_HEAD + 1].partition(b"\n")[0]
    try:
        entries = loads(head)
    except ValueError:
        raise Faulty("the files were not handed out: the script must end normally and leave its folder alone") from None
    if not isinstance(entries, list) or len(entries) > MOST_FILES:
        raise Faulty(f"there are more than {MOST_FILES} files")
    files: dict[str, bytes] = {}
    taken: set[str] = set()  # one name in two spellings is one file on some disks
    at = len(head) + 1
    for entry in entries:
        name, size = entry if isinstance(entry, list) and len(entry) == 2 else (None, None)
        if not isinstance(name, str) or type(size) is not int or size < 0 or at + size > len(content):
            raise Faulty("the list of the files is broken")
        parts = name.split("/")
        if len(parts) > 3 or not all(_PART.fullmatch(part) for part in parts):
            raise Faulty(
                f"the file name {name[:80]!a} is refused: at most two folders, and letters, digits, _ . - only"
            )
        if name.casefold() in taken:
            raise Faulty(f"two files are called {name!r}")
        taken.add(name.casefold())
        files[name] = content[at : at + size]
        at += size
    folders = {name.casefold().rsplit("/", depth)[0] for name in files for depth in range(1, name.count("/") + 1)}
    if at != len(content) or folders & taken:
        raise Faulty("the list of the files is broken")
    return files


def script_run(status: str, stdout: bytes, stderr: bytes, archive: bytes | None, problem: str | None) -> ScriptRun:
    """The outcome of `program` in a sandbox; an archive that cannot be read is an error of the script."""
    if status != "ok":
        return ScriptRun(status, stdout, stderr, {})
    try:
        if archive is None:
            raise Faulty(f"the files were not handed out: {problem}")
        return ScriptRun("ok", stdout, stderr, unpack(archive))
    except Faulty as fault:
        return ScriptRun("error", stdout, str(fault).encode(), {})


def what_went_wrong(run: ScriptRun) -> str:
    """The outcome in words for the one who wrote the script: the end of its traceback, the same in every run of it."""
    if run.status != "error":
        told = {
            "timeout": "it ran longer than it may",
            "memory": "it used more memory than it may",
            "disk": "it wrote more than it may",
            "output": "it printed more than it may",
        }
        return told.get(run.status, f"it ended with status {run.status}")
    text = run.stderr.decode("utf-8", errors="replace")
    text = "".join(sign for sign in text if sign.isprintable() or sign == "\n")
    text = _ADDRESS.sub("0x...", _PATH.sub("", text)).strip()
    return f"it failed:\n{text[-2000:]}" if text else "it failed without a word"
