"""How many scores an agent in turns is shown, and with how many digits: --max-scores and --score-digits."""

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from model_server import FaultyServer
from played import (
    ENDS,
    FINISHES,
    SCORES,
    Answer,
    Played,
    cell,
    executes,
    fenced,
    in_steps,
    play,
    program,
    runs,
    validation_score,
    write_tasks,
)
from search_graphs import graph_of, made

from mletools.scaffolds.react import ReactSettings
from mletools.scaffolds.search.memory import score_lesson
from mletools.scaffolds.search.sections import experiment_line, outcome

SLOPES = (2.5, 2.9, 2.0)
NOT_TOLD = "submission.csv is valid. Its score is not told: you have seen all the scores that this work allows."
POLICIES: dict[str, Answer] = {
    "react": in_steps([text for slope in SLOPES for text in (runs(program(slope)), SCORES)] + [ENDS]),
    "codeact": in_steps([*(cell(program(slope)) for slope in SLOPES), FINISHES]),
    "memory": in_steps([executes(program(slope)) for slope in SLOPES]),
}
OPTIONS = {
    "memory": ("--max-traces", "1", "--max-turns", "3"),
    "react": ("--hand-in", "best"),
    "codeact": ("--hand-in", "best"),
}


def played(folder: Path, scaffold: str, *options: str) -> Played:
    with FaultyServer(POLICIES[scaffold]) as server:
        return play(server, scaffold, folder, write_tasks(folder), *OPTIONS[scaffold], *options)


def told(record: dict[str, Any]) -> list[str]:
    """The sentences on submissions, without what follows them."""
    said = [message["content"] for message in record["messages"] if message["role"] != "assistant"]
    return [found for text in said for found in re.findall(r"submission\.csv is valid\.[^\[\]\n<]*", text)]


@pytest.mark.parametrize("scaffold", POLICIES)
def test_after_the_last_score_a_submission_is_only_called_valid(scaffold: str, tmp_path: Path) -> None:
    last = played(tmp_path, scaffold, "--max-scores", "2", "--score-digits", "2")
    record, task = last.of("mill_0"), last.tasks["mill_0"]
    scores = [validation_score(tmp_path, task, slope) for slope in SLOPES]
    first, second, third = told(record)
    assert first.startswith(f"submission.csv is valid. mae on the validation rows: {scores[0]:.2g} (lower")
    assert first.endswith("You can see 1 more score.") and second.endswith("You can see no more scores.")
    assert third == NOT_TOLD
    said = " ".join(message["content"] for message in record["messages"])
    assert not [score for score in scores if f"{score:g}" in said]  # in full
    assert "You see at most 2 scores; after that, only whether a submission is valid." in said
    assert "Scores are rounded to 2 significant digits." in said
    shown = [turn["shown_score"] for turn in record["turns"] if "shown_score" in turn]
    assert shown == [float(f"{score:.2g}") for score in scores[:2]]
    assert (record["settings"]["max_scores"], record["settings"]["score_digits"]) == (2, 2)
    judged = [turn["validation"]["score"] for turn in record["turns"] if turn.get("validation") and turn.get("code")]
    assert judged == scores  # the record has them in full
    assert record["validation"]["score"] == min(scores)  # and what is handed in is chosen by them


def test_without_the_options_nothing_changes(tmp_path: Path) -> None:
    ids, lines = set(), []
    for name, options in (("a", ()), ("b", ("--score-digits", "6"))):
        (tmp_path / name).mkdir()
        record = played(tmp_path / name, "react", *options).of("mill_0")
        ids.add(record["id"])
        lines.append(told(record))
        assert len(lines[-1]) == 3 and not [line for line in lines[-1] if "more score" in line]
        assert "You see at most" not in record["messages"][1]["content"] + record["messages"][0]["content"]
    assert len(ids) == 1 and lines[0] == lines[1]
    own = ReactSettings().identity()
    assert "max_scores" not in own and "score_digits" not in own
    assert ReactSettings(max_scores=0).identity()["max_scores"] == 0


def test_the_same_submission_is_scored_again_for_nothing(tmp_path: Path) -> None:
    script = [runs(program(2.5)), SCORES, SCORES, runs(program(2.9)), SCORES, SCORES, ENDS]
    with FaultyServer(in_steps(script)) as server:
        last = play(server, "react", tmp_path, write_tasks(tmp_path), "--max-scores", "1")
    record = last.of("mill_0")
    first, again, *later = told(record)
    assert first == again and "You can see no more scores." in first and later == [NOT_TOLD, NOT_TOLD]
    assert ["shown_score" in turn for turn in record["turns"]].count(True) == 1  # as --max-scores counts


def test_a_trace_counts_the_score_that_it_begins_with(tmp_path: Path) -> None:
    with FaultyServer(in_steps([executes(program(2.5))])) as server:
        options = (
            "--max-traces",
            "2",
            "--max-turns",
            "1",
            "--reset-ratio",
            "0",
            "--max-scores",
            "1",
            "--score-digits",
            "3",
        )
        reset, memory = play(server, "memory", tmp_path, write_tasks(tmp_path), *options).records
    score = reset["turns"][0]["validation"]["score"]
    assert "You can see no more scores." in told(reset)[0] and told(memory) == [NOT_TOLD]
    assert f"its score on the validation rows was {score:.3g}." in memory["messages"][1]["content"]


def test_no_score_at_all_can_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    record = played(tmp_path / "none", "react", "--max-scores", "0").of("mill_0")
    assert told(record) == [NOT_TOLD] * 3 and not any("shown_score" in turn for turn in record["turns"])
    with FaultyServer(lambda body: fenced(program(2.9))) as server:
        (tmp_path / "improve").mkdir()
        options = ("--max-scores", "0")
        record = play(server, "improve", tmp_path / "improve", write_tasks(tmp_path / "improve"), *options).of("mill_0")
    assert told(record) == []
    refused = run_command("mle-rollout", "--max-scores", "3", "tasks.jsonl", check=False)
    assert refused.returncode == 2 and b"--max-scores is about agents in turns" in refused.stderr


def test_the_better_of_two_answers_by_its_test_score_which_nobody_is_told(tmp_path: Path) -> None:
    """RL for MLE agents, 3.3 and 4.1: the maximum of both; the question to improve has what the program printed (C.2)."""

    def answer(body: dict[str, Any]) -> str:
        return fenced(program(2.0 if "Its output:" in body["messages"][0]["content"] else 2.9))

    with FaultyServer(answer) as server:
        options = ("--reveal-test", "--max-scores", "0")
        last = play(server, "improve", tmp_path, write_tasks(tmp_path), *options)
    record = last.of("mill_0")
    first, second = (turn["grade"]["score"] for turn in record["turns"])
    assert first < second and "2.9" in record["code"]
    questions = [message["content"] for message in record["messages"] if message["role"] == "user"]
    assert len(questions) == 2 and f"{first:.6g}" not in " ".join(questions) and told(record) == []
    for question in questions:
        assert "You see whether a submission is valid, but no score." in question and "rows of test.csv" not in question
    output = questions[1].partition("Its output:")[2].partition("# Your answer")[0]
    assert output.strip() == "```\nslope 2.9\n```"


def test_a_search_tells_the_scores_of_its_first_nodes(tmp_path: Path) -> None:
    nodes = [made(0, score=0.81234), made(1, score=None, problem="failed"), made(2, score=0.82345), made(3, score=0.9)]
    graph = graph_of(tmp_path, *nodes, rounded=ReactSettings(score_digits=2).rounded, most_shown=2)
    assert [graph.shown_score(node) for node in graph.nodes] == [0.81, None, 0.82, None]
    lines = [experiment_line(node, graph) for node in graph.nodes]
    assert [line.rpartition("-> ")[2].partition(" (")[0] for line in lines] == [
        "score 0.81", "failed: failed", "score 0.82", "its score is not told",
    ]  # fmt: skip
    assert "0.82 (higher" in outcome(graph.details(2), graph) and "not told" in outcome(graph.details(3), graph)
    assert graph.best() == graph[3]  # by the score in full
    assert score_lesson(graph, made(4, score=0.7)) == "its score is not told"
    early = graph_of(tmp_path / "early", made(0, score=0.81234), rounded=ReactSettings(score_digits=2).rounded)
    assert score_lesson(early, made(1, score=0.8349)) == "the best so far"
    assert score_lesson(early, made(1, score=0.7)) == "0.11 worse than the best so far"


@pytest.mark.slow
def test_prompts_of_a_search_hold_no_score_beyond_the_bound(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    line = ["mle-rollout", "-q", "--scaffold", "search", "--max-turns", "6", "--max-scores", "1", "--score-digits", "3"]
    out = run_command(*line, "--write-steps", "steps.jsonl", "--data", ".", "tasks.jsonl", cwd=tmp_path).stdout
    found = [*records(out), *records((tmp_path / "steps.jsonl").read_bytes())]
    (search,) = [each for each in found if "search" in each]
    assert sum("shown_score" in turn for turn in search["turns"]) == 1
    scores = [turn["node"]["score"] for turn in search["turns"] if turn["node"]["score"] is not None]
    said = " ".join(message["content"] for each in found for message in each["messages"])
    assert len(scores) > 1 and not [
        score for score in scores[1:] if f"score {score:g}" in said or f"score: {score:g}" in said
    ]
