"""Tasks made from a hidden rule: rule, target, split, leaderboard, description, and whole tasks of every modality."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from challenge_builders import challenge_of, rule_of
from conftest import ROOT, SUPPORT, TESTS, mostly_slow, records, run_command

import mletools
from mletools.base.ids import derive_seed
from mletools.commands.gen_task import _unlike
from mletools.grading import metrics, score_bytes
from mletools.records import schema
from mletools.tasks.baselines import make_board
from mletools.tasks.describe import WEIGHTED
from mletools.tasks.draft import draft_world
from mletools.tasks.folder import content_digest, data_digest
from mletools.tasks.forms import rle
from mletools.tasks.likeness import likeness
from mletools.tasks.make import Dropped, Made, NoTask, make_task
from mletools.tasks.procedural.dna import METRICS, MODALITIES, MUTATIONS, SAMPLES, SKEWED
from mletools.tasks.procedural.draw import MEDIA, begin, draw_world, medium, scenarios
from mletools.tasks.procedural.media import columns
from mletools.tasks.procedural.rule import Cause, compose, shown, signs
from mletools.tasks.procedural.scenario import Scenario
from mletools.tasks.procedural.signs import PHRASES
from mletools.tasks.procedural.target import make_target
from mletools.tasks.procedural.world import Category, Number, divisible
from mletools.tasks.show import show
from mletools.tasks.soundness import Case, examine, failures, read_case
from mletools.tasks.summary import Summary
from mletools.tasks.table import Rejected, generator
from mletools.tasks.thresholds import leaderboard_thresholds

QUICK = ("tabular",)
EVERY = [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in MODALITIES]


def score_of(challenge, submission):
    return score_bytes(challenge.grading, challenge.answers, submission)


def table(content):
    return list(csv.DictReader(io.StringIO(content.decode())))


# --- data files -----------------------------------------------------------------------------------------------------


def test_scenarios_are_complete():
    found = scenarios()
    assert len({each["key"] for each in found}) == len(found) >= 30
    assert len({each["domain"] for each in found}) >= 25
    for each in found:
        assert msgspec.convert(each, Scenario) == each
        entries = [*each["numbers"], *each["categories"]]
        asked = [each[name] for name in ("quantity", "binary", "classes", "tags")]
        names = [entry["name"] for entry in [*entries, *asked, each["ranking"]["query"], each["ranking"]["grade"]]]
        assert len(set(names)) == len(names) and all(re.fullmatch("[a-z][a-z0-9_]{0,23}", name) for name in names)
        assert len(each["numbers"]) >= 10 and len(each["categories"]) == 4
        for number in [*each["numbers"], each["quantity"], each["series"]]:
            assert number["low"] < number["high"], each["key"]
        levels = [list(entry["levels"]) for entry in [*each["categories"], *asked[1:]]]
        assert all(2 <= len(names) <= 6 and len(set(names)) == len(names) for names in levels)
        # Words that pandas would read as a missing value.
        assert not {level.lower() for some in levels for level in some} & {"na", "n/a", "nan", "none", "null", ""}
        assert {"image", "audio", "graph", "series", "text"} <= set(each)


def targets_of(scenario):
    """(name, what the scenario says of it) of every target with causes."""
    entries = [scenario["quantity"], scenario["binary"], scenario["classes"], scenario["ranking"]["grade"]]
    return [*((entry["name"], entry) for entry in entries), *scenario["tags"]["levels"].items()]


def test_a_cell_in_thousandths_does_not_carry_the_whole_unit() -> None:
    drawn = 0
    for seed in range(20):
        scenario, rng = scenarios()[seed % len(scenarios())], generator(seed)
        try:
            made = columns.render(
                scenario, columns.factors(scenario, 40, rng), {"mixed_units": 1.0, "mixed_encodings": 1.0}, rng
            )
        except Rejected:
            continue
        (unit,) = (name for name in made.cells if name.endswith("_unit"))
        told = set(made.cells[unit])
        assert len(told) == 2 and {each.removeprefix("1/1000 ") for each in told} <= told
        assert not any(" " in cell for cell in made.cells[unit.removesuffix("_unit")])
        drawn += 1
    assert drawn > 10


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario["key"])
def test_causes_of_a_scenario_are_columns_and_agree(scenario):
    numbers = {entry["name"] for entry in scenario["numbers"]}
    levels = {entry["name"]: set(entry["levels"]) for entry in scenario["categories"]}
    for name, target in targets_of(scenario):
        causes = [Cause.parse(line) for line in target["causes"]]
        assert target["lean"] in "+-" and len(causes) >= 3, name
        for cause in causes:
            assert cause.factor in (levels if cause.sign == "<" else numbers), f"{name}: {cause}"
            assert set(cause.levels) <= levels[cause.category or cause.factor] if cause.levels else True, (
                f"{name}: {cause}"
            )
        # A cause that acts mainly somewhere has there the direction that it has everywhere.
        directions = {
            cause.factor: {other.sign for other in causes if other.factor == cause.factor} for cause in causes
        }
        assert all(len(each) == 1 for each in directions.values()), name
        everywhere = [cause.factor for cause in causes if not cause.category]
        assert len(everywhere) == len(set(everywhere)), name
    for sign, one, other in map(str.split, scenario["links"]):
        assert sign in "+-" and {one, other} <= numbers and one != other


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario["key"])
def test_a_scenario_has_what_its_sentences_need(scenario):
    # "The bakers take more holes and a coarser grain as signs of a poor loaf."
    assert re.fullmatch(r"The [a-z' ]+(s|staff)", scenario["experts"]) and not scenario["condition"].endswith(".")
    assert scenario["image"]["spots"] and scenario["image"]["stripes"]
    weight, plan = scenario["graph"]["weight"], scenario["series"]["plan"]
    assert weight["meaning"] and weight["unit"] and plan["meaning"] and re.fullmatch("[a-z]+_percent", plan["name"])
    assert plan["name"] != scenario["series"]["name"]
    # A number without a unit is called what it is; "index" and "ratio" are no units.
    units = {entry["unit"] for entry in [*scenario["numbers"], scenario["quantity"], scenario["series"]]}
    assert not units & {"index", "ratio", "share", "units", "pH"}
    assert scenario["binary"]["meaning"].startswith("whether ") and len(scenario["binary"]["levels"]) == 2
    assert scenario["tags"]["meaning"].startswith(("what ", "the ")) and len(scenario["tags"]["levels"]) >= 5
    assert scenario["quantity"]["low"] > 0
    for name in ("image", "audio", "graph", "series", "text"):
        marks = [Cause.parse(line) for line in scenario[name]["signs"]]
        assert len(marks) >= 3 and all(each.monotone and each.factor in PHRASES for each in marks), name
        assert all(each.factor.startswith(name) for each in marks)
    assert scenario["text"]["theme"] in scenario["text"]["themes"]


@pytest.mark.parametrize("name", mostly_slow(sorted(MEDIA, key="audio".__ne__)))
def test_every_mutation_changes_what_a_task_shows(name):
    module, scenario = medium(name), scenarios()[0]
    factors = module.factors(scenario, 60, generator(3))

    def shown(mutations):
        made = module.render(scenario, factors, mutations, generator(4))
        return made.cells, [asset.contents for asset in made.assets], made.sides

    plain = shown({})
    assert [each for each in module.MUTATIONS if shown({each: 1.0}) == plain] == []


def headers_and_notes():
    """(header of a file, the sentences on the data) of networks and series with every mutation, forecasts and gaps."""
    for scenario in scenarios()[::4]:
        for name in ("graph", "series"):
            draws, module = generator(2), medium(name)
            rendered = [
                module.render(
                    scenario, module.factors(scenario, 20, draws), dict.fromkeys(module.MUTATIONS, 1.0), draws
                )
            ]
            for make in module.DENSE.values():
                rendered += [make(scenario, 20, {}, 0.1, generator(seed)).rendered for seed in range(6)]
            for each in rendered:
                yield each.assets[0].contents[0].decode().split("\n")[0].split(","), " ".join(each.notes)


@pytest.mark.slow
def test_the_columns_of_networks_and_series_are_described():
    seen = set()
    for header, notes in headers_and_notes():
        assert [name for name in header if f"`{name}`" not in notes] == []
        assert "such a file" not in notes and " in %." not in notes.split("`weight`")[-1]
        seen |= set(header)
    assert {"source", "weight", "step", "unit"} <= seen and sum(name.endswith("_percent") for name in seen) > 1


def test_a_mask_marks_what_the_scenario_is_about():
    for scenario in scenarios():
        made = medium("image").DENSE["segmentation"](scenario, 12, {}, 0.1, generator(5))
        assert scenario["condition"] in made.target.asked and scenario["experts"][4:] in made.target.asked
        assert made.target.columns[0].meaning == f"the pixels marked as a sign of {scenario['condition']}"


def test_a_mean_without_weights_is_defined_without_them():
    plain = {name: WEIGHTED.sub("", metrics.find(name).definition) for name in metrics.METRICS}
    assert plain["mae"] == "Mean absolute error." and plain["rmse"] == "Root of the mean squared error."
    assert not [name for name, words in plain.items() if "unless the task names a weight column" in words]


def test_thousandths_are_given_of_units_that_have_them():
    for seed in range(200):
        scenario, dna = begin("multimodal", generator(seed), SAMPLES, MUTATIONS)
        names = {each["name"] for each in dna["mutations"]}
        assert "unit_change" not in names or divisible(scenario["series"]["unit"])
        assert "mixed_units" not in names or any(divisible(entry["unit"]) for entry in scenario["numbers"])


def test_linked_columns_are_correlated():
    scenario = {**scenarios()[0], "links": ["- oven_temp_c bake_minutes"]}
    for seed in range(40):
        found = {each.name: each for each in columns.factors(scenario, 400, generator(seed))}
        if {"oven_temp_c", "bake_minutes"} <= set(found):
            assert np.corrcoef(found["oven_temp_c"].place, found["bake_minutes"].place)[0, 1] < -0.6
            return
    raise AssertionError("never drawn together")


SENTENCES = {
    ("binary_classification", "auroc", "probability"): (
        "Predict for each painting the probability that later overpaint was found (`overpaint`).",
        "whether later overpaint was found",
    ),
    ("binary_classification", "accuracy", "label"): (
        "Predict for each painting whether later overpaint was found: `overpaint` is `overpainted` if so, else `original`.",
        "whether later overpaint was found",
    ),
    ("binary_classification", "log_loss", "probabilities"): (
        "Predict the probability of each value of `overpaint` (whether later overpaint was found) for each painting.",
        "whether later overpaint was found",
    ),
    ("multiclass_classification", "accuracy", "label"): (
        "Predict the class `state` (state as the conservators class it) of each painting: "
        "`critical`, `poor`, `fair`, `good`.",
        "state as the conservators class it",
    ),
    ("multiclass_classification", "quadratic_weighted_kappa", "label"): (
        "Predict the grade `state` (state as the conservators class it) of each painting, a whole number: "
        "0 critical, 1 poor, 2 fair, 3 good.",
        "state as the conservators class it: 0 critical, 1 poor, 2 fair, 3 good",
    ),
    ("multilabel_classification", "jaccard_sets", "tagset"): (
        "Predict all tags that apply for each painting: `old_retouching`, `tear` (what the conservator noted on the painting).",
        "1 where the tag old_retouching applies, else 0",
    ),
    ("regression", "mae", "number"): (
        "Predict `hours` (hours of work that the treatment took, in h) for each painting.",
        "hours of work that the treatment took",
    ),
    ("ranking", "spearman_by_group", "number"): (
        "Rank the paintings of each `exhibition` by `suitability` (how well the painting can bear the exhibition).",
        "how well the painting can bear the exhibition",
    ),
    ("ranking", "map_at_k", "ranked"): (
        "For each `exhibition`, rank its paintings, those with `suitability` = 1 first.",
        "1 for about the best third of the paintings of its exhibition, by how well the painting can bear the exhibition, else 0",
    ),
}


@pytest.mark.parametrize("key", list(SENTENCES))
def test_sentences_of_a_target_in_every_form(key):
    problem, metric, form = key
    scenario = next(each for each in scenarios() if each["key"] == "museum_paintings")
    signal = rule_of(factors(), 3, generator(2)).of(shown(factors()))
    dna = {**DNA, "problem": problem, "metric": metric, "form": form, "tag_names": ["old_retouching", "tear"]}
    dna["class_shares"] = [0.5, 0.5] if problem.startswith("binary") else [0.25] * 4
    target = make_target(scenario, dna, [signal] * (2 if problem.startswith("multilabel") else 1), generator(3))
    assert (target.asked, target.columns[0].meaning) == SENTENCES[key]
    cells = set(target.cells[target.columns[0].name])
    if problem == "binary_classification":
        assert target.event == "later overpaint was found"
    elif metric == "quadratic_weighted_kappa":
        assert cells == set(target.labels) == {"0", "1", "2", "3"}


def test_metrics_suit_the_facts_of_the_target():
    for seed in range(400):
        scenario, dna = begin("tabular", generator(seed), SAMPLES, MUTATIONS)
        rare = dna["class_shares"] and min(dna["class_shares"]) < 0.2
        if dna["metric"] in ("average_precision", "f1_binary"):
            assert dna["class_shares"][-1] < 0.3
        if dna["metric"] == "accuracy":
            assert not rare
        if dna["metric"] in ("rmsle", "mape", "rmse"):
            tail = scenario["quantity"]["high"] / scenario["quantity"]["low"] >= 12
            assert tail == (dna["metric"] != "rmse") == (dna["target_distribution"] == "skewed")


# --- rule and target ------------------------------------------------------------------------------------------------


def factors(rows=80):
    draws = generator(5)
    numbers = [Number(f"n{at}", "m", 1.0, 9.0, 1, draws.uniform(size=rows)) for at in range(4)]
    return [*numbers, Category("kind", ["a", "b", "c"], draws.randint(3, size=rows))]


@pytest.mark.parametrize("seed", range(12))
def test_a_rule_is_scaled_and_says_what_it_uses(seed):
    found = factors()
    rule = rule_of(found, 4, generator(seed))
    value = rule.of(shown(found))
    assert abs(value.mean()) < 1e-6 and abs(value.std() - 1) < 1e-6
    assert 2 <= len(rule.terms) <= 4
    assert all(name in rule.words for name in rule.factors)
    assert rule.words.count(" x [") == len(rule.terms)


MONOTONE = ("trend", "saturating", "accelerating", "threshold")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("sign", ["+", "-"])
def test_a_monotone_cause_keeps_its_direction_in_every_shape(sign, seed):
    found = factors(400)
    order = np.argsort(found[0].place)
    alone = compose([Cause(sign, "n0")], found, generator(seed))
    steps = np.diff(alone.of(shown(found))[order])
    assert alone.families[0] in MONOTONE and ((steps >= 0) if sign == "+" else (steps <= 0)).all()
    where = compose([Cause(sign, "n0", ("b",), "kind")], found, generator(seed)).of(shown(found))
    inside = found[4].code == 1
    assert np.std(where[inside]) > 3 * np.std(where[~inside])


def test_causes_that_turn_joint_causes_and_orders_of_levels():
    found = factors(400)
    place, code = found[0].place, found[4].code
    for sign, at_ends in (("^", -1), ("v", 1)):
        value = compose([Cause(sign, "n0")], found, generator(0)).of(shown(found))
        ends = (place < 0.1) | (place > 0.9)
        assert np.sign(value[ends].mean() - value[~ends].mean()) == at_ends
    ordered = compose([Cause("<", "kind", ("c", "a"))], found, generator(0)).of(shown(found))
    assert ordered[code == 2].max() < ordered[code == 1].min() < ordered[code == 0].min()
    joint = compose([Cause("+", "n0"), Cause("-", "n1")], found, generator(0))
    assert joint.families == ["joint"]
    value, other = joint.of(shown(found)), found[1].place
    both = (place > 0.7) & (other < 0.3)
    assert value[both].min() > value[(place < 0.1) | (other > 0.9)].max()


@pytest.mark.parametrize("line", ["n0", "* n0", "+ n0 and n1", "kind: a", "+ n0 where kind"])
def test_a_line_that_is_no_cause_is_refused(line):
    with pytest.raises(ValueError, match="is not a cause"):
        Cause.parse(line)


def test_a_target_that_leans_the_other_way_turns_the_signs():
    for lean, sign in (("+", "+"), ("-", "-")):
        found = signs(["+ n0", "+ absent"], lean, factors(), generator(1))
        assert [(each.sign, each.factor) for each in found] == [(sign, "n0")]


def test_a_rule_that_does_not_vary_is_refused():
    flat = [Number("n", "", 0.0, 1.0, 1, np.full(9, 0.5))]
    with pytest.raises(ValueError, match="does not vary"):
        compose([Cause("+", "n")], flat, generator(0))


DNA = {"noise": 0.1, "flipped": 0.0, "target_distribution": "skewed", "tags": 3, "query_rows": 7, "form": "number"}
DNA["metric"] = "accuracy"


@pytest.mark.parametrize("problem", ["binary_classification", "multiclass_classification"])
def test_classes_have_their_shares_and_are_known_but_for_the_noise(problem):
    scenario, signal = scenarios()[0], rule_of(factors(), 3, generator(2)).of(shown(factors()))
    shares = [0.25, 0.75] if problem.startswith("binary") else [0.5, 0.25, 0.25]
    target = make_target(
        scenario, {**DNA, "problem": problem, "class_shares": shares, "form": "label"}, [signal], generator(3)
    )
    counts = np.bincount(target.y[:, 0]) / len(signal)
    assert np.allclose(counts, shares, atol=0.02)
    assert np.allclose(target.known.sum(axis=1), 1, atol=1e-5)
    assert (target.known.argmax(axis=1) == target.y[:, 0]).mean() > 0.9


def test_numbers_keep_their_order_and_range():
    scenario, signal = scenarios()[0], rule_of(factors(), 3, generator(2)).of(shown(factors()))
    target = make_target(scenario, {**DNA, "problem": "regression", "noise": 0.0}, [signal], generator(3))
    entry = scenario["quantity"]
    assert entry["low"] <= target.y.min() and target.y.max() <= entry["high"]
    assert np.corrcoef(np.argsort(np.argsort(signal)), np.argsort(np.argsort(target.y[:, 0])))[0, 1] > 0.99
    assert np.abs(target.known - target.y).max() < 10.0 ** -entry["decimals"]


def test_wrong_labels_are_as_many_as_said():
    scenario, signal = scenarios()[0], rule_of(factors(), 3, generator(2)).of(shown(factors()))
    dna = {**DNA, "form": "label", "problem": "binary_classification", "class_shares": [0.5, 0.5], "noise": 0.0}
    right = make_target(scenario, dna, [signal], generator(3))
    wrong = make_target(scenario, {**dna, "flipped": 0.4}, [signal], generator(3))
    assert 0.1 < (right.y != wrong.y).mean() < 0.35  # a swapped row has the same label half of the time


# --- the challenge --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_form_of_every_problem_can_be_handed_in():
    """What knows the rule scores better than the dummy, in the bytes that a solver would write."""
    wanted = {(problem, metric) for menu in (METRICS, SKEWED) for problem in menu for metric, _, _ in menu[problem]}
    seen: dict[tuple[str, str], int] = {}
    better: dict[tuple[str, str], int] = {}
    for seed in range(2000):
        modality = ("tabular", "tabular", "tabular", "timeseries", "image")[seed % 5]
        _, dna = begin(modality, generator(seed), SAMPLES, MUTATIONS)
        key = dna["problem"], dna["metric"]
        if seen.get(key, 0) == 2:
            continue
        draws = generator(seed)
        try:
            world = draw_world(modality, draws)
            challenge = draft_world(world, draws)
        except Rejected:
            continue
        known = score_of(challenge, challenge.hand_in(challenge.known))
        dummy = score_of(challenge, challenge.public["sample_submission.csv"])
        sign = -1 if challenge.metric["lower_is_better"] else 1
        seen[key] = seen.get(key, 0) + 1
        better[key] = better.get(key, 0) + (sign * known > sign * dummy)
        if len(seen) == len(wanted) and min(seen.values()) == 2:
            break
    assert wanted - set(seen) == set()
    assert {key: better[key] for key in seen} == seen


@pytest.mark.parametrize("modality", EVERY)
def test_files_of_a_challenge(modality):
    challenge = challenge_of(modality, 70)
    public = challenge.public
    train, test = table(public["train.csv"]), table(public["test.csv"])
    assert (len(train), len(test)) == challenge.rows
    assert not {row["id"] for row in train} & {row["id"] for row in test}
    assert len({row["id"] for row in train + test}) == sum(challenge.rows)
    paths = [column.name for column in challenge.features if column.meaning.startswith("file: ")]
    named = {row[name] for row in train + test for name in paths}
    assert named == {name for name in public if "/" in name}
    assert set(train[0]) > set(test[0])
    assert not set(challenge.submission["target"]) & set(test[0])
    assert [row["id"] for row in train] != sorted(row["id"] for row in train)


def test_run_length_code():
    assert rle([0, 1, 1, 0, 1]) == "2 2 5 1"
    assert rle([0, 0]) == "" and rle([1, 1]) == "1 2"


@pytest.mark.slow
def test_the_ladder_rises_on_the_whole():
    """Who knows the rule is best, right features beat a tuned ensemble, which beats the dummy, in most tasks."""
    gains = []
    for seed in range(100, 109):
        challenge = challenge_of("tabular", 20 * seed)
        try:
            board = make_board(challenge, lambda content, each=challenge: score_of(each, content), 0)
        except Rejected:
            continue
        sign = -1 if challenge.metric["lower_is_better"] else 1
        ladder = {entry["name"]: sign * entry["score"] for entry in board.ladder}
        assert (next(iter(ladder)), list(ladder)[-1]) == ("dummy", "ceiling")
        scores = [sign * score for _, score in board.teams]
        assert scores == sorted(scores, reverse=True) and len(scores) >= 30
        assert table(board.csv)[0]["team"] == board.teams[0][0]
        steps = [ladder[name] for name in ("dummy", "tuned_ensemble", "right_features", "ceiling")]
        gains.append(np.sign(np.diff(steps)))
    assert len(gains) >= 6
    assert (np.mean(gains, axis=0) > 0.3).all(), np.mean(gains, axis=0)


# --- whole tasks ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("made")


class MadeWhenAsked(dict):
    """modality -> a task of it."""

    def __init__(self, data):
        super().__init__()
        self.data = data

    def __missing__(self, modality):
        self[modality] = make_task(modality, 0, 11, self.data)
        return self[modality]


@pytest.fixture(scope="module")
def made(data):
    return MadeWhenAsked(data)


@pytest.mark.parametrize("modality", EVERY)
def test_a_task_of_every_modality(modality, made, data):
    each = made[modality]
    record = each.record
    schema.check(record, "task")
    assert record["modality"] == modality and record["provenance"]["source"] == modality
    folder = data / record["data"]["dir"]
    answers, sample = ((folder / name).read_bytes() for name in (record["answers"], "public/sample_submission.csv"))
    dummy = round(score_bytes(record, answers, sample), 5)
    assert dummy == record["provenance"]["baselines"][0]["score"]
    assert {told.partition(":")[0] for told in record["provenance"]["sanity"].values()} <= {"passed", "skipped"}
    board = table((folder / record["leaderboard"]).read_bytes())
    scores = [float(row["score"]) for row in board]
    assert record["thresholds"] == leaderboard_thresholds(scores, record["metric"]["lower_is_better"])
    assert len(record["provenance"]["mutations"]) == 3
    assert 50 <= each.samples <= 200 and each.size > 1000


@pytest.mark.parametrize("modality", EVERY)
def test_a_description_tells_the_files_and_no_secret(modality, made):
    each = made[modality]
    record, text = each.record, each.record["description"]
    assert "answers.csv" not in text and "leaderboard" not in text and record["provenance"]["hidden_rule"] not in text
    for part in re.findall(r"\[(.+?)\]", record["provenance"]["hidden_rule"]):
        assert part not in text
    for name in record["submission"]["target"][:2]:
        assert f"`{name}`" in text
    assert f"`{record['metric']['name']}`" in text
    assert "Lower is better." in text or "Higher is better." in text


@pytest.mark.slow
def test_same_seed_same_bytes_whatever_came_before(made, tmp_path):
    again = make_task("audio", 0, 11, tmp_path)
    assert again.record == made["audio"].record
    other = make_task("audio", 1, 11, tmp_path)
    assert other.record["data"]["digest"] != again.record["data"]["digest"]


FEATURES = "import numpy as np; from numpy._core._multiarray_umath import __cpu_features__ as f; print(*(n for n in f if f[n]))"
DIGESTS = """
import sys; sys.path[:0] = {paths!r}
from challenge_builders import challenge_of
from mletools.tasks.folder import content_digest, data_digest
for modality in {modalities!r}:
    for seed in (300, 340):
        challenge = challenge_of(modality, seed)
        print(modality, seed, content_digest({{**challenge.public, "answers": challenge.answers}}))
"""


@pytest.mark.slow
def test_files_do_not_depend_on_the_kind_of_processor():
    """The same bytes with the wide vector instructions of numpy and OpenBLAS and without."""
    code = DIGESTS.format(paths=[str(TESTS), str(SUPPORT)], modalities=MODALITIES)
    poor = {"NPY_DISABLE_CPU_FEATURES": _optional_features(), "OPENBLAS_CORETYPE": "Nehalem"}
    outputs = []
    for environment in ({}, poor):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=250
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) == 2 * len(MODALITIES)


def _optional_features():
    """Those of numpy's that this processor has and numpy can do without; the names differ between its versions."""
    code = "import numpy as np; print(*np.show_config(mode='dicts')['SIMD Extensions'].get('found', []))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_likeness_is_about_scenario_and_rule_not_about_numbers(made):
    record = made["tabular"].record
    other = json.loads(json.dumps(record))
    other["provenance"]["dna"]["noise"] = 0.99
    other["data"]["digest"] = "sha256:0"
    assert likeness(other) == likeness(record)
    other["provenance"]["scenario"] = "elsewhere"
    assert likeness(other) != likeness(record)
    real = {"provenance": {"source": "sklearn:iris"}, "data": {"digest": "sha256:1"}}
    assert likeness(real) == "sha256:1"


def test_a_task_like_an_earlier_one_is_made_again(made):
    first = made["tabular"]
    elsewhere = {**first.record, "provenance": {**first.record["provenance"], "scenario": "elsewhere"}}
    second = replace(first, record=elsewhere, dropped=[])
    asked = []

    def maker(pair, attempt):
        asked.append(attempt)
        return second

    kept, dropped = _unlike(maker, ("tabular", 0), first, None, {likeness(first.record)})
    assert kept is second and asked == [first.record["provenance"]["attempt"] + 1]
    assert [each.reason.partition(":")[0] for each in dropped[-1:]] == ["not_alike"]
    none, dropped = _unlike(maker, ("tabular", 0), None, NoTask([Dropped(0, "drawn", "rule: flat")]), set())
    assert none is None and dropped[0].reason == "rule: flat"


def test_a_language_models_task_like_an_earlier_one_is_dropped(made):
    """Its provenance counts no attempts, and there is no second draft."""
    provenance = {name: value for name, value in made["tabular"].record["provenance"].items() if name != "attempt"}
    written = replace(made["tabular"], record={**made["tabular"].record, "provenance": provenance}, dropped=[])

    def maker(place, attempt):
        raise NoTask([])

    kept, dropped = _unlike(maker, ("llm", 1), written, None, {likeness(written.record)})
    assert kept is None and [each.reason.partition(":")[0] for each in dropped] == ["not_alike"]


def test_a_task_that_a_constant_wins_is_trivial(made, data):
    record = made["tabular"].record
    place = record["provenance"]
    wins = {"name": "constant", "score": record["thresholds"]["median"]}
    task = {**record, "provenance": {**place, "baselines": [*place["baselines"], wins]}}
    case = read_case(task, data, lambda submission: place["baselines"][0]["score"])
    assert failures(examine(case, ["not_trivial"]))["not_trivial"].startswith("a constant scores ")


def test_leaks_in_a_ranking_are_found():
    """The rows of a query are what is ranked: their order and the sample's lists may not tell which are worth finding."""
    seed = next(at for at in range(500) if begin("tabular", generator(at), SAMPLES, MUTATIONS)[1]["form"] == "ranked")
    draws = generator(seed)
    challenge = draft_world(draw_world("tabular", draws), draws)
    query = challenge.submission["id"][0]
    test, found = table(challenge.public["test.csv"]), table(challenge.answers)
    worth = {item for row in found for item in row["ranking"].split()}
    names = ("no_leak_ids", "no_leak_row_order", "sample_uninformative")

    def failed(public):
        files = {f"public/{name}": content for name, content in {**challenge.public, **public}.items()}
        task = {**challenge.grading, "answers": "private/answers.csv", "provenance": {}}
        return set(failures(examine(Case(task, {**files, task["answers"]: challenge.answers}, lambda _: 0.5), names)))

    assert failed({}) == set()
    ordered = sorted(test, key=lambda row: (row["id"] not in worth, row["id"]))
    lines = [",".join(test[0]), *(",".join(f'"{cell}"' for cell in row.values()) for row in ordered)]
    assert "no_leak_row_order" in failed({"test.csv": ("\n".join(lines) + "\n").encode()})
    lists = {row[query]: " ".join(each["id"] for each in ordered if each[query] == row[query]) for row in test}
    sample = "".join([f"{query},ranking\n", *(f"{name},{items}\n" for name, items in lists.items())])
    assert failed({"sample_submission.csv": sample.encode()}) == {"sample_uninformative"}


def test_the_text_for_a_human_tells_story_data_rule_and_ladder(made, data):
    record = made["tabular"].record
    text = show(record, data / record["data"]["dir"])
    assert record["id"] in text and "The rule (hidden from solvers)" in text
    assert "train.csv" in text and "ceiling" in text and "--- gold ---" in text
    assert record["provenance"]["mutations"][0]["name"] in text


def test_the_summary_counts(made):
    summary = Summary()
    for modality in QUICK:
        summary.add(made[modality])
    assert sum(summary.counts["modality"].values()) == len(QUICK) == len(summary.samples)
    assert isinstance(made["tabular"], Made)


@pytest.mark.slow
def test_the_command_drops_tells_and_goes_on_after_a_kill(tmp_path):
    args = ("mle-gen-task", "--source", "tabular,graph", "-n", "4", "--seed", "3", "--rejects", "dropped.jsonl")
    whole = run_command(*args, "-o", "tasks.jsonl", cwd=tmp_path)
    told = whole.stderr.decode()
    assert "mle-gen-task: modality: " in told and "drawn" in told and "standard solution: mean" in told
    tasks = records((tmp_path / "tasks.jsonl").read_bytes())
    drops = records((tmp_path / "dropped.jsonl").read_bytes())
    counts = {name: int(number) for number, name in re.findall(r"(\d+) (drawn|checked|records)", told)}
    assert counts["records"] == len(tasks) == 4 and counts["drawn"] == 4 + len(drops)
    # As if killed after two tasks, in the middle of a line.
    lines = (tmp_path / "tasks.jsonl").read_bytes().split(b"\n")
    (tmp_path / "tasks.jsonl").unlink()
    (tmp_path / "tasks.jsonl.partial").write_bytes(b"\n".join(lines[:2]) + b"\n" + lines[2][:100])
    run_command(*args, "-o", "tasks.jsonl", "--resume", "-j", "2", cwd=tmp_path)
    assert (tmp_path / "tasks.jsonl").read_bytes() == b"\n".join(lines)
    shown = run_command("mle-gen-task", "--describe", "tasks.jsonl", cwd=tmp_path).stdout.decode()
    assert all(task["id"] in shown for task in tasks)


@pytest.mark.parametrize("value", ["10-60", "200-100", "many"])
def test_samples_that_make_no_sense(tmp_path, value):
    done = run_command("mle-gen-task", "--samples", value, cwd=tmp_path, check=False)
    assert done.returncode == 2 and b"--samples" in done.stderr


EXAMPLES = [json.loads(line) for line in (ROOT / "examples" / "tasks" / "tasks.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: record["modality"])
def test_examples_are_what_their_seed_makes(record):
    """A library that changes these bytes changes every task that was ever made."""
    schema.check(record, "task")
    place = record["provenance"]
    folder = ROOT / "examples" / record["data"]["dir"]
    assert data_digest(folder, record["data"]["public"], record["answers"]) == record["data"]["digest"]
    draws = generator(derive_seed(place["seed"], place["source"], place["index"], place["attempt"]))
    world = draw_world(place["source"], draws, (50, 60))
    challenge = draft_world(world, draws)
    there = {path.relative_to(folder / "public").as_posix(): path for path in (folder / "public").rglob("*.*")}
    assert set(there) == {*challenge.public, "description.md"}
    changed = [name for name, content in challenge.public.items() if there[name].read_bytes() != content]
    assert changed == [] and (folder / record["answers"]).read_bytes() == challenge.answers


@pytest.mark.slow
def test_examples_pass_the_checks_of_anyones_tasks(tmp_path):
    args = ("mle-filter", "--tasks", "--data", str(ROOT / "examples"), str(ROOT / "examples" / "tasks" / "tasks.jsonl"))
    kept = records(run_command(*args, "-j", "2", cwd=tmp_path).stdout)
    assert [task["id"] for task in kept] == [task["id"] for task in EXAMPLES]
    assert {task["modality"] for task in kept} == set(MODALITIES)


def test_data_files_are_shipped():
    root = Path(mletools.__file__).parent / "tasks" / "procedural" / "scenarios"
    assert len(list(root.glob("*.json"))) >= 30
    assert content_digest({"a": b""})
