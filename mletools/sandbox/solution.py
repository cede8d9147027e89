"""Runs a solution as `python solution.py` would: as __main__ from its file, with seeded random states.

Covered: the script's module, arguments, import path, tracebacks, exit handlers and exit code, in a fork of a warm
process (`launch`) or in a fresh interpreter (`launch_cold`), which runs this module's source. Not covered: isolation,
which is set up before. The solution shares this process, so nothing here can be trusted once it runs.
"""

import atexit
import builtins
import gc
import json
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import CodeType, ModuleType, TracebackType
from typing import Any

_removed: list[ModuleType] = []

# numpy takes its first random state from the machine when it is imported, so it is imported before the seeding.
_COLD = """
import json, os, sys
with open(int(sys.argv[1])) as file:
    text, call = json.load(file)
sys.path[:] = call[2]
try:
    import numpy
except ImportError:
    pass
space = {"__name__": "start"}
exec(text, space)
space["launch"](*call)()
"""


def _clean_interpreter(script: str, work: str, import_path: list[str], arguments: Sequence[str]) -> ModuleType:
    sys.argv = [os.path.basename(script), *arguments]
    sys.orig_argv = [sys.executable, *sys.argv]
    # As with `python solution.py`: a solution may import modules from the work folder.
    sys.path[:] = [work, *import_path]
    # Kept in a list, because freeing them takes some milliseconds.
    _removed.extend(sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "mletools")
    tempfile.tempdir = None
    main = ModuleType("__main__")
    main.__dict__.update(__file__=script, __builtins__=sys.modules["builtins"], __cached__=None)
    if sys.version_info < (3, 14):
        main.__annotations__ = {}  # as in every main module
    sys.modules["__main__"] = main
    for stream in (sys.stdout, sys.stderr):
        # Lines are written at once, because output counts even if the run is killed.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return main


def prepare(
    script: str, work: str, import_path: list[str], seed: int, threads: int, arguments: Sequence[str]
) -> ModuleType:
    """The __main__ module of a program about to start, without traces of mletools and with seeded random states."""
    main = _clean_interpreter(script, work, import_path, arguments)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    if threads > 1 and numpy is not None:
        with suppress(ImportError):
            import threadpoolctl

            threadpoolctl.threadpool_limits(limits=threads)
    return main


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _report(error: BaseException, traceback: TracebackType | None) -> int:
    while traceback is not None and traceback.tb_frame.f_code.co_filename == _report.__code__.co_filename:
        traceback = traceback.tb_next
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _end(main: ModuleType, code: int) -> int:
    # The steps of a normal interpreter exit, without unloading the libraries.
    for step in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]
        try:
            step()
        except SystemExit as error:
            code = _exit_code(error)
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
    main.__dict__.clear()
    gc.collect()  # flushes files that the solution left open
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 120
    return code


def _compiled(script: str, observer: str) -> CodeType:
    """The program in the file `script`, compiled by the module `observer` if possible."""
    with open(script, "rb") as file:
        text = file.read()
    if observer:
        # A copy of the builtins, so that the program cannot replace those of the observer.
        space: dict[str, Any] = {"__name__": "observer", "__builtins__": dict(vars(builtins))}
        with suppress(Exception):
            exec(observer, space)
            return space["load"](text, script)  # type: ignore[no-any-return]
    return compile(text, script, "exec", dont_inherit=True)


def launch(
    script: str,
    work: str,
    import_path: list[str],
    seed: int,
    threads: int,
    arguments: Sequence[str],
    observer: str = "",
) -> Callable[[], None]:
    """A function that runs the file `script` as __main__, with `arguments`, and ends the process; it never returns.

    `observer`: see Sandbox.run.
    """

    def run() -> None:
        nonlocal observer
        sys._getframe(1).f_globals.clear()
        main = prepare(script, work, import_path, seed, threads, arguments)
        code = 0
        try:
            program = _compiled(script, observer)
            observer = ""
            exec(program, main.__dict__)
        except SystemExit as error:
            code = _exit_code(error)
        except BaseException as error:
            code = _report(error, error.__traceback__)
        os._exit(_end(main, code))

    return run


def launch_cold(text: str, script: str, work: str, *rest: Any) -> Callable[[], None]:
    """Like `launch`, in a fresh interpreter that replaces this process; `text` is the source of this module."""

    def run() -> None:
        call = json.dumps([text, [script, work, *rest]])
        # In an unnamed file that is closed before the program: it could read arguments in /proc.
        name = os.path.join(work, "call")
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(name)
        os.set_inheritable(descriptor, True)
        os.pwrite(descriptor, call.encode(), 0)
        os.execv(sys.executable, [sys.executable, "-c", _COLD, str(descriptor)])

    return run
