"""How notes are worded: a grammar whose symbols {in braces} stand for one of several wordings, by register.

A symbol NAME has wordings of its own in a register as NAME.REGISTER, beside the common ones. Words that tell a factor
(CUES) are in no other wording, so that a reader who knows them needs no grammar. Verbs suit one subject and several. Not
covered: which facts a note holds (text).
"""

import re
from collections.abc import Callable, Mapping

from ..arrays import Rng
from .common import pick

REGISTERS = ("plain", "terse", "chatty", "formal")
DOUBTING = ("perhaps", "probably", "possibly", "apparently", "presumably", "allegedly")
ASSURING = ("certainly", "definitely", "surely", "undoubtedly", "obviously", "plainly")
DENIALS = ("not", "never", "hardly", "anything", "far", "no", "cannot", "less", "nothing")
# Each level's words, from the least to the most.
GRADES = (
    ("negligible", "tiny"),
    ("slight", "minor"),
    ("moderate", "noticeable"),
    ("serious", "grave"),
    ("severe", "extreme"),
)
HASTE = (("someday", "eventually"), ("year",), ("month",), ("week",), ("today", "immediately"))
WHEN = {"year": "before the year is out", "month": "this month", "week": "before the week is out"}
ASKS = ("please", "should", "needs", "kindly", "asked", "request")
# Two events: what stands before the first one named, or between the two, when the second one named came first.
TURNED = ("before", "after", "earlier", "previously")
ORDER_CUES = (*TURNED, "first", "later", "began", "then", "once", "afterwards", "next")
# What says that the number after it is an old one.
OLD = ("before", "last", "previous", "formerly", "earlier", "from", "against")
CUES = (*DOUBTING, *ASSURING, *(word for words in (*GRADES, *HASTE) for word in words))

# fmt: off
GRAMMAR: dict[str, tuple[str, ...]] = {
    "statement": ("{fact}.", "{fact}.", "{opening}{fact}.", "{fact}{closing}."),
    "pair": ("{fact}, and {other}.", "{fact}, but {other}.", "{fact}; {other}.", "{fact}, while {other}."),
    "fact": ("{subject} {marker}{verb} {word}", "{subject} {verb} {marker}{word}", "{marker}{subject} {verb} {word}"),
    "fact.terse": ("{subject}: {marker}{word}", "{subject} {marker}{word}", "{subject} - {word} {marker}"),
    "denied": ("{subject} {marker}{no_verb} {word}", "{marker}{subject} {no_verb} {word}"),
    "denied.terse": (
        "{subject}: {marker}not {word}", "{subject} {marker}not {word}", "{subject} no longer {word} {marker}",
    ),
    "verb": (
        "looked", "remained", "turned out", "stayed", "seemed", "appeared", "came across as", "felt", "became",
        "kept",
    ),
    "no_verb": (
        "did not look", "never looked", "looked anything but", "remained far from", "did not stay", "hardly stayed",
        "hardly seemed", "never turned out", "cannot be called", "no longer seemed", "seemed less", "did not appear",
    ),
    "opening": ("To begin with, ", "This time ", "In my view ", "On arrival "),
    "opening.terse": ("Note: ", "NB ", "Re: "),
    "opening.chatty": ("Well, ", "Honestly, ", "I have to say ", "Between us, ", "Guess what, ", "As you know, "),
    "opening.formal": (
        "It was observed that ", "For the record, ", "The undersigned states that ", "It is noted that ",
    ),
    "closing": (" on the whole", " at the time of the visit", " as on other days", " when I got there"),
    "closing.chatty": (" if you ask me", ", believe it or not", ", same as ever", " for what it is worth"),
    "closing.formal": (" upon inspection", " in the opinion of the writer", " as per the usual procedure"),
    "grade": (
        "The problem at {subject} is {grade_word}.", "{subject}: a {grade_word} matter.",
        "Overall a {grade_word} case.", "What we saw on the whole is {grade_word}.", "I would call it {grade_word}.",
        "In sum the finding is {grade_word}.",
    ),
    "grade.terse": ("Extent {grade_word}.", "Finding: {grade_word}."),
    "grade.chatty": ("If anybody wants to know, the whole thing is {grade_word}.", "My verdict: {grade_word}, really."),
    "grade.formal": ("The extent is to be regarded as {grade_word}.", "The matter has been rated {grade_word}."),
    "haste": (
        "Please see to {subject} {when}.", "{subject} should be seen to {when}.",
        "Somebody should visit {subject} {when}.", "Please send someone {when}.", "{subject} needs a visit {when}.",
        "We asked for a second look {when}.",
    ),
    "haste.terse": ("Pls please check {when}.", "Needs doing {when}.", "Request: second look {when}."),
    "haste.chatty": ("Could you please, please have a look {when}?", "Someone should really come by {when}!"),
    "haste.formal": ("You are kindly asked to attend to {subject} {when}.", "A second visit is asked for {when}."),
    "mentions": (
        "Topics were {list}.", "Also noted: {list}.", "Something was said about {list}.", "Up came {list}.",
        "We spoke about {list}.", "Keywords for the file: {list}.", "A word on {list} was added.",
        "There was talk of {list}.",
    ),
    "mentions.terse": ("Re {list}.", "Tags {list}.", "{list} - see file."),
    "mentions.chatty": (
        "We went on and on about {list}.", "Oh, and {list} came up.", "Everybody asks me about {list}.",
    ),
    "mentions.formal": ("The following were discussed: {list}.", "Reference is made to {list}."),
    # {first} is what happened first.
    "order": (
        "First {first}. Later {second}.", "After {first}, {second}.", "It began when {first}, and then {second}.",
        "{second}, but before that {first}.", "{second} only after {first}.", "Before {second}, {first}.",
        "Once {first}, {second}.", "{first}, and afterwards {second}.", "{first}. Next, {second}.",
        "{second}. Earlier, {first}.", "{first}, then {second}.", "{second}; previously {first}.",
    ),
    "trouble": (
        "The most trouble came from {most}, the least from {least}.", "{most} gave the most work, {least} the least.",
        "The least trouble came from {least}, the most from {most}.", "Least worry: {least}; most: {most}.",
        "Of all parts {most} took the most time, {least} the least.",
        "Most hours went into {most}, least into {least}.",
        "Of all parts {least} took the least time, {most} the most.",
        "The least effort was {least}, the most {most}.",
    ),
    # The old number is a mistake: most of what a note gives (a size, an age) does not change from one day to the next.
    "number": (
        "Entered as {name}: {now}, corrected from {old}.", "Previous sheet, {name}: {old} in error, now {now}.",
        "Now {now} as {name}, the last sheet had {old} by mistake.",
        "Noted as {name}: {now}, where the last list had {old}.", "Last time {old} was put down as {name}, rightly {now}.",
        "{name} is {now} now, the previous figure of {old} was struck out.",
        "For {name} I read {now} against {old} on the last sheet.", "{name} corrected from {old} to {now}.",
    ),
    "number.terse": ("{name} {now} (last list {old}).", "{name}: last list {old}, now {now}."),
    "number.formal": ("The figure for {name} amounts to {now}, formerly given as {old}.",),
    "idle": (
        "Nothing else was added.", "There was no time for more.", "Nobody wanted to know more.",
        "The page ends here.", "It was {clock} when I wrote this.", "I came at {clock} and left at {clock}.",
        "{person} signed the list.", "{person} and {person} were there.", "{person} was away that {day}.",
        "It was a {day}.", "{person} holds the key.", "The next entry is due on {day}.", "My pen gave up halfway.",
        "The usual wording was used.", "See sheet {count}.", "Copy to {person}.",
        "{person} took {count} photographs.", "The list has {count} lines by now.",
    ),
    "idle.terse": (
        "{clock} {person} there.", "{day}, {clock}.", "Copy: {person}.", "Sheet {count} of {count}.", "Nil else.",
    ),
    "idle.chatty": (
        "You know how {person} is.", "Sorry for my handwriting.", "{person} sends regards, by the way.",
        "What a {day}!", "I could go on, but {person} is calling.", "Ask {person} if you do not believe me.",
        "Anyway, that was {day}.",
    ),
    "idle.formal": (
        "Drawn up at {clock} on {day}.", "Witness: {person}.", "This entry consists of {count} parts.",
        "{person} has been informed.", "No objection was raised by {person}.", "Filed under number {count}.",
    ),
    "person": (
        "Ms Adler", "Mr Okafor", "Ines", "T. Brandt", "Dr Moreau", "Yusuf", "K. Lind", "Mrs Patel", "Jo", "Ravi",
        "H. S.",
    ),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    "clock": tuple(f"{hour}:{minute}" for hour in range(7, 19) for minute in ("05", "20", "35", "50")),
    "count": tuple(str(number) for number in range(2, 40)),
    "quotation": ("An older note says", "The page before read", "Crossed out was", "A colleague once wrote"),
}
# fmt: on
SYMBOL = re.compile(r"\{(\w+)\}")


def expand(symbol: str, register: str, slots: Mapping[str, str | Callable[[], str]], rng: Rng) -> str:
    """A drawn wording of a symbol in a register: `slots` (texts, or functions that draw one) come before the grammar."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in slots:
            return expand(name, register, slots, rng)
        slot = slots[name]
        return slot if isinstance(slot, str) else slot()

    own = GRAMMAR.get(f"{symbol}.{register}", ())
    # Where a register has wordings of its own, it uses them as often as the common ones.
    choices = own if own and rng.randint(2) else GRAMMAR[symbol]
    return SYMBOL.sub(replace, str(pick(choices, rng)))


def wordings() -> list[str]:
    """All wordings, without the symbols in them."""
    return [SYMBOL.sub(" ", wording) for choices in GRAMMAR.values() for wording in choices]
