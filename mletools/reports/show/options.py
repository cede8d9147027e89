"""The options of mle-show."""

import os
from dataclasses import dataclass
from typing import Any

from ...records.errors import OptionError
from ...records.options import option
from .lines import View


@dataclass(frozen=True)
class ShowOptions:
    """Which rollouts are shown, how much of them, and where to."""

    prefixes: tuple[str, ...] = option(
        "Only rollouts whose id, or whose group's, begins so (repeatable; default: all).",
        default=(),
        flags=("--id",),
        metavar="PREFIX",
    )
    listing: bool = option("A line a rollout instead.", default=False, flags=("--list",))
    tree: bool = option("Of searches (--scaffold search): their graph, a line a node.", default=False)
    turns: tuple[int, ...] = option(
        "Only this turn, counted from 1 (repeatable; default: all).",
        default=(),
        flags=("--turn",),
        at_least=1,
        metavar="K",
    )
    full: bool = option("All of every text, and whole programs instead of what changed.", default=False)
    width: int | None = option("Columns.  [default: the terminal's, else 122: prompts have 120]", at_least=40)
    colour: str = option(
        "auto: on a terminal, and unless NO_COLOR is set.",
        default="auto",
        choices=("auto", "always", "never"),
        flags=("--color",),
    )
    html: bool = option("One HTML page, in colours, that loads nothing; else plain text.", default=False)

    def check(self, colour_chosen: bool) -> None:
        """OptionError for options that do not go together. colour_chosen: --color is on the command line."""
        if (self.listing or self.tree) and (self.turns or self.full):
            flag = "--tree" if self.tree else "--list"
            raise OptionError(f"{flag} shows no turns: --turn and --full are about the other way of showing")
        if self.listing and self.tree:
            raise OptionError("--list is a line a rollout, --tree a line a node: choose one")
        if self.html and colour_chosen:
            raise OptionError("--color is about terminals; --html has its own colours")

    def wants(self, rollout: dict[str, Any]) -> bool:
        """Whether the rollout is one of those to show."""
        return (
            not self.prefixes or rollout["id"].startswith(self.prefixes) or rollout["group"].startswith(self.prefixes)
        )

    def columns(self, terminal: int | None) -> int:
        """The width of lines; `terminal` is that of the terminal, None where there is none."""
        columns = os.environ.get("COLUMNS", "")
        return self.width or max(int(columns if columns.isdecimal() else 0) or terminal or View.width, 40)

    def in_colours(self, terminal: bool) -> bool:
        """Whether text has colours; `terminal`: it goes to one."""
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return self.colour == "always" or (self.colour == "auto" and terminal and not plain)
