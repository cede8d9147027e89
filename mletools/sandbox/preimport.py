"""Imports the libraries of a warm server.

Covered: imports, and two tiny fits that fill the libraries' caches (without them a run takes a third longer). Not
covered: libraries that start threads or use a GPU; neither survives a fork.
"""

import gc
import importlib
import importlib.util
import os
import warnings
from collections.abc import Sequence
from contextlib import suppress


def warm_up(modules: Sequence[str]) -> tuple[list[str], list[str]]:
    """Import `modules`, and fit two models if scikit-learn is among them.

    Returns the names that are not installed, and those whose import started threads.
    """
    missing, threaded = [], []
    threads = _threads()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError:
                missing.append(name)
            if _threads() > threads:
                threaded.append(name)
                threads = _threads()
        if "sklearn.ensemble" in modules and "sklearn.ensemble" not in missing:
            with suppress(ImportError):
                _fit_twice()
    gc.collect()
    # Later collections skip the present objects, so a run does not copy their pages.
    gc.freeze()
    return missing, threaded


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _fit_twice() -> None:
    import io

    import pandas
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    lines = "".join(f"{row % 7},{row % 5},{row % 2}\n" for row in range(60))
    table = pandas.read_csv(io.StringIO("a,b,y\n" + lines))
    table.to_csv(io.StringIO(), index=False)
    for model in (LogisticRegression(max_iter=5), HistGradientBoostingClassifier(max_iter=2)):
        model.fit(table[["a", "b"]], table["y"]).predict(table[["a", "b"]])
