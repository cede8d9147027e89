"""Watches the calls of a running program, and reports the operations that they perform.

The source of this module runs in the sandbox before the program, with the standard library only. The program's file is
unchanged: `compiled` compiles it with hooks around the calls that `sites` lists. The hooks pass every value through;
they judge the objects (the function, its owner, the rows given and returned), not their names.

Covered: calls everywhere, also in f-strings; functions passed on to be called elsewhere in this process or in a fork.
Not covered: functions passed to other processes, losses written in numpy.
docs/security.md says what is hidden from the program: no name leads to a report, its source has none, the hooks are
opaque, and a program that looks for them through gc, tracing, ctypes or frames ends all reports.
"""

from __future__ import annotations

import copyreg
import functools
import inspect
import io
import json
import mmap
import os
import sys
import types
import typing
from collections.abc import Callable
from contextlib import suppress
from os.path import exists, realpath
from threading import get_ident
from typing import Any

from .evidence import Rows, described
from .facts import ObserverSettings
from .judging import LOADED, Library, has_gradients, holds_something, is_scalar, owner_of, quiet, rows_in
from .weaving import hook_calls, weave

# Flags of a site; see sites.py, which writes them.
HELD_OUT, NOT_TEST, WATCHED, LOSS = 1, 2, 4, 8
DEFINED, TRAINING, TRAINED, TESTING, PREDICTED = range(2, 7)  # numbers of the markers
_HOOKS = ("before", "note", "spread", "refer", "after", "place", "loop")
_SNOOPING = {"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames", "sys._current_exceptions"}
_SNOOPING |= {"sys.setprofile", "sys.settrace", "sys.monitoring.register_callback"}
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_PATHS = (str, bytes, os.PathLike)
_ATTEMPTS = 40  # to recognise rows, and texts, that do not resemble the data; each takes some hundredths of a second
_MOST_PENDING = 200  # calls; those that raised stay until their place is reached again
_FRAMES = {"tb_frame", "gi_frame", "cr_frame", "ag_frame"}
_FRAMED = {types.TracebackType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType}
# Functions of the standard library that hand their caller a frame.
_GIVERS = {"currentframe", "walk_tb", "walk_stack", "stack", "trace", "getouterframes", "getinnerframes", "get_stack"}
_GIVERS |= {"_task_get_stack", "base_task_get_stack"}
_OWN = globals()
_getframe = sys._getframe


def opaque(function: Callable[..., Any]) -> Any:
    """`function` as an opaque callable."""
    return functools._lru_cache_wrapper(function, 0, False, tuple)  # type: ignore[call-arg]


class _Hooks:
    """The one object in the program's code; pickled into another process, it does nothing."""

    __slots__ = _HOOKS
    __reduce__ = opaque(lambda self: (types.SimpleNamespace, (), dict.fromkeys(_HOOKS, typing.cast)))


class Observer:
    """The observations of one program."""

    def __init__(self, config: ObserverSettings) -> None:
        """config: tokens (by marker), calls and places (see sites.py), data (see tables.py), table, waits: for places."""
        self.tokens: dict[int, str] = dict(enumerate(config["tokens"]))
        self.flags: dict[int, int] = {at: flags for at, flags, _ in config["calls"]}
        self.rows = set(config["data"]["rows"])
        self.least: int = config["data"]["least"]
        self.described = described(config["data"]["columns"])
        self.waits: bool = config["waits"]
        self.input = realpath("input")
        own = os.getcwd()
        folders = {realpath(each) for each in (sys.prefix, sys.base_prefix, *sys.path) if each}
        library_folders = tuple(each + "/" for each in {*folders, sys.prefix} if each not in ("/", own))
        self.library = Library(config["table"], library_folders)
        self.pending: dict[tuple[int, int], list[Any]] = {}
        self.woven: dict[int, tuple[Any, frozenset[int]]] = {}  # see weaving.hook_calls
        self.sums: dict[int, int] = {}
        self.seen: set[int] = set()
        self.files: list[str] = []
        self.inputs, self.targets = Rows(), Rows()
        self.attempts = 0
        self.stepped = self.looking = self.opening = False
        self.shared = mmap.mmap(-1, 2)  # with forks of the program, which may read the data and train
        self.busy: set[int] = set()
        self.originals: dict[int, Any] = {}

    @property
    def opened(self) -> bool:
        """Whether the program has opened a file of the task's data."""
        return self.shared[0] != 0

    @property
    def learned(self) -> bool:
        """Whether the program has trained on rows of the data."""
        return self.shared[1] != 0

    # hooks: (site, value) -> value. A call belongs to the frame that makes it, so that no other call at its site,
    # in a recursion, another thread or a generator that rests, is taken for it.

    def before(self, site: int, function: Any) -> Any:
        caller = self._caller(site) if self.tokens else 0
        if caller:  # what a frame left here that ended within the call, and whose id this one has now, is not this call
            self.pending.pop((caller, site), None)
        if caller and (self.flags.get(site, 0) & LOSS or not self._is_the_program_s(function)):
            if len(self.pending) >= _MOST_PENDING:
                self.pending.pop(next(iter(self.pending)), None)
            self.pending[caller, site] = [function]
        return function

    def note(self, site: int, value: Any) -> Any:
        if (entry := self._entry(site)) is not None:
            entry.append(value)
        return value

    def spread(self, site: int, value: Any) -> Any:
        if type(value) in (list, tuple, dict) and (entry := self._entry(site)) is not None:
            entry += value.values() if type(value) is dict else value
        return value

    def refer(self, site: int, value: Any) -> Any:
        if type(value) in _FUNCTIONS:  # not other callables: a network must stay what it is
            return self._guarded(self._reference, value) or value
        return value

    def after(self, site: int, result: Any) -> Any:
        caller = self._caller(site) if self.pending else 0
        entry = self.pending.pop((caller, site), None) if caller else None
        if entry is not None:
            self._guarded(self._judge, entry[0], self.flags.get(site, 0), entry[1:], result)
        return result

    def place(self, number: int, value: Any) -> Any:
        """A place of a report: the imports were made, anything else must have been seen first."""
        if self._caller(number) and (number == 0 or number in self.seen):
            self._emit(number)
        return value

    def loop(self, outermost: int, value: Any) -> Any:
        if self._caller(outermost):
            self._guarded(self._looped, outermost)
        return value

    def _looped(self, outermost: int) -> None:
        if self.rows.intersection(self.sums.values()) and self._has_trained():
            self._saw(PREDICTED)
        self.sums.clear()
        if outermost and self.stepped and self._learns():
            self._saw(TRAINED)

    def _entry(self, site: int) -> list[Any] | None:
        """The call whose arguments a hook is given."""
        caller = self._caller(site, 3) if self.pending else 0
        return self.pending.get((caller, site)) if caller else None

    def _caller(self, site: int, depth: int = 2) -> int:
        """The id of the frame whose code calls a hook where one was woven in; 0 where the program calls it itself.

        `depth`: of this call below that frame. No method of what a program gives is called.
        """
        if type(site) is not int:
            return 0
        frame = _getframe(depth)
        code = frame.f_code
        _, offsets = self.woven.get(id(code), (None, ()))
        return id(frame) if frame.f_lasti in offsets else 0

    # judging calls

    def _is_the_program_s(self, function: Any) -> bool:
        if type(function) is types.MethodType:
            function = function.__func__
        return type(function) is types.FunctionType and not self.library.is_path(function.__code__.co_filename)

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
            mine = get_ident() not in self.busy
            self.busy.add(get_ident())
            try:
                result = function(*args, **options)
            finally:
                if mine:
                    self.busy.discard(get_ident())
            self._guarded(self._judge, function, 0, [*args, *options.values()], result)
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

    def _judge(self, function: Any, flags: int, args: list[Any], result: Any) -> None:
        while type(function) is functools.partial:
            args = [*function.args, *args, *function.keywords.values()]
            function = function.func
        self.library.whole.clear()
        rows = self.library.rows_of(function)
        if isinstance(function, type) and any(marker == LOADED for marker, _ in rows):
            self._fed(args)  # DMatrix(X, y)
        rows = [row for row in rows if row[0] not in self.seen or (row[1] == "INFERENCE" and not self.learned)]
        owner = owner_of(function)
        bound = isinstance(function, types.MethodType) and not isinstance(owner, type)
        if any(marker == LOADED for marker, _ in rows) and self._reads(args) and holds_something(result):
            self.shared[0] = 1
            self._saw(LOADED)
        if not self.opened:
            return
        if rows and self._may_count(function, owner if bound else None):
            for marker, when in rows:
                if marker != LOADED and marker != PREDICTED:
                    self._worked(marker, when, owner, flags, args, result)
                elif marker == PREDICTED:
                    self._predicted(owner if when == "TEST" else function, flags, args, result, when)
        if flags & LOSS and hasattr(result, "requires_grad") and is_scalar(result):
            self._loss(flags, args, result)
        if DEFINED not in self.seen and self.library.is_model(result):
            self._saw(DEFINED)

    def _may_count(self, function: Any, owner: Any) -> bool:
        """Whether a function's module is the library's, and a method's object can train: nothing in either is replaced."""
        is_able = owner is None or self.library.trains(owner) or self.library.can_do(function)
        return is_able and self.library.is_untouched(function)

    def _worked(self, marker: int, when: str, owner: Any, flags: int, args: list[Any], result: Any) -> None:
        """A call of the table that trains a model, or that computes a loss."""
        if when == "LOOP":
            self.stepped = self.stepped or has_gradients(owner)
        elif when in ("SEEN", "HELD_OUT"):
            held = bool(flags & HELD_OUT) or quiet()
            if held == (when == "HELD_OUT") and self._loss_of(args, result):
                self._saw(marker)
        elif type(owner).__name__ == "Tensor":
            if self._learns():
                self._saw(marker)
        elif self._trained(owner, args):
            self._saw(marker)
            if marker == TRAINED and flags & WATCHED:
                self._saw(TESTING)

    def _trained(self, owner: Any, args: list[Any]) -> bool:
        """Whether a call was given rows of the data: to an estimator, to a cross-validation, in a library's object."""
        if owner is None and args and hasattr(args[0], "fit"):
            if not self.library.is_model(args[0], 1):
                return False
            args = args[1:]
        if self.library.trains(owner) and hasattr(owner, "train_dataset"):
            return len(owner.train_dataset) >= self.least
        self._fed(args)
        unknown = not self.described and not self.inputs.count and bool(args)  # a library's own kind of data set
        return unknown or self._learns()

    def _fed(self, args: list[Any]) -> None:
        if not self.learned and self.attempts < _ATTEMPTS:
            fed = [each for each in args[:3] if type(each) not in (str, int, float, bool, dict)]
            for rows, value in zip((self.inputs, self.targets), fed, strict=False):
                rows.add(value)

    def _learns(self) -> bool:
        """Whether the program has trained on rows of the data, in one call or many."""
        if not self.learned and self.least <= self.inputs.count and self.inputs.is_new() and self._may_try():
            of_data = not self.described or self.inputs.are_of(self.described) or self.targets.are_of(self.described)
            self.shared[1] = self.inputs.varies() and of_data
        return self.learned

    def _may_try(self) -> bool:
        self.attempts += 1
        return self.attempts <= _ATTEMPTS

    def _has_trained(self) -> bool:
        return self.learned or not self.described

    def _loss_of(self, args: list[Any], result: Any) -> bool:
        """Whether a library's metric compares two different columns, of which one has values of the data."""
        if hasattr(result, "requires_grad"):
            return False  # see _loss
        if not self._has_trained() or len(args) < 2 or args[0] is args[1] or not self._may_try():
            return False
        for each in args[:2]:
            rows = Rows()
            rows.add(each)
            if rows.count > 1 and rows.varies() and (not self.described or rows.are_of(self.described)):
                return True
        return False

    def _loss(self, flags: int, args: list[Any], result: Any) -> None:
        """A loss of torch: of a network in training, or of one that has been trained."""
        if flags & HELD_OUT or quiet():
            if self.stepped and self._learns():
                self._saw(TESTING)
        elif result.requires_grad:
            self._fed([None, *args[1:2]])
            if self._learns():
                self._saw(TRAINING)

    def _predicted(self, model: Any, flags: int, args: list[Any], result: Any, when: str) -> None:
        if when == "INFERENCE":
            if not self.library.is_model(model):
                return
            if not (quiet() or getattr(model, "training", None) is False):
                self.sums.pop(id(model), None)
                self._fed(args[:1])
                return
        if flags & NOT_TEST or PREDICTED in self.seen:
            return
        rows = rows_in(result)
        if (not self.rows or rows in self.rows) and self._has_trained():
            self._saw(PREDICTED)
        elif rows is not None:
            self.sums[id(model)] = self.sums.get(id(model), 0) + rows

    # the task's data

    def _reads(self, args: list[Any]) -> bool:
        """Whether one of some arguments is a file of the task's data, or a text in one."""
        for each in args[:5]:
            if isinstance(each, dict):
                each = list(each.values())
            if type(each) in (list, tuple):
                if each and self._reads(list(each)):
                    return True
            elif isinstance(each, _PATHS) and self._is_input(each):
                return True
            elif self.library.is_reader(each):
                archive = getattr(getattr(each, "_fileobj", None), "_file", each)
                return self._is_input(getattr(archive, "name", ""))
            else:
                text = each.getvalue() if isinstance(each, (io.StringIO, io.BytesIO)) else each
                if isinstance(text, (str, bytes)) and len(text) > 1 and self._is_in_a_file(text):
                    return True
        return False

    def _is_in_a_file(self, text: str | bytes) -> bool:
        if not self._may_try():
            return False
        wanted = (text.encode() if isinstance(text, str) else text).strip()
        for path in self.files[:20]:
            if os.stat(path).st_size >= max(1, len(wanted)) and len(wanted) >= 8:
                with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
                    if content.find(wanted[:4096]) >= 0:
                        return True
        return False

    def _is_input(self, path: Any) -> bool:
        """Whether a path leads to something in ./input."""
        try:
            path = realpath(os.fsdecode(path))
            return bool(path.startswith(self.input + "/") and exists(path))
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
            try:  # not `suppress`, whose methods a program can replace
                write(1, f"\n{token}\n".encode())
            except OSError:
                return

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Audit hook: notes files that are opened, and searches for this module's objects.

        PermissionError where the program opens its own memory; no other error.
        """
        # The arguments may be the program's, see sys.audit: no method of theirs is called.
        path = str.__str__(args[0]) if event == "open" and args and issubclass(type(args[0]), str) else ""
        if path.endswith("mem") and path.startswith("/proc/"):
            raise PermissionError(13, "Permission denied", path)
        try:
            if path:
                self._note_file(path)
            else:
                self._audited(event, args)
        except Exception:
            return

    def _note_file(self, path: str) -> None:
        """Note a file of the data that is opened; as `_guarded`, because a program can replace what `os` calls."""
        if self.opening or self.looking or not self.tokens or len(self.files) >= 20 or path in self.files:
            return
        me = get_ident()
        mine = me not in self.busy
        self.opening = True
        self.busy.add(me)
        try:
            if self._is_input(path):
                self.files.append(path)
                self.shared[0] = 1
        finally:
            self.opening = False
            if mine:
                self.busy.discard(me)

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _SNOOPING:
            self.tokens.clear()
        elif event == "object.__getattr__":
            if type(args[0]) in _FRAMED and type(args[1]) is str and args[1] in _FRAMES:
                self._given()
                self._look(args[0], args[1])
        elif event == "sys._getframe":
            self._given()
            if self.busy:
                self._look(None, event)
        elif event.startswith("ctypes."):
            self._look(None, event)

    def _given(self) -> None:
        """End all reports if the program itself asks for a frame: it can keep it, and later go from there to this module's unheard."""
        if self.looking or not self.tokens:
            return
        self.looking = True
        try:
            frame: types.FrameType | None = _getframe(3)
            while frame is not None and frame.f_code.co_name in _GIVERS and self.library.has(frame.f_code):
                frame = frame.f_back
            if frame is not None and frame.f_globals is not _OWN and not self.library.has(frame.f_code):
                self.tokens.clear()
        finally:
            self.looking = False

    def _look(self, thing: Any, event: str) -> None:
        """End all reports if a requested frame leads to this module's, or if the program reads memory."""
        if self.looking or not self.tokens:
            return
        self.looking = True
        try:
            foreign = thing is not None
            frame = getattr(thing, event) if foreign else _getframe(3)
            while frame is not None:
                if frame.f_globals is _OWN:
                    if foreign:
                        self.tokens.clear()
                    return
                mine = not self.library.has(frame.f_code)
                if event.startswith("ctypes.") and (mine or "/ctypes/" not in frame.f_code.co_filename):
                    if mine:
                        self.tokens.clear()
                    return
                foreign = foreign or mine
                frame = frame.f_back
        finally:
            self.looking = False


def compiled(text: bytes, script: str, config: ObserverSettings) -> types.CodeType:
    """The program `text`, compiled with hooks. On any error the caller compiles it without."""
    observer = Observer(config)
    hooks = _Hooks()
    for name in _HOOKS:
        setattr(hooks, name, opaque(getattr(observer, name)))
    code = weave(text, script, config["calls"], config["loops"], config["places"], hooks)
    observer.woven = hook_calls(code)
    copyreg.pickle(type(opaque(len)), opaque(observer.reduced))
    sys.addaudithook(observer.audit)
    _OWN.pop("load", None)  # it holds the tokens; only the observer keeps them
    return code


def loader(config: str) -> Callable[[bytes, str], types.CodeType]:
    """`compiled` with its configuration, as JSON."""
    return lambda text, script: compiled(text, script, json.loads(config))
