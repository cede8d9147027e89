"""What the notes of competitions.jsonl say is refused, accepted or counted is what their records do.

A note's sentence with such a word needs a case in CASES, by a phrase of it; a case is a few submissions and their verdicts.
Sentences about the benchmark's own grader alone are listed with what the record does instead. Answers are made up.
"""

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from competition_builders import RECORDS, SIDE, Made, made_of, table

from mletools.grading import answer_spec, grade
from mletools.grading.metrics import METRICS

WORDS = re.compile(r"refus|accept|count|ignor|dropp|reject|not checked|no range|must|whole number", re.IGNORECASE)
Check = Callable[[Made], None]


def sentences(note: str) -> list[str]:
    """The parts of a note that say what is refused, accepted or counted."""
    parts = re.split(r"[;.] (?!refused here)", note)
    return [part for part in parts if WORDS.search(part)]


def counted(made: Made) -> int:
    """The first row that counts, with something in it."""
    return next(at for at in range(len(made.ids)) if at not in made.left_out and "".join(made.perfect[at][0]))


def rows_with(made: Made, *cells: str, base: str = "guess", row: int | None = None) -> list[list[str]]:
    """A submission whose one row holds these cells, or one cell in every target."""
    at = counted(made) if row is None else row
    targets = made.record["submission"]["target"]
    filled = list(cells) if len(cells) == len(targets) else [*cells] * len(targets)
    predictions = list(made.guess if base == "guess" else made.perfect)
    predictions[at] = [filled]
    return made.rows(predictions)


def refused(*cells: str) -> Check:
    def check(made: Made) -> None:
        for cell in cells:
            verdict = made.verdict(rows_with(made, cell))
            assert not verdict.valid and verdict.reason, cell

    return check


def accepted(*cells: str) -> Check:
    def check(made: Made) -> None:
        for cell in cells:
            verdict = made.verdict(rows_with(made, cell))
            assert verdict.valid, (cell, verdict.reason)

    return check


def equal(one: str, other: str) -> Check:
    return lambda made: _scores_agree(made, one, other)


def _scores_agree(made: Made, one: str, other: str) -> None:
    assert made.score(rows_with(made, one)) == made.score(rows_with(made, other))


def unequal(one: str, other: str) -> Check:
    def check(made: Made) -> None:
        assert made.score(rows_with(made, one)) != made.score(rows_with(made, other))

    return check


def sums(within: float, beyond: float) -> Check:
    """Rows whose targets sum to 1 + within are accepted, to 1 + beyond refused."""

    def check(made: Made) -> None:
        count = len(made.record["submission"]["target"])
        for off, valid in ((within, True), (-within, True), (beyond, False), (-beyond, False)):
            cells = [repr((1 + off) / count)] * count
            verdict = made.verdict(rows_with(made, *cells))
            assert verdict.valid == valid, (off, verdict.reason)

    return check


def every(cell: str, wanted: float | None) -> Check:
    """A submission that holds one cell in all rows has this score, None: is refused."""

    def check(made: Made) -> None:
        width = len(made.record["submission"]["target"])
        verdict = made.verdict(made.rows([[[cell] * width]] * len(made.ids)))
        assert verdict.score == (None if wanted is None else pytest.approx(wanted, abs=1e-5)), verdict.reason

    return check


def perfect(wanted: float) -> Check:
    def check(made: Made) -> None:
        assert made.score(made.rows(made.perfect)) == pytest.approx(wanted, abs=1e-5)

    return check


def rows_that_are_left_out(made: Made) -> None:
    assert made.left_out
    score = made.score(made.rows(made.guess))
    for at in made.left_out:
        assert made.score(rows_with(made, "0.123", row=at)) == score


def all_rows_count(made: Made) -> None:
    score = made.score(made.rows(made.guess))
    assert not made.left_out
    for at in (0, 7, len(made.ids) - 1):
        assert made.score(rows_with(made, "1000", row=at)) != score


def missing_rows_are_refused(made: Made) -> None:
    assert "rows are missing" in (made.verdict(made.rows(made.guess)[:-1]).reason or "")


def doubled_rows_are_refused(made: Made) -> None:
    rows = made.rows(made.guess)
    assert not made.verdict([*rows, rows[0]]).valid


def other_rows_are_ignored(made: Made) -> None:
    rows = made.rows(made.guess)
    assert made.score([["nobody", *rows[0][1:]], *rows]) == made.score(rows)


def whole_numbers_as_labels(made: Made) -> None:
    """The made-up answers and predictions with a whole number for each label."""
    header, *lines = csv.reader(io.StringIO((made.folder / "answers.csv").read_text(), newline=""))
    at = header.index(answer_spec(made.record)["target"][0])
    numbers = {label: str(number) for number, label in enumerate(sorted({line[at] for line in lines}))}
    for line in lines:
        line[at] = numbers[line[at]]
    (made.folder / "answers.csv").write_bytes(table(header, lines))
    for predictions in (made.perfect, made.guess):
        predictions[:] = [[[numbers[cell] for cell in cells] for cells in each] for each in predictions]


def whole_numbers_as_items(made: Made) -> None:
    """The made-up answers and predictions with 7 for the item w_0007."""
    content = (made.folder / "answers.csv").read_text()
    (made.folder / "answers.csv").write_text(re.sub(r"w_0*(\d)", r"\1", content))
    for predictions in (made.perfect, made.guess):
        predictions[:] = [[[re.sub(r"w_0*(\d)", r"\1", cell) for cell in row] for row in each] for each in predictions]


def leading_zeros_do_not_matter(made: Made) -> None:
    cell = made.perfect[counted(made)][0][0]
    zeros = " ".join(f"00{item}" for item in cell.split())
    assert made.score(rows_with(made, zeros, base="perfect")) == made.score(made.rows(made.perfect))


def orders_are_permutations(made: Made) -> None:
    items = made.guess[0][0][0].split()
    for wrong in (items[:-1], [*items, items[0]], [*items[:-1], "other"], [*items[:-1], items[0]]):
        assert not made.verdict(rows_with(made, " ".join(wrong), row=0)).valid
    assert made.verdict(rows_with(made, " ".join(items[::-1]), row=0)).valid


def more_bytes_are_read_where_asked(made: Made) -> None:
    rows = made.rows(made.guess)
    header = [*made.record["submission"]["id"], *made.record["submission"]["target"]]
    content = table(header, rows)
    reason = grade(made.record, made.folder, content, max_bytes=len(content) - 1).reason
    assert reason == f"the file has {len(content)} bytes; at most {len(content) - 1} are read"
    assert grade(made.record, made.folder, content, max_bytes=len(content)).valid


def score_in_steps_of(step: float) -> Check:
    def check(made: Made) -> None:
        score = made.score(made.rows(made.guess))
        assert (score == round(score)) == (step == 1)

    return check


def the_order_of_rows_has_no_say(made: Made) -> None:
    assert made.score(made.rows(made.guess)[::-1]) == made.score(made.rows(made.guess))


def an_iou_of(cell: str, half: str, more: str) -> Check:
    """`half` has an IoU of exactly 1/2 with the true cell, which does not pass the threshold, `more` a larger one."""

    def check(made: Made) -> None:
        at = counted(made)
        _rewritten(made, at, cell)
        rest = made.score(rows_with(made, "", base="perfect", row=at))
        assert made.score(rows_with(made, half, base="perfect", row=at)) == rest
        assert made.score(rows_with(made, more, base="perfect", row=at)) > rest

    return check


def _rewritten(made: Made, at: int, cell: str) -> None:
    header, *lines = csv.reader(io.StringIO((made.folder / "answers.csv").read_text(), newline=""))
    lines[at][header.index(answer_spec(made.record)["target"][0])] = cell
    (made.folder / "answers.csv").write_bytes(table(header, lines))


def a_class_only_predicted_counts(made: Made) -> None:
    from sklearn.metrics import f1_score

    whole_numbers_as_labels(made)
    truth = [each[0][0] for each in made.perfect]
    at = counted(made)
    strange = "77"
    guess = [strange if place == at else cell for place, cell in enumerate(truth)]
    assert made.score(rows_with(made, strange, base="perfect")) == pytest.approx(
        f1_score(truth, guess, average="macro"), abs=1e-5
    )
    assert strange not in truth


def strange_tags_are_ignored(made: Made) -> None:
    at = counted(made)
    cell = made.perfect[at][0][0]
    more = f"{cell} {cell.split()[0]} no-such-tag"
    assert made.score(rows_with(made, more, base="perfect")) == 1
    assert made.score(rows_with(made, "no-such-tag", base="perfect")) < 1


def first_items_count(made: Made) -> None:
    """Only the first k, and a repeated one at its first place."""
    k = made.record["metric"]["params"].get("k", 1)
    item = made.perfect[counted(made)][0][0].split()[0]
    score = made.score(rows_with(made, item))
    assert made.score(rows_with(made, " ".join([item] * 3))) == score
    late = made.score(rows_with(made, " ".join(["0" if item.isdigit() else "none"] * k + [item])))
    assert late > score if made.record["metric"]["lower_is_better"] else late < score
    assert made.score(rows_with(made, " ".join([item] + ["none"] * 20))) == score


def recall_of_a_class_only_predicted_is_0(made: Made) -> None:
    whole_numbers_as_labels(made)
    whole = made.score(rows_with(made, "77", base="perfect"))
    truth = made.perfect[counted(made)][0][0]
    known = next(each[0][0] for each in made.perfect[3::3] if each[0][0] != truth)  # of the same component
    assert whole < made.score(rows_with(made, known, base="perfect"))


def at_most_five_rows(made: Made) -> None:
    cell = made.guess[0][0]
    for times, valid in ((5, True), (6, False)):
        assert made.verdict(made.rows([[cell] * times, *made.guess[1:]])).valid == valid


def an_empty_row_of_several(made: Made) -> None:
    truth = made.perfect[counted(made)][0][0]
    score = made.score(rows_with(made, "", base="perfect"))
    assert score < made.score(rows_with(made, truth, base="perfect"))


def masks_that_overlap(made: Made) -> None:
    at = counted(made)
    for second, valid in (("3 5", False), ("100 5", True)):
        predictions = list(made.guess)
        predictions[at] = [["1 5"], [second]]
        assert made.verdict(made.rows(predictions)).valid == valid


def pages_are_summed(made: Made) -> None:
    number = [len(each[0][0].split()) // 3 for each in made.perfect]
    at = counted(made)
    nothing = [[[""]] if place != at else each for place, each in enumerate(made.perfect)]
    assert made.score(made.rows(nothing)) == pytest.approx(2 * number[at] / (number[at] + sum(number)), abs=1e-5)


def truth_is_met(made: Made) -> None:
    best = METRICS[made.record["metric"]["name"]].best
    assert best is not None and made.score(made.rows(made.perfect)) == pytest.approx(best, abs=1e-5)


def exactly_the_truth(wanted: float) -> Check:
    def check(made: Made) -> None:
        rows = [[*row[:-1], repr(float(row[-1]) - 1e-6)] for row in made.rows(made.perfect)]
        lowest = min(made.score(rows), made.score(made.rows(made.perfect)))
        assert lowest >= wanted - 1e-5

    return check


RUNS = (refused("30 2 1 3", "1 5 3 5", "0 5", "1 0"), accepted("1 3 30 2"))
CLIPPED = (equal("1.7", "1"), equal("-3", "0"), accepted("37"))
CASES: dict[str, tuple[Check, ...]] = {
    "sizes that are not positive are refused": (refused("0.5 1 1 0 -1 2 2 0 car", "0.5 1 1 0 0 2 2 0 car"),),
    "compared as the three letters nan": (accepted(""), equal("", "nan"), unequal("", "w_0002 w_0001")),
    "repeated ids would be accepted there": (doubled_rows_are_refused,),
    "an MAE counts 1e-9 at least": (exactly_the_truth(float(np.log(1e-9))),),
    "off by more than about 1.1e-5": (sums(9e-6, 2e-5),),
    "rounded to 6 decimals": (sums(3e-7, 2e-6),),
    "their sum rounds to 1 at 5 decimals": (sums(3e-6, 2e-5),),
    "Rows must sum to 1 within": (sums(9e-4, 2e-3),),
    "occur in no answer are ignored": (strange_tags_are_ignored,),
    "never occur in the answers are ignored": (strange_tags_are_ignored,),
    "Runs must be sorted, not overlap": RUNS,
    "overlapping runs are refused": (refused("1 5 3 5", "0 5", "1 0"), accepted("30 2 1 3")),
    "a truly empty cell is refused": (refused(""), accepted("-")),
    "Only the first k items count": (first_items_count,),
    "A predicted item counts once": (first_items_count,),
    "Dojo counts a repeated hit each time": (first_items_count,),
    "Only the first item of a cell counts": (first_items_count,),
    "Only the first item of the cell counts": (first_items_count,),
    "rows of other customers are ignored": (other_rows_are_ignored,),
    "only predicted counts with F1 0": (a_class_only_predicted_counts,),
    "a cell with a fraction is refused": (whole_numbers_as_labels, refused("1.5"), equal("1.0", "1")),
    "a class only in one of them counts as 0": (a_class_only_predicted_counts,),
    "Answers are vote counts": (perfect(0),),
    "any finite azimuth or zenith is accepted": (accepted("-1e6", "1e6"), refused("inf")),
    "counts are summed over all pages": (pages_are_summed,),
    "an empty cell is refused": (refused("", "nan"),),
    "the grader fails on an empty cell, which here is refused": (refused(""),),
    "negative values are refused": (refused("-0.5", "-2"), accepted("0")),
    "an empty Confidence counts as 0, so 70": (refused(""),),
    "Here an empty Confidence and lacking rows are refused": (refused(""), missing_rows_are_refused),
    "An empty label is accepted and simply wrong": (accepted("", "nan"),),
    "an empty cell is accepted and scores 0": (accepted("", "nan"),),
    "clipped to [0, 1], not refused": CLIPPED,
    "and so refuses the submission": (every("0", 0),),
    "negative corner area are ignored": (truth_is_met,),
    "at most 5 rows per id (the grader refuses more)": (at_most_five_rows,),
    "an empty country cell never matches": (an_empty_row_of_several,),
    "masks of one image may not overlap (refused)": (masks_that_overlap,),
    "counts as recall 0": (recall_of_a_class_only_predicted_is_0,),
    "must be a permutation": (orders_are_permutations,),
    "must be the same set as in the answers": (orders_are_permutations,),
    "some hundred MB": (more_bytes_are_read_where_asked,),
    "items are whole numbers (07 = 7)": (whole_numbers_as_items, leading_zeros_do_not_matter, refused("7.0", "x", "1.5")),
    "later items must be whole numbers too": (whole_numbers_as_items, refused("7 x", "7 1.5"), accepted("7 08")),
    "Tokens are whole numbers (07 = 7)": (whole_numbers_as_items, leading_zeros_do_not_matter, refused("7.0", "x", "1 inf")),
    "Tokens must be whole numbers": (whole_numbers_as_items, leading_zeros_do_not_matter, refused("7.0", "x", "1 inf")),
    "Each cell is a list of whole numbers": (refused("1 2 3 4 x", "1 2 3 4 5.5"), equal("01 2 3 4 5", "1 2 3 4 5")),
    "leading zeros do not matter": (whole_numbers_as_labels, leading_zeros_do_not_matter),
    "The score is rounded to a whole number": (score_in_steps_of(1),),
    "The score is not rounded": (score_in_steps_of(0),),
    "must be present but are neither read nor scored": (truth_is_met,),
    "IoU must be greater than a threshold": (an_iou_of("1 4", "1 2", "1 3"),),
    "must stand in the answers' order": (the_order_of_rows_has_no_say,),
    "an IoU must be above the threshold": (truth_is_met,),
    "not checked to be unique": (truth_is_met,),
    "IoU >= threshold counts": (truth_is_met,),
    "fewer rows than the answers": (missing_rows_are_refused,),
    "refuses negative and empty predictions": (refused("-0.5", ""), accepted("0")),
    "refuses negative predictions": (refused("-0.5", "-2"), accepted("0")),
    "are clipped, not refused": CLIPPED,
    "are clipped by the pinned scikit-learn (1.6.1), not refused": CLIPPED,
    "values outside [0, 1] are not refused": CLIPPED,
    "nothing is refused there": (every("1", None), every("0", None)),
    "off by more than 0.01, is refused here": (sums(0.009, 0.02), refused("1.7", "-3"), every("1", None)),
    "numbers above 1 and a row of zeros are accepted": (accepted("37", "0"),),
    "Values outside 0..1 are refused": (refused("1.2", "-0.1"), accepted("0", "0.3")),
    "An empty prediction counts as error 0 in the grader": (refused(""),),
    "refused here": (refused(""),),
    "below -1 the grader leaves the row out of the mean; refused here": (refused("-1.5"),),
    "Predictions between -1 and 0 count as they are": (unequal("-0.5", "0"), accepted("-0.99"), refused("-1.5")),
    "-1 or less is refused": (refused("-1", "-2"),),
    "both are 0 counts as 0": (perfect(0),),
    "both 0 counts as 0": (perfect(0),),
    "do not count": (rows_that_are_left_out,),
    "Rows whose answer is empty are dropped": (rows_that_are_left_out,),
    "the last three weeks of each patient count": (rows_that_are_left_out,),
    "leftover items at the end of a cell are dropped by the grader": (refused("0.5 1 1 5 5 7"),),
    "constant predictions) counts 0": (every("0.5", None),),
    "a constant column is refused": (every("0.5", None),),
    "the grader refuses predictions that are not above 0": (refused("0", "-1"), accepted("0.5")),
    "pixels outside the image count": (unequal(f"1 {SIDE**2}", f"1 {SIDE**2 + 50}"),),
    "overlapping runs count once": (equal("1 5 3 5", "1 7"),),
    "still counts in the mean": (truth_is_met,),
    "more than 1200 points in an image are refused": (accepted(" ".join(["1 5 5"] * 1201)),),
    "the mean over all orders counts": (every("0.5", 0),),
    "overlapping spans count once": (equal("0 5;3 8", "0 8"),),
    "a malformed span or one with start > end": (refused("5 3", "a b", "5"),),
    "No range is checked": (accepted("-1e6", "1e6"),),
    "no range check": (accepted("-1e6", "1e6"),),
    "Here missing rows and an empty Confidence are refused": (missing_rows_are_refused, refused("")),
    "rows missing from the submission are left out": (missing_rows_are_refused,),
    "True and False, which count as 1 and 0": (perfect(1),),
    "always fails and counts 0": (perfect(1),),
    "the score of a box in the answers is ignored": (truth_is_met,),
    "multiple of six counts as empty there, and is refused here": (refused("1 0.9 1 1 5"),),
    "All rows count": (all_rows_count,),
    "MLE-bench counts only keep = True": (all_rows_count,),
    "which do not count": (all_rows_count,),
    "all classes of the answers count": (truth_is_met,),
}  # fmt: skip
NOTED = [(name, part) for name, record in RECORDS.items() for part in sentences(record.get("note", ""))]


def cases_of(part: str) -> tuple[Check, ...]:
    """The cases of the longest phrase in a sentence."""
    phrases = sorted((phrase for phrase in CASES if phrase.lower() in part.lower()), key=len)
    return CASES[phrases[-1]] if phrases else ()


@pytest.mark.parametrize(("name", "part"), NOTED, ids=[f"{name}: {part[:60]}" for name, part in NOTED])
def test_a_note_says_what_its_record_does(name: str, part: str, tmp_path: Path) -> None:
    checks = cases_of(part)
    assert checks, f"this sentence of the note of {name} has no case in CASES: {part}"
    made = made_of(name, tmp_path)
    for check in checks:
        check(made)


def test_every_case_belongs_to_a_note() -> None:
    text = "\n".join(part.lower() for _, part in NOTED)
    assert [phrase for phrase in CASES if phrase.lower() not in text] == []
    assert len(NOTED) > 100
