"""The exported folders in real containers without a network: the solution, then the verifier in a box of its own."""

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from code_metric_builders import code_metric_task
from conftest import ROOT, records, run_command
from docker_daemon import Daemon
from import_builders import bench

from mletools.tasks.folder import data_digest

pytestmark = pytest.mark.slow
EXAMPLES = ROOT / "examples" / "tasks"
TASKS = [json.loads(line) for line in (EXAMPLES / "tasks.jsonl").read_text().splitlines()]


class Box:
    """A container, as a reader of the format would use it."""

    def __init__(self, client: Any, image: str) -> None:
        self.container = client.containers.create(
            image, ["sleep", "600"], network_mode="none", mem_limit="2g", working_dir="/workdir"
        )
        self.container.start()
        self.run("mkdir -p /workdir /logs/verifier")

    def run(self, command: str) -> tuple[int, str]:
        code, output = self.container.exec_run(["bash", "-c", command], workdir="/workdir")
        return code, output.decode(errors="replace")

    def put(self, folder: Path, place: str) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(folder, arcname=".")
        self.run(f"mkdir -p {place}")
        assert self.container.put_archive(place, packed.getvalue())

    def write(self, name: str, content: bytes) -> None:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo(Path(name).name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        assert self.container.put_archive(str(Path(name).parent), packed.getvalue())

    def read(self, name: str) -> bytes | None:
        import docker

        try:
            stream, _ = self.container.get_archive(name)
        except docker.errors.NotFound:
            return None
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            file = archive.extractfile(archive.getmembers()[0])
            return None if file is None else file.read()


@pytest.fixture(scope="module")
def boxes(docker_daemon: Daemon) -> Iterator[Any]:
    import docker

    image = docker_daemon.grader
    client = docker.DockerClient(base_url=docker_daemon.host, timeout=300)
    opened: list[Box] = []

    def make() -> Box:
        opened.append(Box(client, image))
        return opened[-1]

    yield make
    for box in opened:
        box.container.remove(force=True)
    client.close()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("exported")
    shutil.copytree(EXAMPLES, place / "tasks")
    bench(place / "prepared", "spaceship-titanic")
    done = run_command("mle-import", "--format", "mle-bench", "prepared", "-o", "imported.jsonl", cwd=place)
    assert done.returncode == 0, done.stderr
    done = run_command("mle-export", "--to", "harbor", "-o", "out", "tasks/tasks.jsonl", "imported.jsonl", cwd=place)
    assert done.returncode == 0, done.stderr
    return place


def graded(boxes: Any, folder: Path, submission: bytes | None) -> dict[str, float]:
    """The reward that a verifier's box gives to an artifact."""
    box = boxes()
    box.put(folder / "tests", "/tests")
    if submission is not None:
        box.write("/workdir/submission.csv", submission)
    code, output = box.run("bash /tests/test.sh")
    assert code == 0, output
    told = box.read("/logs/verifier/reward.json")
    assert told is not None
    found: dict[str, float] = json.loads(told)
    assert all(type(value) is float for value in found.values())
    return found


@pytest.mark.parametrize("which", [*(task["modality"] for task in TASKS), "imported"])
def test_the_solution_earns_in_the_box_what_it_earns_outside(boxes: Any, exported: Path, which: str) -> None:
    if which == "imported":
        task, source = json.loads((exported / "imported.jsonl").read_text()), "imported.jsonl"
    else:
        task, source = next(task for task in TASKS if task["modality"] == which), "tasks/tasks.jsonl"
    folder = exported / "out" / task["id"]
    agent = boxes()
    agent.put(folder / "environment", "/workdir")
    agent.put(folder / "solution", "/solution")
    assert agent.run("ls /tests /logs/verifier/* /sys/class/net")[1].count("No such file") == 2
    code, output = agent.run("bash /solution/solve.sh")
    assert code == 0, output
    submission = agent.read("/workdir/submission.csv")
    assert submission is not None
    inside = graded(boxes, folder, submission)
    (exported / "outside.csv").write_bytes(submission)
    command = ("mle-grade", "--submission", "outside.csv", "--task", source, "--id", task["id"])
    done = run_command(*command, cwd=exported)
    (outside,) = records(done.stdout)
    assert inside["valid"] == 1.0 and inside["score"] == outside["score"]
    medal = ["bronze", "silver", "gold"].index(outside["medal"]) + 1 if outside["medal"] else 0
    assert (inside["reward"], inside["medal"]) == (outside["reward"], medal)


def test_nothing_and_nonsense_get_verdicts(boxes: Any, exported: Path) -> None:
    task = next(task for task in TASKS if task["modality"] == "tabular")
    folder = exported / "out" / task["id"]
    hostile = b"id," + b"9" * 1_000_000 + b"\n\x00\xff,=cmd()\n" + b'"' * 5000
    for left in (None, b"", b"no,thing\n1,2\n", hostile, b"\x1f\x8b" + bytes(100_000)):
        assert graded(boxes, folder, left) == {"reward": 0.1, "valid": 0.0, "above_median": 0.0, "medal": 0.0}


def test_a_hostile_agent_in_the_shared_box_earns_nothing_by_a_link(boxes: Any, exported: Path) -> None:
    task = next(task for task in TASKS if task["modality"] == "tabular")
    box = boxes()
    box.run("ln -s /tests/task/private/answers.csv /workdir/submission.csv; echo 1 > /logs/verifier/reward.json")
    box.put(exported / "out" / task["id"] / "tests", "/tests")
    code, output = box.run("bash /tests/test.sh")
    assert code == 0, output
    told = box.read("/logs/verifier/reward.json")
    assert told is not None and json.loads(told)["valid"] == 0.0


def test_a_reward_that_an_agent_has_planted_does_not_outlive_a_failure_of_the_tool(boxes: Any, exported: Path) -> None:
    task = next(task for task in TASKS if task["modality"] == "tabular")
    box = boxes()
    box.run("echo '{\"reward\": 1.0}' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt")
    box.put(exported / "out" / task["id"] / "tests", "/tests")
    box.run("echo changed > /tests/task/private/answers.csv")
    code, output = box.run("bash /tests/test.sh")
    assert code != 0 and "digest differs" in output
    assert box.read("/logs/verifier/reward.json") is None and box.read("/logs/verifier/reward.txt") is None


def test_a_metric_that_is_code_grades_in_the_box(boxes: Any, tmp_path: Path) -> None:
    """In a sandbox of its own inside the verifier's box, which here has no rights beyond a container's usual ones."""
    source = "from weights import WEIGHT\n\n\ndef grade(submission, answers):\n    return WEIGHT * abs(submission.y - answers.y).mean()\n"
    code_metric_task(
        tmp_path, source, public={"train.csv": "id,y\n3,1\n4,2\n", "sample_submission.csv": "id,y\n1,0\n2,0\n"}
    )
    task = json.loads((tmp_path / "tasks.jsonl").read_text())
    folder = tmp_path / "tasks" / "fish"
    task["data"]["digest"] = data_digest(folder, task["data"]["public"], task["answers"])
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    done = run_command("mle-export", "--to", "harbor", "-o", "out", "tasks.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out" / "fish"
    assert not list((out / "environment").rglob("*.py"))
    assert graded(boxes, out, b"id,y\n1,11\n2,23\n")["score"] == 4.0
    assert graded(boxes, out, b"id,y\n1,11\n")["valid"] == 0.0
