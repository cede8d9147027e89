"""Runs inside a sandbox, as a program of its own: runs a script in a fresh folder and packs the files that it leaves.

Reads ./input/generate_task_env.py. Writes ./submission.csv, the one file that leaves a sandbox: a line of JSON
[[name, bytes], ...], then the contents one after the other. What it refuses saves the reader trouble and is no
protection: the script shares this process and may write anything there.
"""

import json
import os
import runpy
import shutil
import stat
import sys
import traceback

SCRIPT = "generate_task_env.py"
INPUT = os.path.abspath("input") + os.sep
MOST_FILES = 1000
MOST_BYTES = 24 << 20


def run() -> None:
    """Run the script as `python generate_task_env.py` in its own folder would."""
    sys.argv = [SCRIPT]
    try:
        runpy.run_path(SCRIPT, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            sys.exit(f"the script ended with exit code {end.code}")
    except BaseException as error:
        tell(error)
        sys.exit(1)


def tell(error: BaseException) -> None:
    """Print the trace without the frames of libraries and of this file, and without what differs between Pythons."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = [frame for frame in frames if frame.filename.startswith(INPUT)] or [
        frame for frame in frames if frame.filename == SCRIPT
    ]
    print("Traceback (most recent call last):", file=sys.stderr)
    for frame in shown:
        name = os.path.basename(frame.filename)
        print(f'  File "{name}", line {frame.lineno}, in {frame.name}\n    {frame.line}', file=sys.stderr)
    print("".join(traceback.format_exception_only(type(error), error)), file=sys.stderr)


def found() -> list[tuple[str, int]]:
    """[(name, size)] of the files below the current folder, sorted; ends the program at anything that is no file."""
    files = []
    for folder, names, others in os.walk("."):
        names[:] = [name for name in names if name != "__pycache__"]
        for name in [*names, *others]:
            path = os.path.relpath(os.path.join(folder, name), ".").replace(os.sep, "/")
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                files.append((path, status.st_size))
            elif not stat.S_ISDIR(status.st_mode):
                sys.exit(f"{path} is a link or no regular file: write plain files only")
    files = sorted(file for file in files if file[0] != SCRIPT)
    if len(files) > MOST_FILES:
        sys.exit(f"the script left {len(files)} files; at most {MOST_FILES} are taken")
    total = sum(size for _, size in files)
    if total > MOST_BYTES:
        sys.exit(f"the files have {total} bytes together; at most {MOST_BYTES} are taken")
    return files


def main() -> None:
    home = os.getcwd()
    os.mkdir("env")
    shutil.copyfile(os.path.join("input", SCRIPT), os.path.join("env", SCRIPT))
    os.chdir("env")
    place = os.getcwd()
    run()
    os.chdir(place)
    files = found()
    with open(os.path.join(home, "submission.csv"), "wb") as out:
        out.write(json.dumps(files).encode() + b"\n")
        for name, size in files:
            with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                out.write(file.read(size))


if __name__ == "__main__":
    main()
