"""mle-rollout --scaffold codeact and idea, played by script: a session, an ideator, states, and ideas carried out."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import records, run_command
from model_server import FaultyServer
from played import (
    FINISHES,
    HELP,
    IDEA,
    SEARCH,
    Played,
    by_model,
    by_task,
    call,
    cell,
    command,
    fenced,
    in_steps,
    play,
    program,
    test_score,
    validation_score,
    write_tasks,
)
from played_checks import (
    check_nothing_told,
    check_tokens,
    graded,
    observed,
)

from mletools.sandbox.gpus import cards
from mletools.sandbox.machine import this_machine
from mletools.scaffolds.ideas import FIXED, UNANSWERED

SCRIPTS: dict[str, list[Any]] = {
    # state, a shell, scores when a new submission lies there, an end of the session, a new one
    "mill_0": [
        cell("slope = 2.5\nprint('ready')"),
        "<execute_bash>\nls input | sort | tr '\\n' ' '\n</execute_bash>",
        cell(program("slope")),  # type: ignore[arg-type]
        cell("print(slope / 0)"),
        "<execute_bash>exit 3</execute_bash>",
        cell("open('submission.csv', 'a').close()"),
        cell("import os\nos._exit(0)"),
        cell("try:\n    slope\nexcept NameError:\n    print('gone')"),
        "<execute_bash>ls</execute_bash>",
        cell(program(2.9)),
        FINISHES,
    ],
    # nobody to ask; no action; the first of several; a tag that is never closed; nothing is handed in
    "mill_1": [HELP, "well", cell("1") + FINISHES, "<execute_ipython>1", cell("7 * 6"), FINISHES],
    # worse in the end, and taken away again
    "mill_2": [cell(program(2.9)), cell(program(2.0)), "<execute_bash>rm submission.csv</execute_bash>", FINISHES],
    "mill_3": [cell(SEARCH), "<execute_bash>find / -name '*answers*' -o -name private 2>/dev/null; cat ../*/*.csv"
               "; ls -la .. / /tmp; env</execute_bash>", cell(program(2.5)), FINISHES],
}  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("codeact")
    tasks = write_tasks(folder, len(SCRIPTS))
    with FaultyServer(by_task({name: in_steps(script) for name, script in SCRIPTS.items()})) as server:
        return play(server, "codeact", folder, tasks, "-j", "4", "--max-turns", "12")


@pytest.mark.slow
def test_a_session_that_lives_ends_and_is_begun_anew(done: Played) -> None:
    record, task = done.of("mill_0"), done.tasks["mill_0"]
    assert record["stop_reason"] == "finished" and record["format_rate"] == 1
    kinds = ["python", "bash", "python", "python", "bash", "python", "python", "python", "bash", "python", "finish"]
    assert [turn["action"] for turn in record["turns"]] == kinds
    cells = [turn["cell"] for turn in record["turns"][:-1]]
    assert [each["status"] for each in cells][:6] == ["ok", "ok", "ok", "error", "error", "ok"]
    assert [each["alive"] for each in cells] == [True] * 6 + [False] + [True] * 3
    assert observed(record, 0) == "```\nready\n```"
    assert observed(record, 1) == "```\ndescription.md sample_submission.csv test.csv train.csv \n```"
    score = validation_score(done.folder, task, 2.5)
    assert observed(record, 2) == (
        f"```\nslope 2.5\n```\n\n[submission.csv is valid. mae on the validation rows: {score:g} (lower is better).]"
    )
    assert "ZeroDivisionError" in observed(record, 3) and "[The step failed in less than a second.]" in observed(
        record, 3
    )
    assert observed(record, 5) == "(no output)"  # the same submission: nothing new to tell
    assert [bool(turn.get("submission")) for turn in record["turns"]] == [at in (2, 9) for at in range(11)]
    assert "[The session ended with it. The next step begins a new one: variables and files are gone.]" in observed(
        record, 6
    )
    assert observed(record, 7) == "```\ngone\n```" and observed(record, 8) == "```\ninput\n```"
    score = validation_score(done.folder, task, 2.9)
    assert record["validation"]["score"] == score == record["turns"][9]["validation"]["score"]
    assert record["turns"][9]["grade"]["score"] == test_score(done.folder, task, 2.9)
    assert record["execution"]["submission"] == record["turns"][9]["submission"]
    # the program that made it is what ran in the second session
    assert record["code"] == "\n\n".join(record["turns"][at]["code"] for at in (7, 9)) and "_exit" not in record["code"]
    assert record["execution"]["protections"]["private_files"] and record["execution"]["backend"] == "local"
    assert record["execution"]["machine"] == this_machine()


def test_the_device_of_a_session_is_recorded(done: Played) -> None:
    """A refit does not wait for the device that its own session has."""
    name = "0" if cards() else "974"
    line = ["mle-rollout", "-m", "scripted", "--scaffold", "codeact", "--max-turns", "3", "--gpus", name, "--refit"]
    made = records(run_command(*line, "tasks.jsonl", cwd=done.folder).stdout)
    executions = [record["execution"] for record in made]
    assert {execution["gpu"] for execution in executions if execution["backend"]} == {name}
    assert any("refit" in record for record in made)


def test_what_is_no_action_and_nothing_handed_in(done: Played) -> None:
    record = done.of("mill_1")
    assert [turn["problem"] for turn in record["turns"]] == ["missing", "missing", None, None, None, "early", None]
    rules = ["missing", "missing", "first_action", "unclosed_tag", None, None, None]
    assert [turn["format"]["rule"] for turn in record["turns"]] == rules
    told = (
        "Take exactly one action per message: <execute_ipython>, <execute_bash>, <finish>. Stop after its closing tag."
    )
    assert all(observed(record, turn).endswith(f"\n\n{told}") for turn in range(2)) and [
        observed(record, turn) for turn in (2, 3, 4)
    ] == ["```\n1\n```", "```\n1\n```", "```\n42\n```"]
    # --format strict: what only a lenient reading finds is carried out, and counts as malformed
    assert record["format_rate"] == 3 / 7 and record["code"] is None and record["validation"] is None
    assert record["execution"]["submission"] is None and record["execution"]["status"] == "ok"


def test_the_last_submission_counts_even_where_it_is_gone(done: Played) -> None:
    record = done.of("mill_2")
    assert record["validation"]["score"] == validation_score(done.folder, record["task"], 2.0)
    assert record["code"] == f"{program(2.9)}\n\n{program(2.0)}"
    assert record["execution"]["submission"] == record["turns"][1]["submission"]


def test_tokens_secrets_and_the_rest_of_the_pipe(done: Played) -> None:
    assert [check_tokens(record, done.requests) for record in done.records] == [1] * len(done.records)
    check_nothing_told(done.folder, done.records, done.requests)
    after = {record["task"]["name"]: record for record in graded(done.folder, done.records)}
    for name, slope in (("mill_0", 2.9), ("mill_2", 2.0), ("mill_3", 2.5)):
        assert after[name]["grade"]["score"] == test_score(done.folder, after[name]["task"], slope)
    assert after["mill_1"]["grade"]["valid"] is False


def test_tool_calls_of_the_protocol(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    query = {"problem_statement": "poor", "attempts_so_far": "- a", "goal": "better"}
    script = [call("execute_ipython", code=program(2.9)), call("execute_bash", command="ls"),
              call("seek_help", **query), call("finish")]  # fmt: skip
    with FaultyServer(in_steps(script)) as server:
        done = play(server, "codeact", tmp_path, tasks, "--tool-calls", "openai", "--ideator", "vague")
    record = done.of("mill_0")
    names = [tool["function"]["name"] for tool in done.requests[0]["tools"]]
    assert names == ["execute_ipython", "execute_bash", "seek_help", "finish"]
    assert [message.get("tool_call_id") for message in record["messages"][3::2]] == [
        "call00000",
        "call00010",
        "call00020",
    ]
    assert record["turns"][2]["help"] == {"query": query, "answer": FIXED["vague"], "idea": None, "model": "vague"}
    assert observed(record, 2) == FIXED["vague"] and check_tokens(record, done.requests) == 1
    assert "seek_help" in record["messages"][0]["content"] and "<seek_help>" not in done.of("mill_0")["code"]


# ---- an ideator, its states, and ideas that are carried out


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Rollouts that ask: once with nothing handed in yet, once with a line of slope 2.5, and get an idea or nonsense."""
    folder = tmp_path_factory.mktemp("ideator")
    tasks = write_tasks(folder, 2)
    scripts = {
        "mill_0": [HELP, cell(program(2.5)), HELP, cell(program(2.9)), FINISHES],
        "mill_1": ["<seek_help>please</seek_help>", HELP, FINISHES],
    }
    policies = {
        "played": by_task({name: in_steps(script) for name, script in scripts.items()}),
        "adviser": lambda body: IDEA if "mill_0" in body["messages"][0]["content"] else "I have no idea",
    }
    with FaultyServer(by_model(policies)) as server:
        return play(
            server, "codeact", folder, tasks, "--ideator", "adviser", "--write-states", "states.jsonl", "-j", "2"
        )


def test_an_ideator_is_asked_and_its_answer_is_an_observation(asked: Played) -> None:
    record = asked.of("mill_0")
    assert [turn["action"] for turn in record["turns"]] == ["seek_help", "python", "seek_help", "python", "finish"]
    told = observed(record, 0)
    assert (
        told == IDEA and record["turns"][0]["help"]["said"] == IDEA and record["turns"][0]["help"]["model"] == "adviser"
    )
    assert set(record["turns"][0]["help"]["idea"]) == {"analysis_on_current_progress", "action", "rationale"}
    questions = [body["messages"] for body in asked.requests if body["model"] == "adviser"]
    assert all([message["role"] for message in each] == ["user"] for each in questions) and len(questions) == 3
    own = max((each[0]["content"] for each in questions if "mill_0" in each[0]["content"]), key=len)
    assert "PROBLEM_STATEMENT:\nit is poor" in own and "slope 2.5" in own and "the validation rows" in own
    policy = sum(turn["usage"]["completion_tokens"] for turn in record["turns"])
    assert record["usage"]["completion_tokens"] > policy  # what the ideator used is counted, not as the turn's own
    # an answer in another form is replaced, and what was said is kept
    other = asked.of("mill_1")
    assert [turn["problem"] for turn in other["turns"]] == ["malformed", None, "early", None]  # it insists on its end
    assert observed(other, 1) == FIXED["null"] and other["turns"][1]["help"]["said"] == "I have no idea"
    assert other["turns"][1]["help"]["idea"] is None
    assert [check_tokens(record, asked.requests) for record in asked.records] == [1, 1]
    check_nothing_told(asked.folder, asked.records, asked.requests)


def test_the_price_of_ones_own_ideator_reaches_the_report(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    policies = {"played": in_steps([HELP, cell(program(2.5)), FINISHES]), "mine": lambda body: IDEA}
    with FaultyServer(by_model(policies)) as server:
        options = ("--ideator", "mine", "--price", "1,2", "--ideator-price", "1000,2000")
        record = play(server, "codeact", tmp_path, tasks, *options).of("mill_0")
    policy = [sum(turn["usage"][name] for turn in record["turns"]) for name in ("prompt_tokens", "completion_tokens")]
    whole = [record["usage"][name] for name in ("prompt_tokens", "completion_tokens")]
    assert all(most > own > 0 for most, own in zip(whole, policy, strict=True))
    usd = sum(own * price + (most - own) * 1000 * price for own, most, price in zip(policy, whole, (1, 2), strict=True))
    assert record["usage"]["usd"] == pytest.approx(usd / 1e6, abs=1e-6)
    (tmp_path / "graded.jsonl").write_text("".join(json.dumps(each) + "\n" for each in graded(tmp_path, [record])))
    row = json.loads(run_command("mle-report", "--json", "graded.jsonl", cwd=tmp_path).stdout.splitlines()[-1])
    assert row["task"] == "all" and row["usd"] == record["usage"]["usd"] and row["usd_rollouts"] == 1
    roles = record["usage_by_role"]
    assert list(roles) == ["policy", "ideator"] and list(row["usage_by_role"]) == ["policy", "ideator"]
    assert sum(each["usd"] for each in roles.values()) == pytest.approx(record["usage"]["usd"])
    assert [roles["policy"][name] for name in ("prompt_tokens", "completion_tokens")] == policy
    assert row["usage_by_role"]["ideator"] == {
        **roles["ideator"], "rollouts": 1, "tokens_rollouts": 1, "usd_rollouts": 1,
    }  # fmt: skip


def test_the_ideators_price_uses_up_the_budget(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    policies = {"played": in_steps([HELP, HELP, HELP, FINISHES]), "mine": lambda body: IDEA}
    with FaultyServer(by_model(policies)) as server:
        options = ("--ideator", "mine", "--price", "0,0", "--ideator-price", "0,1000", "--max-usd")
        idea = play(server, "codeact", tmp_path, tasks, *options, "99").of("mill_0")["usage_by_role"]["ideator"]
        record = play(server, "codeact", tmp_path, tasks, *options, str(idea["usd"] / 2)).of("mill_0")
    assert record["stop_reason"] == "budget" and len(record["turns"]) == 2  # of three questions
    assert record["usage_by_role"]["policy"]["usd"] == 0 < record["usage"]["usd"] < idea["usd"]


def test_an_ideator_whose_context_is_too_short_is_told_of(tmp_path: Path) -> None:
    write_tasks(tmp_path, 1)
    script = [cell(program(2.5)), HELP, HELP, FINISHES]
    with FaultyServer(in_steps(script)) as server, FaultyServer(lambda body: IDEA, context=50) as adviser:
        options = ("--ideator", "adviser", "--ideator-url", adviser.url)
        done = run_command(*(each for each in command(server, "codeact", *options) if each != "-q"), cwd=tmp_path)
    (record,) = records(done.stdout)
    for turn in record["turns"][1:3]:
        assert turn["help"]["said"] == "" and turn["help"]["answer"] == UNANSWERED
        assert "50" in turn["help"]["refused"]
    # no answer, no cost
    assert record["usage"]["completion_tokens"] > 0 and list(record["usage_by_role"]) == ["policy"]
    assert done.stderr.count(b"the ideator cannot be asked, and the agent is told so: ") == 1
    assert b"2 requests for help too long for the ideator" in done.stderr


def left_out(body: dict[str, Any]) -> int:
    """How many characters of the trajectory a question leaves out."""
    cut = re.search(r"\[\.\.\. (\d+) characters left out", body["messages"][0]["content"])
    return int(cut[1]) if cut else 0


def test_a_question_too_long_for_the_ideator_is_asked_again_shorter(tmp_path: Path) -> None:
    """The trajectory is cut as if a token had few characters, then as the ideator's server has counted them."""
    tasks = write_tasks(tmp_path)
    script = [cell(f"print('x y z ' * {many})") for many in (900, 5)]
    asked: list[dict[str, Any]] = []

    def advise(body: dict[str, Any]) -> str:
        asked.append(body)
        return IDEA

    whole = [*script, HELP, HELP, FINISHES]
    with FaultyServer(in_steps(whole)) as server, FaultyServer(advise, context=1900) as adviser:
        options = ("--ideator", "adviser", "--ideator-url", adviser.url, "--ideator-max-tokens", "500")
        record = play(server, "codeact", tmp_path, tasks, *options, "--trajectory-tokens", "1600").of("mill_0")
    assert all(turn["help"]["idea"] for turn in record["turns"] if "help" in turn)
    assert len(adviser.requests) > len(asked) == 2  # the first was refused, and asked again with less of the work
    refused, answered = adviser.requests[:2]
    assert left_out(refused) < left_out(answered)


def test_an_idea_for_which_nobody_could_be_asked_has_no_reward(asked: Played, tmp_path: Path) -> None:
    """The ideator's context, or the implementer's, is no idea's fault; an idea with a preamble is -1, and not paid for."""
    state = json.dumps(next(s for s in states_of(asked) if s["state"]["turn"] == 2)) + "\n"
    (tmp_path / "states.jsonl").write_text(state)
    policy, frozen = (lambda body: IDEA), (lambda body: fenced(program(2.9)))
    cases: list[tuple[Any, int | None, int | None]] = [
        (policy, 50, None), (policy, None, 50), (lambda body: f"I think that it\n\n{IDEA}", None, None),
    ]  # fmt: skip
    found = []
    for answer, contexts, others in cases:
        with FaultyServer(answer, context=contexts) as server, FaultyServer(frozen, context=others) as implementer:
            options = ("--implementer", "frozen", "--implementer-url", implementer.url, "--data", str(asked.folder))
            line = [each for each in command(server, "idea", *options, tasks="states.jsonl") if each != "-q"]
            done = run_command(*line, cwd=tmp_path)
        (record,) = graded(asked.folder, records(done.stdout), "--reward", "improvement")
        found.append((record["stop_reason"], record["reward"], len(implementer.requests)))
        if others is not None:
            assert b"the implementer cannot be asked, so mle-grade gives no reward: " in done.stderr
    assert found == [("context", None, 0), ("finished", None, 1), ("format", -1, 0)]


def states_of(asked: Played) -> list[dict[str, Any]]:
    return records((asked.folder / "states.jsonl").read_bytes())


def test_states_end_in_a_question_and_say_where_it_stands(asked: Played) -> None:
    states = states_of(asked)
    assert {state["stop_reason"] for state in states} == {"asked"} and len({state["id"] for state in states}) == 3
    first, second = sorted((s for s in states if s["task"]["name"] == "mill_0"), key=lambda s: s["state"]["turn"])
    assert first["state"]["score"] is None and first["state"]["code"] is None and first["state"]["turn"] == 0
    task = asked.tasks["mill_0"]
    assert second["state"] == {
        "score": test_score(asked.folder, task, 2.5),
        "validation": validation_score(asked.folder, task, 2.5),
        "code": program(2.5),
        "query": {"problem_statement": "it is poor", "attempts_so_far": "- a line", "goal": "a better line"},
        "rollout": asked.of("mill_0")["id"],
        "turn": 2,
    }
    whole = asked.of("mill_0")
    assert second["messages"] == whole["messages"][: len(second["messages"])] and second["messages"][-1]["loss"]
    assert HELP in second["messages"][-1]["content"] and [t["action"] for t in second["turns"]][-1] == "seek_help"


def test_a_state_has_the_program_that_a_shell_wrote_and_the_last_valid_score(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    shell = f"cat > train.py <<'EOF'\n{program(2.5)}EOF\npython3 train.py"
    broken = cell("open('submission.csv', 'w').write('nothing')")
    script = [f"<execute_bash>\n{shell}\n</execute_bash>", "<execute_bash>ls</execute_bash>", broken, HELP, FINISHES]
    with FaultyServer(in_steps(script)) as server:
        done = play(server, "codeact", tmp_path, tasks, "--ideator", "null", "--write-states", "states.jsonl")
    (state,) = (record["state"] for record in states_of(done))
    assert [turn["grade"]["valid"] for turn in done.of("mill_0")["turns"] if "grade" in turn] == [True, False]
    assert state["score"] == test_score(tmp_path, tasks[0], 2.5)
    assert state["validation"] == validation_score(tmp_path, tasks[0], 2.5)
    assert "cat > train.py" in state["code"] and "ls" not in state["code"].split()
    folder = tmp_path / "again"
    folder.mkdir()
    (folder / "input").symlink_to(tmp_path / tasks[0]["data"]["dir"] / "public")
    subprocess.run([sys.executable, "-c", state["code"]], cwd=folder, check=True)
    assert (folder / "submission.csv").stat().st_size > len("nothing")


def test_an_idea_that_was_cut_is_none(tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path)
    policies = {"played": in_steps([HELP, FINISHES]), "adviser": lambda body: IDEA + " and so on" * 500}
    with FaultyServer(by_model(policies)) as server:
        done = play(server, "codeact", tmp_path, tasks, "--ideator", "adviser", "--max-answer-tokens", "200")
    told = done.of("mill_0")["turns"][0]["help"]
    assert (told["idea"], told["answer"]) == (None, FIXED["null"]) and told["said"].startswith(IDEA)


def test_ideas_are_rewarded_by_what_they_improve(asked: Played, tmp_path: Path) -> None:
    """+1 better than the state, 0 no better or without a submission, -1 in another form; by the test rows."""
    state = next(s for s in states_of(asked) if s["state"]["turn"] == 2)
    plays = {0: (IDEA, 2.9), 1: (IDEA, 2.0), 2: ("no idea", 2.9), 3: (IDEA, None), 4: (f"<think>x</think>{IDEA}", 2.9)}
    seeds: dict[int, int] = {}

    def answer(body: dict[str, Any]) -> str:
        if body["model"] == "frozen":
            text = body["messages"][0]["content"]
            slope = plays[int(text.split("way ")[1].split()[0])][1]
            return fenced(program(slope)) if slope else "I cannot."
        number = seeds.setdefault(body["seed"], len(seeds))
        return plays[number][0].replace("RATIONALE:", f"RATIONALE:\nway {number}")

    with FaultyServer(answer) as server:
        options = ("-g", "5", "--implementer", "frozen", "--data", str(asked.folder))
        (tmp_path / "states.jsonl").write_text(json.dumps(state) + "\n")
        done = run_command(*command(server, "idea", *options, tasks="states.jsonl"), cwd=tmp_path)
    made = records(done.stdout)
    assert len(made) == 5 and len({record["group"] for record in made}) == 1
    after = graded(asked.folder, made, "--reward", "improvement")
    rewards = {}
    for record in after:
        own = record["messages"][-1]["content"]
        way = next(number for number in plays if f"way {number}" in own) if "way" in own else 2
        rewards[way] = record["reward"]
        assert [turn["action"] for turn in record["turns"]] == ["idea"]
        assert record["stop_reason"] == ("format" if way == 2 else "finished") and record["format_rate"] == (way != 2)
        assert record["state"] == state["state"]
        if way == 2:
            assert record["idea"] is None and record["implementer"] is None and record["code"] is None
        elif way != 3:
            slope = plays[way][1]
            assert slope is not None and record["code"] == program(slope) and record["implementer"]["model"] == "frozen"
            assert record["grade"]["score"] == test_score(asked.folder, record["task"], slope)
            question = record["implementer"]["messages"][0]["content"]
            assert f"Its score on the validation rows: {state['state']['validation']:g}." in question
    assert rewards == {0: 1, 1: 0, 2: -1, 3: 0, 4: 1}
    said = [{**body, "model": ""} for body in server.requests]
    assert [check_tokens(record, said) for record in made] == [1] * 5
    check_nothing_told(asked.folder, made, server.requests)
    implementers = [m for r in made if r["implementer"] for m in r["implementer"]["messages"]]
    check_nothing_told(asked.folder, [{**made[0], "messages": implementers}], [])


@pytest.mark.parametrize(("option", "value"), [("--score-digits", "2"), ("--max-scores", "0")])
def test_an_implementer_is_told_the_score_as_agents_are(option: str, value: str, asked: Played, tmp_path: Path) -> None:
    policy = by_model({"played": lambda body: IDEA, "frozen": lambda body: fenced(program(2.9))})
    with FaultyServer(policy) as server:
        line = command(server, "idea", "--implementer", "frozen", "--data", str(asked.folder), option, value,
                       tasks=str(asked.folder / "states.jsonl"))  # fmt: skip
        made = records(run_command(*line, cwd=tmp_path).stdout)
    told = [record for record in made if record["state"]["validation"] is not None]
    assert told
    for record in told:
        question, score = record["implementer"]["messages"][0]["content"], record["state"]["validation"]
        rounded = f"Its score on the validation rows: {score:.2g}."
        assert (rounded if value == "2" else "Its score is not told.") in question and f"{score:g}" not in question


def test_an_implementer_is_told_that_a_submission_is_valid_whose_score_is_unknown(
    asked: Played, tmp_path: Path
) -> None:
    """Without validation rows no state has a shown score, and those with a test score are valid."""
    states = records((asked.folder / "states.jsonl").read_bytes())
    changed = [
        {**each, "state": {**each["state"], "validation": None}, "settings": {**each["settings"], "validation": 0}}
        for each in states
    ]
    (tmp_path / "states.jsonl").write_text("".join(json.dumps(each) + "\n" for each in changed))
    policy = by_model({"played": lambda body: IDEA, "frozen": lambda body: fenced(program(2.9))})
    with FaultyServer(policy) as server:
        line = command(server, "idea", "--implementer", "frozen", "--data", str(asked.folder), "--validation", "0",
                       tasks="states.jsonl")  # fmt: skip
        made = records(run_command(*line, cwd=tmp_path).stdout)
    told = {None: "It has no valid submission yet.", True: "Its score is not told."}
    for record in made:
        score = record["state"]["score"]
        assert told[score if score is None else True] in record["implementer"]["messages"][0]["content"]
    assert any(record["state"]["score"] is not None for record in made)


def test_a_program_that_the_implementers_server_took_for_reasoning(asked: Played, tmp_path: Path) -> None:
    said = {"content": "", "reasoning_content": fenced(program(2.9)).rstrip()}
    policy = by_model({"played": lambda body: IDEA, "frozen": lambda body: said})
    with FaultyServer(policy) as server:
        line = command(server, "idea", "--implementer", "frozen", "--data", str(asked.folder),
                       tasks=str(asked.folder / "states.jsonl"))  # fmt: skip
        made = records(run_command(*line, cwd=tmp_path).stdout)
    assert {record["code"] for record in made} == {program(2.9)}
    assert {record["implementer"]["messages"][1]["reasoning"] for record in made} == {said["reasoning_content"]}


def test_a_state_with_other_validation_rows_is_set_aside(asked: Played, tmp_path: Path) -> None:
    line = command("http://127.0.0.1:9", "idea", "--implementer", "frozen", "--data", str(asked.folder), "--validation", "0.3",
                   tasks=str(asked.folder / "states.jsonl"))  # fmt: skip
    done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert b"its score is on other validation rows: it was made with --validation 0.2" in done.stderr


def test_what_is_no_state_is_set_aside(asked: Played, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(asked.of("mill_0")) + "\n")
    with FaultyServer(in_steps([IDEA])) as server:
        line = command(
            server, "idea", "--implementer", "frozen", "-g", "3", "--data", str(asked.folder), tasks="runs.jsonl"
        )
        done = run_command(*line, cwd=tmp_path, check=False)
    assert done.returncode == 1 and server.requests == []
    assert done.stderr.decode() == (
        "mle-rollout: runs.jsonl:1: not a state: use the output of mle-rollout --scaffold codeact --write-states\n"
    )
