"""The check of a task's description: it names what a solver gets and nothing of what is hidden.

Not covered: whether the description is true, clear or well written.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...records.task import Provenance
from .view import View

# Shorter parts of a rule, such as a column's name, are no secret.
SHORTEST_TERM = 12
MOST_TOLD = 5


def description_complete(view: View) -> str:
    """The description names every column and file, no hidden file and no term of the hidden rule.

    Columns: of train.csv, test.csv, the sample submission and side tables. Of columns that differ in their numbers alone
    (pixel_0, pixel_1, ...) two are enough, or one with a letter or `*` for the number. A file is named by its name, its
    folder (images/) or a pattern of its ending (*.png).
    """
    text = view.task["description"]
    if not text.strip():
        return "there is no description"
    columns = [name for table in (view.train, view.test, view.sample, *view.side_tables.values()) for name in table]
    unnamed = [name for name in _unnamed(dict.fromkeys(columns), text)]
    if unnamed:
        return f"the description does not name column {', '.join(unnamed[:MOST_TOLD])}"
    files = [name for name in view.public if name != "description.md" and not _told(name, text)]
    if files:
        return f"the description does not name {', '.join(files[:MOST_TOLD])}"
    hidden = next(_hidden(view, text), None)
    if hidden:
        return f"the description names what is hidden: {hidden}"
    terms = told_terms(view.task["provenance"], text)
    return f"the description tells the rule: {terms[0]}" if terms else ""


def _unnamed(columns: Iterable[str], text: str) -> list[str]:
    """The columns that are not named as a whole word, families of numbered columns taken together."""
    missing = [name for name in columns if name and not _word(name, text)]
    if not missing:
        return []
    families: dict[str, list[str]] = {}
    for name in columns:
        families.setdefault(re.sub(r"\d+", "#", name), []).append(name)
    left = []
    for name in missing:
        family = re.sub(r"\d+", "#", name)
        members = families[family]
        named = sum(_word(member, text) for member in members)
        pattern = r"[`\s(]" + re.escape(family).replace(r"\#", "#").replace("#", r"[\[{<]?[A-Za-z*#?]{1,3}[\]}>]?")
        if len(members) < 3 or (named < 2 and not re.search(pattern, text)):
            left.append(name)
    return left


def _word(name: str, text: str) -> bool:
    return name in text and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _told(name: str, text: str) -> bool:
    """Whether a file is named: by its path, by one of its folders, or by a pattern of its ending."""
    path, _, base = name.rpartition("/")
    parts = path.split("/") if path else []
    ending = base[base.find(".") :] if "." in base else ""
    return (
        _word(base, text)
        or any(f"{part}/" in text for part in parts)
        or bool(ending and f"*{ending}" in text)
    )  # fmt: skip


def _hidden(view: View, text: str) -> Iterator[str]:
    """Names of private files, unless a public file has the same name, and of the folder that they lie in."""
    public = {name.rsplit("/", 1)[-1] for name in view.public}
    for name in [*view.private, "answers.csv", "leaderboard.csv"]:
        base = name.rsplit("/", 1)[-1]
        if base not in public and _word(base, text):
            yield base
    if re.search(r"(?<![\w])private/", text):
        yield "private/"


def told_terms(provenance: Provenance, text: str) -> list[str]:
    """The terms of a hidden rule that a text tells, by words and not by spaces or capitals.

    The rule is a text whose terms are joined by " + ", or a list of texts or of objects that hold texts.
    """
    plain = _plain(text)
    terms = [part for whole in _texts(provenance.get("hidden_rule", "")) for part in whole.split(" + ")]
    inner = [match for term in terms for match in re.findall(r"\[(.+?)\]", term)]
    return [
        term
        for term in [*terms, *inner]
        if len(term) >= SHORTEST_TERM and " " in term.strip() and _plain(term) in plain
    ]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
