"""Sections of an answer that begin with a heading: `NAME:` in capitals, or nearly so.

Covered: the exact form, and (lenient) other spellings of the headings, words ahead of the first, a fence, JSON.
Not covered: what the sections say.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from types import MappingProxyType

from .disguise import undisguised
from .text import json_at, read_json, valid_text, without_fence

_MOST_HEAD = 200  # characters of a line that may be its heading
_MOST_TRIED, _MOST_DEPTH = 20, 3
_NUMBERING = re.compile(r"(?:(?:step|part|section)\s{1,3})?(?:\d{1,2}(?=\W)|[ivx]{1,4}(?=[.):]))\W{0,9}", re.IGNORECASE)
_MARKUP = re.compile(r"</?(?:b|strong|i|em|p|u|br|h[1-6]|li)\s?/?>", re.IGNORECASE)
# What closes a heading: a colon, a dash or a bar, a bracket, or the line's end, among the signs of Markdown.
_HEAD_ENDS = r"[\s*_`\]\)\u3011>\\\"'\u201d]{0,9}(?:[:|]|[-\u2013\u2014](?=\s|$)|(?<=[\]\u3011])|$)[\s*_`]{0,9}"


def sections(text: str, names: Sequence[str]) -> dict[str, str]:
    """The parts of a text that begin, each at a line's beginning, with `NAME:`, every name once and in any order.

    ValueError, in words, where one is missing, empty or doubled, or where text stands before the first.
    """
    heads = {name.upper(): name for name in names}
    # line by line: a pattern with two runs of blanks takes the square of a line's length
    marked = re.compile(rf"({'|'.join(map(re.escape, heads))})[ \t]*:[*]*")
    fields: dict[str, str] = {}
    parts: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        begun = marked.match(line.lstrip(" \t").lstrip("*#").lstrip(" \t"))
        if begun:
            parts.append((begun.group(1), [begun.string[begun.end() :]]))
        elif parts:
            parts[-1][1].append(line)
        elif line.strip():
            break
    if not parts:
        raise ValueError(f"it has to begin with {next(iter(heads))}:")
    for mark, lines in parts:
        if heads[mark] in fields:
            raise ValueError(f"{mark}: stands there twice")
        fields[heads[mark]] = "\n".join(lines).strip()
    for head, name in heads.items():
        if not fields.get(name):
            raise ValueError(f"{head}: is missing or empty")
    return fields


def read_sections(
    text: str, names: Sequence[str], other_names: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> tuple[dict[str, str], str | None]:
    """(sections, rule); the rule is None in the exact form. ValueError, in words, where they cannot be read.

    other_names: what models call a section beside its name, in words. Rules: "fence", "in_json", "tags", "preamble"
    (words ahead of the first heading), "heading" (in another spelling), those of `undisguised`.
    """
    try:
        return sections(text, names), None
    except ValueError as error:
        problem = error
    spelt = _spellings(names, other_names)
    bare = without_fence(text)
    for candidate, rule in (
        (bare, "fence"),
        (_from_heading(text, names), "preamble"),
        (_respelt(bare, spelt), "heading"),
    ):
        try:
            return sections(candidate, names), rule
        except ValueError:
            continue
    for fields, rule in ((_in_tags(text, spelt), "tags"), (_in_json(text, spelt), "in_json")):
        if fields is not None:
            return fields, rule
    for rule, seen in undisguised(text):
        try:
            return sections(_respelt(without_fence(seen), spelt), names), rule
        except ValueError:
            continue
    raise problem


def _spellings(names: Sequence[str], other_names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """A pattern for each name: its words with anything between them, or what it is called instead."""
    between = r"[\s_\\*-]{1,5}"
    found = {}
    for name in names:
        called = [name.replace("_", " "), *other_names.get(name, ())]
        found[name] = "|".join(between.join(map(re.escape, each.split(" "))) for each in called)
    return found


def _from_heading(text: str, names: Sequence[str]) -> str:
    """The text from its first exact heading on."""
    heads = tuple(f"{name.upper()}:" for name in names)
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if line.lstrip(" \t*#").startswith(heads)), 0)
    return "\n".join(lines[first:])


def _respelt(text: str, spelt: Mapping[str, str]) -> str:
    """The text from its first heading on, headings in the exact spelling: `## 1. Analysis on current progress`."""
    heads = {name.upper(): re.compile(f"(?:{pattern}){_HEAD_ENDS}", re.IGNORECASE) for name, pattern in spelt.items()}
    lines: list[str] = []
    for line in text.split("\n"):
        head = _heading(line, heads)
        if head is not None:
            lines.append(head)
        elif lines:
            lines.append(line)
    return "\n".join(lines)


def _heading(line: str, heads: Mapping[str, "re.Pattern[str]"]) -> str | None:
    """The line with its heading in the exact spelling; None where it has none."""
    plain = _MARKUP.sub("", line[:_MOST_HEAD])
    for begins in (plain, unicodedata.normalize("NFKC", plain)):
        bare = _without_signs(begins)
        numbered = _NUMBERING.match(bare)
        bare = _without_signs(bare[numbered.end() :] if numbered else bare)
        for head, form in heads.items():
            if match := form.match(bare):
                rest = bare[match.end() :] + line[_MOST_HEAD:]
                return f"{head}:{rest.rstrip().removesuffix('|') if line.lstrip().startswith('|') else rest}"
    return None


def _without_signs(text: str) -> str:
    return text[next((at for at, letter in enumerate(text) if letter.isalnum()), len(text)) :]


def _in_tags(text: str, spelt: Mapping[str, str]) -> dict[str, str] | None:
    """The sections in a tag each."""
    found = {}
    for name, pattern in spelt.items():
        opening = re.search(rf"<({pattern})>", text, re.IGNORECASE)
        if opening is None:
            return None
        inside, closed, _ = text[opening.end() :].partition(f"</{opening[1]}>")
        if not closed or not inside.strip():
            return None
        found[name] = inside.strip()
    return found


def _in_json(text: str, spelt: Mapping[str, str]) -> dict[str, str] | None:
    """The sections as fields of one object, which may lie in others, in a fence, among words."""
    values: list[object] = []
    with suppress(ValueError):
        values.append(read_json(without_fence(text))[0])
    for opening in islice(re.finditer(r"[{\[]", text), _MOST_TRIED) if not values else ():
        with suppress(ValueError):
            values.append(json_at(text, opening.start())[0])
            break
    found = [fields for value in values for each in _objects(value, 0) if (fields := _fields(each, spelt))]
    return found[0] if len(found) == 1 else None


def _objects(value: object, depth: int) -> Iterator[dict[str, object]]:
    if isinstance(value, str) and value.lstrip().startswith("{"):  # the arguments of a call
        with suppress(ValueError):
            value = read_json(value)[0]
    if isinstance(value, dict):
        yield value
    if isinstance(value, (dict, list)) and depth < _MOST_DEPTH:
        for each in value.values() if isinstance(value, dict) else value:
            yield from _objects(each, depth + 1)


def _fields(value: Mapping[str, object], spelt: Mapping[str, str]) -> dict[str, str] | None:
    """The sections of an object; None where it lacks one."""
    found: dict[str, str] = {}
    for name, pattern in spelt.items():
        matching = [item for key, item in value.items() if re.fullmatch(pattern, str(key)[:_MOST_HEAD], re.IGNORECASE)]
        if len(matching) != 1 or not isinstance(matching[0], str) or not matching[0].strip():
            return None
        found[name] = valid_text(matching[0]).strip()
    return found
