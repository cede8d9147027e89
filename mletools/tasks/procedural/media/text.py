"""Short written notes: what they say well or ill of, in which order things happened, how sure the writer is.

The notes stand in a column of train.csv or in files of their own. Parts: which facts a note holds (text_plan), how it
is worded (text_notes), how it is spoiled (text_damage), what can be read from it again (text_words, text_features).
Not covered: the rule and the target; problems with a target a word.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ...table import Column
from ..world import Asset, Category, Number, Rendered
from .text_damage import spoil
from .text_features import bag_of_words, read_notes
from .text_notes import write_notes
from .text_plan import draw_factors, make_plan

MUTATIONS = {
    "typos": "letters of some words are swapped, missing or doubled",
    "dropped_words": "some words are missing",
    "letter_case": "some notes are written in capitals, without capitals, or with capitals at random",
    "boilerplate": "some notes stand in a printed form, whose words mean nothing",
    "abbreviations": "some long words are cut short and end in a point",
    "html_markup": "some notes carry tags and entities of a web page",
    "mixed_languages": "in some notes the small words are German or French",
    "mixed_numbers": "some numbers have a decimal comma or no unit, or are rounded",
    "quoted_notes": "some notes quote an older note, which does not count",
}
DENSE: dict[str, Any] = {}
LINE = 76
MEANING = "the note, as it was written down"


def factors(scenario: Mapping[str, Any], rows: int, rng: Any) -> list[Number | Category]:
    """Five or six properties of a note; what they refer to (themes, events, a measurement) is in their names."""
    return draw_factors(scenario, rows, rng)


def render(
    scenario: Mapping[str, Any], factors: Sequence[Number | Category], mutations: Mapping[str, float], rng: Any
) -> Rendered:
    """One note a sample, spoiled by `mutations` (name: strength between 0 and 1): a column `text`, or docs/ID.txt."""
    plan = make_plan(scenario, factors, rng)
    notes = [" ".join(note) for note in spoil(plan, write_notes(plan, rng), mutations, rng)]
    plain = bag_of_words(plan, notes)
    measured = read_notes(plan, notes)
    if rng.randint(2):
        return Rendered(
            columns=[Column("text", MEANING, number=False)],
            cells={"text": notes},
            plain=plain,
            measured=measured,
            notes=["The notes were typed as they were spoken; each stands on one line."],
        )
    pages = [f"{textwrap.fill(note, LINE, break_long_words=False, break_on_hyphens=False)}\n" for note in notes]
    return Rendered(
        assets=[Asset("document", MEANING, "docs", "txt", [page.encode() for page in pages])],
        plain=plain,
        measured=measured,
        notes=[f"Each note is a text file in UTF-8 with lines of at most {LINE} characters."],
    )
