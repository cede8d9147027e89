"""Models: choosing one, the scripted one against real tables, the one over HTTP against a real server."""

import base64
import csv
import subprocess
import sys
import threading
import time
import wave as wave_file
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from conftest import mostly_slow, run_command
from step_server import StepServer, drop, send, status, without_keys_and_proxies

from mletools import simulated
from mletools.base.errors import RecordError, ToolError
from mletools.base.hub import check_model
from mletools.grading import grade
from mletools.models import ENGINES, Reply, Request, ServerOptions, open_model
from mletools.models.checkpoint import find_checkpoint
from mletools.models.http import HttpModel
from mletools.models.options import ModelOptions, RoleOptions
from mletools.models.waits import wait_s
from mletools.simulated.answers import plan
from mletools.solutions import FAULTS, NEEDED, VALID, bank, solution, solves

# ---- choosing one


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "no model: name one, e.g. scripted, hf:PATH, or a model that a server at --model-url serves"),
        ("hf:", "hf:: hf needs a folder or a model's name, e.g. hf:runs/policy"),
        (
            "Qwen/Qwen3-8B",
            "Qwen/Qwen3-8B: a server's model needs its address: give --model-url or MLE_MODEL_URL"
            " (or name scripted or hf:PATH, which need none)",
        ),
        (
            "scripted:tree,bush",
            "scripted: unknown level 'bush'; levels are nocode, broken, crash, misformat, dummy, stump, shrunk, tree,"
            " knn, linear, forest, boosted, tuned; personas, one alone, solver, tinkerer, ideator, vague, null, malformed, lazy,"
            " looping, hostile",
        ),
        (
            "scripted:lasy",
            "scripted: unknown level 'lasy'; levels are nocode, broken, crash, misformat, dummy, stump, shrunk, tree,"
            " knn, linear, forest, boosted, tuned; personas, one alone, solver, tinkerer, ideator, vague, null, malformed, lazy,"
            " looping, hostile; did you mean lazy?",
        ),
        (
            "scriptd",
            "scriptd: a server's model needs its address: give --model-url or MLE_MODEL_URL"
            " (or name scripted or hf:PATH, which need none); did you mean scripted?",
        ),
    ],
)
def test_a_model_that_cannot_be_opened(spec: str, message: str) -> None:
    with pytest.raises(ToolError) as error:
        open_model(spec)
    assert str(error.value) == message


def test_a_missing_library_names_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "engine_without_torch.py").write_text("def Engine(path, batch, dtype):\n    import torch\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(open_model.__globals__["ENGINES"], "hf", "engine_without_torch:Engine")
    with pytest.raises(ToolError) as error:
        open_model("hf:somewhere")
    assert str(error.value) == "hf: needs torch and transformers: pip install 'mletools[train]'"


def test_importing_the_floor_loads_no_heavy_library() -> None:
    code = (
        "import sys, mletools.models.http, mletools.simulated, mletools.scaffolds.single\n"
        "print(sorted({'torch', 'sklearn', 'pandas', 'numpy', 'urllib3', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


# ---- the scripted model

# Imports once and forks for every program: what runs is a process of its own, without a second of imports each.
DRIVER = """
import os, runpy, sys
import pandas, sklearn.dummy, sklearn.ensemble, sklearn.linear_model, sklearn.neighbors, sklearn.tree
for folder in sys.stdin.read().split():
    child = os.fork()
    if not child:
        os.chdir(folder)
        sys.stderr = open("stderr.txt", "w")
        try:
            runpy.run_path("solution.py", run_name="__main__")
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(1)
        sys.stderr.flush()
        os._exit(0)
    print(folder, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def _write(path: Path, header: list[str], rows: list[list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def make_task(folder: Path, kind: str) -> dict[str, Any]:
    """A task of that kind from one of scikit-learn's tables, in `folder`/public and `folder`/answers.csv."""
    from sklearn import datasets

    name = {"label": "wine", "auroc": "breast_cancer", "log_loss": "iris", "r2": "diabetes", "rmse": "linnerud"}[kind]
    values, truth = getattr(datasets, f"load_{name}")(return_X_y=True)
    rows = [list(map(float, row)) for row in values]
    answers = [list(map(float, row)) if kind == "rmse" else [row] for row in truth.tolist()]
    if kind in ("label", "log_loss"):
        answers = [[["low", "mid", "high"][int(row[0])]] for row in answers]
    learnt = {"auroc": ["is_benign"], "rmse": ["chins", "situps", "jumps"]}.get(kind, ["target"])
    # a category and a gap, as real tables have them
    features = [[*row, "red" if row[0] > rows[0][0] else "blue"] for row in rows]
    features[3][1] = ""
    order = sorted(range(len(rows)), key=lambda at: (at * 7919) % len(rows))[:200]
    train, test = order[len(order) // 3 :], order[: len(order) // 3]
    columns = [f"f{at}" for at in range(len(features[0]))]
    submitted, handed_in = learnt, [[at, *answers[at]] for at in test]
    if kind == "log_loss":
        labels = ["low", "mid", "high"]
        submitted = [f"prob_{label}" for label in labels]
        handed_in = [[at, *(int(answers[at][0] == label) for label in labels)] for at in test]
    public = folder / "public"
    _write(public / "train.csv", ["id", *columns, *learnt], [[at, *features[at], *answers[at]] for at in train])
    _write(public / "test.csv", ["id", *columns], [[at, *features[at]] for at in test])
    _write(public / "sample_submission.csv", ["id", *submitted], [[at, *[0.5] * len(submitted)] for at in test])
    _write(folder / "answers.csv", ["id", *submitted], handed_in)
    spec: dict[str, Any] = {"id": ["id"], "target": submitted, "parse": "number", "rows": len(test)}
    if kind == "label":
        spec |= {"parse": "label", "labels": ["high", "low", "mid"]}
    if kind == "log_loss":
        spec |= {"range": [0, 1], "row_sum": 1}
    problem = {"label": "multiclass", "log_loss": "multiclass", "auroc": "binary"}.get(kind)
    lower = kind in ("log_loss", "rmse")
    return {
        "id": f"{name}-{kind}", "name": name, "problem": f"{problem}_classification" if problem else "regression",
        "data": {"dir": str(folder), "public": sorted(NEEDED)}, "submission": spec, "answers": "answers.csv",
        "metric": {"name": {"label": "accuracy"}.get(kind, kind), "params": {}, "lower_is_better": lower},
    }  # fmt: skip


def run_all(task: dict[str, Any], programs: dict[str, str], folder: Path) -> dict[str, tuple[int, Any]]:
    """(exit code, verdict of the grader or None without a submission) of every program."""
    for name, code in programs.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "solution.py").write_text(code)
        (folder / name / "input").symlink_to(Path(task["data"]["dir"]) / "public")
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], input="\n".join(str(folder / name) for name in programs), capture_output=True,
        text=True, timeout=120, env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    codes = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    outcomes = {}
    for name in programs:
        file = folder / name / "submission.csv"
        verdict = grade(task, Path(task["data"]["dir"]), file.read_bytes()) if file.exists() else None
        outcomes[name] = (int(codes[str(folder / name)]), verdict)
    return outcomes


def program_of(text: str) -> str:
    return text.split("```python\n")[1].removesuffix("```")


@pytest.mark.parametrize("kind", mostly_slow(["label", "rmse", "auroc", "log_loss", "r2"], quick=2))
@pytest.mark.slow
def test_every_level_and_every_fault_does_what_it_should(kind: str, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", kind)
    choices = bank.choices(task)
    # linnerud has 20 rows, and with log_loss one sure mistake outweighs a good model
    ordered = kind not in ("rmse", "log_loss")
    if not ordered:
        choices = list({choice.level: choice for choice in choices}.values())
    programs = {f"choice{at}": bank.program(task, choice) for at, choice in enumerate(choices)}
    good = bank.program(task, choices[-1])
    for level, faults in FAULTS.items():
        for at, (right, wrong) in enumerate(faults):
            assert right in good
            programs[f"{level}{at}"] = good.replace(right, wrong, 1)
    outcomes = run_all(task, programs, tmp_path / "runs")

    for name, (code, verdict) in outcomes.items():
        if name.startswith(("broken", "crash")):
            error = (tmp_path / "runs" / name / "stderr.txt").read_text()
            assert code == 1 and verdict is None, name
            assert ("SyntaxError" in error) == name.startswith("broken"), (name, error)
        elif name.startswith("misformat"):
            assert code == 0 and not verdict.valid and verdict.reason, name
        else:
            assert code == 0 and verdict.valid, (name, verdict)
    if ordered:
        check_order(task, [outcomes[f"choice{at}"][1].score for at in range(len(choices))])


def check_order(task: dict[str, Any], scores: list[float]) -> None:
    """Levels are ordered by how many choices they beat on average."""
    sign = -1 if task["metric"]["lower_is_better"] else 1
    levels = [choice.level for choice in bank.choices(task)]
    beaten = [mean((sign * mine > sign * other) + (mine == other) / 2 for other in scores) for mine in scores]
    strength = {level: mean(b for b, at in zip(beaten, levels, strict=True) if at == level) for level in levels}
    assert min(strength, key=lambda level: strength[level]) == "dummy", strength
    assert strength["dummy"] < strength["stump"] < strength["tuned"], strength
    assert strength["shrunk"] < strength["linear"] and strength["tree"] < strength["forest"], strength
    assert max(scores) - min(scores) > 0.1


def requests(task: dict[str, Any], count: int) -> list[Request]:
    return [Request([{"role": "user", "content": "?"}], seed, task=task) for seed in range(count)]


def test_the_same_request_gets_the_same_answer_and_levels_come_as_often_as_said(tmp_path: Path) -> None:
    task = make_task(tmp_path, "label")
    model = open_model("scripted")
    assert (model.name, model.version, model.batch) == ("scripted", 3, None)
    replies = model.sample(requests(task, 1000))
    assert replies == open_model("scripted").sample(requests(task, 1000))
    assert replies[0] != model.sample(requests({**task, "id": "other"}, 1))[0]
    blocks = [reply.text.count("```python") for reply in replies]
    assert 10 < blocks.count(0) < 60 and set(blocks) == {0, 1}
    whole = {f"{plan(choice)}\n\n```python\n{bank.program(task, choice)}```" for choice in bank.choices(task)}
    valid = [reply.text for reply in replies if reply.text in whole]
    assert 750 < len(valid) < 850 and set(valid) == whole
    assert all(reply.finish_reason == "stop" and reply.token_ids is None for reply in replies)


@pytest.mark.parametrize("level", simulated.LEVELS)
def test_a_level_can_be_pinned(level: str, tmp_path: Path) -> None:
    task = make_task(tmp_path, "r2")
    model = open_model(f"scripted:{level}")
    texts = {reply.text for reply in model.sample(requests(task, 60))}
    if level in VALID:
        menu = [choice for choice in bank.choices(task) if choice.level == level]
        assert {program_of(text) for text in texts} == {bank.program(task, choice) for choice in menu}
        for seed in range(3):
            assert solution(task, level, seed) == program_of(simulated.answer(task, level, seed))
    else:
        assert len(texts) > 5 and all(("```python" in text) == (level != "nocode") for text in texts)


def test_answers_are_short_and_regular(tmp_path: Path) -> None:
    for kind in ("label", "log_loss", "r2"):
        task = make_task(tmp_path / kind, kind)
        programs = [bank.program(task, choice).split("\n") for choice in bank.choices(task)]
        assert {tuple(program[program.index("") + 2 :]) for program in programs} == {
            tuple(programs[0][programs[0].index("") + 2 :])
        }
        assert max(map(len, programs)) <= 25
        assert max(len(simulated.answer(task, level, 1)) for level in simulated.LEVELS) < 1200
        plans = [plan(choice) for choice in bank.choices(task)]
        assert len(set(plans)) == len(plans) and all(3 <= plan.count(". ") + 1 <= 5 for plan in plans)


@pytest.mark.parametrize("made", [True, False])
def test_grades_are_handed_in_as_grades(made: bool, tmp_path: Path) -> None:
    task = make_task(tmp_path, "label")
    task |= {
        "problem": "multiclass_classification",
        "metric": {"name": "quadratic_weighted_kappa", "lower_is_better": False},
    }
    task["submission"] |= {"parse": "number", "target": ["target"]}
    if made:
        task["provenance"] = {"source": "tabular", "dna": {}}
    program = program_of(simulated.answer(task, "forest", 0))
    assert "Classifier(" in program and "model.predict(T)" in program and "predict_proba" not in program


def test_an_imported_table_of_texts_has_any_columns(tmp_path: Path) -> None:
    task = make_task(tmp_path, "label") | {"modality": "text", "provenance": {"graded_by": "record"}}
    outcomes = run_all(task, {"forest": program_of(simulated.answer(task, "forest", 0))}, tmp_path / "runs")
    code, verdict = outcomes["forest"]
    assert code == 0 and verdict.valid


def test_a_task_without_a_table_is_a_record_error(tmp_path: Path) -> None:
    task = make_task(tmp_path, "label")
    task["data"]["public"] = ["test.csv"]
    with pytest.raises(RecordError) as error:
        open_model("scripted").sample(requests(task, 1))
    message = "solves tables only, and task wine-label has no train.csv, nor a sample submission to hand in"
    assert str(error.value) == f"scripted: {message}"
    with pytest.raises(ToolError) as tool_error:
        open_model("scripted").sample([Request([], 0)])
    assert str(tool_error.value) == "scripted: looks at the task, and the request has none"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda task: task["data"]["public"].append("scans/1.dcm"),
            "knows files in images, audio, docs, graphs, series only, and task wine-label has scans/",
        ),
        (
            lambda task: task["submission"].update(parse="boxes"),
            "cannot write what a task wants that asks for boxes, as task wine-label does",
        ),
        (
            lambda task: task.update(
                submission=task["submission"] | {"parse": "ranked"}, provenance={"benchmark": "mle-bench"}
            ),
            "cannot write what an imported task wants that asks for ranked, as task wine-label does",
        ),
        (
            lambda task: task.update(problem="forecasting", submission=task["submission"] | {"parse": "number"}),
            "has no reader for forecasting of a table, which task wine-label needs",
        ),
    ],
)
def test_the_sample_submission_is_handed_in_where_the_bank_has_no_program(
    change: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    task = make_task(tmp_path, "label")
    assert solves(task)
    change(task)
    assert not solves(task)
    for reply in open_model(f"scripted:{','.join(VALID)}").sample(requests(task, 20)):
        assert reply.text.startswith(f"No model is trained, for the scripted model {message}. The sample submission ")
        code = program_of(reply.text)
        assert code == bank.SAMPLE_PROGRAM.format(file="sample_submission.csv")
    for level, faults in FAULTS.items():
        assert any(right in code for right, _ in faults), level


def test_the_sample_submission_goes_in_unchanged(tmp_path: Path) -> None:
    task = make_task(tmp_path, "label")
    cells = "id,target\n" + "".join(f"{at:03},0.10\n" for at in range(5)) + "5,NA\n6,\n"
    (tmp_path / "public" / "sampleSubmission.csv").write_text(cells)
    task["data"]["public"] = ["images/samples/sub.csv", "sampleSubmission.csv", "train.csv", "upsamples.csv"]
    run_all(task, {"forest": program_of(simulated.answer(task, "forest", 0))}, tmp_path / "runs")
    assert (tmp_path / "runs" / "forest" / "submission.csv").read_text() == cells


# ---- the scripted model on more than a table


def made_files(kind: str, value: float, name: str, public: Path, draws: Any) -> dict[str, str]:
    """The file of that kind which shows `value` (0 to 1) with much beside it, and its cell: {column: path or text}."""
    import numpy as np
    from PIL import Image

    (folder, ending) = {"image": ("images", "png"), "audio": ("audio", "wav"), "document": ("docs", "txt"),
                        "graph": ("graphs", "csv"), "series": ("series", "csv"), "text": ("", "")}[kind]  # fmt: skip
    words = " ".join(draws.permutation(["fine", "day", "sun"] * round(1 + 5 * value) + ["rain", "grey", "wet"] * 3))
    if kind == "text":
        return {"text": words}
    path = public / folder / f"{name}.{ending}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "image":
        wave = np.sin(np.arange(16) * (0.5 + value) + draws.uniform(6))
        Image.fromarray(np.rint(128 + 60 * wave * np.ones((16, 1)) + draws.normal(size=(16, 16))).astype("u1")).save(
            path
        )
    elif kind == "audio":
        tone = np.sin(np.arange(2000) * (0.3 + 0.4 * value) + draws.uniform(6)) + 0.3 * draws.normal(size=2000)
        with wave_file.open(str(path), "wb") as file:
            file.setparams((1, 2, 4000, 0, "NONE", ""))
            file.writeframes(np.rint(9000 * tone).astype("<i2").tobytes())
    elif kind == "document":
        path.write_text(f"{words}\n")
    elif kind == "graph":
        edges = draws.randint(12, size=(10 + round(30 * value), 2)).tolist()
        _write(path, ["source", "target", "weight"], [[*edge, 1.5] for edge in [*edges, edges[0], [3, 3]]])
    else:
        level = 5 + value * np.sin(np.arange(48) / 2 + draws.uniform(6)) + 0.1 * draws.normal(size=48)
        lines = [[at, round(float(each), 3)] for at, each in enumerate(level) if at % 9]
        _write(path, ["step", "level"], [*lines, lines[3]])
    return {kind: f"{folder}/{name}.{ending}"}


FORMS = ["label", "probability", "probabilities", "number", "numbers", "tagset", "ranked", "by_group"]


def made_task(folder: Path, kinds: list[str], form: str, modality: str = "multimodal") -> dict[str, Any]:
    """A task over files of these kinds, beside a dirty table and revisions, in `folder`/public and `folder`/answers.csv."""
    import numpy as np

    draws, rows, public = np.random.RandomState(len(form) + len(kinds)), 60, folder / "public"
    value, ids = draws.uniform(size=rows), [str(1000 + 7 * at) for at in draws.permutation(rows)]
    shown, revisions = [], []
    for at in range(rows):
        dirty = f"{value[at]:.2f} kg" if at % 3 else f"{value[at]:.2f}".replace(".", ",")
        cells = {"group": f"G{at % 6}", "load": "" if at % 11 == 0 else dirty, "hue": ["red", " RED", "blue"][at % 3]}
        for kind in kinds:
            cells |= made_files(kind, value[at], ids[at], public, draws)
        shown.append(cells)
        revisions += [[ids[at], 2, round(value[at], 2)], [ids[at], 1, 0.5]]
    _write(public / "revisions.csv", ["id", "revision", "depth"], revisions)
    high, grade = (value > 0.5).astype(int), np.digitize(value, [0.33, 0.66])
    targets: dict[str, list[Any]] = {
        "label": {"grade": [["low", "mid", "top"][each] for each in grade]}, "probability": {"high": high.tolist()},
        "probabilities": {"grade": [["low", "mid", "top"][each] for each in grade]}, "number": {"size": value.tolist()},
        "numbers": {"size": value.tolist(), "rest": (1 - value).tolist()},
        "tagset": {"big": high.tolist(), "small": (1 - high).tolist()}, "ranked": {"hit": high.tolist()},
        "by_group": {"size": value.tolist()},
    }[form]  # fmt: skip
    groups = [f"G{at % 6}" for at in range(rows)]
    train, test = [at for at in range(rows) if at % 6 > 1], [at for at in range(rows) if at % 6 < 2]
    asked, answers = list(targets), [[ids[at], *(column[at] for column in targets.values())] for at in test]
    spec: dict[str, Any] = {"id": ["id"], "parse": "number", "rows": len(test)}
    if form == "label":
        spec |= {"parse": "label", "labels": ["low", "mid", "top"]}
    elif form == "probabilities":
        asked = ["prob_low", "prob_mid", "prob_top"]
        answers = [[ids[at], *np.eye(3, dtype=int)[grade[at]].tolist()] for at in test]
        spec |= {"range": [0, 1], "row_sum": 1}
    elif form == "tagset":
        asked, answers = ["tags"], [[ids[at], "big" if high[at] else "small"] for at in test]
        spec |= {"parse": "tagset", "empty_ok": True}
    elif form == "ranked":
        answers = [[g, " ".join(ids[at] for at in test if groups[at] == g and high[at])] for g in ("G0", "G1")]
        asked, spec = ["ranking"], spec | {"id": ["group"], "parse": "ranked", "rows": 2}
    spec["target"] = asked
    first = list(shown[0])
    _write(public / "train.csv", ["id", *first, *targets],
           [[ids[at], *shown[at].values(), *(column[at] for column in targets.values())] for at in train])  # fmt: skip
    _write(public / "test.csv", ["id", *first], [[ids[at], *shown[at].values()] for at in test])
    _write(public / "sample_submission.csv", [*spec["id"], *asked], [[row[0], *[0] * len(asked)] for row in answers])
    extra = [[*row, groups[at]] for row, at in zip(answers, test, strict=True)] if form == "by_group" else answers
    _write(folder / "answers.csv", [*spec["id"], *asked, *(["group"] if form == "by_group" else [])], extra)
    name = {"label": "accuracy", "probability": "auroc", "probabilities": "log_loss", "number": "rmse", "numbers": "mae",
            "tagset": "jaccard_sets", "ranked": "ndcg_at_k", "by_group": "spearman_by_group"}[form]  # fmt: skip
    problem = {"label": "multiclass_classification", "probability": "binary_classification", "number": "regression",
               "probabilities": "multiclass_classification", "numbers": "regression", "ranked": "ranking",
               "tagset": "multilabel_classification", "by_group": "ranking"}[form]  # fmt: skip
    metric: dict[str, Any] = {"name": name, "params": {"k": 3} if form == "ranked" else {}}
    metric["lower_is_better"] = name in ("rmse", "mae", "log_loss")
    if form == "by_group":
        metric["group"] = "group"
    files = sorted(path.relative_to(public).as_posix() for path in public.rglob("*") if path.is_file())
    return {"id": f"made-{form}", "name": "made", "modality": modality, "problem": problem, "answers": "answers.csv",
            "data": {"dir": str(folder), "public": files}, "submission": spec, "metric": metric}  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "form"),
    [([], "tagset"),
     *(pytest.param(*case, marks=pytest.mark.slow) for case in [
         (["text", "image", "graph"], "ranked"), (["image"], "number"), (["audio"], "probability"), (["document"], "label"),
         (["graph"], "tagset"), (["series"], "by_group")]),
     *(pytest.param([], form, marks=pytest.mark.nightly) for form in FORMS if form != "tagset")],
)  # fmt: skip
def test_every_level_solves_tasks_of_every_kind_and_form(kinds: list[str], form: str, tmp_path: Path) -> None:
    task = made_task(tmp_path / "task", kinds, form, "multimodal" if len(kinds) > 1 else "tabular")
    programs = {level: program_of(simulated.answer(task, level, 0)) for level in VALID}
    for level, faults in FAULTS.items():
        for at, (right, wrong) in enumerate(faults):
            assert right in programs["tuned"], right
            if form in ("number", "ranked"):
                programs[f"{level}{at}"] = programs["tuned"].replace(right, wrong, 1)
    outcomes = run_all(task, programs, tmp_path / "runs")
    for name, (code, verdict) in outcomes.items():
        if name.startswith(("broken", "crash")):
            assert code == 1 and verdict is None, name
        elif name.startswith("misformat"):
            assert code == 0 and not verdict.valid, name
        else:
            assert code == 0 and verdict.valid, (name, verdict, (tmp_path / "runs" / name / "stderr.txt").read_text())
    dummy, tuned = outcomes["dummy"][1].score, outcomes["tuned"][1].score
    assert tuned < dummy if task["metric"]["lower_is_better"] else tuned > dummy


def drawn_task(folder: Path, modality: str, problem: str) -> dict[str, Any]:
    """The first procedural task of that modality and problem with few samples, written to `folder`."""
    from mletools.tasks.draft import draft_world
    from mletools.tasks.procedural.draw import draw_world
    from mletools.tasks.table import Rejected, generator

    for seed in range(200):
        draws = generator(seed)
        try:
            world = draw_world(modality, draws, samples=(50, 60))
            if world.target.problem != problem:
                continue
            challenge = draft_world(world, draws)
        except Rejected:
            continue
        for name, content in challenge.public.items():
            (folder / "public" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "public" / name).write_bytes(content)
        (folder / "answers.csv").write_bytes(challenge.answers)
        return {"id": problem, "name": problem, "modality": modality, "problem": problem, "answers": "answers.csv",
                "data": {"dir": str(folder), "public": sorted(challenge.public)}, **challenge.grading}  # fmt: skip
    raise AssertionError(f"no {problem} of {modality} in 200 draws")


@pytest.mark.parametrize(
    ("modality", "problem"),
    [*(pytest.param(*case, marks=pytest.mark.slow) for case in [
         ("image", "segmentation"), ("image", "reconstruction"), ("audio", "reconstruction"), ("timeseries", "forecasting"),
         ("timeseries", "reconstruction")])],
)  # fmt: skip
def test_every_level_solves_tasks_with_many_answers_a_sample(modality: str, problem: str, tmp_path: Path) -> None:
    task = drawn_task(tmp_path / "task", modality, problem)
    programs = {level: program_of(simulated.answer(task, level, 0)) for level in VALID}
    for faults in FAULTS.values():
        assert all(right in programs["tuned"] for right, _ in faults)
    outcomes = run_all(task, programs, tmp_path / "runs")
    for name, (code, verdict) in outcomes.items():
        assert code == 0 and verdict.valid, (name, verdict, (tmp_path / "runs" / name / "stderr.txt").read_text())
    dummy, tuned = outcomes["dummy"][1].score, outcomes["tuned"][1].score
    assert tuned < dummy if task["metric"]["lower_is_better"] else tuned > dummy


# ---- over HTTP

GOOD: dict[str, Any] = {
    "prompt_token_ids": [1, 2, 3],
    "choices": [{
        "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop", "token_ids": [4, 5],
        "logprobs": {"content": [{"token": "hel", "logprob": -0.25}, {"token": "lo", "logprob": 1e-9}]},
    }],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}  # fmt: skip
ASK = Request([{"role": "user", "content": "hi", "token_ids": [1]}], seed=2**40 + 5, training=True)


def good(**choice: Any) -> dict[str, Any]:
    return {**GOOD, "choices": [{**GOOD["choices"][0], **choice}]}


def slow(handler: Any) -> None:
    time.sleep(0.6)
    drop(handler)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StepServer]:
    with without_keys_and_proxies(StepServer("/v1/chat/completions", GOOD), monkeypatch) as server:
        yield server


def model(server: StepServer, url: str = "", **options: Any) -> HttpModel:
    return HttpModel(
        "tiny", ServerOptions(url or server.url, **{"timeout": 20.0, "retries": 2, "backoff": 0.01, **options})
    )


def test_an_answer_with_tokens(server: StepServer) -> None:
    engine = model(server)
    assert engine.sample([ASK, ASK])[1] == Reply("hello", "stop", [1, 2, 3], [4, 5], [-0.25, 0.0], 3, 2)
    assert (engine.name, engine.version, engine.batch) == ("tiny", None, None)
    assert server.connections == 1 and "Authorization" not in server.seen[0]["headers"]
    assert server.seen[0]["path"] == "/v1/chat/completions"
    assert server.seen[0]["body"] == {
        "model": "tiny", "messages": [{"role": "user", "content": "hi"}], "temperature": 1.0, "top_p": 1.0,
        "max_tokens": 1024, "seed": (2**40 + 5) % 2**31, "logprobs": True, "return_token_ids": True, "top_k": -1,
        "min_p": 0.0, "repetition_penalty": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (good(finish_reason="length", logprobs=None), Reply("hello", "length", [1, 2, 3], [4, 5], None, 3, 2)),
        (good(logprobs={"content": []}), Reply("hello", "stop", [1, 2, 3], [4, 5], None, 3, 2)),
        (good(logprobs={"content": [{"logprob": None}] * 2}), Reply("hello", "stop", [1, 2, 3], [4, 5], None, 3, 2)),
        (good(token_ids=None), Reply("hello", "stop", [1, 2, 3], None, None, 3, 2)),
        ({"choices": [{"message": {"content": None}}]}, Reply("")),
    ],
)
def test_answers_without_token_ids_logprobs_or_usage(server: StepServer, body: Any, reply: Reply) -> None:
    server.always = body
    assert model(server).sample([ASK]) == [reply]


def test_logprobs_of_another_distribution_are_not_kept(server: StepServer) -> None:
    assert model(server).sample([Request(ASK.messages, 1, 0.7, training=True)])[0].logprobs is None
    assert model(server).sample([Request(ASK.messages, 1, top_p=0.9, training=True)])[0].logprobs is None
    told = model(server, processed_logprobs=True).sample([Request(ASK.messages, 1, 0.7, 0.9, training=True)])
    assert told[0].logprobs == [-0.25, 0.0]


@pytest.mark.parametrize(
    "trouble",
    [
        status(429, Retry_After="0"), status(408), status(409), status(500), status(503), drop, slow,
        b'{"choices": [{"mess', b"[]", {"choices": []}, good(finish_reason="abort"),
        lambda handler: send(handler, 200, GOOD, cut=True),
    ],
)  # fmt: skip
def test_a_passing_failure_is_retried(server: StepServer, trouble: Any) -> None:
    server.script = [trouble, trouble]
    assert model(server, timeout=0.3 if trouble is slow else 20.0).sample([ASK])[0].text == "hello"
    assert [one["body"]["seed"] for one in server.seen] == [5] * 3


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (status(503, "overloaded"), "503: overloaded"),
        (drop, "connection dropped (ProtocolError)"),
        (slow, "no answer within 0.3 s"),
        (b"{", "the body is no chat completion"),
        (good(finish_reason="abort"), "the server ended the answer with 'abort'"),
    ],
)
def test_a_lasting_failure_is_an_error(server: StepServer, trouble: Any, message: str) -> None:
    server.always = trouble
    with pytest.raises(ToolError) as error:
        model(server, retries=1, timeout=0.3 if trouble is slow else 20.0).sample([ASK])
    assert str(error.value) == f"{server.endpoint}: no answer after 2 tries; the last error: {message}"
    assert len(server.seen) == 2


def test_a_server_that_is_not_there(server: StepServer) -> None:
    server.close()
    with pytest.raises(ToolError) as error:
        model(server, retries=0).sample([ASK])
    assert str(error.value) == (
        f"{server.endpoint}: no answer after 1 try; the last error: connection failed: Connection refused"
    )


def test_retry_after_is_respected_and_waits_depend_on_the_seed_alone(server: StepServer) -> None:
    server.script = [status(429, Retry_After="1")]
    started = time.monotonic()
    model(server).sample([ASK])
    assert time.monotonic() - started >= 1
    assert wait_s(0, 7, 0.5) == wait_s(0, 7, 0.5) != wait_s(0, 8, 0.5)
    assert [0.5 * 2**at <= wait_s(at, 7, 0.5) <= 0.75 * 2**at for at in range(6)] == [True] * 6
    assert 3 <= wait_s(0, 7, 0.5, 3.0) < 3.25 and 86400 <= wait_s(0, 7, 0.5, 86400.0) < 86401
    assert wait_s(30, 7, 0.5) == wait_s(999, 7, 0.5) == 60


def test_a_server_that_rejects_unknown_fields_is_asked_without_them_from_then_on(server: StepServer) -> None:
    server.script = [status(400, "Unrecognized request argument: top_k")]
    engine = model(server)
    assert [reply.text for reply in engine.sample([ASK, ASK])] == ["hello", "hello"]
    sent = {*server.seen[0]["body"]} - {"top_k"}
    assert [{*one["body"]} for one in server.seen[1:]] == [sent] * 2 and "return_token_ids" in sent


def test_a_request_that_is_wrong_in_itself_is_an_error_and_does_not_blame_the_extras(server: StepServer) -> None:
    answer, server.always = server.always, status(400, "too long:\n 9000 tokens")
    engine = model(server)
    with pytest.raises(RecordError) as error:
        engine.sample([ASK])
    assert str(error.value) == f"{server.endpoint}: 400: too long: 9000 tokens"
    assert len(server.seen) == 3  # with all fields and with none, the server refuses another question, too
    server.always = answer
    engine.sample([ASK])
    assert "return_token_ids" in server.seen[-1]["body"]


def test_the_key_is_sent_and_never_shown(server: StepServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    server.always = status(401, "wrong key sk-environment given")
    with pytest.raises(ToolError) as error:
        model(server).sample([ASK])
    assert str(error.value) == f"{server.endpoint}: 401: wrong key *** given"
    assert len(server.seen) == 1
    (tmp_path / "key").write_text("sk-file\n")
    server.always = GOOD
    model(server, key_file=str(tmp_path / "key")).sample([ASK])
    address = server.url.replace("//", "//ann:secret%21@") + "/v1/"
    model(server, url=address).sample([ASK])
    assert [one["headers"]["Authorization"] for one in server.seen] == [
        "Bearer sk-environment", "Bearer sk-file", "Basic YW5uOnNlY3JldCE=",
    ]  # fmt: skip
    server.always = status(404, "no such model")
    with pytest.raises(ToolError) as error:
        model(server, url=address).sample([ASK])
    assert str(error.value) == f"{server.endpoint}: 404: no such model"


def test_a_provider_s_own_variable_is_for_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(**given: str) -> list[str | None]:
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        urls = (
            "https://api.anthropic.com/v1",
            "https://api.openai.com/v1",
            "http://api.anthropic.com/v1",
            "http://gpu:8000/v1",
        )
        return [ModelOptions("m", url).server().key_env for url in urls]

    assert keys() == keys(OPENAI_API_KEY="o") == ["OPENAI_API_KEY"] * 4
    assert keys(OPENAI_API_KEY="o", ANTHROPIC_API_KEY="a") == ["ANTHROPIC_API_KEY", *["OPENAI_API_KEY"] * 3]
    other = ModelOptions("m", "https://api.openai.com/v1", model_key_env="MINE")
    assert other.server().key_env == "MINE"
    # a role's server is sent no key of another's, but a provider's own
    roles = (
        "https://api.anthropic.com/v1",
        "https://api.deepseek.com/v1",
        "https://api.anthropic.com.evil.example/v1",
        "http://gpu/v1",
    )
    assert [other._server_of(url, RoleOptions()).key_env for url in roles] == ["ANTHROPIC_API_KEY", None, None, None]
    assert other._server_of(roles[0], RoleOptions(key_env="OWN")).key_env == "OWN"


def test_arguments_of_the_engine_go_to_vllm_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "noted_engines.py").write_text("def Engine(path, *args, **options):\n    return path, options\n")
    monkeypatch.syspath_prepend(tmp_path)
    for kind in ("vllm", "hf"):
        monkeypatch.setitem(ENGINES, kind, "noted_engines:Engine")
    monkeypatch.setenv("MLE_ENGINE_OPTION", "tensor_parallel_size=2 gpu_memory_utilization=0.4")
    context = import_module("mletools.commands.rollout").main.make_context("mle-rollout", ["-m", "vllm:p"])
    given: Any = ModelOptions("vllm:p", engine_option=context.params["engine_option"])
    arguments = {"tensor_parallel_size": 2, "gpu_memory_utilization": 0.4}
    assert given.open() == ("p", {"dtype": "float32", "arguments": arguments})
    assert given.open_role("vllm:q", None, RoleOptions()) == ("q", {"dtype": "float32", "arguments": arguments})
    assert given.open("hf:p") == ("p", {"batch": 64, "dtype": "float32"})
    assert ModelOptions("vllm:p").open() == ("p", {"dtype": "float32"})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("max_model_len", "'max_model_len' is not KEY=JSON"),
        ("logprobs_mode=raw_logprobs", "logprobs_mode is set by the command itself"),
        ("model=x", "model is set by the command itself"),
        ('hf_overrides={"rope_scaling": {}}', "hf_overrides belongs into the config.json of the model's folder"),
    ],
)
def test_what_is_no_argument_of_the_engine(given: str, told: str) -> None:
    done = run_command("mle-rollout", "-m", "vllm:p", "--engine-option", given, "--dry-run", check=False)
    assert done.returncode == 2 and told in " ".join(done.stderr.decode().split())


def test_keys_that_cannot_be_sent(server: StepServer, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-one\nsk-two\n")
    with pytest.raises(ToolError) as error:
        model(server, key_file=str(tmp_path / "key"))
    assert str(error.value) == (f"{tmp_path}/key: holds no key: one line of printable ASCII without spaces is needed")
    with pytest.raises(ToolError) as error:
        model(server, key_file=str(tmp_path / "none"))
    assert str(error.value) == f"{tmp_path}/none: cannot read the key: No such file or directory"


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host/v1", "http://", "http://host/v1?key=x", "http://host:x"])
def test_invalid_addresses_are_refused(url: str) -> None:
    with pytest.raises(ToolError) as error:
        HttpModel("tiny", ServerOptions(url))
    assert str(error.value) == "--model-url: not the address of a server, e.g. http://localhost:8000/v1"


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://host:8000", "http://host:8000/v1/chat/completions"),
        ("https://host/v1/", "https://host/v1/chat/completions"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions"),
        ("https://host/proxy", "https://host/proxy/v1/chat/completions"),
        ("https://host/inference/chat/completions", "https://host/inference/chat/completions"),
        ("https://host/v1beta/openai", "https://host/v1beta/openai/chat/completions"),
        ("http://[::1]:8000", "http://[::1]:8000/v1/chat/completions"),
        ("https://me.openai.azure.com/openai/v1/", "https://me.openai.azure.com/openai/v1/chat/completions"),
        (
            "https://me.openai.azure.com/openai/deployments/gpt?api-version=2024-10-21",
            "https://me.openai.azure.com/openai/deployments/gpt/chat/completions",
        ),
    ],
)
def test_addresses(url: str, endpoint: str) -> None:
    assert HttpModel("tiny", ServerOptions(url)).url == endpoint


def test_the_usual_variables_name_a_proxy(server: StepServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert model(server, url="http://models.invalid:8000").sample([ASK])[0].text == "hello"
    assert server.seen[0]["path"] == "http://models.invalid:8000/v1/chat/completions"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    model(server).sample([ASK])
    assert server.seen[1]["path"] == "/v1/chat/completions"


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_proxy_may_have_a_password_and_no_scheme(
    server: StepServer, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("http_proxy", f"{scheme}user:pa%40ss@{server.url.removeprefix('http://')}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert model(server, url="http://models.invalid:8000").sample([ASK])[0].text == "hello"
    credentials = base64.b64encode(b"user:pa@ss").decode()
    assert server.seen[0]["headers"]["proxy-authorization"] == f"Basic {credentials}"


@pytest.mark.parametrize("proxy", ["socks5://localhost:1080", "http://", "localhost:x"])
def test_a_variable_that_names_no_proxy_is_named(
    server: StepServer, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(ToolError, match=r"^http_proxy: this variable names no proxy of HTTP, e.g. http://proxy:3128$"):
        model(server, url="http://models.invalid:8000")


@pytest.mark.parametrize(
    "usage", [{"prompt_tokens": 3.0}, {"prompt_tokens": 3, "prompt_tokens_details": [], "completion_tokens_details": 1}]
)
def test_what_nothing_rests_on_may_be_odd(server: StepServer, usage: Any) -> None:
    server.always = {**good(message={"content": "hello", "tool_calls": {}}), "usage": usage}
    (reply,) = model(server).sample([ASK])
    assert (reply.text, reply.prompt_tokens, reply.cached_tokens, reply.tool_calls) == ("hello", 3, None, ())


def test_many_threads_share_one_model_and_its_connections(server: StepServer) -> None:
    def echo(handler: Any) -> None:
        time.sleep(0.02)
        send(handler, 200, good(message={"content": str(handler.body["seed"])}))

    server.always = echo
    engine = model(server)
    with ThreadPoolExecutor(64) as pool:
        replies = list(pool.map(lambda seed: engine.sample([Request(ASK.messages, seed, send_seed=True)]), range(512)))
    assert [reply.text for (reply,) in replies] == [str(seed) for seed in range(512)]
    assert server.connections <= 64


def test_closing_ends_the_wait_for_another_try(server: StepServer) -> None:
    server.always = status(503, "starting", Retry_After="50")
    engine = model(server)
    threading.Timer(0.2, engine.close).start()
    started = time.monotonic()
    with pytest.raises(ToolError) as error:
        engine.sample([ASK])
    assert time.monotonic() - started < 5
    assert str(error.value) == f"{server.endpoint}: closed while waiting for a retry; the last error: 503: starting"


def test_a_run_folder_names_the_model_in_it(tmp_path: Path) -> None:
    run = tmp_path / "sft"
    for name in ("checkpoint-000003", "checkpoint-000012"):
        (run / name).mkdir(parents=True)
        (run / name / "adapter_config.json").write_text("{}")
    newest = run / "checkpoint-000012"
    with pytest.raises(ToolError, match=f"is no model, but a folder of models; did you mean {newest}\\?$"):
        find_checkpoint(str(run))
    (run / "latest").symlink_to("checkpoint-000003")
    with pytest.raises(ToolError, match=f"^{run}: is no model, but a folder of models; did you mean {run}/latest\\?$"):
        check_model(str(run))
    with pytest.raises(ToolError, match=f"^{run}: a folder is sampled as hf:{run}/latest "):
        open_model(str(run))
    check_model(str(run / "latest"))
