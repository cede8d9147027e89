"""What is looked for in the text of mle-show, and hostile text to show."""

from typing import Any


def section(shown: str, turn: int) -> str:
    """What stands under a turn's heading."""
    return shown.partition(f"── turn {turn} of ")[2].partition("\n── ")[0]


HOSTILE = (
    "a\x1b]0;title\x07b\x1b[2Jc\u202ed\x9be\u200bf\rg\x00h\x7fi\u2066j\ufeffk\u2028l\U000e0041m\u3164n\ud800o[bold]p[/]"
)


def everywhere(value: Any, key: str = "") -> Any:
    """The record with hostile text in every string that an agent or a task can write."""
    if isinstance(value, dict):
        return {name: everywhere(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [everywhere(item) for item in value]
    fixed = ("kind", "role", "status", "medal", "stop_reason", "problem", "start", "trace", "parse", "modality")
    return f"{value}{HOSTILE}" if isinstance(value, str) and key not in fixed else value
