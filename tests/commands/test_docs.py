"""Every block of sh in README.md and docs/*.md is run, page by page, except those whose comment says why not.

A page's blocks run in order in one folder, where inputs of a few rows lie and where `http://gpu:8000` is a server that the
scripted model answers for. STAND_INS is what the pages say and a small machine cannot do, and what is run instead.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, records, run_command
from import_builders import bench, table
from model_server import FaultyServer
from scripted_server import MARKS, RoleServer, good

from mletools.models import Request
from mletools.simulated import ScriptedModel

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(?:<!-- not run: *(?P<reason>.*?) *-->\n)?```sh\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
SECONDS = 300  # that a block may take, on a busy machine

STAND_INS = {
    # places and models
    "http://gpu:8000": "$URL",
    "-m vllm:$policy": "-m my-model --model-url $URL",
    "-m vllm: --follow": "-m my-model --model-url $URL --follow",
    "-m hf: --follow": "-m my-model --model-url $URL --follow",
    "MLE_SANDBOX=docker": "MLE_SANDBOX=local",
    "/shared": "shared",
    " ...": "",
    # sizes
    "-g 16": "-g 4",
    "-g 8": "-g 4",
    "-g 4": "-g 2",
    "--batch 64": "--batch 8 --max-steps 1",
    "--max-seconds 7200": "--max-turns 4",
    "--set paths.width=3": "--set paths.width=3 --max-turns 4",
    "for round in 1 2 3 4": "for round in 1",
    "--selftest": "--selftest --help",  # a minute; tests/sandbox/test_sandbox_command.py runs it
    "--scaffold memory": "--scaffold memory --max-traces 1",
    "--run-dir runs/mle-rl": "--run-dir runs/mle-rl --allow-empty",  # the tiny model's context is too short for a trace
    "-m hf:$MLE_POLICY --implementer": "-m hf:$MLE_POLICY --max-answer-tokens 64 --implementer",  # and for a prompt with 8,192
}

# Which question a prompt asks, by the file that its first line is from.
ROLES = {
    "react-system": "react",
    "codeact-system": "codeact",
    "memory-system": "memory",
    "command": "command",
    **{name: name for name in ("single", "improve", "ideator", "implementer", "idea-type", "instrument")},
    **{
        f"search-{name}": f"search-{name}"
        for name in (
            *("analysis", "challenges", "check", "choose", "crossover", "debug", "draft", "fix"),
            *("hypotheses", "idea", "improve", "lesson", "merge", "select"),
        )
    },
}

# Commands that want a terminal, or another machine.
SHIMS = {
    "less": "exec cat",
    "ssh": 'shift; exec bash -c "$*"',
    "crontab": 'exec cat "$1"',
    "sbatch": """while [[ $1 == -* ]]; do shift; done
for at in 0 1; do SLURM_ARRAY_TASK_ID=$at SLURM_ARRAY_TASK_COUNT=2 bash "$@"; done""",
}


@dataclass(frozen=True)
class Block:
    """A block of sh; reason: why it is not run (None: it is)."""

    code: str
    reason: str | None


def blocks(page: Path) -> list[Block]:
    return [Block(found["code"], found["reason"]) for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def instead(code: str) -> str:
    """The code with what stands in for what it names."""
    names = sorted(STAND_INS, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, names)), lambda found: STAND_INS[found[0]], code)


# ---- without running


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_found_and_every_mark_has_a_reason(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = blocks(page)
    assert len(found) == len(re.findall(r"(?m)^ *```sh", text)), "a block of sh that is never closed, or is indented"
    assert not re.findall(r"(?m)^ *```(?:bash|shell|console|zsh)", text), "sh is what blocks to run are called"
    assert all(block.reason is None or len(block.reason.split()) > 1 for block in found), "a mark without a reason"
    marked = sum(block.reason is not None for block in found)
    assert marked == text.count("<!-- not run"), "a mark that stands above no block"


def test_every_stand_in_is_needed() -> None:
    run = "\n".join(block.code for page in PAGES for block in blocks(page) if block.reason is None)
    assert [name for name in STAND_INS if name not in run] == []


# ---- inputs


def houses(first: int, number: int) -> list[list[Any]]:
    """Rows of Id, area, rooms and SalePrice, which follows from the two, but for some thousands."""
    areas = [40 + at * 37 % 160 for at in range(first, first + number)]
    return [
        [first + at, area, 1 + area // 40, 2000 * area + 9000 * (area // 40) + at * 7919 % 17011]
        for at, area in enumerate(areas)
    ]


def competition(folder: Path) -> None:
    """A competition as Kaggle hands it out, its solution, three submissions and two programs."""
    known, asked = houses(1, 120), houses(1001, 40)
    prices = [[row[0], row[3]] for row in asked]
    files = {
        "house-prices/train.csv": table(["Id", "area", "rooms", "SalePrice"], known),
        "house-prices/test.csv": table(["Id", "area", "rooms"], [row[:3] for row in asked]),
        "house-prices/sample_submission.csv": table(["Id", "SalePrice"], [[row[0], 100_000] for row in asked]),
        "train.csv": table(["area", "rooms", "price"], [row[1:] for row in known]),
        "submission.csv": "id,price\n1,2\n",
        "solution.csv": table(["Id", "SalePrice"], prices),
        "submissions/near.csv": table(["Id", "SalePrice"], [[id, price + 5000] for id, price in prices]),
        "submissions/mean.csv": table(["Id", "SalePrice"], [[id, 250_000] for id, _ in prices]),
        "submissions/short.csv": table(["Id", "SalePrice"], prices[1:]),
        "programs/copy.py": 'text = open("input/sample_submission.csv").read()\nopen("submission.csv", "w").write(text)\n',
        "programs/broken.py": "import nothing_of_the_kind\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def small_model(folder: Path, rollouts: list[Path], context: int = 8192) -> None:
    """An untrained checkpoint whose tokens are phrases of the rollouts' prompts, with room for `context` of them."""
    from mletools.training.tiny import make_tiny

    make_tiny([record for path in rollouts for record in records(path.read_bytes())], folder, "nano")
    for name, key in (("config.json", "max_position_embeddings"), ("tokenizer_config.json", "model_max_length")):
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**settings, key: context}))


def test_the_table_that_ships_is_what_its_script_makes() -> None:
    folder = ROOT / "examples" / "tables"
    made = subprocess.run([sys.executable, folder / "houses.py"], capture_output=True, check=True).stdout
    assert made == (folder / "houses.csv").read_bytes() and len(made) < 100_000


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that pages take for granted."""
    pytest.importorskip("torch", reason="needs the [train] extra")
    folder = tmp_path_factory.mktemp("inputs")
    competition(folder)
    run_command(
        *(
            "mle-gen-task",
            "-n",
            "2",
            "--source",
            "tabular",
            "--samples",
            "50-80",
            "--backend",
            "none",
            "-o",
            "tasks.jsonl",
        ),
        cwd=folder,
    )
    for name, seed in (("before", "0"), ("after", "1")):
        run_command("mle-rollout", "-g", "4", "--seed", seed, "tasks.jsonl", "-o", f"{name}.rollouts", cwd=folder)
    both = (folder / "before.rollouts").read_bytes() + (folder / "after.rollouts").read_bytes()
    executed = run_command("mle-sandbox", "-j", "2", "-k", input=both, cwd=folder).stdout
    lines = run_command("mle-grade", "-k", input=executed, cwd=folder).stdout.splitlines(keepends=True)
    half = len(lines) // 2
    (folder / "before.jsonl").write_bytes(b"".join(lines[:half]))
    (folder / "after.jsonl").write_bytes(b"".join(lines[half:]))
    shutil.copy(folder / "before.jsonl", folder / "graded.jsonl")
    (folder / "before.rollouts").rename(folder / "rollouts.jsonl")
    turns = [folder / f"{scaffold}.turns" for scaffold in ("react", "codeact")]  # whose words it knows, too
    for path in turns:
        run_command("mle-rollout", "-q", "--scaffold", path.stem, "tasks.jsonl", "-o", path.name, cwd=folder)
    small_model(folder / "my-model", [folder / "rollouts.jsonl", *turns])
    for path in turns:
        path.unlink()
    for name in ("my-ideator", "other-model"):
        (folder / name).symlink_to("my-model")
    for name in ("train-states.jsonl", "validation-states.jsonl"):
        (folder / name).symlink_to("states.jsonl")  # which the page's first line writes
    page = (ROOT / "docs" / "search.md").read_text()
    (folder / "fan.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    bench(folder / ".cache" / "mle-bench" / "data")
    (folder / "mle-bench" / "mlebench" / "competitions").mkdir(parents=True)
    (folder / "examples").symlink_to(ROOT / "examples")
    for name in ("shared", "shims"):
        (folder / name).mkdir()
    for name, line in SHIMS.items():
        (folder / "shims" / name).write_text(f"#!/bin/bash\n{line}\n")
        (folder / "shims" / name).chmod(0o755)
    return folder


# ---- the server


class Scripted:
    """The scripted model behind a server: it is told no role and no task, and finds both in the prompt."""

    def __init__(self, folder: Path, roles: RoleServer):
        self.folder, self.roles, self.model = folder, roles, ScriptedModel()
        texts = {name: (ROOT / "mletools" / "prompts" / f"{name}.md").read_text().split("\n") for name in ROLES}
        self.openings = {}
        for name, role in ROLES.items():  # the first line that no other of the prompts has
            others = {line for other in texts if ROLES[other] != role for line in texts[other]}
            own = next(line for line in texts[name] if line.strip() and "{{" not in line and line not in others)
            self.openings[own] = role

    def __call__(self, body: dict[str, Any]) -> str:
        messages = body["messages"]
        told = "\n".join(message["content"] or "" for message in messages)
        if any(mark in told for mark in MARKS.values()):
            said = self.roles.next(messages)
            assert isinstance(said, str)
            return said
        found = [(told.index(opening), role) for opening, role in self.openings.items() if opening in told]
        role = min(found)[1]
        named = re.search(r"(?m)^# Task: (.*)$", told)
        task = self.tasks().get(named[1]) if named else None
        request = Request(
            messages, body.get("seed", 0), body.get("temperature"), 1.0, body["max_tokens"], task, role=role
        )
        return self.model.sample([request])[0].text

    def tasks(self) -> dict[str, dict[str, Any]]:
        """The tasks in the files of the page's folder, by name."""
        found = {}
        for path in self.folder.glob("*.jsonl"):
            for line in path.read_text().split("\n") if path.exists() else ():
                if line.startswith('{"kind": "task"'):
                    task = json.loads(line)
                    found[task["name"]] = task
        return found


@pytest.fixture
def roles() -> Iterator[RoleServer]:
    server = RoleServer(good())
    yield server
    server.close()


# ---- running


def run_block(code: str, folder: Path, url: str) -> tuple[int, str]:
    """(exit code, all that was printed) of a block, which is ended with all that it began when it takes too long."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MLE_", "MAKE", "SLURM_"))}
    environment |= {
        "PATH": f"{folder / 'shims'}:{BIN}:{environment['PATH']}",
        "HOME": str(folder),
        "URL": url,
        "MLE_MODEL_URL": url,
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", instead(code)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        return -1, f"{printed}\nnot done after {SECONDS} s"
    return process.returncode, printed


def shows_what_runs(page: Path) -> bool:
    return any(block.reason is None for block in blocks(page))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in PAGES if shows_what_runs(page)], ids=lambda page: page.name)
def test_the_blocks_of_the_page_work(page: Path, inputs: Path, roles: RoleServer, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    shutil.copytree(inputs, folder, symlinks=True)
    given = {path.name for path in folder.glob("*.jsonl")}
    with FaultyServer(Scripted(folder, roles), strict=True) as server:
        for block in blocks(page):
            if block.reason is None:
                for name in given & set(re.findall(r"-o (\S+)", block.code)):
                    (folder / name).unlink()  # the page makes its own
                    given.remove(name)
                began = time.monotonic()
                code, printed = run_block(block.code, folder, server.url)
                print(f"{time.monotonic() - began:.1f} s\n{instead(block.code)}\n{printed}")
                # an endless pipe ends with its trainer, and the command before finds its reader gone
                assert code == 0 or (code == 141 and "--forever" in block.code), (
                    f"exit code {code}:\n{instead(block.code)}\n{printed[-4000:]}"
                )
