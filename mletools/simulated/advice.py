"""What an idea comes to for somebody who knows the bank: a family of models, another setting, praise, or nothing.

Covered: ideas in three items or in plain words; what is only named as to be replaced does not count. Not covered: ideas
about data, features or training, which nothing in the bank carries out.
"""

import re
from dataclasses import dataclass

from .conversation import item

# How families are spoken of, by level; of two at one place the first.
FAMILIES = {
    "tuned": r"mean of|average|ensembl|blend|stack|voting|combin",
    "boosted": r"boost|xgb|lightgbm|catboost",
    "forest": r"forest|extra trees|bagg",
    "knn": r"nearest|\bk-?nn\b",
    "dummy": r"\bdummy\b|constant|most frequent",
    "stump": r"\bstump",
    "shrunk": r"shrunk|shrink|strong(?:ly)? regulari",
    "linear": r"\blinear|logistic|\bridge\b",
    "tree": r"decision tree|single tree",
}
_REPLACED = re.compile(
    r"\b(?:replace|swap|drop|abandon|leave)\b.*?\b(?:with|by|for)\b|\b(?:instead of|rather than)\b.*"
)
_SETTING = re.compile(r"hyper-?\s?parameter|\btun(?:e|ing)\b|another setting|grid search")


@dataclass(frozen=True)
class Advice:
    """`kind`: family (of `level`), setting, praise ("keep improving"), other (something to do, of another kind) or none."""

    kind: str
    level: str = ""


def read(text: str) -> Advice:
    """What a text that holds an idea advises."""
    action = item(text, "ACTION", before="RATIONALE")
    said = " ".join((text if action is None else action).lower().split())
    if "no suggestion" in said:
        return Advice("none")
    wanted = _REPLACED.sub(" ", said)
    places = {level: match.start() for level, words in FAMILIES.items() if (match := re.search(words, wanted))}
    if places:
        return Advice("family", min(places, key=lambda level: places[level]))
    if _SETTING.search(said):
        return Advice("setting")
    if "improv" in said:
        return Advice("praise")
    return Advice("none" if action is None else "other")
