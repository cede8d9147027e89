"""What the two training commands share: the extra they need, reading samples, and one record a step."""

import importlib.util
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .. import cli
from ..records.errors import RecordError, ToolError
from ..records.ids import content_id

LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


def require_libraries() -> None:
    """ToolError naming the extra to install when a library that training needs is missing."""
    missing = [library for library in LIBRARIES if importlib.util.find_spec(library) is None]
    if missing:
        raise ToolError(f"needs {', '.join(missing)}: pip install 'mletools[train]'")


def read_rollouts(run: cli.Run, preload: Callable[[], None]) -> list[cli.Line]:
    """Open the output and take the whole input in; meanwhile `preload` does the slow imports."""
    require_libraries()
    run.open()
    if run.dry_run:
        return list(run.lines("rollout"))
    imports = threading.Thread(target=preload, daemon=True)
    imports.start()
    lines = list(run.lines("rollout"))
    imports.join()  # two threads must not import the same library at once
    return lines


def read_samples(run: cli.Run, session: Any, lines: Sequence[cli.Line]) -> list[Any]:
    """The training samples of the lines; a record that cannot be one is a rejected line."""
    samples = []
    for line in lines:
        try:
            samples.append(session.sample(line.record))
        except RecordError as error:
            run.reject(line, str(error))
    return samples


def train(run: cli.Run, session: Any, samples: Sequence[Any]) -> None:
    """Write a train_step record for every step as it is done, and count what was not trained on."""
    run.progress(None, "steps")
    for step in session.train(samples):
        identity = content_id("train_step", step["algorithm"], str(session.out), step["step"])
        run.emit({"kind": "train_step", "version": 1, "id": identity, "lineage": [], **step})
    for reason, count in session.dropped.items():
        run.counts[f"not trained on ({reason.replace('_', ' ')})"] += count
