"""mle-rollout --scaffold search as a user has it: a real server, sandbox and grader, kills, faults, and what follows it."""

import csv
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, mostly_slow, records, run_command
from embedding_server import Server as EmbeddingServer
from model_server import FaultyServer
from played import command, fenced, program, score_by_hand, write_tasks
from played_checks import TIMES, alike, check_nothing_told, check_tokens, graded
from stopping import FAULTS, gone, stopped

from mletools.sandbox.process_tree import descendants

BLOCK = (
    "import sys\nif '--debug' in sys.argv:\n    print('==== Start of Debug Information ====\\ndebug_time: 0.1\\n"
    "estimated_time: 0.2\\n==== End of Debug Information ====')"
)
AXES = dict.fromkeys(("alignment", "impact", "novelty", "feasibility", "risk_reward"), 5)
ANALYSIS = ("task_type", "data_type", "summary", "data", "submission", "metric")


def searching(body: dict[str, Any]) -> str:
    """A researcher and developer: what it says depends on seed and prompt, but for what that says of times."""
    asked = TIMES.sub("", body["messages"][-1]["content"])
    draw = zlib.crc32(f"{body['seed']} {asked}".encode())
    answers: dict[str, Any] = {
        '"longer_limit"': {**dict.fromkeys(ANALYSIS, "words"), "longer_limit": False},
        '"acceptable"': {"acceptable": draw % 5 > 0, "why": "so it is"},
        '"supported"': {"supported": True, "lesson": f"learnt {draw % 90}"},
        '"origin"': [
            {"challenge": f"challenge {draw % 90 + at}", "reason": "so", "origin": "scenario"} for at in range(2)
        ],
        '"alignment"': [
            {"hypothesis": f"slope {(draw + at) % 90}", "component": "Model", "challenge": at, "scores": AXES}
            for at in range(2)
        ],
        '"candidate"': {
            "action": "create",
            "candidate": None,
            "hypothesis": f"slope {draw % 90}",
            "component": "Model",
        },
        '"hypothesis"': {"hypothesis": f"slope {draw % 90}", "component": "Model"},
    }
    for mark, answer in answers.items():
        if mark in asked:
            return json.dumps(answer)
    works = f"{BLOCK}\nprint('Validation score:', {draw % 90})"
    return fenced(program(2 + draw / 2**32, works if draw % 5 else "1 / 0"))


def search(server: FaultyServer | str, preset: str, nodes: int, *options: str) -> list[str]:
    return command(server, "search", "--preset", preset, "--max-turns", str(nodes), *options)


def without_elapsed(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records without the times that only searches have."""
    text = re.sub(r'"(elapsed_s|estimated_s)": [\d.]+', r'"\1": 0', json.dumps(made))
    return json.loads(text)  # type: ignore[no-any-return]


def test_records_are_alike_however_long_programs_took() -> None:
    """On a busy machine some take a second, and prompts have another number of words."""
    one, other, wrong = (
        {"id": "a", "turns": [{"node": {"why": f"{word} {took}."}, "usage": {"prompt_tokens": tokens}}]}
        for word, took, tokens in (
            ("It failed", "after 12 s", 5),
            ("It failed", "in less than a second", 7),
            ("It", "after 1 s", 4),
        )
    )
    assert alike([one], [other])
    with pytest.raises(AssertionError):
        alike([one], [wrong])


@pytest.mark.parametrize("preset", mostly_slow(["rd-agent", "aide", "aira-evo"], 0))
def test_no_model_is_told_what_it_must_not_know_and_the_pipe_takes_it(preset: str, tmp_path: Path) -> None:
    write_tasks(tmp_path, 2)
    with FaultyServer(searching) as server:
        output = run_command(*search(server, preset, 5, "--write-steps", "steps.jsonl", "-j", "2"), cwd=tmp_path).stdout
        made, steps = records(output), records((tmp_path / "steps.jsonl").read_bytes())
        assert [len(record["turns"]) for record in made] == [5, 5]
        assert all(record["search"]["chosen"] is not None for record in made)
        check_nothing_told(tmp_path, made + steps, server.requests)
        assert all([check_tokens(step, server.requests) == 1 for step in steps])
    after = graded(tmp_path, made)
    for record in after:  # mle-grade says what the search's own record of the chosen node does
        chosen = record["turns"][record["search"]["chosen"]]
        assert record["grade"]["score"] == chosen["grade"]["score"]
    for step, judged in zip(steps, graded(tmp_path, steps, "--reward", "improvement"), strict=True):
        assert judged["reward"] in (-1.0, 0.0, 1.0)
        assert (judged["reward"] == -1.0) == (step["stop_reason"] == "format")


@pytest.mark.parametrize("preset", mostly_slow(["aide", "rd-agent"], 0))
def test_a_servers_faults_and_the_number_of_hands_change_nothing(preset: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    with FaultyServer(searching) as server:
        clean = records(run_command(*search(server, preset, 8), cwd=tmp_path).stdout)
    with FaultyServer(searching, FAULTS) as server:
        line = search(server, preset, 8, "--retries", "12", "-j", "3")
        assert alike(without_elapsed(clean), without_elapsed(records(run_command(*line, cwd=tmp_path).stdout)))


@pytest.mark.parametrize(
    ("preset", "share"),
    [("rd-agent", 0.5), *(pytest.param(*each, marks=pytest.mark.slow) for each in (("aide", 0.3), ("rd-agent", 0.9)))],
)
@pytest.mark.slow
def test_killed_and_resumed_loses_and_pays_nothing_twice(preset: str, share: float, tmp_path: Path) -> None:
    write_tasks(tmp_path, 2)
    with FaultyServer(searching) as server:
        line = search(server, preset, 8, "--write-steps", "clean_steps.jsonl")
        clean = records(run_command(*line, cwd=tmp_path).stdout)
        asked = len(server.requests)
    with FaultyServer(searching, latency_s=0.03) as server:
        line = search(server, preset, 8, "-j", "2", "-o", "out.jsonl", "--write-steps", "steps.jsonl")
        code, family, _ = stopped(line, tmp_path, lambda: len(server.requests) >= share * asked, signal.SIGKILL)
        assert code == -signal.SIGKILL and gone(family)
        graphs = list((tmp_path / "out.jsonl.graph").glob("*.jsonl"))
        assert len(graphs) == 2 and (tmp_path / "out.jsonl.tape").exists()
        with graphs[0].open("ab") as file:
            file.write(b'{"number": 99, "torn')
        run_command(*line, "--resume", cwd=tmp_path)
        assert len(server.requests) <= asked + 4  # those in flight
    assert alike(without_elapsed(clean), without_elapsed(records((tmp_path / "out.jsonl").read_bytes())))
    steps = [records((tmp_path / f"{name}steps.jsonl").read_bytes()) for name in ("clean_", "")]
    assert alike(*map(without_elapsed, steps))
    assert not [*tmp_path.glob("*.tape"), *tmp_path.glob("*.graph"), *tmp_path.glob("*.partial")]


@pytest.mark.slow
def test_killed_without_rounds_and_handed_in_early_or_extended(tmp_path: Path) -> None:
    """kill -9, then with less time; SIGTERM, then with more; a stop file."""
    write_tasks(tmp_path)
    with FaultyServer(searching, latency_s=0.03) as server:
        line = search(server, "rd-agent", 60, "--rounds", "free", "-j", "3", "-o", "out.jsonl", "--graph", "graphs")

        def nodes() -> list[str]:
            lines = [text for path in (tmp_path / "graphs").glob("*.jsonl") for text in path.read_text().splitlines()]
            return [line for line in lines if '"nodes_of_round": ' in line]

        code, family, _ = stopped(line, tmp_path, lambda: len(nodes()) >= 3, signal.SIGKILL)
        assert code == -signal.SIGKILL and gone(family)
        paid = nodes()
        code, family, told = stopped([*line, "--resume"], tmp_path, lambda: len(nodes()) >= 6, signal.SIGTERM)
        assert code == 143 and gone(family) and b"with --max-seconds 1 it hands in the best" in told
        assert nodes()[: len(paid)] == paid
        paid = nodes()
        run_command(*line, "--resume", "--max-seconds", "1", cwd=tmp_path)
        assert nodes()[: len(paid)] == paid and len(nodes()) <= len(paid) + 3  # those under way
        (made,) = records((tmp_path / "out.jsonl").read_bytes())
        assert made["search"]["chosen"] is not None and made["stop_reason"] == "finished"
        (graph,) = (tmp_path / "graphs").glob("*.jsonl")
        further = [*line, "--from-graph", str(graph), "--max-turns", str(len(nodes()) + 2)]
        further[further.index("out.jsonl")], further[further.index("graphs")] = "more.jsonl", "others"
        run_command(*further, cwd=tmp_path)
        (more,) = records((tmp_path / "more.jsonl").read_bytes())
        assert more["search"]["taken_over"] == len(made["turns"]) == len(more["turns"]) - 2
        assert more["turns"][: len(made["turns"])] == made["turns"]


@pytest.mark.parametrize(
    ("component", "field", "words"),
    [("MODEL", "lenient", "2 answers read leniently"), ("Magic", "fallbacks", "2 fallbacks"), ("Model", "", "")],
)
def test_the_summary_counts_lenient_readings_and_fallbacks(
    component: str, field: str, words: str, tmp_path: Path
) -> None:
    write_tasks(tmp_path, 1)
    with FaultyServer(lambda body: searching(body).replace('"Model"', f'"{component}"')) as server:
        line = [word for word in search(server, "aide", 2, "-o", "out.jsonl") if word != "-q"]
        summary = run_command(*line, cwd=tmp_path).stderr.decode().splitlines()[-1]
    (made,) = records((tmp_path / "out.jsonl").read_bytes())
    ideas = {"search-idea": 2}
    assert {name: made["search"].get(name) for name in ("lenient", "fallbacks") if name in made["search"]} == (
        {field: ideas} if field else {}
    )
    assert words in summary and ("leniently" in summary, "fallbacks" in summary) == (
        field == "lenient",
        field == "fallbacks",
    )


def test_a_program_that_the_server_took_for_reasoning(tmp_path: Path) -> None:
    write_tasks(tmp_path)

    def answer(body: dict[str, Any]) -> Any:
        said = searching(body)
        return {"content": "", "reasoning_content": said.rstrip()} if "```" in said else said

    with FaultyServer(answer) as server:
        (made,) = records(run_command(*search(server, "aide", 2), cwd=tmp_path).stdout)
    assert all(turn["code"] for turn in made["turns"])


def test_a_graph_that_is_kept_is_not_discarded_unasked(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    with FaultyServer(searching) as server:
        line = search(server, "aide", 2, "--graph", "graphs")
        run_command(*line, cwd=tmp_path)
        (graph,) = (tmp_path / "graphs").iterdir()
        kept = graph.read_bytes()
        done = run_command(*line, cwd=tmp_path, check=False)
        assert done.returncode == 1 and graph.read_bytes() == kept
        assert done.stderr.decode() == (
            f"mle-rollout: graphs/{graph.name}: holds an earlier search; --from-graph and another --graph begin with its "
            "nodes, --resume (of an -o FILE) continues it, --force discards it\n"
        )
        run_command(*line, "--force", cwd=tmp_path)


def test_a_search_that_never_reached_its_model_leaves_nothing_to_keep(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    with FaultyServer(searching) as server:
        line = search(server, "aide", 2, "--graph", "graphs")
    for _ in range(2):
        done = run_command(*line, "--retries", "0", cwd=tmp_path, check=False)
        assert done.returncode == 1 and b"holds an earlier search" not in done.stderr
        assert [path.read_bytes().count(b"\n") for path in (tmp_path / "graphs").iterdir()] == [1]


@pytest.mark.slow
def test_graphs_are_kept_where_the_user_says(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    with FaultyServer(searching) as server:
        line = search(server, "aide", 6, "--graph", "graphs", "-o", "out.jsonl")
        for _ in range(2):  # the second run begins anew
            run_command(*line, "--force", cwd=tmp_path)
            (graph,) = (tmp_path / "graphs").iterdir()
            begin, *nodes, end = [json.loads(each) for each in graph.read_text().splitlines()]
            assert [node["number"] for node in nodes] == list(range(6))
            assert (begin["ended"], end["ended"]) == (False, True) and end["graph_of"]["search"]["chosen"] is not None
            assert b"6 nodes, best " in run_command("mle-show", "-q", "--tree", str(graph)).stdout
    assert not (tmp_path / "out.jsonl.graph").exists()


@pytest.mark.slow
def test_a_component_in_a_file_is_picked_up_by_name(tmp_path: Path) -> None:
    """The one that docs/search.md shows."""
    write_tasks(tmp_path)
    page = (ROOT / "docs/search.md").read_text()
    (tmp_path / "fan.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    with FaultyServer(searching) as server:
        for name in ("fan.py:FanOut", "fan:FanOut"):
            line = search(server, "aide", 9, "--paths", name, "--set", "paths.width=4")
            (made,) = records(run_command(*line, cwd=tmp_path).stdout)
            assert made["search"]["components"]["paths"] == {"name": name, "constants": {"width": 4}}
            assert [turn["action"] for turn in made["turns"]].count("improve") >= 4


@pytest.mark.parametrize("embedded", [pytest.param(False, marks=pytest.mark.slow), True])
def test_knowledge_reaches_the_researcher_by_bm25_or_a_servers_embeddings(embedded: bool, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/mills.md").write_text("On mills: y follows x. Tell-tale passage.\n")
    vectors = EmbeddingServer()
    options = ("--embedding-model", "words", "--embedding-url", vectors.url) if embedded else ()
    with FaultyServer(searching) as server:
        run_command(*search(server, "aide", 3, "--knowledge", "texts", *options), cwd=tmp_path)
        prompts = [request["messages"][-1]["content"] for request in server.requests]
    vectors.close()
    assert any("# Knowledge" in prompt and "Tell-tale passage" in prompt for prompt in prompts)
    assert any("Tell-tale passage" in text for texts in vectors.asked for text in texts) == embedded


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--paths", "spiral"), "--paths spiral: known are chain, greedy, greedy-merge, mcts, evolution, adaptive"),
        (("--set", "paths.branches=0"), "branches 0: at least 1"),
        (("--set", "wings=2"), "--set wings=2: which constant?"),
        (("--validation", "0"), "--evaluation aggregated needs scores on held-out rows"),
        (("--hand-in", "best"), "--hand-in is about --scaffold improve or react or codeact or memory or idea"),
        (("--knowledge", "texts"), "texts: "),
    ],
)
def test_what_makes_no_search_is_one_line(options: tuple[str, ...], told: str, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    (tmp_path / "texts").mkdir()
    line = ["mle-rollout", "--scaffold", "search", "-m", "scripted", "--data", ".", *options, "tasks.jsonl"]
    done = run_command(*line, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) in ((1, b"{"), (2, b""))
    assert told in done.stderr.decode() and "Traceback" not in done.stderr.decode()


def test_a_dry_run_lists_components_and_constants(tmp_path: Path) -> None:
    write_tasks(tmp_path)
    line = ["mle-rollout", "--scaffold", "search", "--preset", "aide", "--set", "drafts=3", "--dry-run", "tasks.jsonl"]
    told = run_command(*line, cwd=tmp_path).stderr.decode()
    assert "rollouts of scripted (1 tasks x 1), each of at most 500 nodes and 43200 s (wall clock):\n" in told
    assert re.search(r"paths +greedy +\(drafts=3 debug_probability=0\.5 debug_depth=3\)", told)
    assert os.listdir(tmp_path).count("views") == 0
    assert "mle-rollout: each: roughly 12 hours, " in told and "USD not known (--price)" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [((), "nodes so far are lost: -o FILE or"), (("--graph", "graphs"), "so far are in graphs: --from")],
)
def test_a_search_into_a_pipe_that_is_stopped_says_what_is_left(
    options: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    write_tasks(tmp_path)
    with FaultyServer(searching, latency_s=0.03) as server:
        line = search(server, "aide", 60, *options)
        code, family, said = stopped(line, tmp_path, lambda: len(server.requests) >= 4, signal.SIGTERM)
    assert code == 143 and gone(family) and told in said.decode()


@pytest.mark.parametrize(("jobs", "warned"), [("2", True), ("3", False)])
def test_fewer_hands_than_workers_are_said(jobs: str, warned: bool, tmp_path: Path) -> None:
    write_tasks(tmp_path)
    line = ["mle-rollout", "--scaffold", "search", "--preset", "night", "-j", jobs, "--dry-run", "tasks.jsonl"]
    told = run_command(*line, cwd=tmp_path).stderr.decode()
    assert ("-j 2 is less than --workers 3: nodes under way wait" in told) == warned
    whole = run_command(*line, "--rounds", "whole", cwd=tmp_path).stderr.decode()
    assert "--workers" not in whole


@pytest.mark.slow
def test_no_program_sees_selection_rows_and_the_mean_of_the_best_is_handed_in(tmp_path: Path) -> None:
    (task,) = write_tasks(tmp_path)
    own = ("--evaluation", "three-splits", "--set", "evaluation.ensemble=3", "--rounds", "free", "-j", "3")
    with FaultyServer(searching) as server:
        line = command(server, "search", "--preset", "rd-agent", "--max-turns", "10", *own, "--graph", "graphs")
        (made,) = records(run_command(*line, cwd=tmp_path).stdout)
        told = "".join(json.dumps(request) for request in server.requests)
    views = tmp_path / "views"
    within, outer = views / f"{task['id']}-0.2-within", views / f"{task['id']}-0.2-selection"

    def ids(path: Path) -> set[str]:
        with path.open() as file:
            return {row["id"] for row in csv.DictReader(file)}

    train, test = ids(within / "public/train.csv"), ids(within / "public/test.csv")
    validation, selection = (ids(view / "private/validation.csv") for view in (within, outer))
    assert train and validation and selection and not train & (validation | selection) and not validation & selection
    hidden = ids(tmp_path / task["data"]["dir"] / "public/test.csv")
    assert test == hidden | validation | selection
    slopes = {
        turn["node"]["number"]: float(re.findall(r"([\d.]+) \* float", turn["code"])[-1])
        for turn in made["turns"]
        if turn["node"]["score"] is not None
    }
    for each in made["search"]["candidates"]:
        slope = slopes[each["node"]]
        assert each["score"] == score_by_hand(within / "private/validation.csv", slope)
        assert each["holdout"] == score_by_hand(outer / "private/validation.csv", slope)
        assert f"{each['holdout']}" not in told or f"{each['holdout']}" == f"{each['score']}"
    members = [each["node"] for each in made["search"]["candidates"][:3]]
    together = statistics.fmean(slopes[number] for number in members)
    best = made["search"]["candidates"][0]
    better = score_by_hand(outer / "private/validation.csv", together) < best["holdout"]
    assert (made["search"].get("ensemble") == members) == better
    used = together if better else slopes[best["node"]]
    (after,) = graded(tmp_path, [made])
    assert after["grade"]["valid"]
    with (tmp_path / made["execution"]["submission"]["file"]).open() as file:
        handed_in = {row["id"]: float(row["y"]) for row in csv.DictReader(file)}
    assert handed_in.keys() == hidden
    with (tmp_path / task["data"]["dir"] / "public/test.csv").open() as file:
        xs = {row["id"]: float(row["x"]) for row in csv.DictReader(file)}
    assert all(handed_in[id] == pytest.approx(used * xs[id]) for id in hidden)


@pytest.mark.slow
def test_a_stopped_search_leaves_the_programs_that_run(tmp_path: Path) -> None:
    """They are ended with the command, and the best so far is handed in."""
    write_tasks(tmp_path)

    def hanging(body: dict[str, Any]) -> str:
        text = searching(body)
        late = len(list((tmp_path / "graphs").glob("*.jsonl"))) and sum(1 for _ in graph().open()) >= 5
        return text.replace("import csv", "import csv, time\ntime.sleep(250)", 1) if late else text

    def graph() -> Path:
        return next((tmp_path / "graphs").glob("*.jsonl"))

    environment = {key: value for key, value in os.environ.items() if not key.startswith("MLE_")}
    with FaultyServer(hanging) as server:
        line = search(server, "aide", 40, "--rounds", "free", "--workers", "2", "-j", "2", "--graph", "graphs")
        line += ["-o", "out.jsonl", "--timeout", "280"]
        process = subprocess.Popen([str(BIN / line[0]), *line[1:]], cwd=tmp_path, env=environment)
        end = time.monotonic() + 60
        while time.monotonic() < end and not (
            list((tmp_path / "graphs").glob("*.jsonl"))
            and sum(1 for _ in graph().open()) >= 5
            and b"time.sleep(250)" in (tmp_path / "out.jsonl.tape").read_bytes()
        ):
            time.sleep(0.1)
            if process.poll() is not None:
                break
        family = set(descendants(process.pid))
        (tmp_path / "graphs/stop").touch()
        assert process.wait(timeout=100) == 0 and gone(family)
    (made,) = records((tmp_path / "out.jsonl").read_bytes())
    assert made["search"]["ended"] == "user" and 4 <= len(made["turns"]) < 40
    assert made["search"]["chosen"] is not None


def test_a_refused_request_costs_a_node_and_no_search(tmp_path: Path) -> None:
    write_tasks(tmp_path, 1)
    with FaultyServer(searching, [""] * 14 + ["400"]) as server:
        (made,) = records(run_command(*search(server, "rd-agent", 6), cwd=tmp_path).stdout)
    assert len(made["turns"]) == 6 and made["search"]["chosen"] is not None
    assert made["search"].get("fallbacks") or "unanswered" in [turn["problem"] for turn in made["turns"]]


def test_what_a_refused_search_has_paid_for_is_kept(tmp_path: Path) -> None:
    write_tasks(tmp_path, 2)
    options = ("-o", "out.jsonl", "--max-rejects", "1", "--rejects", "rejects.jsonl")
    with FaultyServer(searching, ["400"]) as server:
        line = [each for each in search(server, "aide", 3, *options) if each != "-q"]
        told = run_command(*line, cwd=tmp_path).stderr.decode()
        assert "--resume works on the refused searches again, with the nodes that they have" in told
        assert len(records((tmp_path / "out.jsonl").read_bytes())) == 1
        assert (tmp_path / "out.jsonl.graph").is_dir() and (tmp_path / "out.jsonl.tape").is_file()
        run_command(*line, "--resume", cwd=tmp_path)
    assert len(records((tmp_path / "out.jsonl").read_bytes())) == 2
    assert not list(tmp_path.glob("out.jsonl.*"))


def test_a_task_whose_search_never_began_leaves_nothing(tmp_path: Path) -> None:
    write_tasks(tmp_path, 2)
    shutil.rmtree(next((tmp_path / "tasks").iterdir()))
    options = ("-o", "out.jsonl", "--max-rejects", "1", "--rejects", "rejects.jsonl")
    with FaultyServer(searching) as server:
        run_command(*search(server, "aide", 2, *options), cwd=tmp_path)
    assert len(records((tmp_path / "out.jsonl").read_bytes())) == 1
    assert not list(tmp_path.glob("out.jsonl.*"))
