"""Tools' tags in a text: <name>...</name>, and what models write in their place.

Covered: tags in any case or by a tool's other names, with attributes, never closed, only spoken of, in a program's
strings. Not covered: what stands between them (actions).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from .tools import Tool
from .values import parsed
from .visible import foreign_part

_MOST_CLOSINGS = 4  # closing tags in a program's strings


@dataclass(frozen=True)
class Tagged:
    """What stands in a tag, from `begin` to `end`; `rule` is the leniency that it takes to see the tag."""

    tag: str
    body: str
    begin: int
    end: int
    rule: str | None = None


def all_tags(text: str, names: Sequence[str]) -> list[Tagged]:
    """Each tag in turn; what looks like a tag inside a body is part of the body."""
    opening = re.compile(rf"<({'|'.join(map(re.escape, names))})>")
    found, at = [], 0
    while match := opening.search(text, at):
        end = text.find(f"</{match.group(1)}>", match.end())
        if end < 0:
            raise ValueError(f"<{match.group(1)}> is opened and never closed.")
        at = end + len(match.group(1)) + 3
        found.append(Tagged(match.group(1), text[match.end() : end], match.start(), at))
    return found


def first_tag(text: str, tools: Sequence[Tool], tags: Sequence[str]) -> Tagged | None:
    """The first tag of a tool, by any of its names; <finish/> is empty, one that is never closed runs to the end.

    A tag that is only spoken of, in words ahead of one that begins a line, is passed over.
    """
    known = {tool.name: tool for tool in tools}
    names = {alias: tool.name for tool in tools for alias in tool.aliases}
    names |= {name.lower(): name for name in (*tags, *known)}
    opening = re.compile(rf"<({'|'.join(map(re.escape, names))})(?:\s[^<>/\n]{{0,80}})?(/?)>", re.IGNORECASE)
    match = opening.search(text)
    if match is None:
        return None
    mentioned = _begins_line(text, opening, match)
    match, rule = mentioned or match, "mentioned_tag" if mentioned else None
    tag, begin = names[match[1].lower()], match.start()
    if match[2]:
        return Tagged(tag, "", begin, match.end(), "self_closing")
    if match[0] != f"<{tag}>":
        rule = "tag_case" if match[1].lower() == tag.lower() else "tool_tag"
    elif tag not in tags:
        rule = "tool_tag"
    closing = re.compile(rf"</{re.escape(match[1])}\s{{0,9}}>", re.IGNORECASE)
    closings = list(islice(closing.finditer(text, match.end()), _MOST_CLOSINGS))
    if closings:
        takes_code = tag in known and "code" in known[tag].fields
        programs = (each for each in closings if takes_code and parsed(text[match.end() : each.start()]) is not None)
        closed = next(programs, closings[0])
        if closed is not closings[0]:
            rule = "tag_in_string"
        elif rule is None and closed[0] != f"</{tag}>":
            rule = "tag_case"
        return Tagged(tag, text[match.end() : closed.start()], begin, closed.end(), rule)
    foreign = foreign_part(text, match.end())
    end = foreign[0] if foreign else len(text)
    return Tagged(tag, text[match.end() : end], begin, end, "unclosed_tag")


def _begins_line(text: str, opening: "re.Pattern[str]", first: "re.Match[str]") -> "re.Match[str] | None":
    """The tag that begins a line, where the first one stands among words and is not closed ahead of it."""
    line = text[text.rfind("\n", 0, first.start()) + 1 : text.find("\n", first.end()) % (len(text) + 1)]
    if not line.partition(first[0])[0].strip() or not line.partition(first[0])[2].strip():
        return None
    following = next((m for m in opening.finditer(text, first.end()) if text[m.start() - 1] == "\n"), None)
    if following is None or f"</{first[1]}>" in text[first.end() : following.start()]:
        return None
    return following
