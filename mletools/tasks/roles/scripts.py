"""Runs a script in a sandbox and takes the files that it leaves.

Covered: the program that runs the script (`driver`), what its files may be, what is said of a failure. Not covered: the
sandbox, which reads the files and refuses links, odd names and far too many of them; what the files mean.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from .asking import ScriptRun

SCRIPT = "generate_task_env.py"
FOLDER = "env/"  # the output of the driver
MOST_FILES = 1000
MOST_BYTES = 24 << 20
# Paths and addresses differ from run to run; a question that repeats them would not be found in the journal.
_PATH = re.compile(r"(?<![\w.])(?:/[\w.@+~-]+)+/(?=[\w.@+~-])")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


def program() -> str:
    """The source of the program that runs ./input/generate_task_env.py in a sandbox, in FOLDER."""
    return (Path(__file__).parent / "driver.py").read_text(encoding="utf-8")


def script_run(
    status: str, stdout: bytes, stderr: bytes, outputs: Mapping[str, bytes], problems: Mapping[str, str]
) -> ScriptRun:
    """The outcome of `program` in a sandbox that hands out FOLDER; files that cannot be used are an error of the script."""
    if status != "ok":
        return ScriptRun(status, stdout, stderr, {})
    files = {name.removeprefix(FOLDER): content for name, content in outputs.items()}
    files = {
        name: content for name, content in files.items() if name != SCRIPT and "__pycache__" not in name.split("/")
    }
    problem = problems.get(FOLDER, "")
    if len(files) > MOST_FILES:
        problem = f"there are more than {MOST_FILES} files"
    if sum(map(len, files.values())) > MOST_BYTES:
        problem = f"the files have more than {MOST_BYTES >> 20} MB together"
    if problem:
        return ScriptRun("error", stdout, f"the files are not handed out: {problem}".encode(), {})
    return ScriptRun("ok", stdout, stderr, files)


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
