"""The options of checks of tasks. Importing this loads nothing heavy: --help shows them."""

from dataclasses import dataclass

from ..records.options import option


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
