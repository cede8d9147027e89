"""Tasks made by a model in four roles: a scripted server answers, a real sandbox runs what it writes."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest
import scripted_server as scripted
from conftest import SUPPORT, TESTS, mostly_slow, records, run_command
from role_options import options
from scripted_server import Cut, Raw, RoleServer, good

from mletools.base.errors import ToolError
from mletools.cli_options import options as add_options
from mletools.grading import check_task, grade, metrics
from mletools.models.options import RoleOptions
from mletools.prompts import answers
from mletools.records import schema
from mletools.rollout import task_models
from mletools.rollout.task_models import open_maker
from mletools.sandbox import Limits, Sandbox, Setup, open_sandbox
from mletools.tasks import soundness
from mletools.tasks.code_metrics import CodeMetrics
from mletools.tasks.folder import data_digest, private_digest
from mletools.tasks.forms import written_as
from mletools.tasks.make import NoTask
from mletools.tasks.options import LlmOptions, TaskRole, check_name
from mletools.tasks.record import Parts, finish
from mletools.tasks.roles import Journal, replies, scripts
from mletools.tasks.roles.asking import Faulty, Talk
from mletools.tasks.roles.checked import LlmTasks
from mletools.tasks.roles.developer import Developed, develop
from mletools.tasks.roles.evaluator import evaluate
from mletools.tasks.roles.maker import LlmMaker, ScriptBox
from mletools.tasks.roles.specification import OFFERED, PARSES, Specification, read_specification
from mletools.tasks.roles.strategist import DNA_KEYS
from mletools.tasks.roles.writer import problem_of
from mletools.tasks.table import Rejected, generator

SECRET = "quicksilver"  # stands in the seed's private folder alone


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox("auto", Setup(2)) as found:
        yield found


@pytest.fixture
def place(tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two seed tasks in seeds/; makers share one sandbox."""
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)

    @contextmanager
    def shared(backend: str, setup: Setup) -> Iterator[Sandbox]:
        assert backend == "auto"
        yield sandbox

    monkeypatch.setattr(task_models, "open_sandbox", shared)
    lines = [json.dumps(seed_task(tmp_path / "seeds", name)) for name in ("winery", "harbour")]
    (tmp_path / "seeds" / "tasks.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def seed_task(data: Path, name: str) -> dict[str, Any]:
    table = "id,cask_age,region,price\n" + "".join(
        f"{at},{at % 7}.5,{'north' if at % 3 else 'south'},{at}\n" for at in range(30)
    )
    parts = Parts(
        name=name, description=f"# The {name}\n\nPredict the price.", modality="tabular", problem="regression",
        public={"train.csv": table.encode(), "test.csv": b"id,cask_age,region\n90,1,north\n"},
        private={"private/answers.csv": f"id,price,{SECRET}\n90,12,x\n".encode()},
        grading={"submission": {"id": ["id"], "target": ["price"], "parse": "number", "rows": 1},
                 "metric": {"name": "rmse", "params": {}, "lower_is_better": True}, "answers": "private/answers.csv"},
        provenance={"source": "test", "seed": 0},
    )  # fmt: skip
    return finish(parts, data, (name,))


@pytest.fixture
def serve() -> Iterator[Callable[..., RoleServer]]:
    servers: list[RoleServer] = []

    def start(**changes: Any) -> RoleServer:
        servers.append(RoleServer(good(**changes)))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@contextmanager
def maker(
    place: Path, server: RoleServer, examine: Any = None, roles: Any = MappingProxyType({}), **changes: Any
) -> Iterator[LlmMaker]:
    limits = Limits(wall_s=6.0, file_mb=40, disk_mb=64, output_kb=64, submission_mb=32)
    given = options(place, server, **changes)
    with open_maker(given, 5, place / "data", limits=limits, examine=examine, roles=roles) as found:
        yield found


def make(place: Path, server: RoleServer, index: int = 0, **more: Any) -> tuple[dict[str, Any], list[str]]:
    with maker(place, server, **more) as found:
        return found(("llm", index))


def test_a_role_has_its_own_model_server_key_price_and_sampling(place: Path, serve: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("DEVELOPER_KEY", "sk-developer")
    mine, other, bodies = serve(), serve(), list[Any]()
    for server in (mine, other):
        server.sees = bodies.append
    roles = {
        "developer": TaskRole(
            "coder-1",
            other.url,
            RoleOptions(
                key_env="DEVELOPER_KEY", temperature=0.2, top_p=0.9, max_tokens=9000, price=(2.0, 20.0),
                option=({"reasoning_effort": "high"},),
            ),
        ),
        "writer": TaskRole(options=RoleOptions(temperature=0.0)),
        "evaluator": TaskRole(options=RoleOptions(option=({"user": "me"},))),
    }  # fmt: skip
    record, _ = make(place, mine, price=None, roles=roles)
    assert mine.count() == {"dna": 1, "scenarios": 1, "mutations": 1, "specification": 1, "evaluator": 1, "writer": 1}
    assert other.count() == {"developer": 1}
    sent = {name: [body.get(name) for body in bodies] for name in ("model", "temperature", "top_p", "max_tokens")}
    assert sent["model"] == ["writer-1"] * 4 + ["coder-1"] + ["writer-1"] * 2
    assert sent["temperature"] == [1.0] * 4 + [0.2, 1.0, 0.0] and sent["top_p"] == [None] * 4 + [0.9, None, None]
    assert sent["max_tokens"] == [4096] * 4 + [9000, 4096, 4096]
    assert [body.get("reasoning_effort") for body in bodies] == [None] * 4 + ["high", None, None]
    assert [body.get("user") for body in bodies] == [None] * 5 + ["me", None]
    costs = record["provenance"]["cost_by_role"]
    assert costs["developer"] == {"calls": 1, "prompt_tokens": 100, "completion_tokens": 10, "usd": 0.0004}
    assert costs["writer"]["usd"] is None and record["provenance"]["cost"]["usd"] is None


def test_a_role_without_any_model_is_named(place: Path, serve: Any) -> None:
    with pytest.raises(ToolError, match=r"needs a model: give -m .*\(or --developer, which has none\)"):
        make(place, serve(), model=None, roles={"strategist": TaskRole("a", "http://127.0.0.1:9")})


def journal(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "data/roles/journal.jsonl").read_bytes().split(b"\n") if line]


def drop(handler: Any) -> None:
    handler.close_connection = True


def refuse(handler: Any) -> None:
    handler.send_response(400)
    content = b'{"error": {"message": "the prompt is too long"}}'
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


# --- the good path ------------------------------------------------------------------------------------------------------


def test_a_task_with_a_named_metric(place: Path, serve: Any) -> None:
    server, seen = serve(), []
    record, reasons = make(place, server, examine=lambda record, files: seen.append((record["id"], sorted(files))))
    schema.check(record, "task")
    check_task(record)
    assert reasons == [] and sum(server.count().values()) == 7
    assert record["metric"] == {"name": "mae", "params": {}, "lower_is_better": True}
    assert record["submission"]["id"] == ["board"] and record["submission"]["parse"] == "number"
    assert (record["name"], record["modality"], record["problem"]) == ("kiln-days", "tabular", "regression")
    told = record["provenance"]
    assert (told["source"], told["seed"], told["index"]) == ("llm", 5, 0) and told["seed_task"].startswith("winery-")
    assert (
        told["dna"] == scripted.DNA
        and told["scenario"] in scripted.SCENARIOS
        and told["mutations"] == scripted.MUTATIONS
    )
    assert told["hidden_rule"] == scripted.RULE and told["sanity"]["evaluator_tried"] == "passed: agrees with mae"
    assert told["cost"] == {"calls": 5, "prompt_tokens": 500, "completion_tokens": 50, "usd": 0.001}
    assert {role: cost["calls"] for role, cost in told["cost_by_role"].items()} == {
        "strategist": 2, "developer": 1, "evaluator": 1, "writer": 1
    }  # fmt: skip
    assert told["seed_cost"] == {"calls": 2, "prompt_tokens": 200, "completion_tokens": 20, "usd": 0.0004}
    assert [(each["role"], each["attempt"], each["error"]) for each in told["attempts"]] == [
        ("strategist.dna", 1, None), ("strategist.scenarios", 1, None), ("strategist.mutations", 1, None),
        ("strategist.specification", 1, None), ("developer", 1, None), ("evaluator", 1, None), ("writer", 1, None),
    ]  # fmt: skip
    assert record["lineage"] == [] and "second" not in json.dumps(told)
    folder = place / "data" / record["data"]["dir"]
    assert sorted(path.name for path in (folder / "public").iterdir()) == record["data"]["public"]
    assert record["data"]["public"] == ["description.md", "sample_submission.csv", "test.csv", "train.csv"]
    assert sorted(path.name for path in (folder / "private").iterdir()) == [
        "answer.csv", "ceiling_submission.csv", "evaluator.py", "generate_task_env.py", "threshold.json",
    ]  # fmt: skip
    assert data_digest(folder, record["data"]["public"], record["answers"]) == record["data"]["digest"]
    assert private_digest(folder, record) == record["data"]["private_digest"]
    best = grade(record, folder, (folder / record["answers"]).read_bytes())
    assert best.valid and best.score == 0 and best.medal == "gold"
    dummy = grade(record, folder, (folder / "public/sample_submission.csv").read_bytes())
    rule = grade(record, folder, (folder / "private/ceiling_submission.csv").read_bytes())
    assert dummy.valid and not dummy.above_median and rule.medal == "gold" and best.score < rule.score
    assert told["baselines"] == [{"name": "dummy", "score": dummy.score}, {"name": "ceiling", "score": rule.score}]
    assert seen == [(record["id"], [*(f"private/{name}" for name in ("answer.csv", "ceiling_submission.csv", "evaluator.py", "generate_task_env.py", "threshold.json")), *(f"public/{name}" for name in record["data"]["public"])])]  # fmt: skip


@pytest.mark.slow
def test_the_journal_tells_what_each_reply_cost(place: Path, serve: Any) -> None:
    make(place, serve())
    entries = journal(place)
    assert [entry["role"] for entry in entries][-1] == "writer" and len(entries) == 7
    for entry in entries:
        assert entry["digest"].startswith("sha256:") and entry["reply"] and entry["error"] is None
        assert entry["usd"] == 0.0002 and entry["seconds"] > 0 and entry["prompt_tokens"] == 100
        assert entry["attempt"] == 1 and entry["task"].startswith("winery-")


def test_a_task_with_a_metric_of_its_own_is_graded_by_its_script(place: Path, serve: Any) -> None:
    server = serve(specification=[scripted.custom], writer=[scripted.PAGE.format(metric="Mean drying error")])
    record, _ = make(place, server)
    schema.check(record, "task")
    assert record["metric"] == {"file": "private/evaluator.py", "style": "script", "lower_is_better": True}
    folder = place / "data" / record["data"]["dir"]
    answers = (folder / "private/answer.csv").read_bytes()
    with CodeMetrics("local", Limits()) as box:
        best = grade(record, folder, answers, run_code=box)
        sample = grade(record, folder, (folder / "public/sample_submission.csv").read_bytes(), run_code=box)
        broken = grade(record, folder, b"board,dry_days\n1,2\n", run_code=box)
    assert best.medal == "gold"
    assert sample.score == record["provenance"]["baselines"][0]["score"] and sample.medal is None
    assert not broken.valid and broken.reason == "id '1' is not in the test set (1 such rows)"


@pytest.mark.slow
def test_a_task_with_pictures(place: Path, serve: Any) -> None:
    def specified(prompt: str) -> str:
        return json.dumps(scripted.specification(prompt, modality="image"))

    def generated(prompt: str, folder: str = "images") -> str:
        code = scripted.generator(prompt).replace("train, test =", f"""
import os
os.mkdir("{folder}")
table.insert(1, "photo", ["{folder}/%d.png" % at for at in table.board])
for name in table.photo:
    with open(name, "wb") as file:
        file.write(b"\\x89PNG\\r\\n\\x1a\\n" + name.encode())
train, test =""")  # fmt: skip
        return code

    page = scripted.PAGE.format(metric="mae")
    named = page.replace("| `moisture`", "| `photo` | picture, a file in `images/` |\n| `moisture`")
    replies = [scripted.generator, lambda prompt: generated(prompt).replace('b"\\x89PNG', 'b"GIF'), generated]
    server = serve(specification=[specified], developer=replies, writer=[page, named])
    record, _ = make(place, server)
    faults = server.fed_back("developer")
    assert (
        "a task of images needs files in images/" in faults[0]
        and "not the kind of file that its name says" in faults[1]
    )
    assert "does not name the column(s) photo" in server.fed_back("writer")[0]
    pictures = [name for name in record["data"]["public"] if name.startswith("images/")]
    assert record["modality"] == "image" and len(pictures) >= 50
    folder = place / "data" / record["data"]["dir"]
    assert all((folder / "public" / name).is_file() for name in pictures)
    assert data_digest(folder, record["data"]["public"], record["answers"]) == record["data"]["digest"]


@pytest.mark.slow
def test_seeds_take_turns_and_are_studied_once(place: Path, serve: Any) -> None:
    server = serve()
    with maker(place, server) as found:
        records = [found(("llm", index))[0] for index in range(3)]
    assert [record["provenance"]["seed_task"].partition("-")[0] for record in records] == [
        "winery",
        "harbour",
        "winery",
    ]
    assert server.count() == {role: 2 if role in ("dna", "scenarios") else 3 for role in scripted.MARKS}
    rows = {record["submission"]["rows"] for record in records}
    assert len(rows) > 1 and len({record["id"] for record in records}) == 3


def test_the_model_sees_the_seed_but_not_its_answers(place: Path, serve: Any) -> None:
    server = serve()
    make(place, server)
    shown = server.asked[0][1][0]["content"]
    for part in (
        "# The winery",
        "cask_age",
        "numbers from 0.5 to 6.5",
        "shares 67/33 %",
        "rmse; lower is better",
        "30 rows read",
    ):
        assert part in shown
    assert SECRET not in json.dumps(server.asked)
    writer = next(messages for role, messages in server.asked if role == "writer")[0]["content"]
    assert scripted.RULE not in writer and "uniform from 10" not in writer and "threshold" not in writer


@pytest.mark.slow
def test_threads_share_a_seed_without_paying_twice(place: Path, serve: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    server = serve()
    with maker(place, server, seeds=(str(place / "seeds/tasks.jsonl"),)) as found, ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda index: found(("llm", index))[0], (0, 2))
    assert server.count()["dna"] == 1 and server.count()["mutations"] == 2
    assert first["provenance"]["dna"] == second["provenance"]["dna"] and first["id"] != second["id"]


# --- faults are fed back ------------------------------------------------------------------------------------------------


def python(code: str) -> str:
    return f"```python\n{textwrap.dedent(code)}\n```"


def changed(line: str, other: str) -> Callable[[str], str]:
    """The good generator with one line changed."""

    def reply(prompt: str) -> str:
        code = scripted.generator(prompt)
        assert line in code
        return code.replace(line, other)

    return reply


DEVELOPERS = {
    "trace": (python("import pandas as pd\npd.DataFrame({'a': [1]})['colour']"), "KeyError: 'colour'"),
    "syntax": (python("for"), "the script is not Python: line 1: invalid syntax"),
    "two blocks": ("```python\na = 1\n```\n```python\nb = 1\n```", "the reply holds 2 blocks of code"),
    "open block": ("```python\na = 1\n", "the block of code is never closed"),
    "nothing": (python("pass"), "the script left no train.csv"),
    "empty": ("", "the reply is empty"),
    "thoughts": ("<think>perhaps", "the reply holds thoughts and no answer"),
    "exit": (python("raise SystemExit(3)"), "the script ended with exit code 3"),
    "chance": (changed("RandomState(7)", "RandomState()"), "two runs of the script do not give the same bytes: answer.csv, ceiling_submission.csv"),
    "index": (changed('train.to_csv("train.csv", index=False)', 'train.to_csv("train.csv")'), "write no index column"),
    "ids": (changed('answer.assign(dry_days=60.0)', 'answer.assign(dry_days=60.0, board=range(tested))'), "the ids of sample_submission.csv do not match"),
    "order": (changed('("gold", 0.8)', '("gold", 0.6)'), "the thresholds are not strictly ordered from median to gold (lower is better)"),
    "dummy": (changed("dry_days=60.0", "dry_days=mean"), "name 'mean' is not defined"),
    "easy": (changed("dry_days=60.0", "dry_days=test.dry_days + 0.1"), "which is not worse than the median threshold"),
    "told": (changed("dry_days=60.0", "dry_days=test.dry_days"), "sample_submission.csv holds the answers"),
    "ceiling": (changed("rule[:tested].round(2)", "30.0"), "ceiling_submission.csv scores"),
    "copies": (changed("train.to_csv(", "train = pd.concat([train, test.head(1).assign(board=1)]); train.to_csv("), "have the very features of a row of train.csv"),
    "target": (changed('test.drop(columns="dry_days")', "test"), "test.csv must have the columns of train.csv but for the target"),
    "rows": (changed("total = ", "total = 2 * "), "rows together"),
    "stray": (changed("tested = ", "open('notes.txt', 'w').close(); tested = "), "notes.txt has no place here"),
    "threshold": (changed("json.dump(error, file)", "json.dump({'gold_threshold': 1}, file)"), "threshold.json has no number median_threshold"),
    "beyond numbers": (changed("json.dump(error, file)", "json.dump({'median_threshold': 10**400}, file)"), "threshold.json is not JSON: "),
    "numbers": (changed("answer.to_csv", "answer.assign(dry_days='x').to_csv"), "all answers are the same, 'x'"),
}  # fmt: skip


def groups(kinds: dict[str, Any]) -> list[list[str]]:
    """Four at a time: with a good script at the end, these are the attempts that a developer has."""
    names = list(kinds)
    return [names[at : at + 4] for at in range(0, len(names), 4)]


@pytest.mark.parametrize("kinds", mostly_slow(groups(DEVELOPERS), 1), ids=" ".join)
def test_broken_scripts_are_told_and_then_fixed(place: Path, serve: Any, kinds: list[str]) -> None:
    server = serve(developer=[*(DEVELOPERS[kind][0] for kind in kinds), scripted.generator], evaluator=[Raw(refuse)])
    with pytest.raises(Rejected, match="evaluator: the server refuses"):  # so the developer is done
        make(place, server)
    for kind, fault in zip(kinds, server.fed_back("developer"), strict=True):
        assert DEVELOPERS[kind][1] in fault


@pytest.mark.slow
def test_a_task_made_at_the_second_attempt(place: Path, serve: Any) -> None:
    server = serve(developer=[python("1 / 0"), scripted.generator])
    record, reasons = make(place, server)
    assert "ZeroDivisionError: division by zero" in server.fed_back("developer")[0]
    assert len(reasons) == 1 and reasons[0].startswith("developer: the script cannot be used: it failed:")
    failed = [each for each in record["provenance"]["attempts"] if each["error"]]
    assert [(each["role"], each["attempt"]) for each in failed] == [("developer", 1)]
    assert record["provenance"]["cost"]["calls"] == 6


def test_a_trace_names_the_line_and_no_folder_of_the_machine(place: Path, serve: Any) -> None:
    server = serve(developer=[python("import json\n\njson.loads('{')"), scripted.generator], evaluator=[Raw(refuse)])
    with pytest.raises(Rejected):
        make(place, server)
    (fault,) = server.fed_back("developer")
    assert 'File "generate_task_env.py", line 3, in <module>' in fault and "JSONDecodeError" in fault
    assert "/usr" not in fault and "runpy" not in fault and "/lib" not in fault


@pytest.mark.slow
def test_a_reply_that_is_cut_off_is_asked_for_again(place: Path, serve: Any) -> None:
    server = serve(
        developer=[Cut("```python\nimport num"), scripted.generator],
        dna=[Cut(json.dumps(scripted.DNA)), json.dumps(scripted.DNA)],
    )
    record, _ = make(place, server)
    for role in ("developer", "dna"):
        assert "the reply was cut off before its end" in server.fed_back(role)[0]
    assert record["provenance"]["cost"]["calls"] == 6 and record["provenance"]["seed_cost"]["calls"] == 3


@pytest.mark.slow
def test_attempts_run_out_and_the_task_is_rejected(place: Path, serve: Any) -> None:
    server = serve(developer=[python("1 / 0")])
    with maker(place, server) as found:
        with pytest.raises(Rejected, match=r"developer: 5 attempts used up, the last one because .*ZeroDivisionError"):
            found(("llm", 0))
        server.replies["developer"] = [scripted.generator]
        found(("llm", 1))
    assert server.count()["developer"] == 6 and [
        path.name.partition("-")[0] for path in (place / "data/tasks").iterdir()
    ] == ["kiln"]


STRATEGISTS = {
    "dna": [("I cannot.", "no JSON object"), ('{"modality": "tabular"}', "says nothing of problem, inputs")],
    "scenarios": [("[]", "must hold 5 objects"), (json.dumps(scripted.SCENARIOS[:1] * 5), "the domains must differ")],
    "mutations": [(json.dumps(scripted.MUTATIONS[:2]), "must hold 3 objects"), ("[1, NaN, 3]", "no valid JSON list")],
    "specification": [
        (lambda prompt: json.dumps(scripted.specification(prompt, n_samples=1000)), "n_samples must be"),
        (lambda prompt: json.dumps(scripted.specification(prompt, lower_is_better=False)), "lower_is_better must be true for mae"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("role", STRATEGISTS)
def test_the_strategist_is_told_what_is_wrong(place: Path, serve: Any, role: str) -> None:
    server = serve(**{role: [*(reply for reply, _ in STRATEGISTS[role]), *good()[role]]}, developer=[Raw(refuse)])
    with pytest.raises(Rejected, match="developer: the server refuses"):  # so the strategist is done
        make(place, server)
    for fault, (_, told) in zip(server.fed_back(role), STRATEGISTS[role], strict=True):
        assert told in fault


SPECIFICATIONS = [
    ({"metric": {"name": "iou"}}, "metric.name must be one of accuracy"),
    ({"metric": {"name": "custom"}}, "submission.form must be one of label, number, text"),
    ({"submission": {"id": "board", "columns": ["other"]}}, 'submission.columns must be ["dry_days"]'),
    ({"submission": {"id": "moisture", "columns": ["dry_days"]}}, "submission.id must be the name of a column of its own"),
    ({"target": {"column": "../x", "meaning": "x"}}, "the target column '../x' is refused"),
    ({"feature_mapping": {}}, "feature_mapping must name 1 to 40 features"),
    ({"thresholds_logic": "easy"}, "thresholds_logic must be an object"),
    ({"hidden_rule_logic": ""}, "hidden_rule_logic must be a text"),
    ({"metric": {"name": "log_loss"}}, "target.labels must list the labels"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "told"), SPECIFICATIONS)
def test_a_specification_is_checked(change: dict[str, Any], told: str) -> None:
    value = scripted.specification('"n_samples": the number 60', **change)
    with pytest.raises(Faulty) as fault:
        read_specification(value, 60)
    assert told in str(fault.value)


# --- scripts that mean harm ---------------------------------------------------------------------------------------------

HOSTILE = {
    "network": ("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=3)", "it failed"),
    "link": ("import os\nos.symlink('/etc/passwd', 'train.csv')", "train.csv is a symbolic link"),
    "pipe": ("import os\nos.mkfifo('train.csv')", "train.csv is a named pipe"),
    "huge": ("with open('train.csv', 'wb') as file:\n    for _ in range(300):\n        file.write(b'x' * 2**20)", ""),
    "large": ("for at in range(2):\n    open(f'{at}.csv', 'wb').write(b'x' * (15 << 20))", "more than 24 MB together"),
    "many": ("for at in range(1001):\n    open(f'{at}.csv', 'w').close()", "more than 1000 files"),
    "loop": ("while True: pass", "it ran longer than it may"),
    "memory": ("x = bytearray(4 << 30)", ""),
    "words": ("print('x' * 2**20)", "it printed more than it may"),
    "name that leads elsewhere": ("open('a\\\\b.csv', 'w').close()", "is refused: at most two folders"),
    "folder gone": ("import os\nos.rename('../env', '../gone')\nos._exit(0)", "the files are not handed out: no env"),
    "linked folder": ("import os\nos.rename('../env', '../gone')\nos.symlink('/etc', '../env')\nos._exit(0)", "the files are not handed out: env is a symbolic link"),
    "answers": ("import os\nopen('train.csv', 'w').write(str(os.listdir('{seeds}')))", "it failed"),
}  # fmt: skip


@pytest.mark.parametrize("kinds", mostly_slow(groups(HOSTILE), 1), ids=" ".join)
def test_hostile_generators_end_as_data(place: Path, serve: Any, kinds: list[str]) -> None:
    sources = [python(HOSTILE[kind][0].replace("{seeds}", str(place / "seeds"))) for kind in kinds]
    server = serve(developer=[*sources, scripted.generator], evaluator=[Raw(refuse)])
    with pytest.raises(Rejected, match="evaluator: the server refuses"):
        make(place, server)
    for kind, fault in zip(kinds, server.fed_back("developer"), strict=True):
        assert HOSTILE[kind][1] in fault
    assert sorted(os.listdir(place)) == ["data", "seeds"] and SECRET not in json.dumps(server.asked)


def test_files_that_cannot_be_used_are_an_error_of_the_script() -> None:
    left = {
        "env/docs/a.txt": b"a",
        "env/train.csv": b"",
        "env/generate_task_env.py": b"x",
        "env/__pycache__/x.pyc": b"x",
    }
    run = scripts.script_run("ok", b"", b"", left, {})
    assert (run.status, run.files) == ("ok", {"docs/a.txt": b"a", "train.csv": b""})
    many = {f"env/{at}": b"" for at in range(1001)}
    for outputs, problems in ((many, {}), ({"env/a.csv": bytes((24 << 20) + 1)}, {}), ({}, {"env/": "no env"})):
        run = scripts.script_run("ok", b"", b"", outputs, problems)
        assert (run.status, run.files) == ("error", {}) and b"not handed out" in run.stderr
    assert scripts.script_run("timeout", b"", b"", left, {}).files == {}


# --- the evaluator ------------------------------------------------------------------------------------------------------


def printing(words: str) -> Callable[[str], str]:
    return lambda prompt: python(f"print({words!r})")


def printing_code(code: str) -> Callable[[str], str]:
    return lambda prompt: python(code)


def judged_by(body: str) -> Callable[[str], str]:
    return lambda prompt: scripted.evaluator(prompt, body)


def without(line: str) -> Callable[[str], str]:
    def reply(prompt: str) -> str:
        code = scripted.evaluator(prompt)
        assert line in code
        return code.replace(line, "if False:")

    return reply


FORGED = json.dumps(
    {
        "score": 0.0,
        **{f"{name}_threshold": 1 for name in ("gold", "silver", "bronze", "median")},
        "is_lower_better": True,
    }
)
EVALUATORS = {
    "another metric": (judged_by("return np.sqrt(np.abs(truth - guess)).mean()"), "gives the sample submission the score"),
    "almost": (judged_by("return np.abs(truth - guess).sum() / (len(truth) + 0.1)"), "by the definition of the metric it is"),
    "forged": (printing(FORGED), "median_threshold must be"),
    "no json": (printing("the score is 1"), "the last line that the evaluator prints is no JSON"),
    "huge": (printing('{"score": 1' + "0" * 400 + "}"), "the last line that the evaluator prints is no JSON"),
    "list": (printing("[1]"), "is no JSON object"),
    "pretty": (lambda prompt: scripted.evaluator(prompt).replace("LOWER}))", "LOWER}, indent=1))"), "is no JSON"),
    "lenient with ids": (without("if sorted(guess[KEY]) != sorted(truth[KEY]):"), "a submission without its last row must give an object with"),
    "lenient with gaps": (without("if guess[TARGETS].isna().any().any():"), "a submission with an empty cell in dry_days"),
    "by position": (lambda prompt: scripted.evaluator(prompt).replace('truth.merge(guess, on=KEY, suffixes=("_true", ""))', 'truth.add_suffix("_true").join(guess)'), "the score depends on the order of the rows: merge on board"),
    "chance": (judged_by("return np.abs(truth - guess).mean() + np.random.RandomState().uniform() / 1e6"), "different scores"),
    "crash": (printing_code("import os\nos._exit(1)"), "the evaluator cannot be used"),
    "refuses all": (printing('{"error": "no"}'), "the evaluator refuses the sample submission, which is sound: no"),
    "not finite": (judged_by("return float('nan')"), "is no JSON"),
    "direction": (lambda prompt: scripted.evaluator(prompt).replace("LOWER = True", "LOWER = False"), "is_lower_better must be true"),
    "writes": (printing_code("open('answer.csv', 'w').write('board,dry_days')"), "the evaluator cannot be used"),
}  # fmt: skip


class Told(Exception):
    """Ends a talk where the model would answer for the second time."""


@pytest.fixture(scope="module")
def developed(sandbox: Sandbox) -> tuple[Specification, Developed]:
    """What the good strategist and the good developer make."""
    wanted = read_specification(scripted.specification('"n_samples": the number 60'), 60)
    talk = Talk(lambda role, task, attempt, messages: scripted.generator(messages[0]["content"]), "task")
    return wanted, develop(talk, wanted, ScriptBox(sandbox, Limits()), (1, 2))


@pytest.mark.parametrize("kind", mostly_slow(EVALUATORS, 4))
def test_a_wrong_evaluator_is_told(developed: Any, sandbox: Sandbox, kind: str) -> None:
    def ask(role: str, task: str, attempt: int, messages: list[dict[str, str]]) -> str:
        if attempt == 2:
            raise Told(messages[-1]["content"])
        return EVALUATORS[kind][0](messages[0]["content"])

    wanted, made = developed
    with pytest.raises(Told) as told:
        evaluate(Talk(ask, "task"), wanted, made, ScriptBox(sandbox, Limits()), generator(1))
    assert EVALUATORS[kind][1] in str(told.value)


@pytest.mark.slow
def test_a_task_whose_evaluator_was_wrong_at_first(place: Path, serve: Any) -> None:
    server = serve(evaluator=[EVALUATORS["another metric"][0], EVALUATORS["forged"][0], scripted.evaluator])
    record, reasons = make(place, server)
    assert [reason.partition(":")[0] for reason in reasons] == ["evaluator"] * 2
    assert record["provenance"]["cost"]["calls"] == 7


def test_a_third_wrong_evaluator_ends_the_task(place: Path, serve: Any) -> None:
    server = serve(evaluator=[printing(FORGED)])
    with pytest.raises(Rejected, match=r"evaluator: 3 attempts used up"):
        make(place, server)
    assert server.count()["evaluator"] == 3 and not (place / "data/tasks").exists()


@pytest.mark.slow
def test_a_custom_metric_that_prefers_the_dummy_is_refused(place: Path, serve: Any) -> None:
    backwards = judged_by("return -np.abs(truth - guess).mean()")
    server = serve(specification=[scripted.custom], evaluator=[backwards])
    with pytest.raises(Rejected, match="is not worse than the median threshold"):
        make(place, server)


# --- every form of submission, judged by scikit-learn --------------------------------------------------------------------

LABELS = ["ash", "elm", "oak"]
KINDS = {
    "accuracy": ("return (truth == guess).mean()", LABELS),
    "f1_macro": ("from sklearn.metrics import f1_score\n    return f1_score(truth.ravel(), guess.ravel(), average='macro')", LABELS),
    "auroc": ("from sklearn.metrics import roc_auc_score\n    return roc_auc_score(truth.ravel(), guess.ravel())", ["0", "1"]),
    "log_loss": ("from sklearn.metrics import log_loss\n    return log_loss(truth, guess, labels=[0, 1, 2])".replace("log_loss(truth,", "log_loss(truth.argmax(axis=1),"), LABELS),
    "r2": ("from sklearn.metrics import r2_score\n    return r2_score(truth, guess)", []),
    "jaccard_sets": ("return np.mean([len(set(a.split()) & set(b.split())) / len(set(a.split()) | set(b.split())) for a, b in zip(truth.ravel(), guess.ravel())])", []),
}  # fmt: skip
FORMED = """
import json
import numpy as np
import pandas as pd

rng = np.random.RandomState(3)
total, form, labels = {rows}, {form!r}, {labels!r}
tested = round(total / 6)
size = rng.uniform(1, 9, total).round(6)
if form == "number":
    kind = (size * 2).round(3)
elif form == "tagset":
    kind = np.array([" ".join(sorted(rng.permutation(["a", "b", "c"])[: 1 + int(s > 5)])) for s in size])
else:
    kind = np.array(labels)[rng.randint(len(labels), size=total)]
table = pd.DataFrame({{"tree": np.arange(total) + 100, "size": size, "kind": kind}})
train, test = table[tested:], table[:tested]
train.to_csv("train.csv", index=False)
test.drop(columns="kind").to_csv("test.csv", index=False)
answer = test[["tree", "kind"]]
sample = answer.assign(kind=rng.permutation(answer.kind.to_numpy()))
if form == "probability":
    sample = answer.assign(kind=rng.uniform(size=tested).round(3))
if form == "probabilities":
    for label in labels:
        answer = answer.assign(**{{"prob_" + label: (answer.kind == label).astype(int)}})
        sample = sample.assign(**{{"prob_" + label: round(1 / 3, 6)}})
    answer, sample = answer.drop(columns="kind"), sample.drop(columns="kind")
answer.to_csv("answer.csv", index=False)
answer.to_csv("ceiling_submission.csv", index=False)
sample.to_csv("sample_submission.csv", index=False)
low, high = {ends}
steps = zip(("median", "bronze", "silver", "gold"), np.linspace(low, high, 4))
with open("threshold.json", "w") as file:
    json.dump({{name + "_threshold": round(float(step), 4) for name, step in steps}}, file)
"""


@pytest.mark.parametrize(
    "name", [name if name == "log_loss" else pytest.param(name, marks=pytest.mark.slow) for name in KINDS]
)
def test_every_form_of_submission_agrees_with_scikit_learn(place: Path, serve: Any, name: str) -> None:
    body, labels = KINDS[name]
    form = written_as(metrics.find(name))
    columns = [f"prob_{label}" for label in labels] if form == "probabilities" else ["kind"]

    def specified(prompt: str) -> str:
        target = {"column": "kind", "meaning": "kind of tree", "labels": labels or None}
        changes = {"metric": {"name": name}, "lower_is_better": name == "log_loss", "target": target}
        features = {"size": {"meaning": "size", "unit": "m", "generation": "uniform"}}
        part = {"id": "tree", "columns": columns}
        return json.dumps(scripted.specification(prompt, **changes, feature_mapping=features, submission=part))

    def generated(prompt: str) -> str:
        rows = json.loads(prompt.split("```json")[1].split("```")[0])["n_samples"]
        ends = (1.0, 0.1) if name == "log_loss" else (0.7, 0.95)
        return python(FORMED.format(rows=rows, form=form, labels=labels, ends=ends))

    page = scripted.PAGE.replace("| `board`", "| `tree`, `size`, `kind`, " + ", ".join(columns)).replace(
        "Lower", "Lower or higher"
    )
    server = serve(
        specification=[specified], developer=[generated], writer=[page.format(metric=name)],
        evaluator=[lambda prompt: scripted.evaluator(prompt, body, tuple(columns), "tree")],
    )  # fmt: skip
    record, reasons = make(place, server)
    assert reasons == [] and record["metric"]["name"] == name
    assert record["submission"]["target"] == columns and record["provenance"]["sanity"]["perfect_submission"] in (
        "passed: scores 0",
        "passed: scores 1",
    )


def test_the_forms_are_those_that_the_metrics_read() -> None:
    for name, form in ((name, written_as(metrics.find(name))) for name in OFFERED):
        found = metrics.METRICS[name]
        assert PARSES.get(form, "number") in found.parse and not found.params.keys() & {"group", "positive"}
        metrics.check({"name": name, "params": {}, "lower_is_better": found.lower_is_better}, PARSES.get(form, "number"), PARSES.get(form, "number"))  # fmt: skip


# --- the page -----------------------------------------------------------------------------------------------------------

PAGES = {
    "answers": (scripted.PAGE + "\nThe true values are in answer.csv.\n", "must not mention answer.csv"),
    "thresholds": (scripted.PAGE + "\nSee threshold.json.\n", "must not mention threshold.json"),
    "rule": (scripted.PAGE + f"\nNote: {scripted.RULE}.\n", "the page tells how the target came about"),
    "rule in other marks": (scripted.PAGE + "\n`dry_days` equals **four times** the `moisture`, plus eleven...\n", "the page tells how the target came about"),
    "column": (scripted.PAGE.replace("knots", "knotholes"), "does not name the column(s) knots"),
    "file": (scripted.PAGE.replace("`sample_submission.csv`", "a sample"), "does not name the file(s) sample_submission.csv"),
    "metric": (scripted.PAGE.replace("{metric}", "the error"), "does not name the metric, mae"),
    "direction": (scripted.PAGE.replace("Lower is better.", ""), "does not say that lower is better"),
    "submission": (scripted.PAGE.replace("./submission.csv", "a file"), "predictions are written to submission.csv"),
    "short": ("# Days", "the page has 6 characters"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_that_says_too_much_or_too_little_is_refused(developed: Any, kind: str) -> None:
    page, told = PAGES[kind]
    wanted, made = developed
    assert told in problem_of(page.format(metric="mae"), wanted, made.environment)
    assert problem_of(scripted.PAGE.format(metric="mae"), wanted, made.environment) == ""


@pytest.mark.slow
def test_a_writer_who_mentions_the_answers_writes_again(place: Path, serve: Any) -> None:
    pages = [PAGES["answers"][0], PAGES["rule"][0], "```markdown\n" + scripted.PAGE + "```"]
    server = serve(writer=[page.format(metric="mae") for page in pages])
    record, _ = make(place, server)
    assert "must not mention answer.csv" in server.fed_back("writer")[0]
    assert "tells how the target came about" in server.fed_back("writer")[1]
    assert record["description"] == scripted.PAGE.format(metric="mae")


# --- the caller's checks, servers that fail, runs that are killed ----------------------------------------------------------


@pytest.mark.slow
def test_what_the_shared_checks_refuse_is_not_written(place: Path, serve: Any) -> None:
    def examine(record: Any, files: Any) -> None:
        raise Rejected("leak: the id predicts the target")

    with pytest.raises(Rejected, match="leak: the id predicts the target"):
        make(place, serve(), examine=examine)
    assert not (place / "data/tasks").exists() and len(journal(place)) == 7


def test_a_dead_server_stops_the_run_and_nothing_is_lost(place: Path, serve: Any) -> None:
    server = serve(evaluator=[Raw(drop)])
    with pytest.raises(ToolError, match="no answer after 1 try") as error:
        make(place, server)
    assert not isinstance(error.value, Rejected)
    assert journal(place)[-1]["reply"] is None and "no answer after 1 try" in journal(place)[-1]["error"]
    alive = serve()
    record, _ = make(place, alive)
    assert alive.count() == {"evaluator": 1, "writer": 1}
    assert record["provenance"]["cost"]["calls"] == 5


def test_a_question_that_the_server_refuses_ends_one_task(place: Path, serve: Any) -> None:
    server = serve(mutations=[Raw(refuse)])
    with pytest.raises(
        Rejected, match=r"strategist\.mutations: the server refuses the question: .*400: the prompt is too long"
    ):
        make(place, server)


KILLED = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
from role_options import options
from mletools.rollout.task_models import open_maker
class Server: url = {url!r}
place = Path({place!r})
with open_maker(options(place, Server()), 5, place / "data") as found:
    for index in range(2):
        found(("llm", index))
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_without_paying_again(place: Path, serve: Any) -> None:
    """It is killed in the middle of a question, after an error was fed back; the journal's last line is torn."""
    broken = python("import json\nprint(json)\nraise ValueError(open)")
    whole = serve(developer=[broken, scripted.generator])
    with maker(place, whole, journal=str(place / "whole.jsonl")) as found:
        expected = [found(("llm", index))[0] for index in range(2)]
    for path in (place / "data/tasks").iterdir():
        path.rename(place / path.name)

    children: list[subprocess.Popen[bytes]] = []

    def kill(handler: Any) -> None:
        children[0].send_signal(signal.SIGKILL)
        drop(handler)

    server = serve(developer=[broken, scripted.generator], evaluator=[Raw(kill), scripted.evaluator])
    code = KILLED.format(paths=[str(TESTS), str(SUPPORT)], url=server.url, place=str(place))
    children.append(subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE))
    assert children[0].wait(timeout=100) == -signal.SIGKILL, children[0].stderr.read().decode()  # type: ignore[union-attr]
    with open(place / "data/roles/journal.jsonl", "ab") as file:
        file.write(b'{"role": "evaluator", "digest": "sha256:12", "reply": "```pyt')
    deadline = time.monotonic() + 20
    while True:
        try:
            with maker(place, server) as found:
                made = [found(("llm", index))[0] for index in range(2)]
            break
        except ToolError as error:  # the kernel has not yet taken the lock from the dead process's children
            assert "another run is writing it" in str(error) and time.monotonic() < deadline
            time.sleep(0.1)
    assert made == expected
    assert sum(server.count().values()) == sum(whole.count().values()) + 1  # the one that nobody answered
    for record in made:
        for file in (place / record["id"]).rglob("*.*"):
            assert (
                place / "data" / record["data"]["dir"] / file.relative_to(place / record["id"])
            ).read_bytes() == file.read_bytes()


# --- opening one --------------------------------------------------------------------------------------------------------


def test_the_journal_belongs_to_one_run(place: Path, serve: Any) -> None:
    server = serve()
    with maker(place, server), pytest.raises(ToolError, match="another run is writing it"), maker(place, server):
        pass


def test_a_spoilt_journal_is_told(place: Path, serve: Any) -> None:
    path = place / "old.jsonl"
    path.write_text('{"digest": "a", "reply": "b"}\nrubbish\n{"digest": "c", "reply": "d"}\n')
    with pytest.raises(ToolError, match=r"old\.jsonl:2: not JSON.*; repair the line or give another --journal"):
        make(place, serve(), journal=str(path))


@pytest.mark.parametrize(
    ("tail", "kept"),
    [
        (b"", 1),
        (b'{"digest": "b", "rep', 1),
        (b"{", 1),
        (b'{"digest": "b", "reply": "c"}', 2),
        (b'{"digest": "b", "reply": null}', 1),
    ],
)
def test_a_journals_torn_last_line_is_cut(tmp_path: Path, tail: bytes, kept: int) -> None:
    path = tmp_path / "deep" / "journal.jsonl"
    path.parent.mkdir()
    path.write_bytes(b'{"digest": "a", "reply": "x"}\n' + tail)
    with Journal(path) as found:
        assert sum(found.find(digest) is not None for digest in ("a", "b", "c")) == kept
        found.append({"digest": "c", "reply": "\u2028", "error": None})
    with Journal(path) as again:
        entry = again.find("c")
        assert entry is not None and entry["reply"] == "\u2028" and path.read_bytes().endswith(b"}\n")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seeds": ()}, "--source llm needs seed tasks: give --seeds"),
        ({"model": None}, "--source llm needs a model: give -m NAME --model-url URL, or -m hf:PATH"),
        ({"model_url": None}, "writer-1: a server's model needs its address"),
    ],
)
def test_what_is_missing_is_told(place: Path, serve: Any, change: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolError) as error:
        make(place, serve(), **change)
    assert str(error.value).startswith(told)


def test_seeds_that_are_no_tasks_are_told(place: Path, serve: Any) -> None:
    (place / "odd.jsonl").write_text('{"kind": "rollout"}\n')
    with pytest.raises(ToolError, match=r"odd\.jsonl:1: this is a rollout, not a task"):
        make(place, serve(), seeds=(str(place / "odd.jsonl"),))
    (place / "seeds/rollouts.jsonl").write_text('{"kind": "rollout"}\n')
    make(place, serve())  # in a folder, other records are passed over
    line = (place / "seeds/tasks.jsonl").read_bytes().splitlines()[0]
    (place / "lost.jsonl").write_bytes(line + b"\n")
    with pytest.raises(ToolError, match=r"lost\.jsonl:1: the task's folder tasks/winery-\w+ lies neither in"):
        make(place, serve(), seeds=(str(place / "lost.jsonl"),))


def test_the_options_arrive_as_one(place: Path) -> None:
    import click
    from click.testing import CliRunner

    seen: list[Any] = []

    @click.command()
    @add_options(LlmOptions, "llm")
    @click.option("--number", default=1)
    def command(number: int, llm: LlmOptions) -> None:
        seen.append((number, llm))

    run = CliRunner().invoke
    seeds = str(place / "seeds")
    done = run(command, ["-m", "x", "--model-url", "http://h", "--seeds", seeds, "--price", "0.5,2", "--number", "3"])
    assert done.exit_code == 0, done.output
    number, llm = seen[0]
    assert number == 3 and llm.seeds == (seeds,) and llm.price == (0.5, 2.0) and llm.max_tokens == 16384
    assert "'1' is not two numbers with a comma between them" in run(command, ["--price", "1"]).output


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("a = 1", "a = 1\n"),
        ("Here:\n```python\na = 1\n```\nDone.", "a = 1\n"),
        ("<think>```python\nb\n```</think>\n~~~py\na = '''\n```\n'''\n~~~", "a = '''\n```\n'''\n"),
        ("````\na = 1\n```\n````", None),
        ("```json\n{}\n```\n```python\na = 1\n```", "a = 1\n"),
        ("```json\n{}\n```", None),
        ("`" * 300_000, None),
        ("-" * 50_000 + "1", None),
        ("x" * 400_001, None),
    ],
)
def test_code_is_found_in_a_reply(reply: str, code: str | None) -> None:
    if code is not None:
        assert replies.code_of(reply) == code
        return
    with pytest.raises(Faulty):
        replies.code_of(reply)


def test_json_and_pages_are_found_in_a_reply() -> None:
    assert replies.json_of('Sure: {"a": [1, {"b": "}"}]} I hope.', dict) == {"a": [1, {"b": "}"}]}
    assert replies.json_of("<think>[0]</think>```json\n[1]\n```", list) == [1]
    assert replies.json_of('Of [a] and {b}:\n```json\n[{"a": [1]}]\n```\nThat is it.', list) == [{"a": [1]}]
    assert replies.json_of('```json\n{"a": 0}\n```\nor rather\n```json\n{"a": 1}\n```', dict) == {"a": 1}
    assert replies.json_of('{"reasoning": "as [1] says", "scenarios": [{"a": 1}]}', list) == [{"a": 1}]
    assert replies.json_of('{"reasoning": "so", "a": [2]}', dict) == {"a": [2]}
    for broken in ('{"a": {"b": 1}, "c": }', '```json\n{"a": {"b": 1}, "c": \n```', '{"a": {"b": 1}, "c": [1, 2'):
        with pytest.raises(Faulty, match="no valid JSON object"):
            replies.json_of(broken, dict)
    for none in ("{}", "", "[]"):
        with pytest.raises(Faulty):
            replies.json_of(none, list if none == "{}" else dict)
    with pytest.raises(Faulty, match="no valid JSON object: nested too deeply"):
        replies.json_of('{"a":' * 50_000 + "}", dict)
    assert replies.page_of("```md\n# A\n\n```\nx\n```\n```") == "# A\n\n```\nx\n```\n"
    assert replies.page_of("# A\n```\nx\n```") == "# A\n```\nx\n```\n"


@pytest.mark.slow
def test_the_command_makes_tasks_with_it(place: Path, serve: Any) -> None:
    server = serve(developer=[python("1 / 0"), scripted.generator])
    arguments = ["--source", "llm", "--seeds", str(place / "seeds"), "-m", "writer-1", "--model-url", server.url]
    done = run_command("mle-gen-task", *arguments, "-n", "2", "-j", "2", "-o", "tasks.jsonl", cwd=place)
    made = records((place / "tasks.jsonl").read_bytes())
    assert made and {record["provenance"]["source"] for record in made} == {"llm"}, done.stderr.decode()
    asked = len(server.asked)
    (place / "tasks.jsonl").unlink()
    run_command("mle-gen-task", *arguments, "-n", "2", "-o", "tasks.jsonl", cwd=place)
    assert records((place / "tasks.jsonl").read_bytes()) == made and len(server.asked) == asked


def test_the_schema_of_the_dna_has_the_fields_that_are_read() -> None:
    asked = answers.schema("strategist.dna")
    assert asked is not None and tuple(asked["required"]) == DNA_KEYS


def test_a_check_that_is_named_drops_alone(place: Path, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(soundness.CHECKS, "learnable", lambda view: "it is not")
    with maker(place, serve()) as found:
        make_task = LlmTasks(found, None, cast(Any, None))
        for dropped_by in ((), ("thresholds_ordered", "learnable")):
            with pytest.raises(NoTask) as raised:
                replace(make_task, dropped_by=dropped_by)(("llm", 0))
            assert [draft.reason for draft in raised.value.dropped] == ["learnable: it is not"]
        made = replace(make_task, dropped_by=("thresholds_ordered",))(("llm", 0))
    sanity = made.record["provenance"]["sanity"]
    assert sanity["learnable"] == "failed: it is not" and sanity["thresholds_ordered"] == "passed"
    with pytest.raises(ValueError, match=r"'learnabel' is none of thresholds_ordered, .*learnable"):
        check_name("learnabel")
