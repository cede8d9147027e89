"""Reads the search's prompts: sections by their headings, programs, scores, earlier experiments, candidates.

Covered: the marks that the prompts of a search share (headings outside fences, lines of experiments, sentences of a
score). Not covered: what their other sentences say.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import conversation
from .recipes import Recipe, recipe_of

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_NUMBER = r"(-?\d+\.?\d*(?:[eE][+-]?\d+)?)"
_EXPERIMENT = re.compile(rf"^- experiment (\d+): (.*?) -> (?:score {_NUMBER}|failed: (\w+))")
_SCORE = re.compile(rf"Its score: {_NUMBER}")
SHOWN = ("What it printed", "The present program", "Earlier experiments", "Earlier attempts", "The idea")
_LISTED = re.compile(r"^\s*\d+[.)] (.*)$")


@dataclass(frozen=True)
class Experiment:
    """A line of the earlier experiments; score None: it failed."""

    number: int
    hypothesis: str
    score: float | None


@dataclass(frozen=True)
class SearchPrompt:
    """A prompt taken apart: (heading, what stands under it), in order; what stands outside of fences, on one line."""

    sections: tuple[tuple[str, str], ...]
    said: str

    def under(self, heading: str) -> str:
        """What stands under the last heading of that name; nothing where there is none."""
        return next((body for name, body in reversed(self.sections) if name == heading), "")

    def lines(self, heading: str, start: str) -> list[str]:
        """The lines under a heading that begin with `start`, without it."""
        return [line[len(start) :].strip() for line in self.under(heading).split("\n") if line.startswith(start)]

    def listed(self, heading: str) -> list[str]:
        """The items of a numbered list."""
        return [match.group(1) for line in self.under(heading).split("\n") if (match := _LISTED.match(line))]

    @property
    def programs(self) -> list[str]:
        """The programs that are shown: the present one, or those that are to be joined."""
        bodies = [body for name, body in self.sections if name == "The present program" or name.startswith("Program ")]
        return [code for body in bodies for code in conversation.fenced(body)[:1]]

    @property
    def recipes(self) -> list[Recipe]:
        """Of the programs that are this model's own."""
        return [recipe for code in self.programs if (recipe := recipe_of(code))]

    @property
    def asks_for_a_score(self) -> bool:
        """Whether a program is to print its own; what a program printed is not meant."""
        return any(
            "Validation score:" in body
            for name, body in self.sections
            if name not in SHOWN and not name.startswith("Program ")
        )

    @property
    def scores(self) -> list[float]:
        """Of the programs, in order."""
        return [float(match.group(1)) for match in _SCORE.finditer(self.said)]

    @property
    def experiments(self) -> list[Experiment]:
        """The earlier ones, in order."""
        experiments = []
        for line in self.under("Earlier experiments").split("\n"):
            if match := _EXPERIMENT.match(line):
                number, hypothesis, score, _ = match.groups()
                experiments.append(Experiment(int(number), hypothesis, None if score is None else float(score)))
        return experiments


def taken_apart(messages: Sequence[Mapping[str, Any]]) -> SearchPrompt:
    """A request's messages, its own answers left out."""
    text = "\n".join(str(message["content"]) for message in messages if message["role"] != "assistant")
    parts: list[tuple[str, list[str]]] = [("", [])]
    outside: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or (mark.group(1).startswith(fence) and not line.strip().strip(fence[0]))):
            fence = "" if fence else mark.group(1)
        elif not fence:
            outside.append(line)
            if line.startswith("# "):
                parts.append((line[2:].strip(), []))
                continue
        parts[-1][1].append(line)
    sections = tuple((name, "\n".join(lines).strip("\n")) for name, lines in parts)
    return SearchPrompt(sections, " ".join(" ".join(outside).split()))


def better(score: float, than: float, task: Mapping[str, Any]) -> bool:
    return score < than if task["metric"]["lower_is_better"] else score > than
