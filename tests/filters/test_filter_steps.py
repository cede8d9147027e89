"""mle-filter --cut-steps: traces cut into steps, through the real commands, and what each step's record holds."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from filtered import as_lines, one_graded, read
from model_server import FaultyServer
from played import Played, cell, executes, in_steps, play, program, test_score, validation_score, write_tasks
from played_checks import check_tokens

from mletools.base.errors import RecordError
from mletools.filters.steps import cut

# Turns: tried, no action, 2.8 | nothing, 2.95 | invalid, 2.7 | tried
SAYS = [
    f"<validate_code>\n{program(2.8)}</validate_code>",
    "hm",
    executes(program(2.8)),
    executes("print('nothing')\n"),
    executes(program(2.95)),
    executes("open('submission.csv', 'w').write('id,y')\n"),
    executes(program(2.7)),
    f"<validate_code>\n{program(2.7)}</validate_code>",
]
SLOPES, TURNS = (2.8, 2.95, 2.7), [[0, 2], [3, 4], [5, 6]]
TEAMS = [round(0.54321 + place * 1.23457, 5) for place in range(9)]


def human_rank(score: float) -> float:
    """(N - p + 1) / N, where p is 1 and the teams that are strictly better; lower is better."""
    return (9 - sum(team < score for team in TEAMS)) / 9


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A reset trace and a memory trace, of the same words."""
    folder = tmp_path_factory.mktemp("steps")
    tasks = write_tasks(folder)
    with FaultyServer(in_steps(SAYS)) as server:
        options = ("--max-traces", "2", "--max-turns", "8", "--reset-ratio", "0", "--pool-size", "1")
        return play(server, "memory", folder, tasks, *options)


def pipe(played: Played, *commands: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[str]]:
    """The records that come out of commands behind the played run, and what each says at its end."""
    content, said = as_lines(*played.records), []
    for command in commands:
        done = run_command(*command, input=content, cwd=played.folder)
        content = done.stdout
        said.append(done.stderr.decode().rpartition(", ")[0])
    return records(content), said


GRADE = ("mle-grade", "-k", "--reward", "human-rank")


def test_a_step_ends_with_each_valid_submission(played: Played) -> None:
    steps, said = pipe(played, ("mle-filter", "--cut-steps"), GRADE)
    assert said[0] == "mle-filter: 6 records, 2 rollouts cut, 2 turns after the last valid submission"
    assert said[1] == "mle-grade: 6 records, 6 valid"
    task = played.tasks["mill_0"]
    scores = [test_score(played.folder, task, slope) for slope in SLOPES]
    assert [step["grade"]["score"] for step in steps] == scores * 2
    assert [step["reward"] for step in steps] == [human_rank(score) for score in scores] * 2
    assert len(set(scores)) == 3 == len({human_rank(score) for score in scores})
    assert len({step["id"] for step in steps} | {each["id"] for each in played.records}) == 8
    for at, step in enumerate(steps):
        whole, number = played.records[at // 3], at % 3
        first, last = TURNS[number]
        assert step["cut"]["turns"] == [first, last] and step["cut"]["step"] == number + 1
        assert step["cut"]["steps"] == 3
        assert (step["cut"]["rollout"], step["cut"]["group"]) == (whole["id"], whole["group"])
        assert (step["group"], step["group_size"], step["sample"]) == (step["id"], 1, 0)
        end = whole["turns"][last]
        assert step["turns"] == whole["turns"][: last + 1] and step["trace"] == ("reset", "memory")[at // 3]
        assert step["code"] == program(SLOPES[number]) and step["execution"] == end["execution"]
        assert step["grade"]["digest"] == end["execution"]["submission"]["digest"]
        assert step["validation"]["score"] == validation_score(played.folder, task, SLOPES[number])
        assert step["stop_reason"] == "finished"
        assert "usage_by_role" not in step  # that of the whole rollout
        assert step["usage"]["completion_tokens"] == sum(
            turn["usage"]["completion_tokens"] for turn in whole["turns"][first : last + 1]
        )
    assert [step["format_rate"] for step in steps[:3]] == [2 / 3, 1.0, 1.0]


def test_failed_steps_hold_all_that_the_policy_wrote(played: Played) -> None:
    steps, said = pipe(played, ("mle-filter", "--cut-steps", "--failed-steps"), GRADE)
    assert said[1] == "mle-grade: 12 records, 6 valid, 6 invalid"
    first, score = steps[:6], test_score(played.folder, played.tasks["mill_0"], 2.8)
    assert [step["cut"]["turns"] for step in first] == [[0, 2], [3, 3], [4, 4], [5, 5], [6, 6], [7, 7]]
    assert [step["grade"]["valid"] for step in first] == [True, False, True, False, True, False]
    # gains are over the last valid submission, also behind a failed step
    assert [(step["cut"]["reference"] or {}).get("score") for step in first[:3]] == [None, score, score]
    assert first[1]["code"] == "print('nothing')\n" and first[1]["stop_reason"] == "finished"
    rest = first[5]  # tried, not handed in: what the rollout ended with
    assert rest["code"] == program(2.7) and rest["execution"]["submission"] is None
    assert rest["stop_reason"] == played.records[0]["stop_reason"] == "max_turns"
    own = [place for step in first for place, message in enumerate(step["messages"]) if message.get("loss")]
    assert own == [place for place, message in enumerate(played.records[0]["messages"]) if message.get("loss")]
    valid, _ = pipe(played, ("mle-filter", "--cut-steps"))
    assert not {step["id"] for step in valid} & {step["id"] for step in steps}


def test_only_the_steps_own_messages_carry_loss(played: Played) -> None:
    steps, _ = pipe(played, ("mle-filter", "--cut-steps"))
    for at, step in enumerate(steps):
        whole, (first, last) = played.records[at // 3], TURNS[at % 3]
        own = [turn["message"] for turn in whole["turns"][first : last + 1]]
        assert [place for place, message in enumerate(step["messages"]) if message.get("loss")] == own
        assert len(step["messages"]) == own[-1] + 1
        silent = [{**message, "loss": True} if "loss" in message else message for message in step["messages"]]
        assert silent == whole["messages"][: own[-1] + 1]  # ids and logprobs are all there
        assert check_tokens({**step, "messages": silent, "usage": whole["usage"]}, played.requests) == 1


def test_the_reference_is_the_step_before_or_the_memory(played: Played) -> None:
    steps, _ = pipe(played, ("mle-filter", "--cut-steps"))
    task = played.tasks["mill_0"]

    def reference(of: str, slope: float) -> dict[str, Any]:
        score = test_score(played.folder, task, slope)
        return {"of": of, "score": score, "human_rank": human_rank(score), "human_rank_rule": "dojo"}

    assert [step["cut"]["reference"] for step in steps] == [
        None, reference("previous", 2.8), reference("previous", 2.95), *[reference("state", 2.95)] * 3,
    ]  # fmt: skip


@pytest.mark.slow
def test_from_traces_to_what_is_worth_learning_from(played: Played) -> None:
    choose = ("mle-filter", "--min-group", "1", "--no-spread", "--keep-duplicates", "--mask-invalid", "--mark")
    found, said = pipe(played, ("mle-filter", "--cut-steps"), GRADE, (*choose, "--tau-adv", "0.01", "--tau-val", "0.1"))
    ranks = [human_rank(test_score(played.folder, played.tasks["mill_0"], slope)) for slope in SLOPES]
    shown = [human_rank(validation_score(played.folder, played.tasks["mill_0"], slope)) for slope in SLOPES]
    assert ranks[2] < ranks[0] < ranks[1] and shown[0] >= 0.1 and shown[1] >= 0.1
    filters = [step["filter"] for step in found]
    assert [each["kept"] for each in filters] == [True, True, False, False, False, False]
    gains = [None, ranks[1] - ranks[0], ranks[2] - ranks[1], ranks[0] - ranks[1], 0.0, ranks[2] - ranks[1]]
    assert [each.get("gain") for each in filters] == [None if each is None else round(each, 10) for each in gains]
    assert [each["validation_rank"] for each in filters] == shown * 2
    assert said[2] == "mle-filter: 6 records, 4 dropped (no gain)"
    # the message without an action, the program that left nothing, the invalid file
    messages = [[played.records[0]["turns"][at]["message"]] for at in (1, 3, 5)]
    assert [each["masked"] for each in filters] == messages * 2
    # under another rule of ranks the reference's is worked out again
    other = ("mle-grade", "-k", "--reward", "human-rank", "--human-rank", "mle-rl")
    found, _ = pipe(played, ("mle-filter", "--cut-steps"), other, (*choose, "--tau-adv", "0.01"))
    assert [step["filter"].get("gain") for step in found] == [each.get("gain") for each in filters]
    # 1 - p / N, one team less
    assert [step["reward"] for step in found[:3]] == pytest.approx([max(0, rank - 1 / 9) for rank in ranks])


def test_a_session_hands_in_all_its_cells(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    cells = ["slope = 2.5", program("slope"), "slope = 2.9", program("slope")]  # type: ignore[arg-type]
    with FaultyServer(in_steps([*map(cell, cells), "<finish></finish>"])) as server:
        made = play(server, "codeact", tmp_path, tasks)
    steps, said = pipe(made, ("mle-filter", "--cut-steps"), GRADE)
    assert said[0] == "mle-filter: 2 records, 1 rollout cut, 1 turn after the last valid submission"
    assert [step["cut"]["turns"] for step in steps] == [[0, 1], [2, 3]]
    assert [step["code"].split() for step in steps] == [" ".join(part).split() for part in (cells[:2], cells)]
    assert [step["grade"]["score"] for step in steps] == [test_score(tmp_path, tasks[0], each) for each in (2.5, 2.9)]
    assert steps[0]["execution"]["backend"] == made.records[0]["execution"]["backend"] == "local"


def test_rollouts_that_give_no_step_are_counted(tmp_path: Path) -> None:
    none = one_graded(0, None)
    ran = {"submission": {"file": "s", "digest": "sha256:s", "bytes": 1}}
    bad = one_graded(1, None)
    bad["turns"] = [{**bad["turns"][0], "submission": ran["submission"], "grade": {"valid": False}}]
    state = one_graded(2, None, stop_reason="asked")
    search = one_graded(3, None, search={
        "preset": "aide", "components": {}, "chosen": None, "how": "", "candidates": [], "budget": {}, "elapsed_s": 0,
        "cost": {phase: none["usage"] for phase in ("research", "develop")},
    })  # fmt: skip
    asked = ("mle-filter", "--cut-steps", "--dropped", "without.jsonl")
    done = run_command(*asked, input=as_lines(none, bad, state, search), cwd=tmp_path)
    assert done.stdout == b"" and done.stderr.decode().rpartition(", ")[0] == (
        "mle-filter: 1 rollout without a step (nothing was handed in), "
        "1 rollout without a step (no submission was valid), "
        "1 rollout without a step (a state, which hands in nothing), "
        "1 rollout without a step (a search, whose steps are what mle-rollout --write-steps wrote)"
    )
    dropped = read(tmp_path / "without.jsonl")
    reasons = [record["filter"]["reason"] for record in dropped]
    assert reasons[0] == "no step: nothing was handed in" and len(reasons) == 4
    # in a stream the trainer counts them, whatever a filter behind this one is told to keep
    marked = run_command("mle-filter", "--cut-steps", "--mark", input=as_lines(none, bad), cwd=tmp_path)
    assert [record["filter"] for record in records(marked.stdout)] == [record["filter"] for record in dropped[:2]]
    behind = ("mle-filter", "--mark", "--keep-invalid", "--no-spread", "--min-group", "1")
    last = records(run_command(*behind, input=marked.stdout, cwd=tmp_path).stdout)
    assert [(record["filter"]["kept"], record["filter"]["reason"]) for record in last] == [
        (False, reason) for reason in reasons[:2]
    ]


def test_what_is_said_of_the_whole_rollout_is_of_no_step(played: Played) -> None:
    of_the_whole: dict[str, Any] = {"usage_by_role": {}, "refit": {"score": 0.5}, "reported_score": 0.5}
    made = cut({**played.records[0], **of_the_whole}, lambda *_: (None, {}), lambda *_: {}).steps  # type: ignore[arg-type]
    assert made and not any(of_the_whole.keys() & step.keys() for step in made)


def test_a_single_answer_is_one_step_and_a_cut_step_is_not_cut_again(tmp_path: Path) -> None:
    answer = one_graded(0, 0.5, turns=[{"action": "solve", "duration_s": 1.0}])
    done = run_command("mle-filter", "--cut-steps", input=as_lines(answer), cwd=tmp_path)
    (step,) = records(done.stdout)
    assert step["cut"] == {
        "rollout": "r0", "group": "g0", "sample": 0, "step": 1, "steps": 1, "turns": [0, 0], "reference": None,
    }  # fmt: skip
    assert step["messages"] == answer["messages"] and step["code"] == "x = 0" and not {"grade", "reward"} & set(step)
    again = run_command("mle-filter", "--cut-steps", input=done.stdout, cwd=tmp_path, check=False)
    assert again.returncode == 1 and again.stderr.decode() == (
        "mle-filter: stdin:1: is a step already, of r0: give --cut-steps what mle-rollout wrote\n"
    )
    with pytest.raises(RecordError):
        cut(step, lambda *_: (None, {}), lambda *_: {})


def test_steps_go_on_after_a_kill(played: Played) -> None:
    (played.folder / "traces.jsonl").write_bytes(as_lines(*played.records))
    asked = ("mle-filter", "--cut-steps", "traces.jsonl", "-q", "-o")
    run_command(*asked, "all.jsonl", cwd=played.folder)
    whole = (played.folder / "all.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (played.folder / "cut.jsonl.partial").write_bytes(b"".join(lines[:2]) + lines[2][:50])
    run_command(*asked, "cut.jsonl", "--resume", cwd=played.folder)
    assert (played.folder / "cut.jsonl").read_bytes() == whole and len(json.loads(lines[0])["lineage"]) == 2
