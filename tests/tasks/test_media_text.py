"""Notes of procedural tasks: they hold their facts, can be read again, and suffer from what spoils them."""

import csv
import functools
import io
import itertools
import re

import numpy as np
import pytest
from challenge_builders import rule_of
from conftest import mostly_slow

from mletools.tasks.procedural.draw import scenarios
from mletools.tasks.procedural.media import text
from mletools.tasks.procedural.media.text import LETTERS, Reader, make_plan
from mletools.tasks.procedural.media.text_grammar import CUES, GRAMMAR, wordings
from mletools.tasks.procedural.rule import shown
from mletools.tasks.procedural.world import Number
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


@functools.cache
def clean_drawn(seed):
    return drawn(seed)


def agreement(factors, rendered):
    """Of each factor: the correlation with the truth, or the share of rows with the right level."""
    return {
        factor.name: float(
            np.corrcoef(rendered.measured[factor.name], factor.place)[0, 1]
            if isinstance(factor, Number)
            else np.mean(rendered.measured[factor.name] == factor.code)
        )
        for factor in factors
    }


def test_the_same_seed_gives_the_same_notes():
    for seed in (0, 1):
        (_, first), (_, second) = drawn(seed, text.MUTATIONS), drawn(seed, text.MUTATIONS)
        assert notes_of(first) == notes_of(second)
        assert np.array_equal(first.plain, second.plain)
        assert all(np.array_equal(first.measured[name], second.measured[name]) for name in first.measured)


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
        assert rendered.plain.shape[0] == ROWS and rendered.plain.shape[1] <= 60 and np.isfinite(rendered.plain).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_clean_note_tells_its_facts(seed):
    factors, rendered = clean_drawn(seed)
    assert 5 <= len(factors) <= 6
    assert min(agreement(factors, rendered).values()) > 0.87


@pytest.mark.slow
def test_note_lengths_do_not_reveal_the_factors():
    found = []
    for seed in SEEDS:
        factors, rendered = drawn(seed, rows=150)
        lengths = [len(note.split()) for note in notes_of(rendered)]
        assert 80 < np.mean(lengths) < 160
        found += [abs(np.corrcoef(lengths, each.place)[0, 1]) for each in factors if isinstance(each, Number)]
    # 150 rows without any relation give 0.065 on average.
    assert np.mean(found) < 0.12


@pytest.mark.parametrize("mutation", mostly_slow(text.MUTATIONS))
@pytest.mark.slow
def test_a_mutation_spoils_notes_and_never_helps(mutation):
    clean, spoiled = [], []
    for seed in range(4):
        factors, rendered = clean_drawn(seed)
        same, worse = drawn(seed, [mutation])
        assert [each.name for each in factors] == [each.name for each in same]
        assert notes_of(rendered) != notes_of(worse)
        clean += agreement(factors, rendered).values()
        spoiled += agreement(same, worse).values()
    assert 0.7 < np.mean(spoiled) < np.mean(clean) + 0.01


def test_the_target_is_not_in_the_notes():
    """The same factors and the same draws: no rule or target reaches the notes."""
    draws = generator(3)
    scenario = scenarios()[0]
    factors = text.factors(scenario, ROWS, draws)
    first = text.render(scenario, factors, {}, generator(4))
    rule_of(factors, 3, draws)
    assert notes_of(first) == notes_of(text.render(scenario, factors, {}, generator(4)))


@pytest.mark.slow
def test_right_features_beat_plain_ones():
    from sklearn.ensemble import ExtraTreesRegressor

    plain, right = [], []
    for seed in range(6):
        factors, rendered = drawn(seed, ["typos", "dropped_words"], rows=160)
        rule = rule_of(factors, 3, generator(seed + 100))
        signal = rule.of(shown(factors))
        terms = np.column_stack([term.of(rendered.measured) for term in rule.terms])
        for features, scores in ((rendered.plain, plain), (terms, right)):
            model = ExtraTreesRegressor(25, random_state=0).fit(features[:100], signal[:100])
            scores.append(model.score(features[100:], signal[100:]))
    assert np.mean(right) > np.mean(plain) + 0.15


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
        assert max(lengths) > 1.6 * min(lengths)
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
