"""Reading what models and programs wrote: JSON in a model's answer, and the timing block of a debug run.

The prompts ask for reasoning and then one block of JSON; JSON alone, or among words, is as good. Of several values that
have the fields the last counts, which is noted. JSON with faults is repaired (see repair), and labels,
numbers and flags are read leniently where there is no doubt; both are noted. Errors are worded for the model.

A Reading notes what was not in the form that was asked for, and what was replaced by a default.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol, TypeVar

from ...records.common import LongText
from ..messages import one_line
from ..reading import TOO_DEEP, after_thinking, json_at, undisguised, valid_text
from .repair import repaired_values

MOST_TRIED = 200  # brackets at which reading a value is tried
MOST_READ = 3  # times the characters of the text; reading from a bracket may run to the end of the text in vain
BEGIN = "==== Start of Debug Information ===="
END = "==== End of Debug Information ===="
MOST_LINE = 200  # characters of a line of the timing block
MOST_REPEATED, LEAST_REPEATED = 1000, 12  # characters of a text that stands for its number
MOST_SHOWN = 80  # characters of a wrong value in a correction
_OPENING = re.compile(r"[\[{]")
_FENCE = re.compile(r"```(?:[jJ][sS][oO][nN]\w{0,8})?[ \t]*$", re.MULTILINE)
_TIME = re.compile(r"(debug_time|estimated_time) ?: ?([0-9][0-9.eE+-]{0,31}) ?(?:s|sec|seconds)?")
_NUMBER = re.compile(
    r"([+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?)(?: ?(?:/|out of) ?([0-9]{1,3})(?:\.0)?)?(?: ?\([^()]{0,100}\))?"
)
_FLAGS = {"yes": True, "true": True, "no": False, "false": False}


Label = TypeVar("Label", bound=str)
Value = TypeVar("Value", covariant=True)


@dataclass
class Reading:
    """The notes on one answer. last: no correction follows, so a default is better than no answer."""

    last: bool = False
    lenient: list[str] = field(default_factory=list)
    fallbacks: list[str] = field(default_factory=list)

    def note(self, how: str) -> None:
        """Note that a value was not in the form that was asked for, and how it was read."""
        if how not in self.lenient:
            self.lenient.append(how)

    def fall_back(self, what: str) -> bool:
        """Whether a default may replace a value, which is noted then: only in the last answer."""
        if self.last and what not in self.fallbacks:
            self.fallbacks.append(what)
        return self.last


class Reader(Protocol[Value]):
    """Reads an answer. ValueError, worded for the model: it cannot."""

    def __call__(self, text: str, *, notes: Reading) -> Value: ...


def json_in(text: str, kind: type, fields: Sequence[str] = (), notes: Reading | None = None) -> Any:
    """The last value of `kind` (dict or list) that has the fields in an answer; else the longest. ValueError: none.

    Values in fences come first. A list may be the only one in an object. fields: what the object, or each object of the
    list, has to have; a value that lacks them is only taken if there is no other. JSON that can be read as it stands
    comes before repaired JSON.
    """
    answer, notes = after_thinking(text), notes or Reading()
    sources = [list(_fenced(answer)), [answer]]
    other = None
    for parts in sources:
        value = _chosen(map(_values, parts), kind, fields, notes)
        if value is not None and _has_fields(value, fields):
            return value
        other = value if other is None else other
    for parts in sources:
        value = _chosen((repaired_values(part.rstrip().removesuffix("```")) for part in parts), kind, fields, notes)
        if value is not None and _has_fields(value, fields):
            notes.note("JSON was repaired")
            return value
    for parts in sources if kind is list and fields else ():
        objects = [value for part in parts for _, value in _values(part) if isinstance(value, dict)]
        if found := [value for value in objects if _has_fields(value, fields)]:
            notes.note("objects one after another")
            return found
    if other is not None:
        return other
    for rule, seen in undisguised(answer):
        with suppress(ValueError):
            value = json_in(seen, kind, fields, notes)
            notes.note(rule.replace("_", " "))
            return value
    raise ValueError(
        f"your answer holds no JSON {'object' if kind is dict else 'list'} that can be read{_json_fault(answer)}"
    )


def fields_in(text: str, names: Sequence[str], notes: Reading | None = None) -> "Fields":
    """The object with the fields `names` in an answer; see json_in."""
    notes = notes or Reading()
    return Fields(json_in(text, dict, names, notes), notes)


def _chosen(values: Iterable[Iterator[tuple[int, Any]]], kind: type, fields: Sequence[str], notes: Reading) -> Any:
    """The last value of a kind with the fields; without fields, or a value that has them, the longest; None: none."""
    pairs = list(chain.from_iterable(values))
    sized: list[tuple[int, Any]] = [(size, value) for size, value in pairs if isinstance(value, kind)]
    if not sized and kind is list:
        inner = [
            (size, [item for item in value.values() if isinstance(item, list)])
            for size, value in pairs
            if isinstance(value, dict)
        ]
        sized = [(size, lists[0]) for size, lists in inner if len(lists) == 1] or _lists_of_objects(pairs, fields)
    if kind is dict and not any(_has_fields(value, fields) for _, value in sized):
        inner_objects = [each for _, value in sized for each in value.values() if isinstance(each, dict)]
        sized += [(0, each) for each in inner_objects if _has_fields(each, fields)]
    complete = [value for _, value in sized if fields and _has_fields(value, fields)]
    if complete:
        if any(value != complete[-1] for value in complete):
            notes.note("the last of several JSON values")
        return complete[-1]
    return max(sized, key=lambda size_and_value: size_and_value[0])[1] if sized else None


def _lists_of_objects(pairs: Sequence[tuple[int, Any]], fields: Sequence[str]) -> list[tuple[int, list[Any]]]:
    """Lists that were written as an object with a number or a name for each item."""
    if not fields:
        return []
    found: list[tuple[int, list[Any]]] = []
    for size, value in pairs:
        for inner in (value, *value.values()) if isinstance(value, dict) else ():
            items = list(inner.values()) if isinstance(inner, dict) else []
            if _has_fields(items, fields):
                found.append((size, items))
    return found


def _has_fields(value: object, fields: Sequence[str]) -> bool:
    """Whether an object, or each object of a list that is not empty, has all fields."""
    if not fields:
        return True
    objects = value if isinstance(value, list) else [value]
    return bool(objects) and all(
        isinstance(item, dict) and all(_key(item, name) for name in fields) for item in objects
    )


def _json_fault(answer: str) -> str:
    """Where and why the first JSON of an answer cannot be read; "" if there is none."""
    opening = _OPENING.search(answer)
    if opening is None:
        return ""
    try:
        json_at(answer, opening.start())
    except json.JSONDecodeError as error:
        return f": {error.msg}" + (f" (line {error.lineno}, column {error.colno})" if error.msg != TOO_DEEP else "")
    return ""


def _fenced(text: str) -> Iterator[str]:
    """The content of fences that may be JSON: from one at the end of a line to the next one that begins a line."""
    begin: int | None = None
    at = 0
    for line in text.split("\n"):
        if begin is not None and line.lstrip(" \t").startswith("```"):
            if _OPENING.search(text, begin, at):
                yield text[begin : at - 1]
            begin = None
        elif begin is None and _FENCE.search(line):
            begin = at + len(line) + 1
        at += len(line) + 1
    if begin is not None and _OPENING.search(text, begin):
        yield text[begin:]


def _values(text: str) -> Iterator[tuple[int, Any]]:
    """(length in characters, value) of each outermost JSON object and list in a text."""
    at, budget = 0, MOST_READ * len(text)
    for _ in range(MOST_TRIED):
        opening = _OPENING.search(text, at)
        if opening is None or budget < 0:
            return
        at = opening.start()
        try:
            value, end = json_at(text, at)
        except json.JSONDecodeError as error:
            budget -= error.pos - at
            at += 1
            continue
        yield end - at, value
        at = end


@dataclass(frozen=True)
class Fields:
    """An object in an answer. The methods read a field, and note what they read leniently. ValueError: it is not so."""

    values: Mapping[str, object]
    notes: Reading = field(default_factory=Reading)

    def get(self, name: str) -> object:
        """A field by its name, whatever its case, blanks, hyphens and underscores; None: there is none."""
        if name in self.values:
            return self.values[name]
        key = _key(self.values, name)
        if key is None:
            return None
        self.notes.note(f'the name "{name}"')
        return self.values[key]

    def text(self, name: str, most: int = 2000) -> str:
        """A field that has to be text and not empty, cut at `most` characters."""
        value = self.get(name)
        if not isinstance(value, str) or not value.strip():
            raise wrong(name, "a text", value)
        return valid_text(value).strip()[:most]

    def flag(self, name: str) -> bool:
        """A field that has to be true or false; "yes" and "no" are read as such."""
        value = self.get(name)
        if isinstance(value, bool):
            return value
        flag = _FLAGS.get(value.strip(" \t\n.\"'").lower()) if isinstance(value, str) else None
        if flag is None:
            raise wrong(name, "true or false", value)
        self._note(name)
        return flag

    def number(self, name: str, bounds: tuple[int, int] | None = None) -> float:
        """A field that has to be a finite number; "8", "8 (high)", and of 1 to 10 "8/10" are read too.

        bounds: named in the error, and the upper one may stand behind the number; the number is not clipped.
        """
        value = self.get(name)
        if isinstance(value, str) and (match := _NUMBER.fullmatch(" ".join(value[:200].split()))) is not None:
            most = None if match.group(2) is None else float(match.group(2))
            number = finite(match.group(1))
            if most is None or (bounds is not None and most == bounds[1] and number is not None and number <= most):
                self._note(name)
                return float(match.group(1))
        number = finite(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        if number is None:
            raise wrong(name, "a number" + (f" from {bounds[0]} to {bounds[1]}" if bounds else ""), value)
        return number

    def index(self, name: str, number: int, texts: Sequence[str] = (), first: int = 0) -> int:
        """A field that has to be a whole number below `number`; "1", 1.0 and "NAME 1" are read too.

        texts: of the things that are numbered, one of which may stand there instead. first: the number that was given
        to the first of them. A number that is one too large was counted from 1.
        """
        value = self.get(name)
        if isinstance(value, str) and (meant := _meant(value, name, texts)) is not None:
            self._note(name)
            return meant
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            index = None
        elif isinstance(value, int):
            index = value
        else:
            text = value.strip().lower().removeprefix(name).strip(" #") if isinstance(value, str) else value
            as_number = finite(text) if not isinstance(text, str) or re.fullmatch(r"[0-9]{1,6}(\.0)?", text) else None
            index = int(as_number) if as_number is not None and as_number.is_integer() else None
            if index is not None and 0 <= index - first < number:
                self._note(name)
        if index is not None and not first and index == number > 0:
            first = 1
            self._note(name)
        if index is None or not 0 <= index - first < number:
            raise wrong(name, f"a number from 0 to {number - 1}", value)
        return index - first

    def label(self, name: str, labels: Sequence[Label], synonyms: Mapping[str, Label] | None = None) -> Label:
        """A field that has to be one of `labels`, whatever its case, blanks, hyphens and underscores.

        synonyms: {other word: label}.
        """
        value = self.get(name)
        if isinstance(value, str):
            for label in labels:
                if label == value:
                    return label
            by_name = {_plain(word): label for word, label in (synonyms or {}).items()}
            by_name.update({_plain(label): label for label in labels})
            meant = by_name.get(_plain(value[:200].strip(" \t\n.\"'`*")))
            if meant is not None:
                self._note(name)
                return meant
        raise wrong(name, f"one of {', '.join(labels)}" if len(labels) > 3 else _either(labels), value)

    def _note(self, name: str) -> None:
        self.notes.note(f'"{name}"')


def _meant(value: str, name: str, texts: Sequence[str]) -> int | None:
    """The number of the text that a value repeats, or the beginning of which; None where that is none, or several."""
    said = _plain(value[:MOST_REPEATED])
    said = re.sub(rf"^(?:{name})?#?[0-9]{{0,3}}[.:)]+", "", said)
    if len(said) < LEAST_REPEATED:
        return None
    alike = [at for at, text in enumerate(texts) if (whole := _plain(text)).startswith(said) or said.startswith(whole)]
    return alike[0] if len(alike) == 1 else None


def _key(answer: Mapping[str, object], name: str) -> str | None:
    """The name under which an object has a field: its own, or the only one that differs in case and marks alone."""
    if name in answer:
        return name
    keys = [key for key in answer if len(key) <= 2 * len(name) and _plain(key) == _plain(name)]
    return keys[0] if len(keys) == 1 else None


def _plain(label: str) -> str:
    return re.sub(r"[\s_/-]+", "", label).casefold()


def _either(labels: Sequence[str]) -> str:
    return f"{', '.join(labels[:-1])} or {labels[-1]}"


def wrong(name: str, wanted: str, value: object) -> ValueError:
    """The error for a field: its name, what it has to be, and what it is instead."""
    if value is None:
        return ValueError(f'"{name}" has to be {wanted}; it is missing or null')
    shown = one_line(json.dumps(value))
    shown = shown if len(shown) <= MOST_SHOWN else f"{shown[: MOST_SHOWN - 3]}..."
    return ValueError(f'"{name}" has to be {wanted}, not {shown}')


def finite(value: str | float) -> float | None:
    """The value as a float; None if it is no number, or not finite."""
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def timing_of(output: LongText) -> tuple[float, float] | None:
    """`read_block` of a recorded output: of its tail, which may be empty, or of its head."""
    return read_block(output["tail"]) or read_block(output["head"])


def read_block(text: str) -> tuple[float, float] | None:
    """(debug_time, estimated_time) in seconds, of the last complete block in a program's output; None: there is none.

    R&D-Agent, appendix E.5. A complete block has both numbers, finite and not negative.
    """
    times: tuple[float, float] | None = None
    block: dict[str, float] | None = None
    for line in text.split("\n"):
        line = line[:MOST_LINE].strip()
        if line == BEGIN:
            block = {}
        elif line == END:
            if block is not None and len(block) == 2:
                times = block["debug_time"], block["estimated_time"]
            block = None
        elif block is not None and (match := _TIME.fullmatch(line)) is not None:
            block.pop(match.group(1), None)
            if (seconds := finite(match.group(2))) is not None:
                block[match.group(1)] = seconds
    return times
