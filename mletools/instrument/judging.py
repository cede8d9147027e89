"""Classify objects of a running program: a library's function, a model, a result with a number of rows.

Part of `observer`, and like it standard library only. Covered: distinguishing a library's functions and classes from
the program's of the same name, by their files.
Not covered: a program that compiles its code under a library's file name.
"""

from __future__ import annotations

import re
import sys
import types
from typing import Any

LOADED = 1  # number of the marker


class Library:
    """The table of operations, applied to runtime objects."""

    def __init__(self, table: list[tuple[int, str, str]], folders: tuple[str, ...]) -> None:
        """table: (marker, when, calls); folders: of libraries, each ending in a slash."""
        self.table = [(marker, when, re.compile(_pattern(calls))) for marker, when, calls in table]
        self.folders = folders
        self.cache: dict[Any, list[tuple[int, str]]] = {}

    def rows_of(self, function: Any) -> list[tuple[int, str]]:
        """(marker, when) of the table's rows for `function`; none for the program's own."""
        owner = getattr(function, "__self__", None)
        bound = owner is not None and not isinstance(owner, (type, types.ModuleType))
        key = (type(owner), function.__name__) if bound else function
        if not bound and not isinstance(function, (type, types.FunctionType, types.BuiltinFunctionType)):
            key = (type(function),)
        if bound and not self.is_own(getattr(function, "__func__", function)):
            return []
        if key not in self.cache:
            names = self._names(function, owner if bound else None)
            rows = [(marker, when) for marker, when, calls in self.table if any(map(calls.fullmatch, names))]
            self.cache[key] = rows
        rows = self.cache[key]
        return rows if not bound or _is_torch(owner) or self.is_model(owner) else _loading_rows(rows)

    def _names(self, function: Any, owner: Any) -> list[str]:
        """Its names in the notation of the table."""
        if owner is not None:
            name = function.__name__
            return [
                f"().{name}",
                *(f"{_full(each)}().{name}" for each in type(owner).__mro__ if self.is_own(each)),
            ]
        if isinstance(function, type):
            return [_full(each) for each in function.__mro__ if self.is_own(each)]
        if hasattr(function, "__qualname__"):
            return [_full(function)] if self.is_own(function) else []
        return [f"{_full(each)}()()" for each in type(function).__mro__ if self.is_own(each)]

    def is_own(self, thing: Any) -> bool:
        """Whether a function or class belongs to an installed library."""
        code = getattr(thing, "__code__", None)
        if code is not None:
            return bool(code.co_filename.startswith(self.folders))
        module = sys.modules.get(getattr(thing, "__module__", None) or "")
        if module is None:
            return False
        file = getattr(module, "__file__", None)
        home: Any = module
        for name in getattr(thing, "__qualname__", "").split("."):
            home = getattr(home, name, None)
        is_genuine = home is thing or not isinstance(thing, type)
        return is_genuine and (
            (isinstance(file, str) and file.startswith(self.folders)) or module.__name__ in sys.builtin_module_names
        )

    def is_model(self, thing: Any) -> bool:
        """Whether it is an estimator with `predict` (a pipeline by its last step), or a network with parameters."""
        kind = type(thing)
        if isinstance(thing, type) or (not hasattr(kind, "predict") and not hasattr(kind, "parameters")):
            return False
        bases = [_full(each) for each in kind.__mro__[:-1] if self.is_own(each)]
        if any(re.fullmatch(r"torch\.nn\.modules\.loss\..*", each) for each in bases):
            return False
        if "torch.nn.modules.module.Module" in bases:
            return next(iter(thing.parameters()), None) is not None
        if all(each.startswith(("abc.", "typing.", "collections.")) for each in bases):
            return False
        return hasattr(thing, "predict") or kind.__name__.startswith("Stacking")


def _pattern(calls: str) -> str:
    """Calls of the table as a pattern of full names; other parts may lie between the parts of a path."""
    patterns = []
    for call in calls.split():
        path, bracket, rest = call.partition("(")
        path = re.escape(path).replace(r"\.", r"\.(?:[\w.]*\.)?")
        patterns.append(path + re.escape(bracket + rest))
    text = "|".join(patterns).replace(r"\*", "[^(){}]*")
    return text.replace(r"\[A\-Z\]", "[A-Z]").replace(r"\[a\-z\]", "[a-z]")


def _full(thing: Any) -> str:
    module = str(getattr(thing, "__module__", None) or "").lstrip("_")
    for inside, home in (
        ("tensorflow.python.keras", "keras"),
        ("tf_keras", "keras"),
        ("pytorch_lightning", "lightning"),
    ):
        module = home + module[len(inside) :] if module.startswith(inside) else module
    return f"{module}.{getattr(thing, '__qualname__', '')}"


def _loading_rows(rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(marker, when) for marker, when in rows if marker == LOADED]


def _is_torch(owner: Any) -> bool:
    """Whether the owner of a method trains models: an optimizer, a trainer, a loss."""
    kinds = ("Optimizer", "GradScaler", "Trainer", "Tensor")
    return any(each.__name__ in kinds for each in type(owner).__mro__)


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
