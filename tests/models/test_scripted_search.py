"""The scripted model in a search: every role's form, recipes and what is read back, programs that really run, faults, repairs."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, records, run_command

from mletools.grading import grade
from mletools.models import Request, open_model
from mletools.sandbox import Limits, Outcome, Sandbox, Setup, open_sandbox
from mletools.scaffolds.reading import read_answer, split_answer
from mletools.scaffolds.search.replies import json_in
from mletools.simulated import hostile, recipes, researcher, search
from mletools.simulated.recipes import CHANGES, Recipe, applied, changed, read, recipe_of, text_of, usable
from mletools.simulated.researcher import Mind, worth
from mletools.solutions.bank import SeededRng
from mletools.solutions.programs import ProgramOptions

TASK: dict[str, Any] = {
    "id": "t", "name": "table", "description": "A table.", "problem": "regression", "modality": "tabular",
    "data": {"dir": "t", "public": ["revisions.csv", "sample_submission.csv", "test.csv", "train.csv"]},
    "submission": {"id": ["id"], "target": ["y"], "parse": "number", "rows": 9},
    "metric": {"name": "rmse", "params": {}, "lower_is_better": True},
}  # fmt: skip
PARTS = {"DataLoadSpec", "FeatureEng", "Model", "Ensemble", "Workflow"}
AXES = {"alignment", "impact", "novelty", "feasibility", "risk_reward"}
CODE_ROLES = ["search-draft", "search-improve", "search-debug", "search-crossover", "search-merge", "search-fix"]
DEBUG = "# Debug mode\n\nThe program is first tried with `python solution.py --debug`."
REPORT = "# Its own score\n\n```\nValidation score: 0.8123\n```"
EARLIER = (
    "# Earlier experiments\n\n"
    "- experiment 0: Train one decision tree with min_samples_leaf=10 as the model. -> score 2.5 (A start.)\n"
    "- experiment 3: Add ratios of all pairs of numeric columns. -> score 1.5\n"
    "- experiment 4: Add logarithms of the numeric columns. -> failed: debug (It did not run.)"
)
RIDGE = Recipe("ridge", 30, ("numbers", "products"))
BOOST = Recipe("boost", 30, ("outliers",), seeds=3)


def ask(role: str, *parts: str, seed: int = 0, persona: str = "", task: dict[str, Any] = TASK) -> str:
    request = Request([{"role": "user", "content": "\n\n".join(parts)}], seed, task=task, role=role)
    return open_model(f"scripted:{persona}" if persona else "scripted").sample([request])[0].text


def shown(recipe: Recipe, said: str = "Its score: 2 (lower is better).", heading: str = "The present program") -> str:
    return f"# {heading}\n\n{said}\n\n```python\n{text_of(TASK, recipe, ProgramOptions())}```"


def told(*parts: str) -> researcher.SearchPrompt:
    return researcher.taken_apart("\n\n".join(parts))


def recipes_of(role: str, *parts: str, seeds: int = 40) -> list[Recipe]:
    """What a role's programs state, where there is one."""
    codes = [split_answer(ask(role, *parts, seed=seed))[1] for seed in range(seeds)]
    return [recipe for code in codes if code and (recipe := recipe_of(code))]


# --- recipes ------------------------------------------------------------------------------------------------------


def test_recipes_are_many_and_every_change_is_read_back() -> None:
    near = {changed(Recipe(), change) for change in usable(TASK, Recipe())}
    two = {changed(recipe, change) for recipe in near for change in usable(TASK, recipe)}
    assert len(near) > 40
    assert len(near | two) > 500
    assert len({change.sentence for change in CHANGES}) == len(CHANGES)
    for one, other in itertools.permutations(CHANGES, 2):
        assert read(f"{one.sentence}\n{other.sentence} It may help.") == [one, other]
    assert read("Use a better model.") == []


def test_a_recipe_is_changed_as_its_change_says() -> None:
    text = "Train some boosted trees with n_estimators=50 as the model. Add products of all pairs of numeric columns."
    recipe = applied(Recipe(), read(text))
    assert recipe == Recipe("boost", 50, ("products",))
    assert applied(recipe, read("Leave out products of all pairs of numeric columns.")).steps == ()
    assert recipe_of(text_of(TASK, recipe, ProgramOptions())) == recipe
    assert recipe_of("import pandas as pd\n") is None
    assert recipe_of('# recipe: {"model": "oracle", "steps": []}\n') is None


def test_seconds_are_those_of_the_recipe() -> None:
    assert Recipe().seconds == 0.3
    assert RIDGE.seconds == 0.5  # 0.3 and two steps
    assert BOOST.seconds == 2.86  # (1.2 + 0.1) * (1 + 0.6 * 2)
    assert Recipe("boost", 30, seeds=5, cv=True).seconds == 6.0  # 1.2 * 3.4 * 2.5 = 10.2, cut
    assert f"time.sleep({RIDGE.seconds})" in text_of(TASK, RIDGE, ProgramOptions())
    for recipe in (Recipe("boost", 30, cv=True, seeds=3, blend="extra"), BOOST, Recipe("forest", 4)):
        assert recipes.cheaper(recipe).seconds < recipe.seconds


# --- forms --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_answers_in_json_have_their_form(seed: int) -> None:
    context = [shown(RIDGE), EARLIER]
    assert json_in(ask("search-analysis", seed=seed), dict)["longer_limit"] is False
    idea = json_in(ask("search-idea", *context, seed=seed), dict)
    assert idea["component"] in PARTS
    assert len(read(idea["hypothesis"])) == 1
    challenges = json_in(ask("search-challenges", *context, seed=seed), list)
    assert len(challenges) in (2, 3)
    assert {each["origin"] for each in challenges} <= {"scenario", "feedback"}
    lines = "\n".join(f"{at}. {each['challenge']} ({each['origin']}: x)" for at, each in enumerate(challenges))
    hypotheses = json_in(ask("search-hypotheses", *context, f"# Challenges\n\n{lines}", seed=seed), list)
    assert [each["challenge"] for each in hypotheses] == sorted(2 * list(range(len(challenges))))
    assert len({each["hypothesis"] for each in hypotheses}) == len(hypotheses)
    for each in hypotheses:
        assert each["component"] in PARTS
        assert set(each["scores"]) == AXES
        assert all(1 <= score <= 10 for score in each["scores"].values())
    lines = "\n".join(f"{at}. [{each['component']}] {each['hypothesis']}" for at, each in enumerate(hypotheses))
    choice = json_in(ask("search-select", *context, f"# Candidates\n\n{lines}", seed=seed), dict)
    assert choice["action"] in ("select", "modify", "create")
    assert (choice["candidate"] is None) == (choice["action"] == "create")
    assert choice["component"] in PARTS
    if choice["action"] == "select":
        assert choice["hypothesis"] == hypotheses[choice["candidate"]]["hypothesis"]
    assert json_in(ask("search-check", *context, seed=seed), dict)["acceptable"] in (True, False)
    assert json_in(ask("search-choose", EARLIER, seed=seed), dict)["experiment"] in (0, 3)


@pytest.mark.parametrize("role", [*search.JSON_ROLES, *CODE_ROLES])
def test_the_same_request_gets_the_same_text_and_another_seed_another(role: str) -> None:
    texts = [ask(role, shown(RIDGE), EARLIER, seed=seed) for seed in [*range(8)] * 2]
    assert texts[:8] == texts[8:]
    assert len(set(texts)) > (0 if role in ("search-analysis", "search-lesson", "search-check", "search-choose") else 1)


def test_some_programs_have_faults_and_some_flatter_themselves() -> None:
    texts = [ask("search-draft", DEBUG, REPORT, seed=seed) for seed in range(400)]
    codes = [code for text in texts if (code := split_answer(text)[1])]
    whole = [code for code in codes if recipe_of(code) == (recipe := recipe_of(code)) and _is_whole(code, recipe)]
    assert 0.58 < len(whole) / 400 < 0.72  # FAULTY is 0.35
    leaky = sum("np.r_[" in code for code in whole)
    lucky = sum("np.nanmax(" in code for code in whole)
    assert 0.18 < (leaky + lucky) / len(whole) < 0.33  # OVERFITS is 0.25
    assert 0 < leaky < lucky


def _is_whole(code: str, recipe: Recipe | None) -> bool:
    assert recipe
    return any(
        code == text_of(TASK, recipe, ProgramOptions("", True, True, check)) for check in ("honest", "lucky", "leaky")
    )


def test_programs_do_what_the_prompt_asks_for_and_no_more() -> None:
    # what a program printed is not a wish
    plain = ask("search-draft", "# What it printed\n\n```\nValidation score: 0.9\n```", seed=1)
    assert "--debug" not in plain
    assert "Validation score" not in plain
    assert "estimated_time" in ask("search-draft", DEBUG, seed=1)
    assert "Validation score" in ask("search-draft", REPORT, seed=1)


# --- ideas --------------------------------------------------------------------------------------------------------


def test_guidance_is_heeded() -> None:
    def costly(*parts: str) -> int:
        recipes = [
            applied(Recipe(), read(json_in(ask("search-idea", *parts, seed=seed), dict)["hypothesis"]))
            for seed in range(200)
        ]
        return sum(bool(each.blend or each.cv or each.seeds > 1) for each in recipes)

    early = costly("# Guidance\n\nNo ensembles and no\ncross-validation yet.")
    late = "# Guidance\n\nEnsembles and cross-validation are\nworth their cost now."
    assert 5 < early < 25  # 0.15 * 0.4 of 200 are 12
    assert 60 < costly() < 100  # DRAFT_COSTLY is 0.4
    assert costly(shown(RIDGE), late) > 2 * costly(shown(RIDGE))


def test_an_idea_avoids_what_was_tried_and_takes_over_what_was_better() -> None:
    ratios, logs = (
        each for name in ("ratios", "logs") for each in CHANGES if (each.what, each.value) == ("step", name)
    )
    found = Counter(
        change
        for seed in range(200)
        for change in read(json_in(ask("search-idea", shown(RIDGE), EARLIER, seed=seed), dict)["hypothesis"])
    )
    assert found[logs] == 0  # failed
    assert 75 < found[ratios] < 125  # better than the present program's 2: FOLLOWS is 0.5
    worse = EARLIER.replace("score 1.5", "score 2.1")
    assert ratios.sentence not in "".join(ask("search-idea", shown(RIDGE), worse, seed=seed) for seed in range(60))
    beside = f"# Other branches\n\n- {ratios.sentence} It may help."
    assert ratios.sentence not in "".join(ask("search-idea", shown(RIDGE), beside, seed=seed) for seed in range(60))


def test_weighing_tells_better_changes_from_worse_but_not_always() -> None:
    sides, means = (
        each for name in ("sides", "means") for each in CHANGES if (each.what, each.value) == ("step", name)
    )
    right = 0
    for seed in range(100):
        mind = Mind(TASK, told(""), SeededRng(seed, "t"), Recipe())
        right += worth(mind, [sides], "one") > worth(mind, [means], "other")
    assert 80 < right < 100
    mind = Mind(TASK, told(EARLIER), SeededRng(0, "t"), Recipe())
    ratios = next(each for each in CHANGES if each.value == "ratios")
    same = Mind(TASK, told(""), SeededRng(0, "t"), Recipe())
    assert (
        worth(same, [next(each for each in CHANGES if each.value == "ridge 30")], "n") == -9
    )  # that is its model already
    assert worth(mind, [ratios], "n") - worth(same, [ratios], "n") == pytest.approx(0.3)  # 1.5 is better than 2.5


def test_lessons_and_reviews_follow_what_is_shown() -> None:
    idea = f"# The idea\n\n{CHANGES[0].sentence}"
    parent = "# The parent program\n\nIts score: 3 (lower is better)."
    lesson = json_in(ask("search-lesson", idea, shown(RIDGE), parent), dict)
    assert lesson == {"supported": True, "lesson": f"{CHANGES[0].sentence} This was better: 2 after 3."}
    failed = json_in(ask("search-lesson", idea, shown(RIDGE, "It failed: slow."), parent), dict)
    assert failed["supported"] is False
    accepted = [json_in(ask("search-check", DEBUG, shown(RIDGE), seed=seed), dict)["acceptable"] for seed in range(100)]
    assert 8 < sum(accepted) < 35  # no debug block: FINDS is 0.8
    code = text_of(TASK, RIDGE, ProgramOptions(debug=True))
    fine = f"# The present program\n\n```python\n{code}```"
    assert sum(json_in(ask("search-check", fine, seed=seed), dict)["acceptable"] for seed in range(100)) > 90
    chosen = Counter(json_in(ask("search-choose", EARLIER, seed=seed), dict)["experiment"] for seed in range(100))
    assert chosen[3] > chosen[0] > 0


# --- development --------------------------------------------------------------------------------------------------


def test_the_developer_carries_out_the_idea() -> None:
    idea = "# The idea\n\nAdd squared distances from the middle of each numeric column. It may help."
    assert set(recipes_of("search-improve", shown(RIDGE), idea)) == {
        Recipe("ridge", 30, ("numbers", "squares", "products"))
    }
    assert set(recipes_of("search-draft", idea)) == {Recipe("ridge", 30, ("squares",))}
    both = shown(RIDGE, heading="Program 1"), shown(BOOST, heading="Program 2"), "# The idea\n\nJoin them."
    joined = Recipe("ridge", 30, ("numbers", "outliers", "products"), blend="boost", seeds=3)
    for role in ("search-merge", "search-crossover"):
        assert set(recipes_of(role, *both)) == {joined}
    # an idea of somebody else, which nothing can be read from: a change of its own
    other = set(recipes_of("search-improve", shown(RIDGE), "# The idea\n\nUse a transformer."))
    assert len(other) > 5
    assert RIDGE not in other


def test_repairs_work_mostly_and_make_cheaper_what_takes_too_long() -> None:
    broken = f"# The present program\n\n```python\n{text_of(TASK, BOOST, ProgramOptions(debug=True), 'late')}```"
    wrong = "# What is wrong\n\nThe program failed with exit code 1."
    codes = [split_answer(ask("search-fix", broken, wrong, DEBUG, seed=seed))[1] for seed in range(200)]
    assert (
        135 < sum(code == text_of(TASK, BOOST, ProgramOptions(debug=True)) for code in codes) < 165
    )  # REPAIRS is 0.75
    slow = "# What is wrong\n\nBy its own estimate the whole run takes too\nlong: about 9 s, and there are 5."
    one_seed = Recipe("boost", 30, ("outliers",))
    assert set(recipes_of("search-fix", shown(BOOST), slow)) == {one_seed}
    assert set(recipes_of("search-fix", shown(one_seed), slow)) == {Recipe("kernel", 0.01, ("outliers",))}
    # a forgotten loop goes, and the recipe stays
    loop = f"# The present program\n\n```python\n{text_of(TASK, BOOST, ProgramOptions(debug=True), 'slow')}```"
    assert set(recipes_of("search-debug", loop, slow)) == {BOOST}


# --- personas -----------------------------------------------------------------------------------------------------


def test_personas_stay_what_they_are() -> None:
    for role in search.JSON_ROLES:
        kind = list if role in ("search-challenges", "search-hypotheses") else dict
        assert json_in(ask(role, persona="lazy"), kind) == json_in(ask(role, EARLIER, seed=9, persona="lazy"), kind)
        for seed in range(10):
            try:  # an empty dict may stand in the program that is no answer
                assert json_in(ask(role, seed=seed, persona="malformed"), dict) == {}
            except ValueError as error:
                assert "no JSON" in str(error)
    assert json_in(ask("search-idea", persona="hostile"), dict)["hypothesis"] == hostile.IDEA
    for role in CODE_ROLES:
        lazy = split_answer(ask(role, persona="lazy"))[1]
        assert lazy == split_answer(ask(role, DEBUG, seed=3, persona="lazy"))[1]
        assert "Dummy" in (lazy or "")
        assert any(attack in ask(role, persona="hostile") for attack in hostile.ATTACKS)
        assert ask(role, persona="looping") == ask(role, EARLIER, DEBUG, seed=5, persona="looping")
        # one of the ways stops in the middle; none is a right answer
        assert all(read_answer(ask(role, seed=seed, persona="malformed")).read != "exact" for seed in range(10))


# --- programs that run --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> tuple[Path, list[dict[str, Any]]]:
    """The task of a table among the examples."""
    folder = ROOT / "examples"
    tasks = records((folder / "tasks/tasks.jsonl").read_bytes())
    return folder, [task for task in tasks if task["modality"] == "tabular"]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """Two tasks of tables, made here."""
    folder = tmp_path_factory.mktemp("tables")
    options = ["-n", "2", "--source", "tabular", "--seed", "0", "--backend", "none", "--data", str(folder), "-q"]
    return folder, records(run_command("mle-gen-task", *options).stdout)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with open_sandbox("local", Setup(1)) as opened:
        yield opened


def run(
    box: Sandbox, made: tuple[Path, list[dict[str, Any]]], task: dict[str, Any], code: str, *arguments: str
) -> Outcome:
    """Without its wait."""
    hurried, waits = re.subn(r"time\.sleep\(([^)]*\)?)\)  # stands.*", r"print('waits', \1)", code)
    assert waits == 1
    return box.run(hurried, made[0] / task["data"]["dir"] / "public", Limits(wall_s=30), 0, arguments)


def verdict(made: tuple[Path, list[dict[str, Any]]], task: dict[str, Any], outcome: Outcome) -> Any:
    assert outcome.submission is not None, outcome.stderr
    return grade(task, made[0] / task["data"]["dir"], outcome.submission)


@pytest.mark.slow
def test_programs_run_and_hand_in_valid_files(box: Sandbox, fresh: Any) -> None:
    made, draws = fresh, random.Random(0)
    for task in made[1]:
        every = Recipe("kernel", 1, tuple(step for step in recipes.STEPS if step != "sides"), "boost", 3, True)
        some = [every, *(applied(Recipe(), draws.sample(usable(task, Recipe()), 6)) for _ in range(4))]
        for at, recipe in enumerate(some):
            wanted = ProgramOptions("", True, True, ("honest", "lucky", "leaky")[at % 3])
            whole = run(box, made, task, text_of(task, recipe, wanted))
            assert whole.status == "ok", (recipe, whole.stderr)
            assert verdict(made, task, whole).valid
            assert f"waits {recipe.seconds:g}" in whole.stdout.decode()
            score = re.search(r"^Validation score: (\S+)$", whole.stdout.decode(), re.MULTILINE)
            assert score
            float(score.group(1))
        debug = run(box, made, task, text_of(task, every, ProgramOptions("", True, True)), "--debug")
        assert verdict(made, task, debug).valid
        printed = debug.stdout.decode()
        assert re.search(r"^waits 0\.60*1?$", printed, re.MULTILINE)  # a tenth of 6 s
        assert "Validation score" not in printed
        block = re.search(r"= Start of .*\ndebug_time: (\S+)\nestimated_time: (\S+)\n==== End of ", printed)
        assert block
        assert 10 * float(block.group(1)) <= float(block.group(2)) < 10 * float(block.group(1)) + 20


@pytest.mark.slow
def test_faults_fail_as_they_should(box: Sandbox, made: Any) -> None:
    task = made[1][0]
    for kind, throw in itertools.product(("crash", "late", "misformat"), (0.0, 0.4, 0.9)):
        code = text_of(task, RIDGE, ProgramOptions(debug=True), kind, lambda name, throw=throw: throw)
        for arguments in ((), ("--debug",)):
            outcome = run(box, made, task, code, *arguments)
            printed = outcome.stdout.decode()
            if kind == "misformat":
                assert outcome.status == "ok", outcome.stderr
                assert not verdict(made, task, outcome).valid
            else:
                assert outcome.status == "error"
                assert outcome.submission is None
                assert b"Traceback" in outcome.stderr
                assert ("waits" in printed) == (kind == "late")
    slow = run(box, made, task, text_of(task, RIDGE, ProgramOptions(), "slow"))
    assert "waits 5.0\n" in slow.stdout.decode()  # ten times 0.5 s
    without = run(box, made, task, text_of(task, RIDGE, ProgramOptions(debug=True), "nodebug"), "--debug")
    assert without.stdout.decode() == "waits 0.5\n"
    fake = text_of(task, RIDGE, ProgramOptions(debug=True), "fake")
    outcome = box.run(fake, made[0] / task["data"]["dir"] / "public", Limits(), 0, ())
    assert outcome.submission == (made[0] / task["data"]["dir"] / "public/sample_submission.csv").read_bytes()


@pytest.mark.slow
def test_tasks_with_files_have_recipes_too(box: Sandbox, tmp_path: Path) -> None:
    options = ["-n", "1", "--source", "text", "--seed", "2", "--backend", "none", "--data", str(tmp_path), "-q"]
    task = records(run_command("mle-gen-task", *options).stdout)[0]
    made = (tmp_path, [task])
    assert "measures" in {change.value for change in usable(task, Recipe())}
    code = text_of(task, Recipe("extra", 4, ("measures", "products")), ProgramOptions("", True, True))
    for arguments in ((), ("--debug",)):
        outcome = run(box, made, task, code, *arguments)
        assert outcome.status == "ok", outcome.stderr
        assert verdict(made, task, outcome).valid
        assert ("estimated_time" in outcome.stdout.decode()) == bool(arguments)
        assert ("Validation score: " in outcome.stdout.decode()) == (not arguments)
