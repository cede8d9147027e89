"""The options of scoring. Importing this loads nothing heavy: --help shows them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..records.options import option
from ..sandbox import BACKENDS, Limits

if TYPE_CHECKING:
    from .code_metrics import CodeMetrics


@dataclass(frozen=True)
class CodeMetricOptions:
    """Where metrics that are code run, and their limits: wall seconds and MB."""

    backend: str = option(
        "The sandbox of metrics that are code.",
        default="local",
        choices=(*BACKENDS, "auto"),
        envvar="MLE_SANDBOX",
        machine=True,
    )
    metric_timeout: float = option("Wall seconds for one metric.", default=300.0, metavar="S", machine=True)
    metric_memory: int = option("Memory of one metric.", default=4096, at_least=64, metavar="MB", machine=True)

    def open(self) -> "CodeMetrics":
        """Runs metrics; its sandbox is closed at the end of the with block."""
        from .code_metrics import CodeMetrics

        return CodeMetrics(self.backend, Limits(wall_s=self.metric_timeout, memory_mb=self.metric_memory))


def check_name(name: str) -> str:
    """The name of a check of tasks. ValueError: there is none."""
    from ..tasks.soundness import CHECKS

    if name not in CHECKS:
        raise ValueError(f"{name!r} is none of {', '.join(CHECKS)}")
    return name


@dataclass(frozen=True)
class TaskCheckOptions:
    """Which checks tasks are put to; none: all."""

    check: tuple[str, ...] = option(
        "This check alone (default: all; a wrong name lists them). Repeatable.",
        default=(),
        metavar="NAME",
        read=check_name,
    )
