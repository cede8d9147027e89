"""How a solution starts: forked from a warm process, or in an interpreter of its own.

Covered: reading from the code whether it uses a library whose threads, pools or device contexts do not survive a fork.
Not covered: code that hides its imports; it is forked, which is no less safe, only less alike to a cold run.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence

# They keep threads, worker pools or a device context that a forked child inherits broken.
NOT_FOR_FORKS = frozenset(
    {
        "cudf",
        "cuml",
        "cupy",
        "dask",
        "jax",
        "loky",
        "mxnet",
        "numba",
        "paddle",
        "pyspark",
        "ray",
        "rmm",
        "tensorflow",
        "torch",
    }
)
# These share `n_jobs` out to threads; everything else in scikit-learn may start loky's processes.
_THREADED = ("RandomForest", "ExtraTrees", "RandomTrees", "IsolationForest", "KNeighbors", "XGB", "LGBM")


def wants_fresh_interpreter(code: bytes, preimported: Sequence[str], gpu: bool) -> bool:
    """Whether the solution `code` imports one of NOT_FOR_FORKS, or asks scikit-learn for several jobs.

    Who names such a module in `preimported` vouches for it, but not beside a GPU.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # it will not get far either way
    vouched = set() if gpu else {name.partition(".")[0] for name in preimported}
    unfit = NOT_FOR_FORKS - vouched
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
    alone = jobs is None or (isinstance(jobs, ast.Constant) and jobs.value in (None, 1))
    return not alone and not name.startswith(_THREADED)
