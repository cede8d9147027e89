"""Submissions, metrics, medals, rewards: numbers worked by hand, verdicts word for word."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mletools.base.errors import RecordError, ToolError
from mletools.grading import (
    Verdict,
    better,
    check_direction,
    check_task,
    grade,
    medal,
    medal_rows,
    metrics,
    rewards,
    standing,
)
from mletools.records.task import MetricSpec

LABELS = {"id": ["id"], "target": ["kind"], "parse": "label", "labels": ["0", "1", "2"], "rows": 4}
NUMBERS = {"id": ["id"], "target": ["y"], "parse": "number", "rows": 4}


def task(spec: dict[str, Any], metric: str, **thresholds: float) -> dict[str, Any]:
    found: dict[str, Any] = {"answers": "answers.csv", "submission": spec}
    found["metric"] = {"name": metric, "params": {}, "lower_is_better": metrics.lower_is_better(metric)}
    return {**found, "thresholds": thresholds} if thresholds else found


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "answers.csv").write_text("id,kind\na,0\nb,1\nc,2\nd,1\n")
    return tmp_path


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    (tmp_path / "answers.csv").write_text("id,y\n1,1.0\n2,2.0\n3,3.0\n4,4.0\n")
    return tmp_path


def test_rows_are_aligned_by_id_and_labels_by_value(labels: Path) -> None:
    shuffled = b"kind,id,extra\n1.0,d,x\n2,c,\n1,b,\n1,a,\n"
    assert grade(task(LABELS, "accuracy"), labels, shuffled) == Verdict(True, None, 0.75)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"\n\nid,kind", "the first line is empty: it must name the columns"),
        (b"id\na\n", "column 'kind' is missing; the columns are 'id'"),
        (b"id,kind\na,0\nb,1\nc,2\n", "1 of 4 rows are missing, for example id 'd'"),
        (b"id,kind\na,0\nb,1\nc,2\nd,1\nd,1\n", "id 'd' appears twice"),
        (b"id,kind\na,0\nb,1\nc,2\ne,1\n", "id 'e' is not in the test set (1 such rows)"),
        (b"id,kind\na,0\nb,1\nc,2\nd,7\n", "column 'kind' of row 'd' is '7', not one of 0, 1, 2"),
        (b"id,kind\na,0\nb,1\nc,2\nd,\n", "column 'kind' of row 'd' is '', not one of 0, 1, 2"),
        (b"id,kind\xff\n", "the file is not UTF-8 text"),
        (b"id,kind\na,0\0\n", "the file holds NUL bytes: it must be CSV text"),
        (b"id,kind,kind\na,0,0\n", "column 'kind' appears twice"),
        (b"a," * 25_000, "the first line names more than 20000 columns"),
    ],
)
def test_a_bad_submission_is_a_verdict_with_a_reason(labels: Path, content: bytes, reason: str) -> None:
    verdict = grade(task(LABELS, "accuracy"), labels, content)
    assert not verdict.valid and verdict.score is None and verdict.medal is None
    assert verdict.reason == reason


@pytest.mark.parametrize("bad", ["nan", "inf", "", "abc", "1e999", "True"])
def test_predictions_must_be_finite_numbers(numbers: Path, bad: str) -> None:
    verdict = grade(task(NUMBERS, "rmse"), numbers, f"id,y\n1,1\n2,{bad}\n3,3\n4,4\n".encode())
    assert verdict.reason == f"column 'y' of row '2' is {bad!r}, not a finite number"


def test_a_broken_answers_file_is_an_error_of_the_tool(tmp_path: Path) -> None:
    with pytest.raises(
        ToolError,
        match=r"answers.csv: No such file or directory; is --data \(or MLE_DATA, for every command\) the folder that the task was written to\?",
    ):
        grade(task(NUMBERS, "rmse"), tmp_path, b"id,y\n")


def test_scores_by_hand(numbers: Path, labels: Path) -> None:
    off_by_one = b"id,y\n1,2\n2,3\n3,4\n4,5\n"
    (numbers / "answers.csv").write_text("id,y\n1,1.0\n2,2.0\n3,3.0\n4,4.0\n")
    assert grade(task(NUMBERS, "rmse"), numbers, off_by_one).score == 1.0
    assert grade(task(NUMBERS, "mae"), numbers, off_by_one).score == 1.0
    assert grade(task(NUMBERS, "r2"), numbers, off_by_one).score == round(1 - 4 / 5, 5)


def test_more_scores_by_hand(tmp_path: Path) -> None:
    def score(metric: str, truth: str, guess: str, **spec: Any) -> float | None:
        (tmp_path / "answers.csv").write_text(truth)
        return grade(task({"id": ["id"], "rows": 4, **spec}, metric), tmp_path, guess.encode()).score

    kinds: dict[str, Any] = {"target": ["kind"], "parse": "label"}
    truth, guess = "id,kind\n1,0\n2,0\n3,0\n4,1\n", "id,kind\n1,0\n2,0\n3,1\n4,1\n"
    assert score("accuracy", truth, guess, **kinds) == 0.75
    assert score("balanced_accuracy", truth, guess, **kinds) == round((2 / 3 + 1) / 2, 5)
    assert score("f1_macro", truth, guess, **kinds) == round((0.8 + 2 / 3) / 2, 5)
    chances = "id,p\n1,0.1\n2,0.4\n3,0.8\n4,0.5\n"
    assert score("auroc", "id,p\n1,0\n2,0\n3,1\n4,1\n", chances, target=["p"], parse="number") == 1.0
    both: dict[str, Any] = {"target": ["a", "b"], "parse": "number"}
    hot, given = "id,a,b\n1,1,0\n2,0,1\n", "id,a,b\n1,.5,.5\n2,.2,.8\n"
    assert score("log_loss", hot, given, **both) == round(-(math.log(0.5) + math.log(0.8)) / 2, 5)
    nothing = grade(task({"id": ["id"], "rows": 2, **both}, "log_loss"), tmp_path, b"id,a,b\n1,0,0\n2,0,1\n")
    assert nothing.reason == "log_loss is undefined for these predictions: a row of probabilities is all zero"


def test_probabilities_are_bounded_and_sum_to_one(tmp_path: Path) -> None:
    (tmp_path / "answers.csv").write_text("id,a,b\n1,1,0\n2,0,1\n")
    spec = {"id": ["id"], "target": ["a", "b"], "parse": "number", "range": [0, 1], "row_sum": 1, "rows": 2}
    good = grade(task(spec, "log_loss"), tmp_path, b"id,a,b\n2,0.2,0.8\n1,0.5,0.5\n")
    assert good.score == round(-(math.log(0.5) + math.log(0.8)) / 2, 5)
    assert (
        grade(task(spec, "log_loss"), tmp_path, b"id,a,b\n1,0.5,0.6\n2,0,1\n").reason
        == "the targets of row '1' sum to 1.1, not 1"
    )
    many = {**spec, "target": [f"c{at}" for at in range(8)]}
    del many["range"]
    header, huge = ",".join(["id", *many["target"]]), ",".join(["1e308,1e308,-1e308,-1e308"] * 2)
    (tmp_path / "many.csv").write_text(f"{header}\n1,1,0,0,0,0,0,0,0\n2,0,1,0,0,0,0,0,0\n")
    no_sum = grade({**task(many, "mae"), "answers": "many.csv"}, tmp_path, f"{header}\n1,{huge}\n2,{huge}\n".encode())
    assert no_sum.reason == "the targets of row '1' sum to nan, not 1"
    outside = grade(task(spec, "log_loss"), tmp_path, b"id,a,b\n1,1.5,-0.5\n2,0,1\n")
    assert outside.reason == "column 'a' of row '1' is 1.5, outside [0, 1]"


def test_medals_are_inclusive_and_the_median_is_strict(numbers: Path) -> None:
    steps = {"median": 0.5, "bronze": 0.6, "silver": 0.7, "gold": 0.8}
    won = [medal(score, steps, False) for score in (0.5, 0.6, 0.7, 0.8, 0.9)]
    assert won == [None, "bronze", "silver", "gold", "gold"]
    lower = {"median": 2.0, "bronze": 1.5, "silver": 1.2, "gold": 1.0}
    won = [medal(score, lower, True) for score in (1.6, 1.5, 1.2, 1.0, 0.5)]
    assert won == [None, "bronze", "silver", "gold", "gold"]
    assert not better(2.0, 2.0, True) and better(1.9, 2.0, True)
    verdict = grade(task(NUMBERS, "rmse", **lower), numbers, b"id,y\n1,2\n2,3\n3,4\n4,5\n")
    assert verdict == Verdict(True, None, 1.0, "gold", True, thresholds=lower)


# N, the last row of gold, silver, bronze: the rule by hand on both sides of every border
TIERS = [
    (1, 1, 1, 1), (2, 1, 1, 1), (9, 1, 1, 3), (10, 1, 2, 4), (19, 1, 3, 7), (99, 9, 19, 39), (100, 10, 20, 40),
    (249, 10, 49, 99), (250, 10, 50, 100), (499, 10, 50, 100), (500, 11, 50, 100), (999, 11, 50, 100),
    (1000, 12, 50, 100), (1999, 13, 99, 199), (8751, 27, 437, 875),
]  # fmt: skip


@pytest.mark.parametrize(("teams", "gold", "silver", "bronze"), TIERS)
def test_medals_by_the_number_of_teams(teams: int, gold: int, silver: int, bronze: int) -> None:
    assert medal_rows(teams) == {"gold": gold, "silver": silver, "bronze": bronze}


def board(folder: Path, scores: list[float], name: str = "leaderboard.csv") -> str:
    (folder / name).write_text("score\n" + "".join(f"{score}\n" for score in scores))
    return name


@pytest.mark.parametrize("lower", [False, True])
def test_a_leaderboard_gives_medals_median_and_place(tmp_path: Path, lower: bool) -> None:
    sign = -1 if lower else 1
    scores = [sign * number / 10 for number in range(20, 0, -1)]  # best 2.0, worst 0.1 (or their negatives)
    made = {"metric": {"lower_is_better": lower}, "leaderboard": board(tmp_path, scores)}

    def place(score: float) -> Verdict:
        return standing(made, tmp_path, sign * score, None)

    assert place(0).thresholds == {
        "median": sign * 1.05,
        "bronze": sign * 1.3,
        "silver": sign * 1.7,
        "gold": sign * 1.9,
    }
    assert [place(score).medal for score in (1.9, 1.89, 1.7, 1.3, 1.29)] == ["gold", "silver", "silver", "bronze", None]
    assert [place(score).above_median for score in (1.05, 1.06)] == [False, True]
    assert [place(score).position for score in (2.5, 2.0, 1.95, 0.1, 0.05)] == [1, 1, 2, 20, 21]
    assert [place(score).human_rank for score in (2.0, 1.95, 0.1, 0.05)] == [1, 0.95, 0.05, 0]
    assert [place(score).normalised_score for score in (2.0, 0.1, -5)] == [100, 0, 0]
    assert place(1.05).normalised_score == pytest.approx(50)


def test_ties_count_as_beaten_and_two_boards_are_averaged(tmp_path: Path) -> None:
    private, public = board(tmp_path, [3, 2, 2, 1]), board(tmp_path, [9, 8], "public.csv")
    made = {"metric": {"lower_is_better": False}, "leaderboard": private, "public_leaderboard": public}
    verdict = standing(made, tmp_path, 2, None)
    assert (verdict.position, verdict.teams, verdict.public_position, verdict.public_teams) == (2, 4, 3, 2)
    assert verdict.human_rank == ((4 - 2 + 1) / 4 + 0) / 2 and verdict.human_rank_rule == "dojo"
    other = standing(made, tmp_path, 2, None, "mle-rl")
    assert other.human_rank == 1 - 2 / 4 and other.human_rank_rule == "mle-rl"
    assert standing(made, tmp_path, 0, None, "mle-rl").human_rank == 0  # place 5 of 4
    worst = standing(made, tmp_path, None, "no submission.csv")
    assert not worst.valid and worst.teams == 4 and worst.human_rank is None and worst.position is None


def test_a_public_board_alone_is_no_private_one(tmp_path: Path) -> None:
    made = {"metric": {"lower_is_better": False}, "public_leaderboard": board(tmp_path, [9, 8], "public.csv")}
    verdict = standing(made, tmp_path, 8.5, None)
    assert (verdict.position, verdict.teams, verdict.public_position, verdict.public_teams) == (None, None, 2, 2)
    assert verdict.human_rank == 0.5 and verdict.human_rank_rule == "dojo" and verdict.normalised_score is None
    private = standing(made, tmp_path, 8.5, None, "mle-rl")
    assert private.human_rank is None and private.human_rank_rule is None


def test_scores_are_rounded_before_they_are_compared(numbers: Path) -> None:
    made = task(NUMBERS, "rmse") | {"leaderboard": board(numbers, [0.33333, 0.4, 0.5])}
    content = b"id,y\n1,1.333333\n2,2.333333\n3,3.333333\n4,4.333333\n"
    assert grade(made, numbers, content).position == 1
    made["metric"]["score_round"] = 6
    assert grade(made, numbers, content).position == 2


@pytest.mark.parametrize("answers", [["y"], ["y", "z", "w"]])
def test_each_predicted_column_has_its_answers(answers: list[str]) -> None:
    made = task({**NUMBERS, "target": ["y", "z"]}, "rmse") | {"answer_target": answers}
    with pytest.raises(RecordError, match=f"answer_target names {len(answers)} columns for the 2 of submission.target"):
        check_task(made)


def test_what_contradicts_itself_is_refused_when_a_task_is_made(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"begins with 0\.9 and ends with 0\.1, but lower should be better"):
        check_direction([0.9, 0.5, 0.1], True)
    check_direction([0.9, 0.5, 0.1], False)
    made = task(NUMBERS, "rmse", median=2.0, bronze=1.5, silver=1.5, gold=1.0)
    with pytest.raises(RecordError, match=r"thresholds\.silver is 1\.5: not better than thresholds\.bronze, 1\.5"):
        check_task(made)
    with pytest.raises(RecordError, match=r"submission\.row_sum applies to parse number only"):
        check_task(task({**LABELS, "row_sum": 1}, "accuracy"))
    told = "applies to parse boxes, ranked, rle, spans, tagset, tokens only"
    with pytest.raises(RecordError, match=f"submission.several_rows {told}"):
        check_task(task({**NUMBERS, "several_rows": True}, "rmse"))
    with pytest.raises(RecordError, match=f"answer_several_rows {told}"):
        check_task({**task(NUMBERS, "rmse"), "answer_several_rows": True})
    (tmp_path / "x.csv").write_text("team,points\na,1\n")
    with pytest.raises(ToolError, match=r"x\.csv: a leaderboard needs a column 'score' of numbers"):
        standing({"metric": {"lower_is_better": True}, "leaderboard": "x.csv"}, tmp_path, 1.0, None)


def test_rewards_by_hand() -> None:
    assert rewards.raw(0.25, True) == -0.25 and rewards.raw(0.25, False) == 0.25 and rewards.raw(None, True) is None
    assert rewards.partial_credit(None, True, 0) == -10 and rewards.partial_credit(None, True, 3) == pytest.approx(-9.7)
    assert rewards.partial_credit(0.5, False, 7) == 0.5
    assert rewards.partial_credit(None, True, 4, failure=-2, credit=0.25) == -1
    assert rewards.partial_credit(55.0, True, 7) == pytest.approx(-9.3)  # never below the best failure
    with pytest.raises(ValueError):
        rewards.partial_credit(None, True, 8)
    expected = [
        (0, False, False, None, 0),
        (1, False, False, None, 0.1),
        (1, True, False, None, 0.3),
        (1, True, True, None, 0.4),
    ]
    expected += [
        (1, True, True, "bronze", 0.8),
        (1, True, True, "silver", 0.9),
        (1, True, True, "gold", 1.0),
        (0, True, True, "gold", 0.9),
    ]
    for rate, valid, above, name, value in expected:
        assert rewards.milestone(rate, valid, above, name) == value
    weights = rewards.SPARSE
    assert rewards.milestone(1, True, True, "silver", weights) == 0.1
    assert rewards.milestone(1, True, True, "gold", weights) == 1
    tried: list[tuple[float | None, float | None, bool, bool, float]] = [
        (0.5, 0.4, False, True, 1), (0.4, 0.4, False, True, 0), (0.3, 0.4, False, True, 0), (0.3, 0.4, True, True, 1),
        (None, 0.4, True, True, 0), (0.1, None, False, True, 1), (None, None, True, True, 0), (0.9, 0.1, False, False, -1),
    ]  # fmt: skip
    for score, previous, lower, well_formed, value in tried:
        assert rewards.improvement(score, previous, lower, well_formed) == value
    assert rewards.improvement(0.5, 0.4, False, True, asked=False) is None


@pytest.mark.parametrize("lower", [False, True])
def test_a_leaderboard_is_sorted_and_its_blank_rows_are_dropped(tmp_path: Path, lower: bool) -> None:
    scores = [0.1, 0.9, 0.5, 0.7, 0.3]
    ordered = sorted(scores, reverse=not lower)
    made = {"metric": {"lower_is_better": lower}, "leaderboard": "board.csv"}
    rows = [f"team,{score}" for score in scores]
    verdicts = []
    for text in (
        "\n".join(["team,score", *(f"team,{score}" for score in ordered)]),
        "\n".join(["team,score", *rows]) + "\n",
        "\n".join(["team,score", "a,", *rows[:2], "", "b,  ", *rows[2:], "\n\n"]),
    ):
        folder = tmp_path / str(len(verdicts))
        folder.mkdir()
        (folder / "board.csv").write_text(text)
        verdicts.append(standing(made, folder, 0.5, None))
    assert verdicts[0] == verdicts[1] == verdicts[2]
    assert (verdicts[0].teams, verdicts[0].position) == (5, 3)
    assert verdicts[0].thresholds == {
        "median": 0.5,
        **dict.fromkeys(("gold", "silver"), ordered[0]),
        "bronze": ordered[1],
    }


def test_a_leaderboard_of_blank_rows_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "board.csv").write_text("team,score\na,\nb,\n")
    with pytest.raises(
        ToolError, match=r"board\.csv: a leaderboard needs at least one row, and a finite score in each"
    ):
        standing({"metric": {"lower_is_better": True}, "leaderboard": "board.csv"}, tmp_path, 1.0, None)


def test_scores_compare_to_their_seventeenth_digit(tmp_path: Path) -> None:
    texts = ["0.30000000000000004", "0.30000000000000000", "0.29999999999999999"]
    (tmp_path / "board.csv").write_text("score\n" + "".join(f"{text}\n" for text in texts))
    made = {"metric": {"lower_is_better": False, "score_round": 17}, "leaderboard": "board.csv"}
    best = standing(made, tmp_path, 0.1 + 0.2, None)
    assert (best.score, best.position, best.medal) == (0.30000000000000004, 1, "gold")
    assert standing(made, tmp_path, 0.3, None).position == 2  # the second and the third text are one number
    assert standing({**made, "metric": {"lower_is_better": False}}, tmp_path, 0.1 + 0.2, None).position == 2
    tiny = standing(
        {**made, "metric": {"lower_is_better": True, "score_round": 17}}, tmp_path, 1.2345678901234567e-1, None
    )
    assert tiny.score == 0.12345678901234567


@pytest.mark.parametrize(("decimals", "allowed"), [(0, True), (17, True), (18, False), (-1, False)])
def test_scores_are_rounded_to_at_most_seventeen_decimals(decimals: int, allowed: bool) -> None:
    spec = {"lower_is_better": True, "name": "rmse", "params": {}, "score_round": decimals}
    if allowed:
        msgspec.convert(spec, MetricSpec)
    else:
        with pytest.raises(msgspec.ValidationError, match="score_round"):
            msgspec.convert(spec, MetricSpec)
