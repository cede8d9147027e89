"""Decides how a solution starts: forked from a warm process, or in a fresh interpreter.

Covered: imports of libraries whose threads, pools or device contexts do not survive a fork. Not covered: hidden
imports; such code is forked, which is as safe, but may differ from a cold run.
"""

import ast
from collections.abc import Sequence

from ..base.programs import parse_program

# They start threads, worker pools or a device context that a forked child inherits in a broken state.
NOT_FOR_FORKS = frozenset(
    ("cudf", "cuml", "cupy", "dask", "jax", "loky", "mxnet", "numba", "paddle", "pyspark", "ray", "rmm", "tensorflow")
) | {"torch"}
# These use threads for `n_jobs`; all others in scikit-learn may start processes with loky.
_THREADED = ("RandomForest", "ExtraTrees", "RandomTrees", "IsolationForest", "KNeighbors", "XGB", "LGBM")


def wants_fresh_interpreter(code: bytes, preimported: Sequence[str], gpu: bool) -> bool:
    """Whether the solution `code` imports one of NOT_FOR_FORKS, or calls scikit-learn with several jobs.

    Modules in `preimported` are taken to survive a fork, but not with a GPU.
    """
    try:
        tree = parse_program(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # it fails either way
    unfit = NOT_FOR_FORKS - (set() if gpu else {name.partition(".")[0] for name in preimported})
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        elif isinstance(node, ast.Call) and _starts_processes(node):
            return True
        if any(name.partition(".")[0] in unfit for name in names):
            return True
    return False


def _starts_processes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    jobs = next((keyword.value for keyword in call.keywords if keyword.arg == "n_jobs"), None)
    single = jobs is None or (isinstance(jobs, ast.Constant) and jobs.value in (None, 1))
    return not single and not name.startswith(_THREADED)
