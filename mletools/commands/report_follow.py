"""mle-report --follow: a dashboard on standard error while a pipe runs."""

import sys
import time
from collections.abc import Sequence
from typing import Any

from .. import cli
from ..records.errors import ToolError
from ..reports.live import Live, Row, Tail, records, told

FRAME = 0.5  # seconds


def follow(run: cli.Run, files: Sequence[str], steps: Sequence[str], interval: float) -> None:
    """Watch the files until a signal ends it: a table that is drawn anew on a terminal, else a line every `interval` seconds."""
    if "-" in files:
        raise ToolError("--follow watches files that grow: let `tee FILE` write one in the middle of the pipe")
    tails = [Tail(path) for path in (*files, *steps)]
    live = Live(time.monotonic())
    records(tails, live, True)
    if not sys.stderr.isatty():
        while True:
            run.say(told(live.rows(time.monotonic())))
            time.sleep(interval)
            records(tails, live, False)
    from rich.console import Console
    from rich.live import Live as Screen

    with Screen(console=Console(stderr=True), auto_refresh=False) as screen:
        while True:
            rows = live.rows(time.monotonic())
            screen.update(_table(rows, sum(tail.unreadable for tail in tails), files), refresh=True)
            time.sleep(FRAME)
            records(tails, live, False)


def _table(rows: Sequence[Row], unreadable: int, files: Sequence[str]) -> Any:
    from rich.table import Table
    from rich.text import Text

    note = f", {unreadable} lines that are no records" if unreadable else ""
    table = Table(title=Text(f"{', '.join(files)}{note}"), title_justify="left", box=None, pad_edge=False)
    for name, justify in (("", "left"), ("lately", "right"), ("in all", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
