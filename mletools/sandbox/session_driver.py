"""The inside of a session: runs cells in turn, Python in the namespace of __main__, bash as a child process.

Covered: the last expression's repr, tracebacks with the cell's lines, top-level await, lines that start with `!`, an
interrupt that ends the cell but not the session, restoring standard streams. Not covered: isolation, which is set up
before; limits and the status of a cell (`session`). Cells share this process, so nothing here can be trusted once one
has run. Needs the standard library only, because its source may run in a fresh interpreter.
"""

import ast
import builtins
import ctypes
import fcntl
import inspect
import io
import json
import linecache
import os
import shutil
import signal
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

ORDER = struct.Struct("=IBI")  # number and kind of the cell, size of its text in bytes
DONE = struct.Struct("=IB")  # number of the cell, 0 for ok or 1 for an error
PYTHON, BASH = 0, 1
_BASH_GRACE_S = 2.0

_COLD = """
import json, sys
texts, cells, call = json.loads(sys.argv[1])
sys.path[:] = call[2]
try:
    import numpy
except ImportError:
    pass
solution, driver = {"__name__": "solution"}, {"__name__": "session"}
exec(texts[0], solution)
exec(compile(texts[1], "<session>", "exec"), driver)
driver["attend"](lambda prepare=solution["prepare"], call=call: prepare(*call), cells)()
"""


def attend(prepare: Callable[[], ModuleType], cells: int) -> Callable[[], None]:
    """A function that runs the cells from the socket `cells` (a descriptor) and never returns.

    `prepare` creates the session's __main__.
    """

    def run() -> None:
        sys._getframe(1).f_globals.clear()
        main = prepare()
        for name in ("__file__", "__cached__"):
            main.__dict__.pop(name, None)
        sys.argv = [""]
        _Interpreter(main, cells).serve()

    return run


def attend_cold(texts: list[str], cells: int, call: Sequence[Any]) -> Callable[[], None]:
    """Like `attend`, in a fresh interpreter; `texts` are the sources of `solution` and of this module."""

    def run() -> None:
        os.execv(sys.executable, [sys.executable, "-c", _COLD, json.dumps([texts, cells, call])])

    return run


class _Interpreter:
    def __init__(self, main: ModuleType, cells: int) -> None:
        os.set_inheritable(cells, False)
        self._cells = cells
        self._space = main.__dict__
        self._pid = os.getpid()
        self._output = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 10)
        self._streams: tuple[Any, Any] = (sys.stdout, sys.stderr)
        self._running = False
        self._loop: Any = None
        builtins.__shell__ = self._shell  # type: ignore[attr-defined]

    def serve(self) -> None:
        while True:
            number, kind, size = ORDER.unpack(self._read(ORDER.size))
            text = self._read(size).decode("utf-8", "surrogatepass")
            ok = self._do(number, kind, text)
            if os.getpid() != self._pid:  # a cell forked, and this is the child
                os._exit(0)
            os.write(self._cells, DONE.pack(number, not ok))

    def _read(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            piece = os.read(self._cells, size - len(content))
            if not piece:
                os._exit(0)
            content += piece
        return content

    def _interrupt(self, *_: object) -> None:
        if self._running:  # otherwise it came too late
            raise KeyboardInterrupt

    def _do(self, number: int, kind: int, text: str) -> bool:
        self._restore_streams()
        signal.signal(signal.SIGINT, self._interrupt)
        try:
            self._running = True
            ok = self._bash(text) if kind == BASH else self._python(number, text)
            self._running = False
        except BaseException as error:
            self._running = False
            ok = self._report(error)
        self._restore_streams()
        signal.signal(signal.SIGINT, self._interrupt)
        return ok

    def _python(self, number: int, text: str) -> bool:
        name = f"<cell {number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        tree = _parse(text, name)
        body = tree.body
        shown: list[ast.stmt] = []
        if body and isinstance(body[-1], ast.Expr) and not text.rstrip().endswith(";"):
            shown = [body.pop()]
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        parts = [
            compile(tree, name, "exec", flags, dont_inherit=True),
            compile(ast.Interactive(shown), name, "single", flags, dont_inherit=True),
        ]
        for part in parts:
            result = eval(part, self._space)
            if part.co_flags & inspect.CO_COROUTINE:
                self._await(result)
        return True

    def _await(self, coroutine: Any) -> None:
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(coroutine)

    def _bash(self, command: str) -> bool:
        shell = shutil.which("bash") or "/bin/sh"
        process = subprocess.Popen([shell, "-c", command], start_new_session=True)
        try:
            code = process.wait()
        except KeyboardInterrupt:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
                try:
                    process.wait(_BASH_GRACE_S)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            raise
        if code:
            self._say(f"[exit code {code if code > 0 else 128 - code}]\n")
        return code == 0

    def _shell(self, command: str) -> None:
        """Run a line `!command` of a Python cell."""
        self._flush()
        self._bash(command)

    def _report(self, error: BaseException) -> bool:
        self._restore_streams()
        if isinstance(error, SystemExit):
            if error.code in (None, 0):
                return True
            if isinstance(error.code, int):
                self._say(f"[exit code {error.code & 0xFF}]\n")
            else:
                self._say(f"{_words(error.code)}\n[exit code 1]\n")
            return False
        if isinstance(error, SyntaxError) and error.text is None and error.filename and error.lineno:
            error.text = linecache.getline(error.filename, error.lineno)  # compiling a tree loses the text
        trace = error.__traceback__
        while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<cell "):
            trace = trace.tb_next
        try:
            formatted = traceback.TracebackException(type(error), error, trace)
            ours = [at for at, frame in enumerate(formatted.stack) if frame.filename == _parse.__code__.co_filename]
            del formatted.stack[ours[0] if ours else len(formatted.stack) :]
            text = "".join(formatted.format())
        except BaseException:  # a hostile __str__, or another interrupt
            text = f"{type(error).__name__}\n"
        self._say(text)
        return False

    def _say(self, text: str) -> None:
        content = text.encode("utf-8", "backslashreplace")
        with suppress(OSError):
            while content:
                content = content[os.write(self._output, content) :]

    def _flush(self) -> None:
        streams: list[Any] = [getattr(sys, name, None) for name in ("stdout", "stderr")]
        for stream in (*streams, *self._streams):
            with suppress(BaseException):
                stream.flush()
        with suppress(BaseException):
            ctypes.CDLL(None).fflush(None)

    def _restore_streams(self) -> None:
        """Restore the standard streams, whatever the last cell did to them."""
        self._flush()
        with suppress(Exception):  # it may have replaced them by anything
            for number in (1, 2):
                os.dup2(self._output, number)
            if any(stream.closed for stream in (*self._streams, sys.stdin)):
                null = os.open(os.devnull, os.O_RDONLY)
                if null != 0:
                    os.dup2(null, 0)
                    os.close(null)
                sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
                self._streams = (_writer(1), _writer(2))
        sys.stdout, sys.stderr = self._streams


def _writer(descriptor: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=True)


def _words(value: object) -> str:
    try:
        return str(value)
    except BaseException:
        return type(value).__name__


def _parse(text: str, name: str) -> ast.Module:
    """The syntax tree of a cell; a line with a syntax error that starts with `!` becomes a shell command."""
    lines = text.split("\n")
    while True:
        try:
            return ast.parse("\n".join(lines), name)
        except SyntaxError as error:
            at = (error.lineno or 0) - 1
            line = lines[at] if 0 <= at < len(lines) else ""
            command = line.strip()
            if command.startswith("%"):
                message = "magics are not available; use Python, a line that starts with !, or bash"
                raise SyntaxError(message, (name, at + 1, 1, line)) from None
            if not command.startswith("!"):
                raise
            lines[at] = line[: len(line) - len(line.lstrip())] + f"__shell__({command[1:]!r})"
