"""A grader that is a program of the benchmark's: the file, and those beside it that it imports.

The files are only read here and copied into the private folder; none of them runs.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from ...base.programs import parse_program
from ...records.task import MetricSpec, MetricStyle
from ..folder import Content
from ..table import Rejected
from .lookup import inside


def code_metric(
    file: Path, root: Path, style: MetricStyle, lower_is_better: bool
) -> tuple[MetricSpec, dict[str, Content]]:
    """(the metric of the record, the private files by name). `root` is the folder that nothing may lie outside of."""
    files = {file.name: inside(file, root), **_siblings(file, root)}
    metric: MetricSpec = {"file": f"private/{file.name}", "style": style, "lower_is_better": lower_is_better}
    others = sorted(f"private/{name}" for name in files if name != file.name)
    if others:
        metric["files"] = others
    return metric, {f"private/{name}": path for name, path in files.items()}


def _siblings(file: Path, root: Path) -> dict[str, Path]:
    """The Python files that `file` imports, and those that these import, from its folder or the one above."""
    found: dict[str, Path] = {}
    todo = [file]
    while todo:
        here = todo.pop()
        for module in _imported(here):
            for folder in (file.parent, file.parent.parent):
                path = folder / f"{module}.py"
                if path.is_file() and path.name != file.name and path.name not in found:
                    found[path.name] = inside(path, root)
                    todo.append(path)
                    break
    return found


def _imported(file: Path) -> Iterator[str]:
    """The last parts of the names of the modules that a file imports."""
    try:
        tree = parse_program(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise Rejected(f"{file.name} cannot be read as Python: {error}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.rpartition(".")[2] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").rpartition(".")[2]
            yield from (alias.name for alias in node.names)
