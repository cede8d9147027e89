"""Classify objects of a running program: a library's function, a model, a result with a number of rows.

Part of `observer`, and like it standard library only. A function is a library's if its code, and that of the functions
that it wraps, equals the code in the library's file; names, attributes and a code's file name decide nothing. A class
is a library's if its module has it under its name and all functions in it are the library's.
Not covered: a program that replaces functions of the modules that a library's module uses.
"""

from __future__ import annotations

import functools
import marshal
import re
import sys
import types
import weakref
from contextlib import suppress
from itertools import zip_longest
from typing import Any

LOADED = 1  # number of the marker
_FUNCTION = types.FunctionType
_MRO = type.__dict__["__mro__"].__get__  # a metaclass cannot answer in its place
_DICT = type.__dict__["__dict__"].__get__
_FREE = {"__init__", "__init_subclass__", "__repr__", "__sklearn_tags__", "get_params", "set_params"}
_CACHED = f".{sys.implementation.cache_tag}.pyc"  # the end of a compiled file's name
_DEEPEST = 6  # of functions within functions, of estimators within estimators


class Library:
    """The table of operations, applied to runtime objects."""

    def __init__(self, table: list[tuple[int, str, str]], folders: tuple[str, ...]) -> None:
        """table: (marker, when, pattern of calls); folders: of libraries, each ending in a slash."""
        self.table = [(marker, when, re.compile(calls)) for marker, when, calls in table]
        self.folders = folders
        self.cache: dict[Any, list[tuple[int, str]]] = {}
        self.files: dict[str, dict[tuple[int, str], list[tuple[str, types.CodeType]]]] = {}
        self.whole: dict[type, bool] = {}
        self.known: dict[int, tuple[types.CodeType, str | None]] = {}

    def rows_of(self, function: Any) -> list[tuple[int, str]]:
        """(marker, when) of the table's rows for `function`; none for the program's own."""
        key: Any = (type(function),)
        if isinstance(function, types.MethodType):
            key = (type(function.__self__), function.__func__)
        elif isinstance(function, (type, _FUNCTION, types.BuiltinFunctionType)):
            key = function
        if key not in self.cache:
            names = self._names(function)
            rows = [(marker, when) for marker, when, calls in self.table if any(map(calls.fullmatch, names))]
            self.cache[key] = rows
        return self.cache[key]

    def _names(self, function: Any) -> list[str]:
        """Its names in the notation of the table, from the files of libraries."""
        if isinstance(function, types.MethodType):
            owner = function.__self__
            if isinstance(owner, type):  # a class method
                return self._full_names(function.__func__)
            bases = self._bases(type(owner))
            homes = {each.__qualname__ for each in bases}
            names = []
            for full in self._full_names(function.__func__):
                home, _, name = full.rpartition(".")
                if home.rpartition(".")[2] in homes:
                    names += [f"().{name}", *(f"{_full(each)}().{name}" for each in bases)]
            return names
        if isinstance(function, _FUNCTION):
            names = self._full_names(function)
            return names + ["().".join(name.rsplit(".", 1)) for name in names if name.endswith(".step")]
        if isinstance(function, types.BuiltinFunctionType):
            return [_full(function)] if self._is_at_home(function) else []
        if isinstance(function, type):
            return [_full(each) for each in self._bases(function)]
        return [f"{_full(each)}()()" for each in self._bases(type(function))]

    def _bases(self, kind: type) -> list[type]:
        return [each for each in _MRO(kind)[:-1] if self._is_at_home(each)]

    def _full_names(self, function: Any) -> list[str]:
        """The full name of a library's function, and of those that it wraps; none if one is not a library's."""
        names = [self._home_of(each.__code__) for each in _functions_in(function)]
        return [] if None in names else [name for name in names if name]

    def is_genuine(self, function: Any) -> bool:
        """Whether a function, with those that it wraps, has the code of a library's file."""
        return bool(self._full_names(function))

    def is_untouched(self, function: Any) -> bool:
        """Whether no function of the program stands in the library's module that has `function`."""
        for each in _functions_in(function):
            home = each.__code__.co_filename
            for value in list(each.__globals__.values()):
                if isinstance(value, _FUNCTION):
                    path = value.__code__.co_filename  # other files are not read, which would take long
                    if not (self.is_genuine(value) if path == home else self.is_path(path) or path.startswith("<")):
                        return False
        return True

    def has(self, code: types.CodeType) -> bool:
        """Whether code that runs is that of a library's file, or of a module within the interpreter."""
        if type(code.co_filename) is not str:
            return False
        frozen = sys.modules.get(code.co_filename.removeprefix("<frozen ").removesuffix(">"))
        return self._home_of(code) is not None or (frozen is not None and code.co_filename[:8] == "<frozen ")

    def _home_of(self, code: types.CodeType) -> str | None:
        """The full name of the function that has this code in a library's file; None for any other code."""
        if id(code) not in self.known:
            self.known[id(code)] = code, self._found(code)
        return self.known[id(code)][1]

    def _found(self, code: types.CodeType) -> str | None:
        path = code.co_filename
        if not self.is_path(path):
            return None
        if path not in self.files:
            self.files[path] = _codes_of(path)
        for qualname, its in self.files[path].get((code.co_firstlineno, code.co_name), ()):
            if _same(its, code):
                return f"{self._module_of(path)}.{qualname}"
        return None

    def is_path(self, path: Any) -> bool:
        """Whether a file is in a library's folder."""
        return type(path) is str and path.startswith(self.folders)

    def _module_of(self, path: str) -> str:
        folder = max((each for each in self.folders if path.startswith(each)), key=len)
        module = path[len(folder) :].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return _at_home(module)

    def _is_at_home(self, thing: Any) -> bool:
        """Whether a library's module has a class or builtin under its name."""
        module_name = str(getattr(thing, "__module__", None) or "")
        module = sys.modules.get(module_name)
        file = getattr(module, "__file__", None)
        home: Any = module
        for name in getattr(thing, "__qualname__", "").split("."):
            home = getattr(home, name, None)
        return home is thing and (self.is_path(file) or module_name in sys.builtin_module_names)

    def is_class(self, kind: type) -> bool:
        """Whether a class is a library's, and nothing in it or its bases was replaced."""
        return all(self._is_at_home(each) and self._is_whole(each) for each in _MRO(kind)[:-1])

    def _is_whole(self, kind: type) -> bool:
        """Whether all functions of a class are a library's; looked at again for each call that is judged."""
        if kind not in self.whole:
            self.whole[kind] = self._has_no_other_functions(kind)
        return self.whole[kind]

    def _has_no_other_functions(self, kind: type) -> bool:
        for name, value in list(_DICT(kind).items()):
            value = getattr(value, "fget" if isinstance(value, property) else "__func__", value)
            if not isinstance(value, _FUNCTION):
                value = next((_DICT(each)["__call__"] for each in _MRO(type(value)) if "__call__" in _DICT(each)), None)
            is_made = isinstance(value, _FUNCTION) and value.__code__.co_filename == "<string>"  # as dataclasses do
            if isinstance(value, _FUNCTION) and not (is_made and name.startswith("__")) and not self.is_genuine(value):
                return False
            if isinstance(_DICT(kind)[name], functools.partial):
                return False
        return True

    def can_do(self, function: Any) -> bool:
        """Whether a method is of a model, and of a library's code that calls none of the program's."""
        names = {each.__code__.co_name for each in _functions_in(function)}
        return self.is_model(function.__self__, 0 if names & {"fit", "predict", "predict_proba"} else 1)

    def is_reader(self, thing: Any) -> bool:
        """Whether it is a library's object that is read like a file: of an archive, compressed."""
        kind = type(thing)
        return hasattr(kind, "read") and kind.__name__ not in ("StringIO", "BytesIO") and self.is_class(kind)

    def is_model(self, thing: Any, depth: int = 0) -> bool:
        """Whether it is an estimator with `predict`, with all that it is made of, or a network with parameters.

        A network may be of the program's own class. An estimator's own class may add methods; at a `depth` of 0 it may
        also have `fit` and `predict` of its own, which a caller has to rule out where the library would call them.
        """
        kind = type(thing)
        if isinstance(thing, type) or depth > _DEEPEST:
            return False
        bases = self._bases(kind)
        names = [_full(each) for each in bases]
        if any(each.startswith("torch.nn.modules.loss.") for each in names):
            return False
        if "torch.nn.modules.module.Module" in names:
            module: Any = bases[names.index("torch.nn.modules.module.Module")]
            return self._is_whole(module) and next(iter(module.parameters(thing)), None) is not None
        if not any(map(self._predicts, bases)):
            return False
        own = [each for each in _MRO(kind)[:-1] if each not in bases]
        if any(each.startswith(("keras.", "lightning.")) for each in names):
            return all(map(self._is_whole, bases))
        taken = {name for each in bases for name in _DICT(each)} - (_FREE if depth else _FREE | {"fit", "predict"})
        changed = [name for each in own for name, value in _DICT(each).items() if name in taken and callable(value)]
        if changed or not all(map(self._is_whole, bases)):
            return False
        return all(self.is_model(part, depth + 1) for part in self._parts(thing))

    def _predicts(self, kind: type) -> bool:
        """Whether a base has `predict` of its own, as mixins have not."""
        return "predict" in _DICT(kind) or kind.__name__.startswith("Stacking")

    def trains(self, owner: Any) -> bool:
        """Whether the owner of a method is a library's optimizer, trainer or loss, with data of its own."""
        bases = self._bases(type(owner))
        is_named = any(each.__name__ in ("Optimizer", "GradScaler", "Trainer", "Tensor") for each in bases)
        return is_named and not any(_full(each).startswith("sklearn.") for each in bases)

    def _parts(self, thing: Any) -> list[Any]:
        """The estimators that an estimator is made of: of a pipeline the last one, of others all that predict."""
        parts: list[Any] = []
        values = dict(vars(thing)) if hasattr(thing, "__dict__") else {}
        if "predict" in values or "fit" in values:
            return [None]  # replaced for this object
        steps = values.get("steps")
        if isinstance(steps, list) and steps:
            return [steps[-1][1]]
        for each in _flat(list(values.values())):
            if hasattr(each, "predict") or (hasattr(each, "fit") and not self._bases(type(each))):
                parts.append(each)
        return parts


def _flat(values: Any, depth: int = 0) -> list[Any]:
    """The objects within lists, tuples and dicts; of each the first ones."""
    found: list[Any] = []
    for each in values[:50]:
        each = list(each.values()) if type(each) is dict else each
        if type(each) in (list, tuple):
            found += _flat(each, depth + 1) if depth < _DEEPEST else []
        elif not isinstance(each, type):
            found.append(each)
    return found


def _functions_in(function: Any, depth: int = 0) -> list[types.FunctionType]:
    """A function, and the functions in its closure."""
    if isinstance(function, types.MethodType):
        function = function.__func__
    if not isinstance(function, _FUNCTION) or depth > _DEEPEST:
        return []
    functions = [function]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # an empty cell
            functions += _functions_in(cell.cell_contents, depth + 1)
    return functions


def owner_of(function: Any) -> Any:
    """The object whose method is called, also where a library wraps it for this object alone."""
    owner = getattr(function, "__self__", None)
    if owner is None and isinstance(function, _FUNCTION):
        for cell in function.__closure__ or ():
            with suppress(ValueError):
                if isinstance(cell.cell_contents, weakref.ref):
                    return cell.cell_contents()
    return owner


def _codes_of(path: str) -> dict[tuple[int, str], list[tuple[str, types.CodeType]]]:
    """(first line, name) to the (qualified name, code) of all functions in a library's file."""
    codes: dict[tuple[int, str], list[tuple[str, types.CodeType]]] = {}
    todo: list[tuple[types.CodeType, str]] = []
    try:
        folder, _, name = path.removesuffix(".py").rpartition("/")
        with open(f"{folder}/__pycache__/{name}{_CACHED}", "rb") as file:
            todo.append((marshal.loads(file.read()[16:]), ""))
    except (OSError, ValueError, EOFError, TypeError):
        with open(path, "rb") as file:
            todo.append((compile(file.read(), path, "exec", dont_inherit=True), ""))
    codes[todo[0][0].co_firstlineno, todo[0][0].co_name] = [("<module>", todo[0][0])]
    while todo:
        code, prefix = todo.pop()
        for each in code.co_consts:
            if isinstance(each, types.CodeType):
                qualname = prefix + each.co_name
                codes.setdefault((each.co_firstlineno, each.co_name), []).append((qualname, each))
                is_function = each.co_flags & 2  # newlocals
                todo.append((each, qualname + (".<locals>." if is_function else ".")))
    return codes


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether two functions do the same; those within them are looked at by themselves."""
    if (one.co_code, one.co_names, one.co_varnames) != (other.co_code, other.co_names, other.co_varnames):
        return False
    pairs = list(zip_longest(one.co_consts, other.co_consts))
    return all(type(a) is type(b) and (isinstance(a, types.CodeType) or a == b or repr(a) == repr(b)) for a, b in pairs)


def _at_home(module: str) -> str:
    module = module.lstrip("_")
    for inside, home in (
        ("tensorflow.python.keras", "keras"),
        ("tf_keras", "keras"),
        ("pytorch_lightning", "lightning"),
    ):
        module = home + module[len(inside) :] if module.startswith(inside) else module
    return module


def _full(thing: Any) -> str:
    return f"{_at_home(str(getattr(thing, '__module__', None) or ''))}.{getattr(thing, '__qualname__', '')}"


def quiet() -> bool:
    """Whether torch computes without gradients."""
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "is_grad_enabled") and not torch.is_grad_enabled()


def has_gradients(optimizer: Any) -> bool:
    groups = getattr(optimizer, "param_groups", None)
    return groups is None or any(each.grad is not None for group in groups for each in group["params"])


def is_scalar(result: Any) -> bool:
    return getattr(result, "shape", None) == () or isinstance(result, float)


def holds_something(result: Any) -> bool:
    return not hasattr(type(result), "__len__") or len(result) > 0


def rows_in(result: Any) -> int | None:
    """The number of rows of a prediction, None if unknown."""
    if hasattr(result, "logits"):
        result = result.logits
    if isinstance(result, tuple) and result:
        result = result[0]
    shape = getattr(result, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 1
    return len(result) if isinstance(result, list) else None
