"""Runs inside a sandbox, as a program of its own: runs ./input/generate_task_env.py in the fresh folder ./env, which is
handed out.
"""

import os
import runpy
import shutil
import sys
import traceback

SCRIPT = "generate_task_env.py"
INPUT = os.path.abspath("input") + os.sep


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


def main() -> None:
    os.mkdir("env")
    shutil.copyfile(os.path.join("input", SCRIPT), os.path.join("env", SCRIPT))
    os.chdir("env")
    run()


if __name__ == "__main__":
    main()
