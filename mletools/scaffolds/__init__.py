"""Scaffolds: how an agent works on a task. They import records and prompts; models, sandboxes and graders reach them as
an Environment (interface). Each is a subclass of Scaffold, by its name here or as `module:Name` or `path/file.py:Name`.
"""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

from ..base.errors import ToolError
from ..base.words import did_you_mean
from .interface import Scaffold

SCAFFOLDS = {
    "single": "single:Single",
    "improve": "single:Improve",
    "react": "react:React",
    "codeact": "codeact:Codeact",
    "memory": "memory:Memory",
    "idea": "idea:Idea",
    "search": "search:SearchScaffold",
    "command": "command:Command",
}
IN_TURNS = tuple(name for name in SCAFFOLDS if name != "single")


def open_scaffold(name: str) -> Scaffold[Any]:
    """A scaffold by name. ToolError: there is none, or it is no scaffold."""
    spec = f"{__package__}.{SCAFFOLDS[name]}" if name in SCAFFOLDS else name
    if ":" not in spec:
        raise ToolError(
            f"--scaffold {name}: known are {', '.join(SCAFFOLDS)}; one of your own is module:Name or path/to/file.py:Name"
            + did_you_mean(name, SCAFFOLDS)
        )
    kind = load(spec, f"--scaffold {name}")
    if not (isinstance(kind, type) and issubclass(kind, Scaffold)):
        raise ToolError(f"--scaffold {name}: it is no subclass of mletools.scaffolds.interface.Scaffold")
    try:
        scaffold: Scaffold[Any] = kind()
    except TypeError as error:
        raise ToolError(f"--scaffold {name}: {error}") from None
    if not hasattr(scaffold, "settings"):
        raise ToolError(f"--scaffold {name}: it has no settings (a dataclass, Settings or a subclass of it)")
    return scaffold


def load(spec: str, what: str) -> Any:
    """The attribute that `module:Name` or `path/to/file.py:Name` names. ToolError, beginning with `what`: there is none."""
    module, _, attribute = spec.rpartition(":")
    try:
        loaded = _imported(module)
    except Exception as error:  # anybody's code runs at its import
        raise ToolError(f"{what}: {_failure(error)}") from error
    try:
        return getattr(loaded, attribute)
    except AttributeError:
        raise ToolError(f"{what}: {module} has no {attribute}") from None


def _failure(error: Exception) -> str:
    """What went wrong at an import, and on which line of the file."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__ and not frame.filename.startswith("<frozen")]
    inside = [frame for frame in own if Path(frame.filename).parent != Path(importlib.__file__).parent]
    return f"{inside[0].filename}:{inside[0].lineno}: {type(error).__name__}: {error}" if inside else str(error)


def _imported(module: str) -> Any:
    if not module.endswith(".py"):
        here = str(Path.cwd())
        if here not in sys.path:  # as with python -m: a module of the current folder is found
            sys.path.insert(0, here)
        return importlib.import_module(module)
    if not Path(module).is_file():
        raise ToolError(f"{module}: no such file")
    path = Path(module).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded  # dataclasses look themselves up there
    spec.loader.exec_module(loaded)
    return loaded
