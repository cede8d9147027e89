"""Drafts of tasks: forms of submissions by hand, honest splits of tables, and descriptions that state what the files hold."""

import numpy as np
import pytest

from mletools.base.errors import ToolError
from mletools.grading import metrics
from mletools.tasks.describe import describe, values_of
from mletools.tasks.draft import draft_table
from mletools.tasks.forms import Form, constant_cells
from mletools.tasks.show import show
from mletools.tasks.table import Column, Table, generator

IDS = ["7", "8"]
Y = np.array([[0], [1], [1]])
LABELS = ["no", "yes"]
TAGS = Form("tagset", ["red", "blue"], ["red", "blue"])
RANKED = Form("ranked", ["fit"], query="shop")


@pytest.mark.parametrize(
    ("form", "predictions", "text"),
    [
        (Form("label", ["y"], LABELS), [[0.9, 0.1], [0.4, 0.6]], "id,y\n7,no\n8,yes\n"),
        (Form("probabilities", ["y"], LABELS), [[0.9, 0.1], [0.4, 0.6]], "id,prob_no,prob_yes\n7,0.9,0.1\n8,0.4,0.6\n"),
        (Form("probability", ["y"], LABELS), [[0.9, 0.1], [0.4, 0.6]], "id,y\n7,0.1\n8,0.6\n"),
        (Form("probability", ["a", "b"], ["a", "b"]), [[0.9, 0.2], [0.4, 0.6]], "id,a,b\n7,0.9,0.2\n8,0.4,0.6\n"),
        (Form("number", ["y"], key="Id"), [[1.25], [3.0]], "Id,y\n7,1.25\n8,3\n"),
        (TAGS, [[0.9, 0.6], [0.4, 0.2]], "id,tags\n7,red blue\n8,\n"),
        (Form("mask", ["m"]), [[0, 1, 1, 0], [0, 0, 0, 0]], "id,m\n7,2 2\n8,\n"),
        (RANKED, [[1.0], [2.0]], "shop,ranking\nA,8 7\n"),
    ],
)
def test_predictions_of_every_form(form, predictions, text):
    queries = ["A", "A"] if form.query else []
    assert form.csv(IDS, np.array(predictions), queries).decode() == text
    header = text.partition("\n")[0].split(",")
    part = form.submission(len(text.split("\n")) - 2)
    assert [*part["id"], *part["target"]] == header


def test_constants_and_answers():
    label, both = Form("label", ["y"], LABELS), Form("probabilities", ["y"], LABELS)
    assert label.csv(IDS, label.constant(Y, 2, "accuracy")) == b"id,y\n7,yes\n8,yes\n"
    assert both.csv(IDS, both.constant(Y, 2, "log_loss")) == b"id,prob_no,prob_yes\n7,0.5,0.5\n8,0.5,0.5\n"
    number = Form("number", ["y"])
    assert number.constant(Y, 2, "rmse").tolist() == [[0.6667], [0.6667]]
    assert number.constant(Y, 2, "spearman").tolist() == [[1.0], [2.0]]
    assert both.answers(IDS, Y[:2], {"y": LABELS}) == b"id,prob_no,prob_yes\n7,1,0\n8,0,1\n"
    assert number.answers(IDS, Y[:2], {"y": ["0.50", "1e3"]}) == b"id,y\n7,0.50\n8,1e3\n"
    assert RANKED.answers(["7", "8", "9"], Y, {}, ["A", "A", "B"]) == b"shop,ranking\nA,8\nB,9\n"
    assert TAGS.answers(IDS, np.array([[1, 0], [0, 0]]), {}) == b"id,tags\n7,red\n8,\n"
    assert constant_cells("text", (), {"y": ["b", "a", "b", "a"]}) == ["a"]
    assert constant_cells("number", (), {"y": ["1", "2"]}) == ["1.5"]


def table(**more):
    cells = {"x": [f"{at / 2}" for at in range(60)], "y": [LABELS[at % 2] for at in range(60)]}
    columns = [Column("x", "width of the leaf", "cm")], [Column("y", "whether it is ill", number=False)]
    return Table(
        "leaves", "Leaves", "Leaves of a tree.", "binary_classification", *columns, cells, LABELS, "no", **more
    )


def rows_of(content):
    return [line.split(",") for line in content.decode().split("\n")[1:-1]]


def test_groups_stay_together_and_the_test_is_later():
    draft = draft_table(table(groups=[str(at // 6) for at in range(60)]), generator(1))
    sides = [{int(float(row[1]) * 2) // 6 for row in rows_of(draft.public[name])} for name in ("train.csv", "test.csv")]
    assert sides[0] and sides[1] and not sides[0] & sides[1]
    draft = draft_table(table(times=[-at for at in range(60)]), generator(1))
    train, test = ([float(row[1]) for row in rows_of(draft.public[name])] for name in ("train.csv", "test.csv"))
    assert min(train) > max(test) and draft.rows == (len(train), len(test))


def test_the_positive_label_is_the_last():
    seen = {}
    for seed in range(30):
        draft = draft_table(table(), generator(seed))
        assert draft.form.labels == ["yes", "no"]
        seen[draft.form.kind] = draft
    train = rows_of(seen["probability"].public["train.csv"])
    assert all((row[2] == "1") == (int(float(row[1]) * 2) % 2 == 0) for row in train)  # 1 is "no"
    text = describe(seen["probability"])
    assert "Predict the probability that `y` (whether it is ill) is `no` for each row." in text
    assert f"There are {seen['probability'].rows[0]} rows to learn from" in text
    assert "| train, test | `x` | width of the leaf | 0 to 29.5 cm |" in text
    assert f"`auroc`: {metrics.find('auroc').definition.partition(',')[0]}" in text


@pytest.mark.parametrize(
    ("cells", "number", "text"),
    [
        (["1", "2.50", "", ""], True, "1 to 2.5 cm; 50.0 % missing"),
        (["1", "NA", "3"], True, "1 to 3 cm; 33.3 % missing"),
        (["1", "3", "2 cm"], True, "1 to 3 cm; some cells hold text, such as `2 cm`"),
        (["a", "b", "a"], False, "a, b"),
        (["0", "1", "0"], True, "0 or 1"),
        (["a", " A", "b"], False, "a, b; in several spellings"),
        ([f"w{at} w" for at in range(30)] + ["one two three"], False, "text of 2 to 3 words"),
        ([f"w{at}" for at in range(30)], False, "30 different values, such as w0"),
        (["", ""], True, "100.0 % missing"),
    ],
)
def test_values_are_read_from_the_cells(cells, number, text):
    assert values_of(cells, Column("x", "width", "cm" if number else "", number)) == text


def plain_task(mutations=()):
    return {
        "id": "t-1", "modality": "tabular", "problem": "regression", "description": "# T\n\nText.",
        "metric": {"name": "rmse", "lower_is_better": True}, "provenance": {"mutations": list(mutations)},
    }  # fmt: skip


def test_a_task_is_shown_whatever_its_source_says_of_mutations(tmp_path):
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "train.csv").write_text("id,y\n1,2\n")
    mutations = [{"type": "noise", "sigma": 2}, {"name": "gaps", "medium": "columns", "effect": "cells are empty"}, "x"]
    lines = [line.strip() for line in show(plain_task(mutations), tmp_path).split("\n")]
    assert {"mutation noise (sigma 2)", "mutation gaps: cells are empty", "mutation x"} <= set(lines)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("\na,b,c\n\n1,2\n", "The first lines of train.csv a b c --- --- --- 1 2 The rule"),
        ("", "train.csv is empty The rule"),
        (None, "There is no train.csv The rule"),
    ],
)
def test_a_task_is_shown_whatever_train_csv_holds(tmp_path, content, shown):
    (tmp_path / "public").mkdir()
    if content is not None:
        (tmp_path / "public" / "train.csv").write_text(content)
    assert f"Text. {shown}" in " ".join(show(plain_task(), tmp_path).split())
    with pytest.raises(ToolError, match=r"train\.csv: No such file or directory: is --data"):
        show(plain_task(), tmp_path / "elsewhere")
