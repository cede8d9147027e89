"""Watches the calls of a running program, and reports the operations that they perform.

The source of this module runs in the sandbox before the program, with the standard library only. The program's file is
unchanged: `compiled` compiles it with hooks around the calls that `sites` lists. The hooks pass every value through;
they judge the objects (the function, its owner, the number of rows), not their names.

Covered: calls everywhere, also in f-strings; functions passed on to be called elsewhere in this process or in a fork.
Not covered: functions passed to other processes, losses written in numpy.
docs/security.md says what is hidden from the program: no name leads to a report, its source has none, the hooks are
opaque, and a program that looks for them through gc, tracing, ctypes or frames ends all reports.
"""

from __future__ import annotations

import copyreg
import functools
import inspect
import json
import mmap
import os
import sys
import types
import typing
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import Any

from .judging import LOADED, Library, has_gradients, holds_something, is_scalar, quiet, rows_in
from .weaving import weave

# Flags of a site; see sites.py, which writes them.
HELD_OUT, NOT_TEST, WATCHED, LOSS = 1, 2, 4, 8
DEFINED, TRAINING, TRAINED, TESTING, PREDICTED = range(2, 7)  # numbers of the markers
_HOOKS = ("before", "note", "after", "place", "loop")
_SNOOPING = {"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames", "sys._current_exceptions"}
_SNOOPING |= {"sys.setprofile", "sys.settrace", "sys.monitoring.register_callback"}
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_FRAMES = {"tb_frame", "gi_frame", "cr_frame", "ag_frame"}
_OWN = globals()


def opaque(function: Callable[..., Any]) -> Any:
    """`function` as an opaque callable."""
    return functools._lru_cache_wrapper(function, 0, False, tuple)  # type: ignore[call-arg]


class _Hooks:
    """The one object in the program's code; pickled into another process, it does nothing."""

    __slots__ = _HOOKS
    __reduce__ = opaque(lambda self: (types.SimpleNamespace, (), dict.fromkeys(_HOOKS, typing.cast)))


class Observer:
    """The observations of one program."""

    def __init__(self, config: dict[str, Any]) -> None:
        """config: tokens (by marker), flags (by site), rows (of test files), table, waits (reports only at places)."""
        self.tokens: dict[int, str] = dict(enumerate(config["tokens"]))
        self.flags: dict[int, int] = {at: flags for at, flags, _ in config["calls"]}
        self.rows = set(config["rows"])
        self.waits: bool = config["waits"]
        self.input = os.path.realpath("input")
        own = os.getcwd()
        folders = {os.path.realpath(each) for each in (sys.prefix, sys.base_prefix, *sys.path) if each}
        library_folders = tuple(each + "/" for each in {*folders, sys.prefix} if each not in ("/", own))
        self.library = Library(config["table"], library_folders)
        self.pending: dict[tuple[int, int], list[Any]] = {}
        self.sums: dict[int, int] = {}
        self.seen: set[int] = set()
        self.stepped = self.looking = False
        self.shared = mmap.mmap(-1, 1)  # with forks of the program, which may read the data
        self.busy: set[int] = set()
        self.originals: dict[int, Any] = {}

    @property
    def opened(self) -> bool:
        """Whether the program has opened a file of the task's data."""
        return self.shared[0] != 0

    # hooks: (site, value) -> value

    def before(self, site: int, function: Any) -> Any:
        if self.tokens:
            self.pending[get_ident(), site] = [function, False]
        return function

    def note(self, site: int, value: Any) -> Any:
        entry = self.pending.get((get_ident(), site))
        if entry is None:
            return value
        if isinstance(value, (str, os.PathLike)):
            entry[1] = entry[1] or self._is_input(value)
        elif isinstance(value, _FUNCTIONS):  # not other callables: a network must stay what it is
            return self._guarded(self._reference, value) or value
        return value

    def after(self, site: int, result: Any) -> Any:
        entry = self.pending.pop((get_ident(), site), None) if self.pending else None
        if entry is not None:
            self._guarded(self._judge, entry[0], self.flags.get(site, 0), entry[1], result)
        return result

    def place(self, number: int, value: Any) -> Any:
        """A place of a report: `number` is its marker, plus 10 where the table's operation must be seen first."""
        if number < 10 or number - 10 in self.seen:
            self._emit(number % 10)
        return value

    def loop(self, outermost: int, value: Any) -> Any:
        if self.rows.intersection(self.sums.values()):
            self._saw(PREDICTED)
        self.sums.clear()
        if outermost and self.stepped:
            self._saw(TRAINED)
        return value

    # judging calls

    def _guarded(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function that may run the program's code; its errors are ignored."""
        me = get_ident()
        if me in self.busy or not self.tokens:
            return None
        self.busy.add(me)
        try:
            return function(*args)
        except Exception:
            return None
        finally:
            self.busy.discard(me)

    def _reference(self, function: Any) -> Any:
        """A wrapper of a function of the table that is passed on: it is judged when it is called."""
        if not {marker for marker, _ in self.library.rows_of(function)} & {LOADED, TRAINED, PREDICTED}:
            return None

        def call(*args: Any, **options: Any) -> Any:
            path = any(isinstance(each, (str, os.PathLike)) and self._is_input(each) for each in args)
            mine = get_ident() not in self.busy
            self.busy.add(get_ident())
            try:
                result = function(*args, **options)
            finally:
                if mine:
                    self.busy.discard(get_ident())
            self._guarded(self._judge, function, 0, path, result)
            return result

        reference = opaque(call)
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(reference, name, getattr(function, name, None))
        with suppress(ValueError, TypeError):
            reference.__signature__ = inspect.signature(function)
        self.originals[id(reference)] = function, reference
        return reference

    def reduced(self, wrapper: Any) -> Any:
        """How functools' wrappers are pickled: a reference as the original function."""
        entry = self.originals.get(id(wrapper))
        return wrapper.__reduce__() if entry is None else (functools.partial, (entry[0],))

    def _judge(self, function: Any, flags: int, path: bool, result: Any) -> None:
        if isinstance(function, functools.partial):
            function = function.func
        rows = self.library.rows_of(function)
        owner = getattr(function, "__self__", None)
        if path and any(marker == LOADED for marker, _ in rows):
            self.shared[0] = 1
        if not self.opened:
            return
        silent = quiet()
        for marker, when in rows:
            if marker == LOADED:
                self._saw(LOADED) if holds_something(result) else None
            elif when == "LOOP":
                self.stepped = self.stepped or has_gradients(owner)
            elif when in ("SEEN", "HELD_OUT"):
                held = bool(flags & HELD_OUT) or silent
                self._saw(marker) if held == (when == "HELD_OUT") else None
            elif marker == PREDICTED:
                if not flags & NOT_TEST:
                    self._predicted(owner if when == "TEST" else function, result, when)
            else:
                self._saw(marker)
                if marker == TRAINED and flags & WATCHED:
                    self._saw(TESTING)
        if flags & LOSS and is_scalar(result):
            self._saw(TESTING if flags & HELD_OUT or silent else TRAINING)
        if self.library.is_model(result):
            self._saw(DEFINED)

    def _predicted(self, model: Any, result: Any, when: str) -> None:
        if when == "INFERENCE" and not (quiet() or getattr(model, "training", None) is False):
            self.sums.pop(id(model), None)
            return
        rows = rows_in(result)
        if not self.rows or rows in self.rows:
            self._saw(PREDICTED)
        elif rows is not None:
            self.sums[id(model)] = self.sums.get(id(model), 0) + rows

    def _is_input(self, path: Any) -> bool:
        try:
            return bool(os.path.realpath(os.fspath(path)).startswith(self.input + "/"))
        except (TypeError, ValueError, OSError):
            return False

    # reports

    def _saw(self, marker: int) -> None:
        self.seen.add(marker)
        if not self.waits:
            self._emit(marker)

    def _emit(self, marker: int, write: Callable[[int, bytes], int] = os.write) -> None:
        token = self.tokens.pop(marker, None)
        if token is not None:
            with suppress(OSError):
                write(1, f"\n{token}\n".encode())

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Audit hook: notes files that are opened, and searches for this module's objects.

        PermissionError where the program opens its own memory; no other error.
        """
        if event == "open" and isinstance(args[0], str) and args[0].endswith("mem") and args[0].startswith("/proc/"):
            raise PermissionError(13, "Permission denied", args[0])
        with suppress(Exception):
            self._audited(event, args)

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path = args[0]
            if isinstance(path, str) and not self.looking and self.tokens:
                self.looking = True
                if not self.opened and self._is_input(path):
                    self.shared[0] = 1
                self.looking = False
        elif event in _SNOOPING:
            self.tokens.clear()
        elif event == "object.__getattr__" and args[1] in _FRAMES:
            self._look(args[0], args[1])
        elif (event == "sys._getframe" and self.busy) or event.startswith("ctypes."):
            self._look(None, event)

    def _look(self, thing: Any, event: str) -> None:
        """End all reports if a requested frame leads to this module's, or if the program reads memory."""
        if self.looking or not self.tokens:
            return
        self.looking = True
        try:
            foreign = thing is not None
            frame = getattr(thing, event) if foreign else sys._getframe(3)
            while frame is not None:
                if frame.f_globals is _OWN:
                    if foreign:
                        self.tokens.clear()
                    return
                mine = not frame.f_code.co_filename.startswith((*self.library.folders, "<frozen "))
                if event.startswith("ctypes.") and (mine or "/ctypes/" not in frame.f_code.co_filename):
                    if mine:
                        self.tokens.clear()
                    return
                foreign = foreign or mine
                frame = frame.f_back
        finally:
            self.looking = False


def compiled(text: bytes, script: str, config: dict[str, Any]) -> types.CodeType:
    """The program `text`, compiled with hooks. On any error the caller compiles it without."""
    observer = Observer(config)
    hooks = _Hooks()
    for name in _HOOKS:
        setattr(hooks, name, opaque(getattr(observer, name)))
    code = weave(text, script, config["calls"], config["places"], hooks)
    copyreg.pickle(type(opaque(len)), opaque(observer.reduced))
    sys.addaudithook(observer.audit)
    _OWN.pop("load", None)  # it holds the tokens; only the observer keeps them
    return code


def loader(config: str) -> Callable[[bytes, str], types.CodeType]:
    """`compiled` with its configuration, as JSON."""
    return lambda text, script: compiled(text, script, json.loads(config))
