"""Notes of procedural tasks: they hold their facts, can be read again, and suffer from what spoils them."""

import csv
import io
import itertools
import re

import numpy as np

from mletools.tasks.procedural.draw import scenarios
from mletools.tasks.procedural.media import text
from mletools.tasks.procedural.media.text import LETTERS, Reader, make_plan
from mletools.tasks.procedural.media.text_grammar import CUES, GRAMMAR, wordings
from mletools.tasks.table import csv_bytes, generator

ROWS = 60
SEEDS = range(6)


def drawn(seed, mutations=(), rows=ROWS):
    """(factors, rendered) of a scenario that the seed picks."""
    draws = generator(seed)
    scenario = scenarios()[seed * 5 % len(scenarios())]
    factors = text.factors(scenario, rows, draws)
    return factors, text.render(scenario, factors, dict.fromkeys(mutations, 0.8), draws)


def notes_of(rendered):
    if rendered.cells:
        return rendered.cells["text"]
    return [content.decode() for content in rendered.assets[0].contents]


def test_notes_stand_in_a_column_or_in_files():
    kinds = [drawn(seed, text.MUTATIONS)[1] for seed in range(10)]
    assert {bool(each.cells) for each in kinds} == {True, False}
    for rendered in kinds:
        if rendered.cells:
            data = csv_bytes(["text"], [rendered.cells["text"]]).decode()
            assert [row[0] for row in csv.reader(io.StringIO(data))][1:] == rendered.cells["text"]
            assert not any("\n" in note for note in rendered.cells["text"])
        else:
            asset = rendered.assets[0]
            assert (asset.column, asset.folder, asset.ending, len(asset.contents)) == ("document", "docs", "txt", ROWS)


def test_no_wording_uses_a_word_that_counts():
    glue = set(LETTERS.findall(" ".join(wordings()).lower()))
    assert glue & set(CUES) == set()
    for scenario in scenarios():
        counting = {word for words in scenario["text"]["themes"].values() for word in words}
        counting |= {*scenario["text"]["praise"], *scenario["text"]["blame"]}
        assert (glue | set(CUES)) & counting == set(), scenario["key"]


def test_every_symbol_of_the_grammar_has_wordings():
    slots = {"subject", "marker", "word", "fact", "other", "grade_word", "when", "list", "name", "now", "old"}
    slots |= {"first", "second", "most", "least"}
    for wording in itertools.chain(*GRAMMAR.values()):
        for name in re.findall(r"{(\w+)}", wording):
            assert name in GRAMMAR or name in slots, wording


def test_notes_are_not_one_template():
    """Of all groups of three words in 100 notes, so many are different; one template had 0.30."""
    shares = []
    for seed in range(3):
        _, rendered = drawn(seed, rows=100)
        words = [re.findall(r"\w+", note.lower()) for note in notes_of(rendered)]
        groups = [tuple(each[at : at + 3]) for each in words for at in range(len(each) - 2)]
        shares.append(len(set(groups)) / len(groups))
        lengths = [len(note.split()) for note in notes_of(rendered)]
        assert max(lengths) > 1.6 * min(lengths) and 80 < np.mean(lengths) < 160
        assert f"the shortest has {min(lengths)} words, the longest {max(lengths)}." in rendered.notes[0]
    assert min(shares) > 0.38


def test_a_reader_corrects_misspelt_and_shortened_words():
    draws = generator(0)
    scenario = next(each for each in scenarios() if each["key"] == "bakery")
    reader = Reader(make_plan(scenario, text.factors(scenario, 5, draws), draws))
    note = '<p>The haeel did nicht look <b>cr</b>isp.</p> Can the heel wait? An older note says "the rim stayed burnt".'
    first, second, third = reader.sentences(note)
    assert first.words == ["the", "heel", "did", "not", "look", "crisp"] and not first.asked
    assert second.asked and "burnt" not in third.words
    assert reader.sentences("the heel stayed fragr. and gumy.")[0].words[3:] == ["fragrant", "and", "gummy"]
