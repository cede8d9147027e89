"""Types of ideas: the table of words on ideas written by hand, the effect of an idea, and models that answer, badly too.

`ideas.jsonl`: ideas with the type that their writer meant. The table of words was made, and mended, with the `seen` ones at
hand. The others came after, by the same writer and phrased as ideators mostly phrase them; none of them changed the table.
On ideas phrased oddly earlier states of it, meeting them first, were right about half of the time.
"""

import json
from collections import Counter
from typing import Any

import pytest
from conftest import TESTS, records, run_command
from model_server import FaultyServer

from mletools.reports.idea_types import Tally, ideator, per_model
from mletools.scaffolds import ideas
from mletools.scaffolds.idea_types import TYPES, by_words, posed, read_answer

IDEAS = [json.loads(line) for line in (TESTS / "ideas.jsonl").read_text().splitlines()]
INPUT = (TESTS / "cases" / "mle-classify-ideas" / "keywords" / "input").read_bytes()
COMMAND = ("mle-classify-ideas", "--by", "model", "-m", "judge", "-k", "--retries", "1")
GOOD = '{"rationale": "It is about the loss.", "type": "Model Training"}'
ONE_OF = f"one of {', '.join(TYPES)}"
NO_JSON = "your answer holds no JSON object that can be read"


def misses(seen: bool) -> Counter[str]:
    return Counter(idea["type"] for idea in IDEAS if idea["seen"] == seen and by_words(idea)[0] != idea["type"])


def test_words_tell_the_types_of_these_ideas() -> None:
    assert Counter(idea["seen"] for idea in IDEAS) == {True: 115, False: 27}
    assert {idea["type"] for idea in IDEAS} == set(TYPES)
    assert misses(seen=True).total() <= 3
    assert misses(seen=False).total() <= 3


@pytest.mark.parametrize(
    ("action", "rationale", "kind", "told"),
    [
        ("Sing.", "Nice.", "Others", "no word of the table"),
        ("", "", "Others", "no word of the table"),
        # the action counts threefold: 1 x 3 against 2 x 1
        ("Blur with a mask.", "As with SMOTE.", "Data Preparation", "ACTION: mask; RATIONALE: smote"),
        # what an idea turns away from does not count
        ("Train XGBoost instead of tuning max_depth with Optuna.", "", "Model Architecture", "ACTION: xgboost"),
        ("Replace the SVM, the CNN and the LSTM by focal loss.", "", "Model Training", "ACTION: focal, loss"),
        # as many points: what stands first in the action
        ("Use lags; early stopping.", "", "Feature Engineering", "ACTION: lags"),
        ("Use early-stopping; lags.", "", "Model Training", "ACTION: early stopping"),
    ],
)
def test_types_of_ideas_by_hand(action: str, rationale: str, kind: str, told: str) -> None:
    assert by_words({"action": action, "rationale": rationale}) == (kind, told)


def test_only_the_beginning_of_a_very_long_idea_is_read() -> None:
    assert by_words({"action": "w" * 4100 + " lags", "rationale": ""}) == ("Others", "no word of the table")
    for text in ("replace ", "instead of ", "drop ", "switch from "):
        assert by_words({"action": "Use lags. " + text * 500_000, "rationale": text * 500_000})[0] in TYPES


@pytest.mark.parametrize(
    ("text", "kind", "rationale"),
    [
        (GOOD, "Model Training", "It is about the loss."),
        (f"It could be data.\n```json\n{GOOD}\n```\nThat is it.", "Model Training", "It is about the loss."),
        (
            '<think>{"type": "Others"}</think>{"type": "feature-engineering.", "rationale": "R"}',
            "Feature Engineering",
            "R",
        ),
        ('{"reasoning": "a", "rationale": "R", "type": "Others"}', "Others", "R"),
        ('{"type": "Training", "rationale": "R"}', None, f'"type" has to be {ONE_OF}, not "Training"'),
        ('{"type": "Others"}', None, '"rationale" has to be a text; it is missing or null'),
        ("{}", None, f'"type" has to be {ONE_OF}; it is missing or null'),
        ("Others", None, NO_JSON),
        ('<think>{"type": "Others", "rationale": "R"}', None, NO_JSON),
        ("", None, NO_JSON),
    ],
)
def test_answers(text: str, kind: str | None, rationale: str) -> None:
    assert read_answer(text) == (kind, rationale)


IDEA = {"analysis_on_current_progress": "A", "action": "B", "rationale": "C"}


def rollout(*turns: Any, lower: bool = False, **more: Any) -> dict[str, Any]:
    """A codeact rollout: "?" asks for help, a number is a valid submission's score, "bad" an invalid one, "-" none."""
    made: list[dict[str, Any]] = []
    for number, turn in enumerate(turns):
        grade = {"valid": turn != "bad", "score": None if turn == "bad" else turn}
        what = {"?": {"help": {"idea": IDEA}}, "-": {}}.get(turn, {"grade": grade})
        made.append({"message": 1 + 2 * number, **what})
    messages = [{"role": ("user", "assistant")[at % 2], "content": str(at)} for at in range(1 + 2 * len(turns))]
    return {"task": {"metric": {"lower_is_better": lower}}, "messages": messages, "turns": made, **more}


@pytest.mark.parametrize(
    ("turns", "lower", "effective"),
    [
        ((0.5, "?", 0.6), False, [True]),
        ((0.5, "?", 0.6), True, [False]),
        ((0.5, "?", 0.5), False, [False]),  # no better
        ((0.5, "?", "-", "-", 0.6), False, [True]),
        ((0.5, "?", "bad", 0.6), False, [False]),  # the next counts, not a later one
        (("?", 0.0), False, [True]),  # any is better than none
        (("bad", "?", 0.1), False, [True]),
        (("?", "bad"), False, [False]),
        ((0.9, 0.5, "?", 0.6), False, [True]),  # the last before it, not the best
        ((0.5, "bad", "?", 0.4), False, [False]),  # the last valid one
        ((0.5, "?"), False, [None]),
        ((0.5, "?", "-"), False, [None]),
        ((0.5, "?", "?", 0.6, "?", 0.4), False, [True, True, False]),
        ((0.5, "-"), False, []),
    ],
)
def test_effect_of_help(turns: tuple[Any, ...], lower: bool, effective: list[bool | None]) -> None:
    assert [each.effective for each in posed(rollout(*turns, lower=lower))] == effective


def graded(score: float | None, rule: str = "milestone") -> dict[str, Any]:
    return {"score": score, "valid": score is not None, "reward": {"rule": rule}}


@pytest.mark.parametrize(
    ("before", "lower", "more", "effective"),
    [
        (0.5, False, {}, None),
        (0.5, False, {"grade": graded(0.6), "reward": 0.0}, True),
        (0.5, True, {"grade": graded(0.6), "reward": 0.9}, False),
        (None, False, {"grade": graded(0.1), "reward": 0.0}, True),
        (0.5, False, {"grade": graded(None), "reward": 0.1}, False),
        (0.5, False, {"grade": graded(0.6, "improvement"), "reward": 0.0}, False),  # the reward's word counts
        (0.5, False, {"grade": graded(0.4, "improvement"), "reward": 1.0}, True),
        (0.5, False, {"grade": graded(0.4, "improvement"), "reward": None}, False),
        # nobody carried it out
        (0.5, False, {"grade": graded(None, "improvement"), "reward": -1.0, "stop_reason": "format"}, None),
        (0.5, False, {"grade": graded(None, "improvement"), "reward": None, "implementer": {"refused": "long"}}, None),
        (0.5, False, {"grade": graded(None, "improvement"), "reward": 0.0, "implementer": {"model": "m"}}, False),
    ],
)
def test_effect_of_the_idea_of_a_state(before: float | None, lower: bool, more: Any, effective: bool | None) -> None:
    (found,) = posed(rollout("-", lower=lower, idea=IDEA, state={"score": before}, **more))
    assert found.effective is effective


def test_an_idea_comes_with_what_was_said_before_it() -> None:
    (found,) = posed(rollout("-", "?", "-"))
    assert (found.turn, [message["content"] for message in found.messages]) == (1, ["0", "1", "2", "3"])
    asked = ideas.question([{"role": "user", "content": "# Pond\n\n# Your answer"}], {"goal": "G"}, 100)
    about = {**rollout("-", idea=IDEA), "messages": [*asked, {"role": "assistant", "content": "ACTION: ..."}]}
    (found,) = posed(about)
    # the instructions that the ideator had are not among it
    assert [message["content"].strip() for message in found.messages] == ["## Observation\n\n# Pond\n\n# Your answer"]
    changed = {**about, "messages": [{"role": "user", "content": "another prompt"}, *about["messages"][1:]]}
    assert [message["content"] for message in next(posed(changed)).messages] == ["another prompt"]


def test_the_table_by_hand() -> None:
    tally = Tally()
    effects = [("Others", True), ("Others", False), ("Others", None), ("Model Training", None), (None, True)]
    tally.add({"type": kind, "effective": effect} for kind, effect in effects)
    assert tally.rows(TYPES[-2:]) == [
        ("Model Training", "1", "25.0%", "-", "0"),
        ("Others", "3", "75.0%", "50.0%", "2"),
        ("(unread)", "1", "-", "100.0%", "1"),
        ("all", "5", "-", "66.7%", "3"),
    ]
    assert Tally().rows(["Others"]) == [("Others", "0", "-", "-", "0"), ("all", "0", "-", "-", "0")]


def types_of(output: bytes) -> list[str | None]:
    return [entry["type"] for record in records(output) for entry in record["idea_types"]]


def test_a_model_is_asked_about_each_idea() -> None:
    with FaultyServer(lambda body: GOOD, faults=["500", "429"]) as server:
        set_by_user = ("--seed", "0", "--temperature", "0")
        done = run_command(*COMMAND, *set_by_user, "-j", "2", "--model-url", server.url, input=INPUT)
    assert types_of(done.stdout) == ["Model Training"] * 8
    entries = records(done.stdout)[0]["idea_types"]
    usage = entries[0].pop("usage")
    assert usage["prompt_tokens"] > 0 and usage["completion_tokens"] > 0 and usage["usd"] is None
    assert entries[0] == {
        "turn": 0,
        "type": "Model Training",
        "rationale": "It is about the loss.",
        "by": "judge",
        "effective": True,
    }
    bodies = {body["messages"][0]["content"]: body for body in server.requests}
    assert len(bodies) == 6 and len(server.requests) == 10  # the three rollouts of one idea ask the same
    assert len({body["seed"] for body in server.requests}) == 8
    (about,) = (text for text in bodies if "Optuna over max_depth" in text)
    assert "message of turn 4" in about and "observation of turn 4" not in about
    assert "ACTION:\nRun Optuna over max_depth and num_leaves." in about and "type" in about
    assert bodies[about]["temperature"] == 0
    assert b"mle-classify-ideas: Model Training             8  100.0%" in done.stderr


def test_answers_that_cannot_be_read_are_records() -> None:
    said = ["Others.", GOOD.replace("Model Training", "Fishing"), GOOD + "word " * 5000, GOOD]
    with FaultyServer(lambda body: said[len(server.requests) % len(said) - 1]) as server:
        done = run_command(*COMMAND, "--model-url", server.url, input=INPUT)
    assert not any(body.keys() & {"seed", "temperature"} for body in server.requests)
    entries = [entry for record in records(done.stdout) for entry in record["idea_types"]]
    assert [(entry["type"], entry["rationale"]) for entry in entries[:4]] == [
        (None, NO_JSON),
        (None, f'"type" has to be {ONE_OF}, not "Fishing"'),
        (None, "cut off after 4096 tokens"),
        ("Model Training", "It is about the loss."),
    ]
    assert b"(unread)" in done.stderr


def test_a_server_that_fails_is_no_answer() -> None:
    with FaultyServer(lambda body: GOOD, faults=["500"] * 4) as server:
        done = run_command(*COMMAND, "--model-url", server.url, input=INPUT, check=False)
    assert done.returncode == 1 and done.stdout == b"{"
    told = done.stderr.decode().splitlines()
    assert len(told) == 1 and told[0].startswith("mle-classify-ideas: stdin:1: ") and "500" in told[0]


def test_a_prompt_that_is_too_long_is_a_line_that_can_be_set_aside() -> None:
    with FaultyServer(lambda body: GOOD, context=4096 + 260) as server:
        long = json.loads(INPUT.splitlines()[0])
        long["messages"][1]["content"] = "word " * 5000
        lines = json.dumps(long).encode() + b"\n" + INPUT.splitlines()[5] + b"\n"
        done = run_command(*COMMAND, "--model-url", server.url, "--max-rejects", "1", input=lines)
        assert [record["id"] for record in records(done.stdout)] == ["single-1"]
        shorter = run_command(
            *COMMAND, "--model-url", server.url, "--trajectory-tokens", "20", "--max-tokens", "50", input=lines
        )
    assert types_of(shorter.stdout) == ["Model Training"] * 5


def test_the_scripted_model_judges_too() -> None:
    done = run_command("mle-classify-ideas", "-q", "--by", "model", "-m", "scripted", input=INPUT)
    found = types_of(done.stdout)
    assert len(found) == 8 and None not in found and done.stderr == b""


def test_ideators_side_by_side() -> None:
    base, trained = Tally(), Tally()
    base.add({"type": kind, "effective": effect} for kind, effect in [("Others", True), ("Model Training", False)])
    trained.add({"type": "Others", "effective": None} for _ in range(3))
    rows = [line.split("  ") for line in per_model({"base": base, "rl": trained}, TYPES[-2:]).split("\n")]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert cells == [
        [
            "type",
            "base",
            "rl",
            "all ideators",
            "rl - base",
            "effective, base",
            "effective, rl",
            "effective, all ideators",
        ],
        ["Model Training", "50.0%", "0.0%", "20.0%", "-50.0%", "0.0%", "-", "0.0%"],
        ["Others", "50.0%", "100.0%", "80.0%", "+50.0%", "100.0%", "-", "100.0%"],
        ["ideas", "2", "3", "5"],
    ]
    assert ideator({"scaffold": "idea", "policy": {"model": "hf:rl"}}) == "hf:rl"
    assert ideator({"scaffold": "codeact", "settings": {"own": {"ideator": "o3"}}}) == "o3"
    told = run_command("mle-classify-ideas", "-q", "--table", "--per-model", input=INPUT).stdout.decode()
    assert told.startswith("type") and told.splitlines()[-1].split()[0] == "ideas"


def test_table_and_model_options() -> None:
    done = run_command("mle-classify-ideas", "-m", "judge", input=INPUT, check=False)
    assert done.returncode == 2 and b"-m is about --by model" in done.stderr
    quiet = run_command("mle-classify-ideas", "-q", "-j", "3", "--table", input=INPUT)
    assert quiet.stderr == b"" and quiet.stdout.splitlines()[-1].split() == [b"all", b"8", b"-", b"50.0%", b"6"]
