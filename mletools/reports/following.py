"""mle-report --follow: the dashboard of a running pipe on standard error."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..records.errors import ToolError
from .live import Live, Row, Tail, add_new, in_one_line

FRAME = 0.5  # seconds


def follow(files: Sequence[str], steps: Sequence[str], interval: float, say: Callable[[str], None]) -> None:
    """Watch rollouts in `files` and train_step records in `steps` until a signal ends it.

    On a terminal it redraws a table; elsewhere it passes `say` one line every `interval` seconds. ToolError: standard
    input cannot be watched.
    """
    if "-" in files:
        raise ToolError("--follow watches files that grow: let `tee FILE` write one in the middle of the pipe")
    tails = [Tail(path) for path in (*files, *steps)]
    live = Live(time.monotonic())
    add_new(tails, live, True)
    if not sys.stderr.isatty():
        while True:
            say(in_one_line(live.rows(time.monotonic())))
            time.sleep(interval)
            add_new(tails, live, False)
    from rich.console import Console
    from rich.live import Live as Screen

    with Screen(console=Console(stderr=True), auto_refresh=False) as screen:
        while True:
            rows = live.rows(time.monotonic())
            screen.update(_table(rows, sum(tail.unreadable for tail in tails), files), refresh=True)
            time.sleep(FRAME)
            add_new(tails, live, False)


def _table(rows: Sequence[Row], unreadable: int, files: Sequence[str]) -> Any:
    from rich.table import Table
    from rich.text import Text

    note = f", {unreadable} lines that are not records" if unreadable else ""
    table = Table(title=Text(f"{', '.join(files)}{note}"), title_justify="left", box=None, pad_edge=False)
    for name, justify in (("", "left"), ("recent", "right"), ("total", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
